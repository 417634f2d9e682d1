"""All decompositions of a tensor into one number of terms, where they are finite in number."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar._core.checks import random_generator
from apolar.decomposition.api import decompose, refine
from apolar.decomposition.methods import rate, real_if_all_are
from apolar.decomposition.paths import follow_paths
from apolar.decomposition.pencil import fit_terms
from apolar.decomposition.tuning import TUNING
from apolar.decomposition.waring import Status, Waring, component_errors, to_waring
from apolar.tensor import SymmetricTensor, as_tensor
from apolar.tensor.monomials import monomial_values, multinomials, power_derivatives, sum_of_powers


def decompositions(tensor: Any, rank: int | None = None, *, random_state: Any = None) -> tuple[Waring, ...]:
    """Return all decompositions of a tensor into one number of terms, real and complex.

    Where terms have as many coordinates as the tensor has coefficients, they are followed along loops of
    tensors, after which they may be others (monodromy) [hauenstein2019]. With fewer coordinates, other draws
    of `decompose` give others. The search ends after ten loops or draws without a new one: that none is
    missing is an experiment, unless the certificate of the only one says that it is unique.

    Parameters
    ----------
    tensor : SymmetricTensor
        Or what makes one, as for `decompose`, of order at least 3; or a known decomposition to begin with.
    rank : int, optional
        The number of terms; by default the rank that `decompose` finds.
    random_state : int, Generator or None, default=None

    Returns
    -------
    found : tuple of Waring
        Real ones first.

    Raises
    ------
    ValueError
        If no exact terms are found, or there are infinitely many.

    Examples
    --------
    >>> import apolar
    >>> import numpy as np
    >>> points = np.random.default_rng(0).standard_normal((8, 4))
    >>> T = apolar.SymmetricTensor.from_waring([1] * 8, points, 4)
    >>> len(apolar.decompositions(T, 8, random_state=0))
    2
    """
    rng = random_generator(random_state)
    given = tensor.to_tensor() if isinstance(tensor, Waring) else as_tensor(tensor)
    if given.order < 3:
        raise ValueError("A quadratic form has infinitely many decompositions: give one of order 3 or more.")
    is_known = isinstance(tensor, Waring)
    first = refine(given, tensor) if is_known else decompose(given, rank, random_state=rng)
    if first.status is not Status.EXACT:
        raise ValueError(
            f"No exact terms were found to begin with ({first.status.name}): give the rank, another seed, or "
            "known terms."
        )
    unknowns, n_coefficients = first.points.size, len(given.coefficients)
    if unknowns > n_coefficients or np.isinf(first.condition):
        raise ValueError(
            f"The terms belong to a continuous family: there are infinitely many sums of {first.rank} "
            "powers, and decompose gives another one for each seed."
        )
    found = [first]
    n_empty = 0
    while n_empty < TUNING.empty_loops and len(found) < TUNING.max_paths:
        if unknowns == n_coefficients:
            others = _after_a_loop(given, found, rng)
        elif first.certificate.unique:
            break
        else:
            # Those of a real tensor may be pairs of conjugates.
            others = [
                decompose(given, first.rank, field="complex" if n_empty % 2 else "auto", random_state=rng)
            ]
        new = [other for other in others if _add_new(found, other, is_real=not given.is_complex)]
        n_empty = 0 if new else n_empty + 1
    return tuple(sorted(found, key=lambda waring: waring.is_complex))


def _add_new(found: list[Waring], other: Waring, *, is_real: bool) -> bool:
    """Add a decomposition, and its conjugate of a real tensor, to those found; return whether it is new."""
    if other.status is not Status.EXACT:
        return False
    both = [other]
    if is_real and other.is_complex:
        both.append(replace(other, points=other.points.conj()))
    n_before = len(found)
    for waring in both:
        if all(component_errors(known, waring).max() > TUNING.nearly_exact for known in found):
            found.append(waring)
    return len(found) > n_before


def _after_a_loop(tensor: SymmetricTensor, found: list[Waring], rng: np.random.Generator) -> list[Waring]:
    """Return where a loop of tensors, a triangle with random corners, leads some decompositions."""
    order, dim, rank = tensor.order, tensor.dim, found[0].rank
    roots = np.sqrt(multinomials(dim, order))
    norm = tensor.norm()

    def random_corner() -> Array:
        points = unit_rows(rng.standard_normal((rank, 2 * dim))).view(np.complex128)
        coefficients = roots * sum_of_powers(np.ones(rank), points, order)
        return coefficients / np.linalg.norm(coefficients)

    start = roots * tensor.coefficients / norm
    corners = [start, random_corner(), random_corner(), start]
    weights = np.array([waring.weights for waring in found]).astype(np.complex128) / norm
    vectors = np.array([waring.points for waring in found]) * (weights ** (1 / order))[:, :, None]
    ends = vectors.reshape(len(found), -1)
    for corner, after in pairwise(corners):

        def system(
            z: Array, t: Array, corner: Array = corner, after: Array = after
        ) -> tuple[Array, Array, Array]:
            terms = z.reshape(-1, dim)
            powers = (monomial_values(terms, order) * roots).reshape(len(z), rank, -1).sum(axis=1)
            slopes = power_derivatives(monomial_values(terms, order - 1), dim, order) * roots
            jacobian = slopes.reshape(len(z), rank * dim, -1).swapaxes(1, 2)
            target = corner + t[:, None] * (after - corner)
            return powers - target, jacobian, np.broadcast_to(corner - after, powers.shape)

        ends, arrived = follow_paths(system, ends)
        ends = ends[arrived]
    return [_at_end(tensor, vectors) for vectors in ends.reshape(-1, rank, dim)]


def _at_end(tensor: SymmetricTensor, vectors: Array) -> Waring:
    """Return the decomposition at the end of a path, refined to rounding."""
    points = unit_rows(vectors)
    terms = rate(
        tensor, fit_terms(tensor, points if tensor.is_complex else real_if_all_are(points), "monodromy")
    )
    settled = replace(terms, gradient_size=0.0, converged=True)
    return to_waring(settled, tensor.order, tensor.norm(), tensor=tensor)
