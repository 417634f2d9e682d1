"""Whitened coordinates, in which EM runs: rows have mean zero and unit variance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import to_device_of, write
from apolar.mixture.families import Family, Invariance
from apolar.mixture.noise import NoiseBox, noise_weights
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
    n_rows : int
        The number of rows that are whitened.
    weight : float
        The sum of the weights of those rows.
    measurement : float or ndarray, shape (n_features,)
        The variance of the Gaussian measurement error that each row is assumed to have, in the units of the
        data: one for every column, `reg_covar`, or one per column, of its rounding errors. The M-step adds
        it to the variances.
    noise_box : NoiseBox or None
        Where the noise component is, in the units of the data, if there is one.
    noise_shares : tuple of float
        Shares of the rows that may be noise, which starts set aside.
    available_covariance : ndarray, shape (n_features, n_features), or None
        The covariance of the rows, in the units of the data, if values may be missing.
    """

    centre: Array
    matrix: Array
    inverse: Array
    log_det: float
    n_rows: int
    weight: float
    measurement: float | Array = 0.0
    noise_box: NoiseBox | None = None
    noise_shares: tuple[float, ...] = ()
    available_covariance: Array | None = None

    @property
    def has_noise_component(self) -> bool:
        """Whether there is a noise component beside the Gaussian ones."""
        return self.noise_box is not None

    @property
    def noise_log_density(self) -> float:
        """The log-density of the noise component in whitened coordinates."""
        assert self.noise_box is not None
        return -self.noise_box.log_volume - self.log_det

    def append_noise_component(self, natural: Array, weights: Array) -> Array:
        """Return natural parameters with those of the noise component appended, if there is one.

        The logit of the noise is the same for all rows, so that blocks and kernels treat it as a component
        like any other.

        Parameters
        ----------
        natural : ndarray, shape (..., n_components, n_stats)
        weights : ndarray, shape (..., n_components)
            Of the components; that of the noise is one less their sum.

        Returns
        -------
        natural : ndarray, shape (..., n_components + 1, n_stats)
            As given without a noise component.
        """
        if not self.has_noise_component:
            return natural
        n_components, n_stats = natural.shape[-2:]
        extended = np.zeros((*natural.shape[:-2], n_components + 1, n_stats))
        extended[..., :-1, :] = natural
        extended[..., -1, 0] = np.log(noise_weights(weights)) + self.noise_log_density
        return extended

    @property
    def is_incomplete(self) -> bool:
        """Whether values of the rows may be missing."""
        return self.available_covariance is not None

    def as_incomplete(self) -> Whitening:
        """Return the whitening for rows of which values may be missing."""
        if self.is_incomplete:
            return self
        inverse = self.inverse
        if inverse.ndim == 2:
            return replace(self, available_covariance=inverse.T @ inverse)
        variances = np.broadcast_to(inverse**2, len(self.centre))
        return replace(self, available_covariance=np.diag(variances))

    def metric(self, family: Family) -> Array:
        """Return the transformed identity, A^t A, as one covariance of a family."""
        return metric_of(self.matrix, family.identity(len(self.centre)))

    def measurement_covariance(self, family: Family) -> Array | None:
        """Return the covariance of the measurement error of a row, as one of a family; None without.

        A spherical covariance has the mean variance of the columns.
        """
        variances = self.measurement
        if not isinstance(variances, np.ndarray):
            return variances * self.metric(family) if variances else None
        if not variances.any():
            return None
        if self.matrix.ndim == 2:
            return (self.matrix.T * variances) @ self.matrix
        return np.asarray((np.mean(variances) if self.matrix.ndim == 0 else variances) * self.matrix**2)

    def measurement_quadratics(self, family: Family) -> Array | None:
        """Return what the measurement error of a row adds to its expected quadratics, or None without.

        The log-density is linear in the quadratics. With this term, E-step, M-step and gradient are those of
        rows observed up to Gaussian errors, and EM still maximises an objective.
        """
        covariance = self.measurement_covariance(family)
        if covariance is None:
            return None
        error = WhitenedParameters(np.ones(1), np.zeros((1, len(self.centre))), covariance[None])
        return family.untied.moments(error).second[0]

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
        offsets = points - self.centre
        return offsets @ self.matrix if self.matrix.ndim == 2 else offsets * self.matrix

    def inverse_transform(self, points: Array) -> Array:
        """Return whitened points in the units of the data."""
        offsets = points @ self.inverse if self.matrix.ndim == 2 else points * self.inverse
        return self.centre + offsets

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

    def inverse_transform_parameters(self, parameters: WhitenedParameters) -> MixtureParameters:
        """Return whitened mixtures in the units of the data."""
        means = self.inverse_transform(parameters.means)
        covariances = _congruent(parameters.covariances, self.inverse)
        return MixtureParameters(parameters.weights, means, covariances, self.noise_box)


def metric_of(matrix: Array, identity: Array) -> Array:
    """Return A^t A, in the form of `identity`, the identity as one covariance of a family."""
    return matrix.T @ matrix if matrix.ndim == 2 else identity * matrix**2


def _congruent(covariances: Array, matrix: Array) -> Array:
    """Return A^t S A for each covariance S."""
    if matrix.ndim == 2:
        product = matrix.T @ covariances @ matrix
        return (product + np.swapaxes(product, -1, -2)) / 2
    return covariances * matrix**2


def add_measurement(stats: Array, quadratics: Array | None) -> Array:
    """Return sums of row statistics, with what the measurement error of a row adds to its quadratics."""
    if quadratics is not None:
        # A copy: sums from a device may be read-only.
        stats = np.array(stats)
        stats[..., -len(quadratics) :] += stats[..., :1] * quadratics
    return stats


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
    if family.whitened_by is Invariance.LINEAR:
        units = np.sqrt(np.diag(total))
        whitening = decorrelation(centre, units, total / np.outer(units, units), len(means), 1.0)
    else:
        variances = family.diagonals(total)
        if family.whitened_by is Invariance.SCALING:
            variances = np.asarray(np.mean(variances))
        whitening = scaling(centre, np.asarray(np.sqrt(variances)), len(means), 1.0)
    return replace(whitening, noise_box=parameters.noise)


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


def scaling(centre: Array, units: Array, n_rows: int, weight: float, measurement: float = 0.0) -> Whitening:
    """Return the whitening that divides all columns by one unit, or each column by its own."""
    log_det = -float(np.sum(np.log(units))) * (len(centre) if units.ndim == 0 else 1)
    return Whitening(centre, np.asarray(1 / units), units, log_det, n_rows, weight, measurement)


def decorrelation(
    centre: Array, units: Array, correlation: Array, n_rows: int, weight: float, measurement: float = 0.0
) -> Whitening:
    """Return the whitening that divides columns by their units and decorrelates them."""
    values, vectors = np.linalg.eigh(correlation)
    roots = np.sqrt(np.maximum(values, MIN_EIGENVALUE))
    matrix = vectors / roots / units[:, None]
    inverse = (vectors * roots).T * units
    log_det = -float(np.log(roots).sum() + np.log(units).sum())
    return Whitening(centre, matrix, inverse, log_det, n_rows, weight, measurement)
