"""Lower bounds of the rank of a tensor, from the ranks of its flattenings."""

import numpy as np

from apolar.decomposition.proofs.flattenings import flattenings, koszul_degree, koszul_flattening
from apolar.decomposition.proofs.rounding import gamma, singular_values_below
from apolar.decomposition.ranks import numerical_rank
from apolar.tensor import SymmetricTensor

# Multiplications of a decomposition into singular values, at most, where a bound is certified.
MAX_WORK = 2e8


def koszul_bound(tensor: SymmetricTensor) -> int:
    """Return the lower bound of the rank from the numerical rank of a Koszul flattening, 0 without one.

    Examples
    --------
    >>> import apolar
    >>> from apolar.decomposition.proofs.lower_bounds import koszul_bound
    >>> koszul_bound(apolar.SymmetricTensor.from_polynomial("x^3 + y^3 + z^3 + x*y*z"))
    4
    """
    degree = koszul_degree(tensor.dim, tensor.order)
    if degree == 0 or not np.any(tensor.coefficients):
        return 0
    flattening = koszul_flattening(tensor.dim, tensor.order, degree)
    values = np.linalg.svd(flattening.matrix(tensor.coefficients), compute_uv=False)
    return -(-numerical_rank(values) // flattening.power_rank)


def certified_bound(tensor: SymmetricTensor, radius: float) -> tuple[int, str]:
    """Return a lower bound of the rank of all tensors within a distance of one, and which matrix proves it.

    A singular value moves by at most the norm of the change, so that those above
    it stay above zero. They are bounded from below with all rounding.

    Parameters
    ----------
    tensor : SymmetricTensor
        Of a norm near one.
    radius : float
        The distance, in the apolar norm.

    Returns
    -------
    bound : int
    by : str
    """
    best, by = 0, "no matrix of the tensor is small enough, and far enough from zero"
    if tensor.order == 1:
        return int(np.linalg.norm(tensor.coefficients) > 2 * radius), "the linear form is not zero"
    for flattening in flattenings(tensor.dim, tensor.order, MAX_WORK):
        matrix = flattening.matrix(tensor.coefficients)
        values = singular_values_below(matrix, gamma(2 * tensor.order + 10, matrix))
        above = int(np.count_nonzero(values > flattening.norm * radius * (1 + 1e-14)))
        bound = -(-above // flattening.power_rank)
        if bound > best:
            best, by = bound, flattening.name
    return best, by
