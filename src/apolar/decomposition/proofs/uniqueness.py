"""Whether the terms of a decomposition are the only ones with their sum: theorems that decide it.

**Kruskal's theorem** for powers [kruskal1977, chiantini2017effective].

**The kernel of the Hankel matrix.** Let T = sum_i w_i (v_i . x)^d with d = 2t and r points whose t-th powers
are independent. Then the Hankel matrix of row degree t has rank r, so that no fewer terms have the sum T,
and its kernel is the space K of all forms of degree t that vanish at the points. If T is also a sum of r
powers at other points, then the forms that vanish at these are in the kernel, by apolarity, and they are no
fewer: they are K. The points of all decompositions are thus among the common zeros of K, and if these are
finite and well placed there is only one decomposition [iarrobino1999, oeding2013].

**The differential of a flattening.** Let a flattening of T have the largest rank that r terms allow. The
tensors whose flattening has that rank at most include all sums of r powers, and the tangents at T are those
X for which the flattening of X vanishes between the two kernels. If these are no more than the tangents of
the terms, r times the dimension, then the sums of r powers are smooth at T. Where generic sums of r powers
have one decomposition [chiantini2017generic], all decompositions of a smooth T form a connected set, by
Zariski's main theorem; the one found is isolated in it, as its tangents are independent: it is the only one
[chiantini2014]. The kernels are those of all terms together, and do not depend on the weights.
"""

from contextlib import suppress
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.decomposition.exact.arithmetic import load_flint
from apolar.decomposition.proofs import modular
from apolar.decomposition.proofs.flattenings import Flattening, flattenings
from apolar.decomposition.ranks import PRIME, generic_rank
from apolar.decomposition.tuning import TUNING
from apolar.tensor import n_monomials
from apolar.tensor.monomials import exponents, power_derivatives, product_positions

# (dim, order, rank) where generic sums of powers have two decompositions, of those with fewer parameters
# than the tensor has coefficients.
TWO_DECOMPOSITIONS = {(3, 6, 9), (4, 4, 8), (6, 3, 9)}


def uniqueness(weights: Array, points: Array, order: int) -> tuple[bool | None, str]:
    """Return whether other terms, of this number or fewer, have the same complex sum, and why.

    The weights and points are taken as the exact numbers that they are.

    Parameters
    ----------
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
    order : int

    Returns
    -------
    unique : bool or None
        None where no theorem at hand decides.
    by : str
        The theorem, as text.
    """
    rank = len(points)
    if rank == 0:
        return True, "there are no terms"
    if not (np.all(weights) and np.all(np.any(points, axis=1))):
        return None, "a term is zero"
    if rank == 1:
        return True, "a single power has one linear form"
    if order <= 2:
        return False, "linear and quadratic forms have infinitely many decompositions into two terms or more"
    reason = _family(points, order)
    if reason:
        return False, reason
    if rank > TUNING.max_proof_terms:
        return None, f"more than {TUNING.max_proof_terms} terms are not tried"
    try:
        load_flint()
    except ImportError as error:
        return None, f"not decided: {error}"
    ranks = PowerRanks(modular.residues(points))
    for criterion in (kruskal_criterion, base_locus_criterion, smoothness_criterion):
        proof = criterion(ranks, order)
        if proof:
            return True, proof
    return None, "neither Kruskal's theorem nor the kernels of flattenings decide"


def _family(points: Array, order: int) -> str | None:
    """Return why decompositions into this number of terms are infinitely many, or None if not known.

    All components of the solutions of n equations in more than n unknowns have positive dimension, and so
    have all fibres of a map onto a set of fewer dimensions [alexander1995].
    """
    rank, dim = points.shape
    if not np.iscomplexobj(points) and points.size <= TUNING.max_proof_terms:
        # Without FLINT, the dimension of the span of the points is not proved.
        with suppress(ImportError):
            dim = int(modular.exact_matrix(points).rank())
    size = n_monomials(dim, order)
    if rank * dim > size:
        return f"{rank} points have {rank * dim} coordinates, more than the {size} coefficients of the tensor"
    if rank * dim == size and rank < generic_rank(dim, order):
        return (
            f"sums of {rank} powers of degree {order} in {dim} variables have fewer dimensions than their "
            "parameters (Alexander and Hirschowitz)"
        )
    return None


