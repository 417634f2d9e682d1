"""Full covariances: any positive definite matrix per component (mclust's VVV)."""

import functools
from typing import Any

import numpy as np
from scipy.special import gammaln

from apolar._core.arrays import Array, IndexArray
from apolar._core.constants import MIN_WEIGHT, SCATTER_ROUNDING
from apolar._core.namespaces import write_pairs
from apolar.mixture import compiled_steps
from apolar.mixture.families.base import LOG_2PI, Family, Invariance
from apolar.mixture.families.diagonal import Diagonal
from apolar.mixture.families.spherical import Spherical
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior, PriorTerms
from apolar.mixture.stats import SufficientStats

# The scale of the default prior, relative to that of the other families.
PRIOR_SCALE = 0.01
# The rounding error of a matrix product, relative to its largest eigenvalue, with a margin.
ROUNDING = 1e-15
# How far the two triangles of a covariance may differ by rounding, relative to its diagonal, with a margin.
ASYMMETRY = 1e-8


@functools.lru_cache(maxsize=64)
def _upper(n_features: int) -> tuple[IndexArray, IndexArray, Array]:
    """Return rows and columns of the upper triangle, and how often each entry occurs in the matrix."""
    rows, columns = np.triu_indices(n_features)
    return rows, columns, np.where(rows == columns, 1.0, 2.0)


def _square(compact: Array, n_features: int) -> Array:
    """Return symmetric matrices from their upper triangles."""
    rows, columns, _ = _upper(n_features)
    out = np.empty((*compact.shape[:-1], n_features, n_features))
    out[..., rows, columns] = compact
    out[..., columns, rows] = compact
    return out


