"""Whether a tensor has exact terms near those found: in numbers that are exact, or with all rounding."""

from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array, binary_exponent, binary_exponents, scaled_by_power
from apolar.decomposition.proofs import modular
from apolar.decomposition.proofs.flattenings import Flattening, flattenings
from apolar.decomposition.proofs.kantorovich import Linearisation
from apolar.decomposition.proofs.rational import exact_rank, rational
from apolar.decomposition.proofs.rounding import norm_below, residual_above
from apolar.decomposition.proofs.stability import near_all_sums
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.monomials import multinomials, sum_of_powers

# Coefficients of the tensors that are compared with their terms.
MAX_COEFFICIENTS = 200_000
# Multiplications of rational numbers, and of residues.
RATIONAL_WORK = 50_000
MODULAR_WORK = 1.5e8
# Tensors as near as this, relative to the norm, are the same to rounding.
MIN_MARGIN = 2.0**-46
# The largest weights, relative to the tensor, whose squares are still numbers.
MODERATE = 2.0**200


@dataclass(frozen=True, eq=False)
class ScaledTerms:
    """A tensor and terms that are not zero, both times a power of two: exactly the same problem.

    Attributes
    ----------
    coefficients : ndarray, shape (n_monomials,)
        The largest is near one.
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
        The largest entry of each is near one.
    order : int
    """

    coefficients: Array
    weights: Array
    points: Array
    order: int

    @classmethod
    def of(
        cls, tensor: SymmetricTensor | None, weights: Array, points: Array, order: int
    ) -> "ScaledTerms | None":
        """Return a tensor, or the sum of the terms, and its terms scaled; None where that is not exact.

        Neither is it with a term that is zero: what is proved of the others is not about so many terms.
        """
        if n_monomials(points.shape[1], order) > MAX_COEFFICIENTS:
            return None
        if not (np.all(weights) and np.all(np.any(points, axis=1))):
            return None
        by = binary_exponents(points) if len(points) else np.zeros((0, 1), dtype=np.intp)
        scaled_points = scaled_by_power(points, -by)
        exact = np.array_equal(scaled_by_power(scaled_points, by), points)
        largest = binary_exponent(weights) if tensor is None else binary_exponent(tensor.coefficients)
        weights = scaled_by_power(weights[:, None], order * by - largest)[:, 0]
        with np.errstate(all="ignore"):
            moderate = (np.abs(weights) < MODERATE) & (np.abs(weights) > 1 / MODERATE)
        if not (exact and np.all(moderate)):
            return None
        if tensor is None:
            return cls(sum_of_powers(weights, scaled_points, order), weights, scaled_points, order)
        coefficients = scaled_by_power(tensor.coefficients, -largest)
        if not np.array_equal(scaled_by_power(coefficients, largest), tensor.coefficients):
            return None
        return cls(coefficients, weights, scaled_points, order)

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

    is_sum: bool
    exact: bool | None
    by: str
    margin: float | None
    radius: float | None
    isolation: float | None


def exact_terms(terms: ScaledTerms) -> Nearby:
    """Return whether the tensor is proved to have exact terms near those found.

    Parameters
    ----------
    terms : ScaledTerms

    Returns
    -------
    nearby : Nearby
    """
    if len(terms.weights) == 0:
        is_zero = not np.any(terms.coefficients)
        return Nearby(is_zero, is_zero, "no terms have the sum zero", None, None, None)
    is_sum = sum_exactly(terms)
    linearised = Linearisation.of(terms.weights, terms.points, terms.order) if terms.order > 1 else None
    matrices = flattenings(terms.dim, terms.order, MODULAR_WORK)[::-1]
    margin, radius, recognised_by = MIN_MARGIN, None, None
    if linearised is not None and terms.norm > 0:
        margin = max(2 * terms.residual / terms.norm, MIN_MARGIN)
        # The norm is a lower bound, by less than this.
        distances = (margin * terms.norm * (1 + 1e-10), terms.residual)
        displacement = linearised.displacement(sum(distances))
        if displacement is not None and linearised.basis is None:
            radius = displacement.radius
        elif displacement is not None:
            tensor = terms.tensor
            recognised_by = next(
                (m for m in matrices if near_all_sums(tensor, linearised, m, displacement, distances)), None
            )
            radius = None if recognised_by is None else displacement.radius
    exact: bool | None
    if is_sum:
        exact, by = True, "the sum in rational numbers"
    elif linearised is not None and linearised.basis is None:
        exact = None if radius is None else True
        by = "Kantorovich's bounds of Newton's method" + (" are too large" if radius is None else "")
    else:
        exact, by = _decided(terms, matrices, recognised_by)
    isolation = None if linearised is None else linearised.isolation()
    return Nearby(is_sum, exact, by, None if radius is None else margin, radius, isolation)


def _decided(
    terms: ScaledTerms, matrices: list[Flattening], recognised_by: Flattening | None
) -> tuple[bool | None, str]:
    """Return whether a tensor is a sum of so many powers, as far as flattenings tell, and why.

    Parameters
    ----------
    terms : ScaledTerms
        Of fewer coordinates than the tensor has coefficients, which sum to another tensor.
    matrices : list of Flattening
    recognised_by : Flattening or None
        The one whose rank implies such a sum, near the terms.
    """
    n_terms = len(terms.weights)
    coefficients = modular.residues(terms.coefficients)
    for flattening in matrices:
        matrix_rank = modular.rank(flattening.signs.astype(np.int64) * coefficients[flattening.positions])
        if matrix_rank > n_terms * flattening.power_rank:
            return False, f"{flattening.name} has rank {matrix_rank} or more, modulo a prime"
    if recognised_by is None:
        return None, "no flattening decides whether the tensor is such a sum"
    expected = n_terms * recognised_by.power_rank
    if terms.is_complex or expected**2 * recognised_by.positions.size > RATIONAL_WORK:
        return None, "the tensor is too large for rational numbers"
    matrix = recognised_by.signs * terms.coefficients[recognised_by.positions]
    if exact_rank(matrix) == expected:
        return True, f"{recognised_by.name} has rank {expected} in rational numbers"
    return None, "no flattening decides whether the tensor is such a sum"


def sum_exactly(terms: ScaledTerms) -> bool:
    """Return whether the terms are proved to sum to the tensor, in rational numbers."""
    reduced = modular.power_values(modular.residues(terms.points), terms.order)
    total = modular.product(modular.residues(terms.weights)[None], reduced)[0]
    if np.any(total != modular.residues(terms.coefficients)):
        return False
    if terms.is_complex or terms.order * reduced.size > RATIONAL_WORK:
        return False
    weights, points, coefficients = map(rational, (terms.weights, terms.points, terms.coefficients))
    return bool(np.all(sum_of_powers(weights, points, terms.order) == coefficients))
