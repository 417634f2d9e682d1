"""The start from moments: no randomness, one or two passes."""

from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.data.derived import Divided
from apolar.em.loop import short_runs
from apolar.em.whitened import WhitenedData
from apolar.mixture import SphericalMixture
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

    For families whose columns have units of their own, the columns are standardised first.

    Parameters
    ----------
    table : Table
    n_components : int
        At most n_features.
    whole : Table, optional
        Of whose rows to take the moments; by default those of the table.
    refine : bool, default=True
        Weight the moments by their sampling errors.

    Returns
    -------
    parameters : WhitenedParameters
        In the frame.
    """
    whole = data if whole is None else whole
    units = np.ones(data.n_features)
    # Third powers of very small or large units would underflow or overflow.
    usual = float(np.min(data.whitening.inverse)) > 1e-60 and float(np.max(data.whitening.inverse)) < 1e60
    rows, known = whole.rows, whole.covariance
    if data.family.frame_kind != "scalar" or not usual:
        units = np.broadcast_to(data.whitening.deviations, data.n_features)
        rows = rows.map(Divided(units))
        known = None if known is None else known.divided(units)
    signal = signal_moments(rows, n_components - 1, None, np.random.default_rng(0), known)
    # Weights count rows here: one of weight two is as two.
    signal = replace(signal, n_rows=round(whole.weight), n_effective=whole.weight)
    return in_frame(data, mixture_of_signal(signal, refine=refine), units)


def from_more_moments(data: WhitenedData, n_components: int, prior: Prior | None) -> WhitenedParameters:
    """Return the mixture of one component more, after a few steps of EM, merged to as many as asked for."""
    more = from_moments(data, n_components + 1, refine=False)
    grown, _ = short_runs(data, more[None], Prior() if prior is None else prior, STEPS)
    stats = reduced(data, reduced_stats(data, grown[0], n_components), n_components)
    return data.family.m_step(stats, prior)


def in_frame(data: WhitenedData, found: SphericalMixture, units: Array) -> WhitenedParameters:
    """Return a spherical mixture of data divided by `units`, as components in the frame."""
    whitening, family = data.whitening, data.family
    scaled = whitening.matrix * units[:, None] if whitening.matrix.ndim == 2 else whitening.matrix * units
    if whitening.matrix.ndim == 0:
        metric = np.asarray((float(whitening.matrix) * float(units[0])) ** 2)
    else:
        metric = scaled.T @ scaled if scaled.ndim == 2 else scaled**2
    covariances = family.from_spherical(found.variances, metric, found.weights)
    return WhitenedParameters(found.weights.copy(), whitening.transform(found.means * units), covariances)
