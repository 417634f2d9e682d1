"""The signal of a mixture: where the means lie, and the moments there, free of any origin."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from apolar._arrays import Array
from apolar._rows import Rows, open_rows
from apolar.moments.sketch import CentralMoments, MomentSketch, third_sums
from apolar.tensor import SymmetricTensor, n_monomials

# Up to this many columns the covariance is formed; above, its range is found at random.
COVARIANCE_COLUMNS = 256
# Extra random directions, and rounds of power iteration, of the range finder.
OVERSAMPLING = 10
POWER_ROUNDS = 2


@dataclass(frozen=True, eq=False)
class SignalMoments:
    """Moments in the signal directions and the noise beside them.

    With nu_i the coordinates of mu_i - mean in the signal basis:

    Attributes
    ----------
    n_samples : float
        Total weight.
    n_rows : int
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

    n_samples: float
    n_rows: int
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
    if isinstance(X, CentralMoments | MomentSketch):
        if sample_weight is not None:
            raise ValueError("sample_weight belongs to rows; a sketch has its weights already.")
        n_rows = X.n_rows if isinstance(X, MomentSketch) else int(X.n_samples)
        check_components(n_signal + 1, X.n_features if isinstance(X, MomentSketch) else len(X.mean))
        return _from_central(X if isinstance(X, CentralMoments) else X.central(), n_rows, n_signal)
    rows = open_rows(X, sample_weight)
    check_components(n_signal + 1, rows.n_features)
    if not rows.rereadable:
        sketch = MomentSketch(rows.n_features)._update_rows(rows)
        return _from_central(sketch.central(), sketch.n_rows, n_signal)
    return _from_rows(rows, n_signal, rng)


def check_components(n_components: int, n_features: int) -> None:
    """Refuse more components than columns."""
    if n_components > n_features:
        raise ValueError(
            f"The moment method finds at most as many components as there are columns: {n_components} were "
            f"asked for, with {n_features} columns. Ask for fewer, add columns, or start EM another way."
        )


def _from_central(central: CentralMoments, n_rows: int, n_signal: int) -> SignalMoments:
    covariance = central.covariance
    frame = np.eye(len(central.mean)) if central.frame is None else central.frame
    if n_signal > frame.shape[1]:
        raise ValueError(f"The frame has {frame.shape[1]} directions; {n_signal} are needed.")
    values, vectors = np.linalg.eigh(frame.T @ covariance @ frame)
    spectrum, inner = values[::-1], vectors[:, ::-1][:, :n_signal]
    basis = frame @ inner
    spare = len(central.mean) - n_signal
    mean_variance = float(np.trace(covariance) - spectrum[:n_signal].sum()) / spare
    third = noise_times = None
    if n_signal:
        projected = central.third.change_variables(inner)
        # E[|z|^2 y] less E[|y|^2 y]: the trace of the projected tensor over one pair of slots.
        traced = projected.hessian(np.eye(n_signal)).trace(axis1=1, axis2=2) / 6
        noise_times = (basis.T @ central.square_times - traced) / spare
        third = _debiased(projected, noise_times)
    return SignalMoments(
        central.n_samples,
        n_rows,
        central.mean,
        basis,
        spectrum,
        mean_variance,
        spectrum[:n_signal] - mean_variance,
        np.zeros(0) if noise_times is None else noise_times,
        third,
    )


def _debiased(third: SymmetricTensor, noise_times: Array) -> SymmetricTensor:
    """Return the third moments of the means: less what the spread of each component adds."""
    dim = third.dim
    return third - 3 * SymmetricTensor.from_dense(np.eye(dim)) * SymmetricTensor(1, dim, noise_times)


def _from_rows(rows: Rows, n_signal: int, rng: np.random.Generator) -> SignalMoments:
    if rows.n_features <= COVARIANCE_COLUMNS:
        weight, n_rows, mean, covariance = row_covariance(rows)
        values, vectors = np.linalg.eigh(covariance)
        spectrum, total = values[::-1], float(np.trace(covariance))
        basis = np.ascontiguousarray(vectors[:, ::-1][:, :n_signal])
    else:
        weight, n_rows, mean, total = _mean_and_trace(rows)
        spectrum, basis = _leading_directions(rows, mean, weight, n_signal, rng)
    spare = rows.n_features - n_signal
    mean_variance = (total - float(spectrum[:n_signal].sum())) / spare
    noise_times, third = np.zeros(n_signal), None
    if n_signal:
        sums = np.zeros(n_monomials(n_signal, 3))
        for block, weights in rows.blocks(width=n_monomials(n_signal, 2)):
            y, squares = _projected(block, mean, basis)
            weighted = y if weights is None else weights[:, None] * y
            noise = squares - np.einsum("ij,ij->i", y, y)
            noise_times += noise @ weighted
            sums += third_sums(y, weighted)
        noise_times /= weight * spare
        third = _debiased(SymmetricTensor(3, n_signal, sums / weight), noise_times)
    second = spectrum[:n_signal] - mean_variance
    return SignalMoments(weight, n_rows, mean, basis, spectrum, mean_variance, second, noise_times, third)


