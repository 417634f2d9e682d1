"""Every kind of table gives the same result as a NumPy array."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import apolar
from mixtures import distance

X, _ = apolar.datasets.make_example(1, 3000, random_state=0)
W = np.random.default_rng(1).uniform(0.5, 1.5, 3000)
NAMES = list("abcdef")


TABLE = pa.table(list(X.T), names=NAMES)
# Others are in tests/data.
TABLES = {
    "strided": np.repeat(X, 2, axis=1)[:, ::2],
    "read-only": np.frombuffer(X.tobytes()).reshape(X.shape),
    "object array": X.astype(object),
    "pandas, numbered columns": pd.DataFrame(X),
    "pandas, repeated names": pd.DataFrame(X, columns=list("aabcde")),
    "pandas, two levels": pd.concat({"a": pd.DataFrame(X)}, axis=1),
    "pandas, nullable": pd.DataFrame(X, columns=NAMES).astype("Float64"),
    "pyarrow batch": TABLE.to_batches()[0],
    "pyarrow, repeated names": pa.table(list(X.T), names=list("aabcde")),
    "csc": sparse.csc_matrix(X),
}
STREAMS = {
    "list of chunks": lambda: np.array_split(X, 7),
    "list of frames": lambda: [pd.DataFrame(part, columns=NAMES) for part in np.array_split(X, 3)],
    "list with empty chunks": lambda: [X[:0], X[:5], X[5:5], X[5:]],
    "generator with empty chunks": lambda: iter([X[:0], X[:5], X[5:5], X[5:]]),
    "pyarrow reader": lambda: TABLE.to_reader(500),
}


@pytest.mark.parametrize("kind", [*TABLES, *STREAMS])
def test_a_table_is_a_table(kind):
    def table():
        return STREAMS[kind]() if kind in STREAMS else TABLES[kind]

    expected = apolar.mixture_from_moments(X, 4), apolar.spherical_moments(X).third
    assert distance(expected[0], apolar.mixture_from_moments(table(), 4)) < 1e-9
    assert (apolar.spherical_moments(table()).third - expected[1]).norm() < 1e-9 * expected[1].norm()
    if kind in TABLES:
        weighted = apolar.mixture_from_moments(X, 4, sample_weight=W)
        assert distance(weighted, apolar.mixture_from_moments(table(), 4, sample_weight=W)) < 1e-9
        assert distance(expected[0], weighted) > 1e-4


@pytest.mark.parametrize("form", ["equivariant", "paper"])
def test_only_the_ratios_of_weights_below_one_matter(form):
    expected = apolar.mixture_from_moments(X, 4, form, sample_weight=W / W.mean(), random_state=0)
    mixture = apolar.mixture_from_moments(X, 4, form, sample_weight=W / W.sum(), random_state=0)
    assert distance(expected, mixture) < 1e-9
    small = apolar.n_components_from_spectrum(X, W / W.sum())
    assert small.n_components == apolar.n_components_from_spectrum(X, W).n_components


def test_chunks_may_have_weights():
    pairs = list(zip(np.array_split(X, 5), np.array_split(W, 5), strict=True))
    expected = apolar.mixture_from_moments(X, 4, sample_weight=W)
    assert distance(expected, apolar.mixture_from_moments(pairs, 4)) < 1e-9
    assert distance(expected, apolar.mixture_from_moments(iter(pairs), 4)) < 1e-9
    with pytest.raises(ValueError, match="pairs"):
        apolar.mixture_from_moments(np.array_split(X, 5), 4, sample_weight=W)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int16, np.uint8, bool])
def test_every_type_of_number(dtype):
    rows = np.abs(X * 10).astype(dtype) if dtype is not bool else X > 0
    expected = apolar.MomentSketch(6).update(rows.astype(np.float64)).central()
    central = apolar.MomentSketch(6).update(rows).central()
    np.testing.assert_array_equal(central.third.coefficients, expected.third.coefficients)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), TypeError, "Column 'b'"),
        (pl.DataFrame({"a": [1.0, None]}), ValueError, "NaN or infinity.*column 'a'.*impute"),
        (pd.DataFrame({"a": [1.0, np.nan]}), ValueError, "NaN or infinity.*column 'a'.*impute"),
        ([], ValueError, "table"),
        ([[1.0, 2.0], [3.0]], ValueError, "ragged"),
        (pl.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]}).lazy(), TypeError, "collect"),
        (np.ma.masked_array(np.eye(3), np.eye(3) > 0), ValueError, "masked"),
        (sparse.csr_array(np.eye(3) * 1j), TypeError, "complex"),
        (sparse.coo_array(np.ones(3)), ValueError, "two-dimensional"),
        (np.array([["1", "2"], ["3", "4"]]), TypeError, "numbers"),
        (np.zeros((5, 0)), ValueError, "no columns"),
        (iter([]), ValueError, "without chunks"),
        (None, TypeError, "X must be"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused(table, error, message):
    with pytest.raises(error, match=message):
        apolar.mixture_from_moments(table, 2)
