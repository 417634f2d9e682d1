"""Components that are combined into clusters, by the entropy of the clustering."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import xlogy

from apolar._core.arrays import Array
from apolar._core.checks import check_integer
from apolar._core.namespaces import namespace, to_numpy
from apolar._core.numbers import figures
from apolar._core.tables import html_table, text_table
from apolar.data import Rows
from apolar.estimator.predict import NOISE, Predictor

__all__ = ["Combination", "Group", "combine", "elbow"]

Group = tuple[int, ...]
"""The numbers of the components of a cluster, from zero on."""

# A row of a component with a probability within this of one adds nothing to any entropy that could be seen.
CERTAIN = 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class Combination:
    """Components of a mixture, combined into clusters step by step.

    Attributes
    ----------
    mixture : GaussianMixture
    n_clusters : int
        The number of clusters that was chosen, or asked for.
    merges : tuple of (Group, Group)
        Which two clusters are combined in each step: from as many clusters as components down to one.
    entropies : ndarray, shape (n_components,)
        The entropy of the clustering, -sum t log t over rows and clusters, where t are the posterior
        probabilities; at index c - 1 that of c clusters.
    """

    mixture: Any
    n_clusters: int
    merges: tuple[tuple[Group, Group], ...]
    entropies: Array

    @property
    def groups(self) -> tuple[Group, ...]:
        """The components of each cluster, in the order of their first ones."""
        return self.groups_of(self.n_clusters)

    def groups_of(self, n_clusters: int) -> tuple[Group, ...]:
        """Return the components of each cluster, if there are `n_clusters`."""
        n_components = len(self.entropies)
        check_integer(n_clusters, "n_clusters", least=1)
        if n_clusters > n_components:
            raise ValueError(
                f"n_clusters must be at most {n_components}, the number of components; got {n_clusters}."
            )
        groups: set[Group] = {(k,) for k in range(n_components)}
        for pair in self.merges[: n_components - n_clusters]:
            groups = groups - set(pair) | {tuple(sorted(pair[0] + pair[1]))}
        return tuple(sorted(groups))

    def with_n_clusters(self, n_clusters: int) -> Combination:
        """Return the same steps, stopped at another number of clusters."""
        self.groups_of(n_clusters)
        return replace(self, n_clusters=n_clusters)

    def predict_proba(self, X: Any) -> Any:
        """Return the posterior probability of each cluster, shape (n_samples, n_clusters).

        It is the sum over the components of the cluster.
        """
        return _summed(self.mixture.predict_proba(X), self.groups)

    def predict(self, X: Any) -> Any:
        """Return the most probable cluster of each row, shape (n_samples,); -1 for noise."""
        shares = self.predict_proba(X)
        xp = namespace(shares)
        labels = xp.argmax(shares, axis=1)
        if vars(self.mixture).get("noise_box_") is None:
            return labels
        # What is missing to one is the probability of noise.
        is_noise = 1 - xp.sum(shares, axis=1) > xp.max(shares, axis=1)
        return xp.where(is_noise, NOISE, labels)

    def __repr__(self) -> str:
        return f"Combination({len(self.entropies)} components, {self.n_clusters} clusters: {self._written()})"

    def __str__(self) -> str:
        return "\n".join([self._words(), "", *text_table(*self._table())])

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return html_table(*self._table(), caption=self._words())

    def _written(self) -> str:
        return ", ".join(_plus(group) for group in self.groups)

    def _words(self) -> str:
        clusters = "1 cluster" if self.n_clusters == 1 else f"{self.n_clusters} clusters"
        return f"{len(self.entropies)} components combine into {clusters}: {self._written()}."

    def _table(self) -> tuple[list[str], list[list[str]]]:
        n_components = len(self.entropies)
        rows = []
        for n in range(n_components, 0, -1):
            pair = () if n == n_components else self.merges[n_components - n - 1]
            made = " with ".join(_plus(group) for group in pair)
            # At one cluster the entropy is zero, up to rounding.
            entropy = float(self.entropies[n - 1])
            chosen = "<-" if n == self.n_clusters else ""
            rows.append([str(n), "0" if entropy < 1e-9 else figures(entropy), made, chosen])
        return ["clusters", "entropy", "combined", ""], rows


def combine(
    mixture: Any, predictor: Predictor, rows: Rows, threads: int, n_clusters: int | None
) -> Combination:
    """Return the components of a mixture, combined into clusters by entropy [baudry2010].

    In each step the two clusters are combined that lower the entropy of the clustering most. Rows are read
    once; the probabilities of those that are in doubt are kept.
    """
    if rows.is_distributed:
        posteriors = np.asarray(predictor.each(rows, "probabilities", threads))
    else:
        posteriors = to_numpy(predictor.each(rows, "probabilities", threads, _in_doubt))
    merges, entropies = _merged(np.asarray(posteriors, dtype=np.float64))
    chosen = elbow(entropies) if n_clusters is None else n_clusters
    return Combination(mixture, chosen, merges, entropies).with_n_clusters(chosen)


def elbow(entropies: Array) -> int:
    """Return the number of clusters at which the entropy begins to rise fast.

    That is where two lines, which meet in it, fit the entropies against the number of clusters best, by least
    squares [baudry2010, section 4]. With fewer than three components, none are combined.

    Parameters
    ----------
    entropies : ndarray, shape (n_components,)
        Of 1, 2, ... clusters.
    """
    n = len(entropies)
    if n < 3:
        return n
    numbers = np.arange(1.0, n + 1)
    costs = [
        _residual(numbers[:c], entropies[:c]) + _residual(numbers[c - 1 :], entropies[c - 1 :])
        for c in range(2, n)
    ]
    return 2 + int(np.argmin(costs))


def _residual(x: Array, y: Array) -> float:
    """Return the sum of squares that a line leaves."""
    x, y = x - x.mean(), y - y.mean()
    return float(np.sum((y - x * (x @ y) / (x @ x)) ** 2))


def _merged(posteriors: Array) -> tuple[tuple[tuple[Group, Group], ...], Array]:
    """Return the steps, and the entropies of 1, 2, ... clusters."""
    groups: list[Group] = [(k,) for k in range(posteriors.shape[1])]
    shares = [np.ascontiguousarray(column) for column in posteriors.T]
    own = [float(xlogy(share, share).sum()) for share in shares]
    gains = {(i, j): _gain(shares, own, i, j) for i in range(len(groups)) for j in range(i + 1, len(groups))}
    entropies, merges = [-sum(own)], []
    alive = list(range(len(groups)))
    while len(alive) > 1:
        # Of pairs that gain as much, as those that have no row in common, the first.
        i, j = max(gains, key=lambda pair: (gains[pair], -pair[0], -pair[1]))
        merges.append((groups[i], groups[j]))
        groups[i] = tuple(sorted(groups[i] + groups[j]))
        shares[i] = shares[i] + shares[j]
        own[i] = float(xlogy(shares[i], shares[i]).sum())
        alive.remove(j)
        gains = {pair: gain for pair, gain in gains.items() if j not in pair}
        for other in alive:
            if other != i:
                pair = (min(i, other), max(i, other))
                gains[pair] = _gain(shares, own, *pair)
        entropies.append(-sum(own[k] for k in alive))
    return tuple(merges), np.maximum(np.array(entropies[::-1]), 0.0)


def _gain(shares: list[Array], own: list[float], i: int, j: int) -> float:
    """Return by how much the entropy falls if two clusters are combined."""
    both = shares[i] + shares[j]
    return float(xlogy(both, both).sum()) - own[i] - own[j]


def _in_doubt(probabilities: Any) -> Array:
    """Return the probabilities of those rows that may be in more than one component."""
    shares = to_numpy(probabilities)
    return shares[shares.max(axis=1) < 1 - CERTAIN]


def _summed(shares: Any, groups: tuple[Group, ...]) -> Any:
    """Return the sums of probabilities over the components of each cluster."""
    return namespace(shares).stack([sum(shares[:, k] for k in group) for group in groups], axis=1)


def _plus(group: Group) -> str:
    """Return the components of a cluster as they are counted in words, from one."""
    return "+".join(str(component + 1) for component in group)
