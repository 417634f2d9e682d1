"""The start from moments: no randomness, one or two passes."""

from dataclasses import replace

import numpy as np

from apolar._arrays import Array
from apolar._rows.rows import Divided
from apolar.em.loop import short_runs
from apolar.em.table import Table
from apolar.mixture import SphericalMixture
from apolar.mixture.components import Components
from apolar.mixture.prior import Prior
from apolar.moments import signal_moments
from apolar.recovery.mixtures import mixture_of_signal
from apolar.starts.merging import reduced_sums
from apolar.starts.overseed import reduced

# Steps of EM with one component more than asked for, before it is merged away.
STEPS = 5


def from_moments(
    table: Table, n_components: int, whole: Table | None = None, *, refine: bool = True
) -> Components:
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
    components : Components
        In the frame.
    """
    whole = table if whole is None else whole
    units = np.ones(table.n_features)
    # Third powers of very small or large units would underflow or overflow.
    usual = float(np.min(table.frame.inverse)) > 1e-60 and float(np.max(table.frame.inverse)) < 1e60
    rows = whole.rows
    if table.family.frame_kind != "scalar" or not usual:
        units = np.broadcast_to(table.frame.deviations, table.n_features)
        rows = rows.changed(Divided(units))
    signal = signal_moments(rows, n_components - 1, None, np.random.default_rng(0))
    # Weights count rows here: one of weight two is as two.
    signal = replace(signal, n_rows=round(whole.weight), n_effective=whole.weight)
    return in_frame(table, mixture_of_signal(signal, refine=refine), units)


def from_more_moments(table: Table, n_components: int, prior: Prior | None) -> Components:
    """Return the mixture of one component more, after a few steps of EM, merged to as many as asked for."""
    more = from_moments(table, n_components + 1, refine=False)
    grown, _ = short_runs(table, more[None], Prior() if prior is None else prior, STEPS)
    sums = reduced(table, reduced_sums(table, grown[0], n_components), n_components)
    return table.family.maximised(sums, prior)


def in_frame(table: Table, found: SphericalMixture, units: Array) -> Components:
    """Return a spherical mixture of data divided by `units`, as components in the frame."""
    frame, family = table.frame, table.family
    scaled = frame.matrix * units[:, None] if frame.matrix.ndim == 2 else frame.matrix * units
    if frame.matrix.ndim == 0:
        metric = np.asarray((float(frame.matrix) * float(units[0])) ** 2)
    else:
        metric = scaled.T @ scaled if scaled.ndim == 2 else scaled**2
    covariances = family.from_spherical(found.variances, metric, found.weights)
    return Components(found.weights.copy(), frame.inward(found.means * units), covariances)
