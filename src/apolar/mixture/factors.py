"""Families of few factors: rows mean + L z + noise, with standard normal factors z, at any number of columns.

Rows with their factors are an exponential family, whose sums EM needs [ghahramani1996]: neither step forms a
matrix of all columns. Under probabilistic PCA [tipping1999] the noise of all columns has one variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.checks import fits_in_memory
from apolar._core.constants import MIN_WEIGHT
from apolar.mixture import low_rank
from apolar.mixture.families import FACTORS, FAMILIES, Family, PriorTerms
from apolar.mixture.low_rank import FactorStats, factor_precisions, join, move, rescale, split
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.storage import LOG_2PI

__all__ = ["FactorFamily"]

# The floor of the variances of the noise in whitened coordinates: a column may be a function of the factors.
MIN_NOISE_VARIANCE = 1e-8


@dataclass(frozen=True)
class FactorFamily(Family):
    """A family of covariances L L^t + P.

    All components have the same number of columns of L, the factors.
    """

    chart: ClassVar[ModuleType] = low_rank
    has_factors: ClassVar[bool] = True
    noise: Family = FAMILIES["diag"]

    # --- related families, and coordinates ------------------------------------------------------

    def with_axes(self, n_axes: int) -> Family:
        """Return a family without factors, of at most one axis; itself for two."""
        return self if n_axes > 1 else replace(self.row_family, dof=self.dof).with_axes(n_axes)

    def max_factors(self, n_features: int, n_rows: int) -> int:
        """Return the largest number of factors that covariances, or this number of rows, can tell."""
        most = n_features - 1
        if self.unit_axes:
            # With more, covariances have more parameters than matrices [ledermann1937].
            most = int(n_features + 0.5 - 0.5 * np.sqrt(8 * n_features + 1) + 1e-9)
        return max(1, min(most, n_rows - 1))

    # --- numbers and shapes ---------------------------------------------------------------------

    @property
    def _n_factors(self) -> int:
        if self.n_factors is None:
            raise ValueError(f"The number of factors of {self.name!r} covariances is not chosen yet.")
        return self.n_factors

    def n_covariance_parameters(self, n_components: int, n_features: int) -> int:
        """Return the number of free parameters: loadings up to a rotation, and variances of the noise."""
        q = min(self._n_factors, n_features)
        of_noise = self.noise.n_covariance_parameters(n_components, n_features)
        return n_components * (q * n_features - q * (q - 1) // 2) + of_noise

    def covariance_shape(self, n_components: int, n_features: int) -> tuple[int, ...]:
        """Return the shape of the covariances of a mixture."""
        return n_components, n_features, 1 + self._n_factors

    def n_stats(self, n_features: int) -> int:
        """Return the number of statistics: of a row, of its factors, and of both."""
        of_factors = self._n_factors * (n_features + 1 + self._n_factors)
        return self.row_family.n_stats(n_features) + of_factors

    def noise_as_stored(self, noise: Array) -> Array:
        """Return variances of the noise, (..., n_components, n_features), as their family has them."""
        noise = noise if self.unit_axes else noise[..., 0]
        return np.take(noise, 0, axis=-1 - self.unit_axes) if self.noise.shares_covariance else noise

    def noise_of_columns(self, noise: Array, n_features: int) -> Array:
        """Return variances of the noise as their family has them for each column."""
        noise = self.noise.per_component(noise)
        return noise if self.unit_axes else noise[..., None] * np.ones(n_features)

    def relative_variances(self, scatter: Array, covariances: Array) -> Array:
        """Return the ratios of variances of columns and of their noise: no direction has a larger one."""
        noise, _ = split(covariances)
        return np.asarray(scatter / (noise if self.unit_axes else noise[..., 0]))

    def rescaled(self, covariances: Array, units: Array) -> tuple[str, Array]:
        """Return covariances of columns multiplied by `units`, (n_features,), and their family's name."""
        return self.name.replace("ppca", "factor"), rescale(covariances, units)

    # --- arithmetic without matrices of all columns ---------------------------------------------

    @property
    def min_variance(self) -> float:
        """The floor of the variances of the noise in whitened coordinates."""
        return MIN_NOISE_VARIANCE

    def diagonals(self, covariances: Array) -> Array:
        """Return the variances of the columns."""
        noise, loadings = split(covariances)
        return np.asarray(noise + np.einsum("...ij,...ij->...i", loadings, loadings))

    def matrices(self, covariances: Array, n_components: int, n_features: int) -> Array:
        """Return the covariances of one mixture as matrices, if they fit into memory."""
        what = f"covariance matrices of {n_features} columns for {n_components} components"
        fits_in_memory(2 * n_components * n_features**2, what, "use marginal(columns) for some columns")
        noise, loadings = split(covariances)
        matrices = loadings @ np.swapaxes(loadings, -1, -2)
        diagonal = np.arange(n_features)
        matrices[..., diagonal, diagonal] += noise
        return np.asarray(matrices)

    def marginal(self, covariances: Array, columns: list[int]) -> Array:
        """Return the covariances of some of the columns."""
        return covariances[..., columns, :]

    def log_det(self, covariances: Array, n_features: int) -> Array:  # noqa: ARG002
        """Return the logarithms of the determinants."""
        noise, _ = split(covariances)
        return np.asarray(np.log(noise).sum(axis=-1) + np.linalg.slogdet(factor_precisions(covariances))[1])

    def precisions(self, covariances: Array) -> Array:
        """Return the inverses in the same form: 1 / P, then W, of diag(1 / P) - W W^t."""
        noise, loadings = split(covariances)
        roots = np.linalg.inv(np.linalg.cholesky(factor_precisions(covariances)))
        return join(1 / noise, (loadings / noise[..., None]) @ np.swapaxes(roots, -1, -2))

    def drawn(self, covariances: Array, of_rows: IndexArray, standard: Array) -> Array:
        """Return rows of standard normal numbers with the covariances of the components they are of."""
        rows = np.empty_like(standard)
        for k, covariance in enumerate(covariances):
            rows[of_rows == k] = move(covariance, standard[of_rows == k])
        return rows

    def smallest_variance(self, covariances: Array) -> float:
        """Return the smallest variance of the noise: in no direction is that of a component less."""
        return float(covariances[..., 0].min())

    def floored(self, covariances: Array) -> Array:
        """Return the covariances with variances of the noise raised to the floor."""
        noise, loadings = split(covariances)
        return join(np.maximum(noise, self.min_variance), loadings)

    def check_covariances(self, covariances: Array, name: str) -> None:
        """Refuse variances of the noise that are not positive."""
        if not np.all(covariances[..., 0] > 0):
            raise ValueError(f"{name} must begin with the variances of the noise, which are positive.")

    def from_precisions(self, precisions: Array, name: str) -> Array:  # noqa: ARG002
        """Refuse precisions."""
        raise ValueError(
            f"The parameter '{name}' is not for covariances of factors: give means_init, or responsibilities "
            "as init_params."
        )

    # --- EM -------------------------------------------------------------------------------------

    def natural(self, parameters: WhitenedParameters) -> Array:
        """Return the natural parameters of rows with their factors, shape (..., n_components, n_stats).

        Their product with the expected statistics of a row is log(w_k) + log N(x; mu_k, S_k).
        """
        means, n_features = parameters.means, parameters.n_features
        noise, loadings = split(parameters.covariances)
        scaled = np.swapaxes(loadings / noise[..., None], -1, -2)
        squares = factor_precisions(parameters.covariances)
        log_dets = np.log(noise).sum(axis=-1) + np.linalg.slogdet(squares)[1]
        of_means = (means**2 / noise).sum(axis=-1)
        log_weights = np.log(np.maximum(parameters.weights, MIN_WEIGHT))
        constants = n_features * LOG_2PI + log_dets + of_means - self._n_factors
        precisions = 1 / (noise if self.unit_axes else noise[..., 0])
        of_rows = self.row_family.join_natural(log_weights - 0.5 * constants, means / noise, precisions)
        of_factors = -(scaled @ means[..., None])[..., 0]
        return FactorStats(of_rows, scaled, of_factors, -0.5 * squares).array

    def at_means(self, means: Array, counts: Array) -> Array:
        """Return the statistics of rows at the means: their factors are zero."""
        rows = self.row_family.at_means(means, counts)
        n_left = self.n_stats(means.shape[-1]) - rows.shape[-1]
        return np.concatenate([rows, np.zeros((*counts.shape, n_left))], axis=-1)

    def before_fit(self, n_components: int, n_features: int) -> WhitenedParameters:
        """Return components around the origin, with loadings at random: those of the first statistics."""
        shape = n_components, n_features, self._n_factors
        loadings = np.random.default_rng(0).standard_normal(shape)
        weights, means = np.full(n_components, 1 / n_components), np.zeros(shape[:2])
        return self.with_dof(WhitenedParameters(weights, means, join(np.ones(shape[:2]), loadings)))

    def m_step(
        self,
        stats: SufficientStats,
        prior: Prior | None,
        near: WhitenedParameters | None = None,
        means: Array | None = None,
    ) -> WhitenedParameters:
        """Return the M-step: the regression of rows on their factors, and what is left to the noise."""
        adapted = None if prior is None else prior.adapted_to(self, stats)
        terms = self.prior_terms(adapted, stats.counts.shape[-1], stats.n_features)
        weight = np.maximum(stats.counts, MIN_WEIGHT)
        more = weight + np.asarray(terms.rows)[..., None]
        estimated = stats.first / weight[..., None]
        means = estimated if means is None else np.where(np.isnan(means), estimated, means)
        loadings, scatter, divisor = self._regression(stats, means)
        divisor = np.maximum(divisor + terms.divisor, MIN_WEIGHT)
        noise = (scatter + terms.scatter) / self.noise.each(divisor)
        covariances = self.floored(join(self.noise_of_columns(noise, stats.n_features), loadings))
        weights, dof = more / more.sum(axis=-1, keepdims=True), self._next_dof(stats, near)
        return WhitenedParameters(weights, means, covariances, dof=dof)

    def _regression(self, stats: SufficientStats, means: Array) -> tuple[Array, Array, Array]:
        """Return the loadings, and scatter and divisor of the noise, as its family has them.

        The factors are centred: so they are after an E-step at the new means.
        """
        q, kind, axis = self._n_factors, self.row_family, stats.counts.ndim - 1
        parts = FactorStats.of(stats.array, kind.n_stats(stats.n_features), stats.n_features)
        weight = np.maximum(stats.counts, MIN_WEIGHT)[..., None]
        centres = parts.factors / weight
        cross = parts.cross - centres[..., :, None] * stats.first[..., None, :]
        squares = parts.squares - centres[..., :, None] * parts.factors[..., None, :]
        coefficients = np.linalg.solve(squares + MIN_WEIGHT * np.eye(q), cross)
        explained = np.einsum("...qi,...qi->...i", coefficients, cross)
        scatter = kind.scatter(SufficientStats(parts.rows, stats.n_features))
        scatter = scatter - (explained if self.unit_axes else explained.sum(axis=-1))
        scatter = np.maximum(scatter, 0.0) + kind.between(stats.first / weight - means, stats.counts)
        divisor = kind.divisor(stats.counts, stats.n_features)
        pooled = self.noise.pooled(scatter, axis), self.noise.pooled(divisor, axis)
        return np.swapaxes(coefficients, -1, -2), *pooled

    def common_part(self, stats: SufficientStats) -> tuple[Family, Array]:
        """Return the family of the noise, and the variances of that of all components together."""
        means = stats.first / np.maximum(stats.counts, MIN_WEIGHT)[..., None]
        _, scatter, divisor = self._regression(stats, means)
        if not self.noise.shares_covariance:
            axis = stats.counts.ndim - 1
            scatter, divisor = scatter.sum(axis=axis, keepdims=True), divisor.sum(axis=axis, keepdims=True)
        return self.noise, self.noise.floored(scatter / self.noise.each(np.maximum(divisor, MIN_WEIGHT)))

    def prior_terms(self, prior: Prior | None, n_components: int, n_features: int) -> PriorTerms:
        """Return what a prior adds to the M-step of the noise."""
        if prior is not None and prior.shrinkage:
            raise ValueError(f"{self.name!r} covariances take no prior of the means: set shrinkage=0.")
        terms = self.noise.prior_terms(prior, n_components, n_features)
        n_sharing = n_components if self.noise.shares_covariance else 1
        return terms._replace(divisor=terms.divisor + n_sharing * terms.mean_divisor, mean_divisor=0.0)

    def log_prior(self, parameters: WhitenedParameters, prior: Prior | None) -> Array:
        """Return the logarithm of the prior density, up to a constant, of each mixture of a batch."""
        noise = self.noise_as_stored(parameters.covariances[..., 0])
        means = np.zeros_like(parameters.means)
        return self.noise.log_prior(replace(parameters, means=means, covariances=noise), prior)


def _entries(code: str, name: str, noise: str) -> dict[str, Family]:
    """Return the entries of a family: by its name, and by its code in pgmm."""
    made = FactorFamily(name, code, 2, noise=FAMILIES[noise])
    return {name: made, code: made}


FACTORS |= (
    _entries("UUU", "factor", "diag")
    | _entries("UUC", "ppca", "spherical")
    | _entries("UCU", "factor_tied_noise", "tied_diag")
    | _entries("UCC", "ppca_tied_noise", "tied_spherical")
)
