"""The compiled M-steps of families that share covariances, or parts of them, against those of NumPy."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from apolar import GaussianMixture
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.exceptions import FewRowsWarning
from apolar.mixture import compiled_steps
from apolar.mixture.families import FAMILIES
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior
from mixtures import FAMILY_NAMES

pytestmark = pytest.mark.skipif(compiled_steps.kernels is None, reason="The kernels are not compiled.")

# The covariances below have condition numbers below a thousand, and iterations end at changes of 1e-12.
TOLERANCE = 1e-9
each_family = pytest.mark.parametrize("name", FAMILY_NAMES)
each_prior = pytest.mark.parametrize("prior", [None, Prior()], ids=["no prior", "prior"])


def example(name, n_features, *, units=10.0, n_mixtures=3, n_components=3):
    """Return statistics of soft parts of clusters, of which one has few rows, in two batches."""
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


def by_numpy(compute):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_steps, "kernels", None)
        return compute()


def assert_same(first, second, tolerance=TOLERANCE):
    np.testing.assert_allclose(first, second, rtol=tolerance, atol=tolerance * np.abs(second).max())


def complete_objective(family, stats, parameters, prior):
    """Return what the M-step maximises, per mixture."""
    expected = np.einsum("...ki,...ki->...", family.natural(parameters), stats.array)
    return expected + family.log_prior(parameters, prior)


@each_family
@each_prior
@pytest.mark.parametrize("n_features", [1, 2, 4, 7])
def test_m_steps(name, prior, n_features):
    family, before, stats = example(name, n_features)
    assert compiled_steps.code_of(family, n_features) == family.code
    near = family.m_step(before, prior)
    for index in (slice(None), 0):
        for start in (None, near[index]):
            first = family.m_step(stats[index], prior, start)
            second = by_numpy(lambda index=index, start=start: family.m_step(stats[index], prior, start))
            for what in ("weights", "means", "covariances"):
                assert_same(getattr(first, what), getattr(second, what))
        # From parameters that are near, an iteration may stop early, but never below them.
        gain = complete_objective(family, stats[index], first, prior)
        gain = gain - complete_objective(family, stats[index], near[index], prior)
        assert np.all(gain >= -1e-9)


@pytest.mark.parametrize("name", ["EEV", "VEV", "EVE", "VVE"])
def test_units_that_differ_by_orders_of_magnitude(name):
    family, before, stats = example(name, 4, units=1e3)
    near = family.m_step(before, Prior())
    for start in (None, near):
        first = family.m_step(stats, Prior(), start)
        second = by_numpy(lambda start=start: family.m_step(stats, Prior(), start))
        # Variances differ by a million: eigenvectors are as accurate as rounding relative to the largest.
        assert_same(first.covariances, second.covariances, 1e-7)
        objectives = [complete_objective(family, stats, each, Prior()) for each in (first, second)]
        assert_same(*objectives, 1e-10)


@each_family
@each_prior
def test_a_component_of_one_row(name, prior):
    # Without any scatter, axes are arbitrary: what is maximised is not.
    family, _, stats = example(name, 3, n_mixtures=1)
    array = stats.array.copy()
    one_row = WhitenedParameters(np.ones(1), np.ones((1, 3)), np.zeros(family.untied.covariance_shape(1, 3)))
    array[0, 0] = family.untied.moments(one_row).array[0]
    stats = SufficientStats(array, 3)
    first = family.m_step(stats, prior)
    second = by_numpy(lambda: family.m_step(stats, prior))
    assert first.is_finite
    assert second.is_finite
    objectives = [complete_objective(family, stats, each, prior) for each in (first, second)]
    assert_same(*objectives)


@pytest.mark.parametrize("name", ["VEI", "EVI", "VEE", "EVV", "EEV", "VEV", "EVE", "VVE"])
def test_the_nearest_covariances_of_a_family(name):
    rng = np.random.default_rng(0)
    family = FAMILIES[name]
    half = rng.standard_normal((3, 4, 9))
    covariances = half @ np.swapaxes(half, -1, -2)
    if family.n_axes == 1:
        covariances = np.diagonal(covariances, axis1=-2, axis2=-1)
    weights = rng.dirichlet(np.ones(3))
    nearest = family.projected(covariances, weights)
    assert_same(nearest, by_numpy(lambda: family.projected(covariances, weights)))
    # It is a member of the family: the one nearest to itself.
    assert_same(family.projected(nearest, weights), nearest)


def test_what_is_not_finite_is_left_to_numpy():
    for name in FAMILY_NAMES:
        family, _, stats = example(name, 3)
        bad = SufficientStats(np.full_like(stats.array, np.nan), 3)
        known = compiled_steps.m_step(family, bad, None, None)
        assert known is None or not np.isfinite(known[1]).any()


def test_families_that_the_kernels_do_not_know_are_left_to_numpy():
    other = replace(FAMILIES["VEE"], name="other", code="its own")
    assert compiled_steps.code_of(other, 3) is None
    assert compiled_steps.code_of(FAMILIES["VEE"], 3) == "VEE"


def test_arrays_of_wrong_sizes_are_refused():
    none, kernels = np.empty(0), compiled_steps.kernels
    ones = np.ones((2, 3, 3))
    with pytest.raises(ValueError, match="No such family"):
        kernels.maximising(ones, np.ones(2), none, none, none, ones.copy(), "XYZ", 3, 2, 0.0)
    with pytest.raises(ValueError, match="too large"):
        kernels.maximising(ones, np.ones(2), none, none, none, ones.copy(), "VEE", 2**15, 2, 0.0)
    with pytest.raises(ValueError, match="wrong sizes"):
        kernels.maximising(ones, np.ones(2), none, np.ones(4), none, ones.copy(), "VVE", 3, 2, 0.0)
    with pytest.raises(ValueError, match="wrong sizes"):
        kernels.maximising(ones, np.ones(2), np.ones(5), none, none, ones.copy(), "VEE", 3, 2, 0.0)
    with pytest.raises(ValueError, match="wrong sizes"):
        kernels.family_m_step(
            *(np.ones((2, 10)), none, none, none, none, none, np.ones((2, 3)), np.ones((2, 3))),
            *("EVI", 3, 2, 0.0, 0.0, 0.0),
        )
    outputs = np.ones(2), np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 7)), np.ones(3)
    with pytest.raises(ValueError, match="wrong sizes"):
        kernels.plain_run(
            *(np.ones((3, 8)), np.ones(7), none, none, none, none, *outputs),
            *("EVI", 3, 2, 0.0, 0.0, 0.0, 0.0, 1024, 5, 0.0),
        )
    with pytest.raises(TypeError, match="arguments are needed"):
        kernels.plain_run(np.ones((3, 8)))


@pytest.mark.parametrize("name", ["EII", "VVI"])
def test_many_columns(name):
    # The size of matrices is bounded, and families without matrices take more columns than that.
    means = 5 * np.arange(2)[:, None] + np.zeros(40_000)
    X = means[np.arange(8) % 2] + np.random.default_rng(0).standard_normal((8, 40_000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewRowsWarning)
        model = GaussianMixture(2, covariance_type=name, random_state=0).fit(X)
    labels = model.predict(X)
    np.testing.assert_array_equal(labels == labels[0], np.arange(8) % 2 == 0)


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("name", ["VEI", "EVI", "VEE", "EVV", "EEV", "VEV", "EVE", "VVE"])
def test_fewer_rows_than_components_and_columns(name, is_compiled):
    # Without a prior, empty components and flat scatters have no maximum: variances end at their floor.
    for seed in range(5):
        rng = np.random.default_rng(seed)
        data = Problem(open_rows(rng.standard_normal((5, 4))), FAMILIES[name])
        shares = rng.integers(7, size=5) == np.arange(7)[:, None]
        stats = data.soft_stats(shares.astype(float))
        m_step = partial(data.family.m_step, stats, None)
        with np.errstate(all="ignore"):
            found = m_step() if is_compiled else by_numpy(m_step)
        assert found.is_finite
        assert data.family.smallest_variance(found.covariances) > 0
