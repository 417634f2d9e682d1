"""The start that the parameters of an estimator ask for: by name, by a callable, or given by the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.em.result import FitResult
from apolar.em.whitened import WhitenedData
from apolar.mixture import SphericalMixture
from apolar.mixture.order import canonical_order
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.starts import start_candidates
from apolar.starts.given import checked_means, checked_precisions, checked_weights, from_assignment

__all__ = ["ResolvedStart", "resolved_start"]


@dataclass(frozen=True, eq=False)
class ResolvedStart:
    """What makes the candidates of a fit.

    Attributes
    ----------
    candidates : callable
        Takes a generator and returns candidates, the best first.
    n_init : int
        How often it is worth calling.
    keeps_order : bool
        Whether the user gave the components in an order, which the fit keeps.
    """

    candidates: Callable[[np.random.Generator], list[FitResult]]
    n_init: int
    keeps_order: bool

    @classmethod
    def fixed(cls, start: FitResult, *, keeps_order: bool) -> ResolvedStart:
        """Return the start that is one mixture."""
        return cls(lambda _: [start], 1, keeps_order)


def resolved_start(
    settings: Any, data: WhitenedData, X: Any, prior: Prior | None, kept: Array | None
) -> ResolvedStart:
    """Return the start that the parameters of an estimator ask for.

    Parameters
    ----------
    settings : GaussianMixture
        Of which only the parameters are read: n_components, n_init, init_params, weights_init, means_init
        and precisions_init.
    data : WhitenedData
    X : object
        The rows as the user gave them, for a callable.
    prior : Prior or None
    kept : ndarray of bool or None
        Which rows of X are in the data, where not all are.

    Returns
    -------
    start : ResolvedStart
    """
    given = _Given(settings, data, X, prior, kept)
    if has_given_parameters(settings):
        return ResolvedStart(lambda rng: [given.from_parameters(rng)], 1, keeps_order=True)
    if isinstance(settings.init_params, str) or callable(settings.init_params):
        return ResolvedStart(given.candidates, settings.n_init, keeps_order=False)
    return ResolvedStart.fixed(given.from_labels(), keeps_order=True)


def has_given_parameters(settings: Any) -> bool:
    """Return whether parameters of the start are given."""
    names = ("weights_init", "means_init", "precisions_init")
    return any(getattr(settings, name) is not None for name in names)


@dataclass(frozen=True, eq=False)
class _Given:
    """What the user gave, and the rows it is for."""

    settings: Any
    data: WhitenedData
    X: Any
    prior: Prior | None
    kept: Array | None

    def candidates(self, rng: np.random.Generator) -> list[FitResult]:
        """Return the candidates of a start by name, or what a callable returns."""
        init_params = self.settings.init_params
        if isinstance(init_params, str):
            return start_candidates(init_params, self.data, self.settings.n_components, self.prior, rng)
        return [self._called(rng)]

    def from_labels(self) -> FitResult:
        """Return the M-step from labels or responsibilities."""
        parameters = self._assigned(self.settings.init_params, "init_params")
        return FitResult(parameters, "given", is_from_all_rows=True)

    def _assigned(self, assignment: Any, name: str) -> WhitenedParameters:
        r = self.settings.n_components
        return from_assignment(self.data, r, self.prior, assignment, name, self.kept)

    def _called(self, rng: np.random.Generator) -> FitResult:
        function, n_components = self.settings.init_params, self.settings.n_components
        answer = function(self.X, n_components, np.random.RandomState(rng.integers(2**31)))
        name = getattr(function, "__name__", "callable")
        if isinstance(answer, SphericalMixture):
            family, whitening = self.data.family, self.data.whitening
            covariances = family.from_spherical(answer.variances, whitening.metric(family), answer.weights)
            means = whitening.transform(answer.means)
            return FitResult(WhitenedParameters(answer.weights, means, covariances), name)
        if hasattr(answer, "predict_proba"):
            answer = answer.predict_proba(self.X)
        return FitResult(self._assigned(answer, "What init_params returned"), name)

    def from_parameters(self, rng: np.random.Generator) -> FitResult:
        """Return the start whose weights, means or precisions are given; the others come from the rows."""
        settings, family, whitening = self.settings, self.data.family, self.data.whitening
        r, m = settings.n_components, self.data.n_features
        weights = None if settings.weights_init is None else checked_weights(settings.weights_init, r)
        means = covariances = None
        if settings.means_init is not None:
            means = whitening.transform(checked_means(settings.means_init, r, m))
        if settings.precisions_init is not None:
            covariances = checked_precisions(settings.precisions_init, family, r, m)
            spread = MixtureParameters(np.ones(r), np.zeros((r, m)), covariances)
            covariances = whitening.transform_parameters(spread).covariances
        if weights is None or means is None or covariances is None:
            others = self._others(means, rng)
            weights = others.weights if weights is None else weights
            means = others.means if means is None else means
            covariances = others.covariances if covariances is None else covariances
        weights = np.maximum(weights, 1e-3 / self.data.weight)
        parameters = WhitenedParameters(weights / weights.sum(), means, covariances)
        return FitResult(parameters, "given", is_from_all_rows=True)

    def _others(self, means: Array | None, rng: np.random.Generator) -> WhitenedParameters:
        """Return what is not given: from the rows nearest to the means, or from `init_params`."""
        family, init_params = self.data.family, self.settings.init_params
        if means is not None:
            return family.m_step(
                self.data.nearest_stats(means), Prior() if self.prior is None else self.prior
            )
        if isinstance(init_params, str):
            # Precisions are given in an order: that of components in canonical order.
            best = self.candidates(rng)[0].parameters
            in_data_units = self.data.whitening.inverse_transform(best.means)
            return family.reordered(best, canonical_order(best.weights, in_data_units))
        if callable(init_params):
            return self._called(rng).parameters
        return self._assigned(init_params, "init_params")
