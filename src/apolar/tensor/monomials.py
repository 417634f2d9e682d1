"""Monomials of a degree in a fixed order, and their positions in it.

A monomial of degree d in m variables is held as the non-decreasing tuple of
its d variables: x0 x0 x2 is (0, 0, 2). Sorted lexicographically, these tuples
are the one order of monomials that the whole library uses; it is the
lexicographic order of the exponents too, x0^d first.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import chain, combinations_with_replacement
from math import comb, log2
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.checks import fits_in_memory
from apolar._core.namespaces import namespace, thread_scratch, write
from apolar.data.chunks import take_rows


def n_monomials(dim: int, degree: int) -> int:
    """Return the number of monomials of a degree, the paper's s_k."""
    return comb(dim + degree - 1, degree)


@lru_cache(maxsize=64)
def monomial_variables(dim: int, degree: int) -> IndexArray:
    """Return the variables of each monomial, in non-decreasing order.

    Parameters
    ----------
    dim, degree : int

    Returns
    -------
    variables : ndarray of int, shape (n_monomials, degree)
    """
    n_rows = n_monomials(dim, degree)
    fits_in_memory(n_rows * max(degree, 1), f"A form of degree {degree} in {dim} variables")
    variables = chain.from_iterable(combinations_with_replacement(range(dim), degree))
    return frozen(np.fromiter(variables, np.intp, n_rows * degree).reshape(n_rows, degree))


@lru_cache(maxsize=64)
def exponents(dim: int, degree: int) -> IndexArray:
    """Return the exponents of each monomial, shape (n_monomials, dim)."""
    variables = monomial_variables(dim, degree)
    table = np.zeros((len(variables), dim), dtype=np.intp)
    np.add.at(table, (np.arange(len(variables))[:, None], variables), 1)
    return frozen(table)


@lru_cache(maxsize=64)
def multinomials(dim: int, degree: int) -> Array:
    """Return binom(degree, alpha) of each monomial, shape (n_monomials,).

    It counts the entries of the full array that share one coefficient.

    Raises
    ------
    ValueError
        If their sum, dim^degree, overflows.
    """
    if degree * log2(dim) >= 1023:
        raise ValueError(
            f"The multinomial coefficients of degree {degree} in {dim} variables overflow: "
            "lower the degree or the number of variables."
        )
    variables = monomial_variables(dim, degree)
    # d!/alpha!, factor by factor; alpha! is the product of the positions of all variables in their runs.
    run = np.ones(len(variables))
    counts = np.ones(len(variables))
    for slot in range(1, degree):
        run = np.where(variables[:, slot] == variables[:, slot - 1], run + 1, 1)
        counts *= (slot + 1) / run
    return frozen(np.rint(counts))


def positions(variables: IndexArray, dim: int) -> IndexArray:
    """Return the positions of monomials given by their variables in any order.

    Parameters
    ----------
    variables : ndarray of int, shape (..., degree)
    dim : int

    Returns
    -------
    positions : ndarray of int, shape (...)
    """
    degree = variables.shape[-1]
    descending = dim - 1 - np.sort(variables, axis=-1)
    after = np.zeros(variables.shape[:-1], dtype=np.intp)
    for slot in range(degree):
        left = degree - slot
        # How many monomials of the degree that is left have only later variables.
        below = np.array([comb(j + left - 1, left) for j in range(dim)], dtype=np.intp)
        after += below[descending[..., slot]]
    return n_monomials(dim, degree) - 1 - after


@lru_cache(maxsize=64)
def product_positions(dim: int, row_degree: int, column_degree: int) -> IndexArray:
    """Return the position of each product of two monomials.

    Parameters
    ----------
    dim, row_degree, column_degree : int

    Returns
    -------
    positions : ndarray of int, shape (n_monomials(dim, row_degree), n_monomials(dim, column_degree))
        Positions among the monomials of degree row_degree + column_degree.
    """
    n_rows, n_columns = n_monomials(dim, row_degree), n_monomials(dim, column_degree)
    degree = row_degree + column_degree
    what = f"The Hankel matrix of row degree {row_degree} of a form of degree {degree} in {dim} variables"
    fits_in_memory(n_rows * n_columns * (degree + 1), what)
    if min(row_degree, column_degree) > 1:
        # Variable by variable, through the small tables: to sort the variables of all products takes longer.
        where = np.arange(n_rows)[:, None]
        for slot, variables in enumerate(monomial_variables(dim, column_degree).T):
            where = product_positions(dim, row_degree + slot, 1)[where, variables]
        return frozen(where)
    rows = monomial_variables(dim, row_degree)[:, None, :]
    columns = monomial_variables(dim, column_degree)[None, :, :]
    both = np.concatenate(
        [
            np.broadcast_to(rows, (n_rows, n_columns, row_degree)),
            np.broadcast_to(columns, (n_rows, n_columns, column_degree)),
        ],
        axis=-1,
    )
    return frozen(positions(both, dim))


