"""The report as a single HTML file that needs no other files."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apolar._core.arrays import Array
from apolar._core.display import count_noun, figures, with_error
from apolar._core.files import atomic_file
from apolar.estimator import GaussianMixture
from apolar.mixture.families import family
from apolar.plots.chart import need_library
from apolar.plots.clusters import label_column
from apolar.plots.views import TableView, column_names
from apolar.reports.analysis import Analysis, describe
from apolar.reports.limits import LIMITS
from apolar.reports.listed_rows import doubtful_rows, labels_link, outlying_rows
from apolar.reports.pictures import DARK, LIGHT, draw_pictures, swatch
from apolar.reports.text import (
    agreement,
    choice,
    findings,
    headline,
    traits,
)
from apolar.scores import criterion_title
from apolar.selection.selection_table import ranked_rows

# Clusters side by side in a table: as many as a printed page has room for.
MEANS_BESIDE, COUNTS_BESIDE = 5, 10


@dataclass(frozen=True)
class Provenance:
    """How an analysis was made: enough to repeat it.

    Attributes
    ----------
    source : str
    command : str
    seed : int or None
    n_dropped : int
        Rows left out because of missing values.
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
    n_dropped: int = 0
    notes: tuple[str, ...] = ()
    row_numbers: Array | None = None
    title: str = ""
    is_python: bool = False


def need_report() -> None:
    """Raise an error that says what to install, if something is not there."""
    need_library("matplotlib")
    need_library("jinja2")


def report_page(analysis: Analysis, X: Array, provenance: Provenance) -> str:
    """Return the report as HTML.

    Everything that comes from the user's table (names of columns and classes,
    the path) is escaped. The page has no scripts, and asks for nothing from
    the network.

    Parameters
    ----------
    analysis : Analysis
    X : ndarray, shape (n_samples, n_features)
    provenance : Provenance

    Returns
    -------
    html : str
    """
    from apolar import __version__

    need_report()
    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    numbers = 1 + (np.arange(analysis.n_rows) if provenance.row_numbers is None else provenance.row_numbers)
    notes = [*provenance.notes]
    if provenance.n_dropped:
        verb = "was" if provenance.n_dropped == 1 else "were"
        notes.append(f"{count_noun(provenance.n_dropped, 'row')} with missing values {verb} left out.")
    selection = analysis.selection
    listed = [] if selection is None else ranked_rows(selection.table, selection.criterion)
    listed = listed[: LIMITS.listed_candidates]
    return render_page(
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
        choice=choice(analysis, is_fitted_before=provenance.is_python),
        findings=findings(analysis, notes),
        pictures={picture.title: picture for picture in draw_pictures(analysis, X, numbers)},
        clusters=_clusters(analysis),
        means_beside=MEANS_BESIDE,
        counts_beside=COUNTS_BESIDE,
        columns=_columns(analysis, X),
        n_hidden=max(len(analysis.names) - LIMITS.listed_columns, 0),
        selection=selection,
        first_candidates=listed[: LIMITS.first_candidates],
        more_candidates=listed[LIMITS.first_candidates :],
        family=family(analysis.covariance_type).words,
        criteria={name: value for name, value in analysis.likelihood.criteria.items() if np.isfinite(value)},
        doubtful=doubtful_rows(analysis, X, numbers),
        n_doubtful=int(np.count_nonzero(analysis.is_doubtful)),
        outlying=outlying_rows(analysis, X, numbers),
        n_outlying=int(np.count_nonzero(analysis.is_outlying)),
        labels_link=labels_link(analysis, numbers),
        matched={} if analysis.truth is None else analysis.truth.matched,
        limits=LIMITS,
        versions=f"apolar {__version__}, Python {platform.python_version()}, {libraries}",
        n_missing=int(analysis.n_missing.sum()),
    )


def _clusters(analysis: Analysis) -> list[dict[str, Any]]:
    """Return number, rows, weight, means and deviations of each cluster, with standard errors."""
    model, errors = analysis.model, analysis.errors
    counts, deviations, differences = analysis.counts, analysis.deviations, traits(analysis)
    shown = slice(0, LIMITS.listed_columns)
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


