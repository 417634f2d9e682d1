"""The directions that separate the components of a mixture best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array

__all__ = ["Directions", "discriminating_directions"]

# Directions with a smaller part of the variance are rounding errors of columns that others determine.
RANK_TOLERANCE = 1e-10
# The means separate the components in a direction if this part of the variance or more is between them.
LEAST_BETWEEN = 0.1


@dataclass(frozen=True, eq=False)
class Directions:
    """Directions, each a sum of columns, the first of which separate the components best.

    Attributes
    ----------
    origin : ndarray, shape (n_features,)
        The mean of the mixture.
    axes : ndarray, shape (n_features, n_directions)
        In the units of the columns; rows of the mixture have variance one along each, and no correlations.
    loadings : ndarray, shape (n_features, n_directions)
        The same, of columns of standard deviation one.
    n_by_position : int
        How many of them separate the means; in the others, covariances differ.
    """

    origin: Array
    axes: Array
    loadings: Array
    n_by_position: int

    def transform(self, X: Array) -> Array:
        """Return where rows are, shape (n_samples, n_directions)."""
        return np.asarray((np.asarray(X) - self.origin) @ self.axes)


def discriminating_directions(
    weights: Array, means: Array, covariances: Array, n_directions: int
) -> Directions:
    """Return the directions that separate components best, by position, then by shape.

    The first are those in which the largest part of the variance is between the means, as in linear
    discriminant analysis. Where that is next to nothing, as in the second direction for two components, come
    those in which the covariances differ most [scrucca2010].

    Parameters
    ----------
    weights : ndarray, shape (n_components,)
        With sum one.
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray, shape (n_components, n_features, n_features)
    n_directions : int
        Fewer are returned where the rows vary in fewer.
    """
    origin = weights @ means
    scales = np.sqrt(weights @ ((means - origin) ** 2 + np.diagonal(covariances, axis1=1, axis2=2)))
    scales[scales == 0] = 1.0
    offsets, covariances = (means - origin) / scales, covariances / np.outer(scales, scales)
    between, within = offsets.T * weights @ offsets, np.tensordot(weights, covariances, axes=1)
    spread, vectors = np.linalg.eigh(between + within)
    is_there = spread > RANK_TOLERANCE * spread[-1]
    root = vectors[:, is_there] / np.sqrt(spread[is_there])
    parts, positions = np.linalg.eigh(root.T @ between @ root)
    by_position = positions[:, ::-1][:, parts[::-1] > LEAST_BETWEEN][:, :n_directions]
    differences = root.T @ (covariances - within) @ root
    shapes = np.tensordot(weights, differences @ differences, axes=1)
    others = np.eye(len(shapes)) - by_position @ by_position.T
    # The second term keeps those by position out, also where all covariances are equal.
    by_shape = np.linalg.eigh(others @ shapes @ others + others)[1][:, ::-1]
    n_left = len(shapes) - by_position.shape[1]
    axes = root @ np.column_stack([by_position, by_shape[:, :n_left]])[:, :n_directions]
    # The direction of an axis in which its largest entry is positive.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    return Directions(origin, axes / scales[:, None], axes, by_position.shape[1])
