"""The result of a decomposition: weighted powers of linear forms, and what happened."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from apolar._core.arrays import Array, binary_exponent, frozen, scaled_by_power, unit_rows
from apolar._core.checks import check_integer, numeric_array
from apolar.decomposition.condition import cluster_condition, cluster_error, condition_number
from apolar.decomposition.exact import ExactWaring, rationalized
from apolar.decomposition.proofs import Certificate, certificate
from apolar.decomposition.written import WrittenWaring
from apolar.tensor import SymmetricTensor
from apolar.tensor.conversion import as_tensor


class Status(enum.Enum):
    """How a decomposition ended; the value says what to do."""

    EXACT = "The terms give the tensor back to rounding."
    ILL_CONDITIONED = (
        "The terms give the tensor back to rounding, but so do others: those whose points lie close together "
        "are not determined by numbers of this precision. Use their sum only, or a lower rank."
    )
    APPROXIMATE = (
        "The terms are the best approximation found at this rank, not the tensor itself. "
        "If the tensor is noisy that is as it should be; if it is exact, raise the rank."
    )
    DIVERGING = (
        "The terms grow without bound and cancel each other: no best approximation of this rank "
        "seems to exist. Try one rank more, or one less; do not use these terms."
    )
    NOT_CONVERGED = (
        "The refinement stopped before it had converged. Raise max_iter, or try another random_state."
    )
    RANK_NOT_SETTLED = (
        "The rank of the tensor is not settled: no search found exact terms. The terms are those of a rank "
        "that its Hankel matrix suggests, and not the tensor. Give the rank if you know it, or raise "
        "n_starts or time_limit."
    )
    UNREFINED = "The terms come straight from the method. Pass refine=True to improve them."
    ZERO = "The tensor is zero: it has rank 0 and no terms."


CONSTRAINED = (
    "The terms are the best {} approximation found at this rank, not the tensor itself, which need not have "
    "such terms at any rank."
)


@dataclass(frozen=True, eq=False, repr=False)
class Waring(WrittenWaring):
    """A Waring decomposition, T = sum_i w_i (xi_i . x)^d, and how it was found.

    Attributes
    ----------
    weights : ndarray, shape (rank,)
        Positive, but for real forms of even order, where they carry the sign.
    points : ndarray, shape (rank, dim)
        Of unit norm, real or complex, largest weight first. A point of a real
        form of even order has its largest entry positive.
    order : int
    residual : float
        ``|T - W| / |T|`` in the apolar norm.
    status : Status
    method : str
        Which start won: "pencil", "spm", "random", ...
    singular_values : ndarray
        Of the weighted Hankel matrix from which the rank was read.
    n_iter : int
        Iterations of the refinement.
    history : tuple of float
        The residual after each of them.
    rank_source : str
        Where the rank comes from: given, or how it was detected.
    residual_error : float
        The standard error of the residual where it is estimated from a sample
        of rows, for a `RowTensor` of many rows; else zero.
    rank_bounds : tuple of int or None
        Of the tensor's own rank, where a search was needed: at least the largest rank of a Hankel matrix, or
        the bound of a Koszul flattening, and at most the rank of these terms, if they are exact, or of any
        tensor. None where the rank was given, or where a theorem proves it.
    tensor : SymmetricTensor or None
        What `decompose` or `refine` was given, for `certificate` and `rationalize`.
    constraint : str or None
        What the terms keep to: "nonnegative", "orthogonal" or nothing.
    """

    weights: Array
    points: Array
    order: int
    residual: float = float("nan")
    status: Status = Status.UNREFINED
    method: str = "given"
    singular_values: Array = field(default_factory=lambda: np.zeros(0))
    n_iter: int = 0
    history: tuple[float, ...] = ()
    rank_source: str = "given"
    residual_error: float = 0.0
    rank_bounds: tuple[int, int] | None = None
    tensor: SymmetricTensor | None = None
    constraint: str | None = None

    def __post_init__(self) -> None:
        check_integer(self.order, "order", least=1)
        weights = numeric_array(self.weights, "weights")
        points = numeric_array(self.points, "points")
        if points.ndim != 2 or weights.shape != points.shape[:1]:
            raise ValueError(
                "weights must have shape (rank,) and points (rank, dim); "
                f"got {weights.shape} and {points.shape}."
            )
        object.__setattr__(self, "weights", frozen(weights))
        object.__setattr__(self, "points", frozen(points))

    @property
    def rank(self) -> int:
        """The number of terms."""
        return len(self.weights)

    @property
    def dim(self) -> int:
        """The number of variables."""
        return int(self.points.shape[1])

    @property
    def is_complex(self) -> bool:
        """Whether the points or weights are complex."""
        return bool(np.iscomplexobj(self.points) or np.iscomplexobj(self.weights))

    @property
    def message(self) -> str:
        """What happened and what to do, in words."""
        text = self.status.value
        if self.status is Status.ILL_CONDITIONED:
            condition, close = cluster_condition(self.points, self.order)
            norm = self.to_tensor().norm()
            error = cluster_error(self.weights, self.points, self.order, self.residual, norm)
            text += (
                f" The condition number is {_in_words(condition)}: {len(close)} terms may be off by "
                f"{_in_words(error)} times their size."
            )
        if self.status is Status.APPROXIMATE and self.constraint is not None:
            text = CONSTRAINED.format(self.constraint)
        if self.rank_bounds is not None and self.rank_bounds[0] < self.rank_bounds[1]:
            lower, upper = self.rank_bounds
            text += f" The rank of the tensor is known to be from {lower} to {upper}."
        return text

    @cached_property
    def condition(self) -> float:
        """How much a small change of the tensor is amplified in its terms.

        To first order, terms move by at most `condition` times the norm of the
        change: the inverse of the least singular value of Terracini's matrix
        [breiding2018condition]. Infinite where the decomposition is one of a
        continuous family.
        """
        if self.rank == 0:
            return 1.0
        return condition_number(self.points, self.order)

    @cached_property
    def certificate(self) -> Certificate:
        """What is proved of the terms, about the tensor they come from, computed when it is asked for."""
        return certificate(self.tensor, self.weights, self.points, self.order)

    def certify(self, tensor: Any) -> Certificate:
        """Return what is proved of the terms, about a tensor.

        Parameters
        ----------
        tensor : SymmetricTensor
            Or what makes one, as for `decompose`.

        Returns
        -------
        certificate : Certificate

        Examples
        --------
        >>> import apolar
        >>> W = apolar.Waring([1.0, 1.0], [[1.0, 1.0], [1.0, -1.0]], 3)
        >>> certificate = W.certify("2*x^3 + 6*x*y^2")
        >>> certificate.unique, certificate.distance, certificate.rank_lower_bound
        (True, 0.0, 2)
        """
        return certificate(as_tensor(tensor), self.weights, self.points, self.order)

    def to_tensor(self, order: int | None = None) -> SymmetricTensor:
        """Return the sum of the terms, of the given order or the decomposition's own."""
        order = self.order if order is None else order
        if self.rank == 0:
            return SymmetricTensor.zeros(order, self.dim)
        return SymmetricTensor.from_waring(self.weights, self.points, order)

    def rationalize(
        self, tensor: Any = None, *, max_degree: int = 4, max_digits: int = 300, move: bool = False
    ) -> ExactWaring:
        """Return the terms in exact numbers, rational or algebraic, with a proof that they sum to the form.

        For a form with `exact_coefficients` the terms are first refined to as
        many digits as their numbers need, and the sum of the exact terms is
        compared with the form in exact arithmetic. Terms of a continuous family
        are not refined: their numbers are recognised only if they are simple.
        Exact weights are the solution of linear equations.

        Parameters
        ----------
        tensor : SymmetricTensor or what makes one, optional
            The form; by default the one that was decomposed.
        max_degree : int, default=4
            The largest degree of a number field in which a point is looked for;
            all others are given together, as conjugates at the roots of one polynomial.
        max_digits : int, default=300
            The most digits to which the terms are refined.
        move : bool, default=False
            Terms of a continuous family may be moved along it: the result is
            another decomposition, with rational points as far as the family allows.

        Returns
        -------
        exact : ExactWaring
            With ``proved=False`` where the form has no exact coefficients.

        Raises
        ------
        ValueError
            If a number is not recognised, or the terms do not sum to the form.

        Examples
        --------
        >>> import apolar
        >>> exact = apolar.decompose("2*x^3 + 12*x*y^2").rationalize()
        >>> exact.proved, exact.to_string()
        (True, '(x + sqrt(2)*y)^3 + (x - sqrt(2)*y)^3')
        """
        return rationalized(
            self.weights,
            self.points,
            self.order,
            self.tensor if tensor is None else tensor,
            max_degree=max_degree,
            max_digits=max_digits,
            move=move,
        )

    def __repr__(self) -> str:
        field_name = "complex" if self.is_complex else "real"
        error = f" +- {self.residual_error:.1g}" if self.residual_error else ""
        return (
            f"Waring(rank={self.rank}, order={self.order}, dim={self.dim}, {field_name}, "
            f"residual={self.residual:.3g}{error}, status={self.status.name}, method={self.method!r})"
        )


