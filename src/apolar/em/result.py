"""The mixture that EM starts from, and its result: one type for both."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS
from apolar.em.whitening import Whitening
from apolar.exceptions import ApolarWarning
from apolar.mixture.families import Family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, canonical_order
from apolar.mixture.prior import Prior, Shrinkage, comparison_score

__all__ = ["Fit", "FitStatus", "in_canonical_order", "is_empty"]


class FitStatus(enum.Enum):
    """How EM ended; the value is a message that says what to do."""

    NOT_RUN = "EM has not run: this is where it is to start."
    CONVERGED = "EM reached an optimum: less than the tolerance is left to gain."
    MAX_ITER = (
        "Best performing initialization did not converge. Try different init parameters, or increase "
        "max_iter, tol, or check for degenerate data. EM stopped at max_iter passes over the rows."
    )
    STOPPED = "EM was stopped by a callback."


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
        In whitened coordinates. Where there is no evidence, candidates are compared by it, not by the
        objective: the log-prior is high for small and almost empty components near its mode, whatever the
        rows are.
    evidence : float or None
        A lower bound on the log-evidence, in whitened coordinates, where optima are compared by it.
    prior : Prior or None
        The prior of the run, as it was adapted to the rows.
    strength : float or None
        Of a start: the strength of a prior that adapts to the rows, until EM has converged.
    stats : SufficientStats or None
        From the E-step at the parameters.
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
    has_long_tails : bool
        Whether the rows have longer tails than Gaussian components. Evidence is then misleading, and EM is to
        use the conjugate prior.
    earlier : float
        Of a start: the last objective of the run that this one continues.
    """

    parameters: WhitenedParameters
    start: str
    status: FitStatus = FitStatus.NOT_RUN
    objective: float = -np.inf
    log_likelihood: float = -np.inf
    evidence: float | None = None
    prior: Prior | None = None
    strength: float | None = None
    stats: SufficientStats | None = None
    n_iter: int = 0
    history: tuple[float, ...] = ()
    skipped: tuple[str, ...] = ()
    warnings: tuple[ApolarWarning, ...] = ()
    is_collapsed: bool = False
    is_from_all_rows: bool = False
    has_long_tails: bool = False
    earlier: float = -np.inf

    def updated(self, **changes: Any) -> Fit:
        """Return the result with some fields changed: `dataclasses.replace`, for what each pass does."""
        other = object.__new__(Fit)
        other.__dict__.update(self.__dict__, **changes)
        return other

    @property
    def score(self) -> float:
        """What candidates are compared by: evidence and likelihood if both are known, or the likelihood."""
        if self.evidence is None:
            return self.log_likelihood
        return comparison_score(self.evidence, self.log_likelihood)

    @property
    def shrinkage(self) -> float:
        """By how many rows per component covariances are shrunk towards a common one; 0 if they are not."""
        return float(self.prior.strength[..., 0]) if isinstance(self.prior, Shrinkage) else 0.0

    @property
    def has_empty_component(self) -> bool:
        """Whether a component is almost empty."""
        return self.stats is not None and bool(np.any(is_empty(self.stats.counts)))

    @property
    def rank(self) -> tuple[bool, float]:
        """Larger for better candidates: by evidence, those with an almost empty component are last.

        Their evidence is that of fewer components than were asked for.
        """
        return self.evidence is None or not self.has_empty_component, self.score


def is_empty(counts: Array) -> Array:
    """Return which components are almost empty. One of a single row, far from all others, is not."""
    return np.logical_not(counts >= SETTINGS.min_component_rows)


def in_canonical_order(result: Fit, family: Family, whitening: Whitening) -> Fit:
    """Return the result with its components in canonical order."""
    parameters = result.parameters
    order = canonical_order(parameters.weights, whitening.inverse_transform(parameters.means))
    return replace(
        result,
        parameters=family.reordered(parameters, order),
        stats=None if result.stats is None else result.stats[order],
    )
