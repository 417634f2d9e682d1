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

import numpy as np

from apolar._core.arrays import Array
from apolar._core.levenberg_marquardt import LeastSquares
from apolar.mixture.parameters import MixtureParameters
from apolar.moments import CentralMoments
from apolar.recovery.equivariant import MIN_SIGNAL, discrete_distribution
from apolar.recovery.moment_fit import MomentFit, component_moments, observed_moments, of_degree
from apolar.tensor.monomials import monomial_variables, product_positions

# Steps of the climb to the directions that are not normal.
MAX_SWEEPS = 60
# Second moments from which the equations are solved, as multiples of the identity; the best is used.
SHARES = (0.1, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99)


def tied_mixture(
    moments: CentralMoments, n_components: int, *, refine: bool = True
) -> tuple[MixtureParameters, float]:
    """Return the mixture of moments up to order four, and the largest standard error of a mean.

    Parameters
    ----------
    moments : CentralMoments
        Of columns with variance one.
    n_components : int
        At least 2, and at most n_features + 1.
    refine : bool, default=True
        Weight the moments by their sampling errors.

    Returns
    -------
    mixture : MixtureParameters
        Of the centred columns.
    error : float
        In deviations of its component; zero if the moments were not weighted.
    """
    values, vectors = np.linalg.eigh(moments.covariance)
    whitened, back = moments.mapped(vectors / np.sqrt(values)), (vectors * np.sqrt(values)).T
    basis = _signal_subspace(whitened, n_components - 1)
    mixture, error = _inside(whitened.mapped(basis)), 0.0
    if refine and len(basis) > n_components - 1:
        mixture = _fit_weighted(whitened.mapped(basis), mixture).mixture
        turned = _turn_subspace(whitened, basis, mixture)
        across = basis.T @ turned
        matrices = across.T @ mixture.covariances @ across
        mixture, basis = MixtureParameters(mixture.weights, mixture.means @ across, matrices), turned
        if np.linalg.eigvalsh(mixture.covariances[0])[0] < MIN_SIGNAL:
            mixture = _inside(whitened.mapped(basis))
    if refine:
        fit = _fit_weighted(whitened.mapped(basis), mixture)
        mixture, error = fit.mixture, fit.mean_error
    weights, atoms = mixture.weights, mixture.means - mixture.weights @ mixture.means
    second = (weights * atoms.T) @ atoms
    shrunk = min(1.0, (1 - MIN_SIGNAL) / float(np.linalg.eigvalsh(second)[-1]))
    covariance = np.eye(len(basis)) - shrunk * basis @ second @ basis.T
    matrices = np.repeat((back.T @ covariance @ back)[None], n_components, axis=0)
    return MixtureParameters(weights, np.sqrt(shrunk) * atoms @ basis.T @ back, matrices), error


def _fit_weighted(within: CentralMoments, mixture: MixtureParameters) -> MomentFit:
    return observed_moments(within, 4).fit("tied", mixture)


def _cumulants(whitened: CentralMoments) -> tuple[Array, Array]:
    """Return the cumulants of order three and four, as full arrays."""
    identity = np.eye(len(whitened.mean))
    pairs = np.multiply.outer(identity, identity)
    normal = pairs + pairs.transpose(0, 2, 1, 3) + pairs.transpose(0, 2, 3, 1)
    return whitened.third.to_dense(), whitened.tensors[1].to_dense() - normal


# --- the directions in which components differ ---------------------------------------------


def _signal_subspace(whitened: CentralMoments, n_signal: int) -> Array:
    """Return the directions that are not normal, as an orthonormal basis.

    They make |K3|^2 less the sum of K4_aabb largest: that of clusters is negative, that of outliers positive.
    """
    third, fourth = _cumulants(whitened)
    n_features = len(third)
    if n_signal >= n_features:
        return np.eye(n_features)
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
    climbed = [_climb(third, fourth, start) for start in starts]
    return max(climbed, key=lambda found: found[1])[0]


def _climb(third: Array, fourth: Array, basis: Array) -> tuple[Array, float]:
    """Return a subspace where the contrast is largest nearby, and its contrast."""
    n_features, n_signal = basis.shape

    def contrast(basis: Array) -> tuple[float, Array]:
        """Return the contrast, and the matrix whose leading eigenvectors raise it."""
        along = np.einsum("abc,bi,cj->aij", third, basis, basis, optimize=True).reshape(n_features, -1)
        of_fourth = np.tensordot(fourth, basis @ basis.T, 2)
        value = np.sum((basis.T @ along) ** 2) - np.sum(basis @ basis.T * of_fourth)
        return float(value), 3 * along @ along.T - 2 * of_fourth

    (value, slope), shift = contrast(basis), 0.0
    for _ in range(MAX_SWEEPS):
        # A shift along the subspace shortens the step.
        trial = np.linalg.eigh(slope + shift * basis @ basis.T)[1][:, -n_signal:]
        new, new_slope = contrast(trial)
        if not new > value:
            shift = 2 * shift + float(np.linalg.norm(slope, 2))
            continue
        is_small = new - value < 1e-5 * abs(value)
        basis, value, slope = trial, new, new_slope
        if is_small:
            break
    return basis, value


