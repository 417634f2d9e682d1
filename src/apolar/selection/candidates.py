"""Candidates of a selection: each fitted, then helped by its neighbours."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.threads import one_blas_thread
from apolar.em.loop import converge
from apolar.em.low_density import with_noise_component
from apolar.em.result import LEAST_ROWS, FitResult
from apolar.em.rounding import with_rounding
from apolar.em.run import comparison_scores, short_runs
from apolar.em.whitened import WhitenedData
from apolar.estimator import GaussianMixture
from apolar.estimator.attributes import fitted_parameters, set_parameters, was_rounded
from apolar.estimator.fit import n_threads_of
from apolar.estimator.inputs import opened
from apolar.estimator.parameters import checked_parameters
from apolar.estimator.predict import predictor_of
from apolar.exceptions import CollapsedWarning, ColumnWarning, FarRowsWarning
from apolar.mixture.evidence import comparison_score
from apolar.mixture.families import family
from apolar.mixture.noise import N_NOISE_PARAMETERS
from apolar.mixture.order import canonical_order
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.selection.result import Row
from apolar.starts.auto import KEPT, LEAST_GAIN, MOST_ROWS, PASSES, SPLIT_STEPS, TOLERANCE
from apolar.starts.dropping import dropped_stats
from apolar.starts.merging import merged_pairs
from apolar.starts.splitting import with_one_more

__all__ = ["CandidateFits"]

# How many pairs of components are merged, at most: those where merging costs least.
MERGERS = 10
# Exceptions by which a fit reports that a candidate cannot be fitted; others are errors of the program.
FAILURES = (ValueError, ArithmeticError, MemoryError)


@dataclass(frozen=True, eq=False)
class _Tried:
    """The best fit of a candidate so far: without a model if `fit` raised an error."""

    model: GaussianMixture | None
    seconds: float
    warnings: tuple[str, ...]
    failed: str | None

    def rank(self, *, by_evidence: bool) -> tuple[bool, float]:
        """Return a pair that is larger for better fits of a candidate, as `FitResult.rank` is."""
        if self.model is None or self.failed:
            return False, -np.inf
        n_rows = self.model.n_samples_seen_
        log_likelihood = float(self.model.lower_bound_) * n_rows
        if not by_evidence:
            return True, log_likelihood
        is_full = bool(self.model.weights_.min() * n_rows >= LEAST_ROWS)
        return is_full, comparison_score(self.model.evidence_, log_likelihood)


@dataclass(frozen=True, eq=False)
class CandidateFits:
    """The data, and the parameters that all candidates share."""

    X: Any
    sample_weight: Any
    settings: dict[str, Any]

    def fitted(
        self,
        kind: str,
        n_components: int,
        start: MixtureParameters | None = None,
        name: str = "",
        rounding: Array | None = None,
    ) -> _Tried:
        """Return a candidate, from the start of the estimator or from a mixture in the units of the data.

        With the variances of rounding errors, the mixture is taken to be one of rows that have these.
        """
        begun = time.perf_counter()
        model = GaussianMixture(**self.settings)
        model.set_params(n_components=n_components, covariance_type=kind)
        if start is not None:
            model.set_params(warm_start=True)
            set_parameters(model, start)
            if rounding is not None:
                model.rounding_variances_ = rounding
        error = None
        with warnings.catch_warnings(record=True) as caught, one_blas_thread():
            warnings.simplefilter("always")
            for category in (ColumnWarning, FarRowsWarning):  # `select` has warned of them, once
                warnings.simplefilter("ignore", category)
            try:
                model.fit(self.X, sample_weight=self.sample_weight)
            except FAILURES as raised:
                error = str(raised)
        messages = tuple(dict.fromkeys(str(warning.message) for warning in caught))
        if error is not None:
            return _Tried(None, time.perf_counter() - begun, messages, error)
        if start is not None:
            model.start_ = name
            _put_in_canonical_order(model)
        collapses = (warning for warning in caught if issubclass(warning.category, CollapsedWarning))
        failed = next((str(warning.message) for warning in collapses), None)
        return _Tried(model, time.perf_counter() - begun, messages, failed)

    def swept(self, kind: str, tried: dict[int, _Tried]) -> list[tuple[Row, GaussianMixture | None]]:
        """Return the rows of a family and their mixtures, each improved from its neighbours where possible.

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
        model = GaussianMixture(**self.settings).set_params(covariance_type=kind)
        kind_family, prior = checked_parameters(model)
        rows = opened(model, self.X, self.sample_weight, reset=True)
        data = WhitenedData(rows, kind_family, threads=n_threads_of(model), noise=model.reg_covar or 0.0)
        if model.noise:
            data = with_noise_component(data, model.noise)
        rng = np.random.default_rng(self.settings["random_state"])
        sample = data.subsample(MOST_ROWS, rng)
        tried = dict(tried)
        for r in tried:
            if r - 1 in tried:
                tried[r] = self._improved(sample, prior, tried[r], tried[r - 1], rng)
        for r in reversed(tried):
            if r + 1 in tried:
                tried[r] = self._improved(sample, prior, tried[r], tried[r + 1], rng)
        return [(_row(data, kind, r, candidate), candidate.model) for r, candidate in tried.items()]

    def _improved(
        self,
        sample: WhitenedData,
        prior: Prior | None,
        candidate: _Tried,
        neighbour: _Tried,
        rng: np.random.Generator,
    ) -> _Tried:
        """Return the candidate, or a clearly better fit of it that starts from its neighbour."""
        if candidate.model is None or neighbour.model is None or neighbour.failed:
            return candidate
        begun = time.perf_counter()
        best = candidate
        # A failure from here on is one of this attempt: the candidate stays as it is.
        with warnings.catch_warnings(), suppress(*FAILURES):
            warnings.simplefilter("ignore")
            best = self._best_from(sample, prior, candidate, candidate.model, neighbour.model, rng)
        return replace(best, seconds=candidate.seconds + time.perf_counter() - begun)

    def _best_from(
        self,
        sample: WhitenedData,
        prior: Prior | None,
        candidate: _Tried,
        model: GaussianMixture,
        neighbour: GaussianMixture,
        rng: np.random.Generator,
    ) -> _Tried:
        """Return the candidate, or the best of its fits that start from a split or merged neighbour."""
        n_components = model.n_components
        rounded = [fit.rounding_variances_ for fit in (model, neighbour) if was_rounded(fit)]
        if rounded:
            # Without rounding errors, the runs from here would lead back to flat components.
            sample, prior = with_rounding(sample, prior, rounded[0])
        if prior is not None and not model.shrinkage_ and not sample.family.shares_parameters:
            # The tails of the rows are long: see `apolar.em.tails`.
            prior = prior.conjugate
        # As in the fit of a candidate itself, optima are compared by likelihood, with or without evidence,
        # and not by the objective: the prior would prefer almost empty components, which it alone determines.
        by_evidence = prior is not None and prior.compares_by_evidence
        rank_to_beat = (False, -np.inf)
        if not candidate.failed:
            fit = FitResult(_whitened(sample, model), model.start_)
            rank_to_beat = converge(sample, fit, prior, tol=0.0, max_iter=0).rank
        mixture = _whitened(sample, neighbour)
        completed = sample.completed(mixture)
        if mixture.n_components < n_components:
            proposals, change = with_one_more(completed, mixture, rng), "split"
        else:
            proposals, change = _with_one_less(completed, mixture, prior), "merger"
        # As in the default start, short runs use a prior even if the fit does not.
        grown, _ = short_runs(sample, batch(proposals), prior or Prior(), SPLIT_STEPS, is_scored=False)
        scores = comparison_scores(sample, grown, *sample.e_step(grown), prior)
        order = np.argsort(-np.where(np.isfinite(scores), scores, -np.inf), kind="stable")[:KEPT]
        best = candidate
        for i in order:
            result = converge(sample, FitResult(grown[int(i)], change), prior, tol=TOLERANCE, max_iter=PASSES)
            if not _is_clearly_above(result.rank, rank_to_beat):
                continue
            start = sample.whitening.inverse_transform_parameters(result.parameters)
            name = f"{change} of {mixture.n_components}"
            rounding = model.rounding_variances_ if was_rounded(model) else None
            other = self.fitted(model.covariance_type, n_components, start, name, rounding)
            if _is_clearly_above(other.rank(by_evidence=by_evidence), best.rank(by_evidence=by_evidence)):
                best, rank_to_beat = other, result.rank
        return best


