"""The last steps towards exact terms, from the residual tensor itself."""

from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.gauss_newton import LONG_DENSE_WORK, Refined, gauss_newton
from apolar.decomposition.gram import TangentGram, power_jacobian
from apolar.decomposition.waring import relative_residual
from apolar.tensor import SymmetricTensor

# Terms that leave less than this are polished.
NEARLY_EXACT = 1e-6
# What rounding leaves, relative to the sizes of all terms together.
ROUNDING = 1e-14
# Damped steps at most, full ones, and the factor by which all terms together may grow.
DAMPED_STEPS, FULL_STEPS, GROWTH = 30, 12, 2.0
# Steps by conjugate gradients at most, and what each has to leave of the residual for another.
LARGE_STEPS, GAIN = 5, 0.3
# Multiplications of the conjugate gradients of a step, at most.
STEP_WORK = 5e9


def is_rounding(residual: float, sizes: Array, norm: float) -> bool:
    """Return whether a relative residual is what rounding leaves of terms of these sizes."""
    return bool(residual <= ROUNDING * np.sum(sizes) / norm)


def polished(tensor: SymmetricTensor, refined: Refined, residual: float) -> tuple[Refined, float]:
    """Return terms that are nearly exact after a few more steps, and their relative residual.

    Refinement stops where its cost is rounding: at a residual of 1e-8 to 1e-13, far
    from the terms if these are correlated. Here the residual is formed from the
    coefficients, and steps are solved to the end. Exact terms reach rounding; terms
    that only have a limit, such as those of a form of border rank, do not.

    Parameters
    ----------
    tensor : SymmetricTensor
    refined : Refined
    residual : float
        Relative, of these terms.

    Returns
    -------
    refined : Refined
        The same where no step makes the residual smaller, or where none is needed.
    residual : float
    """
    sizes = np.linalg.norm(refined.vectors, axis=1) ** tensor.order
    if not residual < NEARLY_EXACT or is_rounding(residual, sizes, tensor.norm()):
        return refined, residual
    if len(tensor.coefficients) * refined.vectors.size**2 <= LONG_DENSE_WORK:
        vectors, residual = _dense_steps(tensor, refined, residual)
    else:
        vectors, residual = _large_steps(tensor, refined, residual)
    return replace(refined, vectors=vectors), residual


def _dense_steps(tensor: SymmetricTensor, refined: Refined, residual: float) -> tuple[Array, float]:
    """Return the best vectors of some Gauss-Newton steps by least squares, and their residual.

    Damped steps first. Where two points are close these creep along a narrow valley,
    out of which full steps lead, uphill at first. Vectors whose terms have grown are
    no nearer to exact ones, but farther on the way to a limit.
    """
    signs, order = refined.signs, tensor.order
    best, least = refined.vectors, residual
    largest = GROWTH * np.sum(np.linalg.norm(best, axis=1) ** order)
    vectors = gauss_newton(
        tensor, best, signs, max_iter=DAMPED_STEPS, tol=np.finfo(float).eps, dense_work=LONG_DENSE_WORK
    ).vectors
    roots = np.sqrt(tensor.multinomials)
    before = np.nan
    for _ in range(FULL_STEPS):
        left = relative_residual(tensor, signs, vectors)
        lengths = np.linalg.norm(vectors, axis=1)
        if left < least and np.sum(lengths**order) <= largest:
            best, least = vectors, left
            if is_rounding(least, lengths**order, tensor.norm()):
                break
        if not left < 1 or abs(left - before) <= 1e-3 * before:  # lost, or at a minimum
            break
        scales = np.repeat(np.maximum(lengths ** (order - 1), np.finfo(float).tiny), tensor.dim)
        jacobian = power_jacobian(vectors, signs, order).reshape(len(roots), -1) / scales
        rest = tensor - SymmetricTensor.from_waring(signs, vectors, order)
        step = np.linalg.lstsq(jacobian, roots * rest.coefficients, rcond=1e-15)[0] / scales
        vectors, before = vectors + step.reshape(vectors.shape), left
    return best, least


def _large_steps(tensor: SymmetricTensor, refined: Refined, residual: float) -> tuple[Array, float]:
    """Return the vectors of Gauss-Newton steps by conjugate gradients, while these help."""
    vectors, signs, order = refined.vectors, refined.signs, tensor.order
    max_products = int(np.clip(STEP_WORK / (4 * len(vectors) * vectors.size), 20, 1000))
    for _ in range(LARGE_STEPS):
        rest = tensor - SymmetricTensor.from_waring(signs, vectors, order)
        gram = TangentGram(vectors, signs, order)
        slope = order * signs[:, None] * rest.contract_all(gram.conjugate, 1)
        moved = vectors + gram.solve(slope, damping=1e-15, rtol=1e-10, max_iter=max_products)[0]
        residual_moved = relative_residual(tensor, signs, moved)
        if not residual_moved < residual:
            break
        gain = residual_moved / residual
        vectors, residual = moved, residual_moved
        if gain > GAIN:
            break
    return vectors, residual
