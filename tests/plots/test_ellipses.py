"""Ellipses of the components of a model."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import apolar
from apolar.plots import palette, scatter_matrix
from apolar.plots.ellipses import draw_ellipses, marginal_components
from mixtures import FAMILY_NAMES
from plots.reading import colour_by_point, ellipses, panel, texts, three_clusters


def test_ellipses_of_a_spherical_mixture():
    mixture = apolar.datasets.example_mixture(1)
    X, labels = mixture.sample(500, 0)
    figure = scatter_matrix(X, labels, model=mixture, columns=[2, 5])
    drawn = ellipses(panel(figure, 1, 0))
    assert not ellipses(panel(figure, 0, 1))
    np.testing.assert_allclose([ellipse.center for ellipse in drawn], mixture.means[:, [2, 5]])
    np.testing.assert_allclose([ellipse.width for ellipse in drawn], 4 * np.sqrt(mixture.variances))
    np.testing.assert_allclose([ellipse.height for ellipse in drawn], 4 * np.sqrt(mixture.variances))
    # The found clusters are those of the components, and the components those of the classes.
    assert [to_hex(ellipse.get_edgecolor()) for ellipse in drawn] == [
        colour.lower() for colour in palette.COLOURS[:4]
    ]
    assert "86%" in texts(figure)[1]
    assert "below: found" in texts(figure)[1]


def test_the_ellipse_of_a_full_covariance_is_turned():
    X, _ = three_clusters(120, m=3)
    rng = np.random.default_rng(1)
    X = X @ rng.normal(size=(3, 3))
    model = apolar.GaussianMixture(2, covariance_type="full", random_state=0).fit(X)
    axes = Figure().add_subplot()
    draw_ellipses(axes, marginal_components(model, [0, 1, 2], 3), (1, 2), ["black", "red"])
    assert [to_hex(ellipse.get_edgecolor()) for ellipse in ellipses(axes)] == ["#000000", "#ff0000"]
    for ellipse, mean, covariance in zip(ellipses(axes), model.means_, model.covariances_, strict=True):
        values, vectors = np.linalg.eigh(covariance[1:, 1:])
        np.testing.assert_allclose(ellipse.center, mean[1:])
        np.testing.assert_allclose([ellipse.height, ellipse.width], 4 * np.sqrt(values))
        angle = np.deg2rad(ellipse.angle)
        np.testing.assert_allclose(abs(vectors[:, 1] @ [np.cos(angle), np.sin(angle)]), 1)
        # A point of the outline is two standard deviations from the mean.
        outline = ellipse.get_patch_transform().transform(ellipse.get_path().vertices[:-1:3])
        centred = outline - mean[1:]
        distances = np.einsum("ij,jk,ik->i", centred, np.linalg.inv(covariance[1:, 1:]), centred)
        np.testing.assert_allclose(distances, 4, rtol=1e-3)  # matplotlib's ellipse is made of splines


@pytest.mark.parametrize("kind", FAMILY_NAMES)
def test_ellipses_of_every_family(kind):
    X, _ = three_clusters(m=3)
    model = apolar.GaussianMixture(3, covariance_type=kind, random_state=0).fit(X * [1, 2, 3])
    axes = Figure().add_subplot()
    draw_ellipses(axes, marginal_components(model, [0, 2], 3), (0, 1), ["black"] * 3)
    drawn = ellipses(axes)
    np.testing.assert_allclose([ellipse.center for ellipse in drawn], model.means_[:, [0, 2]])
    matrices = apolar.mixture.families.family(kind).matrices(np.asarray(model.covariances_), 3, 3)
    expected = [16 * np.linalg.det(matrix[np.ix_([0, 2], [0, 2])]) ** 0.5 for matrix in matrices]
    np.testing.assert_allclose([ellipse.width * ellipse.height for ellipse in drawn], expected)


@pytest.mark.parametrize("kind", ["full", "tied_spherical"])
def test_each_ellipse_has_the_colour_of_the_points_around_it(kind):
    X, labels = three_clusters(m=3)
    model = apolar.GaussianMixture(3, covariance_type=kind, random_state=0).fit(X)
    figure = scatter_matrix(X, labels, model=model, columns=[0, 2])
    below, drawn = colour_by_point(panel(figure, 1, 0)), ellipses(panel(figure, 1, 0))
    assert len(drawn) == 3
    for ellipse in drawn:
        nearest = min(below, key=lambda point, centre=ellipse.center: np.hypot(*np.subtract(point, centre)))
        assert to_hex(ellipse.get_edgecolor()) == below[nearest]


def test_a_model_alone_gives_the_found_clusters():
    X, labels = three_clusters()
    model = apolar.GaussianMixture(3, random_state=0).fit(X)
    figure = scatter_matrix(X, model=model)
    counts = np.bincount(model.predict(X))
    assert texts(figure)[0] == [f"cluster {k + 1} ({count})" for k, count in enumerate(counts)]
    # Labels of texts say nothing on components.
    figure = scatter_matrix(X, predicted=labels.astype(str), model=model)
    colours = {to_hex(ellipse.get_edgecolor()) for ellipse in ellipses(panel(figure, 1, 0))}
    assert colours == {palette.GREY.lower()}
