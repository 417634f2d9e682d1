"""The subspace power method: the components one after another, in tensors of any order."""

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.tensor.monomials import monomial_values, multinomials, product_positions

# Tolerance and steps of a climb that a refinement follows in any case.
ROUGH_TOL, ROUGH_STEPS = 1e-3, 60
# Multiplications of one batch of climbs, at most: a second or so.
CLIMB_WORK = 2e9
TINY = 1e-150


class _Subspace:
    """The span of the components' powers a^n, and the distance of a power to it.

    Parameters
    ----------
    basis : ndarray, shape (n_monomials(dim, n), rank)
        Orthonormal, in weighted coordinates.
    dim, degree : int
    """

    def __init__(self, basis: Array, dim: int, degree: int) -> None:
        self.dim, self.degree = dim, degree
        unweighted = basis / np.sqrt(multinomials(dim, degree))[:, None]
        slices = unweighted[product_positions(dim, 1, degree - 1)]
        weighted = slices * multinomials(dim, degree - 1)[None, :, None]
        self.flat = np.ascontiguousarray(weighted.swapaxes(0, 1)).reshape(weighted.shape[1], -1).conj()

    def ascent(self, a: Array) -> tuple[Array, Array]:
        """Return the gradient V(a^(n-1)) V(a^n)^* and the value F, for many unit vectors.

        F(a) is the squared length of the projection of a^n; at most 1, and 1
        exactly at the components.
        """
        contracted = monomial_values(a, self.degree - 1) @ self.flat
        slices = contracted.reshape(len(a), self.dim, -1)
        coordinates = a[:, None, :] @ slices
        gradient = (slices.conj() @ coordinates.swapaxes(1, 2))[:, :, 0]
        return gradient, np.sum(gradient * a.conj(), axis=1).real


