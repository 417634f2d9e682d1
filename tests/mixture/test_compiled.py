"""The compiled steps of EM compute what NumPy does."""

from contextlib import contextmanager

import numpy as np
import pytest

from apolar.data import open_rows
from apolar.em.coordinates import LocalCoordinates
from apolar.em.problem import Problem
from apolar.mixture import compiled_steps
from apolar.mixture.evidence import log_evidence
from apolar.mixture.families import family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.shrinkage import AdaptivePrior, common_covariance, evidence_of_strengths

pytestmark = pytest.mark.skipif(compiled_steps.kernels is None, reason="The kernels are not compiled.")

# The covariances below have condition numbers below a thousand.
TOLERANCE = 1e-10
PRIORS = {
    "none": lambda *_: None,
    "conjugate": lambda *_: Prior(),
    "given": lambda *_: Prior(0.5, 7.0, 0.2),
    "shrunk": lambda stats, each: AdaptivePrior().adapted_to(each, stats),
}
NAMES = ["full", "diag", "spherical", "tied", "tied_diag"]


@contextmanager
def without_kernels():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_steps, "kernels", None)
        yield


def both(compute):
    """Return what a function gives with the kernels, and without."""
    with_kernels = compute()
    with without_kernels():
        return with_kernels, compute()


def assert_same(compute):
    first, second = both(compute)
    for a, b in zip(np.atleast_1d(first), np.atleast_1d(second), strict=True):
        np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * np.abs(b).max())


def example_stats(n_features, name="full", n_mixtures=3, n_components=4):
    """Return statistics of random parts of correlated rows: one part of each mixture has few rows."""
    rng = np.random.default_rng(n_features)
    X = rng.standard_normal((60 * n_components, n_features)) @ rng.standard_normal((n_features, n_features))
    data = Problem(open_rows(X + rng.integers(3, size=(len(X), 1))), family(name))
    shares = rng.dirichlet(np.full(n_components, 0.5), size=(n_mixtures, len(X)))
    shares[..., -1] *= 0.05
    stats = [data.soft_stats(share.T) for share in shares]
    return SufficientStats(np.stack([each.array for each in stats]), n_features), data


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prior_name", PRIORS)
@pytest.mark.parametrize("n_features", [1, 2, 5, 11])
def test_steps(name, prior_name, n_features):
    chosen = family(name)
    stats, data = example_stats(n_features, name)
    for each in (stats, stats[0]):
        prior = PRIORS[prior_name](each, chosen)
        for what in ("weights", "means", "covariances"):
            assert_same(lambda each=each, prior=prior, what=what: getattr(chosen.m_step(each, prior), what))
        parameters = chosen.m_step(each, prior)
        assert_same(lambda parameters=parameters: chosen.natural(parameters))
        assert_same(lambda each=each: chosen.merging_term(each))
    prior = PRIORS[prior_name](stats, chosen)
    assert_same(lambda: chosen.log_prior(chosen.m_step(stats, prior), prior))
    # The gradient away from the centre of the coordinates.
    one, prior = stats[0], PRIORS[prior_name](stats[0], chosen)
    parameters = chosen.m_step(one, prior)
    coordinates = LocalCoordinates(chosen, parameters, data.weight)
    tangent = np.random.default_rng(0).standard_normal(len(coordinates.origin))
    assert_same(lambda: coordinates.retract(tangent).covariances)
    moved = coordinates.retract(tangent)
    assert_same(lambda: coordinates.gradient(tangent, moved, one, prior))


@pytest.mark.parametrize("name", ["full", "diag", "spherical"])
@pytest.mark.parametrize("n_features", [1, 2, 5, 11])
def test_shrinkage_and_evidence(name, n_features):
    chosen, prior = family(name), AdaptivePrior()
    stats, _ = example_stats(n_features, name)
    for each in (stats, stats[0]):
        target = common_covariance(chosen, each, prior)
        assert_same(lambda each=each: common_covariance(chosen, each, prior))
        for i in (0, 1):
            assert_same(lambda i=i, each=each, target=target: evidence_of_strengths(chosen, each, target)[i])
    parameters = chosen.m_step(stats, prior)
    assert_same(lambda: log_evidence(chosen, parameters, stats, np.zeros(3)))


@pytest.mark.parametrize("name", ["full", "tied"])
def test_covariances(name):
    rng = np.random.default_rng(0)
    half = rng.standard_normal((2, 3, 4, 9))
    covariances, scatter = half @ np.swapaxes(half, -1, -2), rng.standard_normal((2, 3, 4, 4))
    for method in ("precisions", "floored"):
        assert_same(lambda method=method: getattr(family(name), method)(covariances))
    assert_same(lambda: family(name).log_det(covariances, 4))
    assert_same(lambda: family(name).trace_ratio(scatter, covariances))


def test_matrices_that_are_not_positive_definite_are_left_to_numpy():
    full = family("full")
    stats, _ = example_stats(3)
    flat = stats.array.copy()
    # A component of one row has no scatter: its variances are raised to the floor.
    flat[0, 0] = full.moments(WhitenedParameters(np.ones(1), np.ones((1, 3)), np.zeros((1, 3, 3)))).array[0]
    for array in (flat, np.full_like(flat, np.nan)):
        each = SufficientStats(array, 3)
        assert compiled_steps.m_step(full, each, None, None) is None
        assert compiled_steps.merging_terms(each, full.min_variance) is None
        assert_same(lambda each=each: full.m_step(each, None).covariances)
    indefinite = np.diag([1.0, -1.0, 1.0])[None]
    assert compiled_steps.inverses(indefinite) is None
    assert_same(lambda: full.floored(indefinite))


def test_arrays_of_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="wrong sizes"):
        compiled_steps.kernels.natural(np.ones(2), np.ones((2, 3)), np.ones((2, 3, 3)), np.ones(4), 3, 2)
    with pytest.raises(TypeError, match="arguments are needed"):
        compiled_steps.kernels.inverses(np.ones((2, 2)))
    with pytest.raises(ValueError, match="contiguous"):
        compiled_steps.kernels.inverses(np.ones((4, 4)).T[::2], np.ones((2, 2, 2)), np.ones(2), 2)
