"""Arithmetic on compact coefficients, one per monomial, that neither overflows nor vanishes on the way."""

from __future__ import annotations

import math
import numbers
from typing import Any, Protocol

import numpy as np

from apolar._core.arrays import Array, binary_exponent, binary_exponents, scaled_by_power
from apolar._core.checks import numeric_array
from apolar.tensor import monomials
from apolar.tensor.parser import WrittenTerms, to_float

# Entries of a full array that should be equal may differ by this much of the
# largest one: what sums in another order, or float32 data, leave behind.
SYMMETRY_TOLERANCE = 1e-6
# Powers of two up to this one can be multiplied with each other, and neither overflow nor vanish.
SAFE_EXPONENT = 500


class Form(Protocol):
    """A form in compact storage: what the functions below need of a symmetric tensor."""

    @property
    def order(self) -> int:
        """The order, which is the degree of the form."""

    @property
    def dim(self) -> int:
        """The number of variables."""

    @property
    def coefficients(self) -> Array:
        """The T_a, shape (n_monomials,)."""


Parts = tuple[int, int, Array]
"""The order, the dimension and the coefficients of a form."""


def check_same_space(first: Form, second: Form) -> None:
    """Refuse two forms of differing order or dimension."""
    if (first.order, first.dim) != (second.order, second.dim):
        raise ValueError(
            f"The tensors differ in shape: order {first.order} and dimension {first.dim} "
            f"against order {second.order} and dimension {second.dim}."
        )


def representable(coefficients: Array) -> Array:
    """Return coefficients that were computed, after checking that none has overflowed."""
    if not np.all(np.isfinite(coefficients)):
        raise ValueError(
            "A coefficient of the result is too large for a number: divide the tensor, or the weights, "
            "by a power of ten first."
        )
    return coefficients


def of_full_array(dense: Array, *, symmetrize: bool) -> Parts:
    """Return the form of a full array: means over all permutations of the axes.

    Parameters
    ----------
    dense : ndarray, shape (dim,) * order
    symmetrize : bool
        Whether the array may be other than symmetric.

    Returns
    -------
    order, dim : int
    coefficients : ndarray, shape (n_monomials,)
    """
    if dense.ndim == 0 or len(set(dense.shape)) != 1 or dense.shape[0] == 0:
        raise ValueError(f"A symmetric tensor needs an array with all sides equal; got shape {dense.shape}.")
    order, dim = dense.ndim, dense.shape[0]
    # Sums of entries near the largest number would overflow.
    exponent = binary_exponent(dense)
    dense = scaled_by_power(dense, -exponent)
    where = monomials.dense_positions(dim, order).ravel()
    n_coefficients = monomials.n_monomials(dim, order)
    sums = np.bincount(where, weights=dense.real.ravel(), minlength=n_coefficients)
    if np.iscomplexobj(dense):
        sums = sums + 1j * np.bincount(where, weights=dense.imag.ravel(), minlength=n_coefficients)
    means = sums / monomials.multinomials(dim, order)
    if not symmetrize:
        spread = np.abs(dense.ravel() - means[where]).max()
        scale = np.abs(dense).max()
        if spread > SYMMETRY_TOLERANCE * scale:
            raise ValueError(
                f"The array is not symmetric: entries that should be equal differ by up to "
                f"{2 * spread / scale:.3g} of the largest. "
                "Pass symmetrize=True to take the mean over permutations of the axes."
            )
    return order, dim, scaled_by_power(means, exponent)


def of_terms(terms: WrittenTerms) -> Parts:
    """Return the form of the terms of a homogeneous polynomial, not empty."""
    order, dim = sum(next(iter(terms))), len(next(iter(terms)))
    keys = np.array(list(terms), dtype=np.intp)
    values = numeric_array([to_float(value) for value in terms.values()], "polynomial")
    where = monomials.positions_of_exponents(keys, order)
    coefficients = np.zeros(monomials.n_monomials(dim, order), dtype=values.dtype)
    np.add.at(coefficients, where, values)
    return order, dim, coefficients / monomials.multinomials(dim, order)


