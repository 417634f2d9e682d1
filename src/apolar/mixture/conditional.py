"""Gaussian components given some of the columns: marginals of these, regressions of the others, distances.

Missing columns are masked, not cut out: matrices keep their size, so that all patterns of missing columns are
worked on together. The E-step computes from precisions. What is asked of a fitted mixture is computed from
roots of its covariances, which is accurate also where these are nearly singular.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from apolar._core.arrays import Array
from apolar._core.constants import MIN_WEIGHT
from apolar.mixture.families import FAMILIES
from apolar.mixture.storage import LOG_2PI, square

__all__ = [
    "FULL",
    "ConditionalComponents",
    "NaturalComponents",
    "RootedComponents",
    "min_distances",
]

FULL = FAMILIES["full"]


@dataclass(frozen=True, eq=False)
class NaturalComponents:
    """Weighted Gaussian components by constant + linear . x - x^t precision x / 2, their log-densities.

    Attributes
    ----------
    constants : ndarray, shape (..., n)
    linear : ndarray, shape (..., n, n_features)
    precisions : ndarray, shape (..., n, n_features, n_features)
    rises : ndarray, shape (..., n), or None
        From each constant to the largest value, at the mean. Known without the precisions, which may be
        singular up to rounding.
    """

    constants: Array
    linear: Array
    precisions: Array
    rises: Array | None = None

    @classmethod
    def of(cls, natural: Array, n_features: int, peaks: Array | None = None) -> NaturalComponents:
        """Return components from natural parameters of full covariances, shape (..., n, n_stats).

        The largest values of the functions may be given.
        """
        constants, precisions = natural[..., 0], -square(natural[..., 1 + n_features :])
        diagonal = np.arange(n_features)
        precisions[..., diagonal, diagonal] *= 2
        rises = None if peaks is None else peaks - constants
        return cls(constants, natural[..., 1 : 1 + n_features], precisions, rises)

    @property
    def peaks(self) -> Array:
        """The largest value of each function."""
        assert self.rises is not None
        return self.constants + self.rises

    def natural(self) -> Array:
        """Return the natural parameters, shape (..., n, n_stats)."""
        return FULL.join_natural(self.constants, self.linear, self.precisions)

    def transformed(self, matrix: Array) -> NaturalComponents:
        """Return the same functions of y, where x = y matrix."""
        return replace(self, linear=self.linear @ matrix.T, precisions=matrix @ self.precisions @ matrix.T)

    def given(self, missing: Array) -> ConditionalComponents:
        """Return n components given the columns that are not missing, for several patterns.

        Parameters
        ----------
        missing : ndarray of bool, shape (n_patterns, n_features)
        """
        n_features = missing.shape[1]
        hidden, observed = missing[:, None], ~missing[:, None]
        among = hidden[..., :, None] & hidden[..., None, :]
        # The precisions among missing columns; among observed ones the identity, which changes nothing.
        inverses, log_dets = FULL.inverses(np.where(among, self.precisions, np.eye(n_features)), n_features)
        covariances = inverses * among
        offsets = FULL.times(covariances, self.linear)
        # The rows of observed columns are those of the identity.
        gains = -covariances @ (self.precisions * observed[..., None, :])
        columns = np.arange(missing.shape[1])
        gains[..., columns, columns] += observed
        squares = np.einsum("...i,...i->...", self.linear, offsets)
        marginal = NaturalComponents(
            self.constants + 0.5 * (squares + missing.sum(axis=1)[:, None] * LOG_2PI - log_dets),
            (self.linear - FULL.times(self.precisions, offsets)) * observed,
            (self.precisions @ gains) * observed[..., :, None],
            None if self.rises is None else self.rises - 0.5 * squares,
        )
        return ConditionalComponents(marginal, gains, offsets, covariances)


@dataclass(frozen=True, eq=False)
class RootedComponents:
    """Weighted Gaussian components by roots L of their covariances L L^t.

    Attributes
    ----------
    weights : ndarray, shape (n,)
    means : ndarray, shape (n, n_features)
    roots : ndarray, shape (n, n_features, n_features)
        Not necessarily triangular.
    """

    weights: Array
    means: Array
    roots: Array

    def given(self, missing: Array) -> ConditionalComponents:
        """Return the components given some columns: see `NaturalComponents.given`."""
        n_features = missing.shape[1]
        order = np.argsort(missing, axis=1, kind="stable")
        places = np.argsort(order, axis=1)[:, None]
        hidden, observed = missing[:, None], ~missing[:, None]
        n_observed = np.sum(~missing, axis=1)[:, None]
        # The triangular root with observed columns first: no covariance is multiplied out and factorised.
        rows = np.moveaxis(self.roots[:, order], 0, 1)
        root = np.swapaxes(np.linalg.qr(np.swapaxes(rows, -1, -2), mode="r"), -1, -2)
        is_first = (np.arange(n_features) < n_observed)[:, None]
        both = is_first[..., :, None] & is_first[..., None, :]
        first = np.where(both, root, np.eye(n_features))
        log_dets = 2 * np.log(np.abs(np.diagonal(first, axis1=-2, axis2=-1))).sum(axis=-1)
        # From here on in the order of the columns, except the inner axis.
        whiteners = np.take_along_axis(np.linalg.inv(first) * both, places[..., None, :], axis=-1)
        of_missing = np.take_along_axis(root, places[..., :, None], axis=-2) * hidden[..., :, None]
        rest = of_missing * ~is_first[..., None, :]
        regressions = of_missing @ whiteners
        scaled, transposed = FULL.times(whiteners, self.means), np.swapaxes(whiteners, -1, -2)
        squares = np.einsum("...i,...i->...", scaled, scaled)
        log_weights = np.log(np.maximum(self.weights, MIN_WEIGHT))
        marginal = NaturalComponents(
            log_weights - 0.5 * (n_observed * LOG_2PI + log_dets + squares),
            FULL.times(transposed, scaled),
            transposed @ whiteners,
            0.5 * squares,
        )
        offsets = self.means * hidden - FULL.times(regressions, self.means)
        gains = regressions + np.eye(n_features) * observed[..., None, :]
        return ConditionalComponents(marginal, gains, offsets, rest @ np.swapaxes(rest, -1, -2))


@dataclass(frozen=True, eq=False)
class ConditionalComponents:
    """Components given the observed columns of rows x that are zero where a column is missing.

    Attributes
    ----------
    marginal : NaturalComponents
        Of the observed columns, with leading shape (n_patterns, n); zero in the others.
    gains : ndarray, shape (n_patterns, n, n_features, n_features)
    offsets : ndarray, shape (n_patterns, n, n_features)
        The expected row is gains x + offsets.
    covariances : ndarray, shape (n_patterns, n, n_features, n_features)
        Of a row about the expected one: zero in observed columns.
    """

    marginal: NaturalComponents
    gains: Array
    offsets: Array
    covariances: Array

    def with_measurement(self, variances: Array) -> ConditionalComponents:
        """Return the same with errors in observed columns, of variances of shape (n_patterns, n_features)."""
        precisions = np.diagonal(self.marginal.precisions, axis1=-2, axis2=-1)
        constants = self.marginal.constants - 0.5 * np.einsum("pki,pi->pk", precisions, variances)
        spread = (self.gains * variances[:, None, None]) @ np.swapaxes(self.gains, -1, -2)
        return replace(
            self,
            marginal=replace(self.marginal, constants=constants),
            covariances=self.covariances + spread,
        )

    def completed(self, counts: Array, first: Array, second: Array) -> tuple[Array, Array]:
        """Return the first and second moments of all columns from those of x [ghahramani1994].

        Parameters
        ----------
        counts : ndarray, shape (n_patterns, n)
            The sums of responsibilities.
        first : ndarray, shape (n_patterns, n, n_features)
            The sums of x.
        second : ndarray, shape (n_patterns, n, n_features, n_features)
            The sums of x x^t.
        """
        images = FULL.times(self.gains, first)
        across = images[..., :, None] * self.offsets[..., None, :]
        products = self.gains @ second @ np.swapaxes(self.gains, -1, -2)
        squares = self.offsets[..., :, None] * self.offsets[..., None, :] + self.covariances
        products += across + np.swapaxes(across, -1, -2) + counts[..., None, None] * squares
        return images + counts[..., None] * self.offsets, products


def min_distances(means: Array, covariances: Array, X: Array) -> tuple[Array, Array]:
    """Return the squared Mahalanobis distance of each row from the component that is nearest by it.

    Parameters
    ----------
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray, shape (n_components, n_features), or with one more axis
        Variances of the columns, or matrices.
    X : ndarray, shape (n_samples, n_features)
        NaN where a value is missing: distances are among the values that are observed.

    Returns
    -------
    distances : ndarray, shape (n_samples,)
        Infinite if they overflow; zero where nothing is observed.
    n_observed : ndarray of int, shape (n_samples,)
    """
    observed = ~np.isnan(X)
    distances = np.full(len(X), np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        if covariances.ndim == 2:
            for mean, variances in zip(means, covariances, strict=True):
                squares = ((X - mean) / np.sqrt(variances)) ** 2
                distances = np.minimum(distances, np.where(observed, squares, 0.0).sum(axis=1))
        else:
            roots = FULL.root(covariances)
            patterns, which = observed[:1], np.zeros(len(X), dtype=np.intp)
            if not observed.all():
                patterns, which = np.unique(observed, axis=0, return_inverse=True)
            for number, pattern in enumerate(patterns):
                rows = np.flatnonzero(which.reshape(-1) == number)
                part = X[rows][:, pattern]
                for mean, root in zip(means, roots, strict=True):
                    squares = _squares(part - mean[pattern], root[pattern])
                    distances[rows] = np.fmin(distances[rows], squares)
    return distances, observed.sum(axis=1)


def _squares(offsets: Array, root: Array) -> Array:
    """Return squared Mahalanobis norms for covariances L L^t; the columns may have any units."""
    if not offsets.shape[1]:
        return np.zeros(len(offsets))
    units = np.sqrt((root**2).sum(axis=1))
    upper = np.linalg.qr((root / units[:, None]).T, mode="r")
    scaled = (offsets / units).T
    return (solve_triangular(upper, scaled, trans="T", check_finite=False) ** 2).sum(axis=0)
