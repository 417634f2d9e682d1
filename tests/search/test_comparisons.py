"""Mergers, compared by the compiled kernels and by NumPy."""

import numpy as np
import pytest

from apolar._core import compiled
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.mixture.families import family
from apolar.mixture.prior import Prior
from apolar.search import merging
from apolar.search.merging import Densities, MergeCosts, greedily_merged_stats
from mixtures import pairs

pytestmark = pytest.mark.skipif(compiled.kernels is None, reason="The kernels are not compiled.")

FAMILY_NAMES = ["full", "tied", "diag", "spherical"]
each_case = pytest.mark.parametrize(("name", "is_weighted"), pairs(FAMILY_NAMES, [True, False, False]))


def without_kernels(compute):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_row_stats", lambda *_: None)
        patch.setattr(compiled, "has_steps", lambda *_: False)
        return compute()


def example(name, *, is_weighted):
    """Return rows of four clusters, in a number that is no multiple of a vector, and twelve components."""
    rng = np.random.default_rng(0)
    X = 3 * rng.standard_normal((4, 3))[rng.integers(4, size=517)] + rng.standard_normal((517, 3))
    weights = rng.integers(1, 4, size=517).astype(float) if is_weighted else None
    data = Problem(open_rows(X, weights), family(name))
    return data, data.family.m_step(data.hard_stats(rng.integers(12, size=517), 12), Prior())


@each_case
def test_costs_of_mergers(name, is_weighted):
    data, parameters = example(name, is_weighted=is_weighted)
    natural = data.family.natural(parameters)
    first, second = np.triu_indices(12, 1)
    merged = np.random.default_rng(1).permutation(natural.repeat(6, axis=0))[: len(first)]
    for compared in (slice(None), slice(None, None, 3)):
        here = Densities(data, compared, natural)
        assert here.row_stats is not None
        there = without_kernels(lambda compared=compared: Densities(data, compared, natural))
        for _ in range(2):
            # The exponential and the logarithm of the kernels have errors of 2e-10.
            np.testing.assert_allclose(
                here.costs(first, second, merged), there.costs(first, second, merged), rtol=1e-6, atol=1e-4
            )
            here.merge(2, 5, merged[:1])
            there.merge(2, 5, merged[:1])


@each_case
def test_merged_components(name, is_weighted):
    data, parameters = example(name, is_weighted=is_weighted)
    here = MergeCosts(data, parameters).merged_stats(5)
    there = without_kernels(lambda: MergeCosts(data, parameters).merged_stats(5))
    # The same components are merged; their statistics are sums of the same numbers.
    np.testing.assert_allclose(here.array, there.array, rtol=1e-9, atol=1e-9 * data.weight)


def test_components_merged_by_terms():
    data, _ = example("full", is_weighted=False)
    stats = data.hard_stats(np.random.default_rng(2).integers(12, size=517), 12)
    here = greedily_merged_stats(data.family, stats, 4)
    there = without_kernels(lambda: greedily_merged_stats(data.family, stats, 4))
    np.testing.assert_allclose(here.array, there.array, rtol=1e-12)
    # Components of one row have no covariance: NumPy raises it to the floor.
    single = data.hard_stats(np.arange(517) % 300, 300)[:9]
    merged = greedily_merged_stats(data.family, single, 4)
    np.testing.assert_allclose(merged.array.sum(axis=0), single.array.sum(axis=0), rtol=1e-12)
