"""Runs of plain EM by the extension are those of NumPy, and of steps that are taken one by one."""

from types import SimpleNamespace

import numpy as np
import pytest

from apolar._core import compiled
from apolar._core.constants import MAX_FALL, MIN_PART
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.run import Stop, run
from apolar.mixture.families import FAMILIES
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, batch
from apolar.mixture.prior import Prior
from mixtures import FAMILY_NAMES, pairs

needs_kernels = pytest.mark.skipif(compiled.kernels is None, reason="The kernels are not compiled.")
# Rounding errors grow from step to step, where a run has not converged; they do not reach this.
TOLERANCE = 1e-9


def clusters(n_features, n_rows=90, n_clusters=3, seed=0):
    """Return rows of clusters of different covariances, in units that differ tenfold, and labels."""
    rng = np.random.default_rng([seed, n_features])
    labels = rng.integers(n_clusters, size=n_rows)
    shapes = rng.standard_normal((n_clusters, n_features, n_features)) + 2 * np.eye(n_features)
    centres = 4 * rng.standard_normal((n_clusters, n_features))
    rows = np.einsum("ni,nij->nj", rng.standard_normal((n_rows, n_features)), shapes[labels])
    return (rows + centres[labels]) * np.geomspace(1, 10, n_features), labels


def example(name, n_features, *, n_components=3, n_mixtures=2, weights=None):
    """Return rows and starts that are not far from the clusters."""
    X, labels = clusters(n_features)
    data = Problem(open_rows(X, weights), FAMILIES[name])
    rng, starts = np.random.default_rng(1), []
    for _ in range(n_mixtures):
        noise = rng.dirichlet(np.ones(n_components), len(X)).T
        share = 0.7 * (labels % n_components == np.arange(n_components)[:, None]) + 0.3 * noise
        starts.append(data.family.m_step(data.soft_stats(share), Prior()))
    return data, batch(starts)


def plain_runs(data, starts, prior, *, n_steps, relative_tol):
    """Return the ends of runs from a batch of mixtures, as arrays."""
    fits = [Fit(starts[i], "") for i in range(len(starts.weights))]
    return as_arrays(data, run(data, fits, prior, Stop(n_steps, relative_tol)))


def as_arrays(data, ends):
    arrays = {
        name: np.array([getattr(end, name) for end in ends])
        for name in ("log_likelihood", "objective", "n_iter", "is_collapsed")
    }
    stats = SufficientStats(np.stack([end.stats.array for end in ends]), data.n_features)
    return SimpleNamespace(parameters=batch([end.parameters for end in ends]), stats=stats, **arrays)


def is_at_floor(data, stats, prior, parameters):
    """Return whether a variance of an M-step is at its floor, or not finite."""
    family, estimates = data.family, [parameters]
    if family.code in ("VEE", "EVV"):
        # These give any scatter a volume that others have: one that is flat shows without that.
        estimates.append(FAMILIES["full" if family.code == "EVV" else "tied"].m_step(stats, prior))
    least = (1 + 1e-6) * family.min_variance
    return not all(one.is_finite and family.smallest_variance(one.covariances) > least for one in estimates)


def plain_run(data, start, prior, n_steps, relative_tol):
    """Return the end of plain steps of one mixture, written out: what one call of the extension does."""
    family, before, n_components = data.family, -np.inf, len(start.weights)
    stats = SufficientStats(np.zeros((n_components, data.n_stats)), data.n_features)
    last = Fit(start, "", stats=stats, is_collapsed=True)
    for step in range(1, n_steps + 1):
        if not start.is_finite or not family.smallest_variance(start.covariances) > 0:
            return last
        stats, log_likelihood = data.e_step(start[None])
        value = float((log_likelihood + family.log_prior(start[None], prior))[0])
        # The first step may bring a start to the family; later ones do not fall, unless rounding decides.
        if not np.isfinite(value) or (step > 2 and value < before - MAX_FALL * (1 + abs(value))):
            return last
        of_step = {"log_likelihood": float(log_likelihood[0]), "objective": value, "n_iter": step}
        last = last.updated(parameters=start, stats=stats[0], **of_step)
        if abs(value - before) <= relative_tol * (1 + abs(value)):
            return last.updated(is_collapsed=False)
        if not stats[0].counts.min() > MIN_PART * stats[0].counts.sum():
            return last
        before = value
        if step < n_steps:
            start = family.m_step(stats[0], prior, start)
            if is_at_floor(data, stats[0], prior, start):
                return last
    return last.updated(is_collapsed=False)


