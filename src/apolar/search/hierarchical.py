"""Model-based agglomerative hierarchical clustering, as mclust's `hc` does it."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.checks import check_integer, one_of
from apolar._core.compiled import extension
from apolar.data import CHUNK_SIZE

CRITERIA = ("VII", "EII")
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
        n_clusters = _check_n_clusters(n_clusters, "n_clusters", self.n_samples)
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
    Without the compiled kernels time grows with the third power.

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
    one_of(criterion, "criterion", CRITERIA)
    one_of(transform, "transform", TRANSFORMS)
    n_samples = len(X)
    if n_samples > MAX_ROWS:
        raise ValueError(
            f"Hierarchical clustering takes at most {MAX_ROWS:,} rows: its time and memory grow with their "
            f"square ({8 * n_samples**2 / 2**30:.2g} GiB of costs for {n_samples:,} rows). Cluster a random "
            "subsample: mbhc_labels does, with max_rows rows, and assigns the others to its clusters."
        )
    if transform == "svd":
        centre, matrix = _scaled_directions(X)
        X = (X - centre) @ matrix
    return _compiled_tree(X, criterion, sizes) if kernels is not None else _numpy_tree(X, criterion, sizes)


def _compiled_tree(X: Array, criterion: str, sizes: Array | None) -> MergeTree:
    """Return the same tree by the compiled kernels; where costs differ only by rounding, so may the order."""
    rows = np.ascontiguousarray(X, np.float64)
    sizes = np.empty(0) if sizes is None else np.ascontiguousarray(sizes, np.float64)
    merges, costs = np.empty((len(X) - 1, 2), np.int64), np.empty(len(X) - 1)
    # The spread of "VII"; the kernel takes zero for "EII".
    spread = 0.0 if criterion == "EII" else spread_of(rows, sizes if len(sizes) else None)
    kernels.merge_tree(rows, sizes, merges, costs, X.shape[1], spread)
    return MergeTree(frozen(merges.astype(np.intp, copy=False)), frozen(costs))


class _Groups:
    """Groups of rows, and the costs of all their mergers.

    Formulas and positions are those of mclust, even where shorter ones exist: on data of few decimals
    rounding decides between equal costs, and must decide as it does there. A union takes the position of the
    first of the two groups, and the last group moves to that of the second. No sum depends on their order.
    """

    def __init__(self, X: Array, criterion: str, sizes: Array | None) -> None:
        self.names = np.arange(len(X))
        self.sizes = np.ones(len(X)) if sizes is None else sizes.astype(np.float64)
        # Of each group, the sums over its rows divided by the square root of its size: one column per group.
        self.sums, self.scatters = X.T * np.sqrt(self.sizes), np.zeros(len(X))
        self.spread = spread_of(X, sizes) if criterion == "VII" else 0.0
        self.terms = self.term(self.sizes, self.scatters)
        self.costs = np.empty((len(X), len(X)))
        for position in range(len(X)):
            self.costs[position] = self.costs_of(position)
        np.fill_diagonal(self.costs, np.inf)

    def unions(self, position: int, others: slice) -> tuple[Array, Array]:
        """Return the sizes and the scatters of the unions of a group with others."""
        size, other_sizes = self.sizes[position], self.sizes[others]
        sizes = other_sizes + size
        factor, other_factor = np.sqrt(size / sizes), np.sqrt(other_sizes / sizes)
        squares = np.zeros(len(sizes))
        for column in self.sums:
            squares += (column[others] * factor - column[position] * other_factor) ** 2
        return sizes, squares + (self.scatters[others] + self.scatters[position])

    def term(self, sizes: Array, scatters: Array) -> Array:
        """Return what groups add to the criterion."""
        return np.log((scatters + self.spread) / sizes) * sizes if self.spread else scatters

    def costs_of(self, position: int) -> Array:
        """Return the costs of merging a group with each of the others."""
        sizes, scatters = self.unions(position, slice(None))
        return self.term(sizes, scatters) - (self.terms + self.terms[position])

    def merge_nearest(self) -> tuple[int, int, float]:
        """Merge the pair that costs least, the last of several; return their names, and the cost."""
        least = self.costs.min(axis=1)
        second = len(least) - 1 - int(least[::-1].argmin())
        cost = least[second]
        first = int(np.flatnonzero(self.costs[second, :second] == cost)[-1])
        costs = None if self.spread else self._costs_by_recurrence(first, second)
        sizes, scatters = self.unions(second, slice(first, first + 1))
        factor, other_factor = np.sqrt(self.sizes[[first, second]] / sizes)
        self.sums[:, first] = self.sums[:, first] * factor + self.sums[:, second] * other_factor
        self.sizes[first], self.scatters[first] = sizes[0], scatters[0]
        self.terms[first] = self.term(sizes, scatters)[0]
        costs = self.costs_of(first) if costs is None else costs
        costs[first] = np.inf
        self.costs[first] = self.costs[:, first] = costs
        names = sorted((int(self.names[first]), int(self.names[second])))
        self.names[first] = names[0]
        last = len(least) - 1
        for values in (self.names, self.sizes, self.scatters, self.terms, self.sums.T):
            values[second] = values[last]
        self.costs[second], self.costs[:, second] = self.costs[last], self.costs[:, last].copy()
        self.costs[second, second] = np.inf
        self.names, self.sizes, self.scatters = self.names[:last], self.sizes[:last], self.scatters[:last]
        self.terms, self.sums, self.costs = self.terms[:last], self.sums[:, :last], self.costs[:last, :last]
        return names[0], names[1], float(cost)

    def _costs_by_recurrence(self, first: int, second: int) -> Array:
        """Return the costs of a union under "EII" from those of its parts, after Lance and Williams."""
        costs = (self.sizes + self.sizes[first]) * self.costs[first]
        costs += (self.sizes + self.sizes[second]) * self.costs[second]
        costs -= self.sizes * self.costs[first, second]
        costs /= self.sizes + (self.sizes[first] + self.sizes[second])
        return costs


def _numpy_tree(X: Array, criterion: str, sizes: Array | None) -> MergeTree:
    """Return the tree from the matrix of all costs, which takes time of the third power of the rows."""
    groups = _Groups(X, criterion, sizes)
    merges = [groups.merge_nearest() for _ in range(len(X) - 1)]
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
    n_samples = len(X)
    n_components = _check_n_clusters(n_components, "n_components", min(n_samples, max_rows))
    if n_samples <= max_rows:
        return merge_tree(X, criterion, transform=transform, sizes=sizes).labels(n_components)
    chosen = np.sort(rng.choice(n_samples, max_rows, replace=False))
    centre, matrix = _scaled_directions(X[chosen]) if transform == "svd" else (0.0, np.eye(X.shape[1]))
    variables, sample_sizes = (X[chosen] - centre) @ matrix, None if sizes is None else sizes[chosen]
    sample_labels = merge_tree(variables, criterion, sizes=sample_sizes).labels(n_components)
    counts = np.bincount(sample_labels, minlength=n_components)
    shares = (sample_labels == np.arange(n_components)[:, None]) / counts[:, None]
    means = shares @ variables
    squares = shares @ np.sum((variables - means[sample_labels]) ** 2, axis=1)
    least = MIN_VARIANCE * spread_of(variables)
    variances = np.maximum(squares / max(variables.shape[1], 1), least)
    offsets = np.log(counts / max_rows) - 0.5 * variables.shape[1] * np.log(variances)
    labels = np.empty(n_samples, dtype=np.intp)
    n_rows = max(1, CHUNK_SIZE // max(n_components, X.shape[1]))
    for start in range(0, n_samples, n_rows):
        distances = cdist((X[start : start + n_rows] - centre) @ matrix, means, "sqeuclidean")
        labels[start : start + n_rows] = np.argmax(offsets - 0.5 * distances / variances, axis=1)
    labels[chosen] = sample_labels
    # The names replaced by 0, 1, ... in order of first appearance.
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _check_n_clusters(value: int, name: str, most: int) -> int:
    value = check_integer(value, name, least=1)
    if value > most:
        raise ValueError(f"{name} is {value}, and the tree has {most} rows: ask for no more than that.")
    return value


def _scaled_directions(X: Array) -> tuple[Array, Array]:
    """Return the mean of rows, and V diag(1 / sqrt(d)) for standardised columns Z = U diag(d) V^t."""
    centre = X.mean(axis=0)
    centred = X - centre
    deviations = np.sqrt(np.sum(centred**2, axis=0) / max(len(X) - 1, 1))
    # A column that is constant but for rounding has no scale.
    varies = np.ptp(X, axis=0) > 8 * np.finfo(float).eps * np.abs(X).max(axis=0)
    varies &= deviations > 0
    scales = np.where(varies, 1 / np.where(varies, deviations, 1), 0)
    _, singular, directions = np.linalg.svd(centred * scales, full_matrices=False)
    is_varying = singular > max(X.shape) * np.finfo(float).eps * singular.max(initial=0.0)
    return centre, scales[:, None] * directions[is_varying].T / np.sqrt(singular[is_varying])
