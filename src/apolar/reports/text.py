"""The result of a clustering as text: findings, what makes each cluster, and the choice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from apolar._core.display import count_noun
from apolar.estimator import summary
from apolar.plots.views import MixtureView
from apolar.reports.analysis import Analysis
from apolar.reports.limits import LIMITS


def headline(analysis: Analysis) -> str:
    """Return the result in one sentence."""
    n_noise = analysis.n_noise if analysis.has_noise else None
    n_clusters = len(analysis.model.weights_)
    return summary.headline(analysis.n_rows, n_clusters, analysis.covariance_type, n_noise=n_noise)


# --- what the reader must know ------------------------------------------------------------


Level = Literal["good", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """Something that the reader must know: good news, a note, or a problem."""

    level: Level
    text: str


# What is said of a fit that stopped early.
NOT_CONVERGED = (
    "EM stopped before it had converged: try another seed or fewer clusters, or leave out columns that "
    "repeat others."
)


def findings(analysis: Analysis, notes: Iterable[str] = ()) -> list[Finding]:
    """Return what the reader must know, problems first; no two of them contradict.

    Parameters
    ----------
    analysis : Analysis
    notes : iterable of str
        What else is to be noted, such as what was done to the table.
    """
    found = [_of_the_fit(analysis), *(Finding("problem", message) for message in analysis.warnings)]
    for k, count in enumerate(analysis.counts.tolist()):
        if count < LIMITS.few_rows:
            rows = count_noun(count, "row")
            text = f"Cluster {k + 1} has {rows}: it may be chance. Try fewer clusters."
            found.append(Finding("problem", text))
    found += _of_rows(analysis)
    numbers = {row.n_components for row in analysis.selection.table} if analysis.selection else {0}
    number = len(analysis.model.weights_)
    if len(numbers) > 1 and number == max(numbers):
        found.append(Finding("note", f"{number} clusters are the most that were tried: more may be better."))
    found += [Finding("note", note) for note in notes]
    order = {"problem": 0, "note": 1, "good": 2}
    return sorted(found, key=lambda finding: order[finding.level])


def _of_the_fit(analysis: Analysis) -> Finding:
    """Return whether EM ended at an optimum that the rows determine: one finding, whatever was noticed."""
    model, errors = analysis.model, analysis.errors
    passes = f"{count_noun(model.n_iter_, 'pass')} over the data"
    if not model.converged_:
        return Finding("problem", NOT_CONVERGED)
    if analysis.fault:
        return Finding(
            "problem", f"EM ended after {passes}, but: {analysis.fault} There are no standard errors."
        )
    said = f"The fit converged after {passes}"
    if errors is None:
        return Finding("note", f"{said}. There are no standard errors: {analysis.no_errors}")
    if (errors.information_condition or 0) > LIMITS.ill_conditioned:
        hardly = "but the rows hardly determine some of the parameters: their standard errors are large."
        return Finding("note", f"{said}, {hardly}")
    return Finding("good", f"{said}; EM started from {model.start_!r}.")


def _of_rows(analysis: Analysis) -> list[Finding]:
    found = []
    if len(analysis.model.weights_) > 1:
        doubtful = int(np.count_nonzero(analysis.is_doubtful))
        share, least = doubtful / analysis.n_rows, f"{LIMITS.doubt:.0%}"
        text = f"Every row is assigned with a probability of at least {least}: none is in doubt."
        if doubtful:
            which = f"For {count_noun(doubtful, 'row')} ({share:.1%})"
            text = f"{which} the cluster is in doubt: its probability is below {least}."
        level: Level = "problem" if share >= LIMITS.much_doubt else "note" if doubtful else "good"
        found.append(Finding(level, text))
    outlying = np.count_nonzero(analysis.is_outlying)
    if outlying:
        which = "1 row is an outlier" if outlying == 1 else f"{outlying:,} rows are outliers"
        found.append(Finding("note", f"{which}: too far from every cluster to belong to one."))
    return found


# --- what makes each cluster --------------------------------------------------------------


@dataclass(frozen=True)
class Trait:
    """A column in which a cluster differs from the others, in deviations within clusters, with a sign."""

    column: str
    difference: float

    @property
    def words(self) -> str:
        """The column, high or low."""
        return f"{'high' if self.difference > 0 else 'low'} {self.column}"


def traits(analysis: Analysis) -> list[list[Trait]]:
    """Return what makes each cluster: the columns in which its mean differs most from that of the others."""
    mixture = MixtureView.of(analysis.model)
    shares, means = mixture.shares, mixture.means
    if len(means) == 1:
        return [[]]
    within = np.sqrt(shares @ mixture.variances)
    rest = np.maximum(1 - shares, np.finfo(float).tiny)[:, None]
    others = (mixture.mean - shares[:, None] * means) / rest
    differences = np.divide(means - others, within, out=np.zeros_like(means), where=within > 0)
    found = []
    for row in differences:
        largest = np.argsort(-np.abs(row), kind="stable")[: LIMITS.n_traits].tolist()
        listed = [Trait(analysis.names[i], float(row[i])) for i in largest]
        found.append([trait for trait in listed if abs(trait.difference) >= LIMITS.min_difference])
    return found


# --- known classes ------------------------------------------------------------------------


def agreement(analysis: Analysis) -> str:
    """Return how the clusters agree with the known classes."""
    truth = analysis.truth
    if truth is None:
        return ""
    n_known = analysis.n_rows - truth.n_unknown
    wrong = f"{round(truth.error_rate * n_known):,} of {n_known:,} rows"
    unknown = f" The class of {truth.n_unknown:,} rows is not known." if truth.n_unknown else ""
    return (
        f"Known classes: adjusted Rand index {truth.ari:.3f} (1 is full agreement, 0 is chance); "
        f"{wrong} ({100 * truth.error_rate:.1f}%) are not in the cluster that matches their class.{unknown}"
    )


# --- the number of clusters ---------------------------------------------------------------


def choice(analysis: Analysis, *, is_fitted_before: bool = False) -> str:
    """Return how the number of clusters was chosen; one that was given may have been chosen by `select`."""
    if analysis.selection is not None:
        return analysis.selection.reason
    given = f"The number of clusters, {len(analysis.model.weights_)}, was given."
    if is_fitted_before:
        return f"{given} apolar.select(X) chooses the best of several."
    return f"{given} If several numbers are given, the best of them is chosen."
