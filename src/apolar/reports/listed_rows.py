"""Single rows: those in doubt, outliers, and those that pictures show; what a row is, in a few words."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import numpy as np

from apolar._core.arrays import Array
from apolar.estimator.fitted import NOISE_LABEL
from apolar.mixture.conditional import min_distances
from apolar.plots.clusters import kept_rows
from apolar.reports.analysis import Analysis
from apolar.reports.scoring import LIMITS, nameless


def runners_up(analysis: Analysis, positions: Array) -> tuple[Array, Array]:
    """Return the second most probable cluster of some rows, -1 for noise, and its probability."""
    posteriors, rows = np.nan_to_num(analysis.posteriors[positions]), np.arange(len(positions))
    posteriors[rows, analysis.predicted[positions]] = -1.0  # of noise, the last
    second = posteriors.argmax(axis=1)
    return np.where(second < len(analysis.groups), second, NOISE_LABEL), posteriors[rows, second]


def doubtful_rows(analysis: Analysis, row_numbers: Array) -> list[dict[str, Any]]:
    """Return the rows that are most in doubt, the first ones first.

    For each: the number of its `row`, its two most probable clusters from 0 (-1 is noise), and how probable
    they are.
    """
    order = np.argsort(analysis.certainty, kind="stable")[: LIMITS.listed_rows]
    positions = order[analysis.is_doubtful[order]]
    return [
        {
            "row": int(row_numbers[i]),
            "cluster": int(analysis.predicted[i]),
            "probability": float(analysis.certainty[i]),
            "second": int(second),
            "second_probability": float(probability),
        }
        for i, second, probability in zip(positions, *runners_up(analysis, positions), strict=True)
    ]


def outlying_rows(
    analysis: Analysis, X: Array, row_numbers: Array, *, of_noise: bool = False
) -> list[dict[str, Any]]:
    """Return the outliers, or the rows of noise, that are farthest away in a column, the farthest first.

    For each: the number of its `row`, the nearest cluster from 0, the `column` that says most, the value
    there, and how far that is from the mean of the cluster, in its `deviations`, with a sign.
    """
    positions = np.flatnonzero(analysis.predicted == NOISE_LABEL if of_noise else analysis.is_outlying)
    if not len(positions):
        return []
    clusters, means = analysis.predicted[positions], analysis.clusters.means
    # A row that is a cluster by itself is compared with the others.
    is_alone = (clusters == NOISE_LABEL) | (analysis.counts[clusters] == 1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rows = np.asarray(X[positions])
        if is_alone.any() and (analysis.counts > 1).any():
            distances = [
                np.nansum(((rows - m) / d) ** 2, axis=1) if count > 1 else np.full(len(rows), np.inf)
                for m, d, count in zip(means, analysis.deviations, analysis.counts, strict=True)
            ]
            clusters = np.where(is_alone, np.argmin(distances, axis=0), clusters)
        offsets = (rows - means[clusters]) / analysis.deviations[clusters]
    sizes = np.where(np.isnan(offsets), -1.0, np.abs(offsets))
    columns = sizes.argmax(axis=1)
    order = np.argsort(-sizes.max(axis=1), kind="stable")[: LIMITS.listed_rows]
    return [
        {
            "row": int(row_numbers[positions[i]]),
            "cluster": int(clusters[i]),
            "column": analysis.names[columns[i]],
            "value": float(X[positions[i], columns[i]]),
            "deviations": float(offsets[i, columns[i]]),
        }
        for i in order.tolist()
    ]


def typical_rows(analysis: Analysis, X: Array) -> list[list[int]]:
    """Return the positions of the rows nearest to the mean of each cluster, by Mahalanobis' distance.

    In a large table only some rows of each cluster are compared.
    """
    view = analysis.clusters
    means, kind = view.means, view.family
    covariances = view.variances if kind.is_axis_aligned else kind.matrices(view.covariances, *means.shape)
    rng, most = np.random.default_rng(0), LIMITS.sampled_rows // len(means) + 1
    found = []
    for k in range(len(means)):
        members = np.flatnonzero(analysis.predicted == k)
        if len(members) > most:
            members = np.sort(rng.choice(members, most, replace=False))
        if len(members) <= LIMITS.typical_rows:
            found.append(members.tolist())
            continue
        rows = np.asarray(X[members], dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            distances = min_distances(means[[k]], covariances[[k]], rows)[0]
        # Rows with missing values have fewer columns to be far away in.
        order = np.lexsort((distances, np.isnan(rows).sum(axis=1)))
        found.append(members[order[: LIMITS.typical_rows]].tolist())
    return found


def nearest_clusters(analysis: Analysis) -> list[int | None]:
    """Return, for each cluster, the other one that its rows in doubt are most like; None if none is."""
    found: list[int | None] = []
    for k in range(len(analysis.groups)):
        positions = np.flatnonzero((analysis.predicted == k) & analysis.is_doubtful)
        clusters, counts = np.unique(runners_up(analysis, positions)[0], return_counts=True)
        found.append(int(clusters[counts.argmax()]) if len(counts) else None)
    return found


def row_words(analysis: Analysis, positions: Array, row_numbers: Array) -> list[str]:
    """Return what is known about each of some rows, in a line."""
    truth, lines = analysis.truth, []
    for i, second, probability in zip(positions, *runners_up(analysis, positions), strict=True):
        clusters = [(analysis.predicted[i], analysis.certainty[i]), (second, probability)]
        words = ", ".join(
            f"{'noise' if k == NOISE_LABEL else f'cluster {k + 1}'} ({share:.2f})"
            for k, share in clusters
            if round(share, 2) > 0
        )
        if truth is not None and truth.codes[i] >= 0:
            words += f"; class {truth.names[truth.codes[i]]}"
        if analysis.is_outlying[i]:
            words += "; an outlier"
        lines.append(f"row {row_numbers[i]}: {words}")
    return lines


def labels_link(analysis: Analysis, row_numbers: Array) -> str:
    """Return the labels as a link that a browser saves, or nothing if they are many."""
    if analysis.n_rows > LIMITS.labelled_rows:
        return ""
    clusters = analysis.predicted + (analysis.predicted != NOISE_LABEL)
    rows = zip(row_numbers, clusters, analysis.certainty, strict=True)
    lines = [f"{row},{cluster},{probability:.6g}\n" for row, cluster, probability in rows]
    return "data:text/csv;charset=utf-8," + quote("".join(["row,cluster,probability\n", *lines]), safe=",.")


# --- pictures -----------------------------------------------------------------------------


def choose_rows(
    analysis: Analysis, X: Array, columns: list[int], most: int
) -> tuple[Array, Array, list[str]]:
    """Return the rows that a picture of some columns shows.

    Parameters
    ----------
    analysis : Analysis
    X : ndarray, shape (n_samples, n_features)
    columns : list of int
    most : int
        How many rows at most: the outermost, those in doubt, some of each cluster, then any.

    Returns
    -------
    positions : ndarray of int, shape (n_shown,)
    values : ndarray, shape (n_shown, n_features)
        Missing ones are where the mixture expects them.
    remarks : list of str
        What the reader must know about the choice of rows.
    """
    # Only some rows of a large table are read: of every cluster, and outliers.
    nothing, outliers = np.empty((analysis.n_rows, 0)), np.flatnonzero(analysis.outliers)
    positions = kept_rows(
        nothing, [analysis.predicted], LIMITS.sampled_rows, np.random.default_rng(0), before=outliers
    )
    values = np.asarray(X[positions], dtype=float)
    if np.any(analysis.n_missing):
        values = np.asarray(nameless(analysis.model).impute(values))
    is_noise = analysis.predicted == NOISE_LABEL
    is_in_small = ~is_noise & (analysis.counts[analysis.predicted] < LIMITS.few_rows)
    inside = _inside(values, (analysis.is_outlying | is_noise | is_in_small)[positions])
    n_outside = int(np.count_nonzero(~inside))
    positions, values = positions[inside], values[inside]
    order = np.argsort(analysis.certainty[positions], kind="stable")
    doubtful = order[analysis.is_doubtful[positions[order]]]
    groups = [analysis.predicted[positions]]
    kept = kept_rows(values[:, columns], groups, most, np.random.default_rng(0), before=doubtful)
    positions, values = positions[kept], values[kept]
    remarks = []
    if len(kept) + n_outside < analysis.n_rows:
        remarks.append(f"Shown: {len(kept):,} of {analysis.n_rows:,} rows, small clusters thinned less.")
    if n_outside:
        which = "1 row is" if n_outside == 1 else f"{n_outside:,} rows are"
        remarks.append(f"{which} far outside the frame.")
    return positions, values, remarks


def _inside(values: Array, is_apart: Array) -> Array:
    """Return which rows are in the frame: all but rows apart so far away that the others would be a dot."""
    if not is_apart.any() or is_apart.all():
        return np.ones(len(values), dtype=bool)
    low, high = values[~is_apart].min(axis=0), values[~is_apart].max(axis=0)
    room = LIMITS.far * (high - low)
    is_near = np.all((values >= low - room) & (values <= high + room), axis=1)
    return is_near | ~is_apart