def power_method(
    left_vectors: Array,
    singular_values: Array,
    right_vectors: Array,
    dim: int,
    order: int,
    rng: np.random.Generator,
    *,
    starts: Array | None = None,
    tol: float = 1e-12,
    max_iter: int = 2000,
    n_tries: int = 3,
) -> Array:
    """Return the points of a decomposition, by the subspace power method [kileel2019].

    Climbs to a component from a batch of starts at once, takes the distinct
    ones that it reaches, removes them from the subspace, and goes on until
    none is left.

    Parameters
    ----------
    left_vectors : ndarray, shape (n_monomials(dim, ceil(order / 2)), rank)
    singular_values : ndarray, shape (rank,)
    right_vectors : ndarray, shape (n_monomials(dim, floor(order / 2)), rank)
        Leading singular vectors of the weighted Hankel matrix U S R^t
        (transposed, not conjugated).
    dim, order : int
    rng : numpy.random.Generator
    starts : ndarray, shape (n_starts, dim), optional
        First guesses, in place of the first batch of random ones.
    tol : float
        Stop a climb when a step is shorter.
    max_iter : int
        Steps of one climb, at most; fewer in large tensors.
    n_tries : int
        Batches without a component before the nearest miss is taken.

    Returns
    -------
    points : ndarray, shape (rank, dim)
        Of unit norm.
    """
    rank = len(singular_values)
    degree = order - order // 2
    left, right = left_vectors, right_vectors
    inverse = np.diag(1 / singular_values).astype(left.dtype)
    components: list[Array] = []
    stalls = 0
    while len(components) < rank:
        subspace = _Subspace(left, dim, degree)
        if starts is None:
            starts = _gaussian_draws(rng, (max(2 * (rank - len(components)), 6), dim), left.dtype)
        batch = unit_rows(starts)
        starts = None
        n_steps = int(np.clip(CLIMB_WORK / (len(batch) * subspace.flat.size), ROUGH_STEPS, max_iter))
        climbed, values, arrived = _climb(subspace, batch.astype(left.dtype), tol, n_steps)
        accepted = _distinct(climbed[arrived], values[arrived], limit=rank - len(components))
        if not len(accepted) and (stalls := stalls + 1) < n_tries:
            continue
        if not len(accepted):
            # No start reaches a component: take what is nearest to one, and leave the rest to the refinement.
            # The tensor is not near any of this rank, and climbing to the top for each of many misses takes
            # minutes: from here on there is one try, with a short climb, and it gives several at once.
            n_taken = max(1, (rank - len(components)) // 16)
            accepted = _distinct(climbed, values, limit=n_taken, near=np.inf)
            n_tries, tol, max_iter = 1, max(tol, ROUGH_TOL), min(max_iter, ROUGH_STEPS)
        stalls = 0
        for a in accepted:
            components.append(a)
            if len(components) < rank:
                left, right, inverse = _deflated(left, right, inverse, a, degree, order - degree)
    return np.array(components)


def _gaussian_draws(rng: np.random.Generator, shape: tuple[int, int], dtype: np.dtype) -> Array:
    draws = rng.standard_normal(shape)
    return draws + 1j * rng.standard_normal(shape) if np.issubdtype(dtype, np.complexfloating) else draws


def _climb(
    subspace: _Subspace, a: Array, tol: float, max_iter: int, patience: int = 25
) -> tuple[Array, Array, Array]:
    """Return where shifted power steps lead from many unit vectors, the values there, and which converged."""
    shift_bound = np.sqrt((subspace.degree - 1) / subspace.degree)
    a = a.copy()
    values = np.zeros(len(a))
    active = np.arange(len(a))
    arrived = np.zeros(len(a), dtype=bool)
    for step in range(max_iter):
        gradient, f = subspace.ascent(a[active])
        values[active] = f
        f = np.clip(f, 0.0, 1.0)
        shift = shift_bound * np.where(f > 2 / 3, np.sqrt(2 * f * (1 - f)), 1 - f / 2)
        moved = unit_rows(gradient + shift[:, None] * a[active])
        length = np.linalg.norm(moved - a[active], axis=1)
        a[active] = moved
        arrived[active[length <= tol]] = True
        active = active[length > tol]
        # The slow ones are left: once the components of the others are removed, they climb faster.
        if not len(active) or (step >= patience and len(active) < len(a)):
            break
    return a, values, arrived


def _distinct(a: Array, values: Array, limit: int, near: float = 1e-2) -> Array:
    """Return the vectors that reached a component, each once, best first."""
    distinct: list[Array] = []
    for i in np.argsort(-values, kind="stable"):
        if 1 - values[i] > near or len(distinct) == limit:
            break
        if all(abs(np.vdot(other, a[i])) < 0.99 for other in distinct):
            distinct.append(a[i])
    return np.array(distinct).reshape(-1, a.shape[1])


def _deflated(
    left: Array, right: Array, inverse: Array, a: Array, degree: int, other_degree: int
) -> tuple[Array, Array, Array]:
    """Return the subspaces and the inverse core with the component a taken out.

    With the core S = left^* H conj(right), `inverse` is S^(-t); subtracting
    w a^n (a^n')^t lowers its rank by one, with null vectors u and v.
    """
    dim = len(a)
    left_power = (monomial_values(a[None], degree) * np.sqrt(multinomials(dim, degree)))[0]
    right_power = (monomial_values(a[None], other_degree) * np.sqrt(multinomials(dim, other_degree)))[0]
    u = inverse @ (right.conj().T @ right_power)
    v = (left.conj().T @ left_power) @ inverse
    keep_left, keep_right = _complement(u.conj()), _complement(v.conj())
    return left @ keep_left, right @ keep_right, keep_left.T @ inverse @ keep_right


def _complement(vector: Array) -> Array:
    """Return an orthonormal basis of the complement of a vector, by one Householder reflection."""
    n = len(vector)
    unit = unit_rows(vector[None])[0]
    # An entry that vanishes may have any phase; one below the normal numbers cannot be divided by.
    phase = unit[0] / abs(unit[0]) if abs(unit[0]) > TINY else 1.0
    mirror = unit.copy()
    mirror[0] += phase
    reflection = np.eye(n) - 2 * np.outer(mirror, mirror.conj()) / np.vdot(mirror, mirror).real
    return reflection[:, 1:]
