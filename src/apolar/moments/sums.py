"""Sums over rows up to order three, and how they move to another centre."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array, frozen
from apolar._core.namespaces import is_device_array, namespace, to_device_of, to_numpy, total, write_pairs
from apolar.data import Scratch
from apolar.data.rows import take_rows
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.monomials import product_positions

# The variance of rows whose fourth powers are still numbers, and one over it.
MOST_VARIANCE = 1e140


class ScaleError(ValueError):
    """Rows whose third and fourth powers leave the range of numbers."""


def check_scale(variance: float) -> None:
    """Refuse rows so large, or so small, that their powers are no numbers; zero is left to others."""
    if variance == 0 or 1 / MOST_VARIANCE < variance < MOST_VARIANCE:
        return
    raise ScaleError(
        f"The columns have a total variance of {variance:.3g}: third and fourth powers of the rows leave the "
        "range of numbers. Divide all columns by one number, their scale, first."
    )


@dataclass(eq=False)
class Sums:
    """Weighted sums of z, z z^t, z z z (compact, in the frame) and |z|^2 z, z = x - centre."""

    weight: float
    weight_squares: float
    first: Array
    second: Array
    third: Array
    square_times: Array

    @classmethod
    def zeros(cls, n_features: int, n_frame: int) -> Sums:
        """Return the sums over no rows."""
        third = np.zeros(n_monomials(n_frame, 3))
        return cls(0.0, 0.0, np.zeros(n_features), np.zeros((n_features,) * 2), third, np.zeros(n_features))

    def copy(self) -> Sums:
        """Return sums of their own."""
        return replace(
            self,
            first=self.first.copy(),
            second=self.second.copy(),
            third=self.third.copy(),
            square_times=self.square_times.copy(),
        )

    def plus(self, other: Sums) -> Sums:
        """Return the sums over the rows of both, about the same centre."""
        return Sums(
            self.weight + other.weight,
            self.weight_squares + other.weight_squares,
            self.first + other.first,
            self.second + other.second,
            self.third + other.third,
            self.square_times + other.square_times,
        )

    def add(self, block: Any, weights: Any, centre: Array, frame: Array | None, scratch: Scratch) -> None:
        """Add a chunk of rows, in place."""
        dense = block.toarray() if sparse.issparse(block) else block
        z = scratch.subtract("centred", dense, to_device_of(centre, dense))
        weighted = z if weights is None else weights[:, None] * z
        y = transposed(z) if frame is None else to_device_of(frame.T, z) @ z.T
        parts = (
            z.shape[0] if weights is None else total(weights),
            z.shape[0] if weights is None else weights @ weights,
            column_sums(weighted),
            weighted.T @ z,
            row_squares(z) @ weighted,
            third_sums(y, y if weights is None else y * weights, scratch),
        )
        weight, weight_squares, first, second, square_times, third = on_host(parts)
        self.weight += float(weight)
        self.weight_squares += float(weight_squares)
        self.first += first
        self.second += second
        self.square_times += square_times
        self.third += third

    @property
    def is_finite(self) -> bool:
        """Whether every sum is a number."""
        return all(bool(np.all(np.isfinite(value))) for value in vars(self).values())

    def moved(self, offset: Array, frame: Array | None) -> Sums:
        """Return the sums about another centre: z + offset in place of z."""
        d = offset
        second = (
            self.second + np.outer(self.first, d) + np.outer(d, self.first) + self.weight * np.outer(d, d)
        )
        trace = np.trace(self.second)
        square_times = (
            self.square_times
            + 2 * self.second @ d
            + (d @ d) * self.first
            + (trace + 2 * d @ self.first + self.weight * (d @ d)) * d
        )
        a, s1, s2 = d, self.first, self.second
        if frame is not None:
            a, s1, s2 = frame.T @ d, frame.T @ s1, frame.T @ s2 @ frame
        dim = len(a)
        shift = SymmetricTensor(1, dim, a)
        linear = SymmetricTensor(1, dim, s1)
        quadratic = SymmetricTensor(2, dim, s2[np.triu_indices(dim)])
        third = (
            SymmetricTensor(3, dim, self.third)
            + 3 * shift * quadratic
            + 3 * shift * shift * linear
            + self.weight * shift * shift * shift
        )
        first = self.first + self.weight * d
        return Sums(self.weight, self.weight_squares, first, second, third.coefficients, square_times)


def third_sums(y: Any, weighted: Any, scratch: Scratch) -> Any:
    """Return the compact third-order sums of rows, sum_n w y_i y_j y_k.

    Parameters
    ----------
    y, weighted : array, shape (dim, n)
        A row a coordinate; the same times the weights.
    scratch : Scratch

    Returns
    -------
    sums : array, shape (n_monomials(dim, 3),)
    """
    # The Hankel matrix of row degree 2 holds each sum; one entry of each is taken.
    matrix = pair_products(y, scratch) @ weighted.T
    return take_rows(namespace(y).reshape(matrix, (-1,)), third_places(y.shape[0]))


def pair_products(y: Any, scratch: Scratch) -> Any:
    """Return y_i y_j for all pairs of coordinates, shape (n_monomials(dim, 2), n)."""
    products = scratch.empty_like("products", y, n_monomials(y.shape[0], 2), y.shape[1])
    write_pairs(y, products)
    return products


@functools.cache
def third_places(dim: int) -> Array:
    """Return where the flat Hankel matrix of row degree 2 holds each monomial of degree 3."""
    places = np.zeros(n_monomials(dim, 3), dtype=np.int64)
    positions = product_positions(dim, 2, 1)
    places[positions.ravel()] = np.arange(positions.size)
    return frozen(places)


def transposed(array: Any) -> Any:
    """Return a matrix with rows and columns exchanged, in memory too."""
    return np.ascontiguousarray(array.T) if isinstance(array, np.ndarray) else array.T


def row_squares(block: Any) -> Any:
    """Return the squared length of each row."""
    if sparse.issparse(block):
        return np.asarray(block.multiply(block).sum(axis=1)).ravel()
    if isinstance(block, np.ndarray):
        return np.einsum("ij,ij->i", block, block)
    # Without an array of the squares.
    return namespace(block).linalg.vector_norm(block, axis=1) ** 2


def column_sums(block: Any) -> Any:
    """Return the sums of the columns: as a product with ones, which is faster where they are few."""
    if is_device_array(block):
        return namespace(block).sum(block, axis=0)
    return np.asarray(np.ones(block.shape[0]) @ block).ravel()


def block_mean(block: Any, weights: Any) -> Array:
    """Return the mean of rows, on the host."""
    if weights is None:
        return on_host([column_sums(block)])[0] / block.shape[0]
    first, weight = on_host([weights @ block, total(weights)])
    return np.asarray(first).ravel() / float(weight)


def on_host(values: Iterable[Any]) -> list[Any]:
    """Return sums on the host."""
    return [to_numpy(value) if is_device_array(value) else value for value in values]


def effective_rows(weight: float, weight_squares: float, n_rows: int) -> float:
    """Return how many rows of one weight would have moments as noisy [kish1965]."""
    # Of very small weights the squares are zero.
    found = (weight / np.sqrt(weight_squares)) ** 2 if weight_squares > 0 else np.inf
    return float(found) if np.isfinite(found) else float(n_rows)
