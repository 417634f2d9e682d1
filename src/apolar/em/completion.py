"""Missing values replaced, under a mixture, by their expected values or by draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.namespaces import is_device_array, to_numpy
from apolar.em.patterns import PatternGroup, Patterns
from apolar.em.whitening import MAX_DISTANCE, Whitening
from apolar.mixture.conditioning import (
    FULL,
    Conditioned,
    NaturalComponents,
    RootedComponents,
    inverses_of,
)
from apolar.mixture.families import Family
from apolar.mixture.parameters import WhitenedParameters

__all__ = ["Completion", "as_float64_rows"]


def as_float64_rows(values: Any) -> Array:
    """Return dense rows on the host in double precision."""
    return np.asarray(to_numpy(values) if is_device_array(values) else values, np.float64)


@dataclass(frozen=True, eq=False)
class Completion:
    """The transform that puts the expected value under a mixture in place of each missing one.

    Attributes
    ----------
    centre, units : ndarray, shape (n_features,)
        Of the columns in which the components are given.
    components : NaturalComponents or RootedComponents
        Of one mixture of columns that are centred and divided by their units.
    """

    centre: Array
    units: Array
    components: NaturalComponents | RootedComponents

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
        precision = inverses_of(correlation)[0]
        components = NaturalComponents(np.zeros(1), np.zeros((1, len(units))), precision[None])
        return cls(whitening.centre, units, components)

    @classmethod
    def by_mixture(cls, family: Family, whitening: Whitening, parameters: WhitenedParameters) -> Completion:
        """Return the completion by a mixture, in the coordinates of a whitening."""
        units = np.broadcast_to(whitening.deviations, parameters.n_features)
        means = parameters.means
        roots = FULL.root(family.matrices(parameters.covariances, *means.shape))
        if whitening.inverse.ndim == 2:
            mixing = whitening.inverse / units
            means, roots = means @ mixing, mixing.T @ roots
        return cls(whitening.centre, units, RootedComponents(parameters.weights, means, roots))

    def scaled(self, x: Array, columns: Any = slice(None)) -> Array:
        """Return values of columns, centred and in their units, clipped so that squares do not overflow."""
        with np.errstate(over="ignore"):
            return np.clip((x - self.centre[columns]) / self.units[columns], -MAX_DISTANCE, MAX_DISTANCE)

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
