"""Whether a tensor has exact terms near those found: in numbers that are exact, or with all rounding."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from apolar._core.arrays import Array, binary_exponent, binary_exponents, scaled_by_power
from apolar.decomposition.exact.hankel_kernel import KernelProof, prove_by_kernel
from apolar.decomposition.exact.numbers import load_flint, to_fmpq
from apolar.decomposition.proofs import modular
from apolar.decomposition.proofs.balls import distance_of_exact_terms, prove_in_balls
from apolar.decomposition.proofs.flattenings import Flattening, flattenings
from apolar.decomposition.proofs.kantorovich import Linearisation
from apolar.decomposition.proofs.rounding import norm_below, residual_above
from apolar.decomposition.proofs.stability import near_all_sums
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.monomials import multinomials, sum_of_powers


@dataclass(frozen=True, eq=False)
class TensorAndTerms:
    """A tensor and terms that are not zero, both times a power of two: exactly the same problem.

    Attributes
    ----------
    coefficients : ndarray, shape (n_monomials,)
        The largest is near one.
    exact : tuple of Fraction or ndarray
        The same as they were given exactly; fractions where they are known, else the floats.
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
        The largest entry of each is near one.
    order : int
    """

    coefficients: Array
    exact: Any
    weights: Array
    points: Array
    order: int

    @classmethod
    def of(
        cls, tensor: SymmetricTensor | None, weights: Array, points: Array, order: int
    ) -> "TensorAndTerms | None":
        """Return a tensor, or the sum of the terms, and its terms scaled; None where that is not exact.

        Neither is it with a term that is zero: what is proved of the others is not about so many terms.
        """
        if n_monomials(points.shape[1], order) > TUNING.max_proof_coefficients:
            return None
        if not (np.all(weights) and np.all(np.any(points, axis=1))):
            return None
        by = binary_exponents(points) if len(points) else np.zeros((0, 1), dtype=np.intp)
        scaled_points = scaled_by_power(points, -by)
        exact = np.array_equal(scaled_by_power(scaled_points, by), points)
        largest = binary_exponent(weights) if tensor is None else binary_exponent(tensor.coefficients)
        weights = scaled_by_power(weights[:, None], order * by - largest)[:, 0]
        with np.errstate(all="ignore"):
            moderate = (np.abs(weights) < 2.0**200) & (np.abs(weights) > 1 / 2.0**200)
        if not (exact and np.all(moderate)):
            return None
        if tensor is None:
            sums = sum_of_powers(weights, scaled_points, order)
            return cls(sums, sums, weights, scaled_points, order)
        coefficients = scaled_by_power(tensor.coefficients, -largest)
        if not np.array_equal(scaled_by_power(coefficients, largest), tensor.coefficients):
            return None
        given = tensor.exact_coefficients
        exact_ones = coefficients if given is None else [value / Fraction(2) ** largest for value in given]
        return cls(coefficients, exact_ones, weights, scaled_points, order)

    @property
    def dim(self) -> int:
        """The number of variables."""
        return int(self.points.shape[1])

    @property
    def tensor(self) -> SymmetricTensor:
        """The tensor, scaled."""
        return SymmetricTensor(self.order, self.dim, self.coefficients)

    @property
    def is_complex(self) -> bool:
        """Whether any of the numbers are complex."""
        return any(map(np.iscomplexobj, (self.weights, self.points, self.coefficients)))

    @property
    def residual(self) -> float:
        """An upper bound of the norm of the tensor less the exact sum of the terms."""
        return residual_above(self.coefficients, self.weights, self.points, self.order)

    @property
    def norm(self) -> float:
        """A lower bound of the norm of the tensor."""
        weighted = np.sqrt(multinomials(self.dim, self.order)) * self.coefficients
        return norm_below(weighted) * (1 - 1e-14)


@dataclass(frozen=True)
class Nearby:
    """Whether a tensor has exact terms near those found; see `Certificate` for the attributes."""

    is_sum: bool = False
    exact: bool | None = None
    by: str = ""
    margin: float | None = None
    radius: float | None = None
    isolation: float | None = None
    kernel: KernelProof | None = None
    is_unique: bool = False


def exact_terms(terms: TensorAndTerms) -> Nearby:
    """Return whether the tensor is proved to have exact terms near those found.

    Parameters
    ----------
    terms : TensorAndTerms

    Returns
    -------
    nearby : Nearby
    """
    if len(terms.weights) == 0:
        is_zero = not np.any(terms.coefficients)
        return Nearby(is_zero, is_zero, "no terms have the sum zero")
    linearised = Linearisation.of(terms.weights, terms.points, terms.order) if terms.order > 1 else None
    matrices = flattenings(terms.dim, terms.order, TUNING.proof_work)[::-1]
    found, recognised_by = _by_newton(terms, linearised, matrices)
    try:
        load_flint()
    except ImportError as error:
        return found if found.exact else replace(found, by=f"not decided: {error}")
    return _decide(terms, found, matrices, recognised_by)


def _by_newton(
    terms: TensorAndTerms, linearised: Linearisation | None, matrices: list[Flattening]
) -> tuple[Nearby, Flattening | None]:
    """Return what Newton's method proves in floats, and which flattening recognises sums of powers."""
    if linearised is None or not terms.norm > 0:
        return Nearby(by="the derivatives of the terms are dependent, or too many"), None
    isolation = linearised.isolation()
    margin = max(2 * terms.residual / terms.norm, TUNING.min_margin)
    # The norm is a lower bound, by less than this.
    distances = (margin * terms.norm * (1 + 1e-10), terms.residual)
    displacement = linearised.displacement(sum(distances))
    by = "Kantorovich's bounds of Newton's method"
    if displacement is None:
        return Nearby(by=f"{by} are too large", isolation=isolation), None
    if linearised.basis is None:
        return Nearby(False, True, by, margin, displacement.radius, isolation), None
    for matrix in matrices:
        if near_all_sums(terms.tensor, linearised, matrix, displacement, distances):
            return Nearby(margin=margin, radius=displacement.radius, isolation=isolation), matrix
    return Nearby(isolation=isolation), None


