"""Data for pictures, and what is read back from figures."""

import itertools

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.patches import Ellipse


def three_clusters(n=60, m=2, seed=0):
    """Return well separated clusters 0, 1, 2 of n / 2, n / 3 and n / 6 rows."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, 2], [n // 2, n // 3, n // 6])
    return rng.normal(size=(n, m)) + 10.0 * labels[:, None], labels


def panel(figure, row, column):
    (found,) = [axes for axes in figure.axes if axes.get_label() == f"row {row}, column {column}"]
    return found


def points(axes):
    """Return the offsets and the colours of all points of a panel."""
    offsets = np.concatenate([np.asarray(part.get_offsets()) for part in axes.collections])
    colours = [[to_hex(part.get_facecolor()[0])] * len(part.get_offsets()) for part in axes.collections]
    return offsets, list(itertools.chain(*colours))


def colour_by_point(axes):
    offsets, colours = points(axes)
    return {tuple(offset): colour for offset, colour in zip(offsets.tolist(), colours, strict=True)}


def is_wrong_marker(part):
    """The marker of wrong rows is the only one with an edge."""
    return part.get_linewidths()[0] > 0


def texts(figure):
    """Return the texts of the legend, and those beside the panels."""
    in_legend = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return in_legend, " ".join(text.get_text().replace("\n", " ") for text in figure.texts)


def ellipses(axes):
    return [patch for patch in axes.patches if isinstance(patch, Ellipse)]
