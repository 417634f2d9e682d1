"""What is proved about a decomposition: uniqueness, exact terms nearby, the least number of terms."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array, binary_exponent
from apolar.decomposition.exact import ExactWaring
from apolar.decomposition.exact.arithmetic import (
    AlgebraicNumber,
    ExactNumber,
    exact_matrix,
    flint,
    largest,
    load_flint,
    norm,
    residue_rank,
    residues,
    to_balls,
    to_fmpq,
    upper_end,
    weighting_roots,
)
from apolar.decomposition.exact.digits import MovingTerms, refine_digits
from apolar.decomposition.exact.hankel_kernel import prove_by_kernel
from apolar.decomposition.proofs.flattenings import Flattening, certified_bound, flattenings
from apolar.decomposition.proofs.newton import Linearisation, near_all_sums
from apolar.decomposition.proofs.uniqueness import uniqueness
from apolar.decomposition.ranks import PRIME
from apolar.decomposition.terms import (
    check_same_space,
    cluster_error,
    condition_number,
    unknown_size,
)
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.coefficients import MAX_BITS
from apolar.tensor.monomials import monomial_values


@dataclass(frozen=True)
class Certificate:
    """What is proved about a decomposition, with all rounding accounted for.

    Uniqueness and the rank concern complex terms: what is proved about these holds
    for real ones too. Distances of points are relative to their lengths, those
    of tensors to the norm; terms are compared at the weights found, which
    leaves their lengths free.

    Attributes
    ----------
    n_terms : int
    unique : bool or None
        Whether no other terms, of the same number or fewer, have exactly this
        sum. False if there are infinitely many others; None if not decided.
    unique_by : str
        The theorem that decides it.
    isolation : float or None
        Other terms with the same sum have a point as far as this from those found.
    distance : float or None
        At least ``|T - W| / |T|`` in exact arithmetic; None without a tensor.
    exact_nearby : bool or None
        Whether the very tensor that was given, in its `exact_coefficients` if there are any, else to its
        last digit, has exact terms with points within `radius` of these. False if it needs more terms; None
        if not decided.
    nearby_by : str
        What decides it.
    margin : float or None
        All tensors, real ones if it is real, within this distance of the given one that are sums of
        this number of powers have terms with points within `radius` of these: the tensor
        before it was rounded, or before noise of that size. None if not proved.
    radius : float or None
    rank_lower_bound : int
        No sum of fewer powers is as near to the tensor as these terms, or as rounding.
    lower_bound_by : str
        The matrix that proves it.
    determined : bool
        False where points lie so close together that the tensor does not
        determine their terms: these may be on the way to a limit that has no
        such terms, and are not said to be unique or minimal.
    exact_rank_bound : int
        No sum of fewer powers is the tensor itself, though some may come as near as you like.
    exact_bound_by : str
        What proves it.
    """

    n_terms: int
    unique: bool | None
    unique_by: str
    isolation: float | None = None
    distance: float | None = None
    exact_nearby: bool | None = None
    nearby_by: str = ""
    margin: float | None = None
    radius: float | None = None
    rank_lower_bound: int = 0
    lower_bound_by: str = ""
    determined: bool = True
    exact_rank_bound: int = 0
    exact_bound_by: str = ""

    @property
    def minimal(self) -> bool:
        """Whether no sum of fewer powers is proved to be as near to the tensor."""
        return self.determined and self.rank_lower_bound >= self.n_terms

    @property
    def message(self) -> str:
        """What is proved and what is not, as text."""
        return " ".join([self._unique_words(), self._nearby_words(), self._rank_words()])

    def _unique_words(self) -> str:
        if self.unique:
            return f"No other sum of at most {self.n_terms} powers is the same ({self.unique_by})."
        if self.unique is False:
            return f"Infinitely many others have the same sum ({self.unique_by})."
        words = "Others may have the same sum"
        if self.isolation is not None:
            words += f", but not with all points within {self.isolation:.1e} of these"
        return f"{words} ({self.unique_by})."

    def _nearby_words(self) -> str:
        if self.distance is None:
            return f"They are not compared with a tensor ({self.nearby_by})."
        if self.distance == 0:
            words = "They are the tensor exactly."
        elif self.exact_nearby:
            words = (
                f"Exact terms of the tensor have points within {self.radius:.1e} of these ({self.nearby_by})."
            )
        else:
            decided = (
                "but to its last digit the tensor needs more terms"
                if self.exact_nearby is False
                else "but whether exact terms are nearby is not decided"
            )
            words = (
                f"Their sum is within {self.distance:.1e} of the tensor, relative to its norm, {decided} "
                f"({self.nearby_by})."
            )
        if self.margin is None and self.n_terms > 0:
            return f"{words} How far noise, or rounding, moves the terms is not proved."
        if self.margin is None or (self.exact_nearby and self.distance > 0):
            return words
        return (
            f"{words} All sums of {self.n_terms} powers within {self.margin:.1e} of the tensor have terms "
            f"with points within {self.radius:.1e} of these."
        )

    def _rank_words(self) -> str:
        fewer = "No fewer terms" if self.minimal else f"Fewer terms than {self.rank_lower_bound} do not"
        words = f"{fewer} come as near ({self.lower_bound_by})."
        if self.rank_lower_bound == 0 and not self.minimal:
            words = "Fewer terms are not excluded."
        if self.exact_rank_bound > max(self.rank_lower_bound, 1):
            words += f" The tensor itself has rank {self.exact_rank_bound} or more ({self.exact_bound_by})."
        return words


class TensorAndTerms:
    """A tensor and terms that are not zero, compared in balls of the precision at work.

    Attributes
    ----------
    tensor : SymmetricTensor
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
        In floating point, or as balls.
    exact : tuple of Fraction or ndarray, shape (n_monomials,)
        The coefficients as they were given, fractions, real or complex ones.
    coefficients, balanced_weights : ndarray of balls
        The T_a and the weights, both times a power of two with which the coefficients are near one.
    size, residual : arb
        The norms of the coefficients, and of what the sum of the terms lacks.
    """

    def __init__(self, tensor: SymmetricTensor, weights: Array, points: Any) -> None:
        self.tensor, self.weights, self.points = tensor, weights, points
        self.exact: Any = tensor.exact_coefficients or tensor.coefficients
        self.coefficients, self.balanced_weights, rest = self.in_balls()
        # With these, the apolar norm is the Euclidean one.
        roots = weighting_roots(tensor.dim, tensor.order)
        self.size, self.residual = norm(roots * self.coefficients), norm(roots * rest)

    def in_balls(self) -> tuple[Any, Any, Any]:
        """Return the coefficients, the weights, and what the sum of the terms lacks, as balls."""
        unit = flint.arb(2) ** -binary_exponent(self.tensor.coefficients)
        coefficients, weights = to_balls(self.exact) * unit, to_balls(self.weights) * unit
        powers = monomial_values(to_balls(self.points), self.tensor.order)
        return coefficients, weights, coefficients - weights @ powers

    def linearise(self) -> Linearisation | None:
        """Return the terms to first order, or None where they are dependent, or too many."""
        try:
            return Linearisation(self.balanced_weights, to_balls(self.points), self.tensor.order)
        except np.linalg.LinAlgError:
            return None

    def is_sum(self) -> bool:
        """Return whether the terms are proved to sum to the tensor."""
        if self.residual > TUNING.min_margin * self.size:
            return False
        with flint.ctx.workprec(MAX_BITS):
            return all(value == 0 for value in self.in_balls()[2])


def certificate(tensor: SymmetricTensor | None, weights: Array, points: Array, order: int) -> Certificate:
    """Return what is proved about the terms of a decomposition.

    Parameters
    ----------
    tensor : SymmetricTensor or None
        What they are terms of; None for their sum.
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
    order : int

    Returns
    -------
    certificate : Certificate
    """
    dim = points.shape[1]
    if tensor is not None:
        check_same_space(order, dim, tensor)
    unique, unique_by = uniqueness(weights, points, order)
    proved = Certificate(len(weights), unique, unique_by)
    try:
        load_flint()
    except ImportError as error:
        return replace(proved, nearby_by=f"not decided: {error}", lower_bound_by=f"not decided: {error}")
    is_too_large = max(len(points), 1) * n_monomials(dim, order) > TUNING.ball_products
    # What is proved about the terms that are not zero is not about this number of terms.
    if is_too_large or not (np.all(weights) and np.all(np.any(points, axis=1))):
        reason = "the tensor is too large" if is_too_large else "a term is zero"
        return replace(proved, nearby_by=reason, lower_bound_by=reason)
    compared = SymmetricTensor.from_waring(weights, points, order) if tensor is None else tensor
    with flint.ctx.workprec(TUNING.first_bits):
        terms = TensorAndTerms(compared, weights, points)
        linearised = terms.linearise() if len(weights) else None
        is_sum = terms.is_sum()
        size, residual = terms.size, terms.residual * (not is_sum)
        rounding = float(np.finfo(float).eps) * size
        bound, bound_by = certified_bound(terms.coefficients, dim, order, residual.max(rounding))
        proved = replace(
            proved,
            isolation=linearised.isolation() if linearised is not None else None,
            rank_lower_bound=bound,
            lower_bound_by=bound_by,
            exact_rank_bound=bound,
            exact_bound_by=bound_by,
        )
        if tensor is None:
            return replace(proved, exact_rank_bound=0, exact_bound_by="", nearby_by="there is none")
        distance = 0.0 if is_sum else upper_end(residual / size) if size > 0 else float("inf")
        near = _prove_nearby(terms, replace(proved, distance=distance), linearised)
        lengths = np.array([norm(point) for point in to_balls(points)])
        sizes = np.abs(terms.balanced_weights * lengths**order).astype(float)
    if near.determined:
        return near
    # Terms whose points are close together may be off by their size, others move along a family.
    units = points / lengths.astype(float)[:, None]
    residual = min(distance, 1e100)
    if cluster_error(sizes, units, order, residual, float(size))[0] >= TUNING.undetermined:
        reason = "points lie too close together for the terms to be determined"
    else:
        near = replace(near, determined=True)
        unknown = unknown_size(sizes, residual, float(size)) / sizes.min()
        if not near.unique or condition_number(units, order) * unknown < TUNING.undetermined:
            return near
        reason = (
            "up to rounding, the terms can move and keep their sum: they may belong to a continuous family"
        )
    return replace(near, unique=None, unique_by=reason) if near.unique else near


# --- exact terms near those found -------------------------------------------------------------


def _prove_nearby(
    terms: TensorAndTerms, proved: Certificate, linearised: Linearisation | None
) -> Certificate:
    """Return what is proved about exact terms nearby; `determined` says that they are those found."""
    proved = replace(proved, determined=proved.distance == 0)
    n_terms, order, dim = len(terms.weights), terms.tensor.order, terms.tensor.dim
    if n_terms == 0:
        is_zero = not np.any(terms.tensor.coefficients)
        return replace(proved, exact_nearby=is_zero, nearby_by="no terms have the sum zero")
    kernel = None
    if not terms.tensor.is_complex and np.any(terms.tensor.coefficients) and order > 1:
        kernel = prove_by_kernel([to_fmpq(value) for value in terms.exact], dim, order)
        if kernel.rank_bound > proved.exact_rank_bound:
            proved = replace(proved, exact_rank_bound=kernel.rank_bound, exact_bound_by=kernel.by)
    matrices = flattenings(dim, order, TUNING.proof_work)[::-1]
    proved = replace(proved, nearby_by="the derivatives of the terms are dependent, or too many")
    recognised_by = None
    if linearised is not None and np.any(terms.tensor.coefficients):
        proved, recognised_by = _by_newton(terms, proved, linearised, matrices)
    if proved.distance == 0:
        return replace(proved, exact_nearby=True, nearby_by="the sum in exact numbers")
    if kernel is not None and kernel.exact is not None and kernel.rank_bound == n_terms:
        radius = distance_of_exact_terms(kernel.exact, terms.weights, terms.points)
        if radius is not None:
            # With a margin, the radius is that of all tensors within it.
            return replace(
                proved,
                radius=radius if proved.margin is None else proved.radius,
                exact_nearby=True,
                nearby_by=kernel.by,
                determined=True,
                unique=True,
                unique_by=proved.unique_by if proved.unique else kernel.by,
            )
    if proved.exact_nearby:
        return proved
    if kernel is not None and kernel.rank_bound > n_terms:
        return replace(proved, exact_nearby=False, nearby_by=kernel.by)
    if n_terms * dim >= len(terms.exact):
        return _by_refined_terms(terms, proved)
    exact, by = _by_rank(terms, matrices, recognised_by)
    return replace(proved, exact_nearby=exact, nearby_by=by)


def _by_newton(
    terms: TensorAndTerms, proved: Certificate, linearised: Linearisation, matrices: list[Flattening]
) -> tuple[Certificate, Flattening | None]:
    """Return what Newton's method proves about all tensors nearby, and which flattening recognises sums."""
    margin = max(2 * upper_end(terms.residual / terms.size), TUNING.min_margin)
    distances = margin * terms.size, terms.residual
    displacement = linearised.displacement(sum(distances))
    by = "Kantorovich's bounds of Newton's method"
    if displacement is None:
        return replace(proved, nearby_by=f"{by} are too large"), None
    within = replace(proved, margin=margin, radius=displacement.radius)
    if linearised.basis is None:
        return replace(within, exact_nearby=True, nearby_by=by, determined=True), None
    for matrix in matrices:
        if near_all_sums(terms.coefficients, linearised, matrix, displacement, distances):
            return within, matrix
    return proved, None