def _decide(
    terms: TensorAndTerms,
    found: Nearby,
    matrices: list[Flattening],
    recognised_by: Flattening | None,
) -> Nearby:
    """Return what is proved with exact numbers, and in balls, in addition."""
    n_terms, order = len(terms.weights), terms.order
    target = None if np.iscomplexobj(terms.coefficients) else [to_fmpq(value) for value in terms.exact]
    if target is not None and any(target) and order > 1:
        found = replace(found, kernel=prove_by_kernel(target, terms.dim, order))
    if sum_exactly(terms, target):
        return replace(found, is_sum=True, exact=True, by="the sum in rational numbers")
    kernel = found.kernel
    if kernel is not None and kernel.exact is not None and kernel.rank_bound == n_terms:
        radius = distance_of_exact_terms(kernel.exact, terms.weights, terms.points)
        if radius is not None:
            # With a margin, the radius is that of all tensors within it.
            radius = radius if found.margin is None else found.radius
            return replace(found, exact=True, by=kernel.by, radius=radius, is_unique=True)
    if found.exact:
        return found
    if kernel is not None and kernel.rank_bound > n_terms:
        return replace(found, exact=False, by=kernel.by)
    if n_terms * terms.dim >= len(terms.coefficients):
        return _by_balls(terms, found)
    exact, by = _by_rank(terms, matrices, recognised_by)
    return replace(found, exact=exact, by=by)


def _by_balls(terms: TensorAndTerms, found: Nearby) -> Nearby:
    """Return what Newton's method proves in balls, of all tensors within a margin or of this one."""
    by = "Krawczyk's operator in ball arithmetic"
    for margin in (max(2 * terms.residual / terms.norm, TUNING.min_margin), 0.0):
        # A little more than the norm, of which there is a lower bound.
        spread = margin * terms.norm * (1 + 1e-10) / np.sqrt(multinomials(terms.dim, terms.order))
        radius = prove_in_balls(terms.weights, terms.points, terms.order, terms.exact, spread)
        if radius is not None:
            return replace(found, exact=True, by=by, margin=margin or None, radius=radius)
    return found


def _by_rank(
    terms: TensorAndTerms, matrices: list[Flattening], recognised_by: Flattening | None
) -> tuple[bool | None, str]:
    """Return whether a tensor is a sum of so many powers, as far as flattenings tell, and why."""
    n_terms = len(terms.weights)
    if terms.is_complex:
        coefficients = modular.residues(terms.coefficients)
    else:
        integers = np.array([int(a) for a in modular.exact_matrix([terms.exact]).entries()], dtype=object)
        coefficients = (integers % modular.PRIME).astype(np.int64)
    for flattening in matrices:
        matrix_rank = modular.rank(flattening.signs.astype(np.int64) * coefficients[flattening.positions])
        if matrix_rank > n_terms * flattening.power_rank:
            return False, f"{flattening.name} has rank {matrix_rank} or more, modulo a prime"
    undecided = "no flattening decides whether the tensor is such a sum"
    if recognised_by is None:
        return None, undecided
    expected = n_terms * recognised_by.power_rank
    if terms.is_complex or expected**2 * recognised_by.positions.size > TUNING.rational_work:
        return None, "the tensor is too large for rational numbers"
    matrix = recognised_by.signs.astype(int) * integers[recognised_by.positions]
    if load_flint().fmpz_mat(matrix.tolist()).rank() == expected:
        return True, f"{recognised_by.name} has rank {expected} in rational numbers"
    return None, undecided


def sum_exactly(terms: TensorAndTerms, target: list[Any] | None) -> bool:
    """Return whether real terms are proved to sum to the tensor, in rational numbers."""
    work = terms.points.size * len(terms.coefficients)
    if target is None or terms.is_complex or work > TUNING.rational_work:
        return False
    if terms.residual > TUNING.min_margin * terms.norm:
        return False
    to_exact = np.frompyfunc(to_fmpq, 1, 1)
    return bool(np.all(sum_of_powers(to_exact(terms.weights), to_exact(terms.points), terms.order) == target))
