"""Mixtures whose components share one full covariance, from cumulants of order three and four.

A row is x = z + e: z is on r atoms of mean zero, e is normal. Cumulants above order two are those of z.
After whitening by the covariance of x, the atoms lie in p = r - 1 directions, and all others are standard
normal and independent of them. In these directions K = E[z z z] and the fourth cumulants Q are observed,
and M = E[z z^t], 0 < M < I, is the only unknown. Since 1 and the p coordinates span all functions on p + 1
atoms,

    K_ab^t M^-1 K_cd - M_ac M_bd - M_ad M_bc = Q_abcd    for all a, b, c, d,

which for p = 1 is 2 M^3 + Q M - K^2 = 0, with one root. Given M, atoms and weights come from M and K.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array
from apolar._core.levenberg_marquardt import LeastSquares
from apolar.recovery.equivariant import discrete_distribution
from apolar.recovery.gaussian_moments import Mixture, mixture_moments, monomial_table, normal_points
from apolar.recovery.moment_fit import MomentFit, fit_moments
from apolar.tensor.monomials import monomial_variables

__all__ = ["Cumulants", "tied_mixture"]

# Random subspaces from which the climb starts, beside those that the cumulants suggest.
N_RANDOM = 2
# Eigenvalues of M are at least this far from 0 and 1.
MARGIN = 1e-7
# Second moments from which the equations are solved, as multiples of the identity; the best few are used.
SHARES = (0.1, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99)
N_SOLVED = 2
# The smallest weight, and the smallest eigenvalue of the common covariance in whitened coordinates.
MIN_WEIGHT = 1e-3
MIN_EIGENVALUE = 1e-6
# Steps that turn the subspace towards that of the sampling errors.
N_TURNS = 2
MAX_SWEEPS = 40


@dataclass(frozen=True, eq=False)
class Cumulants:
    """Cumulants of rows in whitened coordinates: mean zero, covariance the identity.

    Attributes
    ----------
    third : ndarray, shape (n_features,) * 3
    fourth : ndarray, shape (n_features,) * 4
    """

    third: Array
    fourth: Array

    @classmethod
    def of_moments(cls, third: Array, fourth: Array) -> Cumulants:
        """Return the cumulants of whitened central moments."""
        return cls(third, fourth - gaussian_fourth(len(third)))

    def within(self, basis: Array) -> Cumulants:
        """Return the cumulants of coordinates along an orthonormal basis, shape (n_features, p)."""
        return Cumulants(_turn_tensor(self.third, basis), _turn_tensor(self.fourth, basis))

    def moments(self) -> Array:
        """Return the moments up to order four, in the order of `monomial_table`."""
        n_features = len(self.third)
        moments = np.zeros(len(monomial_table(n_features, 4)))
        moments[0] = 1
        tensors = np.eye(n_features), self.third, self.fourth + gaussian_fourth(n_features)
        for order, tensor in enumerate(tensors, 2):
            variables = monomial_variables(n_features, order)
            moments[monomial_table(n_features, 4).degree(order)] = tensor[tuple(variables.T)]
        return moments


def gaussian_fourth(n_features: int) -> Array:
    """Return the fourth moments of standard normal coordinates."""
    identity = np.eye(n_features)
    pairs = np.multiply.outer(identity, identity)
    return pairs + pairs.transpose(0, 2, 1, 3) + pairs.transpose(0, 2, 3, 1)


def tied_mixture(
    cumulants: Cumulants,
    n_components: int,
    n_rows: float,
    rng: np.random.Generator,
    *,
    refine: bool = True,
) -> tuple[Mixture, float]:
    """Return the mixture of whitened cumulants, and the largest standard error of a mean.

    Parameters
    ----------
    cumulants : Cumulants
    n_components : int
        At least 2, and at most n_features + 1.
    n_rows : float
        Infinite if there are no sampling errors.
    rng : Generator
    refine : bool, default=True
        Weight the moments by their sampling errors.

    Returns
    -------
    mixture : Mixture
        In whitened coordinates, with means of mean zero.
    error : float
        In deviations of its component; zero if the moments were not weighted.
    """
    bases = _signal_subspaces(cumulants, n_components - 1, rng)
    found = [_inside(cumulants.within(basis), len(basis), n_rows) for basis in bases]
    best = max(range(len(bases)), key=lambda i: found[i][1])
    mixture, basis = found[best][0], bases[best]
    if not refine:
        return _in_all_directions(mixture, basis), 0.0
    return _refine(cumulants, basis, mixture, n_rows)


# --- the directions in which components differ ---------------------------------------------


def _signal_subspaces(cumulants: Cumulants, n_signal: int, rng: np.random.Generator) -> list[Array]:
    """Return candidates for the directions that are not normal, as orthonormal bases."""
    third, fourth = cumulants.third, cumulants.fourth
    n_features = len(third)
    if n_signal >= n_features:
        return [np.eye(n_features)]
    flat3, flat4 = third.reshape(n_features, -1), fourth.reshape(n_features, -1)
    contracted = np.einsum("abcc->ab", fourth)
    skewness = np.einsum("abb->a", third)
    matrices = (
        flat3 @ flat3.T,
        flat3 @ flat3.T + flat4 @ flat4.T / n_features,
        -contracted,
        np.outer(skewness, skewness) - contracted,
    )
    starts = [np.linalg.eigh(matrix)[1][:, -n_signal:] for matrix in matrices]
    starts += [np.linalg.qr(rng.standard_normal((n_features, n_signal)))[0] for _ in range(N_RANDOM)]
    found: list[Array] = []
    for start in starts:
        basis = _by_clusters(cumulants, start)
        if all(np.linalg.norm(basis.T @ other) ** 2 < n_signal - 1e-2 for other in found):
            found.append(basis)
    return found


def _by_clusters(cumulants: Cumulants, basis: Array) -> Array:
    """Climb |K3|^2 less the sum of K4_aabb: that of clusters is negative, that of outliers positive."""
    third, fourth = cumulants.third, cumulants.fourth
    n_features, n_signal = basis.shape

    def value_of(basis: Array) -> float:
        projector = basis @ basis.T
        squares = np.sum(_turn_tensor(third, basis) ** 2)
        return float(squares - np.sum(projector * np.tensordot(fourth, projector, 2)))

    value = value_of(basis)
    for _ in range(MAX_SWEEPS):
        along = np.tensordot(np.tensordot(third, basis, (2, 0)), basis, (1, 0)).reshape(n_features, -1)
        slope = 3 * along @ along.T - 2 * np.tensordot(fourth, basis @ basis.T, 2)
        shift, trial, new = 0.0, basis, -np.inf
        for _ in range(6):
            # A shift along the subspace shortens the step.
            trial = np.linalg.eigh(slope + shift * basis @ basis.T)[1][:, -n_signal:]
            new = value_of(trial)
            if new > value:
                break
            shift = 2 * shift + float(np.linalg.norm(slope, 2))
        if not new > value + 1e-5 * abs(value):
            break
        basis, value = trial, new
    return basis


# --- the mixture in these directions ----------------------------------------------------------


def _second_moments(third: Array, fourth: Array) -> Array:
    """Return M = E[z z^t] by its equations, in coordinates where the covariance of x is the identity."""
    n = len(third)
    i, j = np.triu_indices(n)
    basis = np.zeros((len(i), n, n))
    each = np.arange(len(i))
    basis[each, i, j] = basis[each, j, i] = 1

    def matrix(flat: Array) -> Array:
        return np.tensordot(flat, basis, 1)

    is_square = (i == j)[:, None, None]

    def residuals(flat: Array) -> tuple[Array, Array] | None:
        second = matrix(flat)
        values = np.linalg.eigvalsh(second)
        if not (values[0] > MARGIN and values[-1] < 1 - MARGIN):
            return None
        solved = np.linalg.solve(second, third.reshape(n, -1))
        pulled = np.tensordot(third, solved.reshape(n, n, n), (2, 0))
        pairs = np.multiply.outer(second, second)
        errors = pulled - fourth - pairs.transpose(0, 2, 1, 3) - pairs.transpose(0, 2, 3, 1)
        # The derivative of the inverse, by an entry and its mirror image.
        outer = solved[i][:, :, None] * solved[j][:, None, :]
        by_inverse = np.where(is_square, outer, outer + outer.swapaxes(1, 2)).reshape(len(i), n, n, n, n)
        by_pairs = basis[:, :, None, :, None] * second[None, None, :, None, :]
        by_pairs = by_pairs + second[None, :, None, :, None] * basis[:, None, :, None, :]
        derivatives = -(by_inverse + by_pairs + by_pairs.swapaxes(3, 4))
        return errors.ravel(), derivatives.reshape(len(basis), -1).T

    problems = [LeastSquares(residuals, share * np.eye(n)[i, j]) for share in SHARES]
    problems.sort(key=lambda problem: problem.cost)
    solved = [problem.minimise(max_iter=100, min_relative_gain=1e-14) for problem in problems[:N_SOLVED]]
    return matrix(min(solved, key=lambda problem: problem.cost).point)


def _inside(cumulants: Cumulants, n_features: int, n_rows: float) -> tuple[Mixture, float]:
    """Return the mixture of coordinates in the subspace, and its score.

    The score is what a row gains on one Gaussian, in nats, if the mixture is true, less a penalty for small
    weights: among few rows there is always a direction in which some are far out.
    """
    third = cumulants.third
    second = _second_moments(third, cumulants.fourth)
    weights, atoms = discrete_distribution(second, third)
    penalty = n_features / n_rows * float(np.log(len(weights) * weights).sum())
    score = _gain(Mixture(weights, atoms, _rest(second, len(weights)))) + penalty
    weights = np.maximum(weights, MIN_WEIGHT)
    weights = weights / weights.sum()
    atoms = atoms - weights @ atoms
    return Mixture(weights, atoms, _rest((weights * atoms.T) @ atoms, len(weights))), score


def _rest(second: Array, n_components: int) -> Array:
    """Return I - M for each component, with eigenvalues above zero."""
    values, vectors = np.linalg.eigh(np.eye(len(second)) - second)
    covariance = (vectors * np.maximum(values, MIN_EIGENVALUE)) @ vectors.T
    return np.repeat(covariance[None], n_components, axis=0)


def _gain(mixture: Mixture) -> float:
    """Return E[log p(x) - log N(x; 0, I)] for x of the mixture, by a fixed rule of points."""
    n_components, n_features = mixture.means.shape
    root = np.linalg.cholesky(mixture.covariances[0])
    points = (normal_points(n_features) @ root.T)[None] + mixture.means[:, None]
    x = points.reshape(-1, n_features)
    whitened = np.linalg.solve(root, np.concatenate([x, mixture.means]).T).T
    x_white, means_white = whitened[: len(x)], whitened[len(x) :]
    squares = ((x_white[:, None] - means_white) ** 2).sum(axis=2)
    logits = np.log(mixture.weights) - 0.5 * squares - np.log(np.diag(root)).sum()
    top = logits.max(axis=1)
    log_ratio = top + np.log(np.exp(logits - top[:, None]).sum(axis=1)) + 0.5 * (x**2).sum(axis=1)
    return float(mixture.weights @ log_ratio.reshape(n_components, -1).mean(axis=1))


# --- weighting by sampling errors ---------------------------------------------------------------


def _refine(cumulants: Cumulants, basis: Array, mixture: Mixture, n_rows: float) -> tuple[Mixture, float]:
    """Return the mixture in all directions, after subspace and parameters were fitted to the moments."""
    n_features, n_signal = basis.shape
    within = cumulants.within(basis)
    for _ in range(N_TURNS if n_features > n_signal and np.isfinite(n_rows) else 0):
        mixture = _fit_weighted(within, mixture, n_rows).mixture
        turned = _turned_subspace(cumulants, basis, within, mixture)
        across = basis.T @ turned
        matrices = across.T @ mixture.covariances @ across
        mixture, basis = Mixture(mixture.weights, mixture.means @ across, matrices), turned
        within = cumulants.within(basis)
        if np.linalg.eigvalsh(mixture.covariances[0])[0] < MIN_EIGENVALUE:
            mixture, _ = _inside(within, n_features, n_rows)
    fit = _fit_weighted(within, mixture, n_rows)
    return _in_all_directions(fit.mixture, basis), fit.mean_error


def _in_all_directions(mixture: Mixture, basis: Array) -> Mixture:
    """Return the mixture of all whitened coordinates, from that of those along a basis."""
    weights = mixture.weights
    atoms = mixture.means - weights @ mixture.means
    second = (weights * atoms.T) @ atoms
    largest = float(np.linalg.eigvalsh(second)[-1])
    if largest > 1 - MIN_EIGENVALUE:
        factor = (1 - MIN_EIGENVALUE) / largest
        atoms, second = atoms * np.sqrt(factor), second * factor
    covariance = np.eye(len(basis)) - basis @ second @ basis.T
    return Mixture(weights, atoms @ basis.T, np.repeat(covariance[None], len(weights), axis=0))


def _fit_weighted(within: Cumulants, mixture: Mixture, n_rows: float) -> MomentFit:
    return fit_moments("tied", mixture, within.moments()[1:], 4, n_rows)


def _turned_subspace(cumulants: Cumulants, basis: Array, within: Cumulants, mixture: Mixture) -> Array:
    """Return the subspace after one step of generalised least squares.

    Directions across it are normal and independent of those inside: E[n y y] and the cumulants of n y y y are
    zero for the true subspace, and what they are observed to be says how to turn it.
    """
    n_signal = basis.shape[1]
    table = monomial_table(n_signal, 3)
    used = np.arange(table.starts[2], len(table))
    moments = mixture_moments(mixture, 6)
    covariance = moments[table.products[np.ix_(used, used)]] - np.outer(moments[used], moments[used])
    linear = moments[table.products[np.ix_(used, np.arange(1, 1 + n_signal))]]
    covariance = covariance - linear @ linear.T
    covariance += 1e-9 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    # An orthonormal basis of the other directions.
    across = np.linalg.svd(basis, full_matrices=True)[0][:, n_signal:]
    third = np.tensordot(np.tensordot(cumulants.third, basis, (2, 0)), basis, (1, 0))
    fourth = np.tensordot(cumulants.fourth, basis, (3, 0))
    fourth = np.tensordot(np.tensordot(fourth, basis, (2, 0)), basis, (1, 0))
    pairs, triples = monomial_variables(n_signal, 2), monomial_variables(n_signal, 3)
    outside = np.hstack([third[:, pairs[:, 0], pairs[:, 1]], fourth[:, *triples.T]])
    inside = np.hstack([within.third[:, pairs[:, 0], pairs[:, 1]], within.fourth[:, *triples.T]])
    weighted = np.linalg.solve(covariance, inside.T)
    normal = inside @ weighted + 1e-12 * np.eye(n_signal)
    slopes = np.linalg.solve(normal, weighted.T @ (across.T @ outside).T)
    return np.linalg.qr(basis + across @ slopes.T)[0]


def _turn_tensor(tensor: Array, basis: Array) -> Array:
    """Return a tensor in the coordinates of a basis, all slots."""
    for _ in range(tensor.ndim):
        tensor = np.tensordot(tensor, basis, axes=(0, 0))
    return tensor
