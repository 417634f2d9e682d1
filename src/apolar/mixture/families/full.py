"""Full covariances: any positive definite matrix a component (mclust's VVV)."""

import functools
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.namespaces import write_pairs
from apolar.mixture.families.base import LEAST_WEIGHT, LOG_2PI, Family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior

# The scale of the default prior, relative to that of the other families.
SPREAD = 0.01
# The rounding of a product of matrices, relative to its largest eigenvalue, with room.
ROUNDING = 1e-15


@functools.lru_cache(maxsize=64)
def _upper(n_features: int) -> tuple[IndexArray, IndexArray, Array]:
    """Return rows and columns of the upper triangle, and how often each entry stands in a matrix."""
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
    tied = False
    frame_kind = "matrix"
    words = "stretched in any direction, each in its own way"
    # Matrices lose half the digits of their condition on the way to the units of the data and back.
    least_variance = 1e-8

    @property
    def untied(self) -> Family:
        return Full()

    def n_quadratics(self, n_features: int) -> int:
        return n_features * (n_features + 1) // 2

    def n_columns(self, n_stats: int) -> int:
        # width = (m + 1)(m + 2) / 2
        return round((np.sqrt(8 * n_stats + 1) - 3) / 2)

    def write_quadratics(self, x: Any, out: Any) -> None:
        write_pairs(x, out)

    def natural(self, parameters: WhitenedParameters) -> Array:
        weights, means = parameters.weights, parameters.means
        n_features = means.shape[-1]
        rows, columns, counts = _upper(n_features)
        precisions = np.linalg.inv(parameters.covariances)
        log_dets = self.log_det(parameters.covariances, n_features)
        if self.tied:
            precisions, log_dets = precisions[..., None, :, :], log_dets[..., None]
        linear = (precisions @ means[..., None])[..., 0]
        out = np.empty((*weights.shape, self.n_stats(n_features)))
        out[..., 0] = (
            np.log(np.maximum(weights, LEAST_WEIGHT))
            - 0.5 * (n_features * LOG_2PI + log_dets)
            - 0.5 * np.einsum("...i,...i->...", linear, means)
        )
        out[..., 1 : 1 + n_features] = linear
        out[..., 1 + n_features :] = -0.5 * counts * precisions[..., rows, columns]
        return out

    def scatter(self, stats: Array) -> Array:
        weight, first, second = self.split(stats)
        weight = np.maximum(weight, LEAST_WEIGHT)
        return _square(second, first.shape[-1]) - self.between(first, 1 / weight)

    def between(self, offsets: Array, factors: Array) -> Array:
        return (factors[..., None] * offsets)[..., :, None] * offsets[..., None, :]

    def divisor(self, weight: Array, n_features: int) -> Array:
        return weight

    def prior_terms(
        self, prior: Prior, n_components: int, n_features: int
    ) -> tuple[float, Array, float, float]:
        shrinkage, dof, scale = prior.scaled(n_components, n_features)
        # The usual prior widens clusters that are thin in some direction, and narrows all where columns are
        # many: by default it counts as one row, of a hundredth of that spread.
        scale = SPREAD * scale if prior.scale is None else scale
        divisor = 1.0 if prior.dof is None else dof + n_features + 1
        return shrinkage, scale * np.eye(n_features), divisor, 1.0

    def floored(self, covariances: Array) -> Array:
        # Positive definite as a rule: the eigenvalues are looked at only where Cholesky fails.
        try:
            factors = np.linalg.cholesky(covariances)
            if np.all(np.diagonal(factors, axis1=-2, axis2=-1) ** 2 > self.least_variance):
                return covariances
        except np.linalg.LinAlgError:
            pass
        if not np.all(np.isfinite(covariances)):
            return covariances
        values, vectors = np.linalg.eigh(covariances)
        # What is below the rounding of the largest would not be positive when it is multiplied out.
        least = np.maximum(self.least_variance, ROUNDING * values.shape[-1] * values[..., -1:])
        return (vectors * np.maximum(values, least)[..., None, :]) @ np.swapaxes(vectors, -1, -2)

    def log_det(self, covariances: Array, n_features: int) -> Array:
        return np.linalg.slogdet(covariances)[1]

    def trace_ratio(self, scatter: Array, covariances: Array) -> Array:
        return np.einsum("...ij,...ji->...", np.linalg.inv(covariances), scatter)

    def moments(self, parameters: WhitenedParameters) -> Array:
        weights, means = parameters.weights, parameters.means
        rows, columns, _ = _upper(means.shape[-1])
        covariances = parameters.covariances[..., None, :, :] if self.tied else parameters.covariances
        second = weights[..., None, None] * covariances + self.between(means, weights)
        parts = [weights[..., None], weights[..., None] * means, second[..., rows, columns]]
        return np.concatenate(parts, axis=-1)

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        return n_components * n_features * (n_features + 1) // 2

    def from_spherical(self, variances: Array, metric: Array, weights: Array) -> Array:
        return variances[:, None, None] * metric

    def rescaled(self, covariances: Array, units: Array) -> tuple[Family, Array]:
        return self, covariances * np.outer(units, units)

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        return covariances

    def precisions(self, covariances: Array) -> Array:
        whiteners = self.whiteners(covariances)
        return whiteners @ np.swapaxes(whiteners, -1, -2)

    def whiteners(self, covariances: Array) -> Array:
        return np.swapaxes(np.linalg.inv(self.root(covariances)), -1, -2)

    def narrowed(self, covariance: Array, offset: Array) -> Array:
        # No more than leaves a tenth of the spread in that direction.
        reach = float(offset @ np.linalg.solve(covariance, offset))
        factor = np.asarray(min(1.0, 0.9 / max(reach, 1e-300)))
        return covariance - self.between(offset, factor)

    def root(self, covariances: Array) -> Array:
        try:
            return np.linalg.cholesky(covariances)
        except np.linalg.LinAlgError:
            # Columns that depend on each other, and no prior: positive definite but for rounding. In units of
            # the deviations, which may differ by many orders of magnitude.
            deviations = np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))
            if not np.all(deviations > 0):
                raise
            sizes = deviations[..., :, None] * deviations[..., None, :]
            values, vectors = np.linalg.eigh(covariances / sizes)
            if np.any(values < -1e-10 * values[..., -1:]):
                raise
            values = np.maximum(values, 10 * ROUNDING * values.shape[-1] * values[..., -1:])
            repaired = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
            return deviations[..., :, None] * np.linalg.cholesky(repaired)

    def mean_retraction(self, root: Array, offsets: Array) -> Array:
        return (root @ offsets[..., None])[..., 0]

    def mean_gradient(self, root: Array, covariances: Array, vectors: Array) -> Array:
        solved = np.linalg.solve(covariances, vectors[..., None])
        return (np.swapaxes(root, -1, -2) @ solved)[..., 0]

    def information(self, n_features: int) -> Array:
        return _upper(n_features)[2] % 2 + 1

    def _triangle(self, coordinates: Array, n_features: int) -> Array:
        """Return the lower triangular T of S = L T T^t L^t: logarithms on the diagonal."""
        rows, columns, _ = _upper(n_features)
        out = np.zeros((*coordinates.shape[:-1], n_features, n_features))
        out[..., columns, rows] = coordinates
        diagonal = np.arange(n_features)
        out[..., diagonal, diagonal] = np.exp(out[..., diagonal, diagonal])
        return out

    def covariance_retraction(self, root: Array, coordinates: Array) -> Array:
        factor = root @ self._triangle(coordinates, root.shape[-1])
        return factor @ np.swapaxes(factor, -1, -2)

    def covariance_gradient(self, root: Array, coordinates: Array, scatter: Array, divisor: Array) -> Array:
        n_features = root.shape[-1]
        triangle = self._triangle(coordinates, n_features)
        inverse = np.linalg.inv(root @ triangle)
        whitened = inverse @ scatter @ np.swapaxes(inverse, -1, -2)
        excess = whitened - divisor[..., None, None] * np.eye(n_features)
        # With S = L T T^t L^t and Z = (L T)^-1 scatter (L T)^-t, the gradient in T is T^-t (Z - divisor I).
        gradient = np.linalg.solve(np.swapaxes(triangle, -1, -2), excess)
        diagonal = np.arange(n_features)
        gradient[..., diagonal, diagonal] *= triangle[..., diagonal, diagonal]
        rows, columns, _ = _upper(n_features)
        return gradient[..., columns, rows]
