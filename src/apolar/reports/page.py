"""The report as a single HTML file that needs no other files."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.numbers import figures, with_error
from apolar.estimator.predict import NOISE
from apolar.mixture.families import family
from apolar.plots.canvas import need_matplotlib
from apolar.reports.analysis import Analysis
from apolar.reports.choice import candidates, choice, table_selection
from apolar.reports.glossary import terms
from apolar.reports.marks import DARK, LIGHT, swatch
from apolar.reports.pages import need_jinja2, rendered
from apolar.reports.pictures import pictures
from apolar.reports.rows import doubtful_rows, is_doubtful, is_outlying, labels_link, outlying_rows
from apolar.reports.words import Finding, agreement, findings, headline, matched_clusters, traits
from apolar.scores import criterion_title

# Columns of which the page shows numbers.
MAX_COLUMNS = 30
# Clusters side by side in a table: as many as a printed page has room for.
MEANS_BESIDE, COUNTS_BESIDE = 5, 10
# Candidates that show at once.
FIRST_CANDIDATES = 12


@dataclass(frozen=True)
class Provenance:
    """How an analysis was made: enough to repeat it.

    Attributes
    ----------
    source : str
    command : str
    seed : int or None
    version : str
        Of apolar.
    n_dropped : int
        Rows left out because of missing values.
    skipped : tuple of str
        Columns that hold no numbers to cluster by.
    notes : tuple of str
        What was noticed about the columns and what was done, a sentence each.
    row_numbers : ndarray of int, shape (n_samples,), or None
        The numbers of the rows in the file, from 0; None if no row was dropped.
    title : str
        Of the page; by default from the source.
    is_python : bool
        Whether the page was made from Python, of a mixture that was fitted before.
    """

    source: str
    command: str
    seed: int | None
    version: str
    n_dropped: int = 0
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    row_numbers: Array | None = None
    title: str = ""
    is_python: bool = False


def need_report() -> None:
    """Raise an error that says what to install, if something is not there."""
    need_matplotlib()
    need_jinja2()


def report_page(
    analysis: Analysis, X: Array, provenance: Provenance, *, wording: Callable[[str], str] = str
) -> str:
    """Return the report as HTML.

    Everything that comes from the user's table (names of columns and classes,
    the path) is escaped. The page has no scripts, and asks for nothing from
    the network.

    Parameters
    ----------
    analysis : Analysis
    X : ndarray, shape (n_samples, n_features)
    provenance : Provenance
    wording : callable, optional
        Takes a message of the library, which names parameters of Python, and returns it as the readers of
        the page know it.

    Returns
    -------
    html : str
    """
    need_report()
    numbers = provenance.row_numbers
    selection = table_selection(analysis)
    listed = candidates(selection)
    return rendered(
        "apolar.reports",
        {
            "figures": figures,
            "mean_of": lambda pair: with_error(*pair).partition(" ")[0],
            "error_of": lambda pair: with_error(*pair).rpartition(" ")[2],
            "integer": lambda value: f"{int(value):,}",
            "title_of": criterion_title,
        },
        analysis=analysis,
        provenance=provenance,
        title=provenance.title or f"Clusters of {provenance.source}",
        swatch=swatch,
        light=LIGHT,
        dark=DARK,
        headline=headline(analysis),
        agreement=agreement(analysis),
        choice=wording(choice(analysis, is_fitted_before=provenance.is_python)),
        findings=[
            Finding(finding.level, wording(finding.text)) for finding in _all_findings(analysis, provenance)
        ],
        pictures={picture.title: picture for picture in pictures(analysis, X, numbers)},
        clusters=_clusters(analysis),
        means_beside=MEANS_BESIDE,
        counts_beside=COUNTS_BESIDE,
        columns=_columns(analysis, X),
        n_hidden=max(len(analysis.names) - MAX_COLUMNS, 0),
        selection=selection,
        first_candidates=listed[:FIRST_CANDIDATES],
        more_candidates=listed[FIRST_CANDIDATES:],
        family=family(analysis.covariance_type).words,
        criteria={name: value for name, value in analysis.criteria.items() if np.isfinite(value)},
        doubtful=doubtful_rows(analysis, X, numbers),
        n_doubtful=int(np.count_nonzero(is_doubtful(analysis))),
        outlying=outlying_rows(analysis, X, numbers),
        n_outlying=int(np.count_nonzero(is_outlying(analysis))),
        labels_link=labels_link(analysis, numbers),
        matched=_matched_names(analysis),
        terms=terms(analysis),
        versions=_versions(provenance.version),
        n_missing=int(analysis.n_missing.sum()),
    )


def _all_findings(analysis: Analysis, provenance: Provenance) -> list[Finding]:
    """Return the findings on the result and on the table, problems first."""
    found = findings(analysis)
    of_table = [Finding("note", note) for note in provenance.notes]
    if provenance.n_dropped:
        rows = "1 row" if provenance.n_dropped == 1 else f"{provenance.n_dropped:,} rows"
        of_table.append(
            Finding("note", f"{rows} with missing values {'was' if rows == '1 row' else 'were'} left out.")
        )
    n_good = sum(finding.level == "good" for finding in found)
    return [*found[: len(found) - n_good], *of_table, *found[len(found) - n_good :]]


def _clusters(analysis: Analysis) -> list[dict[str, Any]]:
    """Return number, rows, weight, means and deviations of each cluster, with standard errors."""
    model, errors = analysis.model, analysis.errors
    counts, deviations, differences = analysis.counts, analysis.deviations, traits(analysis)
    shown = slice(0, MAX_COLUMNS)
    return [
        {
            "index": k,
            "rows": int(counts[k]),
            "weight": float(model.weights_[k]),
            "weight_error": None if errors is None else float(errors.weights[k]),
            "means": model.means_[k, shown].tolist(),
            "mean_errors": None if errors is None else errors.means[k, shown].tolist(),
            "deviations": deviations[k, shown].tolist(),
            "traits": differences[k],
            "classes": None if analysis.truth is None else analysis.truth.counts[:, k].tolist(),
        }
        for k in range(len(model.weights_))
    ]


def _matched_names(analysis: Analysis) -> dict[int, str]:
    """Return the names of the classes that match clusters, or noise, by their numbers."""
    if analysis.truth is None:
        return {}
    pairs = zip(matched_clusters(analysis).tolist(), analysis.truth.names, strict=True)
    return {cluster: name for cluster, name in pairs if cluster >= NOISE}


def _columns(analysis: Analysis, X: Array) -> list[dict[str, object]]:
    """Return name, range, mean and deviation of the first columns."""
    columns: list[dict[str, object]] = []
    for position, name in enumerate(analysis.names[:MAX_COLUMNS]):
        values = np.asarray(X[:, position])
        values = values[~np.isnan(values)] if analysis.n_missing[position] else values
        # In units of the largest, whose square may overflow.
        scale = float(np.abs(values).max()) or 1.0
        columns.append(
            {
                "name": name,
                "least": float(values.min()),
                "mean": scale * float((values / scale).mean()),
                "deviation": scale * float((values / scale).std()),
                "largest": float(values.max()),
                "n_missing": int(analysis.n_missing[position]),
            }
        )
    return columns


def _versions(version: str) -> str:
    names = ("numpy", "scipy", "scikit-learn")
    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in names)
    return f"apolar {version}, Python {platform.python_version()}, {libraries}"