def monomial_values(points: Any, degree: int) -> Any:
    """Return the values of all monomials of a degree at some points.

    Parameters
    ----------
    points : array of any library, shape (n_points, dim)
    degree : int

    Returns
    -------
    values : array, shape (n_points, n_monomials)
    """
    variables = monomial_variables(points.shape[1], degree)
    if degree == 0:
        return namespace(points).ones_like(points[:, :1])
    # One row per monomial: rows are gathered whole, which is fast in memory.
    is_numpy = isinstance(points, np.ndarray)
    coordinates = np.ascontiguousarray(points.T) if is_numpy else points.T
    take = coordinates.__getitem__ if is_numpy else partial(take_rows, coordinates)
    values = take(variables[:, 0])
    for slot in range(1, degree):
        values *= take(variables[:, slot])
    return values.T


def power_derivatives(lower: Array, dim: int, degree: int) -> Array:
    """Return the derivatives of the powers (xi_i . x)^degree by the coordinates of the points.

    Parameters
    ----------
    lower : ndarray, shape (n_points, n_monomials(dim, degree - 1))
        The values of all monomials of one degree less at the points, of any kind of numbers.
    dim, degree : int
        The degree is at least 1.

    Returns
    -------
    derivatives : ndarray, shape (n_points, dim, n_monomials)
        Compact coefficients.
    """
    where, counts = product_positions(dim, degree - 1, 1), exponents(dim, degree - 1) + 1
    derivatives = np.zeros((len(lower), dim, n_monomials(dim, degree)), dtype=lower.dtype)
    for j in range(dim):
        derivatives[:, j, where[:, j]] = counts[:, j].astype(lower.dtype) * lower
    return derivatives


def sum_of_powers(weights: Array, points: Array, degree: int) -> Array:
    """Return the compact coefficients of sum_i w_i (xi_i . x)^degree.

    Parameters
    ----------
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
    degree : int
        At least 1.

    Returns
    -------
    coefficients : ndarray, shape (n_monomials,)
    """
    dim = points.shape[1]
    # One matrix product gives the Hankel matrix of row degree 1. The monomials of this degree are x_i times
    # those of one degree less that have no variable before x_i, and these come last in the order.
    matrix = (weights[:, None] * points).T @ monomial_values(points, degree - 1)
    return np.concatenate([matrix[i, -n_monomials(dim - i, degree - 1) :] for i in range(dim)])


def power_sums(rows: Any, weights: Any, degrees: Sequence[int]) -> list[Any]:
    """Return what `sum_of_powers` does for several degrees, of many rows in an array of any library.

    Parameters
    ----------
    rows : array, shape (n, dim)
    weights : array, shape (n,), or None for ones
    degrees : sequence of int
        Ascending.

    Returns
    -------
    sums : list of array, of shapes (n_monomials(dim, degree),)
    """
    dim, n = rows.shape[1], rows.shape[0]
    # One row per coordinate: operations along long rows are fast.
    y = np.ascontiguousarray(rows.T) if isinstance(rows, np.ndarray) else rows.T
    products = [namespace(y).ones_like(y[:1, :]), y]
    for degree in range(2, (degrees[-1] + 1) // 2 + 1):
        # Monomials that begin with a variable are it times those of one degree less without an earlier
        # variable, and these come last.
        out = thread_scratch().empty_like(f"products of {degree}", y, n_monomials(dim, degree), n)
        start = 0
        for first in range(dim):
            size = n_monomials(dim - first, degree - 1)
            factors = products[-1][-size:, :], y[first : first + 1, :]
            write("multiply", *factors, out=out[start : start + size, :])
            start += size
        products.append(out)
    sums = []
    for degree in degrees:
        # Each sum is an entry of the Hankel matrix of two degrees, some of them several times.
        left, right = products[(degree + 1) // 2], products[degree // 2]
        hankel = left @ (right if weights is None else right * weights).T
        places = _hankel_places(dim, (degree + 1) // 2, degree // 2)
        sums.append(take_rows(namespace(y).reshape(hankel, (-1,)), places))
    return sums


@lru_cache(maxsize=64)
def _hankel_places(dim: int, row_degree: int, column_degree: int) -> IndexArray:
    """Return a place of each monomial in the flattened Hankel matrix of two degrees."""
    places = np.zeros(n_monomials(dim, row_degree + column_degree), dtype=np.intp)
    products = product_positions(dim, row_degree, column_degree)
    places[products.ravel()] = np.arange(products.size)
    return frozen(places)


def dense_positions(dim: int, order: int) -> IndexArray:
    """Return the compact position of each entry of the full array, shape (dim,) * order."""
    where = np.arange(dim)
    for degree in range(1, order):
        where = product_positions(dim, degree, 1)[where]
    return where
