"""The matrix of scatter plots, read back from the figure."""

import io

import numpy as np
import pytest
from matplotlib.colors import to_hex

from apolar.plots import scatter_matrix
from apolar.plots.chart import COLOURS, GREY
from plots.reading import colour_by_point, is_wrong_marker, panel, points, texts, three_clusters

# --- panels and points --------------------------------------------------------------------


def test_points_are_those_of_their_columns():
    X, labels = three_clusters(m=4)
    figure = scatter_matrix(X, labels, columns=[3, 1])
    for i, row in enumerate([3, 1]):
        for j, column in enumerate([3, 1]):
            axes = panel(figure, i, j)
            if i == j:
                assert not axes.collections
                continue
            offsets, _ = points(axes)
            expected = X[:, [column, row]]
            np.testing.assert_array_equal(offsets[np.lexsort(offsets.T)], expected[np.lexsort(expected.T)])


def test_a_column_has_the_same_limits_everywhere_and_ticks_are_outside_only():
    X, labels = three_clusters(m=3)
    figure = scatter_matrix(X * [1, 1e7, 1e-6], labels)
    for i in range(3):
        for j in range(3):
            axes = panel(figure, i, j)
            assert axes.get_xlim() == panel(figure, j, j).get_xlim()
            assert axes.get_ylim() == panel(figure, i, i).get_ylim() == panel(figure, i, i).get_xlim()
            figure.draw_without_rendering()
            for labels_of_ticks, is_outer in (
                (axes.get_xticklabels(), i == 2),
                (axes.get_yticklabels(), j == 0),
            ):
                assert any(text.get_visible() and text.get_text() for text in labels_of_ticks) == is_outer
    assert "1e8" in {text.get_text() for text in panel(figure, 2, 1).get_xticklabels()}


@pytest.mark.parametrize(
    ("X", "labels"),
    [(np.c_[np.arange(5.0), np.full(5, 3.0)], None), (np.zeros((5, 1)), None), ([[1.0, 2.0]], ["a"])],
)
def test_a_constant_column_and_a_single_row_can_be_shown(X, labels):
    scatter_matrix(X, labels).savefig(io.BytesIO(), dpi=50)


# --- colours ------------------------------------------------------------------------------


def test_a_cluster_has_the_colour_of_its_class_whatever_its_number():
    X, labels = three_clusters()
    figure = scatter_matrix(X, labels, np.array(["z", "x", "y"])[labels])
    above = colour_by_point(panel(figure, 0, 1))
    below = {(y, x): colour for (x, y), colour in colour_by_point(panel(figure, 1, 0)).items()}
    assert above == below
    assert len(set(above.values())) == 3
    assert texts(figure)[0] == ["class 0 (30, found 30)", "class 1 (20, found 20)", "class 2 (10, found 10)"]


def test_wrong_rows_have_their_own_marker_below_only():
    X, labels = three_clusters()
    predicted = (labels + 1) % 3
    predicted[:2] = 2
    figure = scatter_matrix(X, labels, predicted)
    assert not any(is_wrong_marker(part) for part in panel(figure, 0, 1).collections)
    (wrong,) = [part for part in panel(figure, 1, 0).collections if is_wrong_marker(part)]
    np.testing.assert_array_equal(wrong.get_offsets(), X[:2, :2])
    # The cluster numbered 2 is that of class 1.
    assert to_hex(wrong.get_facecolor()[0]) == COLOURS[1].lower()
    assert texts(figure)[0] == [
        "class 0 (30, found 28)",
        "class 1 (20, found 22)",
        "class 2 (10, found 10)",
        "in a wrong cluster (2)",
    ]


def test_clusters_without_a_class_have_colours_of_their_own():
    X, labels = three_clusters()
    predicted = labels.copy()
    predicted[:5] = 3
    figure = scatter_matrix(X, labels, predicted)
    assert texts(figure)[0][3:] == ["extra cluster 3 (found 5)", "in a wrong cluster (5)"]
    (wrong,) = [part for part in panel(figure, 1, 0).collections if is_wrong_marker(part)]
    assert to_hex(wrong.get_facecolor()[0]) == COLOURS[3].lower()
    # Fewer clusters than classes.
    assert texts(scatter_matrix(X, labels, np.minimum(labels, 1)))[0][2] == "class 2 (10, found 0)"


def test_one_kind_of_labels_colours_both_triangles():
    X, labels = three_clusters()
    for figure, name, caption in (
        (scatter_matrix(X, labels), "class 0", "Colours: true clusters."),
        (scatter_matrix(X, predicted=labels), "cluster 1", "Colours: found clusters."),
    ):
        above, below = colour_by_point(panel(figure, 0, 1)), colour_by_point(panel(figure, 1, 0))
        assert above == {(y, x): colour for (x, y), colour in below.items()}
        assert texts(figure)[0][0] == f"{name} (30)"
        assert caption in texts(figure)[1]


def test_without_labels_all_is_grey():
    X, _ = three_clusters()
    figure = scatter_matrix(X)
    assert set(colour_by_point(panel(figure, 0, 1)).values()) == {GREY.lower()}
    assert texts(figure) == ([], "60 rows.")


# --- many rows ----------------------------------------------------------------------------


def test_few_of_many_rows_are_shown_and_small_clusters_stay():
    rng = np.random.default_rng(0)
    labels = np.repeat(["large", "small", "tiny"], [5000, 200, 14])
    X = rng.normal(size=(len(labels), 2))
    X[4321] = [50, -50]
    figure = scatter_matrix(X, labels, max_points=500)
    sizes = sorted(len(part.get_offsets()) for part in panel(figure, 0, 1).collections)
    assert sum(sizes) == 500
    assert sizes[0] == 14
    assert 50 <= sizes[1] < 100
    assert "Shown: 500 of 5214 rows" in texts(figure)[1]
    assert texts(figure)[0] == ["large (5000)", "small (200)", "tiny (14)"]
    # What is farthest out is among them.
    assert (-50.0, 50.0) in colour_by_point(panel(figure, 0, 1))
    again = scatter_matrix(X, labels, max_points=500, random_state=np.random.default_rng(2))
    assert colour_by_point(panel(again, 0, 1)) != colour_by_point(panel(figure, 0, 1))


def test_many_points_are_drawn_as_an_image():
    X, labels = three_clusters(1200)
    assert all(part.get_rasterized() for part in panel(scatter_matrix(X, labels), 0, 1).collections)
    figure = scatter_matrix(X, labels, max_points=1000)
    assert not any(part.get_rasterized() for part in panel(figure, 0, 1).collections)


def test_the_same_call_gives_the_same_bytes():
    X, labels = three_clusters(600)
    pictures = []
    for _ in range(2):
        pictures.append(io.BytesIO())
        scatter_matrix(X, labels, max_points=300).savefig(pictures[-1], format="png", dpi=50)
    assert pictures[0].getvalue() == pictures[1].getvalue()


# --- errors -------------------------------------------------------------------------------
