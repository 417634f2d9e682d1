"""The result of a decomposition: weighted powers of linear forms, and what happened."""

import enum
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from apolar._core.arrays import Array, frozen
from apolar._core.checks import check_integer, numeric_array
from apolar.decomposition.exact import ExactWaring, rationalize
from apolar.decomposition.proofs import Certificate, certificate
from apolar.decomposition.terms import (
    Terms,
    canonical_terms,
    cluster_error,
    condition_number,
    is_determined,
    is_rounding,
)
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, as_tensor
from apolar.tensor.printing import InText, Printed


class Status(enum.Enum):
    """How a decomposition ended; the value says what to do."""

    EXACT = "The terms reproduce the tensor up to rounding."
    ILL_CONDITIONED = (
        "The terms reproduce the tensor up to rounding, but so do others: those whose points lie close "
        "together are not determined by numbers of this precision. Use their sum only, or a lower rank."
    )
    APPROXIMATE = (
        "The terms are the best approximation found at this rank, not the tensor itself. "
        "This is expected for a noisy tensor; for an exact one, raise the rank."
    )
    DIVERGING = (
        "The terms grow without bound and cancel each other: no best approximation of this rank "
        "seems to exist. Try a rank higher or lower by one; do not use these terms."
    )
    NOT_CONVERGED = (
        "The refinement stopped before it had converged. Allow more iterations, or try another seed."
    )
    RANK_NOT_SETTLED = (
        "The rank of the tensor is not settled: no search found exact terms. The terms are those of a rank "
        "that its Hankel matrix suggests, and not the tensor. Give the rank if you know it, or raise "
        "n_starts or time_limit."
    )
    UNREFINED = "The terms come straight from the method. The refinement improves them."
    ZERO = "The tensor is zero: it has rank 0 and no terms."


# Terms, and variables of each, that a notebook shows.
NOTEBOOK_LIMITS = 8, 6
CONSTRAINED = (
    "The terms are the best {} approximation found at this rank, not the tensor itself, which need not have "
    "such terms at any rank."
)


