"""Data for pictures, and what is read back from figures."""

import functools
import itertools
import math
import pickle

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

import apolar

# One of each shape: others differ in what components share.
FAMILIES = ("full", "tied_diag", "spherical", "VEV")
HOSTILE = ["$x$", "<script>alert(1)</script>", "_hidden", "$\\frac{"]


def three_clusters(n=60, m=2, seed=0):
    """Return well separated clusters 0, 1, 2 of n / 2, n / 3 and n / 6 rows."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, 2], [n // 2, n // 3, n // 6])
    return rng.normal(size=(n, m)) + 10.0 * labels[:, None], labels


@functools.cache
def with_noise():
    """Return a mixture with noise, its rows, and their labels; the last 15 are noise."""
    X, labels = three_clusters(n=180, m=3)
    rng = np.random.default_rng(1)
    X = np.vstack([X, rng.uniform(X.min(axis=0) - 5, X.max(axis=0) + 5, (15, 3))])
    model = apolar.GaussianMixture(3, covariance_type="spherical", noise=True, random_state=0).fit(X)
    return model, X, np.append(labels, np.full(15, -1))


def panel(figure, row, column):
    return figure.axes[row * math.isqrt(len(figure.axes)) + column]


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
    """Return the texts of the legend, and those around the panels."""
    if not figure.legends:
        return [], figure.get_supxlabel()
    (legend,) = figure.legends
    around = f"{figure.get_suptitle()} {legend.get_title().get_text()}"
    return [text.get_text() for text in legend.get_texts()], " ".join(around.split())


def ellipses(axes):
    """Return the outlines of components, shape (n_components, n_points, 2), and their colours."""
    lines = [line for line in axes.lines if (line.get_gid() or "").startswith("cluster-")]
    return np.array([line.get_xydata() for line in lines]), [to_hex(line.get_color()) for line in lines]


# --- pictures of one panel ------------------------------------------------------------------


@functools.cache
def fitted(kind="full"):
    """Return a mixture of three_clusters(60, m=4), each column in units of its own."""
    X = three_clusters(m=4)[0] * [1, 2, 3, 4]
    return apolar.GaussianMixture(3, covariance_type=kind, random_state=0).fit(X)


def blank():
    """Return empty axes, to draw into where places do not matter: that is faster."""
    figure = Figure(dpi=50)
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def note(axes):
    (text,) = axes.texts
    return text.get_text().replace("\n", " ")


def lines(axes):
    """Return the lines that have a name, by it."""
    return {line.get_gid(): line for line in axes.lines if line.get_gid()}


def check_texts(axes):
    """No text is a formula or small, nothing overlaps, and nothing is cut; in a new figure."""
    figure = axes.figure
    figure.draw_without_rendering()
    shown = [text for text in axes.findobj(Text) if text.get_text() and text.get_visible()]
    for text in shown:
        assert text.get_fontsize() >= 8
        # Numbers at ticks, which are ours, have no dollars.
        assert not text.get_parse_math() or "$" not in text.get_text()
    around = [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts, axes.get_legend()]
    boxes = [artist.get_window_extent() for artist in around] + [axes.bbox]
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        ticks = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        boxes += [text.get_window_extent() for text in ticks]
    for box, other in itertools.combinations(boxes, 2):
        across = min(box.x1, other.x1) - max(box.x0, other.x0)
        assert across <= 1 or min(box.y1, other.y1) - max(box.y0, other.y0) <= 1
    for box in boxes:
        assert min(box.x0, box.y0) >= -1
        assert box.x1 <= figure.bbox.x1 + 1
        assert box.y1 <= figure.bbox.y1 + 1


def check_drawn_into(draw):
    """A given panel is used, and nothing else of its figure; a new figure is one of pyplot."""
    import matplotlib.pyplot as plt

    figure = Figure(figsize=(8, 4))
    left, right = figure.subplots(1, 2)
    assert draw(ax=right) is right
    assert figure.axes == [left, right]
    assert not left.lines + left.collections + left.texts + left.patches
    assert not figure.texts + figure.legends
    assert tuple(figure.get_size_inches()) == (8, 4)
    assert plt.get_fignums() == []
    alone = draw(ax=None)
    assert [plt.figure(number) for number in plt.get_fignums()] == [alone.figure]
    assert alone.figure.axes == [alone]
    assert alone.figure.get_layout_engine() is not None
    assert pickle.dumps(alone)
