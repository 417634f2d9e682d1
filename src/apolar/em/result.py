"""The mixture that EM starts from, and its result: one type for both."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from apolar._core.arrays import Array
from apolar.em.whitening import Whitening
from apolar.exceptions import ApolarWarning
from apolar.mixture.families import Family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, canonical_order
from apolar.mixture.prior import Prior, Strengths

__all__ = ["Fit", "FitStatus", "SearchCost", "in_canonical_order", "is_below"]


class FitStatus(enum.Enum):
    """How EM ended; the value is a message that says what to do."""

    NOT_RUN = "EM has not run: this is its start."
    CONVERGED = "EM reached an optimum: less than the tolerance is left to gain."
    MAX_ITER = (
        "Best performing initialization did not converge. Try different init parameters, or increase "
        "max_iter, tol, or check for degenerate data. EM stopped at max_iter passes over the rows."
    )
    STOPPED = "EM was stopped by a callback."
    INTERRUPTED = (
        "The fit was interrupted: this is the best mixture so far. Fit again with warm_start=True to "
        "continue."
    )

    @property
    def is_stopped(self) -> bool:
        """Whether somebody ended the fit."""
        return self in (FitStatus.STOPPED, FitStatus.INTERRUPTED)


class SearchCost(NamedTuple):
    """What a search for the start took.

    Attributes
    ----------
    passes : float
        Its work, in passes of one mixture over all rows.
    budget : float
        The passes after which it begins nothing new.
    n_rows : int
        The rows that it was on.
    seconds : float
    """

    passes: float
    budget: float
    n_rows: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Fit:
    """A mixture, as a start of EM or as its result.

    Starts create it from a name and parameters; EM sets the other fields, and the search over starts adds the
    warnings for the user.

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
        In whitened coordinates. Where rows are not left out, candidates are compared by it, not by the
        objective: the log-prior is high for small and almost empty components near its mode, whatever the
        rows are.
    left_out : ndarray or None
        The weighted log-density of each row of the comparison under the mixture without it, where candidates
        are compared by these.
    elliptical : ndarray or None
        The same, if the components have any form that falls from the centre: see `apolar.em.elliptical`.
    optimism : float
        By how much the rows are likelier than rows left out: what the fit owes to having seen them.
    prior : Prior or None
        The prior of the run, as it was adapted to the rows.
    strengths : Strengths or None
        Of the prior; of a start, those that it begins with.
    stats : SufficientStats or None
        From the E-step at the parameters.
    gain : float
        Of plain steps: by how much the last one raised what they maximise.
    n_iter : int
        Passes over the rows.
    history : tuple of float
        The best objective after each pass.
    skipped : tuple of str
        The starts that were skipped on the way, each with the reason.
    warnings : tuple of ApolarWarning
        To be issued by the estimator.
    is_collapsed : bool
        Whether a variance is at its floor: without a prior the likelihood is unbounded there.
    is_from_all_rows : bool
        Whether the start is accurate for all rows, so that no run on a sample is needed before that on all.
    search : SearchCost or None
        What the search took that found the start.
    earlier : float
        Of a start: the last objective of the run that this one continues.
    """

    parameters: WhitenedParameters
    start: str
    status: FitStatus = FitStatus.NOT_RUN
    objective: float = -np.inf
    log_likelihood: float = -np.inf
    left_out: Array | None = None
    elliptical: Array | None = None
    keeps_strengths: bool = False
    optimism: float = 0.0
    prior: Prior | None = None
    strengths: Strengths | None = None
    stats: SufficientStats | None = None
    gain: float = np.inf
    n_iter: int = 0
    history: tuple[float, ...] = ()
    skipped: tuple[str, ...] = ()
    warnings: tuple[ApolarWarning, ...] = ()
    is_collapsed: bool = False
    is_from_all_rows: bool = False
    search: SearchCost | None = None
    earlier: float = -np.inf

    def updated(self, **changes: Any) -> Fit:
        """Return the result with some fields changed: `dataclasses.replace`, for what each pass does."""
        other = object.__new__(Fit)
        other.__dict__.update(self.__dict__, **changes)
        return other

    @property
    def score(self) -> float:
        """What candidates are compared by: the likelihood of rows left out if it is known, or that of all."""
        return self.log_likelihood if self.left_out is None else float(self.left_out.sum())

    def is_near(self, best: Fit) -> bool:
        """Return whether rows left out do not tell the fit from a better one, by one standard error."""
        if self.left_out is None or best.left_out is None:
            return self is best
        return not is_below(self.left_out, best.left_out)

    def has_worse_shapes(self, other: Fit) -> bool:
        """Return whether rows are likelier under the shapes of another fit, by more than one standard error.

        If components of any form gain nothing over those of this fit, its shapes are right.
        """
        if self.elliptical is None or other.elliptical is None or self.score >= self.elliptical.sum():
            return False
        return is_below(self.elliptical, other.elliptical)


def is_below(rows: Array, others: Array) -> bool:
    """Return whether a sum over rows is below another one, by more than one standard error."""
    gaps = others - rows
    with np.errstate(over="ignore"):
        error = np.sqrt(len(gaps)) * gaps.std()
    return bool(gaps.sum() > error)


def in_canonical_order(result: Fit, family: Family, whitening: Whitening) -> Fit:
    """Return the result with its components in canonical order."""
    parameters = result.parameters
    order = canonical_order(parameters.weights, whitening.inverse_transform(parameters.means))
    return replace(
        result,
        parameters=family.reordered(parameters, order),
        stats=None if result.stats is None else result.stats[order],
    )
