"""Rows that are too far from every component to belong to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import chi2

from apolar._core.arrays import Array
from apolar._core.checks import check_fraction
from apolar.data import Rows
from apolar.estimator.predict import map_rows, predictor_of
from apolar.mixture.conditional import min_distances

__all__ = ["OutlierRule", "find_outliers"]

# A component with fewer rows than this has a single one.
MIN_CLUSTER_ROWS = 1.5


@dataclass(frozen=True, eq=False)
class OutlierRule:
    """The distance from every component above which a row is an outlier.

    Attributes
    ----------
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray, shape (n_components, n_features), or with one more axis
        Variances of the columns, or matrices.
    tail : float
        The probability that a row of the mixture is as far from its component.
    is_cluster : ndarray of bool, shape (n_components,)
        Which components count: one that a single row has for itself is not a cluster.
    """

    means: Array
    covariances: Array
    tail: float
    is_cluster: Array

    @classmethod
    def of(cls, estimator: Any, level: float) -> Self:
        """Return the rule of a fitted mixture; `level` is for all rows of the fit together."""
        check_fraction(level, "level")
        predictor = predictor_of(estimator)
        kind, parameters = predictor.family, predictor.parameters
        shape = parameters.means.shape
        if kind.is_axis_aligned:
            variances = kind.diagonals(kind.per_component(parameters.covariances))
            covariances = np.broadcast_to(variances.reshape(len(variances), -1), shape)
        else:
            covariances = kind.matrices(parameters.covariances, *shape)
        n_rows = max(float(estimator.n_samples_seen_), 1.0)
        is_cluster = n_rows * parameters.weights > MIN_CLUSTER_ROWS
        tail = float(-np.expm1(np.log1p(-level) / n_rows))
        return cls(parameters.means, covariances, tail, is_cluster | ~is_cluster.any())

    def __call__(self, X: Array) -> Array:
        """Return whether each row is an outlier, shape (n_samples,)."""
        means, covariances = self.means[self.is_cluster], self.covariances[self.is_cluster]
        distances, n_observed = min_distances(means, covariances, np.asarray(X, dtype=np.float64))
        limits = chi2.isf(self.tail, np.arange(1, X.shape[1] + 1))
        return distances > np.concatenate([[np.inf], limits])[n_observed]


def find_outliers(estimator: Any, rows: Rows, level: float) -> Any:
    """Return whether each row is an outlier, shape (n_samples,); a lazy array for distributed rows."""
    if rows.is_sparse:
        raise TypeError("X is sparse: call outliers for X.toarray(), a part of the rows at a time.")
    rule = OutlierRule.of(estimator, level)
    return rows.map_lazily(rule, None, np.bool_) if rows.is_distributed else map_rows(rows, rule)