def _by_refined_terms(terms: TensorAndTerms, proved: Certificate) -> Certificate:
    """Return what Newton's method proves about this very tensor, from terms of more digits."""
    pivots = np.argmax(np.abs(terms.points), axis=1)
    moving = MovingTerms(terms.weights, terms.points, terms.tensor.order, pivots)
    try:
        points = refine_digits(moving, terms.exact, TUNING.first_bits)
    except (ValueError, np.linalg.LinAlgError):
        return proved
    if not (terms.tensor.is_complex or np.iscomplexobj(terms.points) or np.iscomplexobj(terms.weights)):
        points = np.frompyfunc(lambda ball: ball.real, 1, 1)(points)
    refined = TensorAndTerms(terms.tensor, terms.weights, points)
    linearised = refined.linearise()
    displacement = linearised and linearised.displacement(refined.residual)
    if not displacement:
        return proved
    radius = displacement.radius + _largest_distance(points, terms.points)
    if radius >= TUNING.undetermined:
        return proved
    by = "Kantorovich's bounds of Newton's method, from terms of more digits"
    return replace(proved, exact_nearby=True, nearby_by=by, radius=radius)


def _by_rank(
    terms: TensorAndTerms, matrices: list[Flattening], recognised_by: Flattening | None
) -> tuple[bool | None, str]:
    """Return whether a tensor is a sum of this number of powers, as far as flattenings tell, and why."""
    n_terms = len(terms.weights)
    if terms.tensor.is_complex:
        coefficients = residues(terms.tensor.coefficients)
    else:
        integers = np.array(exact_matrix([terms.exact]).entries())
        coefficients = (integers % PRIME).astype(np.int64)
    for flattening in matrices:
        matrix_rank = residue_rank(flattening.signs.astype(np.int64) * coefficients[flattening.positions])
        if matrix_rank > n_terms * flattening.power_rank:
            return False, f"{flattening.name} has rank {matrix_rank} or more, modulo a prime"
    undecided = "no flattening decides whether the tensor is such a sum"
    if recognised_by is None:
        return None, undecided
    expected = n_terms * recognised_by.power_rank
    if terms.tensor.is_complex or expected * recognised_by.work > TUNING.kernel_work:
        return None, "the tensor is too large for rational numbers"
    matrix = recognised_by.signs.astype(int) * integers[recognised_by.positions]
    if flint.fmpz_mat(matrix.tolist()).rank() == expected:
        return True, f"{recognised_by.name} has rank {expected} in rational numbers"
    return None, undecided


