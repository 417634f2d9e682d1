"""The pictures of a report, as data that a page can hold."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families import family
from apolar.plots import bic_curves, convergence, profiles, scatter_matrix, spectrum, uncertainty
from apolar.plots.canvas import file_bytes
from apolar.plots.mixtures import MixtureView
from apolar.reports.analysis import Analysis
from apolar.scores import criterion_title

# Columns of the scatter-plot matrix, rows that are drawn, and rows of which the spectrum is taken.
MOST_COLUMNS = 5
MOST_POINTS = 1500
SPECTRUM_ROWS = 200_000
SPECTRUM_COLUMNS = 300
DPI = 100


@dataclass(frozen=True)
class PagePicture:
    """A picture: its title, what it shows in words, and its data as a URI."""

    title: str
    alt: str
    data: str


def pictures(analysis: Analysis, X: Array) -> list[PagePicture]:
    """Return the pictures that suit an analysis.

    Parameters
    ----------
    analysis : Analysis
    X : ndarray, shape (n_samples, n_features)

    Returns
    -------
    pictures : list of PagePicture
    """
    # Rows here are arrays without column names; a model without names does not warn of that.
    model, names = copy(analysis.model), list(analysis.names)
    del model.feature_names_in_
    sample = _sample(analysis)
    rows, predicted = np.asarray(X[sample]), analysis.predicted[sample]
    is_whole = not np.any(analysis.n_missing)
    if not is_whole:
        # Rows are drawn where the mixture expects them.
        rows = model.impute(rows)
    truth = None if analysis.truth is None else analysis.truth.codes[sample]
    if truth is not None and np.any(truth < 0):
        known = truth >= 0
        rows, predicted, truth = rows[known], predicted[known], truth[known]
    columns = _separating_columns(analysis)
    drawn: list[PagePicture] = []

    def add(title: str, alt: str, draw: Callable[[], Any], kind: str = "svg") -> None:
        with warnings.catch_warnings():
            # matplotlib's, where the font lacks the letters of a name: the page shows a box in their place.
            warnings.simplefilter("ignore", UserWarning)
            figure = draw()
            data = _uri(getattr(figure, "figure", figure), kind)
        drawn.append(PagePicture(title, alt, data))

    clusters = {number: f"cluster {number + 1}" for number in range(len(model.weights_))}
    class_names = clusters if analysis.truth is None else dict(enumerate(analysis.truth.names))
    add(
        "The clusters",
        "Scatter-plot matrix of the columns that separate the clusters best. "
        + (
            "Above the diagonal known classes, below the clusters."
            if truth is not None
            else "Colours are clusters."
        ),
        lambda: scatter_matrix(
            rows,
            truth,
            predicted,
            model=model,
            columns=columns,
            feature_names=names,
            class_names=class_names,
            max_points=MOST_POINTS,
        ),
        "png",
    )
    if len(names) > 2 and len(model.weights_) > 1:
        add(
            "Profiles",
            "Means of each cluster in each column, in standard deviations from the overall mean.",
            lambda: profiles(model, feature_names=names, class_names=list(clusters.values())),
        )
    if len(model.weights_) > 1 and len(names) > 1:
        add(
            "Where the cluster is in doubt",
            "Rows in the plane of two columns; large dark marks are rows between clusters.",
            lambda: uncertainty(model, rows, feature_names=names, class_names=clusters),
            "png",
        )
    if analysis.selection is not None:
        selection = analysis.selection
        add(
            "How many clusters",
            f"{criterion_title(selection.criterion)} against the number of clusters; lower is better.",
            lambda: bic_curves(selection),
        )
    # Only spherical clusters leave a flat level of noise.
    is_spherical = family(analysis.covariance_type).is_spherical
    if is_spherical and is_whole and 2 < len(names) <= SPECTRUM_COLUMNS:
        add(
            "Spectrum",
            "Eigenvalues of the covariance of the table, largest first, beside the level of noise.",
            lambda: spectrum(np.asarray(X[:SPECTRUM_ROWS])),
        )
    gained = model.lower_bounds_[-1] - model.lower_bounds_[0] if len(model.lower_bounds_) > 3 else 0.0
    if gained * analysis.n_rows > 1:
        add(
            "The way to the optimum",
            "What is left to gain, after each pass over the data.",
            lambda: convergence(model),
        )
    return drawn


def _sample(analysis: Analysis) -> Array:
    """Return which rows are drawn: all if they are few, else some of every cluster."""
    n_rows = analysis.n_rows
    if n_rows <= 20 * MOST_POINTS:
        return np.arange(n_rows)
    rng = np.random.default_rng(0)
    n_components = len(analysis.model.weights_)
    chosen = [rng.choice(n_rows, 10 * MOST_POINTS, replace=False)]
    for component in range(n_components):
        members = np.flatnonzero(analysis.predicted == component)
        chosen.append(rng.permutation(members)[: max(50, MOST_POINTS // n_components)])
    return np.unique(np.concatenate(chosen))


def _separating_columns(analysis: Analysis) -> list[int]:
    """Return the columns in which the clusters differ most, in the order of the table."""
    if len(analysis.names) <= MOST_COLUMNS:
        return list(range(len(analysis.names)))
    mixture = MixtureView.of(analysis.model)
    order = np.argsort(-mixture.between / np.maximum(mixture.total, 1e-300), kind="stable")[:MOST_COLUMNS]
    return sorted(int(column) for column in order)


def _uri(figure: Any, kind: str) -> str:
    """Return a figure as a data URI."""
    mime = "image/svg+xml" if kind == "svg" else "image/png"
    return f"data:{mime};base64,{base64.b64encode(file_bytes(figure, kind, DPI)).decode('ascii')}"
