"""Missing values replaced, under a mixture, by their expected values or by draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.constants import LEAST_WEIGHT
from apolar._core.namespaces import is_device_array, to_numpy
from apolar.em.patterns import PatternGroup, Patterns
from apolar.em.whitening import MOST_DISTANCE, Whitening
from apolar.mixture.conditioning import Conditioned, NaturalComponents
from apolar.mixture.families import Family
from apolar.mixture.families.base import LOG_2PI
from apolar.mixture.parameters import MixtureParameters

__all__ = ["Completion", "as_float64_rows", "natural_components"]


def as_float64_rows(values: Any) -> Array:
    """Return dense rows on the host in double precision."""
    return np.asarray(to_numpy(values) if is_device_array(values) else values, np.float64)


def natural_components(weights: Array, means: Array, matrices: Array) -> NaturalComponents:
    """Return the components of one mixture, by their covariances as matrices."""
    precisions, log_dets = np.linalg.inv(matrices), np.linalg.slogdet(matrices)[1]
    linear = np.einsum("kij,kj->ki", precisions, means)
    squares = np.einsum("ki,ki->k", linear, means)
    log_weights = np.log(np.maximum(weights, LEAST_WEIGHT))
    constants = log_weights - 0.5 * (means.shape[1] * LOG_2PI + log_dets + squares)
    return NaturalComponents(constants, linear, precisions)


@dataclass(frozen=True, eq=False)
class Completion:
    """The transform that puts the expected value under a mixture in place of each missing one.

    Attributes
    ----------
    centre, units : ndarray, shape (n_features,)
        Of the columns in which the components are given.
    components : NaturalComponents
        Of one mixture of columns that are centred and divided by their units.
    """

    centre: Array
    units: Array
    components: NaturalComponents

    @classmethod
    def by_regression(cls, whitening: Whitening) -> Completion:
        """Return the completion by the regression on the observed columns, as if rows were one Gaussian."""
        covariance = whitening.available_covariance
        assert covariance is not None
        variances = np.diag(covariance)
        units = np.sqrt(np.where(variances > 0, variances, 1.0))
        correlation = covariance / units / units[:, None]
        # A constant column has no regression.
        np.fill_diagonal(correlation, 1.0)
        precision = np.linalg.inv(correlation)
        components = NaturalComponents(np.zeros(1), np.zeros((1, len(units))), precision[None])
        return cls(whitening.centre, units, components)

    @classmethod
    def by_mixture(cls, family: Family, whitening: Whitening, parameters: MixtureParameters) -> Completion:
        """Return the completion by a mixture in the units of the data; the whitening only scales columns."""
        units = np.broadcast_to(whitening.deviations, parameters.n_features)
        matrices = family.matrices(parameters.covariances, *parameters.means.shape) / units / units[:, None]
        means = (parameters.means - whitening.centre) / units
        return cls(whitening.centre, units, natural_components(parameters.weights, means, matrices))

    def __call__(self, values: Any, weights: Any) -> tuple[Any, Any]:
        """Return the completed chunk, and its weights."""
        return self.expected(as_float64_rows(values)), weights

    def expected(self, x: Array) -> Array:
        """Return rows with the expected value in place of each missing one."""
        out = x.copy()
        for group, given, responsibilities in self._groups(x):
            of_row = group.patterns_of_rows()
            filled = np.zeros((len(of_row), group.missing.shape[1]))
            for k, shares in enumerate(responsibilities):
                filled += shares[:, None] * _means(group, given, k)
            self._put(out, group, filled)
        return out

    def variances(self, x: Array) -> Array:
        """Return the variances of missing values given the observed ones of the row; zero for the others."""
        out = np.zeros(x.shape)
        for group, given, responsibilities in self._groups(x):
            of_row = group.patterns_of_rows()
            means = [_means(group, given, k) for k in range(len(responsibilities))]
            centre = sum(shares[:, None] * mean for shares, mean in zip(responsibilities, means, strict=True))
            within = np.diagonal(given.covariances, axis1=-2, axis2=-1)
            spread = np.zeros((len(of_row), group.missing.shape[1]))
            for k, (shares, mean) in enumerate(zip(responsibilities, means, strict=True)):
                spread += shares[:, None] * (within[of_row, k] + (mean - centre) ** 2)
            columns = group.missing[of_row]
            out[group.positions[:, None], columns] = self.units[columns] ** 2 * spread
        return out

    def drawn(self, x: Array, rng: np.random.Generator) -> Array:
        """Return rows with a draw, given what is observed of the row, in place of each missing value."""
        # In the order of rows, whatever their patterns are.
        draws, noise = rng.random(len(x)), rng.standard_normal(x.shape)
        out = x.copy()
        for group, given, responsibilities in self._groups(x):
            of_row = group.patterns_of_rows()
            cumulated = np.cumsum(responsibilities, axis=0)
            chosen = (draws[group.positions] * cumulated[-1] > cumulated[:-1]).sum(axis=0)
            roots = _roots(given.covariances)[of_row, chosen]
            of_missing = noise[group.positions[:, None], group.missing[of_row]]
            filled = np.einsum("rij,rj->ri", roots, of_missing)
            for k in np.unique(chosen).tolist():
                filled += np.where((chosen == k)[:, None], _means(group, given, k), 0.0)
            self._put(out, group, filled)
        return out

    def scaled(self, x: Array, columns: Any = slice(None)) -> Array:
        """Return the values of columns in their units, at most `MOST_DISTANCE`: squares do not overflow."""
        with np.errstate(over="ignore"):
            scaled = (x - self.centre[columns]) / self.units[columns]
        return np.clip(scaled, -MOST_DISTANCE, MOST_DISTANCE)

    def _groups(self, x: Array) -> Iterator[tuple[PatternGroup, Conditioned, Array]]:
        """Yield the groups of rows with missing values, components given the others, and responsibilities."""
        rows = np.flatnonzero(np.isnan(x).any(axis=1))
        if not len(rows):
            return
        for group, given in Patterns(self.scaled(x[rows])).conditioned(self.components):
            logits = group.logits(given.marginal)
            logits -= logits.max(axis=0)
            responsibilities = np.exp(logits)
            responsibilities /= responsibilities.sum(axis=0)
            yield group.at(rows), given, responsibilities

    def _put(self, out: Array, group: PatternGroup, filled: Array) -> None:
        """Write what missing values are replaced by into rows."""
        columns = group.missing[group.patterns_of_rows()]
        out[group.positions[:, None], columns] = self.centre[columns] + self.units[columns] * filled


def _roots(covariances: Array) -> Array:
    """Return L with L L^t each covariance, also of those that are singular up to rounding."""
    try:
        return np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariances)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])


def _means(group: PatternGroup, given: Conditioned, component: int) -> Array:
    """Return the means of the missing values of each row in one component, shape (n_rows, n_missing)."""
    gains, offsets = given.gains[:, component], given.offsets[:, component]
    if not group.is_large:
        of_row = group.patterns_of_rows()
        return np.einsum("rmo,ro->rm", gains[of_row], group.values) + offsets[of_row]
    starts = group.starts
    parts = [group.values[starts[p] : starts[p + 1]] @ gains[p].T for p in range(group.n_patterns)]
    return np.concatenate(parts) + np.repeat(offsets, np.diff(starts), axis=0)