def _columns(analysis: Analysis, X: Array) -> list[dict[str, object]]:
    """Return name, range, mean and deviation of the first columns."""
    columns: list[dict[str, object]] = []
    for position, name in enumerate(analysis.names[: LIMITS.listed_columns]):
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


def report(
    model: GaussianMixture,
    X: Any,
    path: str | os.PathLike[str],
    *,
    labels: Any = None,
    feature_names: Iterable[Any] | None = None,
    title: str | None = None,
) -> Path:
    """Write a page on a mixture and its rows: what makes each cluster, pictures, rows in doubt, outliers.

    Parameters
    ----------
    model : GaussianMixture
        Fitted, to these rows or to others.
    X : array_like, sparse matrix or dataframe, shape (n_samples, n_features)
        NaN where a value is missing; may be a memory map.
    path : path-like
        Of the page, an HTML file that needs no other; an existing file is replaced.
    labels : array_like, shape (n_samples,), optional
        Known classes, to be compared with the clusters.
    feature_names : list of str, optional
        The names of the columns; by default those of the dataframe, or of the fit.
    title : str, optional
        Of the page.

    Returns
    -------
    path : Path

    Notes
    -----
    It needs matplotlib and jinja2: `pip install "apolar[report]"`. On the page, clusters and rows are counted
    from 1: cluster 1 is component 0.

    Examples
    --------
    >>> import tempfile, apolar
    >>> iris = apolar.datasets.load_iris()
    >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
    >>> folder = tempfile.mkdtemp()
    >>> path = apolar.report(gm, iris.data, folder + "/iris.html", feature_names=iris.feature_names)
    >>> path.name
    'iris.html'
    """
    need_report()
    if not isinstance(model, GaussianMixture):
        raise TypeError(f"model must be an apolar.GaussianMixture, not {type(model).__name__}.")
    check_is_fitted(model)
    table = TableView.of(X)
    names = _names(model, table, feature_names)
    rows = X
    if not (isinstance(X, np.memmap) and X.dtype.kind == "f"):
        rows = table.read(range(table.shape[1])).astype(np.float64)
    classes = None if labels is None else label_column(labels, "labels", len(rows))
    analysis = describe(model, rows, names, labels=classes)
    seed = model.random_state
    page = report_page(
        analysis,
        rows,
        Provenance(
            f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}",
            f"model = {model!r}\napolar.report(model, X, {os.fspath(path)!r})",
            int(seed) if isinstance(seed, int | np.integer) else None,
            title=title or f"{len(model.weights_)} clusters of {len(rows):,} rows",
            is_python=True,
        ),
    )
    target = Path(path)
    with atomic_file(target) as file:
        file.write(page.encode("utf-8", "backslashreplace"))
    return target


def _names(model: GaussianMixture, table: TableView, feature_names: Iterable[Any] | None) -> list[str]:
    """Return the names of the columns; refuse a table with others than those of the fit."""
    m = model.n_features_in_
    if table.shape[1] != m:
        raise ValueError(f"X has {table.shape[1]} columns, and the mixture {m}: pass the columns of the fit.")
    fitted = getattr(model, "feature_names_in_", None)
    if table.names is not None and fitted is not None and list(fitted) != table.names:
        raise ValueError(
            "The columns of X are not those of the fit, or in another order: pass "
            "X[list(model.feature_names_in_)]."
        )
    return column_names(m, feature_names, table.names, fitted)


# --- templates ----------------------------------------------------------------------------


def render_page(package: str, filters: Mapping[str, Callable[[Any], str]], **content: Any) -> str:
    """Return the template `page.html` of a package, filled in.

    Parameters
    ----------
    package : str
    filters : mapping of str to callable
        What the template may apply to a value.
    **content : object
        What it shows.

    Returns
    -------
    html : str
    """
    need_library("jinja2")
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(filters)
    source = resources.files(package).joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(source).render(**content)
