"""The subspace power method: the components one after another, in tensors of any order."""

import numpy as np

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.ranks import HankelSVD
from apolar.tensor.monomials import monomial_values, multinomials, product_positions

# Damping of the first step of a climb, and the factor by which it falls and grows.
FIRST_DAMPING, DAMPING_FACTOR = 0.1, 4.0
# No step goes up at this damping: the vector stands at a maximum, to rounding.
MAX_DAMPING = 1e6
# A climb ends with a step shorter than this: the next one would have the square of its length.
MIN_STEP = 1e-6
# The distance to one below which a maximum may be a component, and that which rounding leaves.
NEAR, ROUNDING = 1e-2, 1e-12
# Where powers all but fill the space, others than the components come within 1e-8: maxima wait there that
# are this many times farther from one than the best.
SPREAD = 100.0
# Components may be terms of one decomposition if their products in the inverse core are smaller than this.
SUITABLE = 0.1
# Steps of a climb, and those after which it ends if half of its vectors have ended.
MAX_STEPS, PATIENCE = 100, 10
# Numbers in the slices of one batch of vectors, at most.
BATCH_SIZE = 2**22


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

    def ascent(self, a: Array) -> tuple[Array, Array, Array]:
        """Return the objective at many unit vectors, with its derivatives.

        F(a) is the squared length of the projection of a^n onto the subspace; at
        most 1, and 1 exactly at the components.

        Returns
        -------
        slices : ndarray, shape (n_vectors, dim, rank)
            The basis, contracted with a^(n-1).
        gradient : ndarray, shape (n_vectors, dim)
            V(a^(n-1)) V(a^n)^*.
        values : ndarray, shape (n_vectors,)
            F.
        """
        contracted = monomial_values(a, self.degree - 1) @ self.flat
        slices = contracted.reshape(len(a), self.dim, -1)
        coordinates = a[:, None, :] @ slices
        gradient = (slices.conj() @ coordinates.swapaxes(1, 2))[:, :, 0]
        return slices, gradient, np.sum(gradient * a.conj(), axis=1).real

    def step(self, a: Array, at: list[Array], damping: Array) -> Array:
        """Return the damped Gauss-Newton steps towards a power in the subspace, across the vectors.

        To first order, (a + u)^n is at the squared distance
        ``|a^n + n a^(n-1) u|^2 - |projection|^2``, which is least where
        (I - n S^* S^t) u is the gradient, S the slices. Near a component the
        steps converge quadratically, where power steps take hundreds if the
        components are correlated or nearly fill the space.
        """
        slices, gradient, values = at
        identity = np.eye(self.dim)
        along = a[:, :, None] * a[:, None, :].conj()
        across = identity - along
        curvature = identity - self.degree * (slices.conj() @ slices.swapaxes(1, 2))
        matrix = across @ curvature @ across + along + damping[:, None, None] * identity
        slope = gradient - values[:, None] * a
        return np.linalg.solve(matrix, slope[:, :, None])[:, :, 0]