@dataclass(frozen=True, eq=False, repr=False)
class Waring(Printed):
    """A Waring decomposition, T = sum_i w_i (xi_i . x)^d, and how it was found.

    Attributes
    ----------
    weights : ndarray, shape (rank,)
        Positive, except for real forms of even order, where they carry the sign.
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
        """What happened and what to do, as text."""
        text = self.status.value
        if self.status is Status.ILL_CONDITIONED:
            norm = self.to_tensor().norm()
            error, condition, n_close = cluster_error(
                self.weights, self.points, self.order, self.residual, norm
            )
            text += (
                f" The condition number is {_in_words(condition)}: {n_close} terms may be off by "
                f"{_in_words(error)} times their size."
                if n_close
                else " The smallest term is no larger than the rounding of the others."
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
        """What is proved about the terms, about the tensor they come from, computed when it is asked for."""
        return certificate(self.tensor, self.weights, self.points, self.order)

    def certify(self, tensor: Any) -> Certificate:
        """Return what is proved about the terms, about a tensor.

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

    def _print_on(self, printer: InText, *, is_short: bool = False) -> Any:
        terms = [
            (_without_rounding([weight * largest**self.order], printer.precision)[0], form)
            for weight, point in zip(self.weights, self.points, strict=True)
            if weight != 0 and np.any(point)
            for largest in [point[np.argmax(np.abs(point) > (1 - 1e-9) * np.abs(point).max())]]
            for form in [_without_rounding(point / largest, printer.precision)]
        ]
        limits = NOTEBOOK_LIMITS if is_short else (None, None)
        return printer.powers(terms, self.order, *limits)

    def rationalize(
        self, tensor: Any = None, *, max_degree: int = 4, max_digits: int = 300, move: bool = False
    ) -> ExactWaring:
        """Return the terms in exact numbers, rational or algebraic, with a proof that they sum to the form.

        For a form with `exact_coefficients` the points are the common zeros of the kernel of its Hankel
        matrix, where these determine them. Elsewhere the terms are refined to as many digits as their
        numbers need; terms of a continuous family are not refined, and recognised only if they are simple.
        Weights are the solution of linear equations. The sum of the exact terms is compared with the form in
        exact arithmetic.

        Parameters
        ----------
        tensor : SymmetricTensor or what makes one, optional
            The form; by default the one that was decomposed.
        max_degree : int, default=4
            The largest degree of a number field that holds points without all their conjugates. Points with
            all conjugates are at the roots of a polynomial of any degree.
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
        ImportError
            If python-flint is not installed, the extra ``apolar[exact]``.

        Examples
        --------
        >>> import apolar
        >>> exact = apolar.decompose("2*x^3 + 12*x*y^2").rationalize()
        >>> exact.proved, exact.to_string()
        (True, '(x + sqrt(2)*y)^3 + (x - sqrt(2)*y)^3')
        """
        return rationalize(
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


def _without_rounding(values: Any, precision: int) -> list[complex]:
    """Return numbers with the parts that are rounding, relative to the largest number, set to zero."""
    cut = np.abs(values).max() * 10.0 ** (-precision)
    parts = [
        (float(v.real) if abs(v.real) > cut else 0.0, v.imag if abs(v.imag) > cut else 0) for v in values
    ]
    return [complex(real, imaginary) if imaginary else real for real, imaginary in parts]


def _in_words(number: float) -> str:
    return "beyond 1e15" if number > 1e15 else f"{number:.1e}"


def to_waring(terms: Terms, order: int, norm: float, **known: Any) -> Waring:
    """Return rated terms of a tensor of that norm as a decomposition in canonical form, with their status."""
    weights, points = canonical_terms(terms.vectors, terms.signs, order)
    status = Status.APPROXIMATE if terms.converged else Status.NOT_CONVERGED
    if np.isnan(terms.gradient_size):
        status = Status.UNREFINED
    elif not terms.is_settled:
        status = Status.RANK_NOT_SETTLED
    elif terms.is_diverging:
        status = Status.DIVERGING
    elif terms.residual <= TUNING.exact_residual and is_rounding(terms, order, norm):
        status = Status.EXACT if is_determined(terms, order, norm) else Status.ILL_CONDITIONED
    return Waring(
        weights,
        points,
        order,
        residual=terms.residual,
        status=status,
        method=terms.method,
        n_iter=terms.n_iter,
        history=terms.history,
        rank_bounds=terms.rank_bounds,
        **known,
    )


def component_errors(truth: Waring, found: Waring) -> Array:
    """Return how far each true component lies from the found one that matches it.

    The component of a term w (xi . x)^d is the vector w^(1/d) xi, defined up
    to d-th roots of unity. Components are matched one to one, so that the sum
    of the errors is least.

    Parameters
    ----------
    truth, found : Waring
        Of one order and dimension.

    Returns
    -------
    errors : ndarray, shape (truth.rank,)
        Relative to the norms of the true components; infinite for those that
        have no match because `found` has fewer terms.

    Examples
    --------
    >>> import apolar
    >>> from apolar.decomposition import component_errors
    >>> W = apolar.Waring([1.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], 3)
    >>> component_errors(W, apolar.Waring([1.0, 8.0], [[0.0, 1.1], [0.5, 0.0]], 3)).round(6)
    array([0. , 0.1])
    """
    for waring in (truth, found):
        if not isinstance(waring, Waring):
            raise TypeError(f"component_errors takes two Waring decompositions; got {type(waring).__name__}.")
    if (truth.order, truth.dim) != (found.order, found.dim):
        raise ValueError(
            f"The decompositions differ: order {truth.order} in {truth.dim} variables "
            f"against order {found.order} in {found.dim}."
        )
    true_components, found_components = _components(truth), _components(found)
    turns = np.round(np.angle(found_components.conj() @ true_components.T) * truth.order / (2 * np.pi)).T
    turned = found_components[None] * np.exp(2j * np.pi * turns / truth.order)[:, :, None]
    distances = np.linalg.norm(true_components[:, None] - turned, axis=2)
    lengths = np.linalg.norm(true_components, axis=1)
    distances /= np.where(lengths > 0, lengths, 1)[:, None]
    errors = np.full(truth.rank, np.inf)
    rows, columns = linear_sum_assignment(distances)
    errors[rows] = distances[rows, columns]
    return errors


def _components(waring: Waring) -> Array:
    """Return the vectors w^(1/d) xi, shape (rank, dim)."""
    roots = waring.weights.astype(np.complex128) ** (1 / waring.order)
    return waring.points * roots[:, None]
