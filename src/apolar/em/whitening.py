"""Whitened coordinates, in which EM runs: rows have mean zero and unit variance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import to_device_of, write
from apolar.mixture.families import Family
from apolar.mixture.noise import NoiseBox
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters

# The largest distance of a row from the centre, in deviations of the columns.
MAX_DISTANCE = 1e140
# The least eigenvalue of the correlation matrix that is divided by.
MIN_EIGENVALUE = 1e-6


@dataclass(frozen=True, eq=False)
class Whitening:
    """The affine map from the units of the data to whitened coordinates, x -> (x - centre) A.

    Attributes
    ----------
    centre : ndarray, shape (n_features,)
    matrix : ndarray
        A: a number, shape (n_features,) if diagonal, or (n_features, n_features).
    inverse : ndarray
        Of the same shape as `matrix`.
    log_det : float
        log |det A|: adding it to the log-density of a whitened row gives that in the units of the data.
    """

    centre: Array
    matrix: Array
    inverse: Array
    log_det: float

    @property
    def covariance(self) -> Array:
        """The covariance that becomes the identity, shape (n_features, n_features), in units of the data."""
        covariance = diagonal_covariance(np.ones(len(self.centre)), self.inverse)
        return covariance if covariance.ndim == 2 else np.diag(np.broadcast_to(covariance, len(self.centre)))

    @property
    def deviations(self) -> Array:
        """The deviation of each column, in the units of the data; one number if all columns have one unit."""
        inverse = self.inverse
        return np.sqrt(np.einsum("ij,ij->j", inverse, inverse)) if inverse.ndim == 2 else inverse

    def write(self, block: Any, out: Any) -> None:
        """Write rows, shape (n, n_features), in whitened coordinates into `out`, shape (n_features, n)."""
        dense = block.toarray() if sparse.issparse(block) else block
        centre = to_device_of(self.centre, out)
        if self.matrix.ndim == 2:
            write("matmul", to_device_of(self.matrix.T, out), (dense - centre).T, out=out)
            return
        write("subtract", dense.T, centre[:, None], out=out)
        out *= float(self.matrix) if self.matrix.ndim == 0 else to_device_of(self.matrix, out)[:, None]

    def transform(self, points: Array) -> Array:
        """Return points, shape (..., n_features), in whitened coordinates."""
        return _times(points - self.centre, self.matrix)

    def inverse_transform(self, points: Array) -> Array:
        """Return whitened points in the units of the data."""
        return self.centre + _times(points, self.inverse)

    def within_reach(self, block: Array) -> Array:
        """Return rows, shape (n, n_features), clipped so that squares of their distances do not overflow.

        The log-density of rows further than `MAX_DISTANCE` deviations from the centre would overflow; it is
        computed as if they were at that distance.
        """
        reach = MAX_DISTANCE * self.deviations
        if max(float(block.max(initial=0.0)), -float(block.min(initial=0.0))) < float(np.min(reach)):
            return block
        return np.clip(block, self.centre - reach, self.centre + reach)

    def transform_parameters(self, parameters: MixtureParameters) -> WhitenedParameters:
        """Return mixtures in whitened coordinates."""
        means = self.transform(parameters.means)
        covariances = _congruent(parameters.covariances, self.matrix)
        return WhitenedParameters(parameters.weights, means, covariances)

    def inverse_transform_parameters(
        self, parameters: WhitenedParameters, noise: NoiseBox | None = None
    ) -> MixtureParameters:
        """Return whitened mixtures in the units of the data, with their noise component if there is one."""
        means = self.inverse_transform(parameters.means)
        covariances = _congruent(parameters.covariances, self.inverse)
        return MixtureParameters(parameters.weights, means, covariances, noise)


def _times(points: Array, matrix: Array) -> Array:
    return points @ matrix if matrix.ndim == 2 else points * matrix


def _congruent(covariances: Array, matrix: Array) -> Array:
    """Return A^t S A for each covariance S."""
    if matrix.ndim == 2:
        product = matrix.T @ covariances @ matrix
        return (product + np.swapaxes(product, -1, -2)) / 2
    return covariances * matrix**2


def diagonal_covariance(variances: Array | float, matrix: Array) -> Array:
    """Return A^t diag(variances) A in the form of A: a number (of the mean variance), diagonal, or matrix."""
    if matrix.ndim == 2:
        return (matrix.T * variances) @ matrix
    return np.asarray((variances if matrix.ndim else np.mean(variances)) * matrix**2)


def whitening_by(centre: Array, units: Array, covariance: Array | None = None) -> Whitening:
    """Return the whitening that divides all columns by one unit, or each by its own, and decorrelates them.

    Parameters
    ----------
    centre : ndarray, shape (n_features,)
    units : ndarray, shape () or (n_features,)
    covariance : ndarray, shape (n_features, n_features), optional
        By default, columns are not decorrelated.

    Returns
    -------
    whitening : Whitening
    """
    if covariance is None:
        log_det = -float(np.sum(np.log(units))) * (len(centre) if units.ndim == 0 else 1)
        return Whitening(centre, np.asarray(1 / units), units, log_det)
    values, vectors = np.linalg.eigh(covariance / units / units[:, None])
    roots = np.sqrt(np.maximum(values, MIN_EIGENVALUE))
    matrix = vectors / roots / units[:, None]
    log_det = -float(np.log(roots).sum() + np.log(units).sum())
    return Whitening(centre, matrix, (vectors * roots).T * units, log_det)


def whitening_around(parameters: MixtureParameters, family: Family) -> Whitening:
    """Return the whitening of rows with the mean and covariance of a mixture, in the units of the data.

    If the mixture has noise, these are the mean and covariance of the components.
    """
    weights, means = parameters.weights, parameters.means
    weights = weights if parameters.noise is None else weights / weights.sum()
    centre = weights @ means
    between = family.between(means - centre, weights).sum(axis=0)
    within = family.average(parameters.covariances, weights)
    total = within + between / family.divisor(np.ones(()), means.shape[1])
    if not family.is_axis_aligned:
        return whitening_by(centre, np.sqrt(np.diag(total)), total)
    variances = family.diagonals(total)
    if family.is_spherical:
        variances = np.asarray(np.mean(variances))
    return whitening_by(centre, np.asarray(np.sqrt(variances)))


def mixture_around(parameters: MixtureParameters, family: Family) -> tuple[Whitening, WhitenedParameters]:
    """Return the whitening around a mixture, and the mixture in its coordinates.

    All that is asked of a fitted mixture is computed there. Matrices are transformed by their roots: products
    with the matrices themselves may not be positive definite, by rounding.
    """
    whitening = whitening_around(parameters, family)
    inside = whitening.transform_parameters(parameters)
    if whitening.matrix.ndim == 2:
        roots = whitening.matrix.T @ family.root(parameters.covariances)
        inside = replace(inside, covariances=roots @ np.swapaxes(roots, -1, -2))
    return whitening, inside
