"""What there is to say about a clustering, in words."""

from __future__ import annotations

import re

import numpy as np

from apolar.report.analysis import Analysis

# A component of fewer rows may be chance.
FEW_ROWS = 5
# Of the rows, those whose cluster is in doubt have a posterior below this.
DOUBT = 0.9
# Components whose information is this ill-conditioned are hardly told apart.
ILL_CONDITIONED = 1e4

FAMILY_WORDS = {
    "spherical": "round, each with its own size",
    "tied_spherical": "round, all of one size",
    "diag": "stretched along the columns, each in its own way",
    "tied_diag": "stretched along the columns, all in the same way",
    "full": "stretched in any direction, each in its own way",
    "tied": "stretched in any direction, all in the same way",
}
"""What a covariance family says of its components."""


def in_options(text: str) -> str:
    """Return a message of the library with the options of the command line in place of its parameters."""
    text = re.sub(
        r"n_components=range\((\d+), (\d+)\)", lambda found: f"-k {found[1]}-{int(found[2]) - 1}", text
    )
    return text.replace("covariance_type", "--covariance").replace("n_components", "-k")


def headline(analysis: Analysis) -> str:
    """Return what was found, in one sentence."""
    n_components = len(analysis.model.weights_)
    shapes = FAMILY_WORDS.get(analysis.covariance_type, analysis.covariance_type)
    clusters = "1 cluster" if n_components == 1 else f"{n_components} clusters"
    return f"{analysis.n_rows:,} rows fall into {clusters}, {shapes}."


def diagnostics(analysis: Analysis) -> list[tuple[bool, str]]:
    """Return remarks on how far the result can be trusted: whether each is good news, and its text."""
    model, found = analysis.model, []
    if model.converged_:
        found.append((True, f"The fit converged after {model.n_iter_} passes over the data."))
    else:
        found.append((False, model.message_))
    found.append((True, f"Of the places where EM was started, {model.start_!r} led to the best fit."))
    found += [(False, in_options(text)) for text in analysis.warnings]
    rows = np.bincount(analysis.predicted, minlength=len(model.weights_))
    for component in np.flatnonzero(rows < FEW_ROWS):
        count = "1 row" if rows[component] == 1 else f"{rows[component]} rows"
        found.append((False, f"Cluster {component + 1} has {count}: it may be chance. Try fewer clusters."))
    if len(model.weights_) > 1:
        doubtful = int(np.count_nonzero(1 - analysis.uncertainty < DOUBT))
        share = 100 * doubtful / analysis.n_rows
        if doubtful:
            which = f"For {doubtful:,} rows ({share:.1f}%)"
            text = f"{which} the cluster is in doubt: its probability is below {DOUBT:.0%}."
        else:
            text = f"No cluster of a row is in doubt: each has a probability of {DOUBT:.0%} or more."
        found.append((share < 10, text))
    if analysis.errors is None:
        found.append((False, f"There are no standard errors: {analysis.no_errors}"))
    elif (analysis.errors.information_condition or 0) > ILL_CONDITIONED:
        found.append((False, "The rows hardly tell some of the parameters: their standard errors are large."))
    return found


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
