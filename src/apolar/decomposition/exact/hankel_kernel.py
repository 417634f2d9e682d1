"""The decomposition of a form from the kernel of its Hankel matrix over the rationals.

The Hankel matrix of a form T of degree d, with columns for the monomials of degree s >= d / 2, has a rank
r: no fewer powers have the sum T. If r powers (p_i . x)^d do, then its kernel is the space of all forms of
degree s that vanish at the points p_i [iarrobino1999]. So their points are common zeros of the kernel,
which linear algebra over the rationals finds, without numerical terms: the functionals on forms of some
degree that vanish on all multiples of the kernel contain the evaluation at each zero, a joint eigenvector
of the multiplications by the variables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.exact.arithmetic import flint
from apolar.decomposition.exact.exact_waring import (
    ConjugateForms,
    ExactWaring,
    exact_sum,
    groups_at_roots,
    solve_weights,
)
from apolar.decomposition.ranks import PRIME
from apolar.decomposition.tuning import TUNING
from apolar.tensor.monomials import n_monomials, product_positions


@dataclass(frozen=True)
class KernelProof:
    """What the kernel of the Hankel matrix proves about a form.

    Attributes
    ----------
    rank_bound : int
        The form is not a sum of fewer powers.
    by : str
        Why, or why no more is known.
    exact : ExactWaring or None
        The only sum of at most this number of powers that is the form.
    """

    rank_bound: int
    by: str
    exact: ExactWaring | None = None


def prove_by_kernel(target: Sequence[Any], dim: int, order: int) -> KernelProof:
    """Return what the kernel of the Hankel matrix proves about a form that is not zero.

    Parameters
    ----------
    target : sequence of fmpq
        The coefficients T_a.
    dim, order : int

    Returns
    -------
    proof : KernelProof
    """
    degree = order - order // 2
    where = product_positions(dim, order - degree, degree)
    name = f"the Hankel matrix of row degree {order - degree}"
    if len(where) * where.size > TUNING.kernel_work:
        return KernelProof(0, f"{name} is too large for rational numbers")
    hankel = flint.fmpq_mat([[target[i] for i in row] for row in where.tolist()]).numer_denom()[0]
    rank = flint.nmod_mat(hankel, PRIME).rank()
    if rank == n_monomials(dim, degree) or rank > TUNING.kernel_terms:
        return KernelProof(rank, f"{name} has rank {rank} or more, modulo a prime")
    rank = hankel.rank()
    undecided = KernelProof(rank, f"{name} has rank {rank} in rational numbers")
    if rank == n_monomials(dim, degree):
        return undecided
    more = f"the forms in the kernel of the Hankel matrix of row degree {degree}"
    functionals = _functionals(hankel, rank, dim, degree)
    if functionals is None:
        return undecided
    if len(functionals) < rank:
        return KernelProof(rank + 1, f"{more} have fewer than {rank} common zeros")
    n_zeros, groups = _common_zeros(functionals, dim)
    if n_zeros < rank:
        return KernelProof(rank + 1, f"{more} have multiple common zeros, fewer than {rank} in all")
    exact = solve_weights(groups, target, order) if groups else None
    if exact is None:
        return undecided
    if exact.rank != rank or exact_sum(exact) != list(target):
        return KernelProof(rank + 1, f"{rank} of the common zeros of {more} do not give the form")
    only = f"{more} vanish at {len(functionals)} points, whose powers of degree {order} are independent"
    return KernelProof(rank, only, exact)


def _functionals(hankel: Any, rank: int, dim: int, degree: int) -> list[Any] | None:
    """Return a basis of the functionals that vanish on all multiples of the kernel in some degree.

    The degree is the first where they are no more than in the one before. Each is an array of its values at
    the products of a variable and a monomial, shape (dim, n_monomials). None if they do not settle.
    """
    forms = _null_space(hankel)
    n_before = rank
    while True:
        higher = n_monomials(dim, degree + 1)
        if len(forms) * dim * higher**2 > TUNING.kernel_work:
            return None
        multiples = flint.fmpz_mat(multiply_forms(np.array(forms, dtype=object), dim, degree, 1).tolist())
        n_functionals = higher - flint.nmod_mat(multiples, PRIME).rank()
        if n_functionals < rank:
            return []
        if n_functionals == n_before:
            break
        if n_functionals > TUNING.kernel_terms:
            return None
        # A basis of the multiples: the forms on which their functionals vanish.
        forms = _null_space(flint.fmpz_mat(_null_space(multiples)))
        degree, n_before = degree + 1, n_functionals
    found = _null_space(multiples)
    if len(found) != n_before:
        return None
    times = product_positions(dim, degree, 1)
    return [np.array(functional, dtype=object)[times].T for functional in found]


def multiply_forms(forms: Array, dim: int, degree: int, by: int) -> Array:
    """Return the products of forms of a degree with all monomials of another, one per row."""
    where = product_positions(dim, degree, by)
    rows = np.zeros((where.shape[1], len(forms), n_monomials(dim, degree + by)), dtype=forms.dtype)
    for products, places in zip(rows, where.T, strict=True):
        products[:, places] = forms
    return rows.reshape(-1, rows.shape[2])


def _null_space(matrix: Any) -> list[list[Any]]:
    """Return a basis of the vectors that an integer matrix sends to zero, without common factors."""
    basis, dim = matrix.nullspace()
    vectors = basis.transpose().tolist()[:dim]
    contents = [flint.fmpz_poly(vector).content() for vector in vectors]
    return [[a // content for a in vector] for vector, content in zip(vectors, contents, strict=True)]


def _common_zeros(functionals: list[Any], dim: int) -> tuple[int, list[ConjugateForms]]:
    """Return the most common zeros that the kernel can have, and points among which all of them are, or none.

    With B_j the functionals on products with x_j, the evaluation at a zero p is c B_j = p_j e for a vector c.
    If a combination A of the B_j has full rank, then c is an eigenvector of all B_j A^t (A A^t)^-1.
    """
    slices = [flint.fmpq_mat([functional[j].tolist() for functional in functionals]) for j in range(dim)]
    n = len(functionals)
    for scale in linear_functions(dim):
        denominator = _combination(slices, scale)
        if denominator.rank() == n:
            break
    else:
        return n, []
    transposed = denominator.transpose()
    inverse = transposed * (denominator * transposed).inv()
    multiplications = [block * inverse for block in slices]
    for numerator in linear_functions(dim):
        operator = _combination(multiplications, numerator)
        polynomial = operator.charpoly()
        if polynomial.gcd(polynomial.derivative()).degree() == 0:
            break
    else:
        # Zeros are independent eigenvectors: there are fewer than n, unless the operator can be diagonalised.
        polynomial = operator.minpoly()
        return n - (polynomial.gcd(polynomial.derivative()).degree() > 0), []
    # What commutes with an operator of distinct eigenvalues is a polynomial in it, as it acts on a vector.
    powers = [flint.fmpq_mat([[k * k + 1 for k in range(n)]])]
    for _ in range(n - 1):
        powers.append(powers[-1] * operator)
    krylov = flint.fmpq_mat([power.entries() for power in powers])
    if krylov.rank() < n or any(block * operator != operator * block for block in multiplications):
        return n, []
    basis = krylov.inv()
    points = [flint.fmpq_poly((powers[0] * block * basis).entries()) for block in multiplications]
    return n, groups_at_roots(polynomial, points)


def linear_functions(dim: int) -> Iterator[list[int]]:
    """Yield small integers, one per variable: each variable alone, then generic ones."""
    yield from np.eye(dim, dtype=int).tolist()
    rng = np.random.default_rng(0)
    for _ in range(3):
        yield rng.integers(1, 20, dim).tolist()


def _combination(matrices: Sequence[Any], factors: Sequence[int]) -> Any:
    return sum((a * b for a, b in zip(matrices, factors, strict=True)), matrices[0] * 0)
