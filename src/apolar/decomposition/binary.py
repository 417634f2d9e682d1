"""Binary forms, by Sylvester's theorem: the points are zeros of a form in the kernel of a Hankel matrix."""

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.tensor import SymmetricTensor, hankel

# Forms of the kernel that are drawn: the zeros of some lie closer together than those of others.
N_DRAWS = 10


def sylvester_points(tensor: SymmetricTensor, rank: int, rng: np.random.Generator) -> list[Array]:
    """Return points of decompositions of a binary form, over C, one for each of some forms of the kernel.

    Parameters
    ----------
    tensor : SymmetricTensor
        In two variables.
    rank : int
        With 2 * rank above the order, so that there is a kernel.
    rng : numpy.random.Generator

    Returns
    -------
    points : list of ndarray, shape (rank, 2)
    """
    order = tensor.order
    if rank >= order:
        kernel = np.eye(rank + 1)
    else:
        matrix = hankel(tensor, row_degree=order - rank)
        _, values, right = np.linalg.svd(matrix)
        kernel = right[len(values) :].conj()
    points = []
    for _ in range(N_DRAWS):
        form = rng.standard_normal(len(kernel)) @ kernel
        ratios = np.roots(form)
        if len(ratios) == rank:
            points.append(unit_rows(np.stack([ratios, np.ones(rank)], axis=1).astype(complex)))
    return points
