"""Rows that are too far from every component."""

import numpy as np
import pytest
from scipy.stats import chi2

import apolar
from apolar.exceptions import FewRowsWarning
from apolar.mixture.conditional import min_distances
from apolar.mixture.families import family

FAMILIES = ("full", "tied", "diag", "spherical", "tied_diag", "tied_spherical", "VEV", "EVI")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    return np.vstack([rng.standard_normal((200, 3)) * [1, 2, 5], rng.normal([9, 0, 0], 1, (100, 3))])


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_distance_is_that_of_the_nearest_component(rows, kind):
    gm = apolar.GaussianMixture(2, covariance_type=kind, random_state=0).fit(rows)
    far = np.vstack([rows, [[1e6, 1e6, 1e6], [30, 0, 0], [9, 0, 1e200]]])
    offsets = far[:, None] - gm.means_
    with np.errstate(over="ignore"):
        distances = np.einsum(
            "nki,kij,nkj->nk", offsets, np.linalg.inv(family(kind).matrices(gm.covariances_, 2, 3)), offsets
        ).min(axis=1)
    limit = chi2.isf(-np.expm1(np.log1p(-0.05) / len(rows)), 3)
    np.testing.assert_array_equal(gm.outliers(far), ~(distances <= limit))
    assert gm.outliers(far)[-3:].all()


def test_as_few_rows_of_the_mixture_as_the_level_says():
    rng = np.random.default_rng(0)
    gm = apolar.GaussianMixture(1, random_state=0).fit(rng.standard_normal((100, 2)))
    tables = [gm.set_params(random_state=seed).sample(100)[0] for seed in range(400)]
    shares = np.mean([gm.outliers(table).any() for table in tables])
    # 400 tables, of which 5% have an outlier: a deviation of 1.1%.
    assert 0.01 < shares < 0.10
    assert not gm.outliers(gm.means_, level=0.999).any()


def test_missing_values_do_not_count(rows):
    gm = apolar.GaussianMixture(2, random_state=0).fit(rows)
    holed = np.array([[1e6, np.nan, 0], [np.nan, np.nan, np.nan], [0, np.nan, 0], [np.nan, 1e6, np.nan]])
    np.testing.assert_array_equal(gm.outliers(holed), [True, False, False, True])
    matrices = np.asarray(gm.covariances_)
    distances, n_observed = min_distances(gm.means_, matrices, holed[2:3])
    seen = [0, 2]
    offsets = holed[2, seen] - gm.means_[:, seen]
    expected = [o @ np.linalg.inv(m[np.ix_(seen, seen)]) @ o for o, m in zip(offsets, matrices, strict=True)]
    np.testing.assert_allclose(distances, min(expected), rtol=1e-9)
    assert n_observed.tolist() == [2]


@pytest.mark.parametrize("level", [0, 1, -0.1, 2])
def test_a_level_that_is_no_probability_is_refused(rows, level):
    gm = apolar.GaussianMixture(1, random_state=0).fit(rows)
    with pytest.raises(ValueError, match="between 0 and 1"):
        gm.outliers(rows, level=level)
    with pytest.raises(TypeError, match="must be a number"):
        gm.outliers(rows, level="high")


@pytest.mark.filterwarnings("ignore:Row 300 is more than 100 standard deviations")
def test_a_row_with_a_component_of_its_own_is_an_outlier(rows):
    far = np.vstack([rows, [[1e6, 1e6, 1e6]]])
    with pytest.warns(FewRowsWarning):
        gm = apolar.GaussianMixture(3, random_state=0).fit(far)
    assert gm.predict_proba(far)[-1].max() > 0.99
    assert gm.outliers(far)[-1]
    assert gm.outliers(far).sum() < 5
