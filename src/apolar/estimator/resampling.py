"""How sure clusters are: whether they come back in resamples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.checks import check_fraction, check_integer, random_generator
from apolar._core.display import Displayed, TableCells
from apolar._core.settings import SETTINGS
from apolar._core.threads import one_blas_thread
from apolar.data.rows import fetch_rows
from apolar.estimator.cluster_merging import Group, cluster_labels, cluster_shares
from apolar.estimator.fitted import FittedState
from apolar.estimator.inputs import open_input

__all__ = ["Stability", "stability_of"]

# A cluster has come back if this part of the union with the most similar one is common to both [hennig2007].
RECOVERED = 0.75


@dataclass(frozen=True, eq=False)
class Stability(Displayed):
    """Whether the clusters of a mixture come back in resamples of its rows.

    Attributes
    ----------
    jaccard : ndarray, shape (n_resamples, n_clusters)
        The Jaccard index of each cluster with the most similar one of each resample, among the rows of the
        resample: the rows that are in both, of those in any. NaN where none of its rows was drawn.
    """

    jaccard: Array

    @property
    def mean(self) -> Array:
        """The mean Jaccard index of each cluster: above 0.75 it is stable, below 0.5 it dissolves."""
        return self._of_drawn(lambda jaccard: np.nanmean(jaccard, axis=0))

    @property
    def recovered(self) -> IndexArray:
        """In how many resamples each cluster comes back, with a Jaccard index of at least 0.75."""
        return np.count_nonzero(self.jaccard >= RECOVERED, axis=0)

    def interval(self, level: float = 0.95) -> Array:
        """Return the interval of each cluster that has a fraction of the indices, shape (2, n_clusters)."""
        level = check_fraction(level, "level")
        ends = [(1 - level) / 2, (1 + level) / 2]
        return self._of_drawn(lambda jaccard: np.nanquantile(jaccard, ends, axis=0))

    def _of_drawn(self, describe: Callable[[Array], Any]) -> Array:
        """Return a description of the clusters whose rows were drawn in any resample, NaN for others."""
        is_drawn = np.any(np.isfinite(self.jaccard), axis=0)
        described = np.asarray(describe(self.jaccard[:, is_drawn]))
        values = np.full((*described.shape[:-1], len(is_drawn)), np.nan)
        values[..., is_drawn] = described
        return values

    def sentences(self) -> list[str]:
        """Return what a reader has to know about each cluster."""
        low, high = self.interval()
        return [
            f"Cluster {k + 1} comes back in {n} of {len(self.jaccard)} resamples (Jaccard index "
            f"{self.mean[k]:.2f}, 95% of them between {low[k]:.2f} and {high[k]:.2f})."
            for k, n in enumerate(self.recovered.tolist())
            if np.isfinite(self.mean[k])
        ]

    def _display(self) -> tuple[str, TableCells]:
        low, high = self.interval()
        columns = self.mean, low, high, self.recovered / len(self.jaccard)
        lines = [[f"{k + 1}", *(f"{each[k]:.2f}" for each in columns)] for k in range(len(low))]
        head = ["cluster", "Jaccard", "2.5%", "97.5%", "comes back"]
        return f"Clusters in {len(self.jaccard)} resamples: Jaccard index with the most similar cluster.", (
            head,
            lines,
        )


@one_blas_thread()
def stability_of(model: Any, X: Any, sample_weight: Any, n_resamples: int) -> Stability:
    """Return how alike the clusters of a mixture are to those of fits to resamples [hennig2007].

    Each resample is fitted by the same search as the rows were, not from the fitted mixture, whose clusters
    would then come back because EM begins there.
    """
    check_integer(n_resamples, "n_resamples", least=2)
    rows = open_input(model, X, sample_weight, is_reread=True).on_host()
    rng = random_generator(model.random_state)
    if rows.n_rows is None or rows.is_distributed:
        raise ValueError(
            "Resamples are of rows whose number is known: pass an array, or a sample of the rows."
        )
    values, weights = fetch_rows(rows, np.arange(rows.n_rows))
    probabilities = None if weights is None else weights / weights.sum()
    n_drawn = min(rows.n_rows, SETTINGS.sample_rows)
    settings = model.get_params(deep=False)
    fresh = {"warm_start": False, "checkpoint": None, "verbose": 0}
    settings |= {name: fresh[name] for name in fresh.keys() & settings.keys()}
    groups = FittedState.of(model).clusters
    labels, n_clusters = _labels(_nameless(model), values, groups), len(groups or model.weights_)
    jaccard = np.full((n_resamples, n_clusters), np.nan)
    for line in jaccard:
        drawn, counts = np.unique(rng.choice(rows.n_rows, n_drawn, p=probabilities), return_counts=True)
        seed = int(rng.integers(2**31))
        again = type(model)(**{**settings, "random_state": seed})
        with warnings.catch_warnings(action="ignore"):
            again.fit(values[drawn], sample_weight=counts)
        merged = None if groups is None else again.combine(values[drawn], by="overlap").groups
        found = _labels(again, values[drawn], merged)
        table = np.zeros((n_clusters + 1, len(merged or again.weights_) + 1))
        # The last line and column are of noise.
        np.add.at(table, (labels[drawn], found), 1)
        both = table[:n_clusters, :-1]
        unions = table[:n_clusters].sum(axis=1)[:, None] + table[:, :-1].sum(axis=0) - both
        is_drawn = table[:n_clusters].sum(axis=1) > 0
        line[is_drawn] = (both / np.maximum(unions, 1)).max(axis=1)[is_drawn]
    return Stability(jaccard)


def _labels(model: Any, X: Array, groups: Sequence[Group] | None) -> Array:
    """Return the cluster of each row, -1 for noise; each component is one, unless there are groups."""
    if groups is None:
        return np.asarray(type(model).predict(model, X))
    return np.asarray(cluster_labels(cluster_shares(model.predict_proba(X), groups)))


def _nameless(model: Any) -> Any:
    """Return a mixture that takes arrays without names."""
    plain = type(model)(**model.get_params(deep=False))
    FittedState.of(model).set_on(plain)
    return plain
