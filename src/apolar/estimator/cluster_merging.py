"""Components of a mixture that belong together: how much they overlap, how they combine into clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, xlogy
from scipy.stats import qmc

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, one_of
from apolar._core.constants import MIN_WEIGHT
from apolar._core.display import SHOWN_COLUMNS, Displayed, TableCells, count_noun, figures
from apolar._core.namespaces import namespace, to_numpy
from apolar.data import ArrayRows, Rows
from apolar.estimator.fitted import NOISE_LABEL, FittedState

__all__ = [
    "Combination",
    "Group",
    "Overlap",
    "cluster_labels",
    "cluster_shares",
    "combine",
    "elbow",
    "overlap",
]

Group = tuple[int, ...]
"""The numbers of the components of a cluster, from zero on."""

# The number of quasi-random points of an estimate, and the most numbers that they hold (128 MB).
N_POINTS, MAX_POINT_NUMBERS = 2**14, 2**24
# Clusters that overlap more than this are combined: see benchmarks/results/clusters.md.
MAX_OVERLAP = 0.05


# --- overlap ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Overlap(Displayed):
    """How much the components of a mixture overlap, pair by pair.

    Attributes
    ----------
    bhattacharyya : ndarray, shape (n_components, n_components)
        The Bhattacharyya coefficients, int sqrt(f_i f_j), of the densities of two components: 1 if they are
        the same, as on the diagonal, 0 if they have no place in common. Weights play no part.
    misclassification : ndarray, shape (n_components, n_components)
        Entry (i, j) is the probability that a row that is drawn from component i is put into j if there are
        only these two: that w_j f_j(x) > w_i f_i(x). Zero on the diagonal. Off it these are the overlaps
        omega_{j|i} of [maitra2010]: in closed form where components share their covariance, else estimated.
    standard_error : ndarray, shape (n_components, n_components)
        The error of `misclassification`, as if its points were random draws; they are better than these. Zero
        where it is a closed form.
    """

    bhattacharyya: Array
    misclassification: Array
    standard_error: Array

    @property
    def n_components(self) -> int:
        """The number of components."""
        return len(self.bhattacharyya)

    @property
    def pairwise(self) -> Array:
        """The overlap of each pair [maitra2010], omega_{i|j} + omega_{j|i}; zero on the diagonal."""
        return self.misclassification + self.misclassification.T

    def pair(self) -> tuple[int, int] | None:
        """Return the two components that overlap most, by `pairwise`; None if there is one component."""
        if self.n_components < 2:
            return None
        first, second = np.unravel_index(np.argmax(np.triu(self.pairwise, 1)), self.pairwise.shape)
        # Where no two overlap at all, the first is the largest, and is on the diagonal.
        return (int(first), int(second)) if first != second else (0, 1)

    def __repr__(self) -> str:
        return f"Overlap(n_components={self.n_components}, {self._result()})"

    def _result(self) -> str:
        pair = self.pair()
        if pair is None:
            return "a single cluster has no overlap"
        return f"clusters {pair[0] + 1} and {pair[1] + 1} overlap most ({_percentage(self.pairwise[pair])})"

    def _display(self) -> tuple[str, TableCells]:
        n, shares = self.n_components, self.misclassification
        if n <= SHOWN_COLUMNS:
            title = "Percentage of the rows of a cluster (line) that would be assigned to another (column)"
            rows = [
                [str(i + 1), *("" if i == j else _percentage(shares[i, j]) for j in range(n))]
                for i in range(n)
            ]
            return f"{title}: {self._result()}.", (["cluster", *(str(j + 1) for j in range(n))], rows)
        pairs = np.column_stack(np.triu_indices(n, 1))
        largest = np.argsort(-self.pairwise[tuple(pairs.T)], kind="stable")[:SHOWN_COLUMNS]
        rows = [
            [f"{i + 1}, {j + 1}", _percentage(self.pairwise[i, j]), f"{self.bhattacharyya[i, j]:.3f}"]
            for i, j in pairs[largest]
        ]
        title = f"The pairs of clusters with the largest overlap: {self._result()}."
        return title, (["clusters", "overlap", "Bhattacharyya"], rows)


def _percentage(probability: float) -> str:
    """Return a probability in per cent; one that is small is not shown to be zero."""
    return "<0.1%" if probability < 0.0005 else f"{100 * float(probability):.1f}%"


def overlap(state: FittedState) -> Overlap:
    """Return how much the components of a mixture overlap.

    Bhattacharyya coefficients are closed forms, and so is misclassification where components share their
    covariance. Elsewhere a standard normal Sobol sequence is mapped to each component, and its points are put
    into one of two components by their weighted densities.
    """
    parameters, kind = state.parameters, state.family.untied
    means, (n, m) = parameters.means, parameters.means.shape
    stored = state.family.per_component(parameters.covariances)
    if kind.has_factors:
        stored, kind = kind.matrices(stored, n, m), kind.of_matrices
    covariances = np.broadcast_to(stored, (n, *stored.shape[1:]))
    log_dets, log_weights = kind.log_det(covariances, m), np.log(np.maximum(parameters.weights, MIN_WEIGHT))
    coefficients, shares, errors = np.eye(n), np.zeros((n, n)), np.zeros((n, n))
    is_shared = state.family.shares_covariance
    points = np.zeros((1, m)) if is_shared else _normal_points(m)
    roots = kind.root(covariances)
    for i in range(n):
        middle = (covariances + covariances[i]) / 2
        squares = kind.trace_ratio(kind.between(means - means[i], np.ones(n)), middle)
        distances = squares / 8 + (kind.log_det(middle, m) - (log_dets + log_dets[i]) / 2) / 2
        coefficients[i] = np.exp(-np.maximum(distances, 0.0))
        if is_shared:
            ratios, lengths = log_weights - log_weights[i], np.sqrt(squares)
            with np.errstate(divide="ignore", invalid="ignore"):
                put = ndtr(ratios / lengths - lengths / 2)
            shares[i] = np.where(lengths > 0, put, (1 + np.sign(ratios)) / 2)
        else:
            logits = state.logits(ArrayRows(means[i] + kind.times(roots[i], points)))
            shares[i] = np.mean(logits > logits[i], axis=1)
            errors[i] = np.sqrt(shares[i] * (1 - shares[i]) / len(points))
    np.fill_diagonal(shares, 0.0)
    # The two halves are computed from opposite sides, and differ by rounding.
    return Overlap((coefficients + coefficients.T) / 2, shares, errors)


def _normal_points(n_features: int) -> Array:
    """Return quasi-random points of a standard normal distribution."""
    n_points = 2 ** int(np.log2(min(N_POINTS, max(MAX_POINT_NUMBERS // n_features, 2))))
    # Moved off zero, the first of these points.
    return ndtri(qmc.Sobol(n_features, scramble=False).random(n_points) + 0.5 / n_points)


# --- combined components ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Combination(Displayed):
    """Components of a mixture, combined into clusters step by step.

    Attributes
    ----------
    mixture : GaussianMixture
    n_clusters : int
        The number of clusters that was chosen, or asked for.
    merges : tuple of (Group, Group)
        Which two clusters are combined in each step, from one cluster per component down to one.
    entropies : ndarray, shape (n_components,)
        The entropy of the clustering, -sum t log t over rows and clusters, where t are the posterior
        probabilities; that of c clusters is at index c - 1.
    overlaps : ndarray, shape (n_components,)
        The largest overlap of two clusters, likewise: the share of the rows of one that would be assigned to
        the other, plus that of the other.
    by : {"entropy", "overlap"}
        How clusters are combined.
    """

    mixture: Any
    n_clusters: int
    merges: tuple[tuple[Group, Group], ...]
    entropies: Array
    overlaps: Array
    by: str = "entropy"

    @property
    def groups(self) -> tuple[Group, ...]:
        """The components of each cluster, the largest cluster first."""
        groups: set[Group] = {(k,) for k in range(len(self.entropies))}
        for pair in self.merges[: len(self.entropies) - self.n_clusters]:
            groups = groups - set(pair) | {tuple(sorted(pair[0] + pair[1]))}
        weights = np.asarray(self.mixture.weights_)
        return tuple(sorted(groups, key=lambda group: (-float(weights[list(group)].sum().round(12)), group)))

    def with_n_clusters(self, n_clusters: int) -> Combination:
        """Return the same steps, stopped at another number of clusters."""
        check_integer(n_clusters, "n_clusters", least=1)
        if n_clusters > len(self.entropies):
            raise ValueError(
                f"n_clusters must be at most {len(self.entropies)}, the number of components; got "
                f"{n_clusters}."
            )
        return replace(self, n_clusters=n_clusters)

    def predict_proba(self, X: Any) -> Any:
        """Return the posterior probability of each cluster, shape (n_samples, n_clusters).

        It is the sum over the components of the cluster.
        """
        return cluster_shares(self.mixture.predict_proba(X), self.groups)

    def predict(self, X: Any) -> Any:
        """Return the most probable cluster of each row, shape (n_samples,); -1 for noise."""
        return cluster_labels(self.predict_proba(X))

    def __repr__(self) -> str:
        groups = ", ".join(map(_plus, self.groups))
        return f"Combination({len(self.entropies)} components, {self.n_clusters} clusters: {groups})"

    def _display(self) -> tuple[str, TableCells]:
        # At one cluster the entropy is zero, up to rounding.
        shown = ["0" if entropy < 1e-9 else figures(entropy) for entropy in self.entropies.tolist()]
        if self.by == "overlap":
            shown = list(map(_percentage, self.overlaps))
        combined = ["", *(" with ".join(map(_plus, pair)) for pair in self.merges)]
        rows = [
            [str(n), shown[n - 1], text, "<-" if n == self.n_clusters else ""]
            for n, text in zip(range(len(shown), 0, -1), combined, strict=True)
        ]
        return self.sentence, (["clusters", self.by, "combined", ""], rows)

    @property
    def sentence(self) -> str:
        """Which components each cluster holds."""
        n, clusters = len(self.entropies), count_noun(self.n_clusters, "cluster")
        combine = "combines" if n == 1 else "combine"
        return (
            f"{count_noun(n, 'component')} {combine} into {clusters}: {', '.join(map(_plus, self.groups))}."
        )


def cluster_shares(shares: Any, groups: Sequence[Group]) -> Any:
    """Return the probabilities of clusters, shape (n_samples, n_clusters), from those of their components."""
    return namespace(shares).stack([sum(shares[:, k] for k in group) for group in groups], axis=1)


def cluster_labels(shares: Any) -> Any:
    """Return the most probable cluster of each row; -1 for noise, whose probability is the rest."""
    xp = namespace(shares)
    # The rest is zero up to rounding without noise.
    is_noise = 1 - xp.sum(shares, axis=1) > xp.max(shares, axis=1)
    labels = xp.argmax(shares, axis=1)
    return xp.where(is_noise, xp.full_like(labels, NOISE_LABEL), labels)


def combine(mixture: Any, rows: Rows, n_clusters: int | None, by: str = "entropy") -> Combination:
    """Return the components combined into clusters by entropy [baudry2010] or by overlap [hennig2010].

    In each step the two clusters are combined that lower the entropy of the clustering most, or that overlap
    most. Rows are read once; the probabilities of
    those that are in doubt are kept.
    """
    one_of(by, "by", ("entropy", "overlap"))
    state = FittedState.of(mixture)
    posteriors = state.answer(
        rows, "probabilities", mixture.n_threads, lambda shares: shares[shares.max(axis=1) < 1]
    )
    posteriors = np.asarray(posteriors if rows.is_distributed else to_numpy(posteriors), dtype=np.float64)
    n_rows = float(rows.n_rows or state.n_samples_seen or len(posteriors))
    merges, entropies, overlaps = _merge_steps(posteriors, n_rows * state.parameters.weights, by)
    if n_clusters is None:
        apart = np.flatnonzero(overlaps <= MAX_OVERLAP)
        n_clusters = elbow(entropies) if by == "entropy" else int(apart.max()) + 1
    return Combination(mixture, n_clusters, merges, entropies, overlaps, by).with_n_clusters(n_clusters)


def elbow(entropies: Array) -> int:
    """Return the number of clusters at which the entropy begins to rise fast.

    That is where two lines, which meet in it, fit the entropies against the number of clusters best, by least
    squares [baudry2010, section 4]. With fewer than three components, none are combined.

    Parameters
    ----------
    entropies : ndarray, shape (n_components,)
        Those of 1, 2, ... clusters.
    """
    n = len(entropies)
    if n < 3:
        return n
    numbers = np.arange(1.0, n + 1)
    costs = [
        _squares_about_line(numbers[:c], entropies[:c])
        + _squares_about_line(numbers[c - 1 :], entropies[c - 1 :])
        for c in range(2, n)
    ]
    return 2 + int(np.argmin(costs))


def _squares_about_line(x: Array, y: Array) -> float:
    """Return the sum of squares that a line leaves."""
    x, y = x - x.mean(), y - y.mean()
    return float(np.sum((y - x * (x @ y) / (x @ x)) ** 2))


def _merge_steps(
    posteriors: Array, counts: Array, by: str
) -> tuple[tuple[tuple[Group, Group], ...], Array, Array]:
    """Return the steps, and the entropies and largest overlaps of 1, 2, ... clusters.

    Parameters
    ----------
    posteriors : ndarray, shape (n, n_components)
        Of rows in doubt.
    counts : ndarray, shape (n_components,)
        Of all rows.
    by : {"entropy", "overlap"}
    """
    groups: list[Group] = [(k,) for k in range(posteriors.shape[1])]
    shares, merges = posteriors.T.copy(), list[tuple[Group, Group]]()
    entropies, largest = list[float](), list[float]()
    negative = xlogy(shares, shares).sum(axis=1)
    gains = np.array([_entropy_gains(shares, negative, *each) for each in zip(shares, negative, strict=True)])
    while True:
        overlaps = _overlaps(shares, np.array([counts[list(group)].sum() for group in groups]))
        entropies.append(-float(negative.sum()))
        largest.append(float(overlaps.max()))
        if len(groups) == 1:
            return tuple(merges), np.maximum(np.array(entropies[::-1]), 0.0), np.array(largest[::-1])
        # The first of pairs with equal gains, such as those that have no row in common.
        first, second = np.triu_indices(len(groups), 1)
        best = int(np.argmax((overlaps if by == "overlap" else gains)[first, second]))
        a, b = int(first[best]), int(second[best])
        merges.append((groups[a], groups[b]))
        # Sorted by their first components.
        groups[a], shares[a] = tuple(sorted(groups[a] + groups[b])), shares[a] + shares[b]
        del groups[b]
        negative[a] = xlogy(shares[a], shares[a]).sum()
        shares, negative = np.delete(shares, b, axis=0), np.delete(negative, b)
        gains = np.delete(np.delete(gains, b, axis=0), b, axis=1)
        gains[a] = gains[:, a] = _entropy_gains(shares, negative, shares[a], negative[a])


def _overlaps(shares: Array, counts: Array) -> Array:
    """Return the overlap of each pair of clusters: see `Combination`."""
    assigned = cluster_labels(shares.T) == np.arange(len(shares))[:, None]
    mistaken = shares @ assigned.T / np.maximum(counts, MIN_WEIGHT)[:, None]
    np.fill_diagonal(mistaken, 0.0)
    return np.asarray(mistaken + mistaken.T)


def _entropy_gains(shares: Array, negative: Array, share: Array, of_share: float) -> Array:
    """Return by how much the entropy falls if one cluster is combined with each of some others."""
    both = shares + share
    return np.asarray(xlogy(both, both).sum(axis=1) - negative - of_share)


def _plus(group: Group) -> str:
    """Return the components of a cluster, counted from one."""
    return "+".join(str(component + 1) for component in group)
