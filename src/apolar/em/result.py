"""A mixture on its way: where it started, where it is, and how EM ended. One type from start to end."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

import numpy as np

from apolar.em.coordinates import coordinate_order
from apolar.em.lbfgs import LBFGSHistory
from apolar.em.whitening import Whitening
from apolar.exceptions import ApolarWarning
from apolar.mixture.families import Family
from apolar.mixture.order import canonical_order
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.stats import SufficientStats

__all__ = ["FitResult", "FitStatus", "in_canonical_order"]


class FitStatus(enum.Enum):
    """How EM ended; the text says what to do."""

    NOT_RUN = "EM has not run: this is where it is to start."
    CONVERGED = "EM reached an optimum: less than the tolerance is left to gain."
    MAX_ITER = (
        "Best performing initialization did not converge. Try different init parameters, or increase "
        "max_iter, tol, or check for degenerate data. EM stopped at max_iter passes over the rows."
    )
    STOPPED = "EM was stopped by a callback."


@dataclass(frozen=True, eq=False)
class FitResult:
    """A mixture, as a start of EM or as its result.

    Starts make it with a name and parameters; EM fills in the rest, and the search over starts adds what the
    user should know.

    Attributes
    ----------
    parameters : WhitenedParameters
        One mixture.
    start : str
        The name of the start it came from.
    status : FitStatus
    objective : float
        Log-likelihood plus log-prior, in whitened coordinates.
    log_likelihood : float
        In whitened coordinates. Candidates are compared by it, and not by the objective: that of a component
        near the mode of the prior is high whatever the rows say, so that it prefers small and almost empty
        components.
    stats : SufficientStats or None
        Those of the E-step at the parameters.
    n_iter : int
        Passes over the rows.
    history : tuple of float
        The best objective after each pass.
    curvature : LBFGSHistory or None
        What the last steps tell of the curvature. It depends on the mixture, and hardly on the rows: a run on
        more of them can start with it.
    skipped : tuple of str
        The starts that were skipped on the way, each with the reason.
    warnings : tuple of ApolarWarning
        What the user should know.
    is_collapsed : bool
        Whether a variance is at its floor: without a prior the likelihood has no maximum there.
    is_from_all_rows : bool
        Whether the start has seen all rows, and not a sample.
    is_contender : bool
        Whether it is to be run beside the first of the candidates.
    earlier : tuple of float
        The last objectives of the run that this one continues.
    """

    parameters: WhitenedParameters
    start: str
    status: FitStatus = FitStatus.NOT_RUN
    objective: float = -np.inf
    log_likelihood: float = -np.inf
    stats: SufficientStats | None = None
    n_iter: int = 0
    history: tuple[float, ...] = ()
    curvature: LBFGSHistory | None = None
    skipped: tuple[str, ...] = ()
    warnings: tuple[ApolarWarning, ...] = ()
    is_collapsed: bool = False
    is_from_all_rows: bool = False
    is_contender: bool = False
    earlier: tuple[float, ...] = ()


def in_canonical_order(result: FitResult, family: Family, whitening: Whitening) -> FitResult:
    """Return the result with its components in canonical order."""
    parameters = result.parameters
    order = canonical_order(parameters.weights, whitening.inverse_transform(parameters.means))
    curvature = None
    if result.curvature is not None and result.curvature.pairs:
        steps, differences = result.curvature.arrays()
        places = coordinate_order(family, order, parameters.n_features)
        curvature = LBFGSHistory.of(steps[:, places], differences[:, places])
    return replace(
        result,
        parameters=family.reordered(parameters, order),
        stats=None if result.stats is None else result.stats[order],
        curvature=curvature,
    )
