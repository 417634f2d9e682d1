"""The likelihood of rows left out of a fit: `loo_`, `loo_samples`, and what they decide."""

import array_api_strict
import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import apolar
from apolar import GaussianMixture
from apolar.mixture.prior import Strengths
from estimator.clusters import example
from estimator.test_files import store_arrays, stored_arrays
from mixtures import FAMILY_NAMES, pairs

X, LABELS = example(150)
W = np.random.default_rng(1).choice([0.0, 0.3, 1.0, 2.5], len(X))


def fitted(rows=X, sample_weight=None, **parameters):
    return GaussianMixture(3, random_state=0, **parameters).fit(rows, sample_weight=sample_weight)


@pytest.mark.parametrize(
    ("name", "weights", "prior", "noise"),
    pairs(FAMILY_NAMES, [None, W], ["default", "conjugate", None], [False, False, True, True]),
)
def test_it_is_the_sum_over_the_rows_with_its_standard_error(name, weights, prior, noise):
    model = fitted(X, weights, covariance_type=name, prior=prior, noise=noise)
    values, w = model.loo_samples(X, sample_weight=weights), np.ones(len(X)) if weights is None else weights
    assert model.loo_ == pytest.approx(values @ w, rel=1e-12)
    spread = w @ (values - values @ w / w.sum()) ** 2
    assert model.loo_standard_error_ == pytest.approx(np.sqrt(spread), rel=1e-9)
    if weights is not None:
        seen = model.score_samples(X[W == 0])
        np.testing.assert_allclose(model.loo_samples(X, sample_weight=W.tolist())[W == 0], seen, rtol=1e-12)
    # Each parameter makes the rows of the fit likelier than new ones by one, or by less under a prior.
    optimism = model.score(X, sample_weight=weights) * w.sum() - model.loo_
    assert 0.2 * model.n_parameters_ < optimism < 2 * model.n_parameters_


def test_it_is_what_new_rows_have():
    gaps = []
    for seed in range(12):
        rows, _ = example(4100, seed)
        model = fitted(rows[:100])
        gaps.append(model.loo_ / 100 - model.score(rows[100:]))
    gaps = np.array(gaps)
    assert abs(gaps.mean()) < 3 * gaps.std() / np.sqrt(12)
    assert gaps.std() == pytest.approx(model.loo_standard_error_ / 100, rel=0.5)


@pytest.mark.parametrize("name", ["full", "diag", "spherical", "VEE"])
def test_rows_without_missing_values_are_as_in_a_table_without_any(name):
    holed = X.copy()
    holed[::10, 1] = holed[5::10, :2] = np.nan
    holed[3] = np.nan
    model, is_whole = fitted(holed, covariance_type=name), ~np.isnan(holed).any(axis=1)
    values = model.loo_samples(holed)
    assert model.loo_ == pytest.approx(values.sum(), rel=1e-12)
    np.testing.assert_allclose(values[is_whole], model.loo_samples(X[is_whole]), rtol=1e-9)
    assert np.all(values[~is_whole] <= model.score_samples(holed)[~is_whole] + 0.05)
    assert values[3] == pytest.approx(0, abs=0.02)


def in_chunks(rows):
    return [rows[:20], rows[20:90], rows[90:]]


@pytest.mark.parametrize(
    ("name", "opened", "closed", "rtol"),
    [
        ("full", lambda rows: rows.astype(np.float32), np.asarray, 1e-5),
        ("spherical", sparse.csr_array, np.asarray, 1e-9),
        ("full", array_api_strict.asarray, np.from_dlpack, 1e-9),
        ("VVE", array_api_strict.asarray, np.from_dlpack, 1e-9),
        ("full", lambda rows: da.from_array(rows, chunks=(40, 4)), np.asarray, 1e-9),
        ("diag", in_chunks, np.asarray, 1e-9),
    ],
    ids=["float32", "sparse", "strict", "strict, shared", "dask", "chunks"],
)
def test_other_rows_have_the_same_sums(name, opened, closed, rtol):
    model, rows = fitted(covariance_type=name), opened(X)
    ours = fitted(rows, covariance_type=name, init_params="kmeans", means_init=model.means_)
    theirs = fitted(covariance_type=name, init_params="kmeans", means_init=model.means_)
    assert ours.loo_ == pytest.approx(theirs.loo_, abs=0.01)
    values = model.loo_samples(rows)
    assert isinstance(values, type(model.score_samples(rows)))
    np.testing.assert_allclose(closed(values), model.loo_samples(X), rtol=rtol)
    assert ours.loo_ == pytest.approx(closed(ours.loo_samples(rows)).sum(), rel=1e-9)


@pytest.mark.parametrize(("stored", "expected"), [(7.5, Strengths(7.5)), (0.0, Strengths())])
def test_a_file_of_an_earlier_version_holds_one_strength(tmp_path, stored, expected):
    model, path = fitted(), tmp_path / "a.model"
    model.save(path)
    arrays = {name: value for name, value in stored_arrays(path).items() if not name.startswith("loo")}
    store_arrays(path, arrays | {"shrinkage_": np.asarray(stored)})
    loaded = GaussianMixture.load(path)
    assert loaded.shrinkage_ == expected
    assert not hasattr(loaded, "loo_")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(ValueError, match=r"call fit\(X\) first"):
        loaded.loo_samples(X)
    # A warm start begins with the strengths of the file.
    assert loaded.set_params(warm_start=True).fit(X).loo_ == pytest.approx(model.loo_, abs=0.1)


def test_rows_are_left_out_of_fits_to_rows_only():
    with pytest.raises(NotFittedError):
        GaussianMixture(3).loo_samples(X)
    stream, rows = (
        GaussianMixture(3, random_state=0),
        apolar.datasets.make_example(2, 8000, random_state=0)[0],
    )
    for start in range(0, 8000, 2000):
        stream.partial_fit(rows[start : start + 2000])
    for model in (stream, fitted().marginal([0, 2])):
        assert not hasattr(model, "loo_")
        with pytest.raises(ValueError, match=r"call fit\(X\) first"):
            model.loo_samples(rows[:, : model.n_features_in_])
