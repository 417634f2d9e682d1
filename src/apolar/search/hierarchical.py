"""Model-based agglomerative hierarchical clustering, as mclust's `hc` does it."""

from dataclasses import dataclass

import numpy as np

from apolar._core import compiled
from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.checks import check_integer, one_of

TREE_FAMILIES = ("VII", "EII", "EEE", "VVV")
TRANSFORMS = (None, "svd")

# The most rows of a tree: its time, and the memory under "EII", grow with the square of the rows.
MAX_TREE_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class MergeTree:
    """The merges that lead from single rows to one cluster.

    Attributes
    ----------
    merges : ndarray of int, shape (n_samples - 1, 2)
        In order of merging. The name of a cluster is the smallest of its row
        numbers; of the two names of a merge, the smaller comes first.
    costs : ndarray, shape (n_samples - 1,)
        The increase of the criterion by each merge. They need not increase.
    """

    merges: IndexArray
    costs: Array

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return len(self.merges) + 1

    def labels(self, n_clusters: int) -> IndexArray:
        """Return the clusters of the rows when `n_clusters` remain.

        Parameters
        ----------
        n_clusters : int
            From one to the number of rows.

        Returns
        -------
        labels : ndarray of int, shape (n_samples,)
            From zero, in order of first appearance.
        """
        n_clusters = check_integer(n_clusters, "n_clusters", least=1)
        if n_clusters > self.n_samples:
            raise ValueError(
                f"n_clusters is {n_clusters}, and the tree has {self.n_samples} rows: ask for fewer."
            )
        names = np.arange(self.n_samples)
        first, second = self.merges[: self.n_samples - n_clusters].T
        names[second] = first
        # A remaining cluster has the name of its first row, so that names are in order of first appearance.
        ranks = np.cumsum(names == np.arange(self.n_samples)) - 1
        # Each name points to a smaller one, and the name of a remaining cluster to itself.
        while (names != (following := names[names])).any():
            names = following
        return ranks[names]


def merge_tree(
    X: Array, criterion: str = "VII", *, transform: str | None = None, sizes: Array | None = None
) -> MergeTree:
    """Return the tree of merges, in which each merge is the one that costs least at that point.

    With W the scatter matrix of a cluster of c rows about its mean, the costs
    are increases of

    - "VII", spherical clusters of differing variances: the sum of
      c log((tr W + a) / c), where a is the mean variance of the data;
    - "EII", spherical clusters of one variance: the sum of tr W. This is
      Ward's criterion;
    - "VVV", clusters of differing covariances: the sum of
      c log det((W + a I / m) / c), for m columns;
    - "EEE", clusters of one covariance: n log det(S + a I / m), for n rows and S the sum of all W.

    Under "VII" and "EII" these are the merges of mclust's `hc`, with the compiled kernels ties included:
    of pairs of equal cost, the last in its order is merged. Where costs differ only
    by rounding, as they may on data of few decimals, the order can still differ. Under "EEE" and "VVV"
    mclust keeps covariances from being singular in another way, and early merges differ.

    Parameters
    ----------
    X : ndarray of float64, shape (n_samples, n_features)
        At most `MAX_TREE_ROWS` rows.
    criterion : {"VII", "EII", "EEE", "VVV"}, default="VII"
    transform : {None, "svd"}, default=None
        "svd" clusters the variables that [khouja2022moments] clusters:
        standardised columns Z = U diag(d) V^t, times V diag(1 / sqrt(d)).
        Directions in which the data do not vary are left out.
    sizes : ndarray, shape (n_samples,), optional
        How many rows each row stands for, by default one.

    Returns
    -------
    tree : MergeTree

    Notes
    -----
    Time is usually quadratic in the number of rows: a merge computes the costs
    of two groups with all others, and those of a few further groups whose least
    cost is no longer known. Memory is linear under "VII", and 8 n_samples^2 bytes under "EII".
    Without the compiled kernels, and under "EEE" and "VVV", time grows with the third power: seconds for
    1,000 rows.

    Examples
    --------
    >>> import numpy as np
    >>> tree = merge_tree(np.array([[0.0], [5.0], [0.1], [5.3]]))
    >>> tree.merges
    array([[0, 2],
           [1, 3],
           [0, 1]])
    >>> tree.labels(2)
    array([0, 1, 0, 1])
    """
    one_of(criterion, "criterion", TREE_FAMILIES)
    one_of(transform, "transform", TRANSFORMS)
    n_samples = len(X)
    if n_samples > MAX_TREE_ROWS:
        raise ValueError(
            f"Hierarchical clustering takes at most {MAX_TREE_ROWS:,} rows: its time and memory grow with "
            f"their square ({8 * n_samples**2 / 2**30:.2g} GiB of costs for {n_samples:,} rows). Cluster a "
            "random subsample."
        )
    if transform == "svd":
        centre, matrix = _scaled_directions(X)
        X = (X - centre) @ matrix
    X = np.asarray(X, np.float64) if X.shape[1] else np.zeros((n_samples, 1))
    # Without a spread, the costs are those of "EII".
    spread = 0.0 if criterion == "EII" else spread_of(X, sizes)
    if criterion == "EEE":
        return _pooled_tree(X, spread, sizes)
    if compiled.kernels is None or criterion == "VVV":
        return _numpy_tree(X, spread, sizes, has_matrices=criterion == "VVV")
    # Of equal costs the order is that of mclust.
    merges, costs = compiled.tree_merges(X, sizes, spread)
    return MergeTree(frozen(merges), frozen(costs))