class PowerRanks:
    """Ranks of the powers v_i^k of some points, bounded from below.

    Parameters
    ----------
    points : ndarray of int, shape (rank, dim)
        Residues.
    """

    def __init__(self, points: IndexArray) -> None:
        self.points = points
        self._kruskal: dict[int, int] = {}

    @cached_property
    def independent_from(self) -> float:
        """The least degree whose powers are proved independent, as are those above; infinite if none is."""
        n_points, dim = self.points.shape
        for degree in range(1, n_points + 1):
            n_powers = n_monomials(dim, degree)
            if n_powers * n_points**2 > TUNING.proof_work:
                break
            if n_powers >= n_points and modular.rank(modular.power_values(self.points, degree)) == n_points:
                return degree
        return np.inf

    def kruskal(self, degree: int) -> int:
        """Return a lower bound of the Kruskal rank: any such number of powers is independent.

        Computed from minors where these are few. Otherwise the Kruskal rank of v_i^(a + b) is at least the
        sum of those of v_i^a and v_i^b less one, up to the number of points [sidiropoulos2000].
        """
        n_points, dim = self.points.shape
        if degree >= self.independent_from:
            return n_points
        if degree not in self._kruskal:
            best = 0
            if n_monomials(dim, degree) * n_points**2 <= TUNING.proof_work:
                values = modular.power_values(self.points, degree)
                best = modular.kruskal_rank(values, TUNING.kruskal_work)
            for part in range(1, degree // 2 + 1):
                both = self.kruskal(part), self.kruskal(degree - part)
                best = max(best, min(n_points, sum(both) - 1))
            self._kruskal[degree] = best
        return self._kruskal[degree]


def kruskal_criterion(ranks: PowerRanks, order: int) -> str | None:
    """Return how Kruskal's theorem proves that terms are the only ones, or None if it does not.

    The tensor of order a + b + c, reshaped to three factors v^a, v^b, v^c, has
    no other decomposition of at most this length if the Kruskal ranks of
    these factors sum to at least twice their number plus two [kruskal1977,
    chiantini2017effective].

    Parameters
    ----------
    ranks : PowerRanks
    order : int
        At least 3.

    Returns
    -------
    words : str or None
    """
    n_points, dim = ranks.points.shape
    splits = combinations_with_replacement(range(1, order - 1), 2)
    degrees = ((a, b, order - a - b) for a, b in splits if order - a - b >= b)
    # The powers of a high degree are independent, mostly, which is faster to see than minors are counted.
    for split in sorted(degrees, reverse=True):
        if sum(min(n_points, n_monomials(dim, degree)) for degree in split) < 2 * n_points + 2:
            continue
        kruskal = [ranks.kruskal(degree) for degree in split]
        if min(kruskal) > 0 and sum(kruskal) >= 2 * n_points + 2:
            return (
                "Kruskal's theorem: powers of the points of degree {}, {} and {} have Kruskal ranks of at "
                "least {}, {} and {}".format(*split, *kruskal)
            )
    return None


def base_locus_criterion(ranks: PowerRanks, order: int) -> str | None:
    """Return how the kernel of the Hankel matrix proves that terms are the only ones, or None if it does not.

    Parameters
    ----------
    ranks : PowerRanks
        Of the points.
    order : int
        Odd ones have no such proof beyond Kruskal's.

    Returns
    -------
    words : str or None
    """
    half = order // 2
    dim = ranks.points.shape[1]
    if order % 2 or dim < 3 or half < ranks.independent_from:
        return None
    size = n_monomials(dim, half)
    if size - len(ranks.points) < dim - 1 or len(ranks.points) * size**2 > TUNING.proof_work:
        return None  # fewer than dim - 1 equations vanish on a curve
    rng = np.random.default_rng(0)
    # In generic coordinates, so that the hyperplane where the last one vanishes is generic.
    turn = rng.integers(PRIME, size=(dim, dim))
    if modular.rank(turn) < dim:
        return None
    forms = modular.kernel(modular.power_values(modular.product(ranks.points, turn), half))
    if order >= (dim - 1) * (half - 1) and _finitely_many_zeros(forms, dim, half, rng):
        return (
            f"the forms in the kernel of the Hankel matrix of row degree {half} have finitely many common "
            f"zeros, whose powers of degree {order} are linearly independent"
        )
    if _generates_ideal(forms, dim, half, len(ranks.points)):
        return (
            f"the common zeros of the forms in the kernel of the Hankel matrix of row degree {half} are the "
            "points alone"
        )
    return None


def _finitely_many_zeros(forms: IndexArray, dim: int, degree: int, rng: np.random.Generator) -> bool:
    """Return whether dim - 1 combinations of the forms are proved to have finitely many common zeros.

    They are then a complete intersection, whose zeros impose independent
    conditions on forms of degree (dim - 1) (degree - 1) and above. They have
    finitely many if none is on a hyperplane; and dim - 1 forms in dim - 1
    variables have no common zero if their multiples are all forms of degree
    (dim - 1) (degree - 1) + 1 [macaulay1916].
    """
    top = (dim - 1) * (degree - 1) + 1
    if (dim - 1) * n_monomials(dim - 1, top - degree) * n_monomials(dim - 1, top) ** 2 > TUNING.proof_work:
        return False
    combined = modular.product(rng.integers(PRIME, size=(dim - 1, len(forms))), forms)
    on_hyperplane = combined[:, exponents(dim, degree)[:, -1] == 0]
    multiples = _multiples(on_hyperplane, dim - 1, degree, top - degree)
    return modular.rank(multiples) == n_monomials(dim - 1, top)


def _generates_ideal(forms: IndexArray, dim: int, degree: int, n_points: int) -> bool:
    """Return whether the forms of a degree that vanish at points are proved to vanish nowhere else.

    The powers of that degree being independent, the ideal of the points is
    generated in degrees up to one more: it suffices that the multiples of the
    forms are, in some higher degree, all forms that vanish at the points.
    """
    for higher in range(1, (dim - 1) * (degree - 1) + 2):
        size = n_monomials(dim, degree + higher)
        if len(forms) * n_monomials(dim, higher) * size**2 > TUNING.proof_work:
            return False
        if modular.rank(_multiples(forms, dim, degree, higher)) == size - n_points:
            return True
    return False


def _multiples(forms: IndexArray, dim: int, degree: int, by: int) -> IndexArray:
    """Return the products of forms of a degree with all monomials of another, one per row."""
    where = product_positions(dim, degree, by)
    rows = np.zeros((where.shape[1], len(forms), n_monomials(dim, degree + by)), dtype=np.int64)
    for monomial in range(where.shape[1]):
        rows[monomial][:, where[:, monomial]] = forms
    return rows.reshape(-1, rows.shape[2])


def smoothness_criterion(ranks: PowerRanks, order: int) -> str | None:
    """Return how the differential of a flattening proves that terms are the only ones, else None.

    Parameters
    ----------
    ranks : PowerRanks
        Of the points.
    order : int
        At least 3.

    Returns
    -------
    words : str or None
    """
    rank, dim = ranks.points.shape
    size = n_monomials(dim, order)
    if (
        rank * dim >= size
        or (dim, order, rank) in TWO_DECOMPOSITIONS
        or size * (rank * dim) ** 2 > TUNING.proof_work
    ):
        return None
    large_enough = [
        flattening
        for flattening in flattenings(dim, order, TUNING.proof_work)[::-1]
        if min(flattening.positions.shape) > rank * flattening.power_rank
    ]
    if not large_enough or modular.rank(tangents(ranks.points, order)) < rank * dim:
        return None
    for flattening in large_enough:
        if _is_smooth(ranks.points, order, flattening):
            return (
                f"the differential of {flattening.name} has the largest rank, and generic sums of {rank} "
                "powers have one decomposition"
            )
    return None


def tangents(points: IndexArray, order: int) -> IndexArray:
    """Return the tangents v^(d - 1) x_j of the terms at residues, shape (rank * dim, n_monomials)."""
    rank, dim = points.shape
    derivatives = power_derivatives(modular.power_values(points, order - 1), dim, order)
    return derivatives.reshape(rank * dim, -1) % PRIME


def _is_smooth(points: IndexArray, order: int, flattening: Flattening) -> bool:
    """Return whether the tangents that a flattening allows are proved to be those of the terms."""
    rank, dim = points.shape
    coefficients = modular.power_values(points, order).sum(axis=0) % PRIME
    signs = flattening.signs.astype(np.int64)
    matrix = signs * coefficients[flattening.positions] % PRIME
    right = modular.kernel(matrix)
    if matrix.shape[1] - len(right) < rank * flattening.power_rank:
        return False
    left = modular.kernel(matrix.T)
    size = n_monomials(dim, order)
    n_equations = size - rank * dim
    rows, columns = np.nonzero(signs)
    if n_equations * len(rows) > TUNING.proof_work:
        return False
    where, signs = flattening.positions[rows, columns], signs[rows, columns]
    rng = np.random.default_rng(0)
    # Random elements of both kernels: as many equations as are needed, which are dependent only by chance.
    lefts = modular.product(rng.integers(PRIME, size=(n_equations, len(left))), left)
    rights = modular.product(rng.integers(PRIME, size=(n_equations, len(right))), right)
    equations = np.zeros((n_equations, size), dtype=np.int64)
    for equation, a, b in zip(equations, lefts, rights, strict=True):
        np.add.at(equation, where, signs * (a[rows] * b[columns] % PRIME))
    return modular.rank(equations) == size - rank * dim