# --- the mixture in these directions ----------------------------------------------------------


def _second_moments(third: Array, fourth: Array) -> Array:
    """Return M = E[z z^t] by its equations, in coordinates where the covariance of x is the identity."""
    n = len(third)
    i, j = np.triu_indices(n)
    each = np.arange(len(i))
    basis = np.zeros((len(i), n, n))
    basis[each, i, j] = basis[each, j, i] = 1
    halves = np.where(i == j, 0.5, 1.0)[:, None, None, None, None]

    def residuals(flat: Array) -> tuple[Array, Array] | None:
        second = np.tensordot(flat, basis, 1)
        values = np.linalg.eigvalsh(second)
        if not 0 < values[0] <= values[-1] < 1:
            return None
        solved = np.linalg.solve(second, third.reshape(n, -1)).reshape(n, n, n)
        pairs = np.multiply.outer(second, second)
        errors = np.tensordot(third, solved, (2, 0)) - fourth - pairs.transpose(0, 2, 1, 3)
        errors = errors - pairs.transpose(0, 2, 3, 1)
        # The derivative of the inverse, by an entry and its mirror image.
        outer = halves * solved[i][:, :, :, None, None] * solved[j][:, None, None]
        by_pairs = (
            basis[:, :, None, :, None] * second[:, None] + second[:, None, :, None] * basis[:, None, :, None]
        )
        derivatives = -(outer + outer.transpose(0, 3, 4, 1, 2) + by_pairs + by_pairs.swapaxes(3, 4))
        return errors.ravel(), derivatives.reshape(len(basis), -1).T

    problems = [LeastSquares(residuals, share * np.eye(n)[i, j]) for share in SHARES]
    best = min(problems, key=lambda problem: problem.cost).minimise(max_iter=100, min_relative_gain=1e-14)
    return np.tensordot(best.point, basis, 1)


def _inside(within: CentralMoments) -> MixtureParameters:
    """Return the mixture of coordinates in the subspace."""
    third, fourth = _cumulants(within)
    weights, atoms = discrete_distribution(_second_moments(third, fourth), third)
    weights = np.maximum(weights, 1 / within.n_rows)
    weights = weights / weights.sum()
    atoms = atoms - weights @ atoms
    values, vectors = np.linalg.eigh(np.eye(len(third)) - (weights * atoms.T) @ atoms)
    covariance = (vectors * np.maximum(values, MIN_SIGNAL)) @ vectors.T
    return MixtureParameters(weights, atoms, np.repeat(covariance[None], len(weights), axis=0))


# --- the subspace of the sampling errors ----------------------------------------------------------


def _turn_subspace(whitened: CentralMoments, basis: Array, mixture: MixtureParameters) -> Array:
    """Return the subspace after one step of generalised least squares.

    Directions across it are normal and independent of those inside: E[n y y] and the cumulants of n y y y are
    zero for the true subspace, and what they are observed to be says how to turn it.
    """
    n_signal = basis.shape[1]
    used = np.r_[of_degree(n_signal, 2), of_degree(n_signal, 3)]
    moments = (mixture.weights @ component_moments(mixture, 6))[product_positions(n_signal + 1, 3, 3)]
    linear = moments[used, 1 : 1 + n_signal]
    covariance = (
        moments[np.ix_(used, used)] - np.outer(moments[used, 0], moments[used, 0]) - linear @ linear.T
    )
    covariance += 1e-9 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    third, fourth = _cumulants(whitened)
    pairs, triples = monomial_variables(n_signal, 2), monomial_variables(n_signal, 3)
    third = np.einsum("abc,bi,cj->aij", third, basis, basis, optimize=True)[:, *pairs.T]
    fourth = np.einsum("abcd,bi,cj,dk->aijk", fourth, basis, basis, basis, optimize=True)[:, *triples.T]
    observed = np.hstack([third, fourth])
    # An orthonormal basis of the other directions.
    across = np.linalg.svd(basis, full_matrices=True)[0][:, n_signal:]
    weighted = np.linalg.solve(covariance, (basis.T @ observed).T)
    normal = basis.T @ observed @ weighted + 1e-12 * np.eye(n_signal)
    slopes = np.linalg.solve(normal, weighted.T @ (across.T @ observed).T)
    return np.linalg.qr(basis + across @ slopes.T)[0]