def by_numpy(data, starts, prior, *, n_steps, relative_tol):
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(compiled, "has_steps", lambda *_: False)
        mixtures = [starts[i] for i in range(len(starts.weights))]
        return as_arrays(data, [plain_run(data, each, prior, n_steps, relative_tol) for each in mixtures])


def assert_same_runs(data, starts, prior, n_steps):
    """Check runs of the extension against those of NumPy; return the former."""
    stop = {"n_steps": n_steps, "relative_tol": 0.0}
    first, second = plain_runs(data, starts, prior, **stop), by_numpy(data, starts, prior, **stop)
    np.testing.assert_array_equal(first.n_iter, second.n_iter)
    np.testing.assert_array_equal(first.is_collapsed, second.is_collapsed)
    np.testing.assert_allclose(first.log_likelihood, second.log_likelihood, rtol=TOLERANCE)
    np.testing.assert_allclose(first.objective, second.objective, rtol=TOLERANCE)
    for what in ("weights", "means", "covariances"):
        a, b = getattr(first.parameters, what), getattr(second.parameters, what)
        np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * np.abs(b).max())
    a, b = first.stats.array, second.stats.array
    np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * np.abs(b).max())
    return first


@needs_kernels
@pytest.mark.parametrize(
    ("name", "n_features", "prior"), pairs(3 * FAMILY_NAMES, [1, 2, 4, 7, 3], [None, Prior(), Prior()])
)
def test_the_extension_does_what_numpy_does(name, n_features, prior):
    data, starts = example(name, n_features)
    assert not assert_same_runs(data, starts, prior, 4 if n_features > 4 else 8).is_collapsed.any()


@needs_kernels
@pytest.mark.parametrize("name", ["spherical", "diag", "VEI", "EVI", "EVE", "tied", "full"])
def test_many_rows_and_columns_weights_and_priors(name):
    family = FAMILIES[name]
    if family.is_axis_aligned or name == "EVE":
        # Matrices of as many columns are left to LAPACK, but for those whose axes are found by iteration.
        assert family.has_compiled_m_step(40)
        assert not FAMILIES["full"].has_compiled_m_step(40)
        assert_same_runs(*example(name, 40), Prior(), 3)
    weights = np.random.default_rng(3).uniform(0.5, 2.0, 90)
    data, starts = example(name, 3, n_mixtures=5, weights=weights)
    assert_same_runs(data, starts, Prior(), 6)
    # So many rows are summed in parts.
    X, _ = clusters(2, n_rows=5000)
    data = Problem(open_rows(X), family)
    start = family.m_step(data.soft_stats(np.random.default_rng(0).dirichlet(np.ones(3), 5000).T), None)
    assert_same_runs(data, start[None], None, 3)


@needs_kernels
@pytest.mark.parametrize("name", ["full", "diag", "spherical", "VEI", "VEE", "VVE", "EVV"])
def test_a_component_of_one_row_collapses(name):
    data, starts = example(name, 3, n_components=4, n_mixtures=1)
    rows = data.whitened_rows().T
    means, weights = starts.means.copy(), starts.weights.copy()
    far = np.argmax(np.square(rows).sum(axis=1))
    means[0, 0], weights[0, 0] = rows[far], 0.02
    covariances = starts.covariances.copy()
    covariances[0, 0] *= 1e-4
    start = WhitenedParameters(weights, means, covariances)
    found = plain_runs(data, start, None, n_steps=100, relative_tol=1e-12)
    assert found.is_collapsed[0]
    assert found.n_iter[0] < 100
    assert found.parameters.is_finite
    assert np.isfinite(found.log_likelihood[0])
    # So does one without any row.
    means[0, 0] = 1e3
    start = WhitenedParameters(weights, means, starts.covariances)
    found = plain_runs(data, start, Prior(), n_steps=5, relative_tol=0.0)
    assert found.is_collapsed[0]
    assert found.n_iter[0] == 1


@pytest.mark.parametrize("name", ["full", "diag", "spherical", "VVE"])
@needs_kernels
def test_starts_without_a_density_are_said_to_be_collapsed(name):
    data, starts = example(name, 2, n_mixtures=4)
    means, covariances = starts.means.copy(), starts.covariances.copy()
    means[0] = np.nan
    covariances[1] = np.inf
    covariances[2] = -1.0
    bad = WhitenedParameters(starts.weights, means, covariances)
    found = plain_runs(data, bad, Prior(), n_steps=5, relative_tol=0.0)
    np.testing.assert_array_equal(found.is_collapsed, [True, True, True, False])
    np.testing.assert_array_equal(found.n_iter, [0, 0, 0, 5])
    assert np.all(np.isneginf(found.log_likelihood[:3]))
