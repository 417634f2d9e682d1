"""Forms that need no search: linear, quadratic, and in one variable."""

from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.gauss_newton import Refined
from apolar.decomposition.ranks import RankRule, numerical_rank, resolved_rank
from apolar.decomposition.refine import to_waring
from apolar.decomposition.waring import Waring
from apolar.tensor import SymmetricTensor


def simple_decomposition(form: SymmetricTensor, rank: int | RankRule | None) -> Waring:
    """Return the decomposition of a linear or quadratic form, or one in a single variable."""
    if form.order == 2 and form.dim > 1:
        vectors, signs, spectrum = quadratic_terms(form)
        source = "the numerical rank of its matrix"
        if rank is not None:
            number, source = resolved_rank(rank, spectrum)
            if number > form.dim:
                raise ValueError(f"A quadratic form in {form.dim} variables has rank at most {form.dim}.")
            if number > len(vectors):
                source = f"its matrix has rank {len(vectors)}, less than the {number} asked for"
            vectors, signs = vectors[:number], signs[:number]
    else:
        terms_of = linear_terms if form.order == 1 else univariate_terms
        vectors, signs = terms_of(form)
        spectrum, source = np.array([form.norm()]), "one term"
        if rank is not None and resolved_rank(rank, spectrum)[0] > 1:
            raise ValueError("This form is a power of one linear form: its rank is 1.")
    refined = Refined(vectors, signs, float("nan"), 0.0, True, 0, ())
    waring = to_waring(form, refined, "eigenvectors" if form.order == 2 else "direct")
    return replace(waring, singular_values=spectrum, rank_source=source)


def linear_terms(tensor: SymmetricTensor) -> tuple[Array, Array]:
    """Return the single vector of a linear form, and its sign."""
    return tensor.coefficients[None, :], np.ones(1)


def univariate_terms(tensor: SymmetricTensor) -> tuple[Array, Array]:
    """Return the single vector of c x^d, and its sign."""
    value = tensor.coefficients[0]
    if tensor.is_complex:
        return np.array([[value ** (1 / tensor.order)]]), np.ones(1)
    root = abs(value) ** (1 / tensor.order)
    if tensor.order % 2:
        return np.array([[np.sign(value) * root]]), np.ones(1)
    return np.array([[root]]), np.array([np.sign(value)])


def quadratic_terms(tensor: SymmetricTensor) -> tuple[Array, Array, Array]:
    """Return orthogonal vectors of a quadratic form, largest first, their signs, and its spectrum.

    Eigenvectors of the symmetric matrix; Takagi's factorisation A = U S U^t if
    it is complex.
    """
    matrix = tensor.to_dense()
    if tensor.is_complex:
        # Singular values s are pairs (s, -s) of eigenvalues of a real symmetric matrix twice as large.
        doubled = np.block([[matrix.real, matrix.imag], [matrix.imag, -matrix.real]])
        values, vectors = np.linalg.eigh(doubled)
        n = tensor.dim
        values, vectors = values[: n - 1 : -1], vectors[:, : n - 1 : -1]
        columns = vectors[:n] - 1j * vectors[n:]
        columns = columns.conj()
    else:
        values, columns = np.linalg.eigh(matrix)
        by_size = np.argsort(-np.abs(values), kind="stable")
        values, columns = values[by_size], columns[:, by_size]
    spectrum = np.abs(values)
    rank = numerical_rank(spectrum)
    vectors = (columns * np.sqrt(spectrum)).T[:rank]
    return vectors, np.where(values[:rank] < 0, -1.0, 1.0), spectrum
