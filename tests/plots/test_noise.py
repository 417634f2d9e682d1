"""Noise in pictures: small grey dots of no cluster."""

import numpy as np
import pytest
from matplotlib.text import Text

import apolar
from apolar.plots import scatter_matrix, uncertainty
from apolar.plots.chart import NOISE_STYLE
from apolar.plots.clusters import numbered_clusters
from apolar.plots.mixtures import MixtureView
from plots.reading import colour_by_point, panel, texts, three_clusters


@pytest.fixture(scope="module")
def fit():
    X, labels = three_clusters(n=180, m=3)
    rng = np.random.default_rng(1)
    X = np.vstack([X, rng.uniform(X.min(axis=0) - 5, X.max(axis=0) + 5, (15, 3))])
    model = apolar.GaussianMixture(3, covariance_type="spherical", noise=True, random_state=0).fit(X)
    return model, X, np.append(labels, np.full(15, -1))


def test_rows_of_noise_are_in_no_cluster():
    labels = np.array([0, 0, 1, 1, 1, -1])
    predicted = np.array([1, 1, 0, 0, -1, 0])
    clusters = numbered_clusters(labels, predicted, None, 6)
    np.testing.assert_array_equal(clusters.true, labels)
    np.testing.assert_array_equal(clusters.found, [0, 0, 1, 1, -1, 1])
    # A row that is called noise is in no wrong cluster; noise that is called a cluster is.
    np.testing.assert_array_equal(clusters.wrong, [False] * 5 + [True])
    assert clusters.names == ["class 0", "class 1"]
    assert clusters.legend()[-2][0] == "noise (1, found 1)"
    assert numbered_clusters(None, predicted, {0: "a", 1: "b"}, 6).names == ["a", "b"]


def test_labels_of_minus_and_plus_one_are_classes():
    clusters = numbered_clusters(np.array([-1, 1, -1]), None, None, 3)
    assert clusters.names == ["class -1", "class 1"]
    assert [words for words, _ in clusters.legend()] == ["class -1 (2)", "class 1 (1)"]


def test_noise_is_grey_and_below_all(fit):
    model, X, labels = fit
    figure = scatter_matrix(X, model=model)
    axes = panel(figure, 1, 0)
    colours = colour_by_point(axes)
    predicted = model.predict(X)
    for row, label in zip(X, predicted, strict=True):
        is_grey = colours[tuple(row[[0, 1]])] == NOISE_STYLE[0].lower()
        assert is_grey == (label == -1)
    first, second = axes.collections[:2]
    assert len(first.get_offsets()) == np.sum(predicted == -1)
    assert first.get_sizes()[0] < second.get_sizes()[0]
    assert f"noise ({np.sum(predicted == -1)})" in texts(figure)[0]
    both = scatter_matrix(X, labels, model=model)
    assert f"noise (15, found {np.sum(predicted == -1)})" in texts(both)[0]


def test_certain_noise_is_not_in_doubt(fit):
    model, X, _ = fit
    axes = uncertainty(model, X, columns=[0, 1])
    predicted, probabilities = model.predict(X), model.predict_proba(X)
    of_all = np.column_stack([probabilities, 1 - probabilities.sum(axis=1)])
    n_doubtful = int(np.sum(1 - of_all.max(axis=1) > 0.1))
    assert n_doubtful < np.sum(predicted == -1)
    found = " ".join(text.get_text().replace("\n", " ") for text in axes.figure.findobj(Text))
    assert f"Uncertainty above 0.1: {n_doubtful} of 195 rows" in found
    assert f"noise ({np.sum(predicted == -1)})" in found
    assert "noise" in {part.get_gid() for part in axes.collections}


def test_the_mean_of_a_mixture_is_that_of_its_components(fit):
    model, X, labels = fit
    view = MixtureView.of(model)
    np.testing.assert_allclose(view.mean, X[labels >= 0].mean(axis=0), atol=0.6)
    assert view.weights.sum() < 1
    assert view.shares.sum() == pytest.approx(1)
