"""Uniqueness from the kernel of the Hankel matrix: the points are where its forms vanish.

Let T = sum_i w_i (v_i . x)^d with d = 2t and r points whose t-th powers are independent. Then the Hankel
matrix of row degree t has rank r, so that no fewer terms have the sum T, and its kernel is the space K of all
forms of degree t that vanish at the points. If T is also a sum of r powers at other points, then the forms
that vanish at these are in the kernel, by apolarity, and they are no fewer: they are K. The points of all
decompositions are thus among the common zeros of K, and if these are finite and well placed there is only one
decomposition [iarrobino1999, oeding2013].
"""

import numpy as np

from apolar._core.arrays import IndexArray
from apolar.decomposition.proofs import modular
from apolar.decomposition.proofs.kruskal import PowerRanks
from apolar.tensor import n_monomials
from apolar.tensor.monomials import exponents, product_positions

# Multiplications of one elimination.
MAX_WORK = 1.5e8


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
    if order % 2 or dim < 3 or not ranks.independent(half):
        return None
    size = n_monomials(dim, half)
    if size - len(ranks.points) < dim - 1 or len(ranks.points) * size**2 > MAX_WORK:
        return None  # fewer than dim - 1 equations vanish on a curve
    rng = np.random.default_rng(0)
    # In generic coordinates, so that the hyperplane where the last one vanishes is generic.
    turn = rng.integers(modular.PRIME, size=(dim, dim))
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
    finitely many if none is on a hyperplane; and dim - 1 forms in as many
    variables have no common zero if their multiples are all forms of degree
    (dim - 1) (degree - 1) + 1 [macaulay1916].
    """
    top = (dim - 1) * (degree - 1) + 1
    if (dim - 1) * n_monomials(dim - 1, top - degree) * n_monomials(dim - 1, top) ** 2 > MAX_WORK:
        return False
    combined = modular.product(rng.integers(modular.PRIME, size=(dim - 1, len(forms))), forms)
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
        if len(forms) * n_monomials(dim, higher) * size**2 > MAX_WORK:
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