def _is_clearly_above(rank: tuple[bool, float], other: tuple[bool, float]) -> bool:
    return rank > (other[0], other[1] + LEAST_GAIN)


def _whitened(data: WhitenedData, model: GaussianMixture) -> WhitenedParameters:
    """Return a fitted mixture in the whitened coordinates of the data."""
    return data.whitening.transform_parameters(fitted_parameters(model))


def _with_one_less(
    data: WhitenedData, parameters: WhitenedParameters, prior: Prior | None
) -> list[WhitenedParameters]:
    """Return the mixture with two components merged, for the pairs where that costs least.

    Beside noise, also with one component left to it.
    """
    smaller = merged_pairs(data, parameters, MERGERS) + dropped_stats(data, parameters, MERGERS)
    return [data.m_step(stats, prior) for stats in smaller]


def _put_in_canonical_order(model: GaussianMixture) -> None:
    """Reorder the components of a fit, as `fit` does unless, as here, the start was given."""
    kind, parameters = family(model.covariance_type), fitted_parameters(model)
    order = canonical_order(parameters.weights, parameters.means)
    set_parameters(model, kind.reordered(parameters, order), model.means_.dtype)


def _row(data: WhitenedData, kind: str, n_components: int, tried: _Tried) -> Row:
    """Return the row of a candidate."""
    n_parameters = data.family.n_parameters(n_components, data.n_features)
    n_parameters += N_NOISE_PARAMETERS if data.whitening.has_noise_component else 0
    row = Row(
        kind, n_components, n_parameters, seconds=tried.seconds, warnings=tried.warnings, failed=tried.failed
    )
    if tried.model is None:
        return row
    row = replace(row, converged=tried.model.converged_, start=tried.model.start_)
    if tried.failed:
        return row
    likelihood = predictor_of(tried.model).likelihood(data.rows, data.threads)
    # By the names of fields of Row.
    criteria: dict[str, Any] = likelihood.criteria(n_parameters, tried.model.evidence_)
    return replace(row, log_likelihood=likelihood.log_likelihood, n_samples=likelihood.weight, **criteria)
