"""The matrix of scatter plots, read back from the figure."""

import io

import numpy as np
import pytest
from matplotlib.colors import to_hex

import apolar
from apolar.plots import scatter_matrix
from apolar.plots.chart import COLOURS, GREY, NOISE_STYLE
from apolar.plots.scatter import separate_ties
from apolar.plots.views import MixtureView
from mixtures import FAMILY_NAMES
from plots.reading import (
    colour_by_point,
    ellipses,
    is_wrong_marker,
    panel,
    points,
    texts,
    three_clusters,
    with_noise,
)

# --- panels and points --------------------------------------------------------------------


def test_points_are_those_of_their_columns():
    X, labels = three_clusters(m=4)
    figure = scatter_matrix(X, labels, columns=[3, 1])
    for i, row in enumerate([3, 1]):
        assert not panel(figure, i, i).collections
        offsets, _ = points(panel(figure, i, 1 - i))
        expected = X[:, [4 - row, row]]
        np.testing.assert_array_equal(offsets[np.lexsort(offsets.T)], expected[np.lexsort(expected.T)])


def test_a_column_has_the_same_limits_everywhere_and_ticks_are_outside_only():
    X, labels = three_clusters(m=3)
    figure = scatter_matrix(X * [1, 1e7, 1e-6], labels)
    figure.draw_without_rendering()
    for i, j in np.ndindex(3, 3):
        axes = panel(figure, i, j)
        assert axes.get_xlim() == panel(figure, j, j).get_xlim()
        assert axes.get_ylim() == panel(figure, i, i).get_ylim() == panel(figure, i, i).get_xlim()
        for ticks, is_outer in ((axes.get_xticklabels(), i == 2), (axes.get_yticklabels(), j == 0)):
            assert any(text.get_visible() and text.get_text() for text in ticks) == is_outer
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
    counts = ["class 0 (30, found 28)", "class 1 (20, found 22)", "class 2 (10, found 10)"]
    assert texts(figure)[0] == [*counts, "in a wrong cluster (2)"]


def test_names_of_classes_and_of_clusters_without_one():
    X, labels = three_clusters()
    names = ["setosa", "versicolor", "virginica"]
    for named in (names, dict(enumerate(names))):
        assert [text.split()[0] for text in texts(scatter_matrix(X, labels, class_names=named))[0]] == names
    figure = scatter_matrix(X, labels, np.where(np.arange(len(labels)) < 5, 3, labels))
    assert texts(figure)[0][3:] == ["extra cluster 3 (found 5)", "in a wrong cluster (5)"]
    # Labels of minus and plus one are classes: the first is no noise.
    assert texts(scatter_matrix(X[:3], [-1, 1, -1]))[0] == ["class -1 (2)", "class 1 (1)"]


def test_one_kind_of_labels_colours_both_triangles_and_none_leaves_all_grey():
    X, labels = three_clusters()
    for figure, name, caption in (
        (scatter_matrix(X, labels), "class 0", "Colours: true clusters."),
        (scatter_matrix(X, predicted=labels), "cluster 1", "Colours: found clusters."),
    ):
        above, below = colour_by_point(panel(figure, 0, 1)), colour_by_point(panel(figure, 1, 0))
        assert above == {(y, x): colour for (x, y), colour in below.items()}
        assert texts(figure)[0][0] == f"{name} (30)"
        assert caption in texts(figure)[1]
    figure = scatter_matrix(X)
    assert set(colour_by_point(panel(figure, 0, 1)).values()) == {GREY.lower()}
    assert texts(figure) == ([], "60 rows.")


