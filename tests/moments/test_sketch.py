"""Moment sketches: the moments of rows, updates and sums, files, and invalid input."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apolar
from apolar import MomentSketch
from mixtures import distance

RNG = np.random.default_rng(0)
X = RNG.standard_normal((500, 4)) @ RNG.standard_normal((4, 4)) + np.array([1.0, -2.0, 0.0, 5.0])
W = RNG.uniform(0, 2, 500)

laws = settings(max_examples=40, deadline=None, derandomize=True)


def close(sketch, other, tol=1e-10):
    """Return whether the moments of two sketches agree, relative to the spread of the data."""
    a, b = sketch.central(), other.central()
    scale = np.sqrt(np.trace(a.covariance))
    return (
        sketch.n_rows == other.n_rows
        and np.abs(a.mean - b.mean).max() < tol * (scale + np.abs(a.mean).max())
        and np.abs(a.covariance - b.covariance).max() < tol * scale**2
        and (a.third - b.third).norm() < tol * scale**3
        and np.abs(a.square_times - b.square_times).max() < tol * scale**3
    )


def test_moments_are_those_of_the_rows():
    central = MomentSketch(4).update(X, W).central()
    weights = W / W.sum()
    z = X - weights @ X
    np.testing.assert_allclose(central.mean, weights @ X, rtol=1e-12)
    np.testing.assert_allclose(central.covariance, (weights[:, None] * z).T @ z, rtol=1e-10)
    np.testing.assert_allclose(
        central.third.to_dense(), np.einsum("n,ni,nj,nk->ijk", weights, z, z, z), atol=1e-10
    )
    np.testing.assert_allclose(central.square_times, (weights * np.sum(z**2, axis=1)) @ z, atol=1e-10)


@laws
@given(st.lists(st.integers(1, 499), min_size=0, max_size=6), st.floats(-1e5, 1e5))
def test_chunks_and_merges_change_nothing(cuts, shift):
    parts = np.split(X + shift, sorted(set(cuts)))
    expected = MomentSketch(4).update(X + shift)
    updated = MomentSketch(4)
    merged = MomentSketch(4)
    for part in parts:
        updated.update(part)
        merged = merged + MomentSketch(4).update(part)
    # Adding 1e5 to the data rounds off five of their sixteen digits.
    tol = 1e-10 * (1 + abs(shift) / 10)
    assert close(expected, updated, tol)
    assert close(expected, merged, tol)


@laws
@given(st.integers(1, 498), st.integers(0, 2**31))
def test_addition_is_associative_and_commutative(cut, seed):
    order = np.random.default_rng(seed).permutation(len(X))
    a, b, c = (MomentSketch(4).update(X[part]) for part in np.array_split(order, [cut, cut + 1]))
    assert close((a + b) + c, a + (b + c))
    assert close(a + b, b + a)


@laws
@given(st.lists(st.integers(0, 4), min_size=500, max_size=500))
def test_weights_are_repeated_rows(counts):
    if not any(counts):
        counts[0] = 1
    repeated = MomentSketch(4).update(np.repeat(X, counts, axis=0))
    weighted = MomentSketch(4).update(X, sample_weight=counts)
    assert weighted.total_weight == repeated.total_weight
    repeated, weighted = repeated.central(), weighted.central()
    np.testing.assert_allclose(weighted.mean, repeated.mean, atol=1e-9)
    np.testing.assert_allclose(weighted.third.coefficients, repeated.third.coefficients, atol=1e-8)


def test_a_frame_gives_third_moments_in_its_directions():
    frame = np.linalg.qr(RNG.standard_normal((4, 2)))[0]
    framed = MomentSketch(4, frame=frame).update(X[:200]) + MomentSketch(4, frame=frame).update(X[200:])
    full = MomentSketch(4).update(X).central()
    assert (framed.central().third - full.third.change_variables(frame)).norm() < 1e-9
    np.testing.assert_allclose(framed.central().square_times, full.square_times, atol=1e-9)


def test_a_mixture_from_a_sketch_is_that_from_the_rows(tmp_path):
    rows, _ = apolar.datasets.make_example(1, 5000, random_state=0)
    paths = [tmp_path / f"{i}.sketch" for i in range(3)]
    for part, path in zip(np.array_split(rows, 3), paths, strict=True):
        MomentSketch(6).update(part).save(path)
    total = sum(MomentSketch.load(path) for path in paths)
    expected = apolar.mixture_from_moments(rows, 4)
    assert distance(expected, apolar.mixture_from_moments(total, 4)) < 1e-8


def test_a_file_round_trip_is_exact(tmp_path):
    sketch = MomentSketch(4, frame=np.eye(4)[:, :2]).update(X, W)
    sketch.save(tmp_path / "a.sketch")
    loaded = MomentSketch.load(tmp_path / "a.sketch")
    assert loaded.n_rows == 500
    assert loaded.total_weight == sketch.total_weight
    np.testing.assert_array_equal(loaded.central().third.coefficients, sketch.central().third.coefficients)
    MomentSketch(3).save(tmp_path / "empty.sketch")
    assert MomentSketch.load(tmp_path / "empty.sketch").n_rows == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sketch", "empty.sketch"]


# --- bad input ------------------------------------------------------------------


def stays_as_it_was(sketch, call, error, message):
    before = sketch.central()
    with pytest.raises(error, match=message):
        call()
    after = sketch.central()
    np.testing.assert_array_equal(before.third.coefficients, after.third.coefficients)
    assert before.n_rows == after.n_rows


@pytest.mark.parametrize(
    ("rows", "weights", "error", "message"),
    [
        (np.ones((3, 5)), None, ValueError, "5 columns; this sketch is of 4"),
        (np.ones(4), None, ValueError, "reshape"),
        (np.full((3, 4), np.nan), None, ValueError, "row 0, column 0"),
        (np.full((3, 4), np.inf), None, ValueError, "NaN or infinity"),
        (np.ones((0, 4)), None, ValueError, "no rows"),
        (np.ones((3, 4)), [1, 2], ValueError, "sample_weight must have shape"),
        (np.ones((3, 4)), [1, -2, 1], ValueError, "negative"),
        (np.ones((3, 4)), [1, np.nan, 1], ValueError, "not finite"),
        (np.ones((3, 4)), ["a", "b", "c"], TypeError, "real numbers"),
        (np.ones((3, 4)) * 1j, None, TypeError, "complex"),
        (np.array([["a", "b", "c", "d"]]), None, TypeError, "numbers"),
        ("rows", None, TypeError, "X must be"),
        (7, None, TypeError, "X must be"),
    ],
)
def test_bad_rows_leave_the_sketch_as_it_was(rows, weights, error, message):
    sketch = MomentSketch(4).update(X)
    stays_as_it_was(sketch, lambda: sketch.update(rows, weights), error, message)


def test_a_stream_that_breaks_leaves_the_sketch_as_it_was():
    sketch = MomentSketch(4).update(X)
    broken = (chunk for chunk in [X[:100], np.full((2, 4), np.nan)])
    stays_as_it_was(sketch, lambda: sketch.update(broken), ValueError, "row 100")
    narrower = [X[:100], X[:100, :3]]
    stays_as_it_was(sketch, lambda: sketch.update(narrower), ValueError, "has 3 columns, not 4")


def test_sketches_that_do_not_fit_are_not_added():
    with pytest.raises(ValueError, match="4 and 3 columns"):
        MomentSketch(4) + MomentSketch(3)
    with pytest.raises(ValueError, match="different frames"):
        MomentSketch(4) + MomentSketch(4, frame=np.eye(4)[:, :2])
    with pytest.raises(TypeError):
        MomentSketch(4) + 1


def test_bad_sketches_are_refused():
    with pytest.raises(ValueError, match="no rows"):
        MomentSketch(4).central()
    with pytest.raises(ValueError, match="all zero"):
        MomentSketch(4).update(X, np.zeros(500)).central()
    with pytest.raises(ValueError, match="at least 1"):
        MomentSketch(0)
    with pytest.raises(ValueError, match="frame"):
        MomentSketch(1000)
    with pytest.raises(ValueError, match="orthonormal"):
        MomentSketch(4, frame=np.ones((4, 2)))


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "a.sketch"
    MomentSketch(4).update(X).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="damaged"):
        MomentSketch.load(path)
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(flipped))
    with pytest.raises(ValueError, match="damaged"):
        MomentSketch.load(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="not a moment sketch"):
        MomentSketch.load(path)
    with pytest.raises(FileNotFoundError):
        MomentSketch.load(tmp_path / "missing.sketch")


def test_foreign_and_future_files_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(ValueError, match="not a moment sketch"):
        MomentSketch.load(tmp_path / "other.npz")
    sketch = MomentSketch(4).update(X)
    sketch.save(tmp_path / "a.sketch")
    with np.load(tmp_path / "a.sketch") as file:
        arrays = dict(file)
    arrays["version"] = np.array(99)
    np.savez(tmp_path / "future.npz", **arrays)
    with pytest.raises(ValueError, match="version 99"):
        MomentSketch.load(tmp_path / "future.npz")
    pickled = tmp_path / "pickled.npz"
    np.savez(pickled, a=np.array([object()], dtype=object))
    with pytest.raises(ValueError, match="not a moment sketch"):
        MomentSketch.load(pickled)


def test_rows_of_weight_zero_are_skipped():
    expected = MomentSketch(4).update(X)
    far = np.full((5, 4), 9e9)
    padded = MomentSketch(4).update(np.vstack([far, X]), np.r_[np.zeros(5), np.ones(500)])
    assert close(expected, padded)
    streamed = MomentSketch(4).update([(far, np.zeros(5)), (X, np.ones(500))])
    assert close(expected, streamed)


def test_the_sum_of_one_sketch_is_a_new_sketch():
    sketch = MomentSketch(4).update(X)
    total = sum([sketch])
    total.update(X)
    assert (sketch.n_rows, total.n_rows) == (500, 1000)


def test_rows_that_overflow_are_refused():
    sketch = MomentSketch(4).update(X)
    with np.errstate(over="ignore", invalid="ignore"):
        stays_as_it_was(sketch, lambda: sketch.update(np.full((1, 4), 1e120)), ValueError, "overflow")


def test_every_damaged_byte_is_noticed_or_harmless(tmp_path):
    path = tmp_path / "a.sketch"
    MomentSketch(2).update(X[:, :2]).save(path)
    content = path.read_bytes()
    expected = MomentSketch.load(path).central()
    for position in range(0, len(content), 17):
        damaged_byte = bytes([content[position] ^ 0x55])
        path.write_bytes(content[:position] + damaged_byte + content[position + 1 :])
        try:
            central = MomentSketch.load(path).central()
        except ValueError:
            continue
        np.testing.assert_array_equal(central.third.coefficients, expected.third.coefficients)
    np.save(tmp_path / "plain.npy", X)
    with pytest.raises(ValueError, match="not a moment sketch"):
        MomentSketch.load(tmp_path / "plain.npy")


def test_a_failed_save_leaves_no_file(tmp_path, monkeypatch):
    def fails(*_args, **_options):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fails)
    with pytest.raises(OSError, match="disk full"):
        MomentSketch(4).update(X).save(tmp_path / "a.sketch")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        MomentSketch(4).save(tmp_path / "missing" / "a.sketch")


def test_repr():
    assert repr(MomentSketch(4).update(X)) == "MomentSketch(n_features=4, n_rows=500)"
    assert repr(MomentSketch(4)) == "MomentSketch(n_features=4, n_rows=0)"


def test_feature_names_are_saved_and_must_agree(tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 2))
    sketch = MomentSketch(2, feature_names=["a", "b"]).update(X)
    sketch.save(tmp_path / "named.npz")
    loaded = MomentSketch.load(tmp_path / "named.npz")
    assert loaded.feature_names == ("a", "b")
    assert (loaded + MomentSketch(2).update(X)).feature_names == ("a", "b")
    assert sum([loaded, sketch]).feature_names == ("a", "b")
    with pytest.raises(ValueError, match="of other columns, or have them in another order: a, b; b, a"):
        _ = sketch + MomentSketch(2, feature_names=["b", "a"]).update(X)
    with pytest.raises(ValueError, match="feature_names must name all 2 columns; got 1 names"):
        MomentSketch(2, feature_names=["a"])


def test_columns_of_dataframes_keep_their_order(tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 3)) + np.array([0, 10, 20])
    frame, names = pd.DataFrame(X, columns=["a", "b", "c"]), ["c", "b", "a"]
    sketch = MomentSketch(3).update(X).update(frame)
    assert sketch.feature_names == ("a", "b", "c")
    for other in (frame[names], pl.DataFrame(X, schema=names), [frame[names]]):
        with pytest.raises(ValueError, match=r"in another order: a, b, c; c, b, a\. Select them by name"):
            sketch.update(other)
    with pytest.raises(ValueError, match="This sketch and X are of other columns"):
        MomentSketch(3, feature_names=names).update(frame)
    with pytest.raises(ValueError, match="This sketch and the other are of other columns"):
        _ = sketch + MomentSketch(3).update(frame[names])
    sketch.save(tmp_path / "sketch.npz")
    with pytest.raises(ValueError, match="This sketch and X are of other columns"):
        MomentSketch.load(tmp_path / "sketch.npz").update(frame[names])
    sketch.update(frame[names][list(sketch.feature_names)])
    np.testing.assert_allclose(sketch.central().mean, X.mean(axis=0))


def test_a_refused_dataframe_leaves_no_names():
    sketch = MomentSketch(2)
    with pytest.raises(ValueError, match="NaN or infinity"):
        sketch.update(pd.DataFrame({"a": [1.0, np.nan], "b": [1.0, 2.0]}))
    assert sketch.feature_names is None


@pytest.mark.parametrize(
    ("scale", "n_rows"), [(1e-200, 50), (0.5, 50), (1.0, 50), (3.0, 150), (1e200, 50 * 2.0**40)]
)
def test_weights_of_mean_one_or_more_are_numbers_of_rows(scale, n_rows):
    X = np.random.default_rng(0).standard_normal((50, 2))
    assert MomentSketch(2).update(X, np.full(50, scale)).central().n_rows == pytest.approx(n_rows)
