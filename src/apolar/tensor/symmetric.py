"""The symmetric tensor: one coefficient per monomial."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array, IndexArray, binary_exponent, frozen, scaled_by_power
from apolar._core.checks import check_integer, fits_in_memory, numeric_array
from apolar.tensor import coefficients as compact
from apolar.tensor import monomials
from apolar.tensor.coefficients import Form, check_same_space
from apolar.tensor.polynomial import Terms, homogeneous_terms
from apolar.tensor.printing import InText, Printed

if TYPE_CHECKING:
    from apolar.tensor.row_tensor import RowTensor

# Terms that the representation of a tensor shows.
SHOWN_TERMS = 8


@dataclass(frozen=True, eq=False, repr=False)
class SymmetricTensor(Printed, Form):
    """A symmetric tensor, or what is the same, a homogeneous polynomial.

    The tensor T of order d in m variables is the form
    ``P(x) = T(x, ..., x) = sum over |a| = d of binom(d, a) T_a x^a``. Only the
    T_a are stored, binom(m + d - 1, d) of them, never the m^d array.

    Parameters
    ----------
    order : int
        The order d >= 1 of the tensor, the degree of the form.
    dim : int
        The number m >= 1 of variables.
    coefficients : array_like, shape (n_monomials,)
        The T_a, in the order of `exponents`. Real or complex; those that are
        integers or fractions are kept exactly too, in `exact_coefficients`.

    Examples
    --------
    >>> import apolar
    >>> T = apolar.SymmetricTensor.from_polynomial("x^3 - 3*x*y^2")
    >>> T
    SymmetricTensor(order=3, dim=2): x^3 - 3*x*y^2
    >>> T.coefficients
    array([ 1.,  0., -1.,  0.])
    >>> float(T([2.0, 1.0]))
    2.0
    """

    order: int
    dim: int
    coefficients: Array
    _flattenings: dict[int, Array] = field(default_factory=dict, init=False, compare=False)
    # The coefficients as fractions, where they were given so.
    _exact: Array | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        order = check_integer(self.order, "order", least=1)
        dim = check_integer(self.dim, "dim", least=1)
        coefficients = numeric_array(self.coefficients, "coefficients")
        expected = monomials.n_monomials(dim, order)
        if coefficients.shape != (expected,):
            raise ValueError(
                f"A symmetric tensor of order {order} and dimension {dim} has {expected} "
                f"coefficients, one per monomial; got an array of shape {coefficients.shape}. "
                "For a full array use SymmetricTensor.from_dense."
            )
        object.__setattr__(self, "_exact", compact.as_fractions(self.coefficients))
        object.__setattr__(self, "coefficients", frozen(coefficients))

    # --- construction -----------------------------------------------------

    @classmethod
    def from_dense(cls, array: Any, *, symmetrize: bool = False) -> SymmetricTensor:
        """Return the tensor of a full array, which must be symmetric.

        Parameters
        ----------
        array : array_like, shape (dim,) * order
        symmetrize : bool, default=False
            Take the mean over all permutations of the axes instead of
            refusing an array that is not symmetric.

        Returns
        -------
        tensor : SymmetricTensor

        Examples
        --------
        >>> import numpy as np, apolar
        >>> apolar.SymmetricTensor.from_dense(np.eye(2))
        SymmetricTensor(order=2, dim=2): x^2 + y^2
        """
        return cls(*compact.of_full_array(array, symmetrize=symmetrize))

    @classmethod
    def from_polynomial(cls, polynomial: Any, *, variables: Sequence[str] | None = None) -> SymmetricTensor:
        """Return the tensor of a homogeneous polynomial.

        Parameters
        ----------
        polynomial : dict, str or SymPy expression
            A dict from exponents to coefficients as written,
            ``{(3, 0): 1, (1, 2): -3}``; a string such as ``"x^3 - 3*x*y^2"``; or
            a SymPy ``Poly`` or expression.
        variables : sequence of str, optional
            The variables and their order, for strings and SymPy expressions;
            by default those that occur, in alphabetical order.

        Returns
        -------
        tensor : SymmetricTensor
            With `exact_coefficients` if all coefficients are rational.
        """
        terms = homogeneous_terms(polynomial, variables)
        check_integer(sum(next(iter(terms))), "The degree", least=1)
        return cls(*compact.of_terms(terms))

    @classmethod
    def from_waring(cls, weights: Any, points: Any, order: int) -> SymmetricTensor:
        """Return the sum of powers of linear forms, sum_i w_i (xi_i . x)^d.

        Parameters
        ----------
        weights : array_like, shape (rank,)
        points : array_like, shape (rank, dim)
        order : int

        Returns
        -------
        tensor : SymmetricTensor

        Examples
        --------
        >>> import apolar
        >>> apolar.SymmetricTensor.from_waring([0.5, 0.5], [[1, 1j], [1, -1j]], 3)
        SymmetricTensor(order=3, dim=2): x^3 - 3*x*y^2
        """
        order = check_integer(order, "order", least=1)
        given = weights, points
        weights, points = numeric_array(weights, "weights"), numeric_array(points, "points")
        if points.ndim != 2 or points.shape[1] == 0 or weights.shape != points.shape[:1]:
            raise ValueError(
                "weights must have shape (rank,) and points (rank, dim); "
                f"got {weights.shape} and {points.shape}."
            )
        dim = points.shape[1]
        n_entries = dim * monomials.n_monomials(dim, order - 1)
        fits_in_memory(n_entries, f"A tensor of order {order} in {dim} variables")
        power_sum = partial(monomials.sum_of_powers, degree=order)
        sums = compact.in_fractions(power_sum, *given, n_products=len(points) * n_entries)
        return cls(order, dim, compact.of_powers(weights, points, order) if sums is None else sums)

    @classmethod
    def from_rows(cls, rows: Any, weights: Any, order: int) -> RowTensor:
        """Return the tensor sum_n w_n x_n^d of rows of data, never formed: see `RowTensor.from_rows`."""
        from apolar.tensor.row_tensor import RowTensor

        return RowTensor.from_rows(rows, weights, order)

    @classmethod
    def zeros(cls, order: int, dim: int) -> SymmetricTensor:
        """Return the zero tensor."""
        order, dim = check_integer(order, "order", least=1), check_integer(dim, "dim", least=1)
        n_coefficients = monomials.n_monomials(dim, order)
        fits_in_memory(n_coefficients, f"A tensor of order {order} in {dim} variables")
        return cls(order, dim, np.zeros(n_coefficients, dtype=int))

    # --- exact coefficients, and what is printed -----------------------------

    @property
    def exact_coefficients(self) -> tuple[Fraction, ...] | None:
        """The coefficients as fractions, where they are known exactly, or None.

        Known are those of polynomials with rational numbers: strings, where
        0.1 is one tenth, dicts of integers and fractions, SymPy's rationals. A
        float counts if it is an integer; others were rounded before. Sums,
        products, multiples and changes of variables by integers and fractions
        keep them; all else is floating point.

        Examples
        --------
        >>> import apolar
        >>> T = apolar.SymmetricTensor.from_polynomial("x^2/3 + 0.1*x*y") * 2
        >>> [str(number) for number in T.exact_coefficients]
        ['2/3', '1/10', '0']
        """
        return None if self._exact is None else tuple(self._exact)

    def to_polynomial(self) -> Terms:
        """Return the form as a dict from exponents to coefficients as written.

        Zero coefficients are left out.
        """
        return self._terms(compact.representable(self._written(self.coefficients)))

    def _written(self, coefficients: Array) -> Array:
        """Return coefficients as written, binom(d, a) T_a; infinite where they overflow."""
        counts = compact.multinomials(self.dim, self.order, coefficients)
        return np.asarray(compact.without_overflow(lambda values: values * counts, coefficients))

    def _terms(self, written: Array) -> dict[tuple[int, ...], Any]:
        """Return those of the coefficients as written that are not zero, by their exponents."""
        where = np.flatnonzero(written)
        keys = map(tuple, self.exponents[where].tolist())
        return dict(zip(keys, written[where].tolist(), strict=True))

    def _print_on(self, printer: InText, *, is_short: bool = False) -> Any:
        if is_short:
            return printer.polynomial(*self._largest_terms())
        exact = self._exact
        return printer.polynomial(
            self.to_polynomial() if exact is None else self._terms(self._written(exact))
        )

    def _largest_terms(self) -> tuple[dict[tuple[int, ...], Any], int]:
        """Return the largest terms as written, in their order, and how many others there are."""
        written = self._written(self.coefficients)
        with np.errstate(over="ignore"):
            smallest = np.argsort(-np.abs(written), kind="stable")[SHOWN_TERMS:]
        n_hidden = int(np.count_nonzero(written[smallest]))
        written[smallest] = 0
        return self._terms(written), n_hidden

    def to_string(self, variables: Sequence[str] | None = None, *, precision: int = 6) -> str:
        """Return the form as a string in floating point, such as ``x^3 - 3*x*y^2``."""
        return str(InText(self.dim, variables, precision).polynomial(self.to_polynomial()))

    def __repr__(self) -> str:
        kind = ", complex" if self.is_complex else ""
        terms, n_hidden = self._largest_terms()
        shown = InText(self.dim).polynomial(terms, n_hidden) + f" ({n_hidden} smaller terms)" * (n_hidden > 0)
        return f"SymmetricTensor(order={self.order}, dim={self.dim}{kind}): {shown}"

    # --- other forms of the same tensor -----------------------------------

    @property
    def exponents(self) -> IndexArray:
        """The exponents of each coefficient, shape (n_monomials, dim)."""
        return monomials.exponents(self.dim, self.order)

    @property
    def multinomials(self) -> Array:
        """How many entries of the full array each coefficient stands for."""
        return monomials.multinomials(self.dim, self.order)

    @property
    def is_complex(self) -> bool:
        """Whether the coefficients are complex."""
        return bool(np.iscomplexobj(self.coefficients))

    def to_dense(self) -> Array:
        """Return the full array, shape (dim,) * order."""
        fits_in_memory(2 * self.dim**self.order, "The full array")
        return self.coefficients[monomials.dense_positions(self.dim, self.order)]

    # --- values and derivatives ---------------------------------------------

    def hessian(self, x: Any) -> Array:
        """Return the Hessian of the form at points, d (d - 1) T(x, ..., x, ., .).

        Parameters
        ----------
        x : array_like, shape (..., dim)

        Returns
        -------
        hessian : ndarray, shape (..., dim, dim)
        """
        points = self._points(x)
        if self.order == 1:
            return np.zeros((*points.shape, self.dim))
        packed = self.contract_all(points.reshape(-1, self.dim), 2)
        full = packed[:, monomials.dense_positions(self.dim, 2)]
        return self.order * (self.order - 1) * full.reshape(*points.shape, self.dim)

    def _fill_slots(self, point: Array, times: int) -> SymmetricTensor:
        left = self.order - times
        return SymmetricTensor(left, self.dim, self.contract_all(point[None], left)[0])

    def contract_all(self, points: Array, left: int) -> Array:
        """Return contractions with points: one matrix product with the Hankel matrix of row degree `left`."""
        if left == 0:
            return np.einsum("ni,ni->n", self.contract_all(points, 1), points)[:, None]
        filled = self.order - left
        if left not in self._flattenings:
            where = monomials.product_positions(self.dim, filled, left)
            counts = monomials.multinomials(self.dim, filled)
            self._flattenings[left] = frozen(self.coefficients[where] * counts[:, None])
        return monomials.monomial_values(points, filled) @ self._flattenings[left]

    def change_variables(self, matrix: Any) -> SymmetricTensor:
        """Return the form after the substitution x = A y, P(A y).

        Points of a Waring decomposition become A^t xi.

        Parameters
        ----------
        matrix : array_like, shape (dim, new_dim)

        Returns
        -------
        tensor : SymmetricTensor
            Of dimension ``new_dim``.

        Examples
        --------
        >>> import apolar
        >>> T = apolar.SymmetricTensor.from_polynomial("x^2 - y^2")
        >>> T.change_variables([[0.5, 0.5], [0.5, -0.5]])
        SymmetricTensor(order=2, dim=2): x*y
        """
        given, matrix = matrix, numeric_array(matrix, "matrix")
        if matrix.ndim != 2 or matrix.shape[0] != self.dim or matrix.shape[1] == 0:
            raise ValueError(f"matrix must have shape ({self.dim}, new_dim); got {matrix.shape}.")
        n_products = len(self.coefficients) * self.order * matrix.size
        change = partial(compact.substitute, order=self.order)
        exact = compact.in_fractions(change, self._exact, given, n_products=n_products)
        values = change(self.coefficients, matrix) if exact is None else exact
        return SymmetricTensor(self.order, matrix.shape[1], values)

    # --- norm and arithmetic --------------------------------------------------

    def norm(self) -> float:
        """Return the apolar norm, the Frobenius norm of the full array.

        Infinite only if it is larger than any number.
        """
        return self._norm

    @cached_property
    def _norm(self) -> float:
        exponent = binary_exponent(self.coefficients)
        sizes = np.abs(scaled_by_power(self.coefficients, -exponent))
        return float(scaled_by_power(np.sqrt(self.multinomials @ sizes**2), exponent))

    def real_if_close(self, tolerance: float = 1e-12) -> SymmetricTensor:
        """Return the tensor without imaginary parts, where these are rounding."""
        values = self.coefficients
        is_real = self.is_complex and np.abs(values.imag).max() <= tolerance * np.abs(values.real).max()
        return replace(self, coefficients=values.real) if is_real else self

    def _calculate(
        self, function: Callable[..., Array], other: Any, order: int | None = None, n_products: int = 0
    ) -> SymmetricTensor:
        """Return a form, whose coefficients are a function of two operands: exactly, where both are exact."""
        is_form = isinstance(other, SymmetricTensor)
        exact = other._exact if is_form else other
        values = compact.in_fractions(function, self._exact, exact, n_products=n_products)
        if values is None:
            try:
                given = other.coefficients if is_form else compact.to_float(other)
                with np.errstate(over="ignore", invalid="ignore"):
                    values = compact.representable(function(self.coefficients, given))
            except OverflowError as error:
                raise ValueError(compact.TOO_LARGE) from error
        return SymmetricTensor(self.order if order is None else order, self.dim, values)

    def __add__(self, other: object) -> SymmetricTensor:
        if not isinstance(other, SymmetricTensor):
            return NotImplemented
        check_same_space(self, other)
        return self._calculate(operator.add, other)

    def __radd__(self, other: object) -> SymmetricTensor:
        # sum() starts from zero.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: object) -> SymmetricTensor:
        if not isinstance(other, SymmetricTensor):
            return NotImplemented
        return self + -other

    def __neg__(self) -> SymmetricTensor:
        return self * -1

    def __mul__(self, other: object) -> SymmetricTensor:
        if isinstance(other, numbers.Number):
            return self._calculate(operator.mul, other)
        if not isinstance(other, SymmetricTensor):
            return NotImplemented
        if self.dim != other.dim:
            raise ValueError(f"The forms have {self.dim} and {other.dim} variables.")
        orders = self.order, other.order
        product = partial(compact.product, dim=self.dim, orders=orders)
        n_products = len(self.coefficients) * len(other.coefficients)
        return self._calculate(product, other, sum(orders), n_products)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> SymmetricTensor:
        if not isinstance(other, numbers.Number):
            return NotImplemented
        if not other:
            raise ZeroDivisionError("A tensor cannot be divided by zero.")
        return self._calculate(operator.truediv, other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SymmetricTensor):
            return NotImplemented
        return (self.order, self.dim) == (other.order, other.dim) and bool(
            np.array_equal(self.coefficients, other.coefficients)
        )

    __hash__ = None  # type: ignore[assignment]  # compared by value, as arrays are


def as_tensor(value: Any) -> SymmetricTensor:
    """Return what the user passed as a symmetric tensor: the tensor itself, an array, or a polynomial."""
    if isinstance(value, SymmetricTensor):
        return value
    if isinstance(value, np.ndarray | list | tuple):
        numeric_array(value, "tensor")  # refused under the name that the user knows
        return SymmetricTensor.from_dense(value)
    return SymmetricTensor.from_polynomial(value)
