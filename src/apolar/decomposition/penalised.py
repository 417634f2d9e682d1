"""Levenberg-Marquardt steps with a penalty on the sizes of terms, which keeps them from running away."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from apolar._core.arrays import Array
from apolar.decomposition.gram import TangentGram
from apolar.tensor import SymmetricTensor

# The penalty falls from the first to the last of these, then to none.
FIRST_PENALTY, LAST_PENALTY = 3e-2, 1e-4
# Steps at most of a stage of the penalty, and of the last, without one.
STAGE_STEPS, LAST_STEPS = 8, 60
# A stage ends where a step lowers the cost by less than this part of it.
SLOW = 1e-3
# The cost is a difference of numbers near one: below this it is rounding.
ROUNDING = 1e-13


def penalised_descent(
    tensor: SymmetricTensor,
    vectors: Array,
    signs: Array,
    *,
    first_penalty: float = FIRST_PENALTY,
    n_stages: int = 8,
) -> Array:
    """Return vectors after steps with a penalty that falls in stages, then steps without one.

    Minimises |T - sum_i s_i (a_i . x)^d|^2 / 2 + penalty * sum_i |a_i|^d for a
    tensor scaled to norm 1. The sum of sizes is, at its least, the nuclear norm of the
    tensor: where there are more terms than variables, a start without a penalty nearly
    always ends in large terms that cancel each other.

    Parameters
    ----------
    tensor : SymmetricTensor
        Real, of order at least 3.
    vectors : ndarray, shape (rank, dim)
        Real.
    signs : ndarray, shape (rank,)
        +1 or -1, kept.
    first_penalty : float
    n_stages : int

    Returns
    -------
    vectors : ndarray, shape (rank, dim)
    """
    scale = tensor.norm()
    unit = scale ** (1 / tensor.order)
    moved = vectors / unit
    for penalty in np.geomspace(first_penalty, LAST_PENALTY, n_stages):
        moved = _stage(tensor, scale, moved, signs, float(penalty), STAGE_STEPS, 1e-2)
    return _stage(tensor, scale, moved, signs, 0.0, LAST_STEPS, 1e-4) * unit


class _PenalisedModel:
    """Cost, gradient and Gauss-Newton matrix at some vectors, by their inner products."""

    def __init__(
        self, tensor: SymmetricTensor, scale: float, vectors: Array, signs: Array, penalty: float
    ) -> None:
        order = tensor.order
        self.vectors, self.order, self.penalty = vectors, order, penalty
        self.gram = TangentGram(vectors, signs, order)
        self.squares = np.maximum(np.diag(self.gram.inner), np.finfo(float).tiny)
        contracted = tensor.contract_all(vectors, 1) / scale
        values = np.sum(contracted * vectors, axis=1)
        powers = np.sum(self.gram.first * self.gram.inner) / order
        self.cost = 0.5 * float(powers - 2 * signs @ values + 1.0)
        self.gradient = self.gram.first @ vectors - order * signs[:, None] * contracted
        if penalty:
            self.cost += penalty * float(np.sum(self.squares ** (order / 2)))
            self.gradient += penalty * order * self.squares[:, None] ** (order / 2 - 1) * vectors
        # Terms that are all but zero stay free to move.
        self.scales = np.repeat(order * np.maximum(self.squares, 1e-6) ** (order - 1), vectors.shape[1])

    def matrix(self) -> Array:
        """Return the Gauss-Newton matrix, with the Hessian of the penalty, which is convex."""
        vectors, order = self.vectors, self.order
        rank, dim = vectors.shape
        blocks = self.gram.matrix()
        if self.penalty:
            terms = np.arange(rank)
            outer = vectors[:, :, None] * vectors[:, None, :] / self.squares[:, None, None]
            sizes = self.penalty * order * self.squares ** (order / 2 - 1)
            blocks[terms, :, terms, :] += sizes[:, None, None] * (np.eye(dim) + (order - 2) * outer)
        return np.asarray(blocks.reshape(rank * dim, rank * dim))


def _stage(
    tensor: SymmetricTensor,
    scale: float,
    vectors: Array,
    signs: Array,
    penalty: float,
    max_iter: int,
    damping: float,
) -> Array:
    """Return the vectors after damped steps at one penalty."""
    model = _PenalisedModel(tensor, scale, vectors, signs, penalty)
    matrix = model.matrix()
    diagonal = np.arange(len(matrix))
    growth = 2.0
    for _ in range(max_iter):
        shift = damping * model.scales
        damped = matrix.copy()
        damped[diagonal, diagonal] += shift + ROUNDING
        try:
            factor = cho_factor(damped, overwrite_a=True, check_finite=False)
        except LinAlgError:
            damping = 4 * damping + 1e-12
            continue
        flat = -cho_solve(factor, model.gradient.ravel(), check_finite=False)
        predicted = 0.5 * float(flat @ (shift * flat - model.gradient.ravel()))
        step = flat.reshape(vectors.shape)
        moved = _PenalisedModel(tensor, scale, model.vectors + step, signs, penalty)
        gain = model.cost - moved.cost
        if not gain > 1e-4 * predicted:
            damping *= growth
            growth *= 2
            if damping > 1e8:
                break
            continue
        is_slow = gain < SLOW * model.cost
        model = moved
        if is_slow or model.cost < ROUNDING:
            break
        matrix = model.matrix()
        damping = max(damping * max(0.1, 1 - (2 * gain / predicted - 1) ** 3), 1e-12)
        growth = 2.0
    return model.vectors
