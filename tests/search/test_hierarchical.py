"""Model-based hierarchical clustering: mclust's merges, ties, degenerate data."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage

from apolar._core import compiled
from apolar.search.hierarchical import TREE_FAMILIES, merge_tree
from references import FOLDER, table

CASES = ["iris_VII", "iris_EII", "diabetes_VII", "ex1_seed1_VII"]

laws = settings(max_examples=15, deadline=None, derandomize=True)
criteria = st.sampled_from(sorted(TREE_FAMILIES))
compiled_criteria = st.sampled_from(["EII", "VII"])
seeds = st.integers(0, 2**31)
needs_kernels = pytest.mark.skipif(compiled.kernels is None, reason="The kernels are not compiled.")


@pytest.fixture(params=[pytest.param("compiled", marks=needs_kernels), "numpy"], scope="module", autouse=True)
def way(request):
    """How trees are built: by the compiled kernels, or by NumPy."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(compiled, "kernels", None)
        yield request.param


def clusters(n_samples, seed, n_features=3):
    """Return rows of three well separated clusters of differing variances, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n_samples) % 3)
    means = np.array([[-20.0], [0.0], [25.0]]) * np.ones(n_features)
    noise = rng.standard_normal((n_samples, n_features))
    return means[labels] + np.array([0.5, 1.0, 2.0])[labels, None] * noise, labels


def same_partition(first, second):
    pairs = {*zip(first.tolist(), second.tolist(), strict=True)}
    return len(pairs) == len({*first.tolist()}) == len({*second.tolist()})


def scatter(rows):
    offsets = rows - rows.mean(axis=0)
    return offsets.T @ offsets


def assert_greedy(tree, X, criterion):
    """Assert that each merge costs least, by the criterion of the rows of each cluster."""
    (n, m), spread = X.shape, np.mean(np.var(X, axis=0)) or 1.0

    def term(rows):
        if criterion in ("EII", "VII"):
            trace = np.trace(scatter(rows))
            return trace if criterion == "EII" else len(rows) * np.log((trace + spread) / len(rows))
        return len(rows) * np.linalg.slogdet((scatter(rows) + spread / m * np.eye(m)) / len(rows))[1]

    def value(clusters):
        if criterion == "EEE":
            return n * np.linalg.slogdet(sum(map(scatter, clusters)) + spread / m * np.eye(m))[1]
        return sum(map(term, clusters))

    clusters = {i: X[i : i + 1] for i in range(n)}
    # Costs are differences of terms of n log(variance), which are added up over n merges.
    rounding = 1e-13 * n**2 * max(1.0, np.abs(tree.costs).max())
    for merged, cost in zip(tree.merges.tolist(), tree.costs, strict=True):
        costs = {}
        for i, j in itertools.combinations(clusters, 2):
            others = [rows for k, rows in clusters.items() if k not in (i, j)]
            costs[i, j] = value([*others, np.vstack([clusters[i], clusters[j]])]) - value(clusters.values())
        assert costs[tuple(merged)] <= min(costs.values()) + rounding
        assert abs(cost - costs[tuple(merged)]) <= rounding
        clusters[merged[0]] = np.vstack([clusters[merged[0]], clusters.pop(merged[1])])
        clusters = dict(sorted(clusters.items()))


@pytest.mark.parametrize("case", CASES)
def test_the_merges_are_those_of_mclust(way, case):
    if way == "numpy":
        pytest.skip("On rounded data rounding decides among equal costs.")
    expected = json.loads((FOLDER / "mclust" / f"hc_{case}.json").read_text())
    tree = merge_tree(table(expected["data"]), expected["model"])
    np.testing.assert_array_equal(tree.merges + 1, expected["merges"])
    # Costs are differences of terms of up to 1e4, which loses four digits.
    np.testing.assert_allclose(tree.costs, expected["merge_cost"], rtol=1e-11, atol=1e-11)
    for k in range(2, 7):
        np.testing.assert_array_equal(tree.labels(k) + 1, expected[f"classes_{k}"])


def test_one_variance_is_the_criterion_of_ward():
    X = np.random.default_rng(3).standard_normal((60, 4))
    tree, expected = merge_tree(X, "EII"), linkage(X, "ward")
    np.testing.assert_allclose(tree.costs, expected[:, 2] ** 2 / 2, rtol=1e-10)


@laws
@given(criteria, st.integers(2, 14), st.integers(1, 3), st.integers(1, 4), seeds)
def test_each_merge_costs_least(criterion, n_samples, n_features, n_values, seed):
    X = np.random.default_rng(seed).integers(0, n_values, (n_samples, n_features)).astype(float)
    assert_greedy(merge_tree(X, criterion), X, criterion)


@laws
@given(compiled_criteria, st.integers(2, 60) | st.just(400), st.integers(1, 10), st.booleans(), seeds)
def test_the_trees_of_kernels_and_of_numpy(way, criterion, n_samples, n_features, has_sizes, seed):
    if way == "numpy":
        pytest.skip("The kernels are switched off.")
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    sizes = rng.integers(1, 5, n_samples).astype(float) if has_sizes else None
    here = merge_tree(X, criterion, sizes=sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "kernels", None)
        there = merge_tree(X, criterion, sizes=sizes)
    np.testing.assert_array_equal(here.merges, there.merges)
    # Costs are differences of terms of up to 1e4, which loses four digits.
    np.testing.assert_allclose(here.costs, there.costs, rtol=1e-11, atol=1e-11)


def test_rows_may_stand_for_several():
    X, _ = clusters(40, 12)
    sizes = np.random.default_rng(13).integers(1, 4, 40)
    repeated = np.repeat(np.arange(40), sizes)
    # Under one variance equal rows are merged first, so that the rest is the tree of the distinct ones.
    tree, expected = merge_tree(X, "EII", sizes=sizes), merge_tree(X[repeated], "EII")
    np.testing.assert_allclose(tree.costs, expected.costs[-39:], rtol=1e-9)
    for k in range(1, 41):
        np.testing.assert_array_equal(tree.labels(k)[repeated], expected.labels(k))


@pytest.mark.parametrize(
    ("criterion", "transform"), [("VII", None), ("EII", "svd"), ("EEE", None), ("VVV", "svd")]
)
def test_shifts_scales_and_layouts_change_nothing(criterion, transform):
    X = table("ex1_seed1.csv")[:120]
    tree = merge_tree(X, criterion, transform=transform)
    for moved in (1e-12 * X, 7e9 * X - 3e9, np.asfortranarray(X)):
        other = merge_tree(moved, criterion, transform=transform)
        for k in range(1, 7):
            np.testing.assert_array_equal(other.labels(k), tree.labels(k))


def test_a_cut_numbers_clusters_by_appearance():
    X, labels = clusters(80, 5)
    tree = merge_tree(X)
    assert same_partition(tree.labels(3), labels)
    for k in range(1, 81):
        cut = tree.labels(k)
        _, first = np.unique(cut, return_index=True)
        assert cut[0] == 0
        assert np.all(np.diff(first) > 0)
        assert cut.max() == len(first) - 1 == k - 1
    np.testing.assert_array_equal(tree.labels(80), np.arange(80))
    assert np.all(tree.merges[:, 0] < tree.merges[:, 1])
    assert sorted(tree.merges[:, 1]) == list(range(1, tree.n_samples))


@pytest.mark.parametrize("criterion", TREE_FAMILIES)
@pytest.mark.parametrize("transform", [None, "svd"])
@pytest.mark.parametrize(
    "X",
    [
        np.ones((1, 3)),
        np.ones((2, 1)),
        np.full((30, 2), 0.1),
        np.repeat(np.eye(4), 6, axis=0),
        np.column_stack([np.full(40, 1 / 3), np.arange(40.0) ** 2, np.zeros(40)]),
        np.random.default_rng(7).standard_normal((5, 12)),
    ],
    ids=["one row", "two rows", "equal rows", "duplicates", "constant columns", "wide"],
)
def test_degenerate_data(criterion, transform, X):
    tree = merge_tree(X, criterion, transform=transform)
    assert tree.merges.shape == (len(X) - 1, 2)
    assert np.all(np.isfinite(tree.costs))
    for k in range(1, len(X) + 1):
        assert tree.labels(k).max() == k - 1


def test_the_transform_of_the_paper():
    X = table("diabetes.csv")
    n_samples = len(X)
    standardised = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    _, singular, directions = np.linalg.svd(standardised, full_matrices=False)
    expected = merge_tree(standardised @ directions.T / np.sqrt(singular))
    with_constants = np.column_stack([np.full(n_samples, 0.1), X, np.zeros(n_samples)])
    tree = merge_tree(with_constants, transform="svd")
    np.testing.assert_allclose(tree.costs, expected.costs, rtol=1e-9, atol=1e-9)
    for k in range(1, 7):
        np.testing.assert_array_equal(tree.labels(k), expected.labels(k))
