"""The start from moments: no randomness, one or two passes."""

from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.data.derived import Divided
from apolar.em.run import short_runs
from apolar.em.whitened import WhitenedData
from apolar.em.whitening import metric_of
from apolar.mixture import SphericalMixture
from apolar.mixture.families import Invariance
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.moments import signal_moments
from apolar.recovery.mixtures import mixture_of_signal
from apolar.starts.merging import reduced_stats
from apolar.starts.overseed import reduced

# Steps of EM with one component more than asked for, before it is merged away.
STEPS = 5


def from_moments(
    data: WhitenedData, n_components: int, whole: WhitenedData | None = None, *, refine: bool = True
) -> WhitenedParameters:
    """Return the mixture of the moments of the rows, by the equivariant form.

    For families in which each column has a unit of its own, the columns are standardised first.

    Parameters
    ----------
    data : WhitenedData
    n_components : int
        At most n_features.
    whole : WhitenedData, optional
        Of whose rows to take the moments; by default those of `data`.
    refine : bool, default=True
        Weight the moments by their sampling errors.

    Returns
    -------
    parameters : WhitenedParameters
        In the whitened coordinates of `data`.
    """
    whole = data if whole is None else whole
    units = np.ones(data.n_features)
    # Third powers of very small or large units would underflow or overflow.
    usual = float(np.min(data.whitening.inverse)) > 1e-60 and float(np.max(data.whitening.inverse)) < 1e60
    rows, known = whole.rows, whole.covariance
    if data.family.invariance is not Invariance.SCALING or not usual:
        units = np.broadcast_to(data.whitening.deviations, data.n_features)
        rows = rows.map(Divided(units))
        known = None if known is None else known.divided(units)
    signal = signal_moments(rows, n_components - 1, None, np.random.default_rng(0), known)
    # Weights count rows here: one of weight two is as two.
    signal = replace(signal, n_rows=round(whole.weight), n_effective=whole.weight)
    return whitened_spherical(data, mixture_of_signal(signal, refine=refine), units)


def from_more_moments(data: WhitenedData, n_components: int, prior: Prior | None) -> WhitenedParameters:
    """Return the mixture of one component more, after a few steps of EM, merged to as many as asked for."""
    more = from_moments(data, n_components + 1, refine=False)
    grown, _ = short_runs(data, more[None], Prior() if prior is None else prior, STEPS)
    stats = reduced(data, reduced_stats(data, grown[0], n_components), n_components)
    return data.family.m_step(stats, prior)


def whitened_spherical(data: WhitenedData, mixture: SphericalMixture, units: Array) -> WhitenedParameters:
    """Return a spherical mixture of the data divided by `units` in whitened coordinates.

    Parameters
    ----------
    data : WhitenedData
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
