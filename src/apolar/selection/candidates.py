"""Candidates of a selection: each fitted, then helped by its neighbours."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.threads import one_blas_thread
from apolar.em.loop import converge
from apolar.em.result import FitResult
from apolar.em.run import short_runs
from apolar.em.whitened import WhitenedData
from apolar.estimator import GaussianMixture
from apolar.estimator.fit import n_threads_of
from apolar.estimator.inputs import opened
from apolar.exceptions import CollapsedWarning
from apolar.mixture.families import family
from apolar.mixture.order import canonical_order
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.scores import lower_is_better_aic, lower_is_better_bic
from apolar.selection.result import Row
from apolar.starts.auto import KEPT, LEAST_GAIN, MOST_ROWS, PASSES, SPLIT_STEPS, TOLERANCE
from apolar.starts.merging import merged_pairs
from apolar.starts.splitting import with_one_more

__all__ = ["CandidateFits"]

# Pairs of components whose mergers are tried.
MERGERS = 10
# What a fit may raise that says something of the candidate, not of the program.
FAILURES = (ValueError, ArithmeticError, MemoryError)


@dataclass(frozen=True, eq=False)
class _Tried:
    """A candidate so far; without a model if it could not be fitted."""

    model: GaussianMixture | None
    seconds: float
    warnings: tuple[str, ...]
    failed: str | None

    @property
    def likelihood(self) -> float:
        """The mean log-likelihood of the rows."""
        return -np.inf if self.model is None or self.failed else float(self.model.lower_bound_)


@dataclass(frozen=True, eq=False)
class CandidateFits:
    """The data, and the parameters that all candidates share."""

    X: Any
    sample_weight: Any
    settings: dict[str, Any]

    def fitted(
        self, kind: str, n_components: int, start: MixtureParameters | None = None, name: str = ""
    ) -> _Tried:
        """Return a candidate, from the start of the estimator or from a mixture in the units of the data."""
        begun = time.perf_counter()
        model = GaussianMixture(**self.settings)
        model.set_params(n_components=n_components, covariance_type=kind)
        if start is not None:
            model.set_params(warm_start=True)
            model._set_parameters(start)
        error = None
        with warnings.catch_warnings(record=True) as caught, one_blas_thread():
            warnings.simplefilter("always")
            try:
                model.fit(self.X, sample_weight=self.sample_weight)
            except FAILURES as raised:
                error = str(raised)
        messages = tuple(dict.fromkeys(str(one.message) for one in caught))
        if error is not None:
            return _Tried(None, time.perf_counter() - begun, messages, error)
        if start is not None:
            model.start_ = name
            _put_in_canonical_order(model)
        failed = next(
            (str(one.message) for one in caught if issubclass(one.category, CollapsedWarning)), None
        )
        return _Tried(model, time.perf_counter() - begun, messages, failed)

    def swept(self, kind: str, tried: dict[int, _Tried]) -> list[tuple[Row, GaussianMixture | None]]:
        """Return the rows of a family and their mixtures, after neighbours have helped each other.

        Parameters
        ----------
        kind : str
        tried : dict of int to _Tried
            By number of components, ascending.

        Returns
        -------
        rows : list of tuple of Row and GaussianMixture or None
        """
        with one_blas_thread():
            return self._swept(kind, tried)

    def _swept(self, kind: str, tried: dict[int, _Tried]) -> list[tuple[Row, GaussianMixture | None]]:
        model = GaussianMixture(**self.settings)
        rows = opened(model, self.X, self.sample_weight, reset=True)
        noise = self.settings["reg_covar"] or 0.0
        data = WhitenedData(rows, family(kind), threads=n_threads_of(model), noise=noise)
        rng = np.random.default_rng(self.settings["random_state"])
        sample = data.subsample(MOST_ROWS, rng)
        tried = dict(tried)
        for r in tried:
            if r - 1 in tried:
                tried[r] = self._helped(data, sample, tried[r], tried[r - 1], rng)
        for r in reversed(tried):
            if r + 1 in tried:
                tried[r] = self._helped(data, sample, tried[r], tried[r + 1], rng)
        return [(_row(data, kind, r, one), one.model) for r, one in tried.items()]

    def _helped(
        self,
        data: WhitenedData,
        sample: WhitenedData,
        own: _Tried,
        neighbour: _Tried,
        rng: np.random.Generator,
    ) -> _Tried:
        """Return the candidate, or a better one that its neighbour leads to."""
        if own.model is None or neighbour.model is None or neighbour.failed:
            return own
        begun = time.perf_counter()
        best = own
        # What goes wrong on the way says nothing of the candidate there is.
        with warnings.catch_warnings(), suppress(*FAILURES):
            warnings.simplefilter("ignore")
            best = self._led_to(data, sample, own, own.model, neighbour.model, rng)
        return replace(best, seconds=own.seconds + time.perf_counter() - begun)

    def _led_to(
        self,
        data: WhitenedData,
        sample: WhitenedData,
        own: _Tried,
        model: GaussianMixture,
        neighbour: GaussianMixture,
        rng: np.random.Generator,
    ) -> _Tried:
        r, prior = model.n_components, self.settings["prior"]
        prior = Prior() if prior == "default" else prior
        known = -np.inf
        if not own.failed:
            known = float(sample.e_step(_whitened(sample, model)[None])[1][0])
        there = _whitened(sample, neighbour)
        if there.n_components < r:
            proposals, way = with_one_more(sample, there, rng), "split"
        else:
            proposals, way = _with_one_less(sample, there, prior), "merger"
        # As in the default start: short runs with a prior, whether or not one was asked for.
        grown, _ = short_runs(sample, batch(proposals), prior or Prior(), SPLIT_STEPS)
        # Candidates are compared by likelihood, and so are the ways to one: with the prior added, mixtures
        # of almost empty components, which the prior alone decides, would come out best.
        likelihood = sample.e_step(grown)[1]
        order = np.argsort(-np.where(np.isfinite(likelihood), likelihood, -np.inf), kind="stable")[:KEPT]
        best = own
        for i in order:
            result = converge(sample, FitResult(grown[int(i)], way), prior, tol=TOLERANCE, max_iter=PASSES)
            if not result.log_likelihood > known + LEAST_GAIN:
                continue
            start = sample.whitening.inverse_transform_parameters(result.parameters)
            other = self.fitted(model.covariance_type, r, start, f"{way} of {there.n_components}")
            if (other.likelihood - best.likelihood) * data.weight > LEAST_GAIN:
                best, known = other, result.log_likelihood
        return best


def _whitened(data: WhitenedData, model: GaussianMixture) -> WhitenedParameters:
    """Return a fitted mixture whitened as the data are."""
    return data.whitening.transform_parameters(model._parameters())


def _with_one_less(
    data: WhitenedData, parameters: WhitenedParameters, prior: Prior | None
) -> list[WhitenedParameters]:
    """Return the mixture with two components merged, for the pairs where that costs least."""
    return [data.family.m_step(stats, prior) for stats in merged_pairs(data, parameters, MERGERS)]


def _put_in_canonical_order(model: GaussianMixture) -> None:
    """Reorder the components of a fit, as the estimator does where the start is its own."""
    kind, parameters = family(model.covariance_type), model._parameters()
    order = canonical_order(parameters.weights, parameters.means)
    model._set_parameters(kind.reordered(parameters, order), model.means_.dtype)


def _row(data: WhitenedData, kind: str, n_components: int, tried: _Tried) -> Row:
    """Return the row of a candidate."""
    n_parameters = data.family.n_parameters(n_components, data.n_features)
    row = Row(
        kind, n_components, n_parameters, seconds=tried.seconds, warnings=tried.warnings, failed=tried.failed
    )
    if tried.model is None:
        return row
    row = replace(row, converged=tried.model.converged_, start=tried.model.start_)
    if tried.failed:
        return row
    likelihood = tried.model._predictor().likelihood(data.rows, data.threads)
    bic = lower_is_better_bic(likelihood.log_likelihood, n_parameters, likelihood.weight)
    return replace(
        row,
        log_likelihood=likelihood.log_likelihood,
        bic=bic,
        aic=lower_is_better_aic(likelihood.log_likelihood, n_parameters),
        icl=bic - 2 * likelihood.log_certainty,
    )