def _in_words(number: float) -> str:
    return "beyond 1e15" if number > 1e15 else f"{number:.1e}"


def canonical_terms(vectors: Array, signs: Array, order: int) -> tuple[Array, Array]:
    """Return weights and unit points of sum_i s_i (a_i . x)^d, in the canonical form and order.

    Parameters
    ----------
    vectors : ndarray, shape (rank, dim)
    signs : ndarray, shape (rank,)
        +1 or -1.
    order : int

    Returns
    -------
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
    """
    norms = np.linalg.norm(vectors, axis=1)
    points = unit_rows(vectors)
    weights = norms**order
    if np.iscomplexobj(vectors):
        # A point is defined up to d-th roots of unity (of -1, where a sign is absorbed): the largest entry is
        # turned towards the positive axis.
        points = points * np.where(signs < 0, np.exp(1j * np.pi / order), 1)[:, None]
        largest = points[np.arange(len(points)), np.argmax(np.abs(points).round(9), axis=1)]
        turns = np.round(np.angle(largest) * order / (2 * np.pi))
        points = points * np.exp(-2j * np.pi * turns / order)[:, None]
    elif order % 2:
        points = points * signs[:, None]
    else:
        largest = points[np.arange(len(points)), np.argmax(np.abs(points).round(9), axis=1)]
        points = points * np.where(largest < 0, -1.0, 1.0)[:, None]
        weights = weights * signs
    scale = np.abs(weights).max() if len(weights) else 1.0
    keys = [-points[:, j].imag.round(9) for j in range(points.shape[1] - 1, -1, -1)]
    keys += [-points[:, j].real.round(9) for j in range(points.shape[1] - 1, -1, -1)]
    keys.append(-np.abs(weights / (scale or 1.0)).round(9))
    by_weight = np.lexsort(keys)
    return weights[by_weight], points[by_weight]


