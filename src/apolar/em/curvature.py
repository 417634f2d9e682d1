"""Tests for a maximum, and estimates of the remaining gain, by Krylov spaces of the Hessian."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS

Gradient = Callable[[Array], Array]
"""Takes a tangent vector and returns the gradient there, by one pass over the rows."""


def rising_direction(
    gradient_at: Gradient, point: Array, gradient: Array, null_direction: Array
) -> tuple[float, Array] | None:
    """Return the largest curvature that was found and its direction, if that curvature is positive.

    Ritz values never exceed the largest eigenvalue, so that a maximum is not mistaken for a saddle.

    Parameters
    ----------
    gradient_at : callable
    point : ndarray, shape (n_coordinates,)
    gradient : ndarray, shape (n_coordinates,)
        At the point.
    null_direction : ndarray, shape (n_coordinates,)
        A direction along which the function is constant; it is projected out.

    Returns
    -------
    curvature, direction : float and ndarray
        None in place of both if no direction of positive curvature was found.
    """
    # A fixed seed: results must not vary from run to run.
    start = np.random.default_rng(0).standard_normal(len(point))
    largest: tuple[float, Array] | None = None
    before = -np.inf
    for basis, hessian, remainder in _krylov(gradient_at, point, gradient, start, null_direction):
        values, vectors = np.linalg.eigh(hessian)
        if values[-1] > SETTINGS.min_rising:
            largest = float(values[-1]), vectors[:, -1] @ basis
            if values[-1] < 1.1 * before:
                break
            before = float(values[-1])
        # The last entry of a Ritz vector times the remainder bounds the error of its value. If components
        # hardly overlap, all curvatures are near -1, and two or three products are enough to see that.
        if values[-1] + 2 * remainder * abs(vectors[-1, -1]) < SETTINGS.clearly_falling:
            break
    return largest


def newton_step(
    gradient_at: Gradient, point: Array, gradient: Array, null_direction: Array
) -> tuple[float, Array] | None:
    """Return the remaining gain and the step that gains it, by Newton's method in a Krylov space.

    The space is that of the gradient. It contains flat directions, in which the gradient is small but the
    maximum far away, and which the history of a quasi-Newton method may miss.

    Parameters
    ----------
    gradient_at : callable
    point : ndarray, shape (n_coordinates,)
    gradient : ndarray, shape (n_coordinates,)
        At the point.
    null_direction : ndarray, shape (n_coordinates,)
        A direction along which the function is constant; it is projected out.

    Returns
    -------
    gain, step : float and ndarray
        None in place of both if the quadratic model has no maximum.
    """
    gain, step = 0.0, np.zeros_like(gradient)
    for basis, hessian, _ in _krylov(gradient_at, point, gradient, gradient, null_direction):
        values, vectors = np.linalg.eigh(-hessian)
        if not values[0] > 0:
            return None
        size = float(basis[0] @ gradient)
        coefficients = vectors @ (vectors[0] / values) * size
        before, gain = gain, 0.5 * size * float(coefficients[0])
        step = coefficients @ basis
        if gain <= SETTINGS.settled * before:
            break
    return gain, step


def _krylov(
    gradient_at: Gradient, point: Array, gradient: Array, start: Array, null_direction: Array
) -> Iterator[tuple[Array, Array, float]]:
    """Yield Krylov spaces of the Hessian of increasing dimension.

    Products of the Hessian with vectors are approximated by gradient differences.

    Yields
    ------
    basis : ndarray, shape (n, n_coordinates)
        Orthonormal.
    hessian : ndarray, shape (n, n)
        Projected on the space.
    remainder : float
        The norm of the part of the last product outside the space.
    """
    null_direction = null_direction / np.linalg.norm(null_direction)
    vector = start - (null_direction @ start) * null_direction
    norm = float(np.linalg.norm(vector))
    if not norm > 0:
        return
    vectors, images = [vector / norm], []
    for _ in range(min(SETTINGS.max_products, len(point))):
        image = (
            gradient_at(point + SETTINGS.gradient_difference * vectors[-1]) - gradient
        ) / SETTINGS.gradient_difference
        if not np.all(np.isfinite(image)):
            return
        images.append(image)
        basis = np.array(vectors)
        projected = basis @ np.array(images).T
        # Orthogonalised twice: once would leave rounding errors.
        remainder = image - basis.T @ (basis @ image)
        remainder -= basis.T @ (basis @ remainder)
        remainder -= (null_direction @ remainder) * null_direction
        norm = float(np.linalg.norm(remainder))
        yield basis, (projected + projected.T) / 2, norm
        if norm <= 1e-8 * float(np.linalg.norm(image)):
            return
        vectors.append(remainder / norm)
