"""The rows that the pictures of a page show, and what each of them says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array
from apolar.estimator import GaussianMixture
from apolar.estimator.predict import NOISE
from apolar.plots.clusters import kept_rows, numbered_clusters
from apolar.reports.analysis import Analysis
from apolar.reports.rows import is_doubtful, is_outlying, posteriors_of, row_words
from apolar.reports.words import matched_clusters

__all__ = ["ShownRows", "shown_rows"]

# Of a table with more rows than this, so many are drawn by lot before some are chosen among them.
MAX_CANDIDATES = 20_000
# Rows with a ring.
MAX_RINGS = 100
# Rows at one place that are named.
MAX_TOGETHER = 4
# Of an outlier that is outside of the frame, in ranges of the other rows.
FAR = 1.0


@dataclass(frozen=True, eq=False)
class ShownRows:
    """Rows that a picture shows.

    Attributes
    ----------
    values : ndarray, shape (n_shown, n_features)
        Missing ones are where the mixture expects them.
    predicted : ndarray of int, shape (n_shown,)
    disagrees : ndarray of bool, shape (n_shown,)
        Rows that are not in the cluster of their class, unless they are many.
    n_disagreeing : int
        How many they are among all rows.
    is_outlier : ndarray of bool, shape (n_shown,)
    posteriors : ndarray, shape (n_shown, n_components)
    words : list of str
        What is known of each.
    remarks : list of str
        What the reader must know of the choice of rows.
    """

    values: Array
    predicted: Array
    disagrees: Array
    n_disagreeing: int
    is_outlier: Array
    posteriors: Array
    words: list[str]
    remarks: list[str]

    def titles(self, offsets: Array, across: int, up: int, kind: str) -> Sequence[str] | None:
        """Return the words of points by their places; rows at the same place share them."""
        if kind == "ring":
            return None
        by_place: dict[tuple[float, float, str], list[str]] = {}
        for place, cluster, words in zip(
            self.values[:, [across, up]].tolist(), self.predicted.tolist(), self.words, strict=True
        ):
            name = "noise" if cluster == NOISE else f"cluster-{cluster + 1}"
            by_place.setdefault((*place, name), []).append(words)
        return [_together(by_place[x, y, kind]) for x, y in offsets.tolist()]


def _together(words: list[str]) -> str:
    """Return the words of rows at one place, a line each."""
    left = len(words) - MAX_TOGETHER
    return "\n".join([*words[:MAX_TOGETHER], *([f"and {left} more here"] if left > 0 else [])])


def shown_rows(
    analysis: Analysis,
    X: Array,
    model: GaussianMixture,
    columns: list[int],
    most: int,
    row_numbers: Array | None,
) -> ShownRows:
    """Return the rows that a picture of some columns shows.

    Parameters
    ----------
    analysis : Analysis
    X : ndarray, shape (n_samples, n_features)
    model : GaussianMixture
        That of the analysis, without names.
    columns : list of int
    most : int
        How many rows at most: the outermost, those in doubt, some of each cluster, then any.
    row_numbers : ndarray of int or None
    """
    positions = _candidates(analysis)
    values = np.asarray(X[positions], dtype=float)
    if np.any(analysis.n_missing):
        values = np.asarray(model.impute(values))
    inside = _inside(values, is_outlying(analysis)[positions])
    n_outside = int(np.count_nonzero(~inside))
    positions, values = positions[inside], values[inside]
    predicted, doubtful = analysis.predicted[positions], is_doubtful(analysis)[positions]
    clusters = numbered_clusters(None, predicted, None, len(values), len(model.weights_))
    order = np.argsort(-analysis.uncertainty[positions], kind="stable")
    kept = kept_rows(
        values[:, columns], clusters, most, np.random.default_rng(0), before=order[doubtful[order]]
    )
    wrong = _disagreeing(analysis)
    remarks = []
    if len(kept) + n_outside < analysis.n_rows:
        remarks.append(f"Shown: {len(kept):,} of {analysis.n_rows:,} rows, small clusters thinned less.")
    if n_outside:
        which = "1 outlier is" if n_outside == 1 else f"{n_outside:,} outliers are"
        remarks.append(f"{which} far outside the frame.")
    posteriors = posteriors_of(analysis, X[positions[kept]])
    words = row_words(analysis, positions[kept], posteriors, row_numbers)
    n_wrong = int(np.count_nonzero(wrong))
    if n_wrong > MAX_RINGS:
        # So many rings would hide the rows.
        wrong, n_wrong = np.zeros_like(wrong), 0
    return ShownRows(
        values[kept],
        predicted[kept],
        wrong[positions[kept]],
        n_wrong,
        is_outlying(analysis)[positions[kept]],
        posteriors[:, : len(model.weights_)],
        words,
        remarks,
    )


def _candidates(analysis: Analysis) -> Array:
    """Return rows to choose among: all if they are few, else some of every cluster."""
    n_rows = analysis.n_rows
    if n_rows <= MAX_CANDIDATES:
        return np.arange(n_rows)
    rng = np.random.default_rng(0)
    chosen = [rng.choice(n_rows, MAX_CANDIDATES // 2, replace=False)]
    n_clusters = len(analysis.model.weights_)
    for cluster in range(n_clusters):
        members = np.flatnonzero(analysis.predicted == cluster)
        chosen.append(rng.permutation(members)[: max(50, MAX_CANDIDATES // (4 * n_clusters))])
    chosen.append(np.flatnonzero(analysis.outliers)[: MAX_CANDIDATES // 10])
    return np.unique(np.concatenate(chosen))


def _inside(values: Array, outliers: Array) -> Array:
    """Return which rows are in the frame: all but outliers so far away that the others would be a dot."""
    if not outliers.any() or outliers.all():
        return np.ones(len(values), dtype=bool)
    low, high = values[~outliers].min(axis=0), values[~outliers].max(axis=0)
    room = FAR * (high - low)
    is_near = np.all((values >= low - room) & (values <= high + room), axis=1)
    return is_near | ~outliers


def _disagreeing(analysis: Analysis) -> Array:
    """Return which rows are not in the cluster of their class, or not noise if that matches it."""
    truth = analysis.truth
    if truth is None:
        return np.zeros(analysis.n_rows, dtype=bool)
    return (truth.codes >= 0) & (matched_clusters(analysis)[truth.codes] != analysis.predicted)
