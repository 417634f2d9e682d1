"""Whether a stationary point is a maximum, and how much is left to gain: by Krylov spaces of the Hessian."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from apolar._core.arrays import Array

# The most products with the Hessian, and the step of the gradient differences that make them.
MOST_PRODUCTS = 20
DIFFERENCE = 1e-4
# Curvature, in units of the complete information, above which a direction rises.
RISING = 2e-5
# What is left to gain is known when one more product raises it by no more than this factor.
SETTLED = 1.02
# Where the largest curvature is surely below this, the search ends.
CLEARLY_FALLING = -0.2


Gradient = Callable[[Array], Array]
"""The gradient at a tangent vector; one pass over the rows."""


def rising_direction(
    gradient_at: Gradient, point: Array, gradient: Array, null_direction: Array
) -> tuple[float, Array] | None:
    """Return the largest curvature that was met and its direction, if the function curves upwards there.

    Ritz values are never above the largest eigenvalue, so that a maximum is not taken for a saddle.

    Parameters
    ----------
    gradient_at : callable
    point : ndarray, shape (n_coordinates,)
    gradient : ndarray, shape (n_coordinates,)
        At the point.
    null_direction : ndarray, shape (n_coordinates,)
        A direction in which nothing changes; it is left out.

    Returns
    -------
    curvature, direction : float and ndarray
        None in place of both if the function curves upwards in no direction that was met.
    """
    # Any start will do; it is the same each time.
    start = np.random.default_rng(0).standard_normal(len(point))
    largest: tuple[float, Array] | None = None
    before = -np.inf
    for basis, hessian, remainder in _krylov(gradient_at, point, gradient, start, null_direction):
        values, vectors = np.linalg.eigh(hessian)
        if values[-1] > RISING:
            largest = float(values[-1]), vectors[:, -1] @ basis
            if values[-1] < 1.1 * before:
                break
            before = float(values[-1])
        # The last entry of a Ritz vector times the remainder bounds the error of its value. Where components
        # hardly overlap all curvatures are near -1, and two or three products say so.
        if values[-1] + 2 * remainder * abs(vectors[-1, -1]) < CLEARLY_FALLING:
            break
    return largest


def newton_step(
    gradient_at: Gradient, point: Array, gradient: Array, null_direction: Array
) -> tuple[float, Array] | None:
    """Return what is left to gain, and the step that gains it, by Newton's model in a Krylov space.

    The space is that of the gradient: it sees the flat directions in which the gradient is small and the
    way is long, and which a quasi-Newton method may never have met.

    Parameters
    ----------
    gradient_at : callable
    point : ndarray, shape (n_coordinates,)
    gradient : ndarray, shape (n_coordinates,)
        At the point.
    null_direction : ndarray, shape (n_coordinates,)
        A direction in which nothing changes; it is left out.

    Returns
    -------
    left, step : float and ndarray
        None in place of both where the model has no maximum.
    """
    left, step = 0.0, np.zeros_like(gradient)
    for basis, hessian, _ in _krylov(gradient_at, point, gradient, gradient, null_direction):
        values, vectors = np.linalg.eigh(-hessian)
        if not values[0] > 0:
            return None
        size = float(basis[0] @ gradient)
        coefficients = vectors @ (vectors[0] / values) * size
        before, left = left, 0.5 * size * float(coefficients[0])
        step = coefficients @ basis
        if left <= SETTLED * before:
            break
    return left, step


def _krylov(
    gradient_at: Gradient, point: Array, gradient: Array, start: Array, null_direction: Array
) -> Iterator[tuple[Array, Array, float]]:
    """Yield growing Krylov spaces of the Hessian: a basis, the Hessian there, and the norm of what it misses.

    The Hessian is known by its products with vectors, which are differences of gradients.

    Yields
    ------
    basis : ndarray, shape (n, n_coordinates)
    hessian : ndarray, shape (n, n)
    remainder : float
        The norm of the part of the last product that is outside the space.
    """
    null_direction = null_direction / np.linalg.norm(null_direction)
    vector = start - (null_direction @ start) * null_direction
    norm = float(np.linalg.norm(vector))
    if not norm > 0:
        return
    vectors, images = [vector / norm], []
    for _ in range(min(MOST_PRODUCTS, len(point))):
        image = (gradient_at(point + DIFFERENCE * vectors[-1]) - gradient) / DIFFERENCE
        if not np.all(np.isfinite(image)):
            return
        images.append(image)
        basis = np.array(vectors)
        projected = basis @ np.array(images).T
        # Twice is enough to be orthogonal to rounding.
        remainder = image - basis.T @ (basis @ image)
        remainder -= basis.T @ (basis @ remainder)
        remainder -= (null_direction @ remainder) * null_direction
        norm = float(np.linalg.norm(remainder))
        yield basis, (projected + projected.T) / 2, norm
        if norm <= 1e-8 * float(np.linalg.norm(image)):
            return
        vectors.append(remainder / norm)
