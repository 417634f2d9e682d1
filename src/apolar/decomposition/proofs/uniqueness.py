"""Whether the terms of a decomposition are the only ones with their sum: theorems that decide it."""

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.proofs import modular
from apolar.decomposition.proofs.base_locus import base_locus_criterion
from apolar.decomposition.proofs.kruskal import PowerRanks, kruskal_criterion
from apolar.decomposition.proofs.rational import exact_rank
from apolar.decomposition.proofs.smoothness import smoothness_criterion
from apolar.tensor import n_monomials

# Alexander and Hirschowitz: (dim, order, rank) where sums of powers fill less than their parameters.
DEFECTIVE = {(3, 4, 5), (4, 4, 9), (5, 4, 14), (5, 3, 7)}
CRITERIA = (kruskal_criterion, base_locus_criterion, smoothness_criterion)
# Entries of a matrix whose rank is computed in rational numbers.
FEW_ENTRIES = 400
# Terms for which the proofs are tried.
MAX_TERMS = 500


def uniqueness(weights: Array, points: Array, order: int) -> tuple[bool | None, str]:
    """Return whether other terms, as many or fewer, have the same sum over the complex numbers, and why.

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
        The theorem, in words.
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
    if rank > MAX_TERMS:
        return None, f"more than {MAX_TERMS} terms are not tried"
    ranks = PowerRanks(modular.residues(points))
    for criterion in CRITERIA:
        proof = criterion(ranks, order)
        if proof:
            return True, proof
    return None, "neither Kruskal's theorem nor the kernels of flattenings decide"


def _family(points: Array, order: int) -> str | None:
    """Return why any decomposition into so many terms is one of infinitely many, or None if it need not be.

    All components of the solutions of n equations in more than n unknowns have positive dimension, and so
    have all fibres of a map onto a set of fewer dimensions [alexander1995].
    """
    rank = len(points)
    dim = _essential_dim(points)
    size = n_monomials(dim, order)
    if rank * dim > size:
        return f"{rank} points have {rank * dim} coordinates, more than the {size} coefficients of the tensor"
    if (dim, order, rank) in DEFECTIVE:
        return (
            f"sums of {rank} powers of degree {order} in {dim} variables have fewer dimensions than their "
            "parameters (Alexander and Hirschowitz)"
        )
    return None


def _essential_dim(points: Array) -> int:
    """Return the dimension of the span of the points where it is proved, else that of the space."""
    dim = points.shape[1]
    if modular.rank(modular.residues(points)) == dim or np.iscomplexobj(points) or points.size > FEW_ENTRIES:
        return dim
    return exact_rank(points)
