"""The bootstrap: the uncertainty of fitted parameters, from fits to resamples of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, positive_number
from apolar.data import open_rows
from apolar.data.derived import WeightedRows
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.run import Stop, run
from apolar.estimator.standard_errors import StandardErrors, errors_table
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.mixture.recovered import sample

__all__ = ["Bootstrap", "Interval", "bootstrap"]


@dataclass(frozen=True, eq=False)
class Interval:
    """Intervals for the parameters of a mixture: lower ends at index 0 of each array, upper ones at 1.

    Attributes
    ----------
    level : float
        The fraction of the resamples between the ends of each interval.
    weights : ndarray, shape (2, n_components)
    means : ndarray, shape (2, n_components, n_features)
    covariances : ndarray, shape (2, ...)
    """

    level: float
    weights: Array
    means: Array
    covariances: Array


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Mixtures fitted to resamples, in the units of the data.

    Attributes
    ----------
    weights : ndarray, shape (n_resamples, n_components)
        Components in the order of the fitted mixture.
    means : ndarray, shape (n_resamples, n_components, n_features)
    covariances : ndarray, shape (n_resamples, ...)
        In the shape of the covariances of the family.
    converged : ndarray of bool, shape (n_resamples,)
        Whether the fit to each resample reached an optimum; if many did not, raise max_iter.
    has_noise : bool
        Whether there is a noise component, whose weight is one less the others.
    """

    weights: Array
    means: Array
    covariances: Array
    converged: Array
    has_noise: bool = False

    def _repr_html_(self) -> str:
        """Return the deviations over the resamples for notebooks."""
        errors, n = self.standard_errors(), len(self.weights)
        not_converged = n - int(np.count_nonzero(self.converged))
        note = f", of which {not_converged} did not converge" if not_converged else ""
        return errors_table(errors.weights, errors.means, f"Deviations over {n} resamples{note}")

    def standard_errors(self) -> StandardErrors:
        """Return the standard deviations over the resamples."""
        return StandardErrors(
            np.std(self.weights, axis=0, ddof=1),
            np.std(self.means, axis=0, ddof=1),
            np.asarray(np.std(self.covariances, axis=0, ddof=1)),
            None,
            float(np.std(self.weights.sum(axis=1), ddof=1)) if self.has_noise else 0.0,
        )

    def interval(self, level: float = 0.95) -> Interval:
        """Return percentile intervals.

        Parameters
        ----------
        level : float, default=0.95
            The fraction of the resamples within each interval, between 0 and 1.

        Returns
        -------
        interval : Interval
        """
        level = positive_number(level, "level")
        if level >= 1:
            raise ValueError(f"level must be below 1, not {level}: 0.95 for intervals of 95 per cent.")
        ends = [(1 - level) / 2, (1 + level) / 2]
        arrays = (self.weights, self.means, self.covariances)
        return Interval(level, *(np.quantile(array, ends, axis=0) for array in arrays))


def bootstrap(
    data: Problem,
    parameters: MixtureParameters,
    prior: Prior | None,
    *,
    rng: np.random.Generator,
    n_resamples: int = 200,
    parametric: bool = False,
    tol: float = 1e-3,
    max_iter: int = 500,
) -> Bootstrap:
    """Return mixtures fitted to resamples of the rows, each by EM from the fitted mixture.

    Components are matched one to one to those of the fitted mixture, so that the sum of two distances is
    least: of the Gaussians, relative to the fitted covariance, and of the logarithms of the weights.

    Parameters
    ----------
    data : Problem
        The rows that the mixture was fitted to, with their weights: a row of weight 2 is two rows.
    parameters : MixtureParameters
        The fitted mixture, in the units of the data.
    prior : Prior or None
        The prior of the fit, in the whitened coordinates of all rows: it is the same for each resample.
    rng : numpy.random.Generator
    n_resamples : int, default=200
    parametric : bool, default=False
        Draw rows from the mixture instead of the data: for few rows, if the model can be trusted.
    tol, max_iter : float and int
        As in the fit.

    Returns
    -------
    bootstrap : Bootstrap
    """
    n_resamples = check_integer(n_resamples, "n_resamples", least=2)
    family, whitening = data.family, data.whitening
    fitted = whitening.transform_parameters(parameters)
    resamples = _drawn(data, parameters, rng) if parametric else _reweighted(data, rng)
    start = Fit(fitted, "fitted")
    stop = Stop(max_iter, gain=tol)
    fits = [fit for _ in range(n_resamples) for fit in run(next(resamples), [start], prior, stop)]
    aligned = whitening.inverse_transform_parameters(
        batch([_aligned(fit.parameters, fitted, family) for fit in fits])
    )
    converged = np.array([fit.status is FitStatus.CONVERGED for fit in fits])
    has_noise = whitening.has_noise_component
    return Bootstrap(aligned.weights, aligned.means, aligned.covariances, converged, has_noise)


def _aligned(parameters: WhitenedParameters, to: WhitenedParameters, family: Family) -> WhitenedParameters:
    """Return the components in the order that matches those of another mixture best."""
    unit = family.divisor(np.ones(()), to.n_features)
    offsets = parameters.means[None, :] - to.means[:, None]
    spread = family.between(offsets, np.ones(offsets.shape[:2])) + unit * parameters.covariances
    metric = family.per_component(to.covariances)[:, None]
    # The Kullback-Leibler divergence, without the terms that depend on one of the two Gaussians only: these
    # add the same to every matching.
    apart = 0.5 * family.trace_ratio(spread, metric)
    logs, to_logs = (np.log(np.maximum(c.weights, 1e-300)) for c in (parameters, to))
    order = linear_sum_assignment(apart + np.abs(logs[None, :] - to_logs[:, None]))[1]
    return family.reordered(parameters, order)


def _reweighted(data: Problem, rng: np.random.Generator) -> Iterator[Problem]:
    """Yield resamples of the rows: the same rows, weighted by how often each was drawn."""
    parts = [
        np.ones(values.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
        for values, weights in data.rows.read(data.rows.chunk_rows())
    ]
    weights = np.concatenate(parts)
    n_draws = max(1, round(data.weight))
    while True:
        counts = rng.multinomial(n_draws, weights / weights.sum()) * (data.weight / n_draws)
        yield Problem(WeightedRows(data.rows, counts), data.family, data.whitening, data.threads)


def _drawn(data: Problem, parameters: MixtureParameters, rng: np.random.Generator) -> Iterator[Problem]:
    """Yield samples from the mixture, each of as many rows as the data."""
    family, n_rows = data.family, max(1, round(data.weight))
    whitening = replace(data.whitening, n_rows=n_rows, weight=float(n_rows))
    while True:
        X, _ = sample(family, parameters, n_rows, rng)
        yield Problem(open_rows(X), family, whitening, data.threads)