def of_powers(weights: Array, points: Array, order: int) -> Array:
    """Return the coefficients of sum_i w_i (xi_i . x)^d.

    Parameters
    ----------
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
    order : int

    Returns
    -------
    coefficients : ndarray, shape (n_monomials,)
        Real if all imaginary parts are zero.
    """
    # A weight, or a power of a point, may be too large or too small for a number where the term is not.
    point_exponents = binary_exponents(points)
    point_exponents[np.abs(point_exponents) * order <= SAFE_EXPONENT] = 0
    exponents = binary_exponents(weights[:, None]) + order * point_exponents
    largest = int(exponents.max(initial=0)) if np.abs(exponents).max(initial=0) > SAFE_EXPONENT else 0
    weights = scaled_by_power(weights[:, None], order * point_exponents - largest)[:, 0]
    points = scaled_by_power(points, -point_exponents)
    coefficients = monomials.sum_of_powers(weights, points, order)
    coefficients = representable(scaled_by_power(coefficients, largest))
    if np.iscomplexobj(coefficients) and not np.any(coefficients.imag):
        coefficients = coefficients.real
    return coefficients


def as_written(form: Form) -> Array:
    """Return the coefficients as written, binom(d, a) T_a; infinite where they are too large for a number."""
    exponent = binary_exponent(form.coefficients)
    counts = monomials.multinomials(form.dim, form.order)
    return scaled_by_power(scaled_by_power(form.coefficients, -exponent) * counts, exponent)


def substitute(form: Form, matrix: Array) -> Array:
    """Return the coefficients of P(A y) for a matrix A of shape (dim, new_dim)."""
    new_dim = matrix.shape[1]
    # Rows: monomials in the new variables, done so far. Columns: monomials left in the old.
    state = form.coefficients[None, :]
    for done in range(form.order):
        left = form.order - done - 1
        slots = state[:, monomials.product_positions(form.dim, left, 1)]
        changed = (slots @ matrix).swapaxes(1, 2)
        last = monomials.monomial_variables(new_dim, done)[:, -1:] if done else np.zeros((1, 1))
        state = changed[np.arange(new_dim) >= last]
    return state[:, 0]


def total(first: Array, second: Array) -> Array:
    """Return the sum of the coefficients of two forms."""
    with np.errstate(over="ignore"):
        return representable(first + second)


def multiply_by(coefficients: Array, number: Any) -> Array:
    """Return coefficients times a number."""
    with np.errstate(over="ignore", invalid="ignore"):
        return representable(coefficients * _to_float(number))


def divide_by(coefficients: Array, number: Any) -> Array:
    """Return coefficients divided by a number other than zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        return representable(coefficients / _to_float(number))


def _to_float(number: Any) -> Any:
    """Return a number in floating point; a fraction would make an array of objects."""
    try:
        return np.asarray(float(number) if isinstance(number, numbers.Rational) else number)
    except OverflowError:
        return np.asarray(np.inf)


def product(left: Form, right: Form) -> Parts:
    """Return the product of two forms in the same variables."""
    dim, order = left.dim, left.order + right.order
    left_exponent, right_exponent = binary_exponent(left.coefficients), binary_exponent(right.coefficients)
    written = np.outer(
        scaled_by_power(left.coefficients, -left_exponent) * monomials.multinomials(dim, left.order),
        scaled_by_power(right.coefficients, -right_exponent) * monomials.multinomials(dim, right.order),
    )
    sums = np.zeros(monomials.n_monomials(dim, order), dtype=written.dtype)
    np.add.at(sums, monomials.product_positions(dim, left.order, right.order), written)
    means = scaled_by_power(sums / monomials.multinomials(dim, order), left_exponent + right_exponent)
    return order, dim, representable(means)


def norm(form: Form) -> float:
    """Return the apolar norm; infinite only if it is larger than any number."""
    exponent = binary_exponent(form.coefficients)
    sizes = np.abs(scaled_by_power(form.coefficients, -exponent))
    try:
        return math.ldexp(math.sqrt(monomials.multinomials(form.dim, form.order) @ sizes**2), exponent)
    except OverflowError:
        return math.inf
