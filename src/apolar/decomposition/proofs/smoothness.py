"""Uniqueness from the differential of a flattening: smooth sums of powers have one decomposition.

Let a flattening of T = sum_i w_i (v_i . x)^d have the largest rank that r terms allow. The tensors whose
flattening has that rank at most include all sums of r powers, and the tangents at T are those X for which the
flattening of X vanishes between the two kernels. If these are no more than the tangents of the terms, r times
the dimension, then the sums of r powers are smooth at T. Where generic sums of r powers have one
decomposition [chiantini2017generic], all decompositions of a smooth T form a connected set, by Zariski's main
theorem; the one found is isolated in it, as its tangents are independent: it is the only one [chiantini2014].
The kernels are those of all terms together, and do not depend on the weights.
"""

import numpy as np

from apolar._core.arrays import IndexArray
from apolar.decomposition.proofs import modular
from apolar.decomposition.proofs.flattenings import Flattening, flattenings
from apolar.decomposition.proofs.kruskal import PowerRanks
from apolar.tensor import n_monomials
from apolar.tensor.monomials import exponents, product_positions

# Multiplications of one elimination, and of all equations on the kernels.
MAX_WORK = 1.2e8
# (dim, order, rank) where generic sums of powers have two decompositions, of those with fewer parameters
# than the tensor has coefficients.
TWO_DECOMPOSITIONS = {(3, 6, 9), (4, 4, 8), (6, 3, 9)}
# Equations beyond those that are needed: random ones are dependent only by chance.
SPARE = 10


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
    if rank * dim >= size or (dim, order, rank) in TWO_DECOMPOSITIONS or size * (rank * dim) ** 2 > MAX_WORK:
        return None
    large_enough = [
        flattening
        for flattening in flattenings(dim, order, MAX_WORK)[::-1]
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
    lower = modular.power_values(points, order - 1)
    where = product_positions(dim, order - 1, 1)
    powers = exponents(dim, order - 1) + 1
    rows = np.zeros((rank, dim, n_monomials(dim, order)), dtype=np.int64)
    for j in range(dim):
        rows[:, j, where[:, j]] = powers[:, j] * lower % modular.PRIME
    return rows.reshape(rank * dim, -1)


def _is_smooth(points: IndexArray, order: int, flattening: Flattening) -> bool:
    """Return whether the tangents that a flattening allows are proved to be those of the terms."""
    rank, dim = points.shape
    coefficients = modular.power_values(points, order).sum(axis=0) % modular.PRIME
    signs = flattening.signs.astype(np.int64)
    matrix = signs * coefficients[flattening.positions] % modular.PRIME
    right = modular.kernel(matrix)
    if matrix.shape[1] - len(right) < rank * flattening.power_rank:
        return False
    left = modular.kernel(matrix.T)
    size = n_monomials(dim, order)
    n_equations = size - rank * dim + SPARE
    rows, columns = np.nonzero(signs)
    if n_equations * len(rows) > MAX_WORK:
        return False
    where, signs = flattening.positions[rows, columns], signs[rows, columns]
    rng = np.random.default_rng(0)
    # Random elements of both kernels: as many equations as are needed.
    lefts = modular.product(rng.integers(modular.PRIME, size=(n_equations, len(left))), left)
    rights = modular.product(rng.integers(modular.PRIME, size=(n_equations, len(right))), right)
    equations = np.zeros((n_equations, size), dtype=np.int64)
    for equation, a, b in zip(equations, lefts, rights, strict=True):
        np.add.at(equation, where, signs * (a[rows] * b[columns] % modular.PRIME))
    return modular.rank(equations) == size - rank * dim
