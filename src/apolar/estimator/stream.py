"""A mixture that is fitted to a stream: first to all rows so far, then by stepwise EM."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import random_generator
from apolar._core.settings import SETTINGS
from apolar._core.threads import one_blas_thread
from apolar.data import Rows, fetch_rows, on_checked, open_rows
from apolar.data.arrays import stack_rows
from apolar.em.low_density import as_start_on, with_noise_component
from apolar.em.problem import Problem
from apolar.em.result import Fit, in_canonical_order
from apolar.em.rounding import has_rounding, is_narrower, prior_for, rounding_variances, with_rounding
from apolar.em.run import Stop, evidence_of, run
from apolar.em.whitening import Whitening, whitening_around
from apolar.estimator.fitted import FittedState
from apolar.estimator.inputs import float_type, open_input, with_column_names
from apolar.estimator.parameters import allows_rounding, check_columns, check_parameters, n_threads_of
from apolar.exceptions import ColumnError
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters, SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.moments.available import observed_sums
from apolar.moments.sketch import MAX_COLUMNS, MomentSketch
from apolar.recovery.families import family_mixture
from apolar.recovery.from_moments import spherical_mixture
from apolar.search.candidates import start_candidates
from apolar.search.moment_starts import moment_method, whitened_mixture, whitened_spherical


@dataclass(eq=False)
class Stream:
    """The state of a stream, in bounded memory: the first rows, and after these only sums.

    Attributes
    ----------
    family : Family
    n_components : int
    prior : Prior or None
    start : str
        The name of the start that the kept rows are fitted from.
    weight : float
        The sum of the weights of the rows seen.
    parameters : MixtureParameters or None
        The mixture so far, in the units of the data.
    mean_likelihood : float
        The mean log-likelihood of the last batch; while rows are kept, of all of them.
    noise : float or ndarray, shape (n_features,)
        The variance of the noise that each row is taken to have: `reg_covar`, or that of the rounding errors
        of each column, from when a component was narrower than these.
    allows_rounding : bool
        Whether rows may be taken to have rounding errors.
    shrinkage : float
        By how many rows covariances are shrunk: that of the first rows, or of the fit that is continued.
    evidence : float or None
        The log-evidence of all rows, in the units of the data, while they are kept; None from then on.
    noise_expected : bool or float
        The parameter `noise` of the estimator: whether there is a noise component. Its box is that of the
        rows that are kept.
    """

    family: Family
    n_components: int
    prior: Prior | None
    start: str
    weight: float = 0.0
    parameters: MixtureParameters | None = None
    mean_likelihood: float = -np.inf
    noise: float | Array = 0.0
    allows_rounding: bool = False
    shrinkage: float = 0.0
    evidence: float | None = None
    noise_expected: bool | float = False
    _kept: list[tuple[Array, Array | None]] = field(default_factory=list)
    _whitening: Whitening | None = None
    _stats: SufficientStats | None = None
    _sketch: MomentSketch | None = None
    _compared: float = 0.0
    _method: str | None = None

    @classmethod
    def after(
        cls,
        family: Family,
        parameters: MixtureParameters,
        whitening: Whitening,
        weight: float,
        prior: Prior | None,
    ) -> Stream:
        """Return the stream that continues a fit to rows of that total weight."""
        inside = whitening.transform_parameters(parameters)
        family = family.in_coordinates(whitening.inverse)
        stream = cls(family, parameters.n_components, prior, "moments", weight, parameters)
        stream.noise, stream._whitening = whitening.measurement, whitening
        stream._stats = family.stats_of(inside, weight, prior_for(whitening, family, prior))
        return stream

    def update(self, rows: Rows, rng: np.random.Generator, threads: int) -> None:
        """Update the mixture from a batch of rows."""
        if self._whitening is None:
            self._start_from(rows, rng, threads)
        else:
            self._step(rows, threads)

    def _start_from(self, rows: Rows, rng: np.random.Generator, threads: int) -> None:
        """Fit all rows kept so far; from enough of them on, keep only sufficient statistics."""
        values, weights = fetch_rows(rows, np.arange(rows.n_rows or 0))
        kept = [*self._kept, (values, weights)]
        all_weights = None
        if any(other is not None for _, other in kept):
            all_weights = np.concatenate([np.ones(v.shape[0]) if w is None else w for v, w in kept])
        all_rows = open_rows(stack_rows([v for v, _ in kept]), all_weights)
        noise = 0.0 if isinstance(self.noise, np.ndarray) else self.noise
        data = Problem(all_rows, self.family, threads=threads, measurement=noise)
        if self.noise_expected:
            data = with_noise_component(data, self.noise_expected)
        if data.n_rows < self.n_components:
            raise ValueError(
                f"{self.n_components} components need at least as many rows; the first batches have "
                f"n_samples = {data.n_rows}. Pass more rows at once."
            )
        # A new start each time the rows have doubled: the one from a few rows may be poor.
        is_new_start = self.parameters is None or data.weight >= 2 * self._compared
        variances = np.zeros(data.n_features)
        if self.allows_rounding:
            variances = rounding_variances(data.subsample(SETTINGS.sample_rows, np.random.default_rng(0)))
        # Of a few rows components may be narrow by chance: each new start is without rounding errors first.
        is_rounded = isinstance(self.noise, np.ndarray) and not is_new_start
        if not is_rounded:
            result = self._converged(data, self.prior, None if is_new_start else self.parameters, rng)
            is_rounded = is_narrower(data, result.parameters, variances)
            is_new_start = is_new_start or is_rounded
        if is_rounded:
            data, prior = with_rounding(data, self.prior, variances)
            result = self._converged(data, prior, None if is_new_start else self.parameters, rng)
        # Components can change their order with each of these fits, and keep it in stepwise EM.
        result = in_canonical_order(result, self.family, data.whitening)
        # Set last, so that a batch that fails leaves the stream as it was.
        self._kept, self.weight, self.noise = kept, data.weight, data.whitening.measurement
        self.shrinkage = result.shrinkage
        self._compared = data.weight if is_new_start else self._compared
        self.parameters = data.whitening.inverse_transform_parameters(result.parameters)
        self.mean_likelihood = _mean_likelihood(data, result.parameters, result.log_likelihood)
        self.evidence = evidence_of(data, result) + data.whitening.log_det * data.weight
        enough = max(
            SETTINGS.stream_rows,
            SETTINGS.stream_rows_per_parameter * self.n_components * (data.n_features + 1),
        )
        if data.n_rows >= enough:
            self._whitening, self._stats = data.whitening, result.stats
            self.prior = None if self.prior is None else self.prior.of_strength(result.shrinkage)
            self._compared = data.weight
            # Beside noise, the moments of all rows are not those of the components.
            is_sketched = not self.noise_expected and not data.is_incomplete
            method = moment_method(self.family, self.n_components, data.n_features, data.n_rows)
            if method is not None and is_sketched:
                sketch = MomentSketch(data.n_features, covariance_type=method)
                self._sketch, self._method = sketch.update(all_rows), method
            elif self.n_components <= data.n_features <= MAX_COLUMNS and is_sketched:
                self._sketch = MomentSketch(data.n_features).update(all_rows)
            self._kept = []

    def _converged(
        self,
        data: Problem,
        prior: Prior | None,
        parameters: MixtureParameters | None,
        rng: np.random.Generator,
    ) -> Fit:
        """Return the result of EM from a mixture in the units of the data, or else from the start."""
        if parameters is None:
            first = start_candidates(self.start, data, self.n_components, prior, rng)[0].parameters
        else:
            first = data.whitening.transform_parameters(parameters)
        start = as_start_on(data, Fit(first, "stream"))
        stop = Stop(SETTINGS.sample_passes, gain=SETTINGS.stream_tolerance)
        return run(data, [start], prior, stop)[0]

    def _step(self, rows: Rows, threads: int) -> None:
        """Mix the sufficient statistics of a batch into those of the stream: stepwise EM."""
        assert self._whitening is not None
        assert self._stats is not None
        assert self.parameters is not None
        batch = Problem(rows, self.family, self._whitening_for(rows, threads), threads)
        whitening = batch.whitening
        if batch.is_incomplete:
            # The moments of all rows are no longer known.
            self._sketch = None
        inside = whitening.transform_parameters(self.parameters)
        stats, likelihood = batch.e_step(inside[None])
        total = self.weight + batch.weight
        rate = (batch.weight / total) ** SETTINGS.forgetting
        mixed = (1 - rate) * self._stats / self.weight + rate * stats[0] / batch.weight
        if self._sketch is not None:
            self._sketch.update(rows)
        self.weight = total
        self._stats = mixed * total
        if self._sketch is not None and total >= 2 * self._compared:
            self._compare_with_moments(batch, float(likelihood[0]))
        prior = prior_for(whitening, self.family, self.prior)
        updated = batch.family.m_step(self._stats, prior, inside)
        if whitening.has_noise_component:
            updated = replace(updated, weights=self._stats.counts / total)
        self.parameters = whitening.inverse_transform_parameters(updated)
        self.mean_likelihood = _mean_likelihood(batch, inside, float(likelihood[0]))
        self.evidence = None

    def _whitening_for(self, rows: Rows, threads: int) -> Whitening:
        """Return the whitening of the stream with the number and weight of a batch, which is checked."""
        assert self._whitening is not None
        try:
            checked = Problem(rows, self.family, threads=threads)
        except ColumnError:
            # A column without any value in this batch has some in others.
            weight, n_rows, *_ = rows.reduce(on_checked(observed_sums, allows_missing=True), threads)
            return replace(self._whitening.as_incomplete(), n_rows=int(n_rows), weight=float(weight))
        whitening = replace(self._whitening, available_covariance=None)
        whitening = whitening.as_incomplete() if checked.is_incomplete else whitening
        return replace(whitening, n_rows=checked.n_rows, weight=checked.weight)

    def _compare_with_moments(self, batch: Problem, likelihood: float) -> None:
        """Take the mixture of the moments of all rows seen, if the batch is clearly more likely under it."""
        assert self._sketch is not None
        self._compared = self.weight
        rival = self._rival(batch)
        if rival is None:
            return
        if float(batch.e_step(rival[None])[1][0]) > likelihood + SETTINGS.clearly_better:
            prior = prior_for(batch.whitening, self.family, self.prior)
            self._stats = batch.family.stats_of(rival, self.weight, prior)

    def _rival(self, batch: Problem) -> WhitenedParameters | None:
        """Return the mixture of the moments of all rows seen, by the method of the family."""
        assert self._sketch is not None
        units = np.ones(batch.n_features)
        try:
            if self._method is None:
                return whitened_spherical(batch, spherical_mixture(self._sketch, self.n_components), units)
            central, rng = self._sketch.central(), np.random.default_rng(0)
            mixture = family_mixture(central, self.n_components, self._method, rng)
            return whitened_mixture(batch, mixture, units)
        except (ValueError, np.linalg.LinAlgError):
            return None


def _mean_likelihood(data: Problem, parameters: WhitenedParameters, log_likelihood: float) -> float:
    """Return the mean log-likelihood in the units of the data, from that of EM, which has rounding errors."""
    if has_rounding(data):
        exact = data.with_measurement(np.zeros(data.n_features))
        log_likelihood = float(exact.e_step(parameters[None])[1][0])
    return log_likelihood / data.weight + data.whitening.log_det


def update_from_batch(estimator: Any, X: Any, sample_weight: Any) -> None:
    """Update an estimator from a batch of a stream, and set its fitted attributes.

    Parameters
    ----------
    estimator : GaussianMixture
        If it has a stream or a fitted mixture, the batch continues that; otherwise a new stream begins.
    X : rows
        One batch, in memory.
    sample_weight : array_like or None
    """
    family, prior = check_parameters(estimator)
    is_new = not hasattr(estimator, "weights_")
    rows = open_input(estimator, X, sample_weight, reset=is_new, once=True, are_counts=True)
    check_columns(estimator, rows.n_features)
    if rows.is_distributed:
        raise ValueError(
            "partial_fit takes a batch in memory: call it for each partition, X.partitions[i].compute(), "
            "or use fit, which reads all of them where they are."
        )
    if rows.n_rows is None:
        raise ValueError("partial_fit takes one batch at a time: call it for each chunk.")
    noise: float | Array = estimator.reg_covar or 0.0
    if is_new:
        start = estimator.init_params if isinstance(estimator.init_params, str) else "auto"
        stream = Stream(family, int(estimator.n_components), prior, start, noise=noise)
        stream.allows_rounding, stream.noise_expected = allows_rounding(estimator), estimator.noise
    elif hasattr(estimator, "_stream"):
        stream = copy.deepcopy(estimator._stream)
        began, asked = (stream.family.name, stream.n_components), (family.name, estimator.n_components)
        if began != asked:
            raise ValueError(
                f"The stream began with covariance_type={began[0]!r} and n_components={began[1]}, and cannot "
                f"change to {asked[0]!r} and {asked[1]}: start a new one."
            )
    else:
        last = FittedState.of(estimator)
        parameters = last.parameters
        if allows_rounding(estimator) and last.is_rounded:
            noise = np.asarray(last.rounding_variances)
        whitening = replace(whitening_around(parameters, family), measurement=noise)
        # The covariances of the fit have been shrunk already.
        prior = None if prior is None else prior.of_strength(0.0)
        stream = Stream.after(family, parameters, whitening, estimator.n_samples_seen_, prior)
        stream.shrinkage = last.shrinkage
    with one_blas_thread(), with_column_names(estimator):
        stream.update(rows, random_generator(estimator.random_state), n_threads_of(estimator))
    assert stream.parameters is not None
    # Set last, so that a batch that fails leaves the estimator as it was.
    FittedState(
        family,
        stream.parameters,
        float_type(X),
        n_samples_seen=stream.weight,
        converged=False,
        n_iter=getattr(estimator, "n_iter_", 0) + 1,
        lower_bound=stream.mean_likelihood,
        lower_bounds=[*getattr(estimator, "lower_bounds_", []), stream.mean_likelihood],
        # Of a stream whose rows are no longer there, the evidence is not known.
        evidence=stream.evidence,
        shrinkage=stream.shrinkage,
        rounding_variances=stream.noise if isinstance(stream.noise, np.ndarray) else None,
        start="stream",
        start_notes=[],
        message="The mixture follows a stream: each call of partial_fit moves it.",
    ).set_on(estimator)
    estimator._stream = stream
