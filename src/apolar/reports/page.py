"""The report as a single HTML file that needs no other files."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apolar._core.arrays import Array
from apolar._core.display import count_noun, figures, with_error
from apolar._core.files import atomic_file
from apolar.estimator import GaussianMixture
from apolar.estimator.fitted import NOISE_LABEL
from apolar.estimator.standard_errors import Stability
from apolar.estimator.summary import tails_in_words
from apolar.exceptions import join_names
from apolar.plots.chart import need_library, style
from apolar.plots.clusters import label_column
from apolar.plots.views import TableView, column_names
from apolar.reports.analysis import Analysis, describe
from apolar.reports.listed_rows import (
    doubtful_rows,
    labels_link,
    nearest_clusters,
    outlying_rows,
    typical_rows,
)
from apolar.reports.pictures import DARK, FILTERS, LIGHT, draw_pictures
from apolar.reports.scoring import LIMITS
from apolar.reports.text import (
    NOT_CONVERGED,
    Provenance,
    agreement,
    choice,
    is_at_most_tried,
    long_tails,
    spread_name,
    tails_sentence,
    traits,
)
from apolar.scores import criterion_title
from apolar.selection import Selection
from apolar.selection.selection_table import ranked_rows

# Clusters side by side in a table: as many as a printed page has room for.
MEANS_BESIDE, COUNTS_BESIDE = 5, 10


def need_report() -> None:
    """Raise an error that says what to install, if something is not there."""
    need_library("matplotlib")
    need_library("jinja2")


def report_page(analysis: Analysis, X: Array, provenance: Provenance) -> str:
    """Return the report as HTML.

    Everything that comes from the user's table (names of columns and classes,
    the path) is escaped. The page runs one script of its own, which it names by
    its hash, and asks for nothing from the network.

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
    row_names = (
        {} if provenance.row_names is None else dict(zip(numbers.tolist(), provenance.row_names, strict=True))
    )
    selection = analysis.selection
    listed = [] if selection is None else ranked_rows(selection.table, selection.criterion)
    listed = listed[: LIMITS.listed_candidates]
    # Those that separate the clusters best.
    shown = analysis.clusters.separating_columns(LIMITS.listed_columns)
    is_used = analysis.clusters.separation > LIMITS.least_share
    stability = [] if analysis.stability is None else analysis.stability.sentences()
    tails = long_tails(analysis, X)
    script = resources.files("apolar.reports").joinpath("page.js").read_text(encoding="utf-8")
    return render_page(
        "apolar.reports",
        FILTERS
        | {
            "figures": figures,
            "mean_of": lambda pair: with_error(*pair).partition(" ")[0],
            "error_of": lambda pair: with_error(*pair).rpartition(" ")[2],
            "count": count_noun,
            "names": join_names,
            "integer": lambda value: f"{int(value):,}",
            "title_of": criterion_title,
        },
        analysis=analysis,
        provenance=provenance,
        title=provenance.title or f"Clusters of {provenance.source}",
        style=style,
        light=LIGHT,
        dark=DARK,
        script=script,
        # The one script that a browser runs.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        row_names=row_names,
        model=analysis.model,
        not_converged=NOT_CONVERGED,
        notes=[*tails_in_words(analysis.model), *stability, *provenance.notes],
        is_at_most_tried=is_at_most_tried(analysis),
        tails=tails_sentence(tails) if tails else "",
        small=[f"{k + 1}" for k in np.flatnonzero(analysis.counts < LIMITS.few_rows)],
        used=[analysis.names[j] for j in np.flatnonzero(is_used)],
        unused=[analysis.names[j] for j in np.flatnonzero(~is_used)],
        spread=spread_name(analysis),
        agreement=agreement(analysis),
        choice=choice(analysis, is_fitted_before=provenance.is_python),
        tables=_category_tables(analysis, provenance),
        pictures={picture.title: picture for picture in draw_pictures(analysis, X, numbers)},
        clusters=_clusters(analysis, X, numbers, shown),
        means_beside=MEANS_BESIDE,
        counts_beside=COUNTS_BESIDE,
        columns=_columns(analysis, X, shown),
        n_hidden=max(len(analysis.names) - LIMITS.listed_columns, 0),
        selection=selection,
        first_candidates=listed[: LIMITS.first_candidates],
        more_candidates=listed[LIMITS.first_candidates :],
        criteria={name: value for name, value in analysis.likelihood.criteria.items() if np.isfinite(value)},
        doubtful=doubtful_rows(analysis, numbers),
        n_doubtful=int(np.count_nonzero(analysis.is_doubtful)),
        outlying=outlying_rows(analysis, X, numbers),
        n_outlying=int(np.count_nonzero(analysis.is_outlying)),
        noisy=outlying_rows(analysis, X, numbers, of_noise=True) if analysis.has_noise else [],
        labels_link=labels_link(analysis, numbers),
        matched={} if analysis.truth is None else analysis.truth.matched,
        limits=LIMITS,
        versions=f"apolar {__version__}, Python {platform.python_version()}, {libraries}",
        n_missing=int(analysis.n_missing.sum()),
    )


