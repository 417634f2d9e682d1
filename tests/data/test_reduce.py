"""Statistics of the same rows agree, wherever the rows are stored and however they are read."""

import array_api_strict
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dask import array as da
from pyarrow import dataset
from scipy import sparse

import apolar
from apolar._core.namespaces import to_numpy
from apolar.data import on_checked, open_rows
from apolar.data.rows import Divided
from apolar.em.problem import Problem
from apolar.mixture.families import family
from apolar.moments.covariance import row_moments

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5000, 4)) * [1, 2, 3, 4] + [0, 1, 0, 5]
W = RNG.integers(0, 3, len(X)).astype(float)


class Chunks:
    """A rereadable iterable of chunks."""

    def __init__(self, weighted):
        self.weighted = weighted

    def __iter__(self):
        for part in np.array_split(np.arange(len(X)), 7):
            yield (X[part], W[part]) if self.weighted else X[part]


def sources(folder):
    """Yield the name of each kind of table, and the same rows in it, without weights and with them."""
    np.save(folder / "x.npy", X)
    frame = pd.DataFrame(X, columns=list("abcd"))
    tables = {
        "array": X,
        "sparse": sparse.csr_array(X),
        "memory map": np.load(folder / "x.npy", mmap_mode="r"),
        "dataframe": frame,
        "data set": dataset.dataset(pa.Table.from_pandas(frame)),
        "device": array_api_strict.asarray(X),
        "Dask": da.from_array(X, chunks=(1200, 4)),
    }
    for name, table in tables.items():
        yield name, open_rows(table), open_rows(table, W)
    yield "chunks", open_rows(Chunks(weighted=False)), open_rows(Chunks(weighted=True))


def weighted_sums(block, weights):
    """Return the weight, the weighted sums and the number of the rows of a block."""
    dense = block.toarray() if sparse.issparse(block) else to_numpy(block)
    weights = np.ones(len(dense)) if weights is None else to_numpy(weights)
    return weights.sum(), weights @ dense, len(dense)


SUMS = on_checked(weighted_sums)


def test_a_statistic_is_the_same_wherever_the_rows_are(tmp_path):
    kinds = set()
    for name, rows, weighted in sources(tmp_path):
        kinds.add(type(rows).__name__)
        weight, first, n_rows = rows.reduce(SUMS)
        assert (weight, n_rows) == (len(X), len(X)), name
        np.testing.assert_allclose(first, X.sum(axis=0), err_msg=name)
        weight, first, n_rows = weighted.reduce(SUMS)
        assert (weight, n_rows) == (W.sum(), np.count_nonzero(W)), name
        np.testing.assert_allclose(first, W @ X, err_msg=name)
        assert weighted.count() == (np.count_nonzero(W), W.sum()), name
    assert kinds == {"ArrayRows", "MappedFileRows", "DatasetRows", "DaskRows", "ChunkRows"}


def test_transformed_rows_are_summed_where_they_are(tmp_path):
    units = np.array([1.0, 2, 4, 8])
    for name, rows, weighted in sources(tmp_path):
        divided = weighted.transform(Divided(units))
        np.testing.assert_allclose(divided.reduce(SUMS)[1], W @ X / units, err_msg=name)
        assert divided.first(lambda chunk: chunk.values.shape[1]) == 4
        half = rows.transform(Divided(units)).systematic_sample(2)
        assert half.reduce(SUMS)[2] == len(X) / 2, name
        if rows.can_take:
            first_rows = rows.transform(Divided(units)).take(np.arange(3))[0]
            dense = first_rows.toarray() if sparse.issparse(first_rows) else to_numpy(first_rows)
            np.testing.assert_allclose(dense, X[:3] / units, err_msg=name)


@pytest.mark.parametrize("n_threads", [2, 5])
def test_the_number_of_threads_changes_nothing(n_threads, monkeypatch):
    monkeypatch.setattr("apolar.data.rows.CHUNK_SIZE", 400)
    rows = open_rows(X, W)
    expected, sums = rows.reduce(SUMS), rows.reduce(SUMS, n_threads=n_threads)
    for expected_sum, computed in zip(expected, sums, strict=True):
        np.testing.assert_array_equal(computed, expected_sum)


