"""Sums over rows up to order three, and how they move to another centre."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._arrays import Array
from apolar._rows import Scratch
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.monomials import monomial_variables, product_positions


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

    def add(
        self, block: Any, weights: Array | None, centre: Array, frame: Array | None, scratch: Scratch
    ) -> None:
        """Add a chunk of rows, in place."""
        dense = block.toarray() if sparse.issparse(block) else block
        z = np.subtract(dense, centre, out=scratch("centred", *dense.shape))
        weighted = z if weights is None else weights[:, None] * z
        self.weight += float(len(z) if weights is None else weights.sum())
        self.weight_squares += float(len(z) if weights is None else weights @ weights)
        self.first += np.ones(len(z)) @ weighted
        self.second += weighted.T @ z
        self.square_times += np.einsum("ij,ij->i", z, z) @ weighted
        y = np.ascontiguousarray(z.T) if frame is None else frame.T @ z.T
        self.third += third_sums(y, y if weights is None else y * weights, scratch)

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


def third_sums(y: Array, weighted: Array, scratch: Scratch) -> Array:
    """Return the compact third-order sums of rows, sum_n w y_i y_j y_k.

    Parameters
    ----------
    y, weighted : ndarray, shape (dim, n)
        A row a coordinate; the same times the weights.
    scratch : Scratch

    Returns
    -------
    sums : ndarray, shape (n_monomials(dim, 3),)
    """
    dim, n = y.shape
    pairs = monomial_variables(dim, 2)
    products = scratch("products", len(pairs), n)
    for row, (i, j) in zip(products, pairs, strict=True):
        np.multiply(y[i], y[j], out=row)
    # The Hankel matrix of row degree 2 holds each sum; one entry of each is taken.
    matrix = products @ weighted.T
    sums = np.zeros(n_monomials(dim, 3))
    sums[product_positions(dim, 2, 1)] = matrix
    return sums


def effective_rows(weight: float, weight_squares: float, n_rows: int) -> float:
    """Return how many rows of one weight would have moments as noisy [kish1965]."""
    # Of very small weights the squares are zero.
    found = (weight / np.sqrt(weight_squares)) ** 2 if weight_squares > 0 else np.inf
    return float(found) if np.isfinite(found) else float(n_rows)
