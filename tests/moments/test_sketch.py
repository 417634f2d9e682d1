"""Moment sketches: the moments of rows, updates and sums, other columns, files, and invalid input."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import apolar
from apolar import MomentSketch
from apolar._core.files import save_arrays
from apolar.tensor.monomials import monomial_variables

RNG = np.random.default_rng(0)
X = RNG.standard_normal((500, 4)) @ RNG.standard_normal((4, 4)) + np.array([1.0, -2.0, 0.0, 5.0])
W = RNG.uniform(0, 2, 500)
FRAME = np.linalg.qr(RNG.standard_normal((4, 2)))[0]

laws = settings(max_examples=40, deadline=None, derandomize=True)


def assert_same(a, b, tol=1e-10):
    """Compare the moments of two sketches, or central moments, relative to the spread of the columns."""
    a, b = (one.central() if isinstance(one, MomentSketch) else one for one in (a, b))
    scale = 1 + np.sqrt(np.trace(b.covariance))
    assert (a.n_rows, a.order) == (b.n_rows, b.order)
    np.testing.assert_allclose(a.mean, b.mean, rtol=0, atol=tol * (scale + np.abs(b.mean).max()))
    np.testing.assert_allclose(a.covariance, b.covariance, rtol=0, atol=tol * scale**2)
    for one, other in zip(a.tensors, b.tensors, strict=True):
        assert (one - other).norm() <= tol * scale**one.order
    np.testing.assert_allclose(a.square_times, b.square_times, rtol=0, atol=tol * scale**3)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("order", [3, 4, 5, 6])
def test_moments_are_those_of_the_rows(order, weights):
    rows = X[:, :3] * [1, 10, 0.1] + [5, -300, 0.2]
    central = MomentSketch(3, order=order).update(rows, weights).central()
    w = np.full(500, 1 / 500) if weights is None else weights / weights.sum()
    z = rows - w @ rows
    np.testing.assert_allclose(central.mean, w @ rows, rtol=1e-12)
    np.testing.assert_allclose(central.covariance, (w[:, None] * z).T @ z, rtol=1e-9)
    np.testing.assert_allclose(central.square_times, (w * np.sum(z**2, axis=1)) @ z, rtol=1e-9)
    for degree, tensor in enumerate(central.tensors, 3):
        monomials = [np.prod(z[:, list(v)], axis=1) for v in monomial_variables(3, degree)]
        scale = np.prod(rows.std(axis=0)[monomial_variables(3, degree)], axis=1)
        np.testing.assert_allclose(tensor.coefficients / scale, monomials @ w / scale, atol=1e-9)


@laws
@given(st.lists(st.integers(1, 499), min_size=0, max_size=6), st.floats(-1e5, 1e5), st.sampled_from([3, 5]))
def test_chunks_and_merges_change_nothing(cuts, shift, order):
    parts = np.split(X + shift, sorted(set(cuts)))
    expected, updated, merged = (MomentSketch(4, order=order) for _ in range(3))
    expected.update(X + shift)
    for part in parts:
        updated.update(part)
        merged = merged + MomentSketch(4, order=order).update(part)
    # Adding 1e5 to the data rounds off five of their sixteen digits.
    tol = 1e-9 * (1 + abs(shift) / 10)
    assert_same(expected, updated, tol)
    assert_same(expected, merged, tol)
    assert_same(expected, sum(MomentSketch(4, order=order).update(part) for part in parts[::-1]), tol)


@laws
@given(st.lists(st.integers(0, 4), min_size=500, max_size=500))
def test_weights_are_repeated_rows(counts):
    counts[0] += not any(counts)
    repeated = MomentSketch(4).update(np.repeat(X, counts, axis=0))
    weighted = MomentSketch(4).update(X, sample_weight=counts)
    assert weighted.total_weight == repeated.total_weight
    # A sketch counts rows with weight, and its central moments the weights.
    assert_same(weighted.central(), repeated.central())


def test_a_frame_gives_higher_moments_in_its_directions():
    first = MomentSketch(4, frame=FRAME, order=4).update(X[:200])
    # The sum of one sketch is a new one.
    total = sum([first]).update(X[200:])
    assert (first.n_rows, repr(total)) == (200, "MomentSketch(n_features=4, order=4, n_rows=500)")
    framed, full = total.central(), MomentSketch(4, order=4).update(X).central()
    for ours, expected in zip(framed.tensors, full.tensors, strict=True):
        assert (ours - expected.change_variables(FRAME)).norm() < 1e-9 * expected.norm()
    np.testing.assert_allclose(framed.square_times, full.square_times, atol=1e-9)
    for change in (lambda: framed.divided(np.ones(4)), lambda: framed.of_columns([0])):
        with pytest.raises(ValueError, match="changed in a sketch with a frame"):
            change()


@pytest.mark.parametrize("columns", [[0, 2], [3], [0, 1, 2, 3]])
def test_other_units_and_some_columns(columns):
    units = np.array([0.1, 2.0, 3.0, 7.0])
    moments = MomentSketch(4, order=4).update(X).central().divided(units).of_columns(columns)
    expected = MomentSketch(len(columns), order=4).update((X / units)[:, columns]).central()
    assert_same(moments, expected)


@pytest.mark.parametrize("library", ["sparse", "array_api_strict", "torch"])
def test_arrays_of_other_libraries_have_the_same_moments(library):
    thin = np.where(RNG.random(X.shape) < 0.5, 0.0, X)
    rows = sparse.csr_array(thin) if library == "sparse" else pytest.importorskip(library).asarray(thin)
    assert_same(MomentSketch(4, order=6).update(thin), MomentSketch(4, order=6).update(rows))


@pytest.mark.parametrize(("kind", "tol"), [("spherical", 1e-8), ("tied", 1e-4)])
def test_a_mixture_from_sketches_is_that_from_the_rows(kind, tol):
    rows, _ = apolar.datasets.make_example(1, 5000, random_state=0)
    parts = (MomentSketch(6, covariance_type=kind).update(part) for part in np.array_split(rows, 3))
    ours, expected = (apolar.mixture_from_moments(x, 4, covariance_type=kind) for x in (sum(parts), rows))
    np.testing.assert_allclose(ours.means, expected.means, atol=tol)


@pytest.mark.parametrize(
    ("scale", "n_rows"), [(1e-200, 50), (0.5, 50), (1.0, 50), (3.0, 150), (1e200, 50 * 2.0**40)]
)
def test_weights_of_mean_one_or_more_are_numbers_of_rows(scale, n_rows):
    assert MomentSketch(4).update(X[:50], np.full(50, scale)).central().n_rows == pytest.approx(n_rows)


# --- names of columns -------------------------------------------------------------------------


def test_columns_of_dataframes_keep_their_order(tmp_path):
    frame, names = pd.DataFrame(X, columns=list("abcd")), list("dcba")
    sketch = MomentSketch(4).update(X).update(frame)
    for other in (frame[names], pl.DataFrame(X, schema=names), [frame[names]]):
        with pytest.raises(ValueError, match=r"order of columns: a, b, c, d; d, c, b, a\. Select them"):
            sketch.update(other)
    refused = MomentSketch(2)
    for call, message in (
        (
            lambda: MomentSketch(4, feature_names=names).update(frame),
            "sketch and X have different columns",
        ),
        (
            lambda: sketch + MomentSketch(4).update(frame[names]),
            "and the other have different columns",
        ),
        (lambda: MomentSketch(2, feature_names=["a"]), "must name all 2 columns; got 1 names"),
        (lambda: refused.update(pd.DataFrame({"a": [1.0, np.nan], "b": [1.0, 2.0]})), "NaN or infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert refused.feature_names is None
    sketch.save(tmp_path / "sketch.npz")
    loaded = MomentSketch.load(tmp_path / "sketch.npz")
    assert (loaded + MomentSketch(4).update(X)).feature_names == tuple("abcd")
    assert sum([loaded, sketch]).feature_names == tuple("abcd")


# --- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"order": 4}, {"order": 6}, {"frame": FRAME}])
def test_a_file_round_trip_is_exact(options, tmp_path):
    sketch = MomentSketch(4, **options).update(X, W)
    sketch.save(tmp_path / "a.sketch")
    loaded = MomentSketch.load(tmp_path / "a.sketch")
    assert (loaded.n_rows, loaded.total_weight, loaded.order) == (500, sketch.total_weight, sketch.order)
    assert_same(loaded, sketch, 0)
    with np.load(tmp_path / "a.sketch") as file:
        # Files without higher powers are those of before.
        assert (int(file["version"]), "order" in file) == (3 + (sketch.order > 3), sketch.order > 3)
    MomentSketch(3).save(tmp_path / "empty.sketch")
    assert MomentSketch.load(tmp_path / "empty.sketch").n_rows == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sketch", "empty.sketch"]


def test_future_and_incomplete_files_are_refused(tmp_path):
    path = tmp_path / "a.sketch"
    sketch = MomentSketch(4, order=4).update(X)
    sketch.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(tmp_path / "future.npz", **(arrays | {"version": np.array(99)}))
    others = ("power4", "format", "version", "checksum")
    kept = {name: array for name, array in arrays.items() if name not in others}
    save_arrays(path, "apolar moment sketch", 4, kept)
    for name, message in (("future.npz", "version 99"), ("a.sketch", "not a valid moment sketch")):
        with pytest.raises(ValueError, match=message):
            MomentSketch.load(tmp_path / name)


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "weights", "error", "message"),
    [
        (np.ones((3, 5)), None, ValueError, "5 columns; this sketch is of 4"),
        (np.ones(4), None, ValueError, "reshape"),
        (np.ones((3, 4)), [1, 2], ValueError, "sample_weight must have shape"),
        (np.ones((3, 4)), [1, np.nan, 1], ValueError, "not finite"),
        (np.ones((3, 4)), ["a", "b", "c"], TypeError, "real numbers"),
        (np.full((1, 4), 1e120), None, ValueError, "overflow"),
        ([X[:100], np.full((2, 4), np.nan)], None, ValueError, "row 100"),
        ([X[:100], X[:100, :3]], None, ValueError, "has 3 columns, not 4"),
    ],
)
def test_bad_rows_leave_the_sketch_as_it_was(rows, weights, error, message):
    sketch = MomentSketch(4).update(X)
    before = sketch.central()
    with pytest.raises(error, match=message):
        sketch.update(rows, weights)
    np.testing.assert_array_equal(before.third.coefficients, sketch.central().third.coefficients)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: MomentSketch(4) + MomentSketch(3), ValueError, "4 and 3 columns"),
        (lambda: MomentSketch(4, order=4) + MomentSketch(4), ValueError, "of order 4 and 3"),
        (lambda: MomentSketch(4) + MomentSketch(4, frame=FRAME), ValueError, "different frames"),
        (lambda: MomentSketch(4) + 1, TypeError, "unsupported"),
        (lambda: MomentSketch(4).central(), ValueError, "no rows"),
        (lambda: MomentSketch(0), ValueError, "at least 1"),
        (lambda: MomentSketch(1000), ValueError, "frame"),
        (lambda: MomentSketch(4, frame=np.ones((4, 2))), ValueError, "orthonormal"),
        (lambda: MomentSketch(3, order=7), ValueError, "order must be one of 3, 4, 5, 6"),
        (lambda: MomentSketch(3, order=4.0), TypeError, "order must be an integer"),
        (lambda: MomentSketch(3, order=3, covariance_type="tied"), ValueError, "need moments of order 4"),
        (lambda: MomentSketch(100, order=4), ValueError, "order 4 of 100 columns are 4,421,275 numbers"),
    ],
)
def test_bad_sketches_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
    assert MomentSketch(4, covariance_type="tied").order == 4
