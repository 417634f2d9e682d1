"""Text and layout of pictures, and what they need."""

import io
import re
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from apolar.plots import scatter_matrix
from apolar.plots.chart import MARKERS, WRONG, style, tick_text
from plots.reading import panel, texts, three_clusters


def test_texts_of_users_are_shown_as_they_are():
    X, labels = three_clusters()
    hostile = ["$\\frac{", "<script>alert(1)</script>", "_hidden"]
    figure = scatter_matrix(
        X, labels, feature_names=hostile[:2], class_names=hostile, title="50% of $x_1$ & ^"
    )
    shown = [panel(figure, i, i).texts[0] for i in range(2)]
    assert [text.get_text().replace("\n", "") for text in shown] == hostile[:2]
    in_legend, outside = texts(figure)
    assert in_legend == [f"{name} ({count})" for name, count in zip(hostile, [30, 20, 10], strict=True)]
    assert "50% of $x_1$ & ^" in outside
    assert not any(text.get_parse_math() for text in (*shown, *figure.legends[0].get_texts()))
    picture = io.StringIO()
    figure.savefig(picture, format="svg")
    assert "<script>" not in picture.getvalue()


@pytest.mark.parametrize("n_columns", [1, 3])
def test_nothing_overlaps_and_nothing_is_cut(n_columns):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(90, 3)) * [1e-2, 1e6, 1e2], np.repeat(np.arange(9), 10)
    figure = scatter_matrix(
        X,
        labels,
        np.roll(labels, 1),
        columns=n_columns,
        title="A title that is long " * 4,
        feature_names=["a column with a long name " * 2] * 3,
        class_names=[f"class with a long name {i} " * 2 for i in range(9)],
    )
    figure.draw_without_rendering()
    page, legend = figure.bbox, figure.legends[0].get_window_extent()
    panels = [axes.get_tightbbox() for axes in figure.axes]
    for box in (*panels, legend):
        assert page.x0 <= box.x0 < box.x1 <= page.x1
        assert page.y0 <= box.y0 < box.y1 <= page.y1
    assert not any(legend.overlaps(other) for other in panels)
    for axes in figure.axes:
        for text in axes.texts:
            assert text.get_window_extent().width <= axes.bbox.width
            assert text.get_fontsize() >= 8


def test_a_figure_or_a_part_of_one_can_be_given():
    import matplotlib.pyplot as plt

    X, labels = three_clusters()
    whole = Figure(figsize=(10, 5))
    left, right = whole.subfigures(1, 2)
    assert scatter_matrix(X, labels, figure=right) is right
    assert (len(left.axes), len(right.axes)) == (0, 4)
    assert tuple(whole.get_size_inches()) == (10, 5)
    whole.draw_without_rendering()
    assert all(axes.bbox.x0 > right.bbox.x0 for axes in right.axes)
    assert plt.get_fignums() == []
    # A new figure is one of pyplot.
    figure = scatter_matrix(np.eye(4), columns=1)
    assert plt.get_fignums() == [figure.number]


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = re.escape('Pictures need matplotlib: pip install "apolar[report]".')
    with pytest.raises(ImportError, match=message):
        scatter_matrix([[1.0]])


def test_numbers_at_ticks():
    minus = "\N{MINUS SIGN}"
    assert tick_text(1, 0.6000000000000001) == "0.6"
    assert tick_text(1, 1e-17) == "0"
    assert tick_text(1e3, -1500.0) == f"{minus}1500"
    assert tick_text(1e8, 2.5e8) == "2.5e8"
    assert tick_text(0, 1e-8) == f"1e{minus}8"


def test_clusters_differ_by_colour_and_marker():
    assert len({tuple(style(i).values()) for i in range(104)}) == 104
    assert WRONG not in MARKERS