def absorbed_weights(weights: Array, points: Array, order: int) -> tuple[Array, Array]:
    """Return vectors a_i and signs s_i with s_i (a_i . x)^d = w_i (xi_i . x)^d.

    Signs are -1 only for real terms of even order with negative weight.
    """
    if np.iscomplexobj(weights) or np.iscomplexobj(points):
        roots: Any = np.asarray(weights, dtype=np.complex128) ** (1 / order)
        return points * roots[:, None], np.ones(len(weights))
    roots = np.abs(weights) ** (1 / order)
    signs = np.where(weights < 0, -1.0, 1.0)
    if order % 2:
        return points * (signs * roots)[:, None], np.ones(len(weights))
    return points * roots[:, None], signs


def relative_residual(tensor: SymmetricTensor, weights: Array, points: Array) -> float:
    """Return |T - W| / |T|, from the coefficients, so that it can be as small as rounding."""
    # Scaled by the tensor, whose square may be too large or too small for a number.
    exponent = binary_exponent(tensor.coefficients)
    weights = scaled_by_power(weights, -exponent)
    if not np.all(np.isfinite(points)) or not np.all(np.isfinite(weights)):
        return float("inf")
    scaled = SymmetricTensor(tensor.order, tensor.dim, scaled_by_power(tensor.coefficients, -exponent))
    try:
        difference = scaled - SymmetricTensor.from_waring(weights, points, tensor.order)
    except ValueError:  # terms so large that their sum overflows
        return float("inf")
    return difference.norm() / scaled.norm()
