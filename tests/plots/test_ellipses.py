"""Ellipses of the components of a model."""

import numpy as np
import pytest

import apolar
from apolar.plots import scatter_matrix
from apolar.plots.chart import COLOURS, GREY
from apolar.plots.mixtures import MixtureView
from mixtures import FAMILY_NAMES
from plots.reading import ellipses, panel, texts, three_clusters


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
    figure = scatter_matrix(X, model=model)
    counts = np.bincount(model.predict(X))
    assert texts(figure)[0] == [f"cluster {k + 1} ({count})" for k, count in enumerate(counts)]
    # Labels of text say nothing on components.
    figure = scatter_matrix(X, predicted=labels.astype(str), model=model)
    assert set(ellipses(panel(figure, 1, 0))[1]) == {GREY.lower()}
