"""The paper's figures: panels, points, legend, files."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import PathCollection

from apolar.paper import figures
from apolar.paper.figures import drawn
from apolar.paper.tasks import task_of
from apolar.plots.canvas import file_bytes


@pytest.fixture(scope="module")
def figure1():
    return drawn("figure1")


def panels(figure):
    """The axes of a square matrix of panels, by row and column."""
    width = round(len(figure.axes) ** 0.5)
    assert width**2 == len(figure.axes)
    corners = [axes.get_position() for axes in figure.axes]
    order = np.lexsort(
        [[round(corner.x0, 3) for corner in corners], [-round(corner.y0, 3) for corner in corners]]
    )
    return np.array(figure.axes, dtype=object)[order].reshape(width, width)


def points(axes):
    return np.concatenate(
        [np.asarray(c.get_offsets()) for c in axes.collections if isinstance(c, PathCollection)]
        or [np.empty((0, 2))]
    )


def strings_of(figure):
    strings = [text.get_text() for text in figure.texts]
    for legend in figure.legends:
        strings += [text.get_text() for text in legend.get_texts()]
    return strings


def test_figure_1_has_the_first_four_columns_and_all_rows(figure1):
    task = task_of("table1", 0)
    grid = panels(figure1)
    assert grid.shape == (4, 4)
    for row in range(4):
        for column in range(4):
            if row == column:
                assert len(points(grid[row, column])) == 0
                continue
            shown = points(grid[row, column])
            assert len(shown) == 1000
            expected = task.X[:, [column, row]]
            np.testing.assert_allclose(
                shown[np.lexsort(shown.T)], expected[np.lexsort(expected.T)], rtol=1e-12
            )


def test_figure_1_says_what_it_shows(figure1):
    strings = strings_of(figure1)
    counts = np.bincount(task_of("table1", 0).labels)
    for label, count in enumerate(counts):
        assert any(text.startswith(f"class {label} ({count}") for text in strings), strings
    assert any("Above the diagonal: true clusters; below: found" in text for text in strings)
    assert any("Figure 1: Example 1" in text for text in [*strings, figure1.get_suptitle()])


def test_figure_2_and_3_have_as_many_panels_as_the_paper(monkeypatch):
    assert panels(drawn("figure2")).shape == (4, 4)
    whole = task_of("table10", 0)
    few = replace(whole, X=whole.X[::20], labels=whole.labels[::20])
    monkeypatch.setattr(figures, "task_of", lambda label, seed: few)
    figure = drawn("figure3")
    assert panels(figure).shape == (5, 5)
    assert len(points(panels(figure)[0, 1])) == len(few.X)
    assert any(text.startswith("0 (") for text in strings_of(figure))


def test_files_are_the_same_every_time(figure1):
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        content = file_bytes(figure1, kind, 50)
        assert content.startswith(start)
        assert content == file_bytes(figure1, kind, 50)
        assert len(content) < 2_000_000
