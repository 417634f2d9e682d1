"""Where the search starts: from the points of the structured methods, then from random points."""

from collections.abc import Iterator

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.flattening import Flattening, middle_degree
from apolar.decomposition.gauss_newton import Refined
from apolar.decomposition.pencil import fitted_vectors, pencil_points
from apolar.decomposition.ranks import pencil_limit, power_method_limit
from apolar.decomposition.spm import power_method
from apolar.tensor import SymmetricTensor

Start = tuple[str, Array]
"""The name of a method and its points, shape (rank, dim)."""


def structured_limit(tensor: SymmetricTensor) -> int:
    """Return the largest rank for which a structured method finds generic points."""
    by_pencil = pencil_limit(tensor.dim, tensor.order, middle_degree(tensor.order))
    return max(by_pencil, power_method_limit(tensor.dim, tensor.order))


def pencil_or_none(
    tensor: SymmetricTensor, flattening: Flattening, rank: int, rng: np.random.Generator
) -> Array | None:
    """Return the points of algorithm 2, or None where it does not apply or breaks down."""
    if rank > pencil_limit(tensor.dim, tensor.order, flattening.row_degree):
        return None
    if flattening.singular_values[rank - 1] <= 1e-14 * flattening.singular_values[0]:
        return None
    try:
        points = pencil_points(flattening.left[:, :rank], tensor.dim, flattening.row_degree, rng)
    except np.linalg.LinAlgError:
        return None
    if np.iscomplexobj(points) and not tensor.is_complex:
        turned = rotated_to_real(points)
        if np.abs(turned.imag).max() < 1e-10:
            return unit_rows(turned.real)
    return points


def rotated_to_real(points: Array) -> Array:
    """Return complex points turned by a phase so that their real part is largest."""
    squares = np.einsum("ij,ij->i", points, points)
    return points * np.exp(-0.5j * np.angle(squares))[:, None]


def real_starts(points: Array) -> Array:
    """Return real points near complex ones: a pair of conjugates becomes its real and imaginary part."""
    turned = rotated_to_real(points)
    real = turned.real.copy()
    for i in np.flatnonzero(np.linalg.norm(turned.imag, axis=1) > 0.1):
        partner = np.argmax(np.abs(turned[:i].conj() @ turned[i].conj())) if i else 0
        if i and abs(np.vdot(turned[partner].conj(), turned[i])) > 1 - 1e-6:
            real[i] = turned[i].imag
    return unit_rows(real)


def starting_points(
    tensor: SymmetricTensor,
    flattening: Flattening,
    rank: int,
    points: Array | None,
    is_complex: bool,
    rng: np.random.Generator,
    n_random: int,
) -> Iterator[Start]:
    """Yield starting points, the likeliest first."""
    first = points
    if first is not None and np.iscomplexobj(first) and not is_complex:
        first = real_starts(first)
    if first is not None:
        yield "pencil", first
    values = flattening.singular_values
    if rank <= power_method_limit(tensor.dim, tensor.order) and values[rank - 1] > 1e-14 * values[0]:
        dtype = np.complex128 if is_complex else np.float64
        left, right = flattening.left[:, :rank].astype(dtype), flattening.right[:, :rank].astype(dtype)
        for seeds in (first, None):
            found = power_method(
                left, values[:rank], right, tensor.dim, tensor.order, rng, starts=seeds, tol=1e-4, n_tries=1
            )
            yield "spm", found
    for _ in range(n_random):
        yield "random", random_points(rank, tensor.dim, is_complex, rng)


def random_points(rank: int, dim: int, is_complex: bool, rng: np.random.Generator) -> Array:
    """Return points drawn evenly from the sphere."""
    draws = rng.standard_normal((rank, dim))
    if is_complex:
        draws = draws + 1j * rng.standard_normal((rank, dim))
    return unit_rows(draws)


def unrefined(tensor: SymmetricTensor, points: Array) -> Refined:
    """Return points with the weights that fit best, as terms that no refinement has touched."""
    vectors, signs = fitted_vectors(tensor, points)
    return Refined(vectors, signs, float("nan"), float("nan"), False, 0, ())
