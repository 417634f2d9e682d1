"""The start that the parameters of an estimator ask for: a name, a callable, or an explicit start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.mixture import SphericalMixture
from apolar.mixture.order import canonical_order
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.starts import start_candidates
from apolar.starts.given import checked_means, checked_precisions, checked_weights, from_assignment
from apolar.starts.moments import whitened_spherical

__all__ = ["ResolvedStart", "has_given_parameters", "resolved_start"]

# The least weight of a component of given parameters, in rows.
MIN_ROWS = 1e-3


@dataclass(frozen=True, eq=False)
class ResolvedStart:
    """The source of the candidates of a fit.

    Attributes
    ----------
    candidates : callable
        Takes a generator and returns candidates, the best first.
    n_init : int
        How many times to call it: once, if it does not depend on the generator.
    keeps_order : bool
        Whether components stay in the order in which the user gave them.
    """

    candidates: Callable[[np.random.Generator], list[Fit]]
    n_init: int
    keeps_order: bool

    @classmethod
    def fixed(cls, start: Fit, *, keeps_order: bool) -> ResolvedStart:
        """Return the start from one given mixture."""
        return cls(lambda _: [start], 1, keeps_order)


def resolved_start(
    settings: Any, data: Problem, X: Any, prior: Prior | None, row_mask: Array | None
) -> ResolvedStart:
    """Return the start that the parameters of an estimator ask for.

    Parameters
    ----------
    settings : GaussianMixture
        Only its parameters n_components, n_init, init_params, weights_init, means_init and precisions_init
        are read.
    data : Problem
    X : object
        The rows as the user gave them: the argument of a callable.
    prior : Prior or None
    row_mask : ndarray of bool or None
        Which rows of X are in the data, if not all are.

    Returns
    -------
    start : ResolvedStart
    """
    requested = _RequestedStart(settings, data, X, prior, row_mask)
    if has_given_parameters(settings):
        return ResolvedStart(lambda rng: [requested.from_parameters(rng)], 1, keeps_order=True)
    if isinstance(settings.init_params, str) or callable(settings.init_params):
        return ResolvedStart(requested.candidates, settings.n_init, keeps_order=False)
    return ResolvedStart.fixed(requested.from_labels(), keeps_order=True)


def has_given_parameters(settings: Any) -> bool:
    """Return whether the user gave weights, means or precisions to start from."""
    names = ("weights_init", "means_init", "precisions_init")
    return any(getattr(settings, name) is not None for name in names)


@dataclass(frozen=True, eq=False)
class _RequestedStart:
    """The parameters of an estimator that describe the start, and the rows to start on."""

    settings: Any
    data: Problem
    X: Any
    prior: Prior | None
    row_mask: Array | None

    @property
    def n_components(self) -> int:
        """Their number, as Python's integer: in small integers of NumPy, products would overflow."""
        return int(self.settings.n_components)

    def candidates(self, rng: np.random.Generator) -> list[Fit]:
        """Return the candidates of a start by name, or the start that a callable returns."""
        init_params = self.settings.init_params
        if isinstance(init_params, str):
            return start_candidates(init_params, self.data, self.n_components, self.prior, rng)
        return [self._from_callable(rng)]

    def from_labels(self) -> Fit:
        """Return the M-step from labels or responsibilities."""
        parameters = self._from_assignment(self.settings.init_params)
        return Fit(parameters, "given", is_from_all_rows=True)

    def _from_assignment(
        self, assignment: Any, name: str = "init_params", alternative: str = "the name of a start"
    ) -> WhitenedParameters:
        return from_assignment(
            self.data,
            self.n_components,
            self.prior,
            assignment,
            name,
            self.row_mask,
            alternative=alternative,
        )

    def _from_callable(self, rng: np.random.Generator) -> Fit:
        """Return the start that the callable returns: a mixture, a fitted model, or an assignment."""
        function, n_components = self.settings.init_params, self.n_components
        answer = function(self.X, n_components, np.random.RandomState(rng.integers(2**31)))
        name = getattr(function, "__name__", "callable")
        if isinstance(answer, SphericalMixture):
            shape, expected = answer.means.shape, (n_components, self.data.n_features)
            if shape != expected:
                raise ValueError(
                    f"What init_params returned has means of shape {shape}; n_components and X ask for "
                    f"{expected}."
                )
            return Fit(whitened_spherical(self.data, answer, np.ones(self.data.n_features)), name)
        if hasattr(answer, "predict_proba"):
            answer = answer.predict_proba(self.X)
        parameters = self._from_assignment(answer, "What init_params returned", "a mixture")
        return Fit(parameters, name)

    def from_parameters(self, rng: np.random.Generator) -> Fit:
        """Return the start of given weights, means or precisions; those not given come from the rows."""
        settings, family, whitening = self.settings, self.data.family, self.data.whitening
        r, m = self.n_components, self.data.n_features
        weights = None if settings.weights_init is None else checked_weights(settings.weights_init, r)
        means = covariances = None
        if settings.means_init is not None:
            means = whitening.transform(checked_means(settings.means_init, r, m))
        if settings.precisions_init is not None:
            covariances = checked_precisions(settings.precisions_init, family, r, m)
            spread = MixtureParameters(np.ones(r), np.zeros((r, m)), covariances)
            covariances = whitening.transform_parameters(spread).covariances
        if weights is None or means is None or covariances is None:
            estimated = self._estimated_parameters(means, rng)
            weights = estimated.weights if weights is None else weights
            means = estimated.means if means is None else means
            covariances = estimated.covariances if covariances is None else covariances
        # A component of weight zero would stay so.
        weights = np.maximum(weights, MIN_ROWS / self.data.weight)
        weights = weights / weights.sum()
        covariances = self.data.family.projected(covariances, weights)
        parameters = WhitenedParameters(weights, means, covariances)
        return Fit(parameters, "given", is_from_all_rows=True)

    def _estimated_parameters(self, means: Array | None, rng: np.random.Generator) -> WhitenedParameters:
        """Return parameters for those not given: from the rows nearest to `means`, or by `init_params`."""
        family, init_params = self.data.family, self.settings.init_params
        if means is not None:
            return family.m_step(
                self.data.nearest_stats(means), Prior() if self.prior is None else self.prior
            )
        if isinstance(init_params, str):
            # Given weights or precisions belong to components in canonical order.
            best = self.candidates(rng)[0].parameters
            in_data_units = self.data.whitening.inverse_transform(best.means)
            return family.reordered(best, canonical_order(best.weights, in_data_units))
        if callable(init_params):
            return self._from_callable(rng).parameters
        return self._from_assignment(init_params)
