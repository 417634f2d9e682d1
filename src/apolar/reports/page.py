"""The report as a single HTML file that needs no other files."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families import family
from apolar.plots.canvas import need_matplotlib
from apolar.reports.analysis import Analysis
from apolar.reports.pages import need_jinja2, rendered
from apolar.reports.pictures import pictures
from apolar.reports.words import agreement, choice, diagnostics, headline
from apolar.scores import criterion_title

# Columns of which the page shows numbers, and candidates of a selection.
MOST_COLUMNS = 30
MOST_CANDIDATES = 60


@dataclass(frozen=True)
class Provenance:
    """How an analysis was made: enough to repeat it.

    Attributes
    ----------
    source : str
    command : str
    seed : int
    version : str
        Of apolar.
    n_dropped : int
        Rows left out because of missing values.
    skipped : tuple of str
        Columns that hold no numbers to cluster by.
    notes : tuple of str
        What was noticed about the columns and what was done, a sentence each.
    """

    source: str
    command: str
    seed: int
    version: str
    n_dropped: int = 0
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


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
    return rendered(
        "apolar.reports",
        {
            "figures": lambda value: f"{value:.4g}",
            "integer": lambda value: f"{int(value):,}",
            "title_of": criterion_title,
        },
        analysis=analysis,
        provenance=provenance,
        headline=headline(analysis),
        agreement=agreement(analysis),
        choice=wording(choice(analysis)),
        diagnostics=[(is_good, wording(remark)) for is_good, remark in diagnostics(analysis)],
        pictures=pictures(analysis, X),
        clusters=_clusters(analysis),
        columns=_columns(analysis, X),
        n_hidden=max(len(analysis.names) - MOST_COLUMNS, 0),
        candidates=_candidates(analysis),
        family=family(analysis.covariance_type).words,
        versions=_versions(provenance.version),
        n_missing=int(analysis.n_missing.sum()),
    )


def _clusters(analysis: Analysis) -> list[dict[str, object]]:
    """Return number, rows, weight, means and deviations of each cluster, with standard errors."""
    model, errors = analysis.model, analysis.errors
    counts = analysis.counts
    clusters: list[dict[str, object]] = []
    for k in range(len(model.weights_)):
        shown = slice(0, MOST_COLUMNS)
        clusters.append(
            {
                "number": k + 1,
                "rows": int(counts[k]),
                "weight": float(model.weights_[k]),
                "weight_error": None if errors is None else float(errors.weights[k]),
                "means": model.means_[k, shown].tolist(),
                "mean_errors": None if errors is None else errors.means[k, shown].tolist(),
                "deviations": analysis.deviations[k, shown].tolist(),
                "classes": None if analysis.truth is None else analysis.truth.counts[:, k].tolist(),
            }
        )
    return clusters


def _columns(analysis: Analysis, X: Array) -> list[dict[str, object]]:
    """Return name, range, mean and deviation of the first columns."""
    columns: list[dict[str, object]] = []
    for position, name in enumerate(analysis.names[:MOST_COLUMNS]):
        values = np.asarray(X[:, position])
        values = values[~np.isnan(values)] if analysis.n_missing[position] else values
        columns.append(
            {
                "name": name,
                "least": float(values.min()),
                "mean": float(values.mean()),
                "deviation": float(values.std()),
                "largest": float(values.max()),
                "n_missing": int(analysis.n_missing[position]),
            }
        )
    return columns


def _candidates(analysis: Analysis) -> list[dict[str, object]]:
    """Return the candidates of a selection, the best first."""
    selection = analysis.selection
    if selection is None:
        return []
    good = [row for row in selection.table if row.is_fitted]
    ranked = sorted(good, key=lambda row: getattr(row, selection.criterion))[:MOST_CANDIDATES]
    best = getattr(ranked[0], selection.criterion)
    return [
        {
            "family": row.covariance_type,
            "n_components": row.n_components,
            "n_parameters": row.n_parameters,
            "value": getattr(row, selection.criterion),
            "behind": getattr(row, selection.criterion) - best,
        }
        for row in ranked
    ]


def _versions(version: str) -> str:
    names = ("numpy", "scipy", "scikit-learn")
    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in names)
    return f"apolar {version}, Python {platform.python_version()}, {libraries}"
