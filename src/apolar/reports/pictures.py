"""The pictures of a report, as elements of a page."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture.families import family
from apolar.plots import bic_curves, convergence, profiles, scatter_matrix, spectrum, uncertainty
from apolar.plots.canvas import new_figure, off_screen
from apolar.plots.ellipses import CAPTION
from apolar.plots.mixtures import MixtureView
from apolar.plots.palette import GREY, INK, NOISE
from apolar.reports.analysis import Analysis
from apolar.reports.choice import table_selection
from apolar.reports.marks import mark_of_line, swatch
from apolar.reports.points import ShownRows, shown_rows
from apolar.reports.rows import is_doubtful, is_outlying, nameless
from apolar.reports.svg import Titles, inline_svg
from apolar.scores import criterion_title

# Columns of the scatter-plot matrix and of the profiles.
MAX_COLUMNS, MAX_PROFILES = 5, 16
# Points of a panel, of all panels of the matrix, and of those of the matrix that say what they are.
MAX_POINTS, MAX_MARKS, MAX_TITLES = 1200, 10_000, 3600
# Rows of which the spectrum is taken.
SPECTRUM_ROWS = 200_000
SPECTRUM_COLUMNS = 300
# In inches: a panel that can be read on a phone; of the profiles, the room of a cluster in a column.
PANEL = (3.6, 2.7)
ROOM, WIDEST = 0.085, 8.0

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class PagePicture:
    """A picture of a page.

    Attributes
    ----------
    title : str
    alt : str
        What it shows, in words.
    caption : str
        How to read it.
    svg : str
        The element.
    width : float
        In points.
    legend : list of pair of str
        Marks, as elements, and their words.
    """

    title: str
    alt: str
    caption: str
    svg: str
    width: float
    legend: list[tuple[str, str]]


def pictures(analysis: Analysis, X: Array, row_numbers: Array | None = None) -> list[PagePicture]:
    """Return the pictures that suit an analysis.

    Parameters
    ----------
    analysis : Analysis
    X : ndarray, shape (n_samples, n_features)
    row_numbers : ndarray of int, shape (n_samples,), optional
        The numbers of the rows in the file, from 0.

    Returns
    -------
    pictures : list of PagePicture
    """
    gallery = _Gallery(analysis, X, row_numbers)
    with off_screen(), warnings.catch_warnings():
        # matplotlib's, where its font lacks the letters of a name: as text, the browser has a font for them.
        warnings.simplefilter("ignore", UserWarning)
        drawn = [
            gallery.matrix(),
            gallery.profiles(),
            gallery.plane(),
            gallery.choice(),
            gallery.spectrum(),
            gallery.convergence(),
        ]
    return [picture for picture in drawn if picture is not None]


class _Gallery:
    """Draws the pictures of an analysis."""

    def __init__(self, analysis: Analysis, X: Array, row_numbers: Array | None) -> None:
        self.analysis, self.X, self.row_numbers = analysis, X, row_numbers
        self.model = nameless(analysis.model)
        # What is no character of XML, such as a control code, has no place in a picture.
        self.names = [_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", name) for name in analysis.names]
        self.n_clusters = len(self.model.weights_)
        mixture = MixtureView.of(self.model)
        self.by_separation = np.argsort(-mixture.share_between, kind="stable").tolist()

    # --- rows -----------------------------------------------------------------------------

    def matrix(self) -> PagePicture:
        columns = sorted(self.by_separation[:MAX_COLUMNS])
        n_panels = max(len(columns) * (len(columns) - 1), 1)
        shown = self._shown(columns, min(MAX_POINTS, MAX_MARKS // n_panels))
        figure = scatter_matrix(
            shown.values,
            None,
            shown.predicted,
            model=self.model,
            columns=columns,
            feature_names=self.names,
            max_points=len(shown.values),
        )
        _remove_words(figure)
        for axes in figure.axes:
            i, j = _place(axes)
            if i != j:
                _add_rings(axes, shown, [columns[j], columns[i]])

        def titles(axes: Any, kind: str, offsets: Array) -> Sequence[str] | None:
            i, j = _place(axes)
            return shown.titles(offsets, columns[j], columns[i], kind)

        with_titles = n_panels * len(shown.values) <= MAX_TITLES
        alt = "Scatter-plot matrix of the columns that separate the clusters best."
        return _picture(
            "The clusters",
            alt,
            " ".join(
                ["Colours and marks are clusters.", *shown.remarks, CAPTION if len(columns) > 1 else ""]
            ),
            figure,
            self._legend(shown, with_doubt=False),
            titles if with_titles else None,
        )

    def plane(self) -> PagePicture | None:
        if self.n_clusters < 2 or len(self.names) < 2:
            return None
        columns = sorted(self.by_separation[:2])
        shown = self._shown(columns, MAX_POINTS)
        axes = uncertainty(
            self._knowing(shown),
            shown.values,
            columns=columns,
            feature_names=self.names,
            max_points=len(shown.values),
            ax=_new_axes(PANEL),
        )
        _remove_words(axes.figure)
        _add_rings(axes, shown, columns)
        return _picture(
            "Where the cluster is in doubt",
            "Rows in the plane of two columns; large marks with a rim are rows between clusters.",
            " ".join(["Point at a mark to see its row.", *shown.remarks]),
            axes.figure,
            self._legend(shown, with_doubt=True),
            lambda _, kind, offsets: shown.titles(offsets, columns[0], columns[1], kind),
        )

    def _knowing(self, shown: ShownRows) -> SimpleNamespace:
        """Return the mixture with the probabilities of the shown rows.

        Missing values are drawn where they are expected; what a row belongs to is known without them.
        """
        model = self.model
        return SimpleNamespace(
            covariance_type=model.covariance_type,
            weights_=model.weights_,
            means_=model.means_,
            covariances_=model.covariances_,
            noise_box_=model.noise_box_,
            predict_proba=lambda _: shown.posteriors,
        )

    def _shown(self, columns: list[int], most: int) -> ShownRows:
        return shown_rows(self.analysis, self.X, self.model, columns, most, self.row_numbers)

    def _legend(self, shown: ShownRows, *, with_doubt: bool) -> list[tuple[str, str]]:
        analysis = self.analysis
        legend = [(swatch(k), f"cluster {k + 1} ({count:,})") for k, count in enumerate(analysis.counts)]
        if analysis.has_noise:
            legend.append((swatch(NOISE), f"noise ({analysis.n_noise:,})"))
        n_doubtful = int(np.count_nonzero(is_doubtful(analysis)))
        if with_doubt and n_doubtful:
            legend.append((_ring("fill: var(--card); stroke: var(--ink)"), f"in doubt ({n_doubtful:,})"))
        if shown.n_disagreeing:
            words = f"not in the cluster of its class ({shown.n_disagreeing:,})"
            legend.append((_ring("fill: none; stroke: var(--soft)"), words))
        if shown.is_outlier.any():
            count = int(np.count_nonzero(is_outlying(analysis)))
            legend.append((_square("fill: none; stroke: var(--ink)"), f"outlier ({count:,})"))
        return legend

    # --- the mixture ----------------------------------------------------------------------

    def profiles(self) -> PagePicture | None:
        if len(self.names) < 3 or self.n_clusters < 2:
            return None
        n_columns = min(len(self.names), MAX_PROFILES)
        width = min(max(ROOM * (self.n_clusters + 1) * n_columns, PANEL[0]), WIDEST)
        axes = profiles(
            self.model, feature_names=self.names, max_columns=MAX_PROFILES, ax=_new_axes((width, PANEL[1]))
        )
        alt = "Means of each cluster in each column, in standard deviations from the overall mean."
        return _of_axes("Profiles", alt, axes)

    def choice(self) -> PagePicture | None:
        selection = table_selection(self.analysis)
        if selection is None:
            return None
        # The reason stands beside the picture.
        axes = bic_curves(replace(selection, reason=""), ax=_new_axes(PANEL))
        alt = f"{criterion_title(selection.criterion)} against the number of clusters; lower is better."
        return _of_axes("How many clusters", alt, axes)

    def spectrum(self) -> PagePicture | None:
        # Only spherical clusters leave a flat level of noise.
        is_spherical = family(self.analysis.covariance_type).is_spherical
        is_whole = not np.any(self.analysis.n_missing)
        if not (is_spherical and is_whole and 2 < len(self.names) <= SPECTRUM_COLUMNS):
            return None
        axes = spectrum(np.asarray(self.X[:SPECTRUM_ROWS]), ax=_new_axes(PANEL))
        alt = "Eigenvalues of the covariance of the table, largest first, beside the level of noise."
        return _of_axes("Spectrum", alt, axes)

    def convergence(self) -> PagePicture | None:
        bounds = self.model.lower_bounds_
        gained = bounds[-1] - bounds[0] if len(bounds) > 3 else 0.0
        if gained * self.analysis.n_rows <= 1:
            return None
        axes = convergence(self.model, ax=_new_axes(PANEL))
        return _of_axes(
            "The way to the optimum", "What is left to gain, after each pass over the data.", axes
        )


# --- from figures to elements -------------------------------------------------------------


def _new_axes(size: tuple[float, float]) -> Any:
    figure = new_figure()
    figure.set_size_inches(*size)
    return figure.add_axes((0, 0, 1, 1))


def _of_axes(title: str, alt: str, axes: Any) -> PagePicture:
    """Return the picture of axes, whose legend and note become text of the page."""
    key = axes.get_legend()
    legend = [
        (mark_of_line(line), text.get_text())
        for line, text in zip(key.legend_handles, key.get_texts(), strict=True)
    ]
    caption = " ".join(text.get_text().replace("\n", " ") for text in axes.texts).strip()
    _remove_words(axes.figure)
    return _picture(title, alt, caption, axes.figure, legend)


def _remove_words(figure: Any) -> None:
    """Remove title, legend and note of a figure: they are text of the page."""
    for artist in (*figure.legends, *figure.texts):
        artist.remove()
    for axes in figure.axes:
        if axes.get_legend() is None:
            continue
        axes.set_title("")
        axes.get_legend().remove()
        for text in list(axes.texts):
            text.remove()


def _picture(
    title: str,
    alt: str,
    caption: str,
    figure: Any,
    legend: list[tuple[str, str]],
    titles: Titles | None = None,
) -> PagePicture:
    # Ids are written at every point: initials are enough to tell pictures apart.
    initials = "".join(word[0] for word in title.lower().split())
    drawn = inline_svg(figure, initials, alt, titles)
    return PagePicture(title, alt, caption, drawn.text, drawn.width, legend)


def _place(axes: Any) -> tuple[int, int]:
    """Return the row and the column of a panel of the matrix, which its label says."""
    row, column = axes.get_label().removeprefix("row ").split(", column ")
    return int(row), int(column)


def _add_rings(axes: Any, shown: ShownRows, columns: list[int]) -> None:
    """Draw rings around rows that are not in the cluster of their class, and squares around outliers."""
    for rows, marker, colour in ((shown.disagrees, "o", GREY), (shown.is_outlier, "s", INK)):
        if rows.any():
            places = shown.values[rows][:, columns]
            how = {"facecolors": "none", "edgecolors": colour, "linewidths": 0.8, "marker": marker}
            axes.scatter(*places.T, s=70, gid="ring", zorder=4, **how)


def _ring(style: str) -> str:
    return _outline(f'<circle r="4.6" style="{style}; stroke-width: 1.2"/>')


def _square(style: str) -> str:
    return _outline(f'<path d="M-4.4 -4.4H4.4V4.4H-4.4Z" style="{style}; stroke-width: 1.2"/>')


def _outline(shape: str) -> str:
    return f'<svg class="mark" viewBox="-6 -6 12 12" aria-hidden="true">{shape}</svg>'
