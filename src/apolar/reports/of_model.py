"""The page of a mixture that is fitted, from Python."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apolar._core.arrays import Array
from apolar._core.files import atomic_file
from apolar.estimator import GaussianMixture
from apolar.plots.table import TableView
from apolar.reports.analysis import described
from apolar.reports.page import Provenance, need_report, report_page

__all__ = ["report"]


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
    rows = _rows(X, table)
    classes = None if labels is None else np.asarray(labels)
    if classes is not None and classes.shape != (len(rows),):
        raise ValueError(
            f"labels must have one entry for each of the {len(rows)} rows of X; got shape {classes.shape}."
        )
    from apolar import __version__

    analysis = described(model, rows, names, labels=classes)
    seed = model.random_state
    page = report_page(
        analysis,
        rows,
        Provenance(
            f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}",
            f"model = {model!r}\napolar.report(model, X, {os.fspath(path)!r})",
            int(seed) if isinstance(seed, int | np.integer) else None,
            __version__,
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
    if table.n_features != m:
        raise ValueError(
            f"X has {table.n_features} columns, and the mixture {m}: pass the columns of the fit."
        )
    fitted = getattr(model, "feature_names_in_", None)
    if table.names is not None and fitted is not None and list(fitted) != table.names:
        raise ValueError(
            "The columns of X are not those of the fit, or in another order: pass "
            "X[list(model.feature_names_in_)]."
        )
    if feature_names is not None:
        names = [str(name) for name in feature_names]
        if len(names) != m:
            raise ValueError(f"feature_names must name all {m} columns of X; got {len(names)} names.")
        return names
    if table.names is not None:
        return table.names
    return [f"column {i}" for i in range(m)] if fitted is None else [str(name) for name in fitted]


def _rows(X: Any, table: TableView) -> Array:
    """Return the rows as numbers, NaN where one is missing; a memory map stays one."""
    if isinstance(X, np.memmap) and X.dtype.kind == "f":
        return X
    values = table.pick(list(range(table.n_features)))
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError("X must hold numbers; it holds other objects.") from error
