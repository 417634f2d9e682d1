"""Means and deviations of clusters, read back from the axes."""

import numpy as np
import pandas as pd
import pytest

import apolar
from apolar.plots import profiles
from plots.reading import FAMILIES, HOSTILE, blank, check_texts, fitted, legend, lines, note, three_clusters


def marks(axes):
    """Return means and deviations, shape (n_components, n_columns), and the places of the marks."""
    named = lines(axes)
    means, deviations, places = [], [], []
    for k in range(sum(name.startswith("cluster-") for name in named)):
        line, bars = named[f"cluster-{k + 1}"], named[f"bars-{k + 1}"].get_ydata().reshape(-1, 3)
        means.append(line.get_ydata())
        places.append(line.get_xdata())
        np.testing.assert_allclose(bars[:, :2].mean(axis=1), means[-1], atol=1e-12)
        deviations.append((bars[:, 1] - bars[:, 0]) / 2)
    return np.array(means), np.array(deviations), np.array(places)


def columns(axes):
    return [text.get_text() for text in axes.get_xticklabels()]


@pytest.mark.parametrize("kind", FAMILIES)
def test_means_and_deviations_of_every_family(kind):
    model = fitted(kind)
    axes = profiles(model, standardise=False, ax=blank())
    means, deviations, places = marks(axes)
    np.testing.assert_array_equal(means, model.means_)
    matrices = apolar.mixture.families.family(kind).matrices(np.asarray(model.covariances_), 3, 4)
    within = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    np.testing.assert_allclose(deviations, within)
    np.testing.assert_array_equal(places.round(), np.tile(np.arange(4), (3, 1)))
    # Bars of different clusters are side by side.
    assert len(np.unique(places)) == 12
    assert axes.get_ylabel() == "mean, in units of the column"
    standard, deviations, _ = marks(profiles(model, ax=blank()))
    scale = (model.means_[0] - model.means_[1]) / within[0]
    np.testing.assert_allclose((standard[0] - standard[1]) / deviations[0], scale)


def test_standard_deviations_from_the_mean_of_the_mixture():
    model = fitted("full")
    axes = profiles(model)
    means, deviations, _ = marks(axes)
    weights = model.weights_
    np.testing.assert_allclose(weights @ means, 0, atol=1e-12)
    # All that a mixture spreads, between means and within components, is one.
    np.testing.assert_allclose(weights @ (means**2 + deviations**2), 1)
    assert axes.get_ylabel() == "standard deviations from the mean"
    assert legend(axes) == [f"cluster {k + 1} (weight {weight:.2f})" for k, weight in enumerate(weights)]
    assert "Bars: one standard deviation within the cluster" in note(axes)
    assert "Shown" not in note(axes)
    shown = lines(axes)
    drawn = [shown[f"cluster-{k}"] for k in (1, 2, 3)]
    for read in ("get_color", "get_marker", "get_linestyle"):
        assert len({getattr(line, read)() for line in drawn}) == 3
    check_texts(axes)


def test_names_of_columns_and_clusters():
    X, _ = three_clusters(m=2)
    model = apolar.GaussianMixture(2, random_state=0).fit(pd.DataFrame(X, columns=["a", "b"]))
    assert columns(profiles(model, ax=blank())) == ["a", "b"]
    axes = profiles(model, feature_names=["one", 2], class_names=["cluster 1", "$x$"], ax=blank())
    assert columns(axes) == ["one", "2"]
    assert [words.partition(" (")[0] for words in legend(axes)] == ["cluster 1", "$x$"]
    axes = profiles(fitted(), feature_names=HOSTILE)
    shown = ["$x$", "<script>alert(1)</scrip\N{HORIZONTAL ELLIPSIS}", "_hidden", "$\\frac{"]
    assert columns(axes) == shown
    check_texts(axes)
    assert columns(profiles(fitted(), ax=blank()))[3] == "column 3"


def test_of_many_columns_those_are_shown_in_which_means_differ_most():
    rng = np.random.default_rng(0)
    means = 0.1 * rng.normal(size=(3, 100))
    # The second counts more: a mean that differs as much, in a column of less spread.
    means[0, [70, 20, 5]] += 30
    mixture = apolar.SphericalMixture([0.5, 0.3, 0.2], means, [1.0, 2.0, 1.0])
    names = [f"a column with a long name {i}" for i in range(100)]
    axes = profiles(mixture, max_columns=3, feature_names=names, ax=blank())
    drawn, _, _ = marks(axes)
    assert drawn.shape == (3, 3)
    assert np.all(drawn[0] > 0.9)
    assert note(axes).endswith("Shown: 3 of 100 columns, those in which the means differ most.")
    raw, _, _ = marks(profiles(mixture, max_columns=3, standardise=False, ax=blank()))
    np.testing.assert_array_equal(raw, means[:, [5, 20, 70]])
    assert marks(profiles(mixture, ax=blank()))[0].shape == (3, 40)
