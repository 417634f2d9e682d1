"""Whitened coordinates, in which EM runs: rows have mean zero and unit variance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array, IndexArray
from apolar._core.namespaces import to_device_of, write
from apolar.data import Rows
from apolar.em.far_rows import find_far_rows, without_rows
from apolar.mixture.families import Family, Invariance
from apolar.mixture.noise import NoiseBox, noise_weights
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters
from apolar.moments.available import available_moments
from apolar.moments.covariance import (
    ROUNDING,
    ColumnMoments,
    RowCovariance,
    column_moments,
    is_constant,
    row_covariance,
)

# The largest deviation of a column, and the inverse of the smallest: sums of squares must not overflow.
MAX_SPREAD = 1e145
# The largest variance of the noise of a row, relative to the variance of a column.
MAX_NOISE = 1e100
# The largest distance of a row from the centre, in deviations of the columns.
MAX_DISTANCE = 1e140
# The unit of a constant column, relative to the deviations of the other columns.
CONSTANT_UNIT = 1e-3
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
    noise : float or ndarray, shape (n_features,)
        The variance of the Gaussian noise that each row is assumed to have, in the units of the data: one for
        every column, `reg_covar`, or one per column, of its rounding errors. The M-step adds it to the
        variances.
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
    noise: float | Array = 0.0
    noise_box: NoiseBox | None = None
    noise_shares: tuple[float, ...] = ()

    @property
    def has_noise_component(self) -> bool:
        """Whether there is a noise component beside the Gaussian ones."""
        return self.noise_box is not None

    @property
    def noise_log_density(self) -> float:
        """The log-density of the noise component in whitened coordinates."""
        assert self.noise_box is not None
        return -self.noise_box.log_volume - self.log_det

    available_covariance: Array | None = None

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

    def noise_covariance(self, family: Family) -> Array | None:
        """Return the covariance of the noise of a row, as one of a family; None without noise.

        A spherical covariance has the mean variance of the columns.
        """
        if not isinstance(self.noise, np.ndarray):
            return self.noise * self.metric(family) if self.noise else None
        if not np.any(self.noise):
            return None
        if self.matrix.ndim == 2:
            return (self.matrix.T * self.noise) @ self.matrix
        return np.asarray((np.mean(self.noise) if self.matrix.ndim == 0 else self.noise) * self.matrix**2)

    def noise_quadratics(self, family: Family) -> Array | None:
        """Return what the noise of a row adds to its expected quadratics, or None without noise.

        The log-density is linear in the quadratics. With this term, E-step, M-step and gradient are those of
        rows observed up to Gaussian noise, and EM still maximises an objective.
        """
        covariance = self.noise_covariance(family)
        if covariance is None:
            return None
        noise = WhitenedParameters(np.ones(1), np.zeros((1, len(self.centre))), covariance[None])
        return family.untied.moments(noise).second[0]

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


def add_measurement_noise(stats: Array, noise: Array | None) -> Array:
    """Return sums of row statistics, with what the noise of a row adds to its quadratics."""
    if noise is not None:
        # A copy: sums from a device may be read-only.
        stats = np.array(stats)
        stats[..., -len(noise) :] += stats[..., :1] * noise
    return stats


@dataclass(frozen=True, eq=False)
class RowScale:
    """Where rows are and how far they spread, without the rows that are far from all others.

    One far row would set the scale of all: of the whitening, and with it of the prior.

    Attributes
    ----------
    weight : float
        The sum of the weights of all rows.
    n_rows : int
        The number of all rows.
    mean, variances : ndarray, shape (n_features,)
    covariance : ndarray, shape (n_features, n_features), or None
        If the family is whitened by it, or values are missing.
    is_incomplete : bool
        Whether values are missing.
    far_rows : ndarray of int
        The positions of the far rows.
    """

    weight: float
    n_rows: int
    mean: Array
    variances: Array
    covariance: Array | None
    is_incomplete: bool
    far_rows: IndexArray

    @property
    def moments(self) -> RowCovariance | None:
        """The first two moments of all rows, if this is what was computed."""
        if self.covariance is None or self.is_incomplete or len(self.far_rows):
            return None
        return RowCovariance(self.weight, self.n_rows, self.mean, self.covariance)


def scale_of(rows: Rows, family: Family, n_threads: int = 1) -> RowScale:
    """Return the scale of rows for the whitening of a family; they are checked, and read once or twice."""
    columns, covariance, is_incomplete = _moments_of(rows, family, n_threads)
    weight, n_rows = columns.weight, columns.n_rows
    far_rows = find_far_rows(rows, columns)
    if len(far_rows):
        columns, covariance, _ = _moments_of(without_rows(rows, far_rows), family, n_threads)
    return RowScale(weight, n_rows, columns.mean, columns.variances, covariance, is_incomplete, far_rows)


def _moments_of(rows: Rows, family: Family, n_threads: int) -> tuple[ColumnMoments, Array | None, bool]:
    """Return moments of the columns, the covariance where it is needed, and whether values are missing."""
    covariance = None
    if family.whitened_by is not Invariance.LINEAR:
        columns = column_moments(rows, n_threads, allows_missing=True)
    else:
        weight, n_rows, mean, covariance = row_covariance(rows, n_threads, allows_missing=True)
        columns = ColumnMoments(weight, n_rows, mean, np.diag(covariance).copy())
    if not np.any(np.isnan(columns.mean)):
        return columns, covariance, False
    available = available_moments(rows.on_host(), n_threads)
    return available.of_columns, available.covariance, True


def whitening_of(
    rows: Rows, family: Family, noise: float = 0.0, n_threads: int = 1, scale: RowScale | None = None
) -> Whitening:
    """Return the whitening of rows for a family, by a map under which the family is invariant.

    For spherical families all columns are divided by one number, for diagonal ones each column by its
    deviation, and for full ones the covariance of all rows becomes the identity.

    Parameters
    ----------
    rows : Rows
    family : Family
    noise : float, default=0.0
        The variance of the noise of each row.
    n_threads : int, default=1
    scale : RowScale, optional
        That of the rows, if it is known.

    Returns
    -------
    whitening : Whitening
    """
    scale = scale_of(rows, family, n_threads) if scale is None else scale
    weight, n_rows, mean = scale.weight, scale.n_rows, scale.mean
    # The sample variance, which a single row does not have.
    correction = weight / (weight - 1) if weight >= 2 else 1.0
    variances = np.maximum(scale.variances, 0.0) * correction
    units = column_units(variances, mean)
    _check_scales(variances, units, rows.names, noise)
    if family.whitened_by is Invariance.SCALING:
        unit = float(np.sqrt(np.mean(variances)))
        all_constant = np.all(is_constant(mean, variances))
        unit = float(units.max()) if all_constant or not unit > 0 else unit
        whitening = _scaling(mean, np.asarray(unit), n_rows, weight, noise)
    elif family.whitened_by is not Invariance.LINEAR:
        whitening = _scaling(mean, units, n_rows, weight, noise)
    else:
        assert scale.covariance is not None
        correlation = scale.covariance * correction / units / units[:, None]
        whitening = _decorrelation(mean, units, correlation, n_rows, weight, noise)
    return replace(whitening, available_covariance=scale.covariance) if scale.is_incomplete else whitening


def _check_scales(variances: Array, units: Array, names: tuple[str, ...] | None, noise: float) -> None:
    """Refuse columns whose squares overflow or underflow, and noise that dwarfs a column."""
    with np.errstate(invalid="ignore"):
        in_range = np.isfinite(variances) & (units < MAX_SPREAD) & (units > 1 / MAX_SPREAD)
    if not np.all(in_range):
        column = int(np.argmin(in_range))
        name = str(column) if names is None else f"{column} ({names[column]!r})"
        deviation = float(np.sqrt(variances[column]))
        scale = f"a deviation of {deviation:.3g}" if deviation > 0 else "values too far from zero"
        raise ValueError(
            f"Column {name} of X has {scale}: its squares leave the range of numbers. Divide the column by "
            "its scale first, or leave it out."
        )
    if noise > MAX_NOISE * float(units.min()) ** 2:
        raise ValueError(
            f"reg_covar={noise:.3g} is more than {MAX_NOISE:.0e} times the variance of a column: beside it "
            "the column is nothing. Give a smaller one, or None."
        )


def whitening_around(parameters: MixtureParameters, family: Family) -> Whitening:
    """Return the whitening of rows with the mean and covariance of a mixture, in the units of the data.

    Of a mixture with noise, those of the components.
    """
    weights, means = _shares(parameters), parameters.means
    centre = weights @ means
    between = family.between(means - centre, weights).sum(axis=0)
    within = family.average(parameters.covariances, weights)
    total = within + between / family.divisor(np.ones(()), means.shape[1])
    return _whitening_by(centre, total, parameters, family)


def _shares(parameters: MixtureParameters) -> Array:
    """Return the weights of the components; with noise, as fractions of the rows that are not noise."""
    weights = parameters.weights
    return weights if parameters.noise is None else weights / weights.sum()


def _whitening_by(centre: Array, total: Array, parameters: MixtureParameters, family: Family) -> Whitening:
    """Return the whitening by a centre and one covariance of the form of a family."""
    n_components = parameters.n_components
    if family.whitened_by is not Invariance.LINEAR:
        variances = family.diagonals(total)
        if family.whitened_by is Invariance.SCALING:
            variances = np.asarray(np.mean(variances))
        whitening = _scaling(centre, np.asarray(np.sqrt(variances)), n_components, 1.0)
        return replace(whitening, noise_box=parameters.noise)
    units = np.sqrt(np.diag(total))
    whitening = _decorrelation(centre, units, total / np.outer(units, units), n_components, 1.0)
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


def _scaling(centre: Array, units: Array, n_rows: int, weight: float, noise: float = 0.0) -> Whitening:
    """Return the whitening that divides all columns by one unit, or each column by its own."""
    log_det = -float(np.sum(np.log(units))) * (len(centre) if units.ndim == 0 else 1)
    return Whitening(centre, np.asarray(1 / units), units, log_det, n_rows, weight, noise)


def _decorrelation(
    centre: Array, units: Array, correlation: Array, n_rows: int, weight: float, noise: float = 0.0
) -> Whitening:
    """Return the whitening that divides columns by their units and decorrelates them."""
    values, vectors = np.linalg.eigh(correlation)
    roots = np.sqrt(np.maximum(values, MIN_EIGENVALUE))
    matrix = vectors / roots / units[:, None]
    inverse = (vectors * roots).T * units
    log_det = -float(np.log(roots).sum() + np.log(units).sum())
    return Whitening(centre, matrix, inverse, log_det, n_rows, weight, noise)


def column_units(variances: Array, mean: Array) -> Array:
    """Return the unit of each column: its deviation, or a small unit if the column is constant."""
    deviations = np.sqrt(variances)
    constant = is_constant(mean, variances)
    if not np.any(constant):
        return deviations
    varying = deviations[~constant]
    if len(varying):
        unit = CONSTANT_UNIT * float(np.sqrt(np.mean(varying**2)))
    else:
        unit = CONSTANT_UNIT * max(float(np.abs(mean).max()), 1.0)
    # The unit must be large compared with the rounding errors of the column.
    return np.where(constant, np.maximum(unit, 1e3 * ROUNDING * np.abs(mean)), deviations)
