"""All sums of so many powers near a tensor have terms near those found.

Where terms have fewer coordinates than the tensor has coefficients, few tensors near by are sums of so many
powers. Such sums have flattenings of low rank, and the other way round, if the differential of the
flattening on its kernels has its largest rank [iarrobino1999, landsberg2013]. In numbers: split the
flattening, in nearly orthonormal bases of its singular vectors, in blocks A, of the size of its rank, B, C,
and D on the kernels. If it has that rank then D = C A^-1 B. Let T' be a tensor near by with a flattening of
that rank, and T'' the sum of the terms that Newton's method finds for the projection Q^* T'. Both satisfy the
equation, so that X = T' - T'' has Q^* X = 0 and |D(X)| <= (|B| + |C| + |B| |C| / a) / a |X|, a the least
singular value of A near by. If the least singular value of X -> (Q^* X, D(X)) is larger than the factor,
then X = 0: these are terms of T'.
"""

from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.proofs.flattenings import Flattening
from apolar.decomposition.proofs.kantorovich import SLACK, Displacement, Linearisation
from apolar.decomposition.proofs.rounding import gamma, min_singular_value_below, norm_above, stretch_above
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import multinomials

# Equations on the kernels that are used, times the number of coefficients.
ENOUGH_EQUATIONS = 3


@dataclass(frozen=True, eq=False)
class Blocks:
    """The flattening of a tensor, split at a rank.

    Attributes
    ----------
    flattening : Flattening
    least : float
        At most the least singular value of A.
    sides : float
        At least the norms of B and of C.
    stretch : float
        At least the norms of the two bases, multiplied.
    left_kernel : ndarray, shape (n_rows, n_left)
    right_kernel : ndarray, shape (n_columns, n_right)
    """

    flattening: Flattening
    least: float
    sides: float
    stretch: float
    left_kernel: Array
    right_kernel: Array

    @classmethod
    def of(cls, tensor: SymmetricTensor, flattening: Flattening, rank: int) -> "Blocks":
        """Return a flattening of a tensor, split at a rank less than its numbers of rows and columns."""
        matrix = flattening.matrix(tensor.coefficients)
        left, values, right = np.linalg.svd(matrix)
        right = right.conj().T
        # In generic bases of the kernel, some equations are as good as others.
        n_free = right.shape[1] - rank
        mixing = np.linalg.qr(np.random.default_rng(0).standard_normal((n_free, n_free)))[0]
        right[:, rank:] = right[:, rank:] @ mixing
        blocks = left.conj().T @ matrix @ right
        sizes = norm_above(np.abs(left.T) @ np.abs(matrix) @ np.abs(right))
        error = 1.01 * gamma(sum(matrix.shape) + 2 * tensor.order + 14, matrix) * sizes
        off_diagonal = norm_above(blocks[:rank, :rank] - np.diag(values[:rank]))
        return cls(
            flattening,
            float(values[rank - 1]) - off_diagonal - error,
            max(norm_above(blocks[:rank, rank:]), norm_above(blocks[rank:, :rank])) + error,
            stretch_above(left.conj().T) * stretch_above(right.conj().T),
            left[:, rank:],
            right[:, rank:],
        )

    def factor(self, distance: float) -> float:
        """Return the bound of |D(X)| / |X| for the difference of two tensors within a distance."""
        moved = self.stretch * self.flattening.norm * distance
        least = self.least - moved
        if least <= 0:
            return float("inf")
        sides = self.sides + moved
        frobenius = self.stretch * np.sqrt(self.flattening.power_rank)
        return float(frobenius * sides * (2 + sides / least) / least * (1 + SLACK))

    def min_on_kernels(self, dim: int, order: int, basis: Array) -> float:
        """Return a lower bound of the least singular value of X -> (Q^* X, D(X)), 0 where it is too large."""
        left, right = self.left_kernel, self.right_kernel
        size = len(basis)
        # Any equations on the kernels will do: not more of them than it takes.
        right = right[:, : -(-ENOUGH_EQUATIONS * size // left.shape[1])]
        n_equations = left.shape[1] * right.shape[1] + basis.shape[1]
        weights = self.flattening.weights.ravel()
        used = np.flatnonzero(weights)
        n_products = len(used) * left.shape[1] * right.shape[1]
        if n_equations < size or n_equations * size**2 > TUNING.gram_work or n_products > TUNING.kernel_work:
            return 0.0
        rows, columns = np.divmod(used, len(right))
        where = self.flattening.positions.ravel()[used]
        # D is linear in the coefficients: one row for each, in orthonormal coordinates.
        products = left.conj()[rows, :, None] * (weights[used, None, None] * right[columns, None, :])
        sums = np.zeros((size, left.shape[1] * right.shape[1]), dtype=products.dtype)
        np.add.at(sums, where, products.reshape(len(used), -1))
        sums /= np.sqrt(multinomials(dim, order))[:, None]
        matrix = np.vstack([basis.conj().T, sums.T])
        # By Cauchy and Schwarz the rounding of all sums is relative to the norms of the kernels, and of the
        # flattening of unit tensors.
        sizes = norm_above(left) * norm_above(right) * np.sqrt(self.flattening.power_rank)
        rounding = 1.01 * gamma(int(np.bincount(where).max()) + 2 * order + 20, matrix) * sizes
        return max(min_singular_value_below(matrix) - rounding, 0.0)


def near_all_sums(
    tensor: SymmetricTensor,
    linearised: Linearisation,
    flattening: Flattening,
    displacement: Displacement,
    distances: tuple[float, float],
) -> bool:
    """Return whether all sums of so many powers near a tensor are proved to have terms near those found.

    Parameters
    ----------
    tensor : SymmetricTensor
        Of a norm near one.
    linearised : Linearisation
        At the terms found, which have fewer coordinates than the tensor has coefficients.
    flattening : Flattening
        By whose rank such sums are recognised.
    displacement : Displacement
        Of the terms, for tensors within the distances.
    distances : tuple of float
        Of the tensors near by, and of the sum of the terms found, from the tensor.

    Returns
    -------
    proved : bool
    """
    rank = linearised.rank * flattening.power_rank
    n_rows, n_columns = flattening.positions.shape
    if rank >= min(n_rows, n_columns) or n_rows * n_columns * max(n_rows, n_columns) > TUNING.proof_work:
        return False
    margin, residual = distances
    blocks = Blocks.of(tensor, flattening, rank)
    factor = blocks.factor(max(margin, residual + displacement.change))
    if not np.isfinite(factor) or linearised.basis is None:
        return False
    return factor < blocks.min_on_kernels(tensor.dim, tensor.order, linearised.basis)