def test_blocks_come_in_order(monkeypatch):
    monkeypatch.setattr("apolar.data.rows.CHUNK_SIZE", 400)
    firsts = on_checked(lambda block, _: block[0, 0])
    assert list(open_rows(X).map(firsts, n_threads=3)) == X[::100, 0].tolist()


@pytest.mark.parametrize("before", [[], [X[:0]], [(X[:9], np.zeros(9)), (X[:0], np.zeros(0))]])
def test_looking_at_the_first_rows_of_a_stream_loses_none(before):
    weighted = bool(before) and isinstance(before[0], tuple)
    chunks = [(X[:100], np.ones(100)), (X[100:], np.ones(4900))] if weighted else [X[:100], X[100:]]
    rows = open_rows(iter([*before, *chunks]))
    assert not rows.rereadable
    for _ in range(2):
        assert rows.first(on_checked(lambda block, _: block.shape[0])) == 100
    assert rows.reduce(SUMS)[2] == len(X)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_no_rows_are_refused(n_threads):
    with pytest.raises(ValueError, match="X has no rows"):
        open_rows(X[:0]).reduce(SUMS, n_threads=n_threads)
    with pytest.raises(ValueError, match="all zero"):
        open_rows(X, np.zeros(len(X))).reduce(SUMS, n_threads=n_threads)


def test_an_error_has_the_index_of_its_row():
    bad = X.copy()
    bad[777, 2] = np.nan
    with pytest.raises(ValueError, match="row 777, column 2") as caught:
        open_rows(bad).reduce(SUMS)
    assert caught.value.row == 777
    assert np.isnan(open_rows(bad).reduce(on_checked(weighted_sums, allows_missing=True))[1][2])


# --- covariances ----------------------------------------------------------------------------------


def test_the_moments_of_divided_rows_follow_from_those_of_the_rows():
    units = np.array([1e-3, 1.0, 1e3, 7.0])
    derived = row_moments(open_rows(X, W), has_covariance=True).divided(units)
    expected = row_moments(open_rows(X / units, W), has_covariance=True)
    for name in ("weight", "n_rows", "mean", "variances", "covariance"):
        np.testing.assert_allclose(getattr(derived, name), getattr(expected, name), rtol=1e-12)


def test_a_column_far_from_zero_keeps_its_digits_beside_wide_ones():
    far = RNG.standard_normal((4000, 2)) * [1e-3, 1e3] + [1e3, 0.0]
    expected = np.cov(far.T, bias=True)
    for has_covariance in (False, True):
        moments = row_moments(open_rows(far), has_covariance=has_covariance)
        np.testing.assert_allclose(moments.variances, np.diag(expected), rtol=1e-9)


def test_wide_sparse_rows_have_the_sums_of_dense_ones():
    kind = family("spherical")
    rows = sparse.random(2000, 300, density=0.05, random_state=3, format="csr")
    weights = W[: rows.shape[0]]
    dense, wide = (Problem(open_rows(table, weights), kind) for table in (rows.toarray(), rows))
    start = kind.m_step(dense.hard_stats(np.arange(dense.n_rows) % 3, 3), None)[None]
    for ours, expected in zip(wide.e_step(start), dense.e_step(start), strict=True):
        ours, expected = (getattr(sums, "array", sums) for sums in (ours, expected))
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-8)
    nearest = [data.nearest_stats(start[0].means).array for data in (wide, dense)]
    np.testing.assert_allclose(*nearest, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("kind", ["array", "dataframe", "mapped file"])
def test_rows_that_errors_name_are_counted_with_those_of_weight_zero(kind, tmp_path):
    values = np.arange(3000.0).reshape(1000, 3)
    values[777, 1] = np.nan
    weights = np.ones(1000)
    weights[100:200] = 0
    X = values
    if kind == "dataframe":
        X = pd.DataFrame(values, columns=["a", "b", "c"]).fillna(np.inf)
    elif kind == "mapped file":
        np.save(tmp_path / "rows.npy", values)
        X = np.load(tmp_path / "rows.npy", mmap_mode="r")
    with pytest.raises(ValueError, match="first in row 777, column (1|'b')"):
        apolar.MomentSketch(3).update(X, weights)
