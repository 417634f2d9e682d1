"""The steps of EM by the compiled kernels are those of NumPy, which other tests check."""

import itertools
import tracemalloc
import warnings
from dataclasses import replace
from functools import partial
from operator import attrgetter

import numpy as np
import pytest

from apolar import GaussianMixture
from apolar._core import compiled
from apolar.data import open_rows
from apolar.em.coordinates import LocalCoordinates
from apolar.em.problem import Problem
from apolar.exceptions import FewRowsWarning
from apolar.mixture.families import FAMILIES, conjugate_terms
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import AdaptivePrior, Prior, common_covariance, evidence_of_strengths, log_evidence
from mixtures import FAMILY_NAMES

pytestmark = pytest.mark.skipif(compiled.kernels is None, reason="The kernels are not compiled.")

# The covariances below have condition numbers below a thousand, and iterations end at changes of 1e-12.
TOLERANCE = 1e-9
ARRAYS = attrgetter("weights", "means", "covariances")
PARTLY_SHARED = [name for name in FAMILY_NAMES if FAMILIES[name].shares_part]
PRIORS = {
    "none": lambda *_: None,
    "conjugate": lambda *_: Prior(),
    "given": lambda *_: Prior(0.5, 7.0, 0.2),
    "shrunk": lambda family, stats: AdaptivePrior().adapted_to(family, stats),
}
# Each family under each prior; the sizes take turns.
CASES = [
    (name, prior, n_features)
    for (name, prior), n_features in zip(
        itertools.product(FAMILY_NAMES, PRIORS), itertools.cycle([1, 2, 4, 7, 4]), strict=False
    )
]


def by_numpy(compute):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "has_steps", lambda *_: False)
        return compute()


def assert_same(first, second, tolerance=TOLERANCE):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


def assert_both(compute, tolerance=TOLERANCE):
    """Check that NumPy gives the same arrays as the kernels, and return those of the kernels."""
    first = compute()
    assert_same(first, by_numpy(compute), tolerance)
    return first


def example(name, n_features, *, units=10.0, n_mixtures=3, n_components=3):
    """Return a family, and two batches of statistics of soft parts of clusters, of which one has few rows."""
    rng = np.random.default_rng(n_features)
    labels = rng.integers(n_components, size=60 * n_components)
    shapes = rng.standard_normal((n_components, n_features, n_features)) + 2 * np.eye(n_features)
    X = np.einsum("ni,nij->nj", rng.standard_normal((len(labels), n_features)), shapes[labels])
    X = (X + 3 * rng.standard_normal((n_components, n_features))[labels]) * np.geomspace(1, units, n_features)
    data = Problem(open_rows(X), FAMILIES[name])
    batches = []
    for _ in range(2):
        shares = rng.dirichlet(np.full(n_components, 0.5), size=(n_mixtures, len(X)))
        shares = 0.5 * shares + 0.5 * (labels[:, None] == np.arange(n_components))
        shares[..., -1] *= 0.1
        stats = np.stack([data.soft_stats(share.T).array for share in shares])
        batches.append(SufficientStats(stats, n_features))
    return data.family, *batches


def complete_objective(family, stats, parameters, prior):
    """Return what the M-step maximises, per mixture."""
    expected = np.einsum("...ki,...ki->...", family.natural(parameters), stats.array)
    return expected + family.log_prior(parameters, prior)


@pytest.mark.parametrize(("name", "prior", "n_features"), CASES)
def test_steps_and_coordinates(name, prior, n_features):
    family, before, stats = example(name, n_features)
    assert family.has_compiled_m_step(n_features)
    one, of_one = stats[0], PRIORS[prior](family, stats[0])
    prior = PRIORS[prior](family, stats)
    near = family.m_step(before, prior)
    assert_both(lambda: ARRAYS(family.m_step(stats, prior)))
    after = WhitenedParameters(*assert_both(lambda: ARRAYS(family.m_step(stats, prior, near))))
    # From parameters that are near, an iteration may stop early, but never below them.
    gain = complete_objective(family, stats, after, prior) - complete_objective(family, stats, near, prior)
    assert np.all(gain >= -1e-9)
    assert_both(lambda: (family.natural(after), family.log_prior(after, prior), family.merging_term(stats)))
    coordinates = LocalCoordinates(family, family.m_step(one, of_one), 180.0)
    at_origin = coordinates.retract(coordinates.origin)
    np.testing.assert_allclose(at_origin.covariances, coordinates.centre.covariances, atol=1e-11)
    tangent = 0.5 * np.random.default_rng(0).standard_normal(len(coordinates.origin))
    moved = coordinates.retract(tangent)
    assert_both(lambda: [coordinates.gradient(tangent, moved, one, of_one)])


