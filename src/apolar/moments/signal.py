"""The signal of a mixture: where the means lie, and the moments there, free of any origin."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array, frozen
from apolar._core.namespaces import DeviceCopies, to_device_of, to_numpy, total
from apolar.data import CHUNK_SIZE, Rows, Scratch, open_rows, own_scratch, summed
from apolar.data.rows import DENSE_COLUMNS
from apolar.data.weights import as_counts
from apolar.moments.sketch import CentralMoments, MomentSketch, summarised
from apolar.moments.sums import (
    block_mean,
    check_scale,
    column_sums,
    effective_rows,
    row_squares,
    third_sums,
)
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.monomials import exponents

# Up to this many columns the covariance is formed; above, its range is found at random.
COVARIANCE_COLUMNS = 256
# Extra random directions of the range finder, and its rounds of power iteration: until the leading
# eigenvalues have settled to this much of themselves.
OVERSAMPLING = 10
MAX_ROUNDS = 20
SETTLED = 1e-6


@dataclass(frozen=True, eq=False)
class SignalMoments:
    """Moments in the signal directions and the noise beside them.

    With nu_i the coordinates of mu_i - mean in the signal basis:

    Attributes
    ----------
    n_rows : int
    n_effective : float
        How many rows of one weight would have moments as noisy: (sum of weights)^2 / sum of their squares.
    mean : ndarray, shape (n_features,)
    basis : ndarray, shape (n_features, n_signal)
        Orthonormal: the directions of largest variance.
    spectrum : ndarray
        Eigenvalues of the covariance, largest first, as far as computed.
    mean_variance : float
        sum_i w_i s_i, the mean variance over all noise directions.
    second : ndarray, shape (n_signal,)
        Variances in the signal directions, less the mean variance.
    noise_times : ndarray, shape (n_signal,)
        sum_i w_i s_i nu_i.
    third : SymmetricTensor or None
        sum_i w_i (nu_i . x)^3; None if there is no signal direction.
    """

    n_rows: int
    n_effective: float
    mean: Array
    basis: Array
    spectrum: Array
    mean_variance: float
    second: Array
    noise_times: Array
    third: SymmetricTensor | None


def signal_moments(X: Any, n_signal: int, sample_weight: Any, rng: np.random.Generator) -> SignalMoments:
    """Return the moments of rows or of a sketch in the leading directions.

    Rows that can be read again are read twice (four times where the columns
    are many); a stream is sketched.

    Parameters
    ----------
    X : rows or MomentSketch
    n_signal : int
        Number of components less one; below the number of columns.
    sample_weight : array_like or None
    rng : numpy.random.Generator
        For the range finder.

    Returns
    -------
    moments : SignalMoments
    """
    central = summarised(X, sample_weight)
    if central is not None:
        check_components(n_signal + 1, len(central.mean))
        return _from_central(central, n_signal)
    rows = open_rows(X, as_counts(sample_weight))
    check_components(n_signal + 1, rows.n_features)
    if not rows.rereadable:
        return _from_central(MomentSketch(rows.n_features)._update_rows(rows).central(), n_signal)
    return _from_rows(rows, n_signal, rng)


NO_NOISE = (
    "The data have no noise: they lie in a subspace of as many dimensions as there are components. "
    "Remove columns that depend on others, or ask for fewer components."
)


def check_spread(
    n_components: int, n_rows: int, total_variance: float, mean_variance: float, size: float
) -> None:
    """Refuse rows that are equal, too few, or without noise.

    `size` is the mean square of the data about zero: what is far below it is rounding.
    """
    if n_rows < n_components:
        raise ValueError(f"{n_components} components need at least as many rows; there are {n_rows}.")
    if not total_variance > 1e-29 * size:
        raise ValueError("All rows are equal: there is nothing to tell components apart.")
    if not mean_variance > 1e-14 * total_variance:
        if n_rows <= n_components:
            raise ValueError(f"{n_rows} rows are too few for {n_components} components: they leave no noise.")
        raise ValueError(NO_NOISE)


def check_components(n_components: int, n_features: int) -> None:
    """Refuse more components than columns."""
    if n_components > n_features:
        raise ValueError(
            f"The moment method finds at most as many components as there are columns: {n_components} were "
            f"asked for, with {n_features} columns. Ask for fewer, add columns, or start EM another way."
        )


def _from_central(central: CentralMoments, n_signal: int) -> SignalMoments:
    covariance = central.covariance
    frame = np.eye(len(central.mean)) if central.frame is None else central.frame
    if n_signal > frame.shape[1]:
        raise ValueError(f"The frame has {frame.shape[1]} directions; {n_signal} are needed.")
    values, vectors = np.linalg.eigh(frame.T @ covariance @ frame)
    spectrum, inner = values[::-1], vectors[:, ::-1][:, :n_signal]
    basis = frame @ inner
    spare = len(central.mean) - n_signal
    variance = float(np.trace(covariance))
    check_scale(variance)
    mean_variance = (variance - float(spectrum[:n_signal].sum())) / spare
    size = variance + float(central.mean @ central.mean)
    check_spread(n_signal + 1, central.n_rows, variance, mean_variance, size)
    third = noise_times = None
    if n_signal:
        projected = central.third.change_variables(inner)
        noise_times = (basis.T @ central.square_times - _traced(projected)) / spare
        third = _debiased(projected, noise_times)
    return SignalMoments(
        central.n_rows,
        central.n_effective,
        central.mean,
        basis,
        spectrum,
        mean_variance,
        spectrum[:n_signal] - mean_variance,
        np.zeros(0) if noise_times is None else noise_times,
        third,
    )


def _traced(third: SymmetricTensor) -> Array:
    """Return E[|y|^2 y], the trace of E[y y y] over one pair of slots."""
    return third.hessian(np.eye(third.dim)).trace(axis1=1, axis2=2) / 6


def _debiased(third: SymmetricTensor, noise_times: Array) -> SymmetricTensor:
    """Return the third moments of the means: less what the spread of each component adds."""
    return SymmetricTensor(3, third.dim, third.coefficients - spread_in_third(third.dim) @ noise_times)


@lru_cache(maxsize=64)
def spread_in_third(dim: int) -> Array:
    """Return what the spread of components adds to third moments, shape (n_monomials, dim).

    Times g = sum_i w_i s_i nu_i these are the coefficients of 3 |x|^2 (g . x), T_abc = g_a d_bc + g_b d_ac +
    g_c d_ab.
    """
    powers = exponents(dim, 3)
    # Three times g_a where the power of x_a is three; g_a where it is one, beside a square.
    return frozen(
        np.where(powers == 3, 3.0, np.where((powers == 1) & (powers.max(axis=1) == 2)[:, None], 1.0, 0.0))
    )


def _from_rows(rows: Rows, n_signal: int, rng: np.random.Generator) -> SignalMoments:
    if rows.n_features <= COVARIANCE_COLUMNS:
        weight, n_rows, mean, covariance = row_covariance(rows)
        check_scale(float(np.trace(covariance)))
        values, vectors = np.linalg.eigh(covariance)
        spectrum, variance = values[::-1], float(np.trace(covariance))
        basis = np.ascontiguousarray(vectors[:, ::-1][:, :n_signal])
    else:
        weight, n_rows, mean, variances = column_moments(rows)
        variance = float(variances.sum())
        check_scale(variance)
        check_spread(n_signal + 1, n_rows, variance, variance, variance + float(mean @ mean))
        spectrum, basis = leading_directions(rows, mean, variance, weight, n_signal, rng)
    spare = rows.n_features - n_signal
    mean_variance = (variance - float(spectrum[:n_signal].sum())) / spare
    check_spread(n_signal + 1, n_rows, variance, mean_variance, variance + float(mean @ mean))
    noise_times, third, n_effective = np.zeros(n_signal), None, float(n_rows)
    if n_signal:
        square_times, third_sum, weight_squares = _signal_sums(rows, mean, variance, basis)
        n_effective = effective_rows(weight, float(weight_squares), n_rows)
        raw = SymmetricTensor(3, n_signal, third_sum / weight)
        noise_times = (square_times / weight - _traced(raw)) / spare
        third = _debiased(raw, noise_times)
    second = spectrum[:n_signal] - mean_variance
    return SignalMoments(
        n_rows, n_effective, mean, basis, spectrum, mean_variance, second, noise_times, third
    )


def _signal_sums(rows: Rows, mean: Array, variance: float, basis: Array) -> list[Any]:
    """Return the sums of |z|^2 y, of y y y (compact) and of squared weights.

    With z = x - mean and y its signal coordinates.
    """
    shift, offset = _parted(rows, mean, variance)
    directions, centre = DeviceCopies(np.vstack([basis.T, offset])), DeviceCopies((basis.T @ offset)[:, None])
    away = None if shift is None else DeviceCopies(shift)
    scratch = own_scratch()

    def statistic(block: Any, weights: Any) -> tuple[Any, Any, Any]:
        x = _shifted(block, away, scratch)
        # One row a direction, and x . offset: long rows are what the arithmetic below is fast on.
        own = directions.to_device_of(x)
        projected = own @ x.T if sparse.issparse(x) else scratch.matmul("projected", own, x.T)
        y = projected[:-1, ...]
        y -= centre.to_device_of(x)
        squares = row_squares(x) - 2 * projected[-1, ...] + float(offset @ offset)
        weighted = y if weights is None else y * weights
        weight_squares = block.shape[0] if weights is None else weights @ weights
        return weighted @ squares, third_sums(y, weighted, scratch), weight_squares

    # The rows have been checked when the covariance was taken.
    return summed(rows, statistic, width=n_monomials(len(basis.T), 2), checked=True)


def _far_out(centre: Array, spread: float) -> bool:
    """Return whether the centre is so far from zero that sums about zero would lose more than four digits."""
    return float(centre @ centre) > 1e4 * spread


def _parted(rows: Rows, mean: Array, variance: float) -> tuple[Array | None, Array]:
    """Return what is to be taken off the rows before the arithmetic, or None, and what of the mean is left.

    Sparse rows of many columns stay as they are: they would be dense.
    """
    is_wide = rows.is_sparse and rows.n_features > DENSE_COLUMNS
    if is_wide or not _far_out(mean, variance):
        return None, mean
    return mean, np.zeros_like(mean)


def _shifted(block: Any, shift: DeviceCopies | None, scratch: Scratch) -> Any:
    """Return the rows less the shift; as they are, and sparse if they are, where there is none to make."""
    if shift is None:
        return block
    dense = block.toarray() if sparse.issparse(block) else block
    return scratch.subtract("shifted", dense, shift.to_device_of(dense))


def _weighted(block: Any, weights: Any) -> Any:
    if weights is None:
        return block
    if sparse.issparse(block):
        return block.multiply(weights[:, None]).tocsr()
    return weights[:, None] * block


def _pilot(rows: Rows) -> Array | None:
    """Return the mean of the first rows, if it is far out."""
    return rows.head(_pilot_of)


def _pilot_of(rows: Rows) -> Array | None:
    for block, weights in rows.blocks(chunk_rows=max(1, CHUNK_SIZE // rows.n_features)):
        mean, squares = block_mean(block, weights), row_squares(block)
        weight = block.shape[0] if weights is None else float(to_numpy(total(weights)))
        mean_square = float(to_numpy(total(squares if weights is None else weights * squares))) / weight
        return _parted(rows, mean, max(mean_square - float(mean @ mean), 0.0))[0]
    return None


@np.errstate(over="ignore", invalid="ignore")
def row_covariance(rows: Rows) -> tuple[float, int, Array, Array]:
    """Return total weight, number of rows, mean and covariance; not finite where squares overflow."""
    shift, scratch = _pilot(rows), own_scratch()
    away = None if shift is None else DeviceCopies(shift)

    def statistic(block: Any, weights: Any) -> tuple[Any, int, Any, Any]:
        x = _shifted(block, away, scratch)
        weighted = _weighted(x, weights)
        product = weighted.T @ x
        weight = block.shape[0] if weights is None else total(weights)
        second = product.toarray() if sparse.issparse(product) else product
        return weight, block.shape[0], column_sums(weighted), second

    weight, n_rows, first, second = summed(rows, statistic)
    offset = first / weight
    mean = offset if shift is None else shift + offset
    return float(weight), n_rows, mean, second / weight - np.outer(offset, offset)


@np.errstate(over="ignore", invalid="ignore")
def column_moments(rows: Rows) -> tuple[float, int, Array, Array]:
    """Return total weight, number of rows, mean, and the variance of each column, not finite if too large."""
    shift, scratch = _pilot(rows), own_scratch()
    away = None if shift is None else DeviceCopies(shift)

    def statistic(block: Any, weights: Any) -> tuple[Any, int, Any, Any]:
        x = _shifted(block, away, scratch)
        squares = x.multiply(x) if sparse.issparse(x) else scratch.multiply("squares", x, x)
        if weights is None:
            return block.shape[0], block.shape[0], column_sums(x), column_sums(squares)
        return total(weights), block.shape[0], _combined(weights, x), _combined(weights, squares)

    weight, n_rows, first, squares = summed(rows, statistic)
    offset = first / weight
    mean = offset if shift is None else shift + offset
    return float(weight), n_rows, mean, squares / weight - offset**2


def _combined(weights: Any, block: Any) -> Any:
    """Return the weighted sums of the columns."""
    return np.asarray(weights @ block).ravel() if sparse.issparse(block) else weights @ block


def leading_directions(
    rows: Rows,
    mean: Array,
    variance: float,
    weight: float,
    n_signal: int,
    rng: np.random.Generator,
    *,
    or_fewer: bool = False,
) -> tuple[Array, Array]:
    """Return leading eigenvalues and eigenvectors of the covariance, never formed [halko2011].

    Rows that lie in fewer directions are refused, or those are returned.
    """
    width = min(n_signal + OVERSAMPLING, rows.n_features)
    basis = np.linalg.qr(rng.standard_normal((rows.n_features, width)))[0]
    shift, offset = _parted(rows, mean, variance)
    away = None if shift is None else DeviceCopies(shift)
    scratch = own_scratch()
    before = np.zeros(n_signal)
    for _ in range(MAX_ROUNDS):

        def statistic(block: Any, weights: Any, basis: Array = basis) -> tuple[Any, Any]:
            x = _shifted(block, away, scratch)
            y = x @ to_device_of(basis, x) - to_device_of(offset @ basis, x)
            weighted = y if weights is None else weights[:, None] * y
            return x.T @ weighted, column_sums(weighted)

        product, sums = summed(rows, statistic, width=width)
        image = (product - np.outer(offset, sums)) / weight
        # Nystroem's approximation, image (basis^t image)^(-1) image^t, is as good as one more round.
        inner = basis.T @ image
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        kept = values > 1e-12 * values[-1]
        directions, roots, _ = np.linalg.svd(
            image @ (vectors[:, kept] / np.sqrt(values[kept])), full_matrices=False
        )
        if np.count_nonzero(kept) < n_signal:
            if not or_fewer:
                raise ValueError(NO_NOISE)
            n_signal = max(1, int(np.count_nonzero(kept)))
        leading = roots[:n_signal] ** 2
        if np.all(np.abs(leading - before[:n_signal]) <= SETTLED * leading):
            break
        before = leading
        basis = np.linalg.qr(image)[0]
    return roots**2, directions[:, :n_signal]
