"""Rows under a fitted mixture, a chunk at a time: clusters, their probabilities, densities and outliers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array
from apolar.estimator import GaussianMixture
from apolar.estimator.outliers import OutlierRule
from apolar.estimator.predict import NOISE, Likelihood
from apolar.mixture.distances import least_distances

# Rows that are read at a time.
CHUNK = 65_536
# A row with a log-density below this is too far from every cluster for its probabilities to be numbers.
LEAST_DENSITY = -1e270
# The probability of any outlier at all among the rows of a fit, if they were drawn from the mixture.
OUTLIER_LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class RowScores:
    """What a mixture says of each of some consecutive rows.

    Attributes
    ----------
    predicted : ndarray of int, shape (n,)
        The most probable cluster, or the nearest one for rows that are out of reach; -1 for noise.
    posteriors : ndarray, shape (n, n_components), or one more column for noise
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
        """One less the probability of the cluster; zero for rows that are out of reach."""
        certainty = self.posteriors.max(axis=1)
        return np.where(np.isnan(certainty), 0.0, 1 - certainty)


def scored_chunks(model: GaussianMixture, X: Array, level: float = OUTLIER_LEVEL) -> Iterator[RowScores]:
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
    rule = OutlierRule.of(model, level)
    for start in range(0, len(X), CHUNK):
        rows = np.asarray(X[start : start + CHUNK])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # arrays have no column names
            posteriors, densities = np.asarray(model.predict_proba(rows)), model.score_samples(rows)
        if model.noise_box_ is not None:
            posteriors = np.column_stack([posteriors, np.maximum(1 - posteriors.sum(axis=1), 0)])
        most_probable = posteriors.argmax(axis=1)
        predicted = np.where(most_probable < len(model.weights_), most_probable, NOISE)
        outliers = rule(rows)
        far = np.flatnonzero(~(densities > LEAST_DENSITY))
        if len(far):
            posteriors = np.array(posteriors, dtype=np.float64)
            posteriors[far], outliers[far] = np.nan, True
            predicted[far] = _nearest(rule, rows[far])
        yield RowScores(predicted, posteriors, densities, outliers)


@dataclass(frozen=True, eq=False)
class TableScores:
    """What a mixture says of all rows together.

    Attributes
    ----------
    predicted, uncertainty, outliers : ndarray, shape (n_samples,)
        As in `RowScores`.
    n_missing : ndarray of int, shape (n_features,)
        The number of missing values of each column.
    likelihood : Likelihood
    """

    predicted: Array
    uncertainty: Array
    outliers: Array
    n_missing: Array
    likelihood: Likelihood


def scored(model: GaussianMixture, X: Array, level: float = OUTLIER_LEVEL) -> TableScores:
    """Return labels, uncertainties, outliers and the likelihood of all rows, read a chunk at a time."""
    predicted = np.empty(len(X), dtype=np.int64)
    uncertainty, outliers = np.empty(len(X)), np.empty(len(X), dtype=bool)
    log_likelihood, start = 0.0, 0
    n_missing = np.zeros(X.shape[1], dtype=np.int64)
    for scores in scored_chunks(model, X, level):
        cut = slice(start, start + len(scores.predicted))
        predicted[cut], uncertainty[cut] = scores.predicted, scores.uncertainty
        outliers[cut] = scores.outliers
        log_likelihood += float(scores.log_densities.sum(dtype=np.float64))
        n_missing += np.isnan(X[cut]).sum(axis=0)
        start = cut.stop
    certainty = float(np.log(1 - uncertainty).sum())
    likelihood = Likelihood(log_likelihood, float(len(X)), certainty)
    return TableScores(predicted, uncertainty, outliers, n_missing, likelihood)


def _nearest(rule: OutlierRule, rows: Array) -> Array:
    """Return the cluster whose Mahalanobis distance is least, of rows whose squares may overflow."""
    scales = np.nanmax(np.abs(rows), axis=1)
    distances = [
        [
            least_distances(mean[None] / scale, covariance[None], row[None] / scale)[0][0]
            for mean, covariance in zip(rule.means, rule.covariances, strict=True)
        ]
        for row, scale in zip(rows, scales, strict=True)
    ]
    return np.argmin(distances, axis=1)