def _numpy_tree(X: Array, spread: float, sizes: Array | None, *, has_matrices: bool) -> MergeTree:
    """Return the tree from the matrix of all costs, which takes time of the third power of the rows."""
    n_samples, m = X.shape
    counts = np.ones(n_samples) if sizes is None else sizes.astype(np.float64)
    # Scatter matrices, or their traces as matrices of one column.
    size = m if has_matrices else 1
    means, scatters, ridge = X.copy(), np.zeros((n_samples, size, size)), spread / size * np.eye(size)

    def term(counts: Array, scatters: Array) -> Array:
        if not spread:
            return np.asarray(scatters[..., 0, 0])
        return np.asarray(counts * (np.linalg.slogdet(scatters + ridge)[1] - size * np.log(counts)))

    def union(k: int, others: IndexArray) -> tuple[Array, Array]:
        both, gaps = counts[k] + counts[others], means[k] - means[others]
        gaps = gaps[:, :, None] if has_matrices else np.linalg.norm(gaps, axis=1)[:, None, None]
        between = (counts[k] * counts[others] / both)[:, None, None] * (gaps @ gaps.mT)
        return both, scatters[k] + scatters[others] + between

    costs, merges = np.full((n_samples, n_samples), np.inf), []
    left, changed = np.arange(n_samples), list(range(1, n_samples))
    for _ in range(n_samples - 1):
        for k in changed:
            others = left[left < k] if len(changed) > 1 else left[left != k]
            increase = term(*union(k, others)) - term(counts[k], scatters[k])
            costs[k, others] = costs[others, k] = increase - term(counts[others], scatters[others])
        # Of pairs of equal cost the last is merged.
        last = costs.size - 1 - int(costs[::-1, ::-1].argmin())
        second, first = divmod(last, n_samples)
        (both,), (scatter,) = union(first, np.array([second]))
        merges.append((first, second, costs[second, first]))
        means[first] = (counts[first] * means[first] + counts[second] * means[second]) / both
        counts[first], scatters[first] = both, scatter
        costs[second] = costs[:, second] = np.inf
        left, changed = left[left != second], [first]
    return _tree(merges)


def _pooled_tree(X: Array, spread: float, sizes: Array | None) -> MergeTree:
    """Return the tree under "EEE": a merge changes the covariance in which all distances are measured."""
    n_samples, m = X.shape
    counts = np.ones(n_samples) if sizes is None else sizes.astype(np.float64)
    means, left, total = X.copy(), np.arange(n_samples), counts.sum()
    scatter, merges = spread / m * np.eye(m), []
    for _ in range(n_samples - 1):
        points = np.linalg.solve(np.linalg.cholesky(scatter), means[left].T)
        squares, c = np.sum(points**2, axis=0), counts[left]
        gains = squares[:, None] + squares - 2 * (points.T @ points)
        gains *= c[:, None] * c / (c[:, None] + c)
        gains[np.triu_indices(len(left))] = np.inf
        i, j = divmod(gains.size - 1 - int(gains[::-1, ::-1].argmin()), len(left))
        second, first = left[i], left[j]
        both, gap = counts[first] + counts[second], means[first] - means[second]
        # The increase of the determinant by a matrix of rank one.
        merges.append((first, second, total * np.log1p(max(gains[i, j], 0.0))))
        scatter += counts[first] * counts[second] / both * np.outer(gap, gap)
        means[first] -= counts[second] / both * gap
        counts[first], left = both, np.delete(left, i)
    return _tree(merges)


def _tree(merges: list[tuple[int, int, float]]) -> MergeTree:
    names = np.array([pair for *pair, _ in merges], dtype=np.intp).reshape(-1, 2)
    return MergeTree(frozen(names), frozen(np.array([cost for *_, cost in merges])))


def spread_of(X: Array, sizes: Array | None = None) -> float:
    """Return what is added to each scatter under "VII": the mean variance of the columns."""
    # mclust raises it to at least machine epsilon, which makes costs depend on the units of the data; here
    # there is no such floor. If all rows are equal, any spread gives the same costs.
    if sizes is None or np.all(sizes == 1):
        return float(np.sum((X - X.mean(axis=0)) ** 2)) / max(X.size, 1) or 1.0
    centred = X - np.average(X, axis=0, weights=sizes)
    return float(np.sum(sizes @ centred**2)) / max(float(sizes.sum()) * X.shape[1], 1.0) or 1.0


def _scaled_directions(X: Array) -> tuple[Array, Array]:
    """Return the mean of rows, and V diag(1 / sqrt(d)) for standardised columns Z = U diag(d) V^t."""
    centre = X.mean(axis=0)
    centred = X - centre
    deviations = np.sqrt(np.sum(centred**2, axis=0) / max(len(X) - 1, 1))
    # A column that is constant up to rounding has no scale.
    varies = np.ptp(X, axis=0) > 8 * np.finfo(float).eps * np.abs(X).max(axis=0)
    varies &= deviations > 0
    scales = np.where(varies, 1 / np.where(varies, deviations, 1), 0)
    _, singular, directions = np.linalg.svd(centred * scales, full_matrices=False)
    is_varying = singular > max(X.shape) * np.finfo(float).eps * singular.max(initial=0.0)
    return centre, scales[:, None] * directions[is_varying].T / np.sqrt(singular[is_varying])
