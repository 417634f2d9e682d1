"""Arithmetic on arrays of covariances that are stored as numbers, diagonals or matrices."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy.special import gammaln

from apolar._core.arrays import Array, IndexArray
from apolar._core.constants import MIN_WEIGHT, SCATTER_ROUNDING
from apolar._core.namespaces import namespace, write, write_pairs
from apolar._core.settings import SETTINGS
from apolar.mixture import compiled_steps
from apolar.mixture.parameters import SufficientStats
from apolar.mixture.prior import Prior, PriorTerms

__all__ = ["LOG_2PI", "Covariances", "Matrices", "square", "triangle"]

LOG_2PI = float(np.log(2 * np.pi))
# The rounding error of a matrix product, relative to its largest eigenvalue, with a margin.
ROUNDING = 1e-15
# How far the two triangles of a covariance may differ by rounding, relative to its diagonal, with a margin.
ASYMMETRY = 1e-8


@functools.lru_cache(maxsize=256)
def _upper(n_features: int) -> tuple[IndexArray, IndexArray, Array]:
    """Return rows and columns of the upper triangle, and how often each entry occurs in the matrix."""
    rows, columns = np.triu_indices(n_features)
    return rows, columns, np.where(rows == columns, 1.0, 2.0)


def square(compact: Array) -> Array:
    """Return symmetric matrices, shape (..., n, n), from their upper triangles, (..., n (n + 1) / 2)."""
    n = int(np.sqrt(2 * compact.shape[-1]))
    rows, columns, _ = _upper(n)
    out = np.empty((*compact.shape[:-1], n, n))
    out[..., rows, columns] = compact
    out[..., columns, rows] = compact
    return out


def triangle(matrices: Array) -> Array:
    """Return the upper triangles of matrices, in the order of the quadratics of a row."""
    return matrices[(..., *_upper(matrices.shape[-1])[:2])]


class Covariances:
    """Covariances that are numbers, v I, or diagonals; arrays may have any leading axes.

    The quadratics of a row are the products of its columns that such a covariance needs: the squared length,
    the squares, or, for matrices, all products of two columns.
    """

    n_axes: int
    """The number of axes of one covariance: 0 for a number, 1 for a diagonal, 2 for a matrix."""
    min_variance = 1e-12
    """The floor of the variances in whitened coordinates, for fits without a prior."""

    def n_quadratics(self, n_features: int) -> int:
        """Return the number of quadratics of a row."""
        return n_features if self.n_axes else 1

    def n_stats(self, n_features: int) -> int:
        """Return the number of row statistics: 1, x, and quadratics of x."""
        return 1 + n_features + self.n_quadratics(n_features)

    def write_quadratics(self, x: Any, out: Any) -> None:
        """Write the quadratics of x, shape (n_features, n), into `out`, shape (n_quadratics, n)."""
        if self.n_axes:
            write("multiply", x, x, out=out)
        elif isinstance(x, np.ndarray):
            np.einsum("ij,ij->j", x, x, out=out[0])
        else:
            out[0, :] = namespace(x).sum(x * x, axis=0)

    def compact(self, covariances: Array) -> Array:
        """Return covariances in the order of the quadratics of a row, along one axis."""
        return covariances if self.n_axes else covariances[..., None]

    def expanded(self, compact: Array) -> Array:
        """Return covariances from `compact`."""
        return compact if self.n_axes else compact[..., 0]

    def identity(self, n_features: int) -> Array:
        """Return the identity as one covariance."""
        return np.ones((n_features,) * self.n_axes)

    def between(self, offsets: Array, factors: Array) -> Array:
        """Return factor times the outer product of each offset with itself, in the form of a covariance."""
        if self.n_axes:
            return factors[..., None] * offsets**2
        return factors * np.einsum("...i,...i->...", offsets, offsets)

    def divisor(self, weight: Array, n_features: int) -> Array:
        """Return the divisor of the scatter of components of that weight, without a prior."""
        return weight if self.n_axes else weight * n_features

    def scatter(self, stats: SufficientStats) -> Array:
        """Return the scatter of each component about its mean, (..., n_components, *covariance)."""
        second = self.expanded(stats.second)
        squares = self.between(stats.first, np.ones(()))
        means = squares / np.maximum(stats.counts, MIN_WEIGHT)[(..., *(None,) * self.n_axes)]
        return np.maximum(second - means, 0.0) + SCATTER_ROUNDING * second

    def log_det(self, covariances: Array, n_features: int) -> Array:
        """Return the logarithms of the determinants."""
        logs = np.log(covariances)
        return logs.sum(axis=-1) if self.n_axes else n_features * logs

    def inverses(self, covariances: Array, n_features: int) -> tuple[Array, Array]:
        """Return the inverses of covariances, and the logarithms of their determinants."""
        return 1 / covariances, self.log_det(covariances, n_features)

    def precisions(self, covariances: Array) -> Array:
        """Return the inverses of the covariances."""
        return 1 / covariances

    def root(self, covariances: Array) -> Array:
        """Return L with covariance L L^t."""
        return np.sqrt(covariances)

    def whiteners(self, covariances: Array) -> Array:
        """Return A, with A A^t the inverse of each covariance; upper triangular for matrices."""
        return 1 / self.root(covariances)

    def times(self, matrices: Array, vectors: Array) -> Array:
        """Return the product of each covariance, or root of one, and its vector."""
        return matrices * vectors if self.n_axes else matrices[..., None] * vectors

    def trace_ratio(self, scatter: Array, covariances: Array) -> Array:
        """Return tr(S^-1 scatter) for each covariance S."""
        ratios = scatter / covariances
        return ratios.sum(axis=-1) if self.n_axes else ratios

    def relative_variances(self, scatter: Array, covariances: Array) -> Array:
        """Return the eigenvalues of S^-1 scatter for each covariance S, shape (..., n)."""
        return self.compact(np.asarray(scatter / covariances))

    def relative_spectrum(self, stats: SufficientStats, covariances: Array) -> tuple[Array, Array]:
        """Return `relative_variances` of the scatters of components, and the log-determinants."""
        log_dets = self.log_det(covariances, stats.n_features)
        return self.relative_variances(self.scatter(stats), covariances), log_dets

    def largest_ratio(self, covariance: Array, covariances: Array) -> float:
        """Return the largest ratio, in any direction, of one variance to those of the covariances."""
        return float(self.relative_variances(covariance, covariances).max())

    def smallest_variance(self, covariances: Array) -> float:
        """Return the smallest variance of any component in any direction."""
        return float(covariances.min())

    def is_collapsed(self, covariances: Array) -> bool:
        """Return whether a component has no variance in some direction, up to the floor."""
        return not self.smallest_variance(covariances) > 2 * self.min_variance

    def floored(self, covariances: Array) -> Array:
        """Return the covariances with variances raised to `min_variance` where they are below."""
        return np.maximum(covariances, self.min_variance)

    def diagonals(self, covariances: Array) -> Array:
        """Return the variances of the columns; for spherical covariances, the one variance of all columns."""
        return covariances

    def marginal(self, covariances: Array, columns: list[int]) -> Array:
        """Return the covariances of some of the columns."""
        return covariances[..., columns] if self.n_axes else covariances

    def half_covariance(self, covariance: Array, offset: Array) -> Array:
        """Return the covariance of each of two equal parts, at plus and minus the offset, of a component."""
        spread_of_means = self.between(offset, np.ones(())) / self.divisor(np.ones(()), len(offset))
        return np.maximum(covariance - spread_of_means, 0.1 * covariance)

    def log_marginal(self, counts: Array, spectrum: Array, strength: Array, n_features: int) -> Array:
        """Return the logarithm of the density of rows whose covariance is drawn around a given one.

        The covariance is drawn from an inverse Wishart (or gamma) distribution, and integrated out, as are
        the means, under a flat prior. The target has determinant one.

        Parameters
        ----------
        counts : ndarray, shape (..., n_components)
            The number of rows.
        spectrum : ndarray, shape (..., n_components, n)
            Of the scatter of the rows relative to the target: see `relative_variances`.
        strength : ndarray
            The number of rows that the target counts as.
        n_features : int
        """
        n_values = self.divisor(np.maximum(counts - 1, 0.0), n_features)[..., None]
        strength = self.divisor(np.asarray(strength), n_features)[..., None]
        dof = strength + 2
        after = (dof + n_values) / 2
        scale = dof / 2 * np.log(strength) - after * np.log(strength + spectrum)
        logs = gammaln(after) - gammaln(dof / 2) + scale - n_values / 2 * np.log(np.pi)
        return np.asarray(logs.sum(axis=-1))

    def prior_terms(self, prior: Prior, n_components: int, n_features: int) -> PriorTerms:
        """Return what the conjugate prior adds to the M-step, with the usual defaults for this storage."""
        # Each column of a diagonal has the prior of data of one column.
        shrinkage, dof, scale = prior.scaled(n_components, 1 if self.n_axes else n_features)
        divisor_of_one = float(self.divisor(np.ones(()), n_features))
        return PriorTerms(shrinkage, scale * self.identity(n_features), dof + 2, divisor_of_one)

    def check_covariances(self, covariances: Array, name: str) -> None:
        """Refuse arrays that are not covariances of this kind; `name` is for the message."""
        if np.any(covariances <= 0):
            raise ValueError(f"{name} must be positive.")

    def from_precisions(self, precisions: Array, name: str) -> Array:
        """Return the covariances whose inverses are `precisions_init`, or refuse invalid ones.

        `name` is for the message, which begins as scikit-learn's, as scripts may match that.
        """
        if np.any(precisions <= 0):
            raise ValueError(
                f"The parameter '{name}' should be positive: precisions_init are one over the variances."
            )
        return 1 / precisions

    # --- coordinates around covariances L L^t: variances times exponentials ---------------------

    def row_information(self, n_features: int) -> Array:
        """Return the Fisher information of one row about each coordinate of a covariance."""
        return np.full(self.n_quadratics(n_features), 2.0 * self.divisor(np.ones(()), n_features))

    def mean_gradient(self, root: Array, covariances: Array, vectors: Array) -> Array:
        """Return the gradient L^t S^-1 d in tangent vectors of the means, where S^-1 d is that in the means.

        Parameters
        ----------
        root : ndarray
            L, at the centre of the coordinates.
        covariances : ndarray
            S, where the gradient is taken.
        vectors : ndarray, shape (n_components, n_features)
            d: the sums, over the rows of each component, of their differences from its mean.

        Returns
        -------
        gradient : ndarray, shape (n_components, n_features)
        """
        return self.times(root / covariances, vectors)

    def retraction(self, root: Array, tangents: Array) -> Array:
        """Return the covariances at tangent vectors; at zero they are L L^t."""
        return root**2 * np.exp(2 * self.expanded(tangents))

    def gradient(self, root: Array, tangents: Array, scatter: Array, divisor: Array) -> Array:
        """Return the gradient of -1/2 (divisor log|S| + tr(S^-1 scatter)) in those tangent vectors."""
        ratios = scatter / self.retraction(root, tangents)
        return self.compact(ratios - divisor[(..., *(None,) * self.n_axes)])


class Matrices(Covariances):
    """Covariances that are matrices."""

    # Rounding in the transformation to the units of the data and back is relative to the largest eigenvalue.
    min_variance = 1e-8

    def n_quadratics(self, n_features: int) -> int:
        """Return the number of quadratics of a row."""
        return n_features * (n_features + 1) // 2

    def write_quadratics(self, x: Any, out: Any) -> None:
        """Write the products of two columns."""
        write_pairs(x, out)

    def compact(self, covariances: Array) -> Array:
        """Return the upper triangles."""
        return triangle(covariances)

    def expanded(self, compact: Array) -> Array:
        """Return symmetric matrices from their upper triangles."""
        return square(compact)

    def identity(self, n_features: int) -> Array:
        """Return the identity matrix."""
        return np.eye(n_features)

    def between(self, offsets: Array, factors: Array) -> Array:
        """Return factor times the outer product of each offset with itself."""
        return (factors[..., None] * offsets)[..., :, None] * offsets[..., None, :]

    def divisor(self, weight: Array, n_features: int) -> Array:  # noqa: ARG002
        """Return the divisor of the scatter: the weight."""
        return weight

    def scatter(self, stats: SufficientStats) -> Array:
        """Return the scatter of each component about its mean."""
        second = square(stats.second)
        means = self.between(stats.first, 1 / np.maximum(stats.counts, MIN_WEIGHT))
        return second - means + SCATTER_ROUNDING * np.eye(stats.n_features) * second

    def log_det(self, covariances: Array, n_features: int) -> Array:
        """Return the logarithms of the determinants."""
        return self.inverses(covariances, n_features)[1]

    def inverses(self, covariances: Array, n_features: int) -> tuple[Array, Array]:
        """Return both, from `root`; NaN for matrices that are not finite or not positive definite."""
        known = compiled_steps.inverses(covariances)
        if known is not None:
            return known
        try:
            root = self.root(covariances)
        except np.linalg.LinAlgError:
            if covariances.ndim == 2:
                return np.full_like(covariances, np.nan), np.array(np.nan)
            each = [self.inverses(part, n_features) for part in covariances]
            return np.stack([inverse for inverse, _ in each]), np.stack([log_det for _, log_det in each])
        whiteners = np.linalg.inv(root)
        log_dets = 2 * np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)
        return np.swapaxes(whiteners, -1, -2) @ whiteners, log_dets

    def precisions(self, covariances: Array) -> Array:
        """Return the inverse matrices."""
        return self.inverses(covariances, covariances.shape[-1])[0]

    def root(self, covariances: Array) -> Array:
        """Return the lower triangular roots, also of matrices that are singular up to rounding."""
        try:
            return np.linalg.cholesky(covariances)
        except np.linalg.LinAlgError:
            # With linearly dependent columns and no prior, covariances are positive definite only up to
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

    def whiteners(self, covariances: Array) -> Array:
        """Return the transposed inverse roots."""
        return np.swapaxes(np.linalg.inv(self.root(covariances)), -1, -2)

    def times(self, matrices: Array, vectors: Array) -> Array:
        """Return the product of each matrix and its vector."""
        return np.asarray((matrices @ vectors[..., None])[..., 0])

    def trace_ratio(self, scatter: Array, covariances: Array) -> Array:
        """Return tr(S^-1 scatter) for each covariance S."""
        return np.einsum("...ij,...ji->...", self.precisions(covariances), scatter)

    def relative_variances(self, scatter: Array, covariances: Array) -> Array:
        """Return the generalised eigenvalues of (scatter, S)."""
        whiteners = self.whiteners(covariances)
        values = np.linalg.eigvalsh(np.swapaxes(whiteners, -1, -2) @ scatter @ whiteners)
        return np.asarray(np.maximum(values, 0.0))

    def relative_spectrum(self, stats: SufficientStats, covariances: Array) -> tuple[Array, Array]:
        """Return `relative_variances` of the scatters of components, and the log-determinants."""
        known = compiled_steps.relative_scatter(stats, covariances)
        if known is None:
            return super().relative_spectrum(stats, covariances)
        return np.maximum(np.linalg.eigvalsh(known[0]), 0.0), known[1]

    def smallest_variance(self, covariances: Array) -> float:
        """Return the smallest eigenvalue of any component."""
        return float(np.linalg.eigvalsh(covariances).min())

    def floored(self, covariances: Array) -> Array:
        """Return the covariances with eigenvalues raised to `min_variance` where they are below."""
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

    def diagonals(self, covariances: Array) -> Array:
        """Return the variances of the columns."""
        return np.diagonal(covariances, axis1=-2, axis2=-1)

    def marginal(self, covariances: Array, columns: list[int]) -> Array:
        """Return the covariances of some of the columns."""
        return covariances[..., columns, :][..., columns]

    def half_covariance(self, covariance: Array, offset: Array) -> Array:
        """Return the covariance of each of two equal parts, at plus and minus the offset, of a component."""
        # At least a tenth of the variance in the direction of the offset remains.
        squared_length = float(offset @ self.precisions(covariance) @ offset)
        factor = np.asarray(min(1.0, 0.9 / max(squared_length, 1e-300)))
        return covariance - self.between(offset, factor)

    def log_marginal(self, counts: Array, spectrum: Array, strength: Array, n_features: int) -> Array:
        """Return the same with an inverse Wishart distribution of matrices."""
        n_values = np.maximum(counts - 1, 0.0)
        dof = strength + n_features + 1
        after = dof + n_values
        halves = np.arange(n_features) / 2
        gammas = gammaln(after[..., None] / 2 - halves) - gammaln(np.asarray(dof)[..., None] / 2 - halves)
        logs = np.log(np.asarray(strength)[..., None] + spectrum).sum(axis=-1)
        scale = dof / 2 * n_features * np.log(strength) - after / 2 * logs
        return np.asarray(gammas.sum(axis=-1) + scale - n_values * n_features / 2 * np.log(np.pi))

    def prior_terms(self, prior: Prior, n_components: int, n_features: int) -> PriorTerms:
        """Return what the conjugate prior adds to the M-step."""
        shrinkage, dof, scale = prior.scaled(n_components, n_features)
        # The prior of the other families would widen clusters that are thin in some direction, and narrow all
        # clusters if there are many columns. By default it counts as one row, of a hundredth of that scale.
        scale = SETTINGS.full_prior_scale * scale if prior.scale is None else scale
        divisor = 1.0 if prior.dof is None else dof + n_features + 1
        return PriorTerms(shrinkage, scale * np.eye(n_features), divisor, 1.0)

    def check_covariances(self, covariances: Array, name: str) -> None:
        """Refuse arrays that are not covariances; `name` is for the message."""
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
        """Return the covariances whose inverses are `precisions_init`, or refuse invalid ones."""
        is_symmetric = np.allclose(precisions, np.swapaxes(precisions, -1, -2))
        if not is_symmetric or np.any(np.linalg.eigvalsh(precisions) <= 0):
            raise ValueError(
                f"The parameter '{name}' should be symmetric, positive-definite: precisions_init are the "
                "inverses of covariances."
            )
        return np.linalg.inv(precisions)

    # --- coordinates around covariances L L^t: S = L T T^t L^t with triangular T ----------------

    def row_information(self, n_features: int) -> Array:
        """Return the Fisher information of one row about each coordinate of a covariance."""
        return _upper(n_features)[2] % 2 + 1

    def mean_gradient(self, root: Array, covariances: Array, vectors: Array) -> Array:
        """Return the gradient L^t S^-1 d in tangent vectors of the means."""
        try:
            solved = np.linalg.solve(covariances, vectors[..., None])
        except np.linalg.LinAlgError:
            # Positive definite only up to rounding: its root is repaired.
            solved = self.precisions(covariances) @ vectors[..., None]
        return (np.swapaxes(root, -1, -2) @ solved)[..., 0]

    def retraction(self, root: Array, tangents: Array) -> Array:
        """Return the covariances at tangent vectors; at zero they are L L^t."""
        factor = root @ _factor(tangents, root.shape[-1])
        return factor @ np.swapaxes(factor, -1, -2)

    def gradient(self, root: Array, tangents: Array, scatter: Array, divisor: Array) -> Array:
        """Return the gradient of -1/2 (divisor log|S| + tr(S^-1 scatter)) in those tangent vectors."""
        n_features = root.shape[-1]
        factor = _factor(tangents, n_features)
        inverse = np.linalg.inv(root @ factor)
        whitened = inverse @ scatter @ np.swapaxes(inverse, -1, -2)
        excess = whitened - divisor[..., None, None] * np.eye(n_features)
        # With S = L T T^t L^t and Z = (L T)^-1 scatter (L T)^-t, the gradient in T is T^-t (Z - divisor I).
        gradient = np.linalg.solve(np.swapaxes(factor, -1, -2), excess)
        diagonal = np.arange(n_features)
        gradient[..., diagonal, diagonal] *= factor[..., diagonal, diagonal]
        rows, columns, _ = _upper(n_features)
        return gradient[..., columns, rows]


def _factor(tangents: Array, n_features: int) -> Array:
    """Return the lower triangular T of S = L T T^t L^t; tangents hold the logarithm of its diagonal."""
    rows, columns, _ = _upper(n_features)
    out = np.zeros((*tangents.shape[:-1], n_features, n_features))
    out[..., columns, rows] = tangents
    diagonal = np.arange(n_features)
    out[..., diagonal, diagonal] = np.exp(out[..., diagonal, diagonal])
    return out