def test_noise_is_grey_and_below_all():
    model, X, labels = with_noise()
    figure = scatter_matrix(X, labels, model=model)
    axes, predicted = panel(figure, 1, 0), model.predict(X)
    grey, colours = NOISE_STYLE["color"].lower(), colour_by_point(axes)
    assert [colours[tuple(row[:2])] == grey for row in X] == (predicted == -1).tolist()
    first, second = axes.collections[:2]
    assert len(first.get_offsets()) == np.sum(predicted == -1)
    assert first.get_sizes()[0] < second.get_sizes()[0]
    assert f"noise (15, found {np.sum(predicted == -1)})" in texts(figure)[0]
    view = MixtureView.of(model)
    np.testing.assert_allclose(view.mean, X[labels >= 0].mean(axis=0), atol=0.6)
    assert view.weights.sum() < view.shares.sum() == pytest.approx(1)


# --- ellipses of components ---------------------------------------------------------------


def test_ellipses_of_a_spherical_mixture():
    mixture = apolar.datasets.example_mixture(1)
    X, labels = mixture.sample(500, 0)
    figure = scatter_matrix(X, labels, model=mixture, columns=[2, 5])
    drawn, colours = ellipses(panel(figure, 1, 0))
    assert not len(ellipses(panel(figure, 0, 1))[0])
    distances = np.linalg.norm(drawn - mixture.means[:, None, [2, 5]], axis=2)
    np.testing.assert_allclose(distances, 2 * np.sqrt(mixture.variances)[:, None] * np.ones(drawn.shape[1]))
    # The found clusters are those of the components, and the components those of the classes.
    assert colours == [colour.lower() for colour in COLOURS[:4]]
    assert "86%" in texts(figure)[1]
    assert "below: found" in texts(figure)[1]


@pytest.mark.parametrize("kind", FAMILY_NAMES)
def test_outlines_of_every_family_are_two_standard_deviations_from_the_mean(kind):
    X, _ = three_clusters(m=3)
    rotated = X * [1, 2, 3] @ np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    model = apolar.GaussianMixture(3, covariance_type=kind, random_state=0).fit(rotated)
    outlines = MixtureView.of(model).outlines((2, 0))
    matrices = apolar.mixture.families.family(kind).matrices(np.asarray(model.covariances_), 3, 3)
    for outline, mean, matrix in zip(outlines, model.means_, matrices, strict=True):
        centred = outline - mean[[2, 0]]
        inverse = np.linalg.inv(matrix[np.ix_([2, 0], [2, 0])])
        np.testing.assert_allclose(np.einsum("ij,jk,ik->i", centred, inverse, centred), 4)
        # All around.
        assert np.linalg.norm(centred[:-1].mean(axis=0)) < 1e-9 * np.abs(centred).max()


def test_a_model_alone_gives_the_found_clusters():
    X, labels = three_clusters()
    model = apolar.GaussianMixture(3, random_state=0).fit(X)
    counts = np.bincount(model.predict(X))
    shown = texts(scatter_matrix(X, model=model))[0]
    assert shown == [f"cluster {k + 1} ({count})" for k, count in enumerate(counts)]
    # Labels of text say nothing on components.
    figure = scatter_matrix(X, predicted=labels.astype(str), model=model)
    assert set(ellipses(panel(figure, 1, 0))[1]) == {GREY.lower()}


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
    assert "Shown: 500 of 5,214 rows" in texts(figure)[1]
    assert texts(figure)[0] == ["large (5000)", "small (200)", "tiny (14)"]
    # What is farthest out is among them.
    assert (-50.0, 50.0) in colour_by_point(panel(figure, 0, 1))
    again = scatter_matrix(X, labels, max_points=500, random_state=np.random.default_rng(2))
    assert colour_by_point(panel(again, 0, 1)) != colour_by_point(panel(figure, 0, 1))


def test_equal_rows_of_few_integers_are_shown_apart():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(1, 6, 200), rng.normal(size=200)])
    apart, has_moved = separate_ties(X)
    assert has_moved
    assert len(np.unique(apart[:, 0])) == 200
    np.testing.assert_array_equal(np.round(apart[:, 0]), X[:, 0])
    np.testing.assert_array_equal(apart[:, 1], X[:, 1])
    assert not separate_ties(X[:, 1:])[1]
