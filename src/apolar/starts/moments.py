"""The start from moments: no randomness, one or two passes."""

import numpy as np

from apolar._arrays import Array
from apolar._rows import Rows
from apolar._rows.rows import Divided
from apolar.em.loop import short_runs
from apolar.em.table import Table
from apolar.mixture import SphericalMixture
from apolar.mixture.components import Components
from apolar.mixture.prior import Prior
from apolar.recovery import mixture_from_moments
from apolar.starts.overseed import reduced

# Steps of EM with one component more than asked for, before it is merged away.
STEPS = 5


def from_moments(
    table: Table, n_components: int, rows: Rows | None = None, *, refine: bool = True
) -> Components:
    """Return the mixture of the moments of the rows, by the equivariant form.

    For families whose columns have units of their own, the columns are standardised first.

    Parameters
    ----------
    table : Table
    n_components : int
        At most n_features.
    rows : Rows, optional
        Of which to take the moments; by default those of the table.
    refine : bool, default=True
        Weight the moments by their sampling errors.

    Returns
    -------
    components : Components
        In the frame.
    """
    rows = table.rows if rows is None else rows
    # Third powers of very small or large units would underflow or overflow.
    usual = float(np.min(table.frame.inverse)) > 1e-60 and float(np.max(table.frame.inverse)) < 1e60
    if table.family.frame_kind == "scalar" and usual:
        found = mixture_from_moments(rows, n_components, refine=refine)
        return in_frame(table, found, np.ones(table.n_features))
    units = _column_units(table)
    found = mixture_from_moments(rows.changed(Divided(units)), n_components, refine=refine)
    return in_frame(table, found, units)


def from_more_moments(table: Table, n_components: int, prior: Prior | None) -> Components:
    """Return the mixture of one component more, after a few steps of EM, merged to as many as asked for."""
    family = table.family
    wide = table.under(family.untied)
    more = from_moments(wide, n_components + 1, refine=False)
    grown, _ = short_runs(wide, more[None], Prior() if prior is None else prior, STEPS)
    sums = wide.family.moments(grown)[0] * table.weight
    return family.maximised(reduced(table, sums, n_components), prior)


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


def _column_units(table: Table) -> Array:
    """Return the deviation of each column, from the frame; of all together where the frame has one unit."""
    return np.broadcast_to(table.frame.deviations, table.n_features)
