"""One row far from all others does not set the scale of the fit."""

import numpy as np
import pytest

from apolar import GaussianMixture
from apolar.exceptions import FarRowsWarning


def clusters(seed=0, n_rows=100):
    rng = np.random.default_rng(seed)
    return np.vstack([rng.normal(centre, 1, (n_rows, 3)) for centre in (0, 8, -8)])


@pytest.mark.filterwarnings("ignore:1 of 4 components holds")
@pytest.mark.parametrize(
    ("name", "where", "size"),
    [("full", "row", 1e7), ("tied", "cell", 1e3), ("EVE", "row", 1e5), ("EII", "row", 1e3)],
)
def test_clusters_are_found_beside_a_wrong_entry(name, where, size):
    X = clusters()
    X[4, slice(None) if where == "row" else 1] = size
    with pytest.warns(FarRowsWarning, match=r"^Row 4 is more than 100 standard deviations .* fit with noise"):
        model = GaussianMixture(4, covariance_type=name, random_state=0).fit(X)
    assert sorted(np.bincount(model.predict(X))) == [1, 99, 100, 100]
    # The component of the row is at the row, and not pulled towards the others.
    np.testing.assert_allclose(model.means_[model.predict(X)[4]], X[4], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:Row 4 is more than", "ignore:1 of 4 components holds")
def test_the_likelihood_beside_a_far_row_is_that_of_the_others():
    # With and without the far row, as one more component of weight 1 / n.
    X = clusters()
    plain = GaussianMixture(3, random_state=0, prior=None).fit(np.delete(X, 4, axis=0))
    X[4] = 1e7
    model = GaussianMixture(4, random_state=0).fit(X)
    others = np.delete(np.arange(300), 4)
    expected = plain.score_samples(X[others]).mean() + np.log(299 / 300)
    # The default prior costs a few hundredths of a nat a row.
    assert model.score_samples(X[others]).mean() == pytest.approx(expected, abs=0.1)


def test_far_rows_are_in_every_sample():
    X = clusters(n_rows=12_000)
    X[17] = -9999.0
    with pytest.warns(FarRowsWarning, match="^Row 17 "):
        labels = GaussianMixture(4, covariance_type="tied", random_state=0).fit(X).predict(X)
    assert sorted(np.bincount(labels)) == [1, 11_999, 12_000, 12_000]


def test_rows_are_named_by_their_place_in_X():
    X = clusters()
    X[[3, 50, 299], 0] = 1e6
    weights = np.ones(300)
    weights[:2] = 0
    with pytest.warns(FarRowsWarning, match="^Rows 3, 50 and 299 are more than"):
        GaussianMixture(4, covariance_type="diag", random_state=0).fit(X, sample_weight=weights)
    X[:, 1] = np.where(np.arange(300) % 30 == 1, np.nan, X[:, 1])
    with pytest.warns(FarRowsWarning, match="^Rows 3, 50 and 299 are more than"):
        GaussianMixture(4, covariance_type="diag", random_state=0).fit(X)
    assert FarRowsWarning(range(8)).counted_from(1).startswith("Rows 1, 2, 3, 4, 5 and 3 more are")


@pytest.mark.filterwarnings("error::apolar.exceptions.FarRowsWarning")
def test_a_cluster_is_not_far_from_the_others():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(0, 1, (500, 2)), rng.normal(60, 1, (12, 2))])
    labels = GaussianMixture(2, random_state=0).fit_predict(X)
    assert sorted(np.bincount(labels)) == [12, 500]
    with_noise = np.vstack([X, [[1e6, 1e6]]])
    GaussianMixture(2, noise=True, random_state=0).fit(with_noise)


@pytest.mark.parametrize("size", [1e25, 1e200, 1.7e308])
def test_rows_too_far_for_sums_are_refused(size):
    X = clusters()
    X[7, 1] = -size
    with pytest.raises(ValueError, match=r"number 7 of those with weight\) is more than 1e\+20 .* remove it"):
        GaussianMixture(3, random_state=0).fit(X)
