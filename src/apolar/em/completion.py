"""Missing values replaced, under a mixture, by their expected values or by draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.em.blocks import as_float64_rows, posteriors
from apolar.em.missing import PatternRows
from apolar.em.whitening import MAX_DISTANCE, Whitening
from apolar.mixture.conditional import FULL, ConditionalComponents, RootedComponents
from apolar.mixture.families import Family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.tails import Tails

__all__ = ["Completion"]


@dataclass(frozen=True, eq=False)
class Completion:
    """The transform that puts the expected value under a mixture instead of each missing one.

    Attributes
    ----------
    centre, units : ndarray, shape (n_features,)
        Of the columns in which the components are given.
    components : RootedComponents
        Of one mixture of columns that are centred and divided by their units.
    dof : ndarray, shape (n_components,), or None
        Degrees of freedom of components with long tails.
    """

    centre: Array
    units: Array
    components: RootedComponents
    dof: Array | None = None

    @classmethod
    def by_regression(cls, centre: Array, covariance: Array) -> Completion:
        """Return the completion by the regression on the observed columns, as if rows were one Gaussian."""
        variances = np.diag(covariance)
        units = np.sqrt(np.where(variances > 0, variances, 1.0))
        correlation = covariance / units / units[:, None]
        # A constant column has no regression.
        np.fill_diagonal(correlation, 1.0)
        root = FULL.root(correlation)
        return cls(centre, units, RootedComponents(np.ones(1), np.zeros((1, len(units))), root[None]))

    @classmethod
    def by_mixture(cls, family: Family, whitening: Whitening, parameters: WhitenedParameters) -> Completion:
        """Return the completion by a mixture, in the coordinates of a whitening."""
        units = np.broadcast_to(whitening.deviations, parameters.n_features)
        means = parameters.means
        roots = FULL.root(family.matrices(parameters.covariances, *means.shape))
        if whitening.inverse.ndim == 2:
            mixing = whitening.inverse / units
            means, roots = means @ mixing, mixing.T @ roots
        components = RootedComponents(parameters.weights, means, roots)
        return cls(whitening.centre, units, components, parameters.dof)

    def __call__(self, values: Any, weights: Any) -> tuple[Any, Any]:
        """Return the completed chunk, and its weights."""
        return self.impute(as_float64_rows(values)), weights

    def impute(self, x: Array) -> Array:
        """Return rows with the expected value instead of each missing one."""
        out = x.copy()
        for part, given, responsibilities, _ in self.parts(x):
            self._put(out, part, _mean(responsibilities, part.expectations(given)))
        return out

    def variances(self, x: Array) -> Array:
        """Return the variances of missing values given the observed ones of the row; zero for the others.

        Infinite where tails are so long that there is none.
        """
        out = np.zeros(x.shape)
        for part, given, responsibilities, scales in self.parts(x):
            expected = part.expectations(given)
            within = np.moveaxis(part.by_row(np.diagonal(given.covariances, axis1=-2, axis2=-1)), 1, 0)
            if self.dof is not None:
                freedom = self._conditional_dof(part)
                without = np.full(freedom.shape, np.inf)
                factors = scales * np.divide(freedom, freedom - 2, out=without, where=freedom > 2)
                # Zero times infinity would be NaN where a value is known.
                is_missing = part.by_row(part.missing)
                within = np.where(is_missing, within, 0.0) * np.where(is_missing, factors[..., None], 1.0)
            between = (expected - _mean(responsibilities, expected)) ** 2
            spread = _mean(responsibilities, within + between)
            out[part.positions] = np.where(part.by_row(part.missing), self.units**2 * spread, 0.0)
        return out

    def draw(self, x: Array, rng: np.random.Generator) -> Array:
        """Return rows with a draw, given what is observed of the row, instead of each missing value."""
        # In the order of rows, whatever their patterns are.
        draws, noise = rng.random(len(x)), rng.standard_normal(x.shape)
        out = x.copy()
        for part, given, responsibilities, scales in self.parts(x):
            cumulated = np.cumsum(responsibilities, axis=0)
            chosen = (draws[part.positions] * cumulated[-1] > cumulated[:-1]).sum(axis=0)
            rows = np.arange(len(chosen))
            # With the identity among observed columns, whose draws are left out.
            covariances = given.covariances + np.eye(x.shape[1]) * ~part.missing[:, None, None]
            roots = part.by_row(_roots(covariances))[rows, chosen]
            drawn = np.einsum("rij,rj->ri", roots, noise[part.positions])
            if self.dof is not None:
                freedom = self._conditional_dof(part)[chosen, rows]
                drawn *= np.sqrt(scales[chosen, rows] * freedom / rng.chisquare(freedom))[:, None]
            self._put(out, part, drawn + part.expectations(given)[chosen, rows])
        return out

    def parts(self, x: Array) -> Iterator[tuple[PatternRows, ConditionalComponents, Array, Array]]:
        """Yield rows with missing values, the components given the other values, and responsibilities.

        Last come the factors of the scale matrices given these values; both have the shape
        (n_components, n_rows).
        """
        rows = np.flatnonzero(np.isnan(x).any(axis=1))
        if not len(rows):
            return
        with np.errstate(over="ignore"):
            # Clipped, so that squares do not overflow.
            scaled = np.clip((x[rows] - self.centre) / self.units, -MAX_DISTANCE, MAX_DISTANCE)
        for part in PatternRows.of(scaled).parts(len(self.components.means)):
            given = self.components.given(part.missing)
            logits, factors = part.logits(given.marginal), np.ones((1, 1))
            if self.dof is not None:
                peaks = given.marginal.peaks
                tails = Tails(self.dof, peaks[0], x.shape[1])
                n_observed = part.by_row(np.sum(~part.missing, axis=1))
                logits, factors, _ = tails.terms(logits, part.by_row(peaks).T, n_observed)
            responsibilities = posteriors(logits[None])[0][0]
            yield replace(part, positions=rows[part.positions]), given, responsibilities, 1 / factors

    def _conditional_dof(self, part: PatternRows) -> Array:
        """Return the degrees of freedom given the observed values, shape (n_components, n_rows)."""
        assert self.dof is not None
        return self.dof[:, None] + part.by_row(np.sum(~part.missing, axis=1))

    def _put(self, out: Array, part: PatternRows, filled: Array) -> None:
        """Write what missing values are replaced by into rows."""
        replaced = self.centre + self.units * filled
        out[part.positions] = np.where(part.by_row(part.missing), replaced, out[part.positions])


def _mean(responsibilities: Array, values: Array) -> Array:
    """Return the means of values, shape (n, n_rows, n_features), over the components of each row."""
    return np.asarray(np.einsum("kr,krm->rm", responsibilities, values))


def _roots(covariances: Array) -> Array:
    """Return L with L L^t each covariance, also of those that are singular up to rounding."""
    try:
        return np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariances)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])
