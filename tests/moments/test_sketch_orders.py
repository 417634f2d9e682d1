"""Sketches of higher order: sums, merging, change of centre, files."""

import numpy as np
import pytest

import apolar
from apolar.moments.sketch import ORDER_FOR
from apolar.tensor.monomials import monomial_variables


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((400, 3)) * [1, 10, 0.1] + [5, -300, 0.2]


def central(X, weights, order):
    z = X - np.average(X, axis=0, weights=weights)
    return [np.average(np.prod(z[:, list(v)], axis=1), weights=weights) for v in monomial_variables(3, order)]


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("order", [3, 4, 5, 6])
def test_moments_are_those_of_the_rows(rows, order, is_weighted):
    weights = np.random.default_rng(1).uniform(0.5, 2, len(rows)) if is_weighted else None
    moments = apolar.MomentSketch(3, order=order).update(rows, weights).central()
    assert moments.order == order
    for degree, tensor in enumerate((moments.third, *moments.higher), 3):
        expected = np.array(central(rows, weights, degree))
        scale = np.prod(rows.std(axis=0)[monomial_variables(3, degree)], axis=1)
        np.testing.assert_allclose(tensor.coefficients / scale, expected / scale, atol=1e-9)


@pytest.mark.parametrize("n_parties", [2, 10])
def test_merged_sketches_are_that_of_all_rows(rows, n_parties):
    whole = apolar.MomentSketch(3, order=5).update(rows).central()
    parts = np.array_split(rows, n_parties)
    merged = sum(apolar.MomentSketch(3, order=5).update(part) for part in parts).central()
    deviations = np.sqrt(np.diag(whole.covariance))
    for one, other in zip((whole.third, *whole.higher), (merged.third, *merged.higher), strict=True):
        scale = np.prod(deviations[monomial_variables(3, one.order)], axis=1)
        np.testing.assert_allclose(other.coefficients / scale, one.coefficients / scale, atol=1e-10)


def test_sketches_of_another_order_are_refused_by_name(rows):
    with pytest.raises(ValueError, match="of order 4 and 3"):
        apolar.MomentSketch(3, order=4).update(rows) + apolar.MomentSketch(3).update(rows)


@pytest.mark.parametrize("order", [3, 4, 6])
def test_a_file_gives_the_sketch_back(rows, order, tmp_path):
    sketch = apolar.MomentSketch(3, order=order, feature_names=("a", "b", "c")).update(rows)
    sketch.save(tmp_path / "sums.npz")
    again = apolar.MomentSketch.load(tmp_path / "sums.npz")
    assert again.order == order
    assert again.feature_names == ("a", "b", "c")
    for one, other in zip(sketch.central().higher, again.central().higher, strict=True):
        np.testing.assert_array_equal(one.coefficients, other.coefficients)
    (sketch + again).central()


def test_files_of_order_three_are_those_of_before(rows, tmp_path):
    apolar.MomentSketch(3).update(rows).save(tmp_path / "sums.npz")
    with np.load(tmp_path / "sums.npz") as file:
        assert int(file["version"]) == 3
        assert not [name for name in file if name.startswith("power") or name == "order"]


def test_a_file_without_its_highest_powers_is_refused(rows, tmp_path):
    sketch = apolar.MomentSketch(3, order=4).update(rows)
    arrays = sketch._arrays()
    del arrays["power4"]
    from apolar._core.files import save_arrays

    save_arrays(tmp_path / "sums.npz", "apolar moment sketch", 4, arrays)
    with pytest.raises(ValueError, match="not a sound moment sketch"):
        apolar.MomentSketch.load(tmp_path / "sums.npz")


@pytest.mark.parametrize(("kind", "order"), ORDER_FOR.items())
def test_a_family_says_the_order(kind, order):
    assert apolar.MomentSketch(4, covariance_type=kind).order == order


def test_orders_out_of_reach_are_refused():
    with pytest.raises(ValueError, match="order must be one of 3, 4, 5, 6"):
        apolar.MomentSketch(3, order=7)
    with pytest.raises(ValueError, match="need moments of order 4"):
        apolar.MomentSketch(3, order=3, covariance_type="tied")
    with pytest.raises(ValueError, match="order 4 of 100 columns are 4,421,275 numbers"):
        apolar.MomentSketch(100, order=4)


def test_a_frame_holds_higher_powers_too(rows):
    frame = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 2)))[0]
    moments = apolar.MomentSketch(3, frame=frame, order=4).update(rows).central()
    expected = apolar.MomentSketch(2, order=4).update(rows @ frame).central()
    np.testing.assert_allclose(moments.higher[0].coefficients, expected.higher[0].coefficients, rtol=1e-9)


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_arrays_of_other_libraries_have_the_same_moments(rows, library):
    xp = pytest.importorskip(library)
    ours = apolar.MomentSketch(3, order=6).update(rows).central()
    theirs = apolar.MomentSketch(3, order=6).update(xp.asarray(rows)).central()
    for one, other in zip(ours.higher, theirs.higher, strict=True):
        scale = np.prod(rows.std(axis=0)[monomial_variables(3, one.order)], axis=1)
        np.testing.assert_allclose(other.coefficients / scale, one.coefficients / scale, atol=1e-10)


def test_sparse_rows_have_the_same_moments(rows):
    sparse = pytest.importorskip("scipy.sparse")
    thin = np.where(np.random.default_rng(3).random(rows.shape) < 0.5, 0.0, rows)
    ours = apolar.MomentSketch(3, order=4).update(thin).central()
    theirs = apolar.MomentSketch(3, order=4).update(sparse.csr_array(thin)).central()
    scale = np.prod(thin.std(axis=0)[monomial_variables(3, 4)], axis=1)
    np.testing.assert_allclose(
        theirs.higher[0].coefficients / scale, ours.higher[0].coefficients / scale, atol=1e-10
    )
