"""Model-based agglomerative hierarchical clustering, as mclust's `hc` does it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.checks import check_integer, one_of
from apolar.data import CHUNK_SIZE

TRANSFORMS = (None, "svd")

# The most rows of a tree: its time, and the memory under "EII", grow with the square of the rows.
MAX_ROWS = 20_000
# The least variance of a cluster that takes in rows, relative to the mean variance of the data.
LEAST_VARIANCE = 1e-6


@dataclass(frozen=True, eq=False)
class MergeTree:
    """The merges that take single rows to one cluster.

    Attributes
    ----------
    merges : ndarray of int, shape (n_samples - 1, 2)
        In order of merging. A cluster is called by the least of its rows: the
        second of a pair, the larger, takes the name of the first.
    costs : ndarray, shape (n_samples - 1,)
        What each merge adds to the criterion. They need not increase.
    """

    merges: IndexArray
    costs: Array

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return len(self.merges) + 1

    def labels(self, n_clusters: int) -> IndexArray:
        """Return the clusters of the rows when `n_clusters` are left.

        Parameters
        ----------
        n_clusters : int
            From one to the number of rows.

        Returns
        -------
        labels : ndarray of int, shape (n_samples,)
            From zero, in order of first appearance.
        """
        n_clusters = _number_of_clusters(n_clusters, "n_clusters", self.n_samples)
        names = np.arange(self.n_samples)
        first, second = self.merges[: self.n_samples - n_clusters].T
        names[second] = first
        # A name leads to a smaller one, until one leads to itself.
        while np.any(names[names] != names):
            names = names[names]
        return _by_appearance(names)


def merge_tree(
    X: Array, criterion: str = "VII", *, transform: str | None = None, sizes: Array | None = None
) -> MergeTree:
    """Return the tree of merges, each the one that costs least at its time.

    With W the scatter matrix of a cluster of c rows about its mean, the costs
    are increases of

    - "VII", spherical clusters of differing variances: the sum of
      c log((tr W + a) / c), where a is the mean variance of the data;
    - "EII", spherical clusters of one variance: the sum of tr W. This is
      Ward's criterion.

    These are the merges of mclust's `hc`, ties included: of pairs that cost the
    same, the last in its order is merged. Where costs differ by rounding only,
    as they may on data of few decimals, its order may still be another.

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
    Time is quadratic in the rows, as a rule: a merge takes the costs of two
    groups to all others, and those of a few more whose least cost is no longer
    known. Memory is linear under "VII", and 8 n_samples^2 bytes under "EII".

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
        X = _Svd(X)(X)
    groups = CRITERIA[criterion](X, sizes)
    pairs = _NearestPairs(groups)
    merges = np.empty((n_samples - 1, 2), dtype=np.intp)
    costs = np.empty(n_samples - 1)
    for step in range(n_samples - 1):
        first, second, costs[step] = pairs.nearest()
        merges[step] = groups.merge(first, second)
        pairs.update(first, second)
    return MergeTree(frozen(merges), frozen(costs))


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

    Rows outside the subsample go to the cluster under whose spherical Gaussian,
    times its share of the rows, they are likeliest.

    Parameters
    ----------
    X : ndarray of float64, shape (n_samples, n_features)
    n_components : int
        At most the number of rows of the tree.
    rng : numpy.random.Generator
        Draws the subsample, and is not used where there is none.
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
    n_components = _number_of_clusters(n_components, "n_components", min(n_samples, max_rows))
    if n_samples <= max_rows:
        return merge_tree(X, criterion, transform=transform, sizes=sizes).labels(n_components)
    chosen = np.sort(rng.choice(n_samples, max_rows, replace=False))
    sample = X[chosen]
    to_variables = _Svd(sample) if transform == "svd" else _unchanged
    variables = to_variables(sample)
    sample_sizes = None if sizes is None else sizes[chosen]
    sample_labels = merge_tree(variables, criterion, sizes=sample_sizes).labels(n_components)
    likeliest = _Likeliest(variables, sample_labels, n_components)
    labels = np.empty(n_samples, dtype=np.intp)
    size = max(1, CHUNK_SIZE // max(n_components, X.shape[1]))
    for start in range(0, n_samples, size):
        labels[start : start + size] = likeliest(to_variables(X[start : start + size]))
    labels[chosen] = sample_labels
    return _by_appearance(labels)


def _number_of_clusters(value: int, name: str, most: int) -> int:
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


# --- the groups, and what their unions cost ---------------------------------------------
#
# A pair must have the same cost, to the last bit, whichever of the two is asked for and however many others
# with it, or else rounding would break ties. So no sum or product depends on the order of the two, and sums
# over features are taken one by one. The formulas are those of mclust also where others would be shorter:
# on data of few decimals rounding decides between equal costs, and it should decide alike.


class _Groups(ABC):
    """The groups that are left, in positions 0 to count - 1.

    The positions are part of the rule for ties: a union takes the position of the first of the two, and the
    last group moves to that of the second.
    """

    def __init__(self, X: Array, sizes: Array | None = None) -> None:
        self.count = len(X)
        self._names = np.arange(len(X))
        self._sizes = np.ones(len(X)) if sizes is None else sizes.astype(np.float64)

    @abstractmethod
    def costs(self, position: int, stop: int) -> Array:
        """Return what the unions of a group with those in positions 0 to `stop` - 1 add to the criterion.

        The cost with itself has no meaning. The array is the caller's.
        """

    @abstractmethod
    def _join(self, first: int, second: int) -> None:
        """Replace the first group by the union of two, in all but name and size."""

    @abstractmethod
    def _move(self, source: int, target: int) -> None:
        """Copy a group, in all but name and size."""

    def merge(self, first: int, second: int) -> tuple[int, int]:
        """Merge the groups in two positions, and return their names, the smaller first."""
        self._join(first, second)
        self._sizes[first] += self._sizes[second]
        names = sorted((int(self._names[first]), int(self._names[second])))
        self._names[first] = names[0]
        self.count -= 1
        self._sizes[second] = self._sizes[self.count]
        self._names[second] = self._names[self.count]
        self._move(self.count, second)
        return names[0], names[1]


class _LogScatters(_Groups):
    """Groups under "VII": a group of c rows has the term c log((tr W + a) / c)."""

    def __init__(self, X: Array, sizes: Array | None = None) -> None:
        super().__init__(X, sizes)
        sizes = self._sizes
        # The sums over the rows of a group, divided by the square root of its size; one row a feature.
        self._stats = X.T * np.sqrt(sizes)
        self._scatters = np.zeros(len(X))
        # Not floored at machine epsilon, as in mclust: costs then do not depend on the unit of the data. If
        # all rows are equal, any spread gives the same costs.
        self._spread = _mean_variance(X, sizes) or 1.0
        self._terms = self._term(self._sizes, self._scatters)

    def costs(self, position: int, stop: int) -> Array:
        sizes, scatters = self._unions(position, slice(0, stop))
        costs = self._term(sizes, scatters)
        costs -= self._terms[:stop] + self._terms[position]
        return costs

    def _unions(self, position: int, others: slice) -> tuple[Array, Array]:
        """Return the sizes and the scatters of the unions of a group with others."""
        size, other_sizes = self._sizes[position], self._sizes[others]
        sizes = other_sizes + size
        share, other_share = np.sqrt(size / sizes), np.sqrt(other_sizes / sizes)
        squares = np.zeros(len(sizes))
        for column in self._stats:
            difference = column[others] * share
            difference -= column[position] * other_share
            difference *= difference
            squares += difference
        squares += self._scatters[others] + self._scatters[position]
        return sizes, squares

    def _term(self, sizes: Array, scatters: Array) -> Array:
        terms = scatters + self._spread
        terms /= sizes
        np.log(terms, out=terms)
        terms *= sizes
        return terms

    def _join(self, first: int, second: int) -> None:
        one = slice(first, first + 1)
        sizes, scatters = self._unions(second, one)
        self._scatters[one], self._terms[one] = scatters, self._term(sizes, scatters)
        share, other_share = np.sqrt(self._sizes[[first, second]] / sizes)
        self._stats[:, first] = self._stats[:, first] * share + self._stats[:, second] * other_share

    def _move(self, source: int, target: int) -> None:
        self._stats[:, target] = self._stats[:, source]
        self._scatters[target] = self._scatters[source]
        self._terms[target] = self._terms[source]


class _Scatters(_Groups):
    """Groups under "EII": a group has the term tr W.

    The costs of unions follow from those of their parts by the recurrence of Lance and Williams. All are
    kept, as other ways to the same numbers round differently.
    """

    def __init__(self, X: Array, sizes: Array | None = None) -> None:
        super().__init__(X, sizes)
        sizes = self._sizes
        self._costs = np.zeros((len(X), len(X)))
        columns = np.sqrt(0.5) * X.T
        for position, costs in enumerate(self._costs):
            for column in columns:
                difference = column - column[position]
                difference *= difference
                costs += difference
            # Half the square for two single rows: the product of the sizes over their sum.
            costs *= 2 * sizes[position] * sizes / (sizes[position] + sizes)

    def costs(self, position: int, stop: int) -> Array:
        return self._costs[position, :stop].copy()

    def _join(self, first: int, second: int) -> None:
        others = self._sizes[: self.count]
        costs = (others + self._sizes[first]) * self._costs[first, : self.count]
        costs += (others + self._sizes[second]) * self._costs[second, : self.count]
        costs -= others * self._costs[first, second]
        costs /= others + (self._sizes[first] + self._sizes[second])
        self._costs[first, : self.count] = self._costs[: self.count, first] = costs

    def _move(self, source: int, target: int) -> None:
        self._costs[target, : self.count] = self._costs[source, : self.count]
        self._costs[: self.count, target] = self._costs[: self.count, source]


CRITERIA: dict[str, type[_Groups]] = {"VII": _LogScatters, "EII": _Scatters}


def _mean_variance(X: Array, sizes: Array | None = None) -> float:
    """Return the variance of the columns (divided by n_samples), averaged."""
    if sizes is None or np.all(sizes == 1):
        return float(np.sum((X - X.mean(axis=0)) ** 2)) / max(X.size, 1)
    centred = X - np.average(X, axis=0, weights=sizes)
    return float(np.sum(sizes @ centred**2)) / max(float(sizes.sum()) * X.shape[1], 1.0)


# --- the pair that costs least ----------------------------------------------------------


class _NearestPairs:
    """For each position the least cost over the positions before it.

    Only that cost and its position are kept, with a lower bound on the other costs. Where a merge takes the
    nearest group away, the bound may be all that is known (`_partners` is then -1), and the costs are
    taken anew only if the bound becomes the least of all.
    """

    def __init__(self, groups: _Groups) -> None:
        self._groups = groups
        self._least = np.full(groups.count, np.inf)
        self._others = np.full(groups.count, np.inf)
        self._partners = np.full(groups.count, -1)
        for position in range(1, groups.count):
            self._set(position, groups.costs(position, position))

    def nearest(self) -> tuple[int, int, float]:
        """Return the positions of the pair that costs least, the smaller first, and the cost.

        Of several such pairs it is the last, by the second and then by the first.
        """
        while True:
            least = self._least[: self._groups.count]
            second = len(least) - 1 - int(least[::-1].argmin())
            if self._partners[second] >= 0:
                return int(self._partners[second]), second, float(least[second])
            self._set(second, self._groups.costs(second, second))

    def update(self, first: int, second: int) -> None:
        """Take note that the groups in two positions were merged."""
        count = self._groups.count
        partners = self._partners[:count]
        lost = np.flatnonzero((partners == first) | (partners == second))
        partners[lost] = -1
        self._least[lost] = self._others[lost]
        self._enter(first)
        if second < count:
            self._enter(second)

    def _enter(self, position: int) -> None:
        """Take note of the group that is new in a position."""
        count = self._groups.count
        costs = self._groups.costs(position, count)
        if position > 0:
            self._set(position, costs[:position])
        costs = costs[position + 1 :]
        after = slice(position + 1, count)
        least, others, partners = self._least[after], self._others[after], self._partners[after]
        # Of the old least, the old bound and the new cost, the first is the least now, the second the bound.
        np.minimum(others, costs, out=others)
        np.maximum(others, least, out=others)
        # On ties the last position wins; where the least is but a bound, a tie does not make it known.
        tied = (costs == least) & (partners >= 0)
        partners[tied] = np.maximum(partners[tied], position)
        partners[costs < least] = position
        np.minimum(least, costs, out=least)

    def _set(self, position: int, costs: Array) -> None:
        """Set the least of the costs to the positions before one; changes `costs`."""
        partner = int(costs.argmin())
        least = costs[partner]
        costs[partner] = np.inf
        others = costs.min()
        if others == least:
            partner = int(np.flatnonzero(costs == least)[-1])
        self._least[position], self._others[position], self._partners[position] = least, others, partner


# --- the variables and the other rows ---------------------------------------------------


class _Svd:
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
        kept = singular > max(X.shape) * np.finfo(float).eps * singular.max(initial=0.0)
        self._matrix = scales[:, None] * directions[kept].T / np.sqrt(singular[kept])

    def __call__(self, X: Array) -> Array:
        """Return the variables of rows, of shape (n_samples, n_directions)."""
        return (X - self._centre) @ self._matrix


def _unchanged(X: Array) -> Array:
    return X


class _Likeliest:
    """Assigns rows to clusters by their spherical Gaussian densities, times their shares of the rows."""

    def __init__(self, X: Array, labels: IndexArray, n_clusters: int) -> None:
        n_samples, n_features = X.shape
        counts = np.bincount(labels, minlength=n_clusters)
        stats = np.zeros((n_clusters, n_features))
        np.add.at(stats, labels, X)
        self._means = stats / counts[:, None]
        squares = np.sum((X - self._means[labels]) ** 2, axis=1)
        variances = np.bincount(labels, squares, n_clusters) / (counts * max(n_features, 1))
        self._variances = np.maximum(variances, (LEAST_VARIANCE * _mean_variance(X)) or 1.0)
        self._offsets = np.log(counts / n_samples) - 0.5 * n_features * np.log(self._variances)

    def __call__(self, X: Array) -> IndexArray:
        """Return the likeliest cluster of each row."""
        squares = np.empty((len(X), len(self._means)))
        for cluster, mean in enumerate(self._means):
            squares[:, cluster] = np.sum((X - mean) ** 2, axis=1)
        return np.argmax(self._offsets - 0.5 * squares / self._variances, axis=1)