@pytest.mark.parametrize("name", ["full", "diag", "spherical"])
@pytest.mark.parametrize("n_features", [1, 2, 7])
def test_shrinkage_and_evidence(name, n_features):
    family, _, stats = example(name, n_features)
    for each in (stats, stats[0]):
        terms = conjugate_terms(family, 3, n_features)
        (target,) = assert_both(lambda each=each, terms=terms: [common_covariance(family, each, terms)])
        assert_both(lambda each=each, target=target: [evidence_of_strengths(family, each, target)])
    parameters = family.m_step(stats, AdaptivePrior())
    assert_both(lambda: [log_evidence(family, parameters, stats, np.zeros(3))])


@pytest.mark.parametrize("name", ["EEV", "VEV", "EVE", "VVE"])
def test_units_that_differ_by_orders_of_magnitude(name):
    family, before, stats = example(name, 4, units=1e3)
    for start in (None, family.m_step(before, Prior())):
        first = family.m_step(stats, Prior(), start)
        second = by_numpy(lambda start=start: family.m_step(stats, Prior(), start))
        # Variances differ by a million: eigenvectors are as accurate as rounding relative to the largest.
        assert_same([first.covariances], [second.covariances], 1e-7)
        assert_same(*([complete_objective(family, stats, each, Prior())] for each in (first, second)), 1e-10)


@pytest.mark.parametrize("name", ["EVE", "VVE"])
@pytest.mark.parametrize("seed", range(5))
def test_common_axes_of_covariances_that_share_none(name, seed):
    # A few sweeps from there, or from the better of two starts, end on the way: both ways are the same.
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((4, 5, 12))
    parts = WhitenedParameters(
        rng.dirichlet(np.ones(4)), rng.standard_normal((4, 5)), half @ np.swapaxes(half, -1, -2) / 12
    )
    stats = FAMILIES["full"].moments(parts) * 200
    for near in (None, parts):
        assert_both(lambda near=near: ARRAYS(FAMILIES[name].m_step(stats, None, near)))


@pytest.mark.parametrize("name", FAMILY_NAMES)
@pytest.mark.parametrize("prior", [None, Prior()], ids=["no prior", "prior"])
def test_a_component_of_one_row(name, prior):
    # Without any scatter, axes are arbitrary: what is maximised is not.
    family, _, stats = example(name, 3, n_mixtures=1)
    array = stats.array.copy()
    one_row = WhitenedParameters(np.ones(1), np.ones((1, 3)), np.zeros(family.untied.covariance_shape(1, 3)))
    array[0, 0] = family.untied.moments(one_row).array[0]
    stats = SufficientStats(array, 3)
    found = family.m_step(stats, prior), by_numpy(lambda: family.m_step(stats, prior))
    assert all(each.is_finite for each in found)
    assert_same(*([complete_objective(family, stats, each, prior)] for each in found))


