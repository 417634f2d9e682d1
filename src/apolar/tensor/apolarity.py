"""The apolar product, and Hankel matrices."""

import numpy as np

from apolar._core.arrays import Array, binary_exponent, scaled_by_power
from apolar._core.checks import check_integer
from apolar.tensor import monomials
from apolar.tensor.symmetric import SymmetricTensor, check_same_space


def apolar_product(left: SymmetricTensor, right: SymmetricTensor) -> complex | float:
    """Return the apolar product, sum over a of binom(d, a) conj(S_a) T_a.

    It is the Frobenius product of the full arrays, and invariant under
    unitary changes of variables. For a power of a linear form it evaluates:
    <(v.x)^d, P> = P(conj(v)) [khouja2022moments, section 3.1].

    Parameters
    ----------
    left, right : SymmetricTensor
        Of the same order and dimension. The coefficients of `left` are conjugated.

    Returns
    -------
    product : float or complex
        Infinite only if it is larger than any number.

    Examples
    --------
    >>> import apolar
    >>> P = apolar.SymmetricTensor.from_polynomial("x^2*y")
    >>> apolar.apolar_product(P, P)
    0.333...
    """
    for tensor in (left, right):
        if not isinstance(tensor, SymmetricTensor):
            raise TypeError(f"apolar_product takes two SymmetricTensor; got {type(tensor).__name__}.")
    check_same_space(left, right)
    exponents = [binary_exponent(tensor.coefficients) for tensor in (left, right)]
    first, second = (
        scaled_by_power(tensor.coefficients, -exponent)
        for tensor, exponent in zip((left, right), exponents, strict=True)
    )
    product = scaled_by_power(np.sum(left.multinomials * first.conj() * second)[None], sum(exponents))[0]
    return complex(product) if np.iscomplexobj(product) else float(product)


def hankel(tensor: SymmetricTensor, row_degree: int) -> Array:
    """Return the Hankel matrix (catalecticant) of a tensor, entries T_(alpha + beta).

    Parameters
    ----------
    tensor : SymmetricTensor
    row_degree : int
        The degree k of the rows' monomials, from 0 to the order d.

    Returns
    -------
    matrix : ndarray, shape (n_monomials(dim, k), n_monomials(dim, d - k))
        The paper's H^{k, d-k} [khouja2022moments, section 3.1]. Its rank is a
        lower bound of the rank of the tensor.

    Examples
    --------
    >>> import apolar
    >>> apolar.hankel(apolar.SymmetricTensor.from_polynomial("x^3 - 3*x*y^2"), row_degree=2)
    array([[ 1.,  0.],
           [ 0., -1.],
           [-1.,  0.]])
    """
    if not isinstance(tensor, SymmetricTensor):
        raise TypeError(f"hankel takes a SymmetricTensor; got {type(tensor).__name__}.")
    row_degree = check_integer(row_degree, "row_degree", least=0)
    if row_degree > tensor.order:
        raise ValueError(f"row_degree must be at most the order {tensor.order}; got {row_degree}.")
    return tensor.coefficients[monomials.product_positions(tensor.dim, row_degree, tensor.order - row_degree)]


def weighted_hankel(tensor: SymmetricTensor, row_degree: int) -> Array:
    """Return the Hankel matrix with entries sqrt(binom(k, a) binom(d-k, b)) T_(a + b).

    It is the flattening of the full array on its distinct rows and columns:
    same singular values, same Frobenius norm, so that cutting it to a rank
    does not depend on the coordinates.
    """
    rows = np.sqrt(monomials.multinomials(tensor.dim, row_degree))
    columns = np.sqrt(monomials.multinomials(tensor.dim, tensor.order - row_degree))
    return rows[:, None] * hankel(tensor, row_degree) * columns
