"""Merge trees by the compiled kernels and by NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apolar.starts import mbhc
from kernel_sums import needs_kernels

pytestmark = needs_kernels

laws = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31)


def both(X, criterion, sizes=None):
    return mbhc._compiled_tree(X, criterion, sizes), mbhc._numpy_tree(X, criterion, sizes)


@laws
@given(
    st.sampled_from(["VII", "EII"]),
    st.integers(2, 60) | st.just(400),
    st.integers(1, 10),
    st.booleans(),
    seeds,
)
def test_trees_of_rows_without_ties(criterion, n_samples, n_features, has_sizes, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    sizes = rng.integers(1, 5, n_samples).astype(float) if has_sizes else None
    here, there = both(X, criterion, sizes)
    np.testing.assert_array_equal(here.merges, there.merges)
    # Costs are differences of terms of up to 1e4, which loses four digits.
    np.testing.assert_allclose(here.costs, there.costs, rtol=1e-11, atol=1e-11)


@laws
@given(st.integers(1, 60), st.integers(1, 10), st.sampled_from([0, 1]), st.booleans(), seeds)
def test_trees_of_rows_with_ties_under_one_variance(n_samples, n_features, n_decimals, has_sizes, seed):
    # There is no logarithm in these costs: they are the same to the last bit, and so are ties.
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n_samples, n_features)), n_decimals)
    sizes = rng.integers(1, 5, n_samples).astype(float) if has_sizes else None
    here, there = both(X, "EII", sizes)
    np.testing.assert_array_equal(here.merges, there.merges)
    np.testing.assert_array_equal(here.costs, there.costs)


@pytest.mark.parametrize("criterion", ["VII", "EII"])
def test_rows_that_overflow_end_in_some_tree(criterion):
    X = np.random.default_rng(0).standard_normal((50, 3)) * 1e200
    with np.errstate(all="ignore"):
        tree = mbhc._compiled_tree(X, criterion, None)
    assert sorted(tree.merges[:, 1]) == list(range(1, 50))


@pytest.mark.parametrize("criterion", ["VII", "EII"])
def test_rows_without_columns_are_equal(criterion):
    here, there = both(np.empty((5, 0)), criterion)
    np.testing.assert_array_equal(here.merges, there.merges)
    np.testing.assert_array_equal(here.costs, there.costs)
