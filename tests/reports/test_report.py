"""`apolar.report`: a page from Python."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture as Theirs

import apolar


@pytest.fixture(scope="module")
def flowers():
    iris = apolar.datasets.load_iris()
    frame = pd.DataFrame(iris.data, columns=iris.feature_names)
    return frame, np.array(iris.target_names)[iris.target]


@pytest.fixture(scope="module")
def model(flowers):
    return apolar.GaussianMixture(3, random_state=0).fit(flowers[0])


def test_a_page_is_written_from_a_dataframe(flowers, model, tmp_path):
    frame, labels = flowers
    path = apolar.report(model, frame, tmp_path / "iris.html", labels=labels, title="My <flowers>")
    assert path == tmp_path / "iris.html"
    page = path.read_text(encoding="utf-8")
    assert "<h1>My &lt;flowers&gt;</h1>" in page
    assert "3 clusters in 150 rows" in page
    assert "petal_length" in page
    assert (
        f"adjusted Rand index {apolar.scores.adjusted_rand_index(labels, model.predict(frame)):.3f}" in page
    )
    assert "From Python" in page
    assert "apolar.report(model, X, " in page
    assert f"{model.bic(frame):.2f} (lower is better)" in page
    # No words of the command line.
    assert " --" not in page.partition("</style>")[2]
    assert [file.name for file in tmp_path.iterdir()] == ["iris.html"]


def test_the_model_is_left_as_it_was_and_pyplot_keeps_nothing(flowers, tmp_path):
    import matplotlib.pyplot as plt

    rows, figures = flowers[0].to_numpy(), plt.get_fignums()
    model = apolar.GaussianMixture(2, covariance_type="diag", random_state=0).fit(rows)
    before = dict(vars(model))
    apolar.report(model, rows, tmp_path / "a.html", feature_names=list("abcd"))
    assert vars(model).keys() == before.keys()
    assert not hasattr(model, "feature_names_in_")
    assert plt.get_fignums() == figures


@pytest.fixture
def two_clusters():
    """Return a mixture and its rows."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0, 0], [9, 9, 0]], [60, 40], axis=0) + rng.normal(size=(100, 3))
    return apolar.GaussianMixture(2, covariance_type="diag", random_state=0).fit(X), X


def test_missing_values_and_outliers(two_clusters, tmp_path):
    model, X = two_clusters
    X[3, 0], X[7] = np.nan, [0, 500, 0]
    page = apolar.report(model, X, tmp_path / "a.html").read_text()
    assert "1 value is missing" in page
    assert "1 outlier: too far" in page
    assert "1 row is far outside the frame." in page
    assert "was given. apolar.select(X) chooses the best of several." in page
    # Its number from 1, the column that says most, and how far it is there.
    outlier = page.partition('id="outlying"')[2].partition("</table>")[0]
    nearest = model.predict(X[7:8])[0]
    deviations = (500 - model.means_[nearest, 1]) / np.sqrt(model.covariances_[nearest, 1])
    assert 'data-row="8">8</span>' in outlier
    assert ">column 1<" in outlier
    assert f">{deviations:+.3g}<" in outlier


def test_an_existing_file_stays_if_the_page_cannot_be_made(flowers, model, tmp_path):
    path = tmp_path / "a.html"
    path.write_text("before")
    with pytest.raises(ValueError, match="labels must have one entry for each of the 150 rows"):
        apolar.report(model, flowers[0], path, labels=[1, 2])
    assert path.read_text() == "before"
    apolar.report(model, flowers[0], path)
    assert path.read_text() != "before"


def test_errors_name_the_remedy(flowers, model, tmp_path):
    frame, path = flowers[0], tmp_path / "a.html"
    with pytest.raises(NotFittedError):
        apolar.report(apolar.GaussianMixture(2), frame, path)
    with pytest.raises(
        TypeError, match="must be an apolar.GaussianMixture, or a Selection of them, not GaussianMixture"
    ):
        apolar.report(Theirs(2).fit(frame), frame, path)
    with pytest.raises(ValueError, match="X has 3 columns, and the mixture 4: pass the columns of the fit"):
        apolar.report(model, frame.to_numpy()[:, :3], path)
    with pytest.raises(ValueError, match="not those of the fit, or in another order"):
        apolar.report(model, frame[frame.columns[::-1]], path)
    with pytest.raises(ValueError, match="feature_names must name all 4 columns of X; got 1"):
        apolar.report(model, frame, path, feature_names=["a"])
    with pytest.raises(TypeError, match="Column 'sepal_length' holds .*, not numbers"):
        apolar.report(model, frame.assign(sepal_length="long"), path)
    assert not path.exists()


def test_a_row_that_is_missing_as_a_whole_and_names_of_no_characters(two_clusters, tmp_path):
    model, X = two_clusters
    X[3], X[4, 0] = np.nan, 1e200
    names = ["a\x00b\x1b", "\ud800", "日本語"]
    page = apolar.report(model, X, tmp_path / "a.html", feature_names=names).read_text(encoding="utf-8")
    # As text, for which a browser has letters.
    assert page.count("日本語</text>") == 2
    assert "inf" not in page.partition('id="data"')[2].partition("</table>")[0]


def test_a_selection_gives_its_best_and_the_comparison(flowers, tmp_path):
    selection = apolar.select(flowers[0], [2, 3], "full", random_state=0)
    page = apolar.report(selection, flowers[0], tmp_path / "a.html").read_text()
    assert "have the lowest BIC" in page
    assert 'id="candidates"' in page
    assert f"{selection.best.n_components} clusters in 150 rows" in page
