"""Model-based agglomerative hierarchical clustering, as mclust's `hc` does it."""

from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.checks import check_integer, one_of
from apolar._core.compiled import extension
from apolar.data import CHUNK_SIZE
from apolar.starts.merge_criteria import CRITERIA, mean_variance, spread_of
from apolar.starts.nearest_pairs import NearestPairs

TRANSFORMS = (None, "svd")

# The most rows of a tree: its time, and the memory under "EII", grow with the square of the rows.
MAX_ROWS = 20_000
# The least variance of a cluster to which rows are assigned, relative to the mean variance of the data.
MIN_VARIANCE = 1e-6

kernels = extension()


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
        n_clusters = _checked_n_clusters(n_clusters, "n_clusters", self.n_samples)
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
      Ward's criterion.

    These are the merges of mclust's `hc`, ties included: of pairs of equal cost,
    the last in its order is merged. Where costs differ only by rounding, as they
    may on data of few decimals, the order can still differ from that of mclust.

    Parameters
    ----------
    X : ndarray of float64, shape (n_samples, n_features)
        At most `MAX_ROWS` rows.
    criterion : {"VII", "EII"}, default="VII"
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
    one_of(criterion, "criterion", tuple(CRITERIA))
    one_of(transform, "transform", TRANSFORMS)
    n_samples = len(X)
    if n_samples > MAX_ROWS:
        raise ValueError(
            f"Hierarchical clustering takes at most {MAX_ROWS:,} rows: its time and memory grow with their "
            f"square ({8 * n_samples**2 / 2**30:.2g} GiB of costs for {n_samples:,} rows). Cluster a random "
            "subsample: mbhc_labels does, with max_rows rows, and assigns the others to its clusters."
        )
    if transform == "svd":
        X = _ScaledDirections(X)(X)
    return _compiled_tree(X, criterion, sizes) if kernels is not None else _numpy_tree(X, criterion, sizes)


def _numpy_tree(X: Array, criterion: str, sizes: Array | None) -> MergeTree:
    groups = CRITERIA[criterion](X, sizes)
    pairs = NearestPairs(groups)
    merges = np.empty((len(X) - 1, 2), dtype=np.intp)
    costs = np.empty(len(X) - 1)
    for step in range(len(costs)):
        first, second, costs[step] = pairs.nearest()
        merges[step] = groups.merge(first, second)
        pairs.update(first, second)
    return MergeTree(frozen(merges), frozen(costs))


def _compiled_tree(X: Array, criterion: str, sizes: Array | None) -> MergeTree:
    """Return the same tree by the compiled kernels; where costs differ only by rounding, so may the order."""
    rows = np.ascontiguousarray(X, np.float64)
    sizes = np.empty(0) if sizes is None else np.ascontiguousarray(sizes, np.float64)
    merges, costs = np.empty((len(X) - 1, 2), np.int64), np.empty(len(X) - 1)
    # The spread of "VII"; the kernel takes zero for "EII".
    spread = 0.0 if criterion == "EII" else spread_of(rows, sizes if len(sizes) else None)
    kernels.merge_tree(rows, sizes, merges, costs, X.shape[1], spread)
    return MergeTree(frozen(merges.astype(np.intp, copy=False)), frozen(costs))


