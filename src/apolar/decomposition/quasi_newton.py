"""Refinement by L-BFGS, for tensors far from every sum of so few powers."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from apolar._core.arrays import Array
from apolar.decomposition.gauss_newton import Contractible, Refined

# Pairs of steps and gradients that are kept: a product with the rows costs far more than these.
MEMORY = 20


def quasi_newton(tensor: Contractible, vectors: Array, signs: Array, *, max_iter: int, tol: float) -> Refined:
    """Minimise |T - sum_i s_i (a_i . x)^d|^2 over real vectors a_i [nocedal2006].

    Where the residual is large, the steps of Gauss-Newton leave out much of the
    curvature, and L-BFGS needs fewer; it ends where the cost is at rounding,
    with a gradient of about 1e-8.

    Parameters
    ----------
    tensor : Contractible
    vectors : ndarray, shape (rank, dim)
        Real.
    signs : ndarray, shape (rank,)
        +1 or -1, kept.
    max_iter : int
    tol : float
        Stop when the gradient, relative to ``|T|`` and to the terms, is below.

    Returns
    -------
    refined : Refined
    """
    order, scale = tensor.order, tensor.norm()
    unit = scale ** (1 / order)
    start = vectors / unit
    # In these units a step of one changes each term by about one.
    squares = np.sum(start**2, axis=1)
    units = np.sqrt(np.maximum(order * squares ** (order - 1), np.finfo(float).tiny))[:, None]
    outer = np.outer(signs, signs)

    def cost(flat: Array) -> tuple[float, Array]:
        a = flat.reshape(start.shape) / units
        contracted = signs[:, None] * tensor.contract_all(a, 1) / scale
        inner = a @ a.T
        powers = outer * inner ** (order - 1)
        value = 0.5 * np.sum(powers * inner) - np.sum(contracted * a) + 0.5
        return float(value), (order * (powers @ a - contracted) / units).ravel()

    options = {"maxiter": max_iter, "maxcor": MEMORY, "ftol": 0.0, "gtol": tol / np.sqrt(start.size)}
    found = minimize(cost, (start * units).ravel(), jac=True, method="L-BFGS-B", options=options)
    size = float(np.linalg.norm(found.jac))
    moved = found.x.reshape(start.shape) / units * unit
    return Refined(moved, signs, float(found.fun), size, size <= max(tol, 1e-9), int(found.nit), ())
