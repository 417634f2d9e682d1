"""Whether a stationary point is a maximum: the largest curvature there, by Lanczos."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from apolar._arrays import Array

# Products with the Hessian that are made, and the step of the differences that make them.
MOST_PRODUCTS = 20
DIFFERENCE = 1e-4
# Curvature, in units of the complete information, above which a direction rises.
RISING = 2e-5
# Curvature below which no more is looked for.
CLEARLY_FALLING = -0.2


def rising_direction(
    gradient_at: Callable[[Array], Array], point: Array, gradient: Array, idle: Array
) -> tuple[float, Array] | None:
    """Return the largest curvature found and its direction, if the function curves upwards there.

    Ritz values are never above the largest eigenvalue, so that a maximum is not taken for a saddle.

    Parameters
    ----------
    gradient_at : callable
        The gradient at a point; one pass over the rows.
    point : ndarray
    gradient : ndarray
        At the point.
    idle : ndarray
        A direction in which nothing changes; it is left out.

    Returns
    -------
    found : tuple of float and ndarray, or None
    """
    # Any start serves, the same each time.
    vector = np.random.default_rng(0).standard_normal(len(point))
    idle = idle / np.linalg.norm(idle)
    vector -= (idle @ vector) * idle
    basis = [vector / np.linalg.norm(vector)]
    images: list[Array] = []
    largest: tuple[float, Array] | None = None
    before = -np.inf
    for _ in range(min(MOST_PRODUCTS, len(point))):
        image = (gradient_at(point + DIFFERENCE * basis[-1]) - gradient) / DIFFERENCE
        if not np.all(np.isfinite(image)):
            break
        images.append(image)
        q = np.array(basis)
        projected = q @ np.array(images).T
        values, vectors = np.linalg.eigh((projected + projected.T) / 2)
        if values[-1] > RISING:
            largest = float(values[-1]), vectors[:, -1] @ q
            if values[-1] < 1.1 * before:
                break
            before = float(values[-1])
        rest = image - q.T @ (q @ image)
        rest -= q.T @ (q @ rest)
        rest -= (idle @ rest) * idle
        norm = float(np.linalg.norm(rest))
        # The last entry of a Ritz vector times the norm of what is left bounds the error of its value. Where
        # components hardly overlap all curvatures are near -1, and two or three products say so.
        if values[-1] + 2 * norm * abs(vectors[-1, -1]) < CLEARLY_FALLING:
            break
        if norm < 1e-8 * float(np.linalg.norm(image)) or norm == 0:
            break
        basis.append(rest / norm)
    return largest


def newton_step(
    gradient_at: Callable[[Array], Array], point: Array, gradient: Array, idle: Array
) -> tuple[float, Array] | None:
    """Return what is left to gain, and the step that gains it, by Newton's model in a Krylov space.

    The space is that of the gradient: it sees the flat directions in which the gradient is small and the
    way is long, and which a quasi-Newton method may never have met.

    Parameters
    ----------
    gradient_at : callable
        The gradient at a point; one pass over the rows.
    point : ndarray
    gradient : ndarray
        At the point.
    idle : ndarray
        A direction in which nothing changes.

    Returns
    -------
    found : tuple of float and ndarray, or None
        None where the model has no maximum.
    """
    idle = idle / np.linalg.norm(idle)
    start = gradient - (idle @ gradient) * idle
    size = float(np.linalg.norm(start))
    if not size > 0:
        return 0.0, np.zeros_like(start)
    basis, images = [start / size], []
    before = 0.0
    found: tuple[float, Array] | None = None
    for _ in range(min(MOST_PRODUCTS, len(point))):
        image = (gradient_at(point + DIFFERENCE * basis[-1]) - gradient) / DIFFERENCE
        if not np.all(np.isfinite(image)):
            break
        images.append(image)
        q = np.array(basis)
        projected = -(q @ np.array(images).T)
        values, vectors = np.linalg.eigh((projected + projected.T) / 2)
        if not values[0] > 0:
            return None
        weights = vectors @ (vectors[0] / values) * size
        left = 0.5 * size * float(weights[0])
        found = left, weights @ q
        if left <= 1.02 * before:
            break
        before = left
        rest = image - q.T @ (q @ image)
        rest -= q.T @ (q @ rest)
        rest -= (idle @ rest) * idle
        norm = float(np.linalg.norm(rest))
        if norm < 1e-8 * float(np.linalg.norm(image)) or norm == 0:
            break
        basis.append(rest / norm)
    return found