def mbhc_labels(
    X: Array,
    n_components: int,
    rng: np.random.Generator,
    *,
    criterion: str = "VII",
    transform: str | None = None,
    max_rows: int = 5_000,
    sizes: Array | None = None,
) -> IndexArray:
    """Return the clusters of all rows, from the merge tree of all or of a random subsample.

    Rows outside the subsample are assigned to the cluster of largest posterior
    probability, with clusters as spherical Gaussians.

    Parameters
    ----------
    X : ndarray of float64, shape (n_samples, n_features)
    n_components : int
        At most the number of rows of the tree.
    rng : numpy.random.Generator
        Draws the subsample; not used if all rows are in the tree.
    criterion, transform
        As in `merge_tree`. "svd" is the transform of the subsample.
    max_rows : int, default=5_000
        The rows of the tree; at most `MAX_ROWS`.
    sizes : ndarray, shape (n_samples,), optional
        How many rows each row stands for, by default one.

    Returns
    -------
    labels : ndarray of int, shape (n_samples,)
        From zero to n_components - 1, in order of first appearance; no cluster
        is empty.
    """
    max_rows = check_integer(max_rows, "max_rows", least=1)
    one_of(transform, "transform", TRANSFORMS)
    n_samples = len(X)
    n_components = _checked_n_clusters(n_components, "n_components", min(n_samples, max_rows))
    if n_samples <= max_rows:
        return merge_tree(X, criterion, transform=transform, sizes=sizes).labels(n_components)
    chosen = np.sort(rng.choice(n_samples, max_rows, replace=False))
    sample = X[chosen]
    transformed = _ScaledDirections(sample) if transform == "svd" else _unchanged
    variables = transformed(sample)
    sample_sizes = None if sizes is None else sizes[chosen]
    sample_labels = merge_tree(variables, criterion, sizes=sample_sizes).labels(n_components)
    likeliest = _LikeliestCluster(variables, sample_labels, n_components)
    labels = np.empty(n_samples, dtype=np.intp)
    n_rows = max(1, CHUNK_SIZE // max(n_components, X.shape[1]))
    for start in range(0, n_samples, n_rows):
        labels[start : start + n_rows] = likeliest(transformed(X[start : start + n_rows]))
    labels[chosen] = sample_labels
    return _by_appearance(labels)


def _checked_n_clusters(value: int, name: str, most: int) -> int:
    value = check_integer(value, name, least=1)
    if value > most:
        raise ValueError(f"{name} is {value}, and the tree has {most} rows: ask for no more than that.")
    return value


def _by_appearance(names: IndexArray) -> IndexArray:
    """Return the names replaced by 0, 1, ... in order of first appearance."""
    _, first, inverse = np.unique(names, return_index=True, return_inverse=True)
    ranks = np.empty_like(first)
    ranks[np.argsort(first)] = np.arange(len(first))
    return ranks[inverse]


# --- the transform of the columns, and the rows outside the subsample --------------------


class _ScaledDirections:
    """Standardised columns Z = U diag(d) V^t, times V diag(1 / sqrt(d))."""

    def __init__(self, X: Array) -> None:
        n_samples = len(X)
        self._centre = X.mean(axis=0)
        centred = X - self._centre
        deviations = np.sqrt(np.sum(centred**2, axis=0) / max(n_samples - 1, 1))
        # A column that is constant but for rounding has no scale.
        varies = np.ptp(X, axis=0) > 8 * np.finfo(float).eps * np.abs(X).max(axis=0)
        varies &= deviations > 0
        scales = np.where(varies, 1 / np.where(varies, deviations, 1), 0)
        _, singular, directions = np.linalg.svd(centred * scales, full_matrices=False)
        is_varying = singular > max(X.shape) * np.finfo(float).eps * singular.max(initial=0.0)
        self._matrix = scales[:, None] * directions[is_varying].T / np.sqrt(singular[is_varying])

    def __call__(self, X: Array) -> Array:
        """Return the variables of rows, of shape (n_samples, n_directions)."""
        return (X - self._centre) @ self._matrix


def _unchanged(X: Array) -> Array:
    """Return the rows unchanged: the transform None."""
    return X


class _LikeliestCluster:
    """Assigns rows to the clusters of largest posterior probability, as spherical Gaussians."""

    def __init__(self, X: Array, labels: IndexArray, n_clusters: int) -> None:
        n_samples, n_features = X.shape
        counts = np.bincount(labels, minlength=n_clusters)
        sums = np.zeros((n_clusters, n_features))
        np.add.at(sums, labels, X)
        self._means = sums / counts[:, None]
        squares = np.sum((X - self._means[labels]) ** 2, axis=1)
        variances = np.bincount(labels, squares, n_clusters) / (counts * max(n_features, 1))
        self._variances = np.maximum(variances, (MIN_VARIANCE * mean_variance(X)) or 1.0)
        self._offsets = np.log(counts / n_samples) - 0.5 * n_features * np.log(self._variances)

    def __call__(self, X: Array) -> IndexArray:
        """Return the cluster of largest posterior probability of each row."""
        squares = np.empty((len(X), len(self._means)))
        for cluster, mean in enumerate(self._means):
            squares[:, cluster] = np.sum((X - mean) ** 2, axis=1)
        return np.argmax(self._offsets - 0.5 * squares / self._variances, axis=1)