def _clusters(analysis: Analysis, X: Array, row_numbers: Array, shown: list[int]) -> list[dict[str, Any]]:
    """Return what the page shows of each cluster: its rows, how sure they are, means, what marks it."""
    mixture = analysis.clusters
    errors, counts, deviations = analysis.errors, analysis.counts, analysis.deviations
    differences = traits(analysis)
    typical, nearest = typical_rows(analysis, X), nearest_clusters(analysis)
    members = [analysis.predicted == k for k in range(len(counts))]
    places = [[analysis.names.index(trait.column) for trait in of_cluster] for of_cluster in differences]
    return [
        {
            "index": k,
            "rows": int(counts[k]),
            "share": float(counts[k] / analysis.n_rows),
            "certainty": float(analysis.certainty[members[k]].mean()) if counts[k] else 0.0,
            "n_doubtful": int(np.count_nonzero(analysis.is_doubtful & members[k])),
            "nearest": nearest[k],
            "typical": [
                {"row": int(row_numbers[i]), "values": np.asarray(X[i, places[k]]).tolist()}
                for i in typical[k]
            ],
            "n_components": len(analysis.groups[k]),
            "weight": float(mixture.weights[k]),
            "weight_error": None if errors is None else float(errors.weights[k]),
            "means": mixture.means[k, shown].tolist(),
            "mean_errors": None if errors is None else errors.means[k, shown].tolist(),
            "deviations": deviations[k, shown].tolist(),
            "traits": differences[k],
            "classes": None if analysis.truth is None else analysis.truth.counts[:, k].tolist(),
        }
        for k in range(len(counts))
    ]


def _columns(analysis: Analysis, X: Array, shown: list[int]) -> list[dict[str, object]]:
    """Return name, range, mean and deviation of columns."""
    columns = []
    for position in shown:
        values = np.asarray(X[:, position])
        # In units of the largest, whose square may overflow.
        scale = float(np.nanmax(np.abs(values))) or 1.0
        columns.append(
            {
                "name": analysis.names[position],
                "least": float(np.nanmin(values)),
                "mean": scale * float(np.nanmean(values / scale)),
                "deviation": scale * float(np.nanstd(values / scale)),
                "largest": float(np.nanmax(values)),
                "n_missing": int(analysis.n_missing[position]),
            }
        )
    return columns


def _category_tables(analysis: Analysis, provenance: Provenance) -> list[dict[str, Any]]:
    """Return, for each column that did not take part, the share of each of its values in each cluster."""
    n_clusters = len(analysis.groups)
    groups = np.where(analysis.predicted == NOISE_LABEL, n_clusters, analysis.predicted)
    tables = []
    for name, column in provenance.categories.items():
        values, codes = np.unique(column, return_inverse=True)
        counts = np.zeros((len(values), n_clusters + 1), dtype=np.int64)
        np.add.at(counts, (codes, groups), 1)
        order = np.argsort(-counts.sum(axis=1), kind="stable")
        sizes = np.maximum(counts.sum(axis=0), 1)
        expected = counts.sum(axis=1, keepdims=True) * sizes / max(counts.sum(), 1)
        tables.append(
            {
                "name": name,
                "values": [str(values[i]) or "(empty)" for i in order],
                "shares": (counts / sizes)[order].tolist(),
                "all": (counts.sum(axis=1) / counts.sum())[order].tolist(),
                # Far more than by chance, if each row were independent.
                "is_frequent": (counts > expected + LIMITS.surprise * np.sqrt(expected))[order].tolist(),
            }
        )
    return tables


def report(
    model: GaussianMixture | Selection,
    X: Any,
    path: str | os.PathLike[str],
    *,
    labels: Any = None,
    feature_names: Iterable[Any] | None = None,
    title: str | None = None,
    stability: Stability | None = None,
) -> Path:
    """Write a page on a mixture and its rows: what makes each cluster, pictures, rows in doubt, outliers.

    Parameters
    ----------
    model : GaussianMixture or Selection
        Fitted, to these rows or to others. What `select` returns stands for its best mixture; the page then
        has the comparison, too.
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
    stability : Stability, optional
        What `model.stability(X)` returned: the page then says how often each cluster comes back.

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
    selection = model if isinstance(model, Selection) else None
    model = model.best if isinstance(model, Selection) else model
    if not isinstance(model, GaussianMixture):
        kinds = "an apolar.GaussianMixture, or a Selection of them"
        raise TypeError(f"model must be {kinds}, not {type(model).__name__}.")
    check_is_fitted(model)
    table = TableView.of(X)
    names = _names(model, table, feature_names)
    rows = X
    if not (isinstance(X, np.memmap) and X.dtype.kind == "f"):
        rows = table.read(range(table.shape[1])).astype(np.float64)
    classes = None if labels is None else label_column(labels, "labels", len(rows))
    analysis = replace(describe(model, rows, names, labels=classes), selection=selection, stability=stability)
    seed = model.random_state
    page = report_page(
        analysis,
        rows,
        Provenance(
            f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}",
            f"model = {model!r}\napolar.report(model, X, {os.fspath(path)!r})",
            int(seed) if isinstance(seed, int | np.integer) else None,
            title=title or f"{count_noun(len(analysis.groups), 'cluster')} in {len(rows):,} rows",
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


def render_page(package: str, filters: Mapping[str, Callable[..., str]], **content: Any) -> str:
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
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template("page.html").render(**content)
