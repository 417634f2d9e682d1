"""Bounds of what is computed in floating point, rounding included [rump2010].

They hold for sums in any order, with or without fused operations, and assume
numbers of moderate size: callers scale tensors to a norm near one.
"""

import numpy as np

from apolar._core.arrays import Array
from apolar.tensor.monomials import multinomials, sum_of_powers

UNIT = float(np.finfo(float).eps) / 2
# What underflow may add to any sum here, generously.
UNDERFLOW = 1e-200
# A complex product has up to 2 sqrt(2) times the rounding of a real one.
COMPLEX = 4


def gamma(n: int, *arrays: Array) -> float:
    """Return a bound of the relative rounding after n operations with real or complex arrays."""
    n = n * COMPLEX if any(np.iscomplexobj(array) for array in arrays) else n
    return n * UNIT / (1 - n * UNIT)


def norm_above(array: Array) -> float:
    """Return an upper bound of the Frobenius norm."""
    absolute = np.abs(array)
    return float(np.linalg.norm(absolute)) * (1 + gamma(absolute.size + 10)) + UNDERFLOW


def norm_below(array: Array) -> float:
    """Return a lower bound of the Frobenius norm."""
    absolute = np.abs(array)
    return max(float(np.linalg.norm(absolute)) * (1 - 2 * gamma(absolute.size + 10)) - UNDERFLOW, 0.0)


def operator_norm_above(matrix: Array) -> float:
    """Return an upper bound of the largest singular value: |A|^2 is at most |A|_1 |A|_inf, and |A|_F^2."""
    absolute = np.abs(matrix)
    mixed = np.sqrt(absolute.sum(axis=0).max() * absolute.sum(axis=1).max())
    return min(float(mixed) * (1 + gamma(absolute.size + 10)) + UNDERFLOW, norm_above(matrix))


def distance_from_identity(left: Array, right: Array, entry_error: float) -> float:
    """Return an upper bound of ``|A B - I|_F``.

    Parameters
    ----------
    left : ndarray, shape (n, k)
    right : ndarray, shape (k, n)
    entry_error : float
        How much the entries of one of them may be off, relative to themselves.

    Returns
    -------
    distance : float
    """
    defect = left @ right - np.eye(len(left))
    rounding = gamma(left.shape[1] + 2, left, right) + entry_error
    sizes = np.abs(left) @ np.abs(right) + np.eye(len(left))
    return norm_above(defect) + 1.01 * rounding * norm_above(sizes)


def stretch_above(rows: Array) -> float:
    """Return an upper bound of the norm of a matrix whose rows are nearly orthonormal."""
    return float(np.sqrt(1 + distance_from_identity(rows, rows.conj().T, 0.0))) * (1 + 1e-15)


def singular_values_below(matrix: Array, entry_error: float) -> Array:
    """Return lower bounds of the singular values of a matrix whose entries are known to a relative error.

    With U and V nearly unitary, U^* A V is nearly diagonal: its singular values
    differ from its diagonal by no more than the norm of the rest, and from
    those of A by no more than the factors ``|U|`` and ``|V|``.
    """
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    left, right = left.conj().T, right.conj().T
    rest = norm_above(left @ matrix @ right - np.diag(values))
    sizes = norm_above(np.abs(left) @ np.abs(matrix) @ np.abs(right))
    rounding = gamma(sum(matrix.shape) + 4, matrix) + entry_error
    stretch = stretch_above(left) * stretch_above(right.conj().T)
    lower = (values - rest - 1.01 * rounding * sizes) / stretch
    return np.maximum(lower * (1 - 1e-14) - UNDERFLOW, 0.0)


def min_singular_value_below(matrix: Array) -> float:
    """Return a lower bound of the least singular value of a matrix with no fewer rows than columns.

    Faster than `singular_values_below`, and good to the square root of rounding. If a matrix has a Cholesky
    factorisation in floating point, then it is positive definite up to the trace times rounding [rump2010].
    """
    size = matrix.shape[1]
    gram = matrix.conj().T @ matrix
    shift = 0.9 * float(np.linalg.eigvalsh(gram)[0])
    if not shift > 0:
        return 0.0
    try:
        np.linalg.cholesky(gram - shift * np.eye(size))
    except np.linalg.LinAlgError:
        return 0.0
    # Of the Gram matrix, of the shift, and of the factorisation.
    rounding = gamma(len(matrix) + 2, matrix) + 4 * UNIT + 1.01 * gamma(size + 2, matrix)
    lower = shift - 1.01 * rounding * norm_above(matrix) ** 2
    return float(np.sqrt(max(lower, 0.0))) * (1 - 1e-14)


def residual_above(coefficients: Array, weights: Array, points: Array, order: int) -> float:
    """Return an upper bound of the apolar norm of T less the exact sum of some terms."""
    difference = coefficients - sum_of_powers(weights, points, order)
    sizes = np.abs(coefficients) + sum_of_powers(np.abs(weights), np.abs(points), order)
    error = np.abs(difference) + 1.01 * gamma(len(weights) + order + 4, weights, points) * sizes
    return norm_above(np.sqrt(multinomials(points.shape[1], order)) * error) * (1 + gamma(2 * order + 10))