@pytest.mark.parametrize("name", PARTLY_SHARED)
def test_an_empty_component_does_not_change_the_others(name):
    family, _, stats = example(name, 3)
    empty = stats.array * np.array([1.0, 1.0, 1e-200])[:, None]
    (found,) = assert_both(lambda: [family.m_step(SufficientStats(empty, 3), None).covariances])
    others = family.m_step(SufficientStats(empty[:, :2], 3), None).covariances
    # It counts as 1e-10 of all rows.
    np.testing.assert_allclose(found[:, :2], others, atol=1e-8 * np.abs(others).max())


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("name", PARTLY_SHARED)
def test_fewer_rows_than_components_and_columns(name, is_compiled):
    # Without a prior, empty components and flat scatters have no maximum: variances end at their floor.
    for seed in range(5):
        rng = np.random.default_rng(seed)
        data = Problem(open_rows(rng.standard_normal((5, 4))), FAMILIES[name])
        shares = rng.integers(7, size=5) == np.arange(7)[:, None]
        m_step = partial(data.family.m_step, data.soft_stats(shares.astype(float)), None)
        with np.errstate(all="ignore"):
            found = m_step() if is_compiled else by_numpy(m_step)
        assert found.is_finite
        assert data.family.smallest_variance(found.covariances) > 0


@pytest.mark.parametrize("name", ["full", "tied", "EVE", "VVE", "EEV", "VEV"])
def test_variances_below_their_floor_need_no_numpy(monkeypatch, name):
    # Fewer rows than columns: each step of a fit ends at the floor, and common axes take NumPy a minute.
    family, rows = FAMILIES[name], np.random.default_rng(0).standard_normal((9, 9))
    stats = Problem(open_rows(rows), family).soft_stats(np.arange(9) % 3 == np.arange(3)[:, None])
    by_numpy_alone = by_numpy(lambda: family.m_step(stats, None))
    monkeypatch.setattr(type(family), "covariances_maximising", None)
    found = family.m_step(stats, None)
    np.testing.assert_allclose(family.smallest_variance(found.covariances), family.min_variance, rtol=1e-6)
    # Variances at the floor are as accurate as rounding relative to the largest: 1e-16 / 1e-8.
    assert_same(*(family.natural(each) for each in (found, by_numpy_alone)), 1e-6)


@pytest.mark.parametrize("name", PARTLY_SHARED)
def test_the_nearest_covariances_of_a_family(name):
    rng = np.random.default_rng(0)
    family = FAMILIES[name]
    half = rng.standard_normal((3, 4, 9))
    covariances = half @ np.swapaxes(half, -1, -2)
    if family.n_axes == 1:
        covariances = np.diagonal(covariances, axis1=-2, axis2=-1)
    weights = rng.dirichlet(np.ones(3))
    nearest = assert_both(lambda: family.projected(covariances, weights))
    # It is a member of the family: the one nearest to itself.
    assert_same(family.projected(nearest, weights), nearest)


def test_what_is_not_positive_definite_not_finite_or_not_known_is_left_to_numpy():
    full = FAMILIES["full"]
    assert not replace(FAMILIES["VEE"], name="other", code="its own").has_compiled_m_step(3)
    assert compiled.take_step("inverses", (np.diag([1.0, -1.0])[None],), ((1, 2, 2), (1,)), 2) is None
    assert_both(lambda: full.floored(np.diag([1.0, -1.0, 1.0])[None]))
    for name in FAMILY_NAMES:
        family, _, stats = example(name, 3)
        # Of a batch, one that is not finite does not end the others.
        lost = SufficientStats(stats.array * np.array([1.0, np.nan, 1.0])[:, None, None], 3)
        with np.errstate(all="ignore"):
            found = family.m_step(lost, None)
            assert [found[i].is_finite for i in range(3)] == [True, False, True]


def test_many_columns():
    # The size of matrices is bounded, and families without matrices take more columns than that.
    labels = np.arange(8) % 2
    X = 5 * labels[:, None] + np.random.default_rng(0).standard_normal((8, 40_000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewRowsWarning)
        model = GaussianMixture(2, covariance_type="VVI", init_params=labels, tol=1.0).fit(X)
    np.testing.assert_array_equal(model.predict(X), labels)


@pytest.mark.parametrize("name", ["diag", "spherical"])
def test_families_without_matrices_need_no_matrix(name):
    X = np.random.default_rng(0).standard_normal((8, 4000))
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewRowsWarning)
            GaussianMixture(2, covariance_type=name, random_state=0).fit(X)
        # A matrix would be 4,000 times as large as a row, of which there are some hundred.
        assert tracemalloc.get_traced_memory()[1] < 1000 * X[0].nbytes
    finally:
        tracemalloc.stop()
