"""Steps of EM for components without correlations, by the compiled kernels: see `compiled`.

Variances have shape (..., n_components, n_features), or (..., n_components) if all columns have the same. The
functions return None where there is no compiled kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families import compiled
from apolar.mixture.families.base import Family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import PriorTerms
from apolar.mixture.stats import SufficientStats

__all__ = ["AxisAligned"]


def _contiguous(array: Array) -> Array:
    return np.ascontiguousarray(array, dtype=np.float64)


class AxisAligned(Family):
    """A family without correlations.

    Families that derive from one may share variances, or estimate them in another way: the kernels of the
    M-step, the prior and the gradient are those of the family `compiled_for` itself.
    """

    compiled_for: type[Family]

    def _n_variances(self, n_features: int) -> int:
        return n_features if self.n_axes else 1

    def _prior(self, terms: PriorTerms | None, shape: tuple[int, ...], n_variances: int) -> Any:
        """Return shrinkage, what a prior adds to the scatters, and divisors per component; None if not so."""
        if terms is None:
            return 0.0, np.zeros(n_variances), np.zeros(shape)
        divisors = np.full(shape, terms.divisor + terms.mean_divisor)
        added = _contiguous(terms.scatter)
        if added.size not in (n_variances, divisors.size * n_variances):
            return None
        return terms.shrinkage, added, divisors

    def compiled_natural(self, parameters: WhitenedParameters) -> Array | None:
        """Return the natural parameters."""
        if compiled.kernels is None:
            return None
        weights, means = parameters.weights, parameters.means
        n_features = means.shape[-1]
        n_variances = self._n_variances(n_features)
        out = np.empty((*weights.shape, 1 + n_features + n_variances))
        arrays = (weights, means, self.per_component(parameters.covariances))
        compiled.kernels.aligned_natural(*map(_contiguous, arrays), out, n_features, n_variances)
        return out

    @property
    def compiled_code(self) -> str | None:
        return self.code if type(self) is self.compiled_for else None

    def compiled_m_step(
        self,
        stats: SufficientStats,
        terms: PriorTerms | None,
        near: WhitenedParameters | None,
    ) -> tuple[Array, Array] | None:
        if compiled.kernels is None or type(self) is not self.compiled_for:
            return None
        n_features, shape = stats.n_features, stats.counts.shape
        n_variances = self._n_variances(n_features)
        prior = self._prior(terms, shape, n_variances)
        if prior is None:
            return None
        means, variances = np.empty((*shape, n_features)), np.empty((*shape, *(n_features,) * self.n_axes))
        arrays = (_contiguous(stats.array), *prior[1:], means, variances)
        numbers = (n_features, n_variances, prior[0], self.least_variance)
        compiled.kernels.aligned_m_step(*arrays, *numbers)
        return means, variances

    def compiled_log_prior(self, parameters: WhitenedParameters, terms: PriorTerms) -> Array | None:
        if compiled.kernels is None or type(self) is not self.compiled_for:
            return None
        means, shape = parameters.means, parameters.weights.shape
        n_variances = self._n_variances(means.shape[-1])
        prior = self._prior(terms, shape, n_variances)
        if prior is None:
            return None
        out = np.empty(shape)
        arrays = (_contiguous(means), _contiguous(parameters.covariances), *prior[1:], out)
        compiled.kernels.aligned_log_prior(*arrays, means.shape[-1], n_variances, prior[0])
        return out

    def compiled_common_covariance(
        self, stats: SufficientStats, added: Array, **options: Any
    ) -> Array | None:
        if compiled.kernels is None:
            return None
        n_features, shape = stats.n_features, stats.counts.shape
        out = np.empty((*shape, *(n_features,) * self.n_axes))
        numbers = (n_features, self._n_variances(n_features), shape[-1], self.least_variance)
        compiled.kernels.aligned_common_covariance(
            *(_contiguous(stats.array), _contiguous(added), out, *numbers),
            *(options["least_count"], options["volume_rows"], options["rounds"]),
        )
        return out

    def compiled_log_marginal(
        self, counts: Array, spectrum: Array, strength: Array, n_features: int
    ) -> Array | None:
        """Return the log-marginal of each component under each of some strengths."""
        is_table = strength.ndim == counts.ndim + 1 and strength.size == len(strength)
        if compiled.kernels is None or not is_table:
            return None
        out = np.empty((len(strength), *counts.shape))
        arrays = (_contiguous(counts), _contiguous(spectrum), _contiguous(strength), out)
        compiled.kernels.aligned_log_marginals(*arrays, n_features, self._n_variances(n_features))
        return out

    def compiled_gradient(
        self, root: Array, tangents: Array, means: Array, stats: SufficientStats, terms: PriorTerms | None
    ) -> tuple[Array, Array] | None:
        if compiled.kernels is None or type(self) is not self.compiled_for:
            return None
        n_components, n_features = means.shape
        n_variances = self._n_variances(n_features)
        prior = self._prior(terms, (n_components,), n_variances)
        if prior is None:
            return None
        by_mean, by_covariance = np.empty(means.shape), np.empty(tangents.shape)
        arrays = (*map(_contiguous, (root, tangents, stats.array, means)), *prior[1:], by_mean, by_covariance)
        compiled.kernels.aligned_gradient(*arrays, n_features, n_variances, prior[0])
        return by_mean, by_covariance
