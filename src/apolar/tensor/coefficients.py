"""Forms by their contractions, their apolar product and Hankel matrices; arithmetic on their coefficients.

Coefficients, one per monomial, are floats or fractions. Floats neither overflow nor vanish on the way to the
result.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache, partial
from math import factorial, prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from apolar._core.arrays import Array, binary_exponent, binary_exponents, scaled_by_power
from apolar._core.checks import check_integer, numeric_array
from apolar.tensor import monomials

if TYPE_CHECKING:
    from apolar.tensor.symmetric import SymmetricTensor

# Entries of a full array that should be equal may differ by this much of the
# largest one: what sums in another order, or float32 data, leave behind.
SYMMETRY_TOLERANCE = 1e-6
# Bits of a numerator and a denominator together: beyond, arithmetic is in floating point, so that no input
# makes it slow.
MAX_BITS = 4096
# Multiplications of fractions, a second or so: beyond, what the user passed is a slip or an attack.
MAX_PRODUCTS = 500_000
TOO_LARGE = (
    "A coefficient of the result overflows: divide the tensor, or the weights, by a power of ten first."
)


def as_fraction(value: Any) -> Fraction | None:
    """Return a number as a fraction if it is known exactly: integers, fractions and SymPy's rationals.

    A float counts only if it is an integer that no larger one was rounded to: others are mostly roundings
    of a number that is meant, 0.1 of one tenth, and not the dyadic one they are.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, float):
        return Fraction(int(value)) if value.is_integer() and value - 1 != value != value + 1 else None
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return None


def as_fractions(values: Any) -> Array | None:
    """Return integers and fractions, an array or one, as fractions; None for floats and long arrays."""
    if isinstance(values, np.ndarray) and values.dtype.kind not in "iuO":
        return None
    array = np.asarray(values, dtype=object)
    if array.size > MAX_PRODUCTS or any(isinstance(value, float) for value in array.flat):
        return None
    fractions = np.frompyfunc(as_fraction, 1, 1)(array)
    return None if any(value is None for value in np.ravel(fractions)) else fractions


def in_fractions(function: Callable[..., Array], *operands: Any, n_products: int = 0) -> Array | None:
    """Return a function of operands in fractions; None if they are not known exactly, or if it takes long."""
    fractions = [as_fractions(operand) for operand in operands]
    if n_products > MAX_PRODUCTS or any(operand is None for operand in fractions):
        return None
    result = function(*fractions)
    return result if all(map(is_short, result)) else None


def is_short(value: Fraction | int) -> bool:
    """Return whether a fraction is short enough to calculate with."""
    return value.numerator.bit_length() + value.denominator.bit_length() <= MAX_BITS


def to_float(value: Any) -> complex:
    """Return a number in floating point."""
    return complex(value) if isinstance(value, complex | np.complexfloating) else float(value)


def representable(coefficients: Array) -> Array:
    """Return coefficients that were computed, after checking that none has overflowed."""
    if coefficients.dtype != object and not np.all(np.isfinite(coefficients)):
        raise ValueError(TOO_LARGE)
    return coefficients


def without_overflow(function: Callable[..., Any], *operands: Array) -> Any:
    """Return a function that is homogeneous in each operand: of floats, computed for numbers near one."""
    if any(values.dtype == object for values in operands):
        return function(*operands)
    exponents = [binary_exponent(values) for values in operands]
    scaled = map(scaled_by_power, operands, (-exponent for exponent in exponents))
    return scaled_by_power(function(*scaled), sum(exponents))


def multinomials(dim: int, order: int, values: Array) -> Array:
    """Return binom(d, a) of all monomials: integers of any size for fractions, else floats."""
    return exact_multinomials(dim, order) if values.dtype == object else monomials.multinomials(dim, order)


