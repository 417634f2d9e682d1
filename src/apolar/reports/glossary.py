"""The words of a report, explained."""

from __future__ import annotations

from apolar.reports.analysis import Analysis
from apolar.reports.rows import DOUBT

__all__ = ["terms"]


def terms(analysis: Analysis) -> list[tuple[str, str]]:
    """Return words that the page of an analysis uses, and a sentence on each."""
    listed = [
        ("cluster", "Rows that one Gaussian component of the mixture describes best."),
        ("weight", "The share of all rows that a cluster has, each row counted by its probability."),
        ("mean", "The centre of a cluster: the value around which its rows lie in a column."),
        (
            "deviation (\N{GREEK SMALL LETTER SIGMA})",
            "How far rows of a cluster are from its mean: about two thirds are within one deviation.",
        ),
    ]
    if analysis.errors is not None:
        listed.append(
            (
                "standard error (±)",
                "How far a number would typically be from the true one, had other rows been drawn.",
            )
        )
    listed += [
        ("probability", "How likely it is, given the mixture, that a row belongs to a cluster."),
        ("in doubt", f"A row is in doubt if its most probable cluster has less than {DOUBT:.0%}."),
        (
            "outlier",
            "A row farther from every cluster than rows of such a mixture are; were all rows drawn from it, "
            f"there would be any outlier at all in {analysis.outlier_level:.0%} of tables of this size.",
        ),
        ("log-likelihood", "How well the mixture describes all rows together; higher is better."),
        (
            "BIC",
            "A criterion to compare mixtures: minus twice the log-likelihood, plus a penalty for each "
            "parameter; lower is better, and a difference above 10 is very strong evidence.",
        ),
    ]
    if analysis.truth is not None:
        listed.append(
            (
                "adjusted Rand index",
                "How far clusters and known classes agree on pairs of rows: 1 in full, 0 as by chance.",
            )
        )
    if analysis.has_noise:
        listed.append(("noise", "Rows in no cluster, spread over the whole range of the table."))
    return listed
