"""Tables read a chunk at a time: their columns, and their rows under a fitted mixture."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from tempfile import TemporaryFile
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
from apolar.scores import CRITERIA, FitSummary
from apolar.selection import Selection, select
from apolar.selection.selection_table import reason

# Rows that are read at a time.
CHUNK = 65_536
# The probability of any outlier at all among the rows of a fit, if they were drawn from the mixture.
OUTLIER_LEVEL = 0.05


@dataclass(frozen=True)
class Limits:
    """What a report shows, and from when on it says something.

    They bound the size of the page and the time it takes, or are conventions that the page states; none
    changes a fit.
    """

    # --- rows under a mixture ---
    # A row with a log-density below this is too far from every cluster for its probabilities to be numbers.
    min_density: float = -1e270
    # The largest mean of a column whose square does not overflow.
    max_mean: float = 1e150
    # Standard errors cost about a pass over the rows per parameter: above this many numbers there are none.
    max_numbers: float = 2e9

    # --- findings ---
    # The cluster of a row is in doubt if its probability is below this.
    doubt: float = 0.9
    # Above this fraction of the rows in doubt, clusters are hardly apart.
    much_doubt: float = 0.1
    # A cluster of fewer rows may be due to chance.
    few_rows: int = 5
    # With a larger condition number of the information, the rows hardly determine some parameters.
    ill_conditioned: float = 1e4
    # What tells clusters apart: up to this many columns, whose means are this many standard deviations apart
    # or more; above the second number they are no clearer.
    n_traits: int = 3
    min_difference: float = 1.0
    clear_difference: float = 4.0
    # A column whose clusters make up less of its variance hardly tells them apart.
    least_share: float = 0.02
    # A column has a long tail if its median is this much nearer to the tenth percentile than to the
    # ninetieth, and if deviations of clusters grow with their means: the correlation of the logarithms.
    long_tail: float = 0.3
    widening: float = 0.7
    # Sizes that the headline lists, and columns that a command names.
    listed_counts: int = 12
    named_columns: int = 12
    # Rows that a card shows.
    typical_rows: int = 3
    # A value of a category is frequent in a cluster above this many standard errors more than elsewhere.
    surprise: float = 3.0

    # --- tables of the page ---
    listed_rows: int = 15
    # Rows whose labels the page holds: about 20 bytes each.
    labelled_rows: int = 50_000
    listed_columns: int = 30
    listed_candidates: int = 60
    # Candidates that show at once.
    first_candidates: int = 12

    # --- pictures ---
    # Larger tables are randomly subsampled to this many rows first.
    sampled_rows: int = 20_000
    # Rows with a ring; more would hide the others.
    n_rings: int = 100
    # How far outside of the other rows an outlier is still shown, in their range.
    far: float = 1.0
    profile_columns: int = 16
    # Points of a panel, of all panels of the matrix, and of a matrix that says which row each is.
    panel_points: int = 1200
    matrix_points: int = 10_000
    named_points: int = 3600
    # Rows at one place that are named.
    named_together: int = 4


LIMITS = Limits()


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


@dataclass(frozen=True, eq=False)
class TableScores:
    """What a mixture says about each row of a table, and about all of them together.

    Attributes
    ----------
    predicted : ndarray of int, shape (n_samples,)
        The most probable cluster, or the nearest one for rows that are out of reach; -1 for noise.
    posteriors : ndarray, shape (n_samples, n_clusters), or one more column for noise
        The probability of each cluster. NaN for rows that are out of reach.
    outliers : ndarray of bool, shape (n_samples,)
        By the rule of `GaussianMixture.outliers`, and all rows that are out of reach.
    n_missing : ndarray of int, shape (n_features,)
        The number of missing values of each column.
    likelihood : FitSummary
        Without the evidence, which is that of the rows of a fit.
    """

    predicted: Array
    posteriors: Array
    outliers: Array
    n_missing: Array
    likelihood: FitSummary

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.predicted)

    @cached_property
    def certainty(self) -> Array:
        """The probability of the cluster of each row; one for rows that are out of reach."""
        return np.nan_to_num(self.posteriors.max(axis=1), nan=1.0)


def score_table(model: GaussianMixture, X: Array, level: float = OUTLIER_LEVEL) -> TableScores:
    """Return what a mixture says about rows, which are read once, a chunk at a time.

    Parameters
    ----------
    model : GaussianMixture
        Fitted.
    X : ndarray, shape (n_samples, n_features)
        May be a memory map, and so are the posteriors then; NaN where a value is missing.
    level : float, default=0.05
        Of the rule for outliers.
    """
    rule, plain = OutlierRule.of(model, level, open_rows(X)), nameless(model)
    groups, n_components = component_groups(model), len(model.weights_)
    shape = len(X), len(groups) + (model.noise_box_ is not None)
    posteriors = np.empty(shape)
    if isinstance(X, np.memmap):
        with TemporaryFile() as file:  # on POSIX, the map outlives its name
            posteriors = np.memmap(file, np.float64, "w+", shape=shape)
    predicted, outliers = np.empty(len(X), dtype=np.intp), np.empty(len(X), dtype=bool)
    n_missing = np.zeros(X.shape[1], dtype=np.int64)
    log_likelihood = log_certainty = 0.0
    for start in range(0, len(X), CHUNK):
        part = slice(start, start + CHUNK)
        rows = np.asarray(X[part])
        components, densities = posteriors_of(plain, rows), plain.score_samples(rows)
        of_clusters = cluster_shares(components, groups)
        probabilities = np.column_stack([of_clusters, components[:, n_components:]]).astype(np.float64)
        labels = most_probable(probabilities, len(groups))
        is_outlying = _outliers(rule, rows, most_probable(components, n_components))
        far = np.flatnonzero(~(densities > LIMITS.min_density))
        if len(far):
            probabilities[far], is_outlying[far] = np.nan, True
            nearest = _nearest(rule, rows[far])
            labels[far] = [next(i for i, group in enumerate(groups) if k in group) for k in nearest]
        posteriors[part], predicted[part], outliers[part] = probabilities, labels, is_outlying
        log_likelihood += float(densities.sum(dtype=np.float64))
        log_certainty += float(np.log(np.nan_to_num(probabilities.max(axis=1), nan=1.0)).sum())
        n_missing += np.isnan(rows).sum(axis=0)
    likelihood = FitSummary(log_likelihood, model.n_parameters_, float(len(X)), log_certainty)
    return TableScores(predicted, posteriors, outliers, n_missing, likelihood)


def _outliers(rule: OutlierRule, rows: Array, predicted: Array) -> Array:
    """Return which rows are outliers; those near their own cluster need no other distance."""
    outliers = np.ones(len(rows), dtype=bool)
    for k in np.flatnonzero(rule.is_cluster):
        own = predicted == k
        outliers[own] = rule.of_component(k)(rows[own])
    outliers[outliers] = rule(rows[outliers])
    return outliers


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