@lru_cache(maxsize=64)
def exact_multinomials(dim: int, order: int) -> Array:
    """Return binom(d, a) of all monomials as integers of any size."""
    table = monomials.exponents(dim, order).tolist()
    return np.array([factorial(order) // prod(map(factorial, row)) for row in table], dtype=object)


def _sums(where: Array, values: Array, dim: int, order: int) -> Array:
    """Return the coefficients T_a of a form whose written ones are sums of values at positions."""
    zero = Fraction(0) if values.dtype == object else 0
    sums = np.full(monomials.n_monomials(dim, order), zero, dtype=values.dtype)
    np.add.at(sums, where, values)
    return np.asarray(sums / multinomials(dim, order, sums))


def of_full_array(array: Any, *, symmetrize: bool) -> tuple[int, int, Array]:
    """Return the form of a full array: means over all permutations of the axes.

    Parameters
    ----------
    array : array_like, shape (dim,) * order
    symmetrize : bool
        Whether the array may be other than symmetric.

    Returns
    -------
    order, dim : int
    coefficients : ndarray, shape (n_monomials,)
    """
    dense = numeric_array(array, "array")
    if dense.ndim == 0 or len(set(dense.shape)) != 1 or dense.shape[0] == 0:
        raise ValueError(f"A symmetric tensor needs an array with all sides equal; got shape {dense.shape}.")
    order, dim = dense.ndim, dense.shape[0]
    where, exact = monomials.dense_positions(dim, order), as_fractions(array)
    take_means = partial(_sums, where, dim=dim, order=order)
    if not symmetrize:
        scaled = scaled_by_power(dense, -binary_exponent(dense))
        spread, scale = np.abs(scaled - take_means(scaled)[where]).max(), np.abs(scaled).max()
        if spread > SYMMETRY_TOLERANCE * scale:
            raise ValueError(
                f"The array is not symmetric: entries that should be equal differ by up to "
                f"{2 * spread / scale:.3g} of the largest. "
                "Pass symmetrize=True to take the mean over permutations of the axes."
            )
    return order, dim, without_overflow(take_means, dense if exact is None else exact)


def of_terms(terms: Mapping[tuple[int, ...], Any]) -> tuple[int, int, Array]:
    """Return the form of the terms of a homogeneous polynomial, not empty."""
    order, dim = sum(next(iter(terms))), len(next(iter(terms)))
    values = as_fractions(list(terms.values()))
    if values is None or monomials.n_monomials(dim, order) > MAX_PRODUCTS:
        values = numeric_array([to_float(value) for value in terms.values()], "polynomial")
    variables = [np.repeat(np.arange(dim), exponents) for exponents in terms]
    where = monomials.positions(np.array(variables).reshape(-1, order), dim)
    return order, dim, _sums(where, values, dim, order)


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
    # A weight, or a power of a point, may overflow or underflow where the term does not.
    point_exponents = binary_exponents(points)
    exponents = binary_exponents(weights[:, None]) + order * point_exponents
    largest = int(exponents.max(initial=0))
    weights = scaled_by_power(weights[:, None], order * point_exponents - largest)[:, 0]
    points = scaled_by_power(points, -point_exponents)
    coefficients = monomials.sum_of_powers(weights, points, order)
    coefficients = representable(scaled_by_power(coefficients, largest))
    if np.iscomplexobj(coefficients) and not np.any(coefficients.imag):
        coefficients = coefficients.real
    return coefficients


def substitute(coefficients: Array, matrix: Array, *, order: int) -> Array:
    """Return the coefficients of P(A y) for a matrix A of shape (dim, new_dim)."""
    dim, new_dim = matrix.shape
    # Rows: monomials in the new variables, done so far. Columns: monomials left in the old.
    state = coefficients[None, :]
    for done in range(order):
        left = order - done - 1
        slots = state[:, monomials.product_positions(dim, left, 1)]
        changed = (slots @ matrix).swapaxes(1, 2)
        last = monomials.monomial_variables(new_dim, done)[:, -1:] if done else np.zeros((1, 1))
        state = changed[np.arange(new_dim) >= last]
    return state[:, 0]


def product(left: Array, right: Array, dim: int, orders: tuple[int, int]) -> Array:
    """Return the coefficients of the product of two forms in the same variables."""

    def multiply(*factors: Array) -> Array:
        written = [
            values * multinomials(dim, order, values) for values, order in zip(factors, orders, strict=True)
        ]
        return _sums(monomials.product_positions(dim, *orders), np.outer(*written), dim, sum(orders))

    return without_overflow(multiply, left, right)


# --- forms ------------------------------------------------------------------------------------------


class Form:
    """A homogeneous polynomial that is known by its contractions; subclasses compute them."""

    if TYPE_CHECKING:

        @property
        def order(self) -> int:
            """The degree."""

        @property
        def dim(self) -> int:
            """The number of variables."""

    def __call__(self, x: Any) -> Array:
        """Return the form at points, P(x) = T(x, ..., x).

        Parameters
        ----------
        x : array_like, shape (..., dim)

        Returns
        -------
        values : ndarray, shape (...)
        """
        points = self._points(x)
        values = self.contract_all(points.reshape(-1, self.dim), 0)
        return values.reshape(points.shape[:-1])[()]

    def gradient(self, x: Any) -> Array:
        """Return the gradient of the form at points, d T(x, ..., x, .).

        Parameters
        ----------
        x : array_like, shape (..., dim)

        Returns
        -------
        gradient : ndarray, shape (..., dim)
        """
        points = self._points(x)
        contracted = self.contract_all(points.reshape(-1, self.dim), 1)
        return self.order * contracted.reshape(points.shape)

    def contract_all(self, points: Array, left: int) -> Array:
        """Return T(v, ..., v, .) with `left` slots open, for many points at once.

        Parameters
        ----------
        points : ndarray, shape (n_points, dim)
        left : int

        Returns
        -------
        contracted : ndarray, shape (n_points, n_monomials(dim, left))
            Compact coefficients of the tensors that are left.
        """
        raise NotImplementedError

    def _points(self, x: Any) -> Array:
        points = numeric_array(x, "x")
        if points.ndim == 0 or points.shape[-1] != self.dim:
            raise ValueError(f"The form has {self.dim} variables; got points of shape {points.shape}.")
        return points

    def contract(self, x: Any, times: int = 1) -> Self:
        """Return the tensor T(x, ..., x, ., ...) of lower order; of rows, that of the same rows.

        Parameters
        ----------
        x : array_like, shape (dim,)
            Real for a tensor of rows.
        times : int, default=1
            How many slots to fill with x, less than the order.

        Returns
        -------
        tensor : SymmetricTensor or RowTensor
            Of order ``order - times``.
        """
        times = check_integer(times, "times", least=1)
        point = self._points(x)
        if point.ndim != 1 or times >= self.order:
            raise ValueError(
                f"contract takes one point of shape ({self.dim},) and times < {self.order}; got shape "
                f"{point.shape} and times={times}. To fill every slot call the tensor: T(x)."
            )
        return self._fill_slots(point, times)

    def _fill_slots(self, point: Array, times: int) -> Self:
        """Return the tensor with some slots filled."""
        raise NotImplementedError


def check_same_space(first: SymmetricTensor, second: SymmetricTensor) -> None:
    """Refuse two forms of differing order or dimension."""
    _refuse_other_types(first, second)
    if (first.order, first.dim) != (second.order, second.dim):
        raise ValueError(
            f"The tensors differ in shape: order {first.order} and dimension {first.dim} "
            f"against order {second.order} and dimension {second.dim}."
        )


def _refuse_other_types(*tensors: Any) -> None:
    for tensor in tensors:
        if not hasattr(tensor, "exact_coefficients"):
            raise TypeError(f"Pass a SymmetricTensor, not {type(tensor).__name__}.")


def apolar_product(left: SymmetricTensor, right: SymmetricTensor) -> complex | float:
    """Return the apolar product, sum over a of binom(d, a) conj(S_a) T_a.

    It is the Frobenius product of the full arrays, and invariant under
    unitary changes of variables. For a power of a linear form it evaluates:
    <(v.x)^d, P> = P(conj(v)) [khouja2022moments, section 3.1].

    Parameters
    ----------
    left, right : SymmetricTensor
        Of the same order and dimension. The coefficients of `left` are conjugated.

    Returns
    -------
    product : float or complex
        Infinite only if it is larger than any number.

    Examples
    --------
    >>> import apolar
    >>> P = apolar.SymmetricTensor.from_polynomial("x^2*y")
    >>> apolar.apolar_product(P, P)
    0.333...
    """
    check_same_space(left, right)
    product = without_overflow(
        lambda first, second: np.sum(left.multinomials * first.conj() * second)[None],
        *(left.coefficients, right.coefficients),
    )[0]
    return complex(product) if np.iscomplexobj(product) else float(product)


def hankel(tensor: SymmetricTensor, row_degree: int) -> Array:
    """Return the Hankel matrix (catalecticant) of a tensor, entries T_(alpha + beta).

    Parameters
    ----------
    tensor : SymmetricTensor
    row_degree : int
        The degree k of the rows' monomials, from 0 to the order d.

    Returns
    -------
    matrix : ndarray, shape (n_monomials(dim, k), n_monomials(dim, d - k))
        The paper's H^{k, d-k} [khouja2022moments, section 3.1]. Its rank is a
        lower bound of the rank of the tensor.

    Examples
    --------
    >>> import apolar
    >>> apolar.hankel(apolar.SymmetricTensor.from_polynomial("x^3 - 3*x*y^2"), row_degree=2)
    array([[ 1.,  0.],
           [ 0., -1.],
           [-1.,  0.]])
    """
    _refuse_other_types(tensor)
    row_degree = check_integer(row_degree, "row_degree", least=0)
    if row_degree > tensor.order:
        raise ValueError(f"row_degree must be at most the order {tensor.order}; got {row_degree}.")
    return tensor.coefficients[monomials.product_positions(tensor.dim, row_degree, tensor.order - row_degree)]