class Full(Family):
    """Components of any covariance."""

    name = "full"
    code = "VVV"
    words = "stretched in any direction, each in its own way"
    invariance = Invariance.LINEAR
    n_axes = 2
    # Rounding in the transformation to the units of the data and back is relative to the largest eigenvalue.
    min_variance = 1e-8

    @property
    def untied(self) -> Family:
        return self

    @property
    def without_correlations(self) -> Family:
        return Diagonal()

    @property
    def as_spherical(self) -> Family:
        return Spherical()

    def n_quadratics(self, n_features: int) -> int:
        return n_features * (n_features + 1) // 2

    def write_quadratics(self, x: Any, out: Any) -> None:
        write_pairs(x, out)

    def natural(self, parameters: WhitenedParameters) -> Array:
        known = compiled_steps.natural(self, parameters)
        if known is not None:
            return known
        weights, means = parameters.weights, parameters.means
        n_features = means.shape[-1]
        rows, columns, counts = _upper(n_features)
        covariances = self.per_component(parameters.covariances)
        precisions, log_dets = self.inverses(covariances)
        linear = (precisions @ means[..., None])[..., 0]
        out = np.empty((*weights.shape, self.n_stats(n_features)))
        out[..., 0] = (
            np.log(np.maximum(weights, MIN_WEIGHT))
            - 0.5 * (n_features * LOG_2PI + log_dets)
            - 0.5 * np.einsum("...i,...i->...", linear, means)
        )
        out[..., 1 : 1 + n_features] = linear
        out[..., 1 + n_features :] = -0.5 * counts * precisions[..., rows, columns]
        return out

    def scatter(self, stats: SufficientStats) -> Array:
        counts = np.maximum(stats.counts, MIN_WEIGHT)
        second = _square(stats.second, stats.n_features)
        rounding = SCATTER_ROUNDING * np.eye(stats.n_features) * second
        return second - self.between(stats.first, 1 / counts) + rounding

    def identity(self, n_features: int) -> Array:
        return np.eye(n_features)

    def between(self, offsets: Array, factors: Array) -> Array:
        return (factors[..., None] * offsets)[..., :, None] * offsets[..., None, :]

    def divisor(self, weight: Array, n_features: int) -> Array:
        return weight

    def prior_terms(self, prior: Prior, n_components: int, n_features: int) -> PriorTerms:
        shrinkage, dof, scale = prior.scaled(n_components, n_features)
        # The prior of the other families would widen clusters that are thin in some direction, and narrow all
        # clusters if there are many columns. By default it counts as one row, of a hundredth of that scale.
        scale = PRIOR_SCALE * scale if prior.scale is None else scale
        divisor = 1.0 if prior.dof is None else dof + n_features + 1
        return PriorTerms(shrinkage, scale * np.eye(n_features), divisor, 1.0)

    def floored(self, covariances: Array) -> Array:
        # Usually all are positive definite, and Cholesky, which is faster, is enough to see that.
        try:
            factors = np.linalg.cholesky(covariances)
            if np.all(np.diagonal(factors, axis1=-2, axis2=-1) ** 2 > self.min_variance):
                return covariances
        except np.linalg.LinAlgError:
            pass
        if not np.all(np.isfinite(covariances)):
            return covariances
        values, vectors = np.linalg.eigh(covariances)
        # Eigenvalues below the rounding of the largest could become negative in the product.
        least = np.maximum(self.min_variance, ROUNDING * values.shape[-1] * values[..., -1:])
        return (vectors * np.maximum(values, least)[..., None, :]) @ np.swapaxes(vectors, -1, -2)

    def raise_to(self, covariances: Array, least: Array) -> Array:
        try:
            np.linalg.cholesky(covariances - least)
            return covariances
        except np.linalg.LinAlgError:
            pass
        root = self.root(covariances)
        inverse = np.linalg.inv(root)
        values, vectors = np.linalg.eigh(inverse @ least @ np.swapaxes(inverse, -1, -2))
        factors = root @ (vectors * np.sqrt(np.maximum(values - 1, 0.0))[..., None, :])
        return covariances + factors @ np.swapaxes(factors, -1, -2)

    def log_det(self, covariances: Array, n_features: int) -> Array:
        return self.inverses(covariances)[1]

    def trace_ratio(self, scatter: Array, covariances: Array) -> Array:
        return np.einsum("...ij,...ji->...", self.inverses(covariances)[0], scatter)

    def inverses(self, covariances: Array) -> tuple[Array, Array]:
        """Return the inverses of covariances, and the logarithms of their determinants.

        Both are from `root`, and NaN where there is none: of matrices that are not finite or not positive.
        """
        known = compiled_steps.inverses(covariances)
        if known is not None:
            return known
        try:
            root = self.root(covariances)
        except np.linalg.LinAlgError:
            if covariances.ndim == 2:
                return np.full_like(covariances, np.nan), np.array(np.nan)
            each = [self.inverses(part) for part in covariances]
            return np.stack([inverse for inverse, _ in each]), np.stack([log_det for _, log_det in each])
        whiteners = np.linalg.inv(root)
        log_dets = 2 * np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)
        return np.swapaxes(whiteners, -1, -2) @ whiteners, log_dets

    def relative_variances(self, scatter: Array, covariances: Array) -> Array:
        whiteners = self.whiteners(covariances)
        values = np.linalg.eigvalsh(np.swapaxes(whiteners, -1, -2) @ scatter @ whiteners)
        return np.asarray(np.maximum(values, 0.0))

    def relative_spectrum(self, stats: SufficientStats, covariances: Array) -> tuple[Array, Array]:
        known = compiled_steps.relative_scatter(stats, covariances)
        if known is None:
            return super().relative_spectrum(stats, covariances)
        return np.maximum(np.linalg.eigvalsh(known[0]), 0.0), known[1]

    def n_joint(self, n_features: int) -> int:
        return n_features

    def log_marginal(self, counts: Array, spectrum: Array, strength: Array, n_features: int) -> Array:
        known = compiled_steps.log_marginals(self, counts, spectrum, strength, n_features)
        if known is not None:
            return known
        n_values = np.maximum(counts - 1, 0.0)
        dof = strength + n_features + 1
        after = dof + n_values
        halves = np.arange(n_features) / 2
        gammas = gammaln(after[..., None] / 2 - halves) - gammaln(np.asarray(dof)[..., None] / 2 - halves)
        logs = np.log(np.asarray(strength)[..., None] + spectrum).sum(axis=-1)
        scale = dof / 2 * n_features * np.log(strength) - after / 2 * logs
        return np.asarray(gammas.sum(axis=-1) + scale - n_values * n_features / 2 * np.log(np.pi))

    def marginal(self, covariances: Array, columns: list[int]) -> Array:
        return covariances[..., columns, :][..., columns]

    def moments(self, parameters: WhitenedParameters) -> SufficientStats:
        weights, means = parameters.weights, parameters.means
        rows, columns, _ = _upper(means.shape[-1])
        covariances = self.per_component(parameters.covariances)
        second = weights[..., None, None] * covariances + self.between(means, weights)
        parts = [weights[..., None], weights[..., None] * means, second[..., rows, columns]]
        return SufficientStats(np.concatenate(parts, axis=-1), parameters.n_features)

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        return n_components * n_features * (n_features + 1) // 2

    def from_spherical(self, variances: Array, metric: Array, weights: Array) -> Array:
        return variances[:, None, None] * metric

    def rescaled(self, covariances: Array, units: Array) -> tuple[str, Array]:
        return self.name, covariances * np.outer(units, units)

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        return covariances

    def smallest_variance(self, covariances: Array) -> float:
        return float(np.linalg.eigvalsh(covariances).min())

    def largest_ratio(self, covariance: Array, covariances: Array) -> float:
        whiteners = self.whiteners(covariances)
        return float(np.linalg.eigvalsh(np.swapaxes(whiteners, -1, -2) @ covariance @ whiteners).max())

    def diagonals(self, covariances: Array) -> Array:
        return np.diagonal(covariances, axis1=-2, axis2=-1)

    def precisions(self, covariances: Array) -> Array:
        return self.inverses(covariances)[0]

    def whiteners(self, covariances: Array) -> Array:
        return np.swapaxes(np.linalg.inv(self.root(covariances)), -1, -2)

    def check_covariances(self, covariances: Array, name: str) -> None:
        message = f"{name} must be positive definite and symmetric."
        variances = self.diagonals(covariances)
        if np.any(variances <= 0):
            raise ValueError(message)
        with np.errstate(all="ignore"):
            deviations = np.sqrt(variances)
            sizes = deviations[..., :, None] * deviations[..., None, :]
            if not np.all(np.abs(covariances - np.swapaxes(covariances, -1, -2)) <= ASYMMETRY * sizes):
                raise ValueError(message)
            try:
                self.root(covariances)
            except np.linalg.LinAlgError as error:
                raise ValueError(message) from error

    def from_precisions(self, precisions: Array, name: str) -> Array:
        is_symmetric = np.allclose(precisions, np.swapaxes(precisions, -1, -2))
        if not is_symmetric or np.any(np.linalg.eigvalsh(precisions) <= 0):
            raise ValueError(
                f"The parameter '{name}' should be symmetric, positive-definite: precisions_init are the "
                "inverses of covariances."
            )
        return np.linalg.inv(precisions)

    def half_covariance(self, covariance: Array, offset: Array) -> Array:
        # At least a tenth of the variance in the direction of the offset remains.
        squared_length = float(offset @ self.precisions(covariance) @ offset)
        factor = np.asarray(min(1.0, 0.9 / max(squared_length, 1e-300)))
        return covariance - self.between(offset, factor)

    def root(self, covariances: Array) -> Array:
        try:
            return np.linalg.cholesky(covariances)
        except np.linalg.LinAlgError:
            # Of linearly dependent columns, without a prior, covariances are positive definite only up to
            # rounding. Repaired as correlations: deviations may differ by many orders of magnitude.
            variances = self.diagonals(covariances)
            if not np.all(variances > 0):
                raise
            deviations = np.sqrt(variances)
            sizes = deviations[..., :, None] * deviations[..., None, :]
            values, vectors = np.linalg.eigh(covariances / sizes)
            if np.any(values < -1e-10 * values[..., -1:]):
                raise
            values = np.maximum(values, 10 * ROUNDING * values.shape[-1] * values[..., -1:])
            repaired = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
            return deviations[..., :, None] * np.linalg.cholesky(repaired)

    def mean_retraction(self, root: Array, tangents: Array) -> Array:
        return (root @ tangents[..., None])[..., 0]

    def mean_gradient(self, root: Array, covariances: Array, vectors: Array) -> Array:
        try:
            solved = np.linalg.solve(covariances, vectors[..., None])
        except np.linalg.LinAlgError:
            # Positive definite only up to rounding: its root is repaired.
            solved = self.precisions(covariances) @ vectors[..., None]
        return (np.swapaxes(root, -1, -2) @ solved)[..., 0]

    def row_information(self, n_features: int) -> Array:
        return _upper(n_features)[2] % 2 + 1

    def _triangle(self, tangents: Array, n_features: int) -> Array:
        """Return the lower triangular T of S = L T T^t L^t; tangents hold the logarithm of its diagonal."""
        rows, columns, _ = _upper(n_features)
        out = np.zeros((*tangents.shape[:-1], n_features, n_features))
        out[..., columns, rows] = tangents
        diagonal = np.arange(n_features)
        out[..., diagonal, diagonal] = np.exp(out[..., diagonal, diagonal])
        return out

    def covariance_retraction(self, root: Array, tangents: Array) -> Array:
        factor = root @ self._triangle(tangents, root.shape[-1])
        return factor @ np.swapaxes(factor, -1, -2)

    def covariance_gradient(self, root: Array, tangents: Array, scatter: Array, divisor: Array) -> Array:
        n_features = root.shape[-1]
        triangle = self._triangle(tangents, n_features)
        inverse = np.linalg.inv(root @ triangle)
        whitened = inverse @ scatter @ np.swapaxes(inverse, -1, -2)
        excess = whitened - divisor[..., None, None] * np.eye(n_features)
        # With S = L T T^t L^t and Z = (L T)^-1 scatter (L T)^-t, the gradient in T is T^-t (Z - divisor I).
        gradient = np.linalg.solve(np.swapaxes(triangle, -1, -2), excess)
        diagonal = np.arange(n_features)
        gradient[..., diagonal, diagonal] *= triangle[..., diagonal, diagonal]
        rows, columns, _ = _upper(n_features)
        return gradient[..., columns, rows]

    def merging_term(self, stats: SufficientStats) -> Array:
        known = compiled_steps.merging_terms(stats, self.min_variance)
        return super().merging_term(stats) if known is None else known
