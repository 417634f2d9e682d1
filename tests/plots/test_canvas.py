"""The figure, the texts around its panels, and their places."""

import io
import itertools
import pickle
import re
import subprocess
import sys
import types

import numpy as np
import pytest
from matplotlib.figure import Figure

from apolar.plots import scatter_matrix
from plots.reading import panel, texts, three_clusters

# --- texts and layout ---------------------------------------------------------------------


def test_texts_of_users_are_shown_as_they_are():
    X, labels = three_clusters()
    hostile = ["$\\frac{", "<script>alert(1)</script>", "_hidden"]
    figure = scatter_matrix(
        X, labels, feature_names=hostile[:2], class_names=hostile, title="50% of $x_1$ & ^"
    )
    figure.savefig(io.BytesIO(), format="png", dpi=50)
    shown = [panel(figure, i, i).texts[0] for i in range(2)]
    assert shown[0].get_text() == hostile[0]
    assert shown[1].get_text().replace("\n", "") == hostile[1]
    in_legend, outside = texts(figure)
    assert in_legend == [f"{name} ({count})" for name, count in zip(hostile, [30, 20, 10], strict=True)]
    assert "50% of $x_1$ & ^" in outside
    assert not any(text.get_parse_math() for text in (*shown, *figure.texts, *figure.legends[0].get_texts()))
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
    page = figure.bbox
    panels = [axes.get_tightbbox() for axes in figure.axes]
    others = [artist.get_window_extent() for artist in (*figure.texts, *figure.legends)]
    for box in (*panels, *others):
        assert box.x0 >= page.x0
        assert box.y0 >= page.y0
        assert box.x1 <= page.x1
        assert box.y1 <= page.y1
    for i, box in enumerate(others):
        for other in (*panels, *others[i + 1 :]):
            assert not box.overlaps(other)
    for axes in figure.axes:
        for text in axes.texts:
            extent = text.get_window_extent()
            assert extent.width <= axes.bbox.width
            assert text.get_fontsize() >= 8
    bottom = [axes for axes in figure.axes if len(axes.get_xticks())]
    labels_of_ticks = [text.get_window_extent() for axes in bottom for text in axes.get_xticklabels()]
    for left, right in itertools.pairwise(labels_of_ticks):
        assert left.x1 <= right.x0


def test_a_figure_can_be_given():
    X, labels = three_clusters()
    figure = Figure(figsize=(5, 5))
    assert scatter_matrix(X, labels, columns=1, figure=figure) is figure
    assert len(figure.axes) == 1
    assert tuple(figure.get_size_inches()) == (5, 5)
    whole = Figure(figsize=(10, 5))
    left, right = whole.subfigures(1, 2)
    assert scatter_matrix(X, labels, figure=right) is right
    assert len(right.axes) == 4
    assert not left.axes
    whole.draw_without_rendering()
    assert all(axes.bbox.x0 > right.bbox.x0 for axes in right.axes)
    with pytest.raises(ValueError, match="too small for 2 columns and their legend: make it larger"):
        scatter_matrix(X, labels, figure=Figure(figsize=(1, 1)))


# --- libraries ----------------------------------------------------------------------------


def test_notebooks_show_a_new_figure():
    figure = scatter_matrix(np.eye(4), columns=1)
    shown = figure._repr_png_()
    assert shown.startswith(b"\x89PNG\r\n\x1a\n")
    saved = io.BytesIO()
    figure.savefig(saved, format="png")
    assert shown == saved.getvalue()


@pytest.mark.parametrize(
    ("backend", "times", "stays_open"), [("inline", 1, False), ("agg", 1, True), ("qtagg", 0, True)]
)
def test_notebooks_show_a_figure_once(monkeypatch, backend, times, stays_open):
    import matplotlib.pyplot as plt

    shown = []
    notebook = types.SimpleNamespace(display=lambda data, raw: shown.append((data, raw)))
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    monkeypatch.setattr("apolar.plots.picture.get_backend", lambda: backend)
    figure = scatter_matrix(np.eye(4), columns=1)
    assert plt.fignum_exists(figure.number)
    figure._ipython_display_()
    # Inline, what is open at the end of the cell is shown then.
    assert plt.fignum_exists(figure.number) == stays_open
    assert len(shown) == times
    assert all(raw and list(data) == ["image/png"] for data, raw in shown)
    if times:
        figure._ipython_display_()
        assert len(shown) == 2 * times


def test_notebooks_show_figures_without_pyplot_being_asked_for():
    code = """
import sys, types, numpy as np, apolar.plots
shell = types.SimpleNamespace(get_ipython=lambda: None, version_info=(9, 0))
sys.modules["IPython"] = shell
apolar.plots.convergence([1.0, 2.0])
assert "matplotlib.pyplot" not in sys.modules
events = types.SimpleNamespace(register=lambda *_: None)
shell.get_ipython = lambda: types.SimpleNamespace(events=events)
apolar.plots.convergence([1.0, 2.0])
assert sys.modules["matplotlib.pyplot"].get_fignums() == [1]
"""
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_figures_go_through_pickle():
    figure = scatter_matrix(np.eye(4), columns=1)
    again = pickle.loads(pickle.dumps(figure))
    assert again._repr_png_() == figure._repr_png_()


def test_pyplot_shows_figures_where_it_is_used_and_is_left_alone_elsewhere():
    code = """
import sys, numpy as np, apolar.plots
assert "matplotlib" not in sys.modules
apolar.plots.scatter_matrix(np.eye(4), [0, 0, 1, 1], columns=1)
mixture = apolar.datasets.example_mixture(1)
apolar.plots.spectrum(mixture)
apolar.plots.profiles(mixture)
apolar.plots.uncertainty(mixture, mixture.sample(20, 0)[0])
apolar.plots.convergence([1.0, 2.0])
assert "matplotlib.pyplot" not in sys.modules
import matplotlib.pyplot, threading
from apolar.plots.canvas import off_screen
with off_screen():
    apolar.plots.scatter_matrix(np.eye(4), columns=1)
elsewhere = threading.Thread(target=apolar.plots.convergence, args=([1.0, 2.0],))
elsewhere.start()
elsewhere.join()
assert matplotlib.pyplot.get_fignums() == []
figure = apolar.plots.scatter_matrix(np.eye(4), columns=1)
assert matplotlib.pyplot.get_fignums() == [figure.number] == [1]
assert apolar.plots.profiles(mixture).figure is matplotlib.pyplot.gcf()
"""
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        ImportError, match=re.escape('Pictures need matplotlib: pip install "apolar[plots]".')
    ):
        scatter_matrix([[1.0]])