def power_method(flattening: HankelSVD, rank: int, is_complex: bool, rng: np.random.Generator) -> Array:
    """Return the points of a decomposition, by the subspace power method [kileel2019].

    Climbs to components from a batch of starts at once, takes the distinct
    ones that it reaches, removes them from the subspace, and goes on until
    none is left. The climbs are those of the paper in what they maximise, and
    its deflation is done for many components at once; steps are of damped
    Gauss-Newton type.

    Parameters
    ----------
    flattening : HankelSVD
        Of the squarest Hankel matrix.
    rank : int
        At most that of the matrix.
    is_complex : bool
        Whether the points may be complex.
    rng : numpy.random.Generator

    Returns
    -------
    points : ndarray, shape (rank, dim)
        Of unit norm.
    """
    dim, degree = flattening.dim, flattening.row_degree
    dtype = np.dtype(np.complex128 if is_complex else np.float64)
    left, right = flattening.left[:, :rank].astype(dtype), flattening.right[:, :rank].astype(dtype)
    inverse = np.diag(1 / flattening.singular_values[:rank]).astype(dtype)
    components = np.zeros((0, dim), dtype=dtype)
    max_steps, n_tries = MAX_STEPS, 1
    while len(components) < rank:
        n_left = rank - len(components)
        # Half as many as there are components: of more, too many climb to the same.
        n_starts = int(np.clip(n_left // 2, 6, max(BATCH_SIZE // (dim * n_left), 6)))
        starts = gaussian_draws(n_starts, dim, is_complex, rng)
        climbed, values, arrived = _climb(_Subspace(left, dim, degree), unit_rows(starts), max_steps)
        near = float(np.clip(SPREAD * (1 - values[arrived].max(initial=0.0)), 10 * ROUNDING, NEAR))
        accepted = _distinct(climbed[arrived], values[arrived], n_left, near)
        n_tries = 1 if len(accepted) else n_tries + 1
        if n_tries == 2 and max_steps == MAX_STEPS:
            continue
        if len(accepted):
            accepted = _of_one_sum(left, right, inverse, accepted, degree, flattening.order - degree)
        else:
            # No start reaches a component: take what is nearest to one, and leave the rest to the refinement.
            # The tensor is not near any of this rank: from here on climbs are short and give several at once.
            accepted = _distinct(climbed, values, max(1, n_left // 16), near=np.inf)
            max_steps = PATIENCE
        components = np.concatenate([components, accepted])
        if len(components) < rank:
            left, right, inverse = _deflate(left, right, inverse, accepted, degree, flattening.order - degree)
    return components


def points_in_span(
    basis: Array, dim: int, degree: int, n_draws: int, is_complex: bool, rng: np.random.Generator
) -> Array:
    """Return points whose powers lie in a span, those to which random starts climb.

    Parameters
    ----------
    basis : ndarray, shape (n_monomials(dim, degree), n)
        Orthonormal, in weighted coordinates.
    dim, degree : int
    n_draws : int
    is_complex : bool
    rng : numpy.random.Generator

    Returns
    -------
    points : ndarray, shape (n_points, dim)
        Of unit norm; a point may come several times.
    """
    subspace = _Subspace(basis.astype(np.complex128) if is_complex else basis, dim, degree)
    starts = unit_rows(gaussian_draws(n_draws, dim, is_complex, rng))
    points, values, arrived = _climb(subspace, starts, MAX_STEPS)
    points = points[arrived & (1 - values <= ROUNDING)]
    # To rounding: a climb ends before its last step. Along a curve of such points the curvature vanishes, and
    # damping keeps the slope, which is rounding, from a long step there.
    for _ in range(2 if len(points) else 0):
        at = list(subspace.ascent(points))
        points = unit_rows(points + subspace.step(points, at, np.full(len(points), ROUNDING**0.5)))
    return points


def gaussian_draws(n_draws: int, dim: int, is_complex: bool, rng: np.random.Generator) -> Array:
    """Return vectors whose directions are drawn evenly, shape (n_draws, dim)."""
    draws = rng.standard_normal((n_draws, dim))
    return draws + 1j * rng.standard_normal(draws.shape) if is_complex else draws


def _climb(subspace: _Subspace, a: Array, max_steps: int) -> tuple[Array, Array, Array]:
    """Return where the steps lead from many unit vectors, the values there, and which converged."""
    end, values = a.copy(), np.zeros(len(a))
    arrived = np.zeros(len(a), dtype=bool)
    active = np.arange(len(a))
    here = list(subspace.ascent(a))
    damping = np.full(len(a), FIRST_DAMPING)
    for n_steps in range(1, max_steps + 1):
        step = subspace.step(a, here, damping)
        moved = unit_rows(a + step)
        there = subspace.ascent(moved)
        up = there[2] >= here[2] - ROUNDING
        for old, new in zip((a, *here), (moved, *there), strict=True):
            old[up] = new[up]
        # At a double point the curvature vanishes: without damping, steps there are rounding, or singular.
        damping = np.maximum(damping * np.where(up, 1 / DAMPING_FACTOR, DAMPING_FACTOR), ROUNDING)
        done = (up & (np.linalg.norm(step, axis=1) <= MIN_STEP)) | (damping > MAX_DAMPING)
        end[active], values[active], arrived[active] = a, here[2], done
        # Slow ones are left: without the components of the others they, or new starts, climb faster.
        if done.all() or (n_steps >= PATIENCE and 2 * np.count_nonzero(arrived) >= len(end)):
            break
        if done.any():
            active, a, damping, *here = (part[~done] for part in (active, a, damping, *here))
    return end, values, arrived


def _distinct(a: Array, values: Array, limit: int, near: float) -> Array:
    """Return the vectors that reached a component, each once, best first."""
    best_first = np.argsort(-values, kind="stable")
    a = a[best_first[1 - values[best_first] <= near]]
    same = np.abs(a.conj() @ a.T) >= 0.99
    distinct: list[int] = []
    for i in range(len(a)):
        if len(distinct) == limit:
            break
        if not same[i, distinct].any():
            distinct.append(i)
    return a[distinct]


def _coordinates(
    left: Array, right: Array, components: Array, degree: int, other_degree: int
) -> tuple[Array, Array]:
    """Return the powers of components in the bases of both sides, one per column."""
    dim = components.shape[1]
    left_powers = monomial_values(components, degree) * np.sqrt(multinomials(dim, degree))
    right_powers = monomial_values(components, other_degree) * np.sqrt(multinomials(dim, other_degree))
    return left.conj().T @ left_powers.T, right.conj().T @ right_powers.T


def _of_one_sum(
    left: Array, right: Array, inverse: Array, components: Array, degree: int, other_degree: int
) -> Array:
    """Return those components that may be terms of one decomposition: the first, and others that suit it.

    The powers of all points of a curve may lie in the subspace. Those of one decomposition are orthogonal in
    the inverse core.
    """
    x, y = _coordinates(left, right, components, degree, other_degree)
    products = np.abs(x.T @ inverse @ y)
    sizes = np.sqrt(np.diag(products))
    suits = products <= SUITABLE * sizes[:, None] * sizes
    chosen: list[int] = []
    for i in range(len(components)):
        if suits[i, chosen].all() and suits[chosen, i].all():
            chosen.append(i)
    return components[chosen]


def _deflate(
    left: Array, right: Array, inverse: Array, components: Array, degree: int, other_degree: int
) -> tuple[Array, Array, Array]:
    """Return the subspaces and the inverse core with some components taken out.

    With the core S = left^* H conj(right), `inverse` is S^(-t); with x and y
    the coordinates of the components' powers, subtracting x w y^t, where w is
    the inverse of y^t S^-1 x, lowers the rank of S by as many as there are,
    with the null vectors S^-t y and S^-1 x (Wedderburn).
    """
    n_out = len(components)
    x, y = _coordinates(left, right, components, degree, other_degree)
    u, v = inverse @ y, inverse.T @ x
    keep_left = np.linalg.qr(u.conj(), mode="complete")[0][:, n_out:]
    keep_right = np.linalg.qr(v.conj(), mode="complete")[0][:, n_out:]
    return left @ keep_left, right @ keep_right, keep_left.T @ inverse @ keep_right