def _projected(block: Any, mean: Array, basis: Array) -> tuple[Array, Array]:
    """Return the rows' coordinates in the basis about the mean, and |x - mean|^2; sparse stays sparse."""
    if sparse.issparse(block):
        y = block @ basis - mean @ basis
        squares = np.asarray(block.multiply(block).sum(axis=1)).ravel() - 2 * (block @ mean) + mean @ mean
        return y, squares
    z = block - mean
    return z @ basis, np.einsum("ij,ij->i", z, z)


def _weighted(block: Any, weights: Array | None) -> Any:
    if weights is None:
        return block
    if sparse.issparse(block):
        return block.multiply(weights[:, None]).tocsr()
    return weights[:, None] * block


def row_covariance(rows: Rows) -> tuple[float, int, Array, Array]:
    """Return total weight, number of rows, mean and covariance, about a pilot centre."""
    n = rows.n_features
    weight, n_rows, first, second = 0.0, 0, np.zeros(n), np.zeros((n, n))
    pilot: Array | None = None
    for block, weights in rows.blocks():
        is_sparse = sparse.issparse(block)
        if pilot is None:
            # Zeros of a sparse matrix are its pilot: it stays sparse.
            pilot = np.zeros(n) if is_sparse else block.mean(axis=0)
        z = block if is_sparse else block - pilot
        weighted = _weighted(z, weights)
        weight += block.shape[0] if weights is None else float(weights.sum())
        n_rows += block.shape[0]
        first += np.asarray(weighted.sum(axis=0)).ravel()
        product = weighted.T @ z
        second += product.toarray() if is_sparse else product
    _check_weight(weight)
    assert pilot is not None  # there is at least one row
    offset = first / weight
    return weight, n_rows, pilot + offset, second / weight - np.outer(offset, offset)


def _mean_and_trace(rows: Rows) -> tuple[float, int, Array, float]:
    """Return total weight, number of rows, mean, and the trace of the covariance."""
    weight, n_rows, first, squares = 0.0, 0, np.zeros(rows.n_features), 0.0
    pilot: Array | None = None
    for block, weights in rows.blocks():
        is_sparse = sparse.issparse(block)
        if pilot is None:
            pilot = np.zeros(rows.n_features) if is_sparse else block.mean(axis=0)
        z = block if is_sparse else block - pilot
        weighted = _weighted(z, weights)
        weight += block.shape[0] if weights is None else float(weights.sum())
        n_rows += block.shape[0]
        first += np.asarray(weighted.sum(axis=0)).ravel()
        squares += float((weighted.multiply(z)).sum() if is_sparse else np.vdot(weighted, z))
    _check_weight(weight)
    assert pilot is not None  # there is at least one row
    offset = first / weight
    return weight, n_rows, pilot + offset, squares / weight - float(offset @ offset)


def _check_weight(weight: float) -> None:
    if not weight > 0:
        raise ValueError("The weights of the rows are all zero.")


def _leading_directions(
    rows: Rows, mean: Array, weight: float, n_signal: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return leading eigenvalues and eigenvectors of the covariance, never formed [halko2011]."""
    width = min(n_signal + OVERSAMPLING, rows.n_features)
    basis = np.linalg.qr(rng.standard_normal((rows.n_features, width)))[0]
    for round_ in range(POWER_ROUNDS + 1):
        image = np.zeros_like(basis)
        for block, weights in rows.blocks():
            y = _projected(block, mean, basis)[0]
            weighted = y if weights is None else weights[:, None] * y
            if sparse.issparse(block):
                image += block.T @ weighted - np.outer(mean, weighted.sum(axis=0))
            else:
                image += (block - mean).T @ weighted
        image /= weight
        if round_ < POWER_ROUNDS:
            basis = np.linalg.qr(image)[0]
    # Nystroem's approximation, image (basis^t image)^(-1) image^t, is as good as one more round.
    values, vectors = np.linalg.eigh(basis.T @ image)
    kept = values > 1e-12 * values[-1]
    half = image @ (vectors[:, kept] / np.sqrt(values[kept]))
    directions, roots, _ = np.linalg.svd(half, full_matrices=False)
    return roots**2, directions[:, :n_signal]
