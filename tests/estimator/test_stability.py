"""Whether clusters come back in resamples, and whether one more component is needed."""

import numpy as np
import pytest

import apolar


@pytest.fixture(scope="module")
def rows():
    """Return a cluster that is apart, and an even stretch of rows without clusters."""
    rng = np.random.default_rng(0)
    stretch = np.column_stack([rng.uniform(0, 12, 120), rng.normal(size=120)])
    return np.concatenate([stretch, rng.normal([0, 30], 1, (60, 2))])


@pytest.mark.parametrize("cls", [apolar.GaussianMixture, apolar.StudentMixture])
def test_a_cluster_that_is_apart_comes_back_and_the_parts_of_a_stretch_do_not(rows, cls):
    gm = cls(4, covariance_type="spherical", random_state=0).fit(rows)
    stability = gm.stability(rows, n_resamples=6)
    apart = int(np.argmax(gm.means_[:, 1]))
    assert stability.recovered[apart] == 6
    assert stability.mean[apart] > 0.99
    assert np.delete(stability.mean, apart).min() < 0.85
    low, high = stability.interval(0.9)
    assert np.all(low <= stability.mean)
    assert np.all(stability.mean <= high)
    assert f"Cluster {apart + 1} comes back in 6 of 6 resamples" in stability.sentences()[apart]
    assert "Clusters in 6 resamples" in str(stability)


def test_a_component_without_rows_has_no_index(rows):
    bgm = apolar.BayesianGaussianMixture(4, covariance_type="spherical", random_state=0).fit(rows)
    stability, counts = bgm.stability(rows, n_resamples=3), np.bincount(bgm.predict(rows), minlength=4)
    np.testing.assert_array_equal(np.isnan(stability.mean), counts == 0)
    assert stability.mean[np.argmax(bgm.means_[:, 1])] > 0.99


def test_what_makes_no_sense_is_refused(rows):
    gm = apolar.GaussianMixture(2, random_state=0).fit(rows)
    with pytest.raises(ValueError, match="n_resamples"):
        gm.stability(rows, n_resamples=1)
    with pytest.raises(ValueError, match="whose number is known"):
        gm.stability([rows])
