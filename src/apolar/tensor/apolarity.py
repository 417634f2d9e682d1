"""Forms by their contractions; the apolar product of tensors, and Hankel matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, numeric_array
from apolar.tensor import monomials
from apolar.tensor.coefficients import without_overflow

if TYPE_CHECKING:
    from apolar.tensor.symmetric import SymmetricTensor


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
