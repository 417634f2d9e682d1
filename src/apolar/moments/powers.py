"""Sums of products of three and more coordinates of rows, as products of matrices."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from apolar._core.arrays import frozen
from apolar._core.namespaces import DeviceCopies, namespace, positions_to_device_of, write_pairs
from apolar.data import Scratch
from apolar.data.row_arrays import take_rows
from apolar.tensor import n_monomials
from apolar.tensor.monomials import product_positions

__all__ = ["higher_sums", "third_sums"]


def third_sums(y: Any, weighted: Any, scratch: Scratch) -> Any:
    """Return the compact third-order sums of rows, sum_n w y_i y_j y_k.

    Parameters
    ----------
    y, weighted : array, shape (dim, n)
        One row per coordinate; the same times the weights.
    scratch : Scratch

    Returns
    -------
    sums : array, shape (n_monomials(dim, 3),)
    """
    # Each sum is an entry of the Hankel matrix of row degree 2, some of them several times.
    hankel = _pair_products(y, scratch) @ weighted.T
    positions = _product_positions(y.shape[0], 2, 1).to_device_of(y)
    return take_rows(namespace(y).reshape(hankel, (-1,)), positions)


def higher_sums(y: Any, weights: Any, order: int, scratch: Scratch) -> list[Any]:
    """Return the compact sums of powers of order four up to an order, sum_n w y_i y_j y_k y_l and so on.

    Parameters
    ----------
    y : array, shape (dim, n)
        One row per coordinate.
    weights : array, shape (n,), or None
    order : int
    scratch : Scratch

    Returns
    -------
    sums : list of array, of shapes (n_monomials(dim, 4),), ...
    """
    xp = namespace(y)
    products = [y, _pair_products(y, scratch)]
    while len(products) < (order + 1) // 2:
        products.append(_next_products(y, products[-1], len(products) + 1, scratch))
    sums = []
    for degree in range(4, order + 1):
        left, right = products[(degree + 1) // 2 - 1], products[degree // 2 - 1]
        hankel = (left if weights is None else left * weights) @ right.T
        positions = _product_positions(y.shape[0], (degree + 1) // 2, degree // 2).to_device_of(y)
        sums.append(take_rows(xp.reshape(hankel, (-1,)), positions))
    return sums


def _next_products(y: Any, products: Any, degree: int, scratch: Scratch) -> Any:
    """Return products of coordinates, shape (n_monomials(dim, degree), n), from those of one degree less.

    Monomials that begin with a variable are it times those of one degree less without an earlier variable,
    and these come last.
    """
    dim, n = y.shape
    out = scratch.empty_like(f"products of {degree}", y, n_monomials(dim, degree), n)
    start = 0
    for first in range(dim):
        size = n_monomials(dim - first, degree - 1)
        if isinstance(out, np.ndarray):
            np.multiply(products[-size:], y[first], out=out[start : start + size])
        else:
            out[start : start + size, :] = products[-size:, :] * y[first, :]
        start += size
    return out


def _pair_products(y: Any, scratch: Scratch) -> Any:
    """Return y_i y_j for all pairs of coordinates, shape (n_monomials(dim, 2), n)."""
    products = scratch.empty_like("products", y, n_monomials(y.shape[0], 2), y.shape[1])
    write_pairs(y, products)
    return products


@functools.cache
def _product_positions(dim: int, row_degree: int, column_degree: int) -> DeviceCopies:
    """Return a position of each monomial in the flattened Hankel matrix of two degrees."""
    positions = np.zeros(n_monomials(dim, row_degree + column_degree), dtype=np.int64)
    monomials = product_positions(dim, row_degree, column_degree)
    positions[monomials.ravel()] = np.arange(monomials.size)
    return DeviceCopies(frozen(positions), positions_to_device_of)
