"""Uncertain rows, read back from the axes."""

import functools

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgb
from matplotlib.markers import MarkerStyle

import apolar
from apolar.plots import uncertainty
from apolar.plots.chart import COLOURS, WRONG
from plots.reading import blank, check_texts, legend, note, three_clusters, with_noise


@functools.cache
def overlapping():
    """Return rows of three clusters that overlap, and a mixture."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [150, 100, 50])
    X = rng.normal(size=(300, 4)) * [1, 10, 1, 1] + 2.5 * labels[:, None] * [1, 0, 0, 1]
    return X, labels, apolar.GaussianMixture(3, covariance_type="tied_diag", random_state=0).fit(X)


def drawn(axes):
    """Return the points, their areas and their colours, in the order of the first coordinate."""
    points = np.concatenate([part.get_offsets() for part in axes.collections])
    areas = np.concatenate([part.get_sizes() for part in axes.collections])
    colours = np.concatenate(
        [np.repeat(part.get_facecolors(), len(part.get_offsets()), axis=0) for part in axes.collections]
    )
    order = np.lexsort(points.T)
    return points[order], areas[order], colours[order]


def doubts(X, model):
    return 1 - model.predict_proba(X).max(axis=1)


def test_points_are_larger_the_more_uncertain_they_are_and_have_the_colours_of_their_clusters():
    X, _, model = overlapping()
    axes = uncertainty(model, X, columns=[1, 2])
    points, areas, colours = drawn(axes)
    order = np.lexsort(X[:, [1, 2]].T)
    np.testing.assert_array_equal(points, X[order][:, [1, 2]])
    doubt = doubts(X, model)[order]
    np.testing.assert_allclose(areas / areas.min(), (1 + 7.5 * doubt) / (1 + 7.5 * doubt.min()))
    expected = [to_rgb(COLOURS[number]) for number in model.predict(X)[order]]
    np.testing.assert_allclose(colours[:, :3], expected)
    above, half = np.count_nonzero(doubt > 0.1), np.count_nonzero(doubt > 0.5)
    assert note(axes) == f"Uncertainty above 0.1: {above} of 300 rows; above 0.5: {half}."
    assert axes.get_title() == "Where the cluster of a row is uncertain"
    assert f"in doubt ({above})" in legend(axes)
    check_texts(axes)


def test_the_columns_are_those_in_which_means_differ_most():
    X, _, model = overlapping()
    axes = uncertainty(model, X, ax=blank())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("column 0", "column 3")
    # Rows in doubt have a rim and lie on top.
    doubt = dict(zip(map(tuple, X[:, [0, 3]].tolist()), doubts(X, model), strict=True))
    is_above = []
    for part in axes.collections:
        doubts_of_part = [doubt[tuple(point)] for point in part.get_offsets().tolist()]
        assert doubts_of_part == sorted(doubts_of_part)
        is_above.append(doubts_of_part[0] > 0.1)
        assert is_above[-1] == (doubts_of_part[-1] > 0.1) == (part.get_linewidths()[0] > 0)
    assert is_above == sorted(is_above)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = apolar.GaussianMixture(3, covariance_type="tied_diag", random_state=0).fit(frame)
    axes = uncertainty(model, frame, columns=["c", "b"], ax=blank())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("c", "b")


def test_principal_axes():
    X, _, model = overlapping()
    axes = uncertainty(model, X, columns="pca", ax=blank())
    points, _, _ = drawn(axes)
    offsets = model.means_ - model.weights_ @ model.means_
    covariance = np.diag(model.covariances_) + (model.weights_ * offsets.T) @ offsets
    variances, directions = np.linalg.eigh(covariance)
    expected = (X - model.weights_ @ model.means_) @ directions[:, :-3:-1]
    # Up to the directions of the axes: the largest entry of each is positive.
    expected *= np.sign(directions[np.abs(directions).argmax(axis=0), range(4)])[:-3:-1]
    np.testing.assert_allclose(points, expected[np.lexsort(expected.T)])
    share = float(axes.get_xlabel().removeprefix("principal axis 1 (").removesuffix("% of the variance)"))
    assert abs(share / 100 - variances[-1] / variances.sum()) <= 0.005


def test_wrong_rows_have_a_marker_of_their_own():
    X, labels, model = overlapping()
    names = np.array(["$a$", "b", "c"])[labels]
    axes = uncertainty(model, X, columns=[0, 3], labels=names)
    cross = MarkerStyle(WRONG)
    shape = cross.get_path().transformed(cross.get_transform()).vertices
    wrong = [part for part in axes.collections if np.array_equal(part.get_paths()[0].vertices, shape)]
    n_wrong = round(300 * apolar.scores.error_rate(labels, model.predict(X)))
    assert sum(len(part.get_offsets()) for part in wrong) == n_wrong > 0
    matched = next(words for words in legend(axes) if ": $a$ (" in words)
    assert matched.startswith(f"cluster {np.bincount(model.predict(X)[labels == 0]).argmax() + 1}: $a$ (")
    assert f"in a wrong cluster ({n_wrong})" in legend(axes)
    assert sum(len(part.get_offsets()) for part in axes.collections) == 300
    check_texts(axes)


def test_certain_noise_is_not_in_doubt():
    model, X, _ = with_noise()
    axes = uncertainty(model, X, columns=[0, 1], ax=blank())
    predicted, probabilities = model.predict(X), model.predict_proba(X)
    of_all = np.column_stack([probabilities, 1 - probabilities.sum(axis=1)])
    n_doubtful = int(np.sum(1 - of_all.max(axis=1) > 0.1))
    assert n_doubtful < np.sum(predicted == -1)
    assert f"Uncertainty above 0.1: {n_doubtful} of 195 rows" in note(axes)
    assert f"noise ({np.sum(predicted == -1)})" in legend(axes)
    assert "noise" in {part.get_gid() for part in axes.collections}


def test_two_clusters_and_one():
    X, _ = three_clusters()
    axes = uncertainty(apolar.GaussianMixture(2, random_state=0).fit(X), X, ax=blank())
    assert note(axes).endswith("With two clusters it is at most 0.5.")
    axes = uncertainty(apolar.GaussianMixture(1).fit(X[:, :1]), X[:, :1], columns="pca")
    assert note(axes) == "There is one cluster: nothing is uncertain."
    check_texts(axes)


def test_of_many_rows_the_most_uncertain_are_shown():
    mixture = apolar.datasets.example_mixture(2)
    X, _ = mixture.sample(5000, 0)
    axes = uncertainty(mixture, X, columns=[0], max_points=1500, ax=blank())
    points, _, _ = drawn(axes)
    assert len(points) == 1500
    everything = uncertainty(mixture, X, columns=[0], max_points=5000, ax=blank())
    doubt = np.sort(drawn(everything)[0][:, 1])[::-1]
    n_kept = min(np.count_nonzero(doubt > 0.1), 750)
    assert n_kept > 30
    np.testing.assert_array_equal(np.sort(points[:, 1])[::-1][:n_kept], doubt[:n_kept])
    assert "Shown: 1,500 of 5,000 rows, the most uncertain among them." in note(axes)
    assert all(part.get_rasterized() for part in axes.collections)
    other = uncertainty(mixture, X, columns=[0], max_points=1500, random_state=1, ax=blank())
    assert not np.array_equal(drawn(other)[0], points)


# --- the plane that separates the clusters best ----------------------------------------------------


def test_the_names_of_directions_list_their_columns():
    iris = apolar.datasets.load_iris()
    model = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
    ax = apolar.plots.uncertainty(model, iris.data, columns="discriminant", feature_names=iris.feature_names)
    assert " ".join(ax.get_xlabel().split()) == "direction 1: mostly petal_length, petal_width"
    # Of two columns the plane is the table itself.
    two = apolar.GaussianMixture(3, random_state=0).fit(iris.data[:, 2:])
    ax = apolar.plots.uncertainty(two, iris.data[:, 2:], columns="discriminant", feature_names=["a", "b"])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "b")
