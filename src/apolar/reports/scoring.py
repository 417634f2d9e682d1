"""Tables read a chunk at a time: their columns, and their rows under a fitted mixture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.data import open_rows
from apolar.data.rows import Divided
from apolar.estimator import GaussianMixture
from apolar.estimator.cluster_merging import Group, cluster_shares
from apolar.estimator.marginals import OutlierRule
from apolar.exceptions import ColumnError
from apolar.mixture.conditional import min_distances
from apolar.moments.covariance import is_constant, row_moments
from apolar.plots.clusters import most_probable, posteriors_of
from apolar.reports.limits import LIMITS
from apolar.scores import CRITERIA, FitSummary
from apolar.selection import Selection, select
from apolar.selection.selection_table import reason

# Rows that are read at a time.
CHUNK = 65_536
# The probability of any outlier at all among the rows of a fit, if they were drawn from the mixture.
OUTLIER_LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class RowScores:
    """What a mixture says about each of some consecutive rows.

    Attributes
    ----------
    predicted : ndarray of int, shape (n,)
        The most probable cluster, or the nearest one for rows that are out of reach; -1 for noise.
    posteriors : ndarray, shape (n, n_clusters), or one more column for noise
        The probability of each cluster. NaN for rows that are out of reach.
    log_densities : ndarray, shape (n,)
    outliers : ndarray of bool, shape (n,)
        By the rule of `GaussianMixture.outliers`, and all rows that are out of reach.
    """

    predicted: Array
    posteriors: Array
    log_densities: Array
    outliers: Array

    @property
    def uncertainty(self) -> Array:
        """One minus the probability of the cluster; zero for rows that are out of reach."""
        certainty = self.posteriors.max(axis=1)
        return np.where(np.isnan(certainty), 0.0, 1 - certainty)


def nameless(model: GaussianMixture) -> GaussianMixture:
    """Return a mixture without names of columns, which takes arrays and does not warn."""
    plain = copy(model)
    if hasattr(plain, "feature_names_in_"):
        del plain.feature_names_in_
    return plain


def component_groups(model: GaussianMixture) -> tuple[Group, ...]:
    """Return the components of each cluster: one of its own, unless some were combined."""
    alone = tuple((k,) for k in range(len(model.weights_)))
    groups: tuple[Group, ...] = getattr(model, "clusters_", alone)
    return groups


def cluster_posteriors(model: GaussianMixture, X: Array) -> Array:
    """Return the probability of each cluster for each row; that of noise is the last, if there is any."""
    return _of_clusters(component_groups(model), posteriors_of(nameless(model), X))


def _of_clusters(groups: tuple[Group, ...], components: Array) -> Array:
    """Return the probabilities of clusters from those of their components."""
    n_components = sum(map(len, groups))
    if len(groups) == n_components:
        return components
    return np.column_stack([cluster_shares(components, groups), components[:, n_components:]])


def score_chunks(model: GaussianMixture, X: Array, level: float = OUTLIER_LEVEL) -> Iterator[RowScores]:
    """Yield the scores of all rows, a chunk at a time, so that a memory map is never held in memory.

    Parameters
    ----------
    model : GaussianMixture
        Fitted.
    X : ndarray, shape (n_samples, n_features)
        May be a memory map; NaN where a value is missing.
    level : float, default=0.05
        Of the rule for outliers.

    Yields
    ------
    scores : RowScores
    """
    rule, plain = OutlierRule.of(model, level, open_rows(X)), nameless(model)
    groups = component_groups(model)
    cluster_of = np.empty(len(model.weights_), dtype=np.intp)
    for k, group in enumerate(groups):
        cluster_of[list(group)] = k
    for start in range(0, len(X), CHUNK):
        rows = np.asarray(X[start : start + CHUNK])
        components, densities = posteriors_of(plain, rows), plain.score_samples(rows)
        nearest = most_probable(components, len(model.weights_))
        outliers = _outliers(rule, rows, nearest)
        posteriors = _of_clusters(groups, components)
        predicted = most_probable(posteriors, len(groups))
        far = np.flatnonzero(~(densities > LIMITS.min_density))
        if len(far):
            posteriors = np.array(posteriors, dtype=np.float64)
            posteriors[far], outliers[far] = np.nan, True
            predicted[far] = cluster_of[_nearest(rule, rows[far])]
        yield RowScores(predicted, posteriors, densities, outliers)


def _outliers(rule: OutlierRule, rows: Array, predicted: Array) -> Array:
    """Return which rows are outliers; those near their own cluster need no other distance."""
    outliers = np.ones(len(rows), dtype=bool)
    for k in np.flatnonzero(rule.is_cluster):
        own = predicted == k
        outliers[own] = rule.of_component(k)(rows[own])
    outliers[outliers] = rule(rows[outliers])
    return outliers


@dataclass(frozen=True, eq=False)
class TableScores:
    """What a mixture says about all rows together.

    Attributes
    ----------
    predicted, uncertainty, outliers : ndarray, shape (n_samples,)
        As in `RowScores`.
    n_missing : ndarray of int, shape (n_features,)
        The number of missing values of each column.
    likelihood : FitSummary
        Without the evidence, which is that of the rows of a fit.
    """

    predicted: Array
    uncertainty: Array
    outliers: Array
    n_missing: Array
    likelihood: FitSummary

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.predicted)


def score_table(model: GaussianMixture, X: Array, level: float = OUTLIER_LEVEL) -> TableScores:
    """Return labels, uncertainties, outliers and the likelihood of all rows, read a chunk at a time."""
    parts, log_likelihood, n_rows = [], 0.0, 0
    n_missing = np.zeros(X.shape[1], dtype=np.int64)
    for scores in score_chunks(model, X, level):
        parts.append((scores.predicted, scores.uncertainty, scores.outliers))
        log_likelihood += float(scores.log_densities.sum(dtype=np.float64))
        n_missing += np.isnan(X[n_rows : n_rows + len(scores.predicted)]).sum(axis=0)
        n_rows += len(scores.predicted)
    predicted, uncertainty, outliers = map(np.concatenate, zip(*parts, strict=True))
    certainty = float(np.log(1 - uncertainty).sum())
    likelihood = FitSummary(log_likelihood, model.n_parameters_, float(len(X)), certainty)
    return TableScores(predicted, uncertainty, outliers, n_missing, likelihood)


def _nearest(rule: OutlierRule, rows: Array) -> Array:
    """Return the cluster whose Mahalanobis distance is least, of rows whose squares may overflow."""
    scales = np.nanmax(np.abs(rows), axis=1)
    distances = [
        [
            min_distances(mean[None] / scale, covariance[None], row[None] / scale)[0][0]
            for mean, covariance in zip(rule.means, rule.covariances, strict=True)
        ]
        for row, scale in zip(rows, scales, strict=True)
    ]
    return np.argmin(distances, axis=1)


# --- columns ------------------------------------------------------------------------------


def column_statistics(X: Array, names: Sequence[str]) -> tuple[Array, Array, Array]:
    """Return means and variances of the columns, and the number of missing values of each."""
    rows = open_rows(X)
    try:
        moments = row_moments(rows, allows_missing=True)
    except ColumnError as error:
        raise error.with_name(names) from error
    counts = moments.weight if moments.counts is None else moments.counts
    n_missing = np.rint(moments.weight - np.broadcast_to(counts, rows.n_features)).astype(np.int64)
    return moments.mean, moments.variances, n_missing


def divide_columns(X: Array, units: Array) -> Any:
    """Return rows with each column divided by its unit; of a memory map, a chunk at a time."""
    if np.all(units == 1):
        return X
    return open_rows(X).transform(Divided(units)) if isinstance(X, np.memmap) else X / units


def column_deviations(mean: Array, variances: Array, names: Sequence[str]) -> Array:
    """Return the standard deviation of each column; refuse constant columns."""
    constant = np.flatnonzero(is_constant(mean, variances))
    if len(constant):
        raise ColumnError(names[constant[0]], "is constant: it cannot be standardised. Leave it out.")
    return np.sqrt(variances)


def select_in_units(
    X: Array,
    n_components: Sequence[int],
    covariance_type: Any,
    criterion: str,
    *,
    units: Array,
    n_missing: Array,
    **parameters: Any,
) -> Selection:
    """Choose among mixtures of rows whose columns are divided by units.

    Parameters
    ----------
    X : ndarray, shape (n_samples, n_features)
    n_components : sequence of int
    covariance_type : str, sequence of str or None
    criterion : str
    units : ndarray, shape (n_features,)
    n_missing : ndarray of int, shape (n_features,)
        The number of missing values of each column, which have no density.
    **parameters
        Of `select`.

    Returns
    -------
    selection : Selection
        Its mixtures are those of the divided columns; its table and reason are in the units of X, as other
        criteria of the same rows are.
    """
    selection = select(divide_columns(X, units), n_components, covariance_type, criterion, **parameters)
    if np.all(units == 1):
        return selection
    log_units = float(np.log(units) @ (len(X) - n_missing))
    table = tuple(
        replace(
            row,
            log_likelihood=row.log_likelihood - log_units,
            **{name: getattr(row, name) + 2 * log_units for name in CRITERIA},
        )
        for row in selection.table
    )
    selection = replace(selection, table=table)
    return replace(selection, reason=reason(selection))
