"""The start from moments: no randomness, one or two passes over the rows."""

import numpy as np

from apolar._core.arrays import Array
from apolar.data.derived import Divided
from apolar.em.problem import Problem
from apolar.em.run import short_runs
from apolar.em.whitening import metric_of
from apolar.mixture import SphericalMixture
from apolar.mixture.families import Invariance
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.moments import signal_moments
from apolar.recovery.mixtures import mixture_of_signal
from apolar.starts.merging import merged_stats, resized_stats

# Steps of EM with one component more than asked for, before two are merged.
STEPS = 5
# The fewest rows without missing values from which moments are taken, per component and column.
MIN_WHOLE_ROWS = 10
# Deviations beyond these have third powers that underflow or overflow: such columns are standardised first.
MIN_DEVIATION = 1e-60
MAX_DEVIATION = 1e60


def from_moments(
    data: Problem, n_components: int, source: Problem | None = None, *, refine: bool = True
) -> WhitenedParameters:
    """Return the mixture of the moments of the rows, by the equivariant form.

    Columns are standardised first, unless the family has one scale for all of them.

    Parameters
    ----------
    data : Problem
    n_components : int
        At most n_features.
    source : Problem, optional
        The rows whose moments are taken; by default those of `data`.
    refine : bool, default=True
        Weight the moments by their sampling errors.

    Returns
    -------
    parameters : WhitenedParameters
        In the whitened coordinates of `data`.
    """
    source = data if source is None else source
    if data.is_incomplete:
        # Moments of pairs and triples of columns, each from other rows, need not be those of any mixture.
        data, source = data.completed(), data.complete_cases()
        n_needed = MIN_WHOLE_ROWS * n_components * data.n_features
        if source.n_rows < n_needed:
            raise ValueError(
                f"{source.n_rows} rows have no missing value, and moments need {n_needed} such rows."
            )
    units = np.ones(data.n_features)
    least, most = float(np.min(data.whitening.inverse)), float(np.max(data.whitening.inverse))
    is_in_range = least > MIN_DEVIATION and most < MAX_DEVIATION
    rows, covariance = source.rows, None if source.scale is None else source.scale.moments
    if data.family.whitened_by is not Invariance.SCALING or not is_in_range:
        units = np.broadcast_to(data.whitening.deviations, data.n_features)
        rows = rows.map(Divided(units))
        covariance = None if covariance is None else covariance.divided(units)
    signal = signal_moments(
        rows, n_components - 1, None, np.random.default_rng(0), covariance, n_threads=source.threads
    )
    return whitened_spherical(data, mixture_of_signal(signal, refine=refine), units)


def from_moments_with_one_merged(data: Problem, n_components: int, prior: Prior | None) -> WhitenedParameters:
    """Return the moment mixture of one component more, with two merged after a few steps of EM."""
    larger = from_moments(data, n_components + 1, refine=False)
    data = data.completed()
    runs, _ = short_runs(data, larger[None], Prior() if prior is None else prior, STEPS, is_scored=False)
    stats = resized_stats(data, merged_stats(data, runs[0], n_components), n_components)
    return data.family.m_step(stats, prior)


def whitened_spherical(data: Problem, mixture: SphericalMixture, units: Array) -> WhitenedParameters:
    """Return a spherical mixture of the data divided by `units` in whitened coordinates.

    Parameters
    ----------
    data : Problem
    mixture : SphericalMixture
    units : ndarray, shape (n_features,)
        All the same where whitening is division by one number.

    Returns
    -------
    parameters : WhitenedParameters
    """
    whitening, family = data.whitening, data.family
    factors = (units[0], units, units[:, None])[whitening.matrix.ndim]
    metric = metric_of(whitening.matrix * factors, family.identity(data.n_features))
    covariances = family.from_spherical(mixture.variances, metric, mixture.weights)
    means = whitening.transform(mixture.means * units)
    return WhitenedParameters(mixture.weights.copy(), means, covariances)