def distance_of_exact_terms(exact: ExactWaring, weights: Array, points: Array) -> float | None:
    """Return how far exact points are at most from those found, at the weights found; None if they are far.

    Distances are relative to the lengths of the points found.
    """
    balls = []
    exact = exact.in_order_of(points)
    for weight, point, own_weight, form in zip(weights, points, exact.weights, exact.points, strict=True):
        vector = np.array([complex(c) for c in form])
        # The multiple of the exact point next to the one found, at its weight.
        near = flint.acb(complex(np.vdot(vector, point) / np.vdot(vector, vector)))
        quotient = _ball(own_weight) / flint.acb(complex(weight))
        factor = near * (quotient / near**exact.order).root(exact.order)
        balls.append(np.array([factor * _ball(c) for c in form]))
    radius = _largest_distance(balls, points)
    return radius if radius < TUNING.undetermined else None


def _ball(number: ExactNumber) -> Any:
    if isinstance(number, AlgebraicNumber):
        return number.field.ball(number.coefficients, TUNING.first_bits)
    return flint.acb(to_fmpq(number))


def _largest_distance(found: Any, points: Array) -> float:
    """Return how far balls are at most from points, relative to the lengths of these."""
    near = to_balls(points)
    return upper_end(largest(norm(own - point) / norm(point) for own, point in zip(found, near, strict=True)))
