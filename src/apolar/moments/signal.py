"""Moments in the signal directions of a mixture: the subspace of its centred means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array, frozen
from apolar._core.namespaces import DeviceCopies
from apolar.data import Rows, open_rows, thread_scratch
from apolar.data.weights import as_counts, counted_rows
from apolar.moments.central import CentralMoments
from apolar.moments.covariance import (
    RowCovariance,
    as_stored,
    column_moments,
    leading_directions,
    row_covariance,
    shift_and_offset,
    shift_rows,
)
from apolar.moments.kernels import triton
from apolar.moments.powers import third_sums
from apolar.moments.sketch import MomentSketch, summary_moments
from apolar.moments.sums import (
    KERNEL_COLUMNS,
    check_scale,
    has_kernel,
    row_squares,
    third_sums_about,
)
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.monomials import exponents

# Up to this many columns the covariance matrix is formed; above, a randomised range finder computes its
# leading eigenvectors.
COVARIANCE_COLUMNS = 256

NO_NOISE = (
    "The data have no noise: they lie in a subspace of as many dimensions as there are components. "
    "Remove columns that depend on others, or ask for fewer components."
)


@dataclass(frozen=True, eq=False)
class SignalMoments:
    """Moments in the signal directions, and the noise in the others.

    For a mixture with weights w_i, means mu_i and variances s_i, nu_i denotes the coordinates of mu_i - mean
    in the signal basis.

    Attributes
    ----------
    n_rows : float
        The number of rows, where a row of weight two counts as two rows.
    mean : ndarray, shape (n_features,)
    basis : ndarray, shape (n_features, n_signal)
        Orthonormal columns: the directions of largest variance.
    spectrum : ndarray
        Eigenvalues of the covariance, largest first; not all if there are many columns.
    mean_variance : float
        sum_i w_i s_i, averaged over all noise directions.
    second : ndarray, shape (n_signal,)
        Variances in the signal directions, minus the mean variance.
    noise_times : ndarray, shape (n_signal,)
        sum_i w_i s_i nu_i.
    third : SymmetricTensor or None
        sum_i w_i (nu_i . x)^3; None if there is no signal direction.
    """

    n_rows: float
    mean: Array
    basis: Array
    spectrum: Array
    mean_variance: float
    second: Array
    noise_times: Array
    third: SymmetricTensor | None


def signal_moments(
    X: Any,
    n_signal: int,
    sample_weight: Any,
    rng: np.random.Generator,
    known: RowCovariance | None = None,
    n_threads: int = 1,
) -> SignalMoments:
    """Return the moments of rows or of a sketch in the leading directions.

    Rereadable rows are read twice, or once if their covariance is known; for many columns, several times more
    by the range finder. Rows that can be read only once are summarised in a sketch.

    Parameters
    ----------
    X : rows or MomentSketch
    n_signal : int
        The number of components minus one; below the number of columns.
    sample_weight : array_like or None
    rng : numpy.random.Generator
        For the range finder.
    known : RowCovariance, optional
        The covariance of these rows, if it has been computed.
    n_threads : int, default=1

    Returns
    -------
    moments : SignalMoments
    """
    central = summary_moments(X, sample_weight)
    if central is not None:
        check_components(n_signal + 1, len(central.mean))
        return _from_central(central, n_signal)
    rows = open_rows(X, as_counts(sample_weight))
    check_components(n_signal + 1, rows.n_features)
    if not rows.rereadable:
        return _from_central(MomentSketch(rows.n_features).update(rows).central(), n_signal)
    return _from_rows(rows, n_signal, rng, known, n_threads)


def check_spread(
    n_components: int, n_rows: float, total_variance: float, mean_variance: float, size: float
) -> None:
    """Raise ValueError for rows that are all equal, too few, or without noise.

    `size` is the mean squared norm of the rows: a variance far below it is rounding.
    """
    if n_rows < n_components:
        raise ValueError(f"{n_components} components need at least as many rows; there are {n_rows:g}.")
    if not total_variance > 1e-29 * size:
        raise ValueError("All rows are equal: there is nothing to tell components apart.")
    if not mean_variance > 1e-14 * total_variance:
        if n_rows <= n_components:
            raise ValueError(
                f"{n_rows:g} rows are too few for {n_components} components: they leave no noise."
            )
        raise ValueError(NO_NOISE)


def _mean_square(variance: float, mean: Array) -> float:
    """Return the mean squared norm of the rows; infinity if it overflows."""
    with np.errstate(over="ignore"):
        return variance + float(mean @ mean)


def check_components(n_components: int, n_features: int) -> None:
    """Raise ValueError for more components than columns."""
    if n_components > n_features:
        raise ValueError(
            f"The moment method finds at most as many components as there are columns: {n_components} were "
            f"asked for, with {n_features} columns. Ask for fewer, add columns, or start EM another way."
        )


def _from_central(central: CentralMoments, n_signal: int) -> SignalMoments:
    """Return the signal moments of central moments."""
    covariance = central.covariance
    frame = np.eye(len(central.mean)) if central.frame is None else central.frame
    if n_signal > frame.shape[1]:
        raise ValueError(f"The frame has {frame.shape[1]} directions; {n_signal} are needed.")
    values, vectors = np.linalg.eigh(frame.T @ covariance @ frame)
    spectrum, inner = values[::-1], vectors[:, ::-1][:, :n_signal]
    basis = frame @ inner
    n_noise = len(central.mean) - n_signal
    variance = float(np.trace(covariance))
    check_scale(variance)
    mean_variance = (variance - float(spectrum[:n_signal].sum())) / n_noise
    size = _mean_square(variance, central.mean)
    check_spread(n_signal + 1, central.n_rows, variance, mean_variance, size)
    third = noise_times = None
    if n_signal:
        projected = central.third.change_variables(inner)
        noise_times = (basis.T @ central.square_times - _trace(projected)) / n_noise
        third = _remove_spread(projected, noise_times)
    return SignalMoments(
        central.n_rows,
        central.mean,
        basis,
        spectrum,
        mean_variance,
        spectrum[:n_signal] - mean_variance,
        np.zeros(0) if noise_times is None else noise_times,
        third,
    )


def _trace(third: SymmetricTensor) -> Array:
    """Return E[|y|^2 y], the trace of E[y y y] over two of its indices."""
    return third.hessian(np.eye(third.dim)).trace(axis1=1, axis2=2) / 6


def _remove_spread(third: SymmetricTensor, noise_times: Array) -> SymmetricTensor:
    """Return the third moments of the means: the variances of the components contribute the remainder."""
    return SymmetricTensor(3, third.dim, third.coefficients - spread_in_third(third.dim) @ noise_times)


@lru_cache(maxsize=64)
def spread_in_third(dim: int) -> Array:
    """Return the contribution of the variances of components to third moments, shape (n_monomials, dim).

    This matrix times g = sum_i w_i s_i nu_i gives the coefficients of 3 |x|^2 (g . x), that is of the tensor
    T_abc = g_a d_bc + g_b d_ac + g_c d_ab.
    """
    powers = exponents(dim, 3)
    # The coefficient of x_a^3 is 3 g_a, and that of x_a x_b^2 is g_a.
    return frozen(
        np.where(powers == 3, 3.0, np.where((powers == 1) & (powers.max(axis=1) == 2)[:, None], 1.0, 0.0))
    )


def _from_rows(
    rows: Rows, n_signal: int, rng: np.random.Generator, known: RowCovariance | None, n_threads: int
) -> SignalMoments:
    """Return the signal moments of rereadable rows."""
    if rows.n_features <= COVARIANCE_COLUMNS:
        weight, n_weighted, mean, covariance = row_covariance(rows, n_threads) if known is None else known
        check_scale(float(np.trace(covariance)))
        values, vectors = np.linalg.eigh(covariance)
        spectrum, variance = values[::-1], float(np.trace(covariance))
        basis = np.ascontiguousarray(vectors[:, ::-1][:, :n_signal])
    else:
        weight, n_weighted, mean, variances = column_moments(rows, n_threads)
        variance = float(variances.sum())
        check_scale(variance)
        check_spread(n_signal + 1, n_weighted, variance, variance, _mean_square(variance, mean))
        spectrum, basis = leading_directions(rows, mean, variance, weight, n_signal, rng)
        if basis.shape[1] < n_signal:
            raise ValueError(NO_NOISE)
    n_rows, n_noise = counted_rows(weight, n_weighted), rows.n_features - n_signal
    mean_variance = (variance - float(spectrum[:n_signal].sum())) / n_noise
    check_spread(n_signal + 1, n_rows, variance, mean_variance, _mean_square(variance, mean))
    noise_times, third = np.zeros(n_signal), None
    if n_signal:
        square_times, third_sum = _signal_sums(rows, mean, variance, basis, n_threads)
        raw = SymmetricTensor(3, n_signal, third_sum / weight)
        noise_times = (square_times / weight - _trace(raw)) / n_noise
        third = _remove_spread(raw, noise_times)
    second = spectrum[:n_signal] - mean_variance
    return SignalMoments(n_rows, mean, basis, spectrum, mean_variance, second, noise_times, third)


def _signal_sums(rows: Rows, mean: Array, variance: float, basis: Array, n_threads: int) -> list[Any]:
    """Return the sums of |z|^2 y and of y y y (compact).

    Here z = x - mean, and y are its signal coordinates.
    """
    shift, offset = shift_and_offset(rows, mean, variance)
    statistic = SignalSums(
        None if shift is None else DeviceCopies(shift),
        DeviceCopies(np.vstack([basis.T, offset])),
        DeviceCopies((basis.T @ offset)[:, None]),
        float(offset @ offset),
    )
    # The pass for the covariance has checked that the rows are finite.
    sums: list[Any] | None = None
    if rows.is_one_array and rows.n_features <= KERNEL_COLUMNS:
        of_block = replace(statistic, n_threads=n_threads)
        sums = rows.reduce(lambda chunk: of_block(*as_stored(chunk)), chunk_rows=rows.n_rows)
    if sums is None or not np.all(np.isfinite(sums[0])):
        # A value that is not finite is that of a row without weight, which is left out here.
        n_working = n_monomials(basis.shape[1], 2)
        sums = triton.reduce_rows(rows, statistic, n_threads, n_working, basis.shape[1], is_finite=True)
    return sums


@dataclass(frozen=True, eq=False)
class SignalSums:
    """The sums of |z|^2 y and of y y y (compact).

    Here x are the rows minus the shift, z = x - offset, and y the coordinates of z in the signal directions.

    Attributes
    ----------
    shift : DeviceCopies or None
    directions : DeviceCopies, shape (n_signal + 1, n_features)
        The signal directions, followed by the offset.
    centre : DeviceCopies, shape (n_signal, 1)
        The coordinates of the offset in the signal directions.
    offset_square : float
        The squared norm of the offset.
    n_threads : int
        For a block that has a kernel.
    """

    shift: DeviceCopies | None
    directions: DeviceCopies
    centre: DeviceCopies
    offset_square: float
    n_threads: int = 1

    def __call__(self, block: Any, weights: Any) -> tuple[Any, Any]:
        """Return the weighted sums over a block."""
        if isinstance(block, triton.StoredBlock):
            return triton.signal_sums(block, weights, self.shift, self.directions)
        scratch = thread_scratch()
        if has_kernel(block, block.shape[1]):
            basis, offset = self.directions.values[:-1].T, self.directions.values[-1]
            centre = offset if self.shift is None else self.shift.values + offset
            square_times, third = third_sums_about(block, weights, centre, basis, self.n_threads)
            return square_times @ basis, third
        x = shift_rows(block, self.shift)
        # One row per direction, and one for x . offset: operations along long rows are fast.
        directions = self.directions.to_device_of(x)
        is_sparse = sparse.issparse(x)
        projected = directions @ x.T if is_sparse else scratch.compute("matmul", "projected", directions, x.T)
        y = projected[:-1, ...]
        y -= self.centre.to_device_of(x)
        squares = row_squares(x) - 2 * projected[-1, ...] + self.offset_square
        weighted = y if weights is None else y * weights
        return weighted @ squares, third_sums(y, weighted, scratch)
