"""The result of a clustering in words."""

from __future__ import annotations

import numpy as np

from apolar.mixture.families import family
from apolar.reports.analysis import MOST_COMPONENTS, Analysis

# A cluster of fewer rows may be due to chance.
FEW_ROWS = 5
# The cluster of a row is in doubt if its probability is below this.
DOUBT = 0.9
# With a larger condition number of the information, the rows hardly determine some parameters.
ILL_CONDITIONED = 1e4


def headline(analysis: Analysis) -> str:
    """Return the result in one sentence."""
    n_components = len(analysis.model.weights_)
    clusters = "1 cluster" if n_components == 1 else f"{n_components} clusters"
    text = f"{analysis.n_rows:,} rows fall into {clusters}, {family(analysis.covariance_type).words}"
    if not analysis.has_noise:
        return f"{text}."
    share = analysis.n_noise / analysis.n_rows
    return f"{text}; {analysis.n_noise:,} of them ({share:.1%}) are noise, in no cluster."


def choice(analysis: Analysis) -> str:
    """Return how the number of clusters was chosen."""
    if analysis.selection is not None:
        return analysis.selection.reason
    given = f"The number of clusters, {len(analysis.model.weights_)}, was given."
    several = f"n_components=range(1, {MOST_COMPONENTS + 1})"
    return f"{given} To choose the best of several, give them, as with {several}."


def diagnostics(analysis: Analysis) -> list[tuple[bool, str]]:
    """Return remarks on how far the result can be trusted: whether each is good news, and its words."""
    model = analysis.model
    remarks: list[tuple[bool, str]] = []
    if model.converged_:
        remarks.append((True, f"The fit converged after {model.n_iter_} passes over the data."))
    else:
        remarks.append((False, model.message_))
    remarks.append((True, f"Of the places where EM was started, {model.start_!r} led to the best fit."))
    remarks += [(False, message) for message in analysis.warnings]
    rows = analysis.counts
    for component in np.flatnonzero(rows < FEW_ROWS):
        count = "1 row" if rows[component] == 1 else f"{rows[component]} rows"
        remarks.append((False, f"Cluster {component + 1} has {count}: it may be chance. Try fewer clusters."))
    if len(model.weights_) > 1:
        doubtful = int(np.count_nonzero(1 - analysis.uncertainty < DOUBT))
        percentage = 100 * doubtful / analysis.n_rows
        if doubtful:
            which = f"For {doubtful:,} rows ({percentage:.1f}%)"
            remark = f"{which} the cluster is in doubt: its probability is below {DOUBT:.0%}."
        else:
            remark = f"No cluster of a row is in doubt: each has a probability of {DOUBT:.0%} or more."
        remarks.append((percentage < 10, remark))
    if analysis.errors is None:
        remarks.append((False, f"There are no standard errors: {analysis.no_errors}"))
    elif (analysis.errors.information_condition or 0) > ILL_CONDITIONED:
        remarks.append(
            (False, "The rows hardly determine some of the parameters: their standard errors are large.")
        )
    return remarks


def agreement(analysis: Analysis) -> str:
    """Return how the clusters agree with the known classes."""
    truth = analysis.truth
    if truth is None:
        return ""
    n_known = analysis.n_rows - truth.n_unknown
    wrong = f"{round(truth.error_rate * n_known):,} of {n_known:,} rows"
    unknown = f" The class of {truth.n_unknown:,} rows is not known." if truth.n_unknown else ""
    return (
        f"Beside the known classes: adjusted Rand index {truth.ari:.3f} (1 is full agreement, 0 is chance); "
        f"{wrong} ({100 * truth.error_rate:.1f}%) are not in the cluster that matches their class.{unknown}"
    )
