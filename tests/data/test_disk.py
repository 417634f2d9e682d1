"""Tables that stay on disk: memory maps, data sets of files, chunks that can be read again."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import apolar

X, _ = apolar.datasets.make_example(1, 12_000, random_state=0)
W = np.random.default_rng(1).uniform(0.2, 2.0, len(X))
NAMES = list("abcdef")


def fitted(rows, kind="spherical", **kwargs):
    return apolar.GaussianMixture(4, covariance_type=kind, random_state=0).fit(rows, **kwargs)


def assert_same(model, expected, tol=1e-6):
    np.testing.assert_allclose(model.means_, expected.means_, atol=tol)
    np.testing.assert_allclose(model.covariances_, expected.covariances_, atol=10 * tol)


@pytest.fixture(scope="module")
def expected():
    return fitted(X)


def test_what_was_written_to_a_private_map_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("apolar.data.rows.CHUNK_SIZE", 2000)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="c")
    mapped += 1.0
    fitted(mapped)
    np.testing.assert_array_equal(mapped, X + 1)


def test_data_sets_of_files(tmp_path, expected):
    table = pa.table({name: X[:, i] for i, name in enumerate(NAMES)})
    (tmp_path / "set").mkdir()
    for i in range(3):
        part = table.slice(i * 4_000, 4_000)
        pq.write_table(part, tmp_path / "set" / f"{i}.parquet", row_group_size=1500)
    model = fitted(ds.dataset(tmp_path / "set"))
    assert_same(model, expected)
    first = pq.ParquetFile(tmp_path / "set" / "0.parquet")
    np.testing.assert_array_equal(expected.predict(first), expected.predict(X[:4_000]))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(ds.dataset(table.rename_columns(list("abcdeg"))))
    strings = pa.table({"a": [1.0, 2.0], "city": ["x", "y"]})
    with pytest.raises(TypeError, match="Column 'city' holds String"):
        fitted(ds.dataset(strings))
    with pytest.raises(ValueError, match="no rows"):
        fitted(ds.dataset(strings.select(["a"]).slice(0, 0)))


class Reused:
    """Chunks in one buffer, which the next chunk overwrites."""

    def __iter__(self):
        buffer = np.empty((1000, 6))
        for start in range(0, len(X), 1000):
            buffer[:] = X[start : start + 1000]
            yield buffer


def test_chunks_may_reuse_their_memory(expected):
    model = apolar.GaussianMixture(4, covariance_type="spherical", random_state=0, n_threads=3)
    assert_same(model.fit(Reused()), expected)


def test_an_iterable_that_can_be_read_once_is_recognised(expected):
    class Same:
        iterator = iter([X[:500], X[500:1000]])

        def __iter__(self):
            return self.iterator

    for once in (Same(), iter([X[:500], X[500:]])):
        with pytest.raises(ValueError, match="can be read only once"):
            fitted(once)
    # One pass is enough to predict.
    once = iter([X[:9], X[9:1000]])
    np.testing.assert_array_equal(expected.predict(once), expected.predict(X[:1000]))


def test_chunks_must_be_alike(expected):
    frames = [pd.DataFrame(X[:500], columns=NAMES), pd.DataFrame(X[500:900], columns=NAMES)[NAMES[::-1]]]
    for call in (fitted, fitted(frames[:1]).predict):
        with pytest.raises(ValueError, match="Chunk 1 of X has other columns"):
            call(frames)
    with pytest.raises(ValueError, match="Chunk 1 of X has 1 columns, not 6"):
        expected.predict([X[:500], X[500:600, :1]])
    with pytest.raises(ValueError, match="Some chunks have weights"):
        fitted([(X[:500], W[:500]), X[500:900]])
    # The order of additions may lead to another start of the same optimum, near which EM stops elsewhere.
    of_objects = fitted([X[:300].astype(object), X[300:700]])
    np.testing.assert_allclose(of_objects.means_, fitted(X[:700]).means_, rtol=1e-4)
    tables = [pa.table({name: X[:500, i] for i, name in enumerate(NAMES)})] * 2
    assert fitted(tables).n_samples_seen_ == 1000


def test_rows_of_weight_zero_are_skipped(tmp_path):
    weights = np.where(np.arange(len(X)) < 8_000, 0.0, W)
    expected = fitted(X[8_000:], sample_weight=weights[8_000:])
    # They are far away: one that is not skipped would change every sum, and be a component by itself.
    rows = X + np.where(weights == 0, 100.0, 0.0)[:, None]
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    halves = [(rows[:6_000], weights[:6_000]), (rows[6_000:], weights[6_000:])]
    labels = np.arange(len(X)) % 4
    cases = (mapped, weights, "auto"), (mapped, weights, labels), (halves, None, "random_from_data")
    for table, sample_weight, start in cases:
        model = apolar.GaussianMixture(4, covariance_type="spherical", init_params=start, random_state=0)
        model.fit(table, sample_weight=sample_weight)
        assert model.lower_bound_ == pytest.approx(expected.lower_bound_, abs=0.1)
        assert model.n_samples_seen_ == pytest.approx(weights.sum())
