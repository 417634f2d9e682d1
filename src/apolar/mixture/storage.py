"""Arithmetic on arrays of covariances that are stored as numbers, diagonals or matrices."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotri
from scipy.special import gammaln

from apolar._core import compiled
from apolar._core.arrays import Array, IndexArray, frozen
from apolar._core.constants import MIN_WEIGHT, PRODUCT_ROUNDING, SCATTER_ROUNDING
from apolar._core.namespaces import namespace, write, write_pairs
from apolar.mixture.parameters import SufficientStats

__all__ = ["LOG_2PI", "Covariances", "lower_places", "square", "triangle"]

LOG_2PI = float(np.log(2 * np.pi))
# The floors of the variances in whitened coordinates, for fits without a prior. For matrices, rounding in the
# transformation to the units of the data and back is relative to the largest eigenvalue.
MIN_VARIANCES = (1e-12, 1e-12, 1e-8)


@functools.lru_cache(maxsize=256)
def lower_places(n_features: int) -> tuple[IndexArray, IndexArray]:
    """Return columns and rows of the lower triangle of a matrix, in the order of the quadratics of a row."""
    return np.triu_indices(n_features)


def square(compact: Array) -> Array:
    """Return symmetric matrices, shape (..., n, n), from their upper triangles, (..., n (n + 1) / 2)."""
    n = int(np.sqrt(2 * compact.shape[-1]))
    columns, rows = lower_places(n)
    out = np.empty((*compact.shape[:-1], n, n))
    out[..., rows, columns] = compact
    out[..., columns, rows] = compact
    return out


def triangle(matrices: Array) -> Array:
    """Return the upper triangles of matrices, in the order of the quadratics of a row."""
    return matrices[(..., *lower_places(matrices.shape[-1]))]


@functools.lru_cache(maxsize=64)
def _identity(n_axes: int, n_features: int) -> Array:
    return frozen(np.eye(n_features) if n_axes == 2 else np.ones((n_features,) * n_axes))


class Covariances:
    """Covariances that are numbers, v I, diagonals, or matrices; arrays may have any leading axes.

    The quadratics of a row are the products of its columns that such a covariance needs: the squared length,
    the squares, or, for matrices, all products of two columns.
    """

    n_axes: int
    """The number of axes of one covariance: 0 for a number, 1 for a diagonal, 2 for a matrix."""

    @property
    def min_variance(self) -> float:
        """The floor of the variances in whitened coordinates, for fits without a prior."""
        return MIN_VARIANCES[self.n_axes]

    def each(self, values: Array) -> Array:
        """Return values per covariance with axes of length one instead of those of a covariance."""
        return np.asarray(values)[(..., *(None,) * self.n_axes)]

    # --- rows and their statistics --------------------------------------------------------------

    def n_stats(self, n_features: int) -> int:
        """Return the number of row statistics: 1, x, and quadratics of x."""
        return compiled.n_stats(self.n_axes, n_features)

    def write_quadratics(self, x: Any, out: Any) -> None:
        """Write the quadratics of x, shape (n_features, n), into `out`, shape (n_quadratics, n)."""
        if self.n_axes == 2:
            write_pairs(x, out)
        elif self.n_axes:
            write("multiply", x, x, out=out)
        else:
            out[0, :] = namespace(x).sum(x * x, axis=0)

    def compact(self, covariances: Array) -> Array:
        """Return covariances in the order of the quadratics of a row, along one axis."""
        if self.n_axes == 2:
            return triangle(covariances)
        return covariances if self.n_axes else covariances[..., None]

    def expanded(self, compact: Array) -> Array:
        """Return covariances from `compact`."""
        if self.n_axes == 2:
            return square(compact)
        return compact if self.n_axes else compact[..., 0]

    def join_natural(self, constants: Array, linear: Array, precisions: Array) -> Array:
        """Return the natural parameters of constant + linear . x - x^t precision x / 2."""
        # A product of two columns occurs twice in the quadratic form.
        twice = 2 - np.eye(linear.shape[-1]) if self.n_axes == 2 else 1.0
        quadratics = self.compact(-0.5 * twice * precisions)
        quadratics = np.broadcast_to(quadratics, (*constants.shape, quadratics.shape[-1]))
        return np.concatenate([constants[..., None], linear, quadratics], axis=-1)

    def identity(self, n_features: int) -> Array:
        """Return the identity as one covariance."""
        return _identity(self.n_axes, n_features)

    def between(self, offsets: Array, factors: Array) -> Array:
        """Return factor times the outer product of each offset with itself, in the form of a covariance."""
        if self.n_axes == 2:
            return (factors[..., None] * offsets)[..., :, None] * offsets[..., None, :]
        if self.n_axes:
            return factors[..., None] * offsets**2
        return factors * np.einsum("...i,...i->...", offsets, offsets)

    def divisor(self, weight: Array, n_features: int) -> Array:
        """Return the divisor of the scatter of components of that weight, without a prior."""
        return weight if self.n_axes else weight * n_features

    def scatter(self, stats: SufficientStats) -> Array:
        """Return the scatter of each component about its mean, (..., n_components, *covariance)."""
        second = self.expanded(stats.second)
        scatter = second - self.between(stats.first, 1 / np.maximum(stats.counts, MIN_WEIGHT))
        if self.n_axes < 2:
            scatter = np.maximum(scatter, 0.0)
        return scatter + SCATTER_ROUNDING * self.identity(stats.n_features) * second

    # --- inverses and roots ---------------------------------------------------------------------

    def inverses(self, covariances: Array, n_features: int) -> tuple[Array, Array]:
        """Return the inverses, and the logarithms of the determinants.

        NaN for matrices that are not finite or not positive definite.
        """
        if self.n_axes < 2:
            logs = np.log(covariances)
            return 1 / covariances, logs.sum(axis=-1) if self.n_axes else n_features * logs
        n_features = covariances.shape[-1]
        if compiled.has_steps(2, n_features):
            shapes = covariances.shape, covariances.shape[:-2]
            known = compiled.take_step("inverses", (covariances,), shapes, n_features)
            if known is not None:
                return known[0], known[1]
        try:
            root = self.root(covariances)
        except np.linalg.LinAlgError:
            if covariances.ndim == 2:
                return np.full_like(covariances, np.nan), np.array(np.nan)
            each = [self.inverses(part, n_features) for part in covariances]
            return np.stack([inverse for inverse, _ in each]), np.stack([log_det for _, log_det in each])
        log_dets = 2 * np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)
        inverses = np.empty_like(root)
        for i in np.ndindex(*root.shape[:-2]):
            lower = np.tril(dpotri(root[i], lower=1)[0])
            inverses[i] = lower + np.tril(lower, -1).T
        return inverses, log_dets

    def log_det(self, covariances: Array, n_features: int) -> Array:
        """Return the logarithms of the determinants."""
        if self.n_axes < 2 or compiled.has_steps(2, n_features):
            return self.inverses(covariances, n_features)[1]
        try:
            root = self.root(covariances)
        except np.linalg.LinAlgError:
            return self.inverses(covariances, n_features)[1]
        return np.asarray(2 * np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1))

    def precisions(self, covariances: Array) -> Array:
        """Return the inverses of the covariances."""
        return self.inverses(covariances, 1)[0]

    def root(self, covariances: Array) -> Array:
        """Return L with covariance L L^t: of matrices lower triangular, even if singular by rounding."""
        if self.n_axes < 2:
            return np.sqrt(covariances)
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
            values = np.maximum(values, 10 * PRODUCT_ROUNDING * values.shape[-1] * values[..., -1:])
            repaired = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
            return deviations[..., :, None] * np.linalg.cholesky(repaired)

    def whiteners(self, covariances: Array) -> Array:
        """Return A, with A A^t the inverse of each covariance; upper triangular for matrices."""
        root = self.root(covariances)
        return np.swapaxes(np.linalg.inv(root), -1, -2) if self.n_axes == 2 else 1 / root

    def times(self, matrices: Array, vectors: Array) -> Array:
        """Return the product of each covariance, or root of one, and its vector."""
        if self.n_axes == 2:
            return np.asarray((matrices @ vectors[..., None])[..., 0])
        return matrices * vectors if self.n_axes else matrices[..., None] * vectors

    # --- sizes ----------------------------------------------------------------------------------

    def trace_ratio(self, scatter: Array, covariances: Array) -> Array:
        """Return tr(S^-1 scatter) for each covariance S."""
        products = self.precisions(covariances) * scatter
        return products.sum(axis=tuple(range(-self.n_axes, 0)))

    def relative_variances(self, scatter: Array, covariances: Array) -> Array:
        """Return the eigenvalues of S^-1 scatter for each covariance S, shape (..., n)."""
        if self.n_axes < 2:
            values = self.compact(np.asarray(scatter / covariances))
        else:
            whiteners = self.whiteners(covariances)
            values = np.linalg.eigvalsh(np.swapaxes(whiteners, -1, -2) @ scatter @ whiteners)
        # By rounding, they can be below zero.
        return np.asarray(np.maximum(values, 0.0))

    def smallest_variance(self, covariances: Array) -> float:
        """Return the smallest variance of any component in any direction."""
        return float((np.linalg.eigvalsh(covariances) if self.n_axes == 2 else covariances).min())

    def is_collapsed(self, covariances: Array) -> bool:
        """Return whether a component has no variance in some direction, up to the floor."""
        return not self.smallest_variance(covariances) > 2 * self.min_variance

    def floored(self, covariances: Array) -> Array:
        """Return the covariances with variances raised to `min_variance` where they are below."""
        if self.n_axes < 2:
            return np.maximum(covariances, self.min_variance)
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
        least = np.maximum(self.min_variance, PRODUCT_ROUNDING * values.shape[-1] * values[..., -1:])
        return (vectors * np.maximum(values, least)[..., None, :]) @ np.swapaxes(vectors, -1, -2)

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
        # Variances without correlations have a distribution each.
        n_joint = n_features if self.n_axes == 2 else 1
        n_values = self.divisor(np.maximum(counts - 1, 0.0), n_features)[..., None]
        strength = self.divisor(np.asarray(strength), n_features)[..., None]
        dof = strength + n_joint + 1
        after, halves = (dof + n_values) / 2, np.arange(n_joint) / 2
        gammas = gammaln(after - halves) - gammaln(dof / 2 - halves)
        scale = dof / 2 * np.log(strength) - after * np.log(strength + spectrum)
        return np.asarray((gammas + scale - n_values / 2 * np.log(np.pi)).sum(axis=-1))

    # --- columns, and covariances that are given ------------------------------------------------

    def diagonals(self, covariances: Array) -> Array:
        """Return the variances of the columns; for spherical covariances, the one variance of all columns."""
        return np.diagonal(covariances, axis1=-2, axis2=-1) if self.n_axes == 2 else covariances

    def marginal(self, covariances: Array, columns: list[int]) -> Array:
        """Return the covariances of some of the columns."""
        if self.n_axes == 2:
            return covariances[..., columns, :][..., columns]
        return covariances[..., columns] if self.n_axes else covariances

    @np.errstate(all="ignore")
    def is_symmetric(self, covariances: Array) -> bool:
        """Return whether the triangles of matrices are the same up to rounding, relative to the diagonal."""
        if self.n_axes < 2:
            return True
        deviations = np.sqrt(np.abs(self.diagonals(covariances)))
        correlations = covariances / deviations[..., :, None] / deviations[..., None, :]
        return np.allclose(correlations, np.swapaxes(correlations, -1, -2))

    def check_covariances(self, covariances: Array, name: str) -> None:
        """Refuse arrays that are not covariances of this kind; `name` is for the message."""
        is_valid = self.is_symmetric(covariances) and np.all(self.diagonals(covariances) > 0)
        try:
            is_valid = is_valid and np.all(np.isfinite(self.root(covariances)))
        except np.linalg.LinAlgError:
            is_valid = False
        if not is_valid:
            words = "positive definite and symmetric" if self.n_axes == 2 else "positive"
            raise ValueError(f"{name} must be {words}.")

    def from_precisions(self, precisions: Array, name: str) -> Array:
        """Return the covariances whose inverses are `precisions_init`, or refuse invalid ones.

        `name` is for the message, which begins as scikit-learn's, as scripts may match that.
        """
        if not self.is_symmetric(precisions) or self.smallest_variance(precisions) <= 0:
            words = "symmetric, positive-definite" if self.n_axes == 2 else "positive"
            raise ValueError(
                f"The parameter '{name}' should be {words}: precisions_init are the inverses of covariances."
            )
        return np.linalg.inv(precisions) if self.n_axes == 2 else 1 / precisions
