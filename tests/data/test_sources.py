"""The same rows in every kind of table: the same sums, samples, fits, answers and errors, in any threads."""

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from dask import array as da
from dask import dataframe as dd
from pyarrow import dataset
from scipy import sparse

import apolar
from apolar._core.namespaces import to_numpy
from mixtures import pairs

X, _ = apolar.datasets.make_example(1, 2100, random_state=0)
RNG = np.random.default_rng(1)
NAMES = list("abcdef")
WEIGHTS = {"none": None, "some": RNG.uniform(0.2, 2.0, len(X)), "zeros": RNG.integers(0, 3, len(X)) * 1.0}


class Chunks:
    """A rereadable iterable of chunks."""

    def __init__(self, rows, weights):
        self.rows, self.weights = rows, weights

    def __iter__(self):
        for part in np.array_split(np.arange(len(self.rows)), 7):
            yield self.rows[part] if self.weights is None else (self.rows[part], self.weights[part])


def _mapped(rows, folder, mode="r"):
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, rows)
    return np.load(path, mmap_mode=mode)


KINDS = {
    "nested lists": lambda rows, _: rows.tolist(),
    "sparse": lambda rows, _: sparse.csr_array(rows),
    "memory map": _mapped,
    "writable memory map": lambda rows, folder: _mapped(rows, folder, "r+"),
    "memory map of columns": lambda rows, folder: _mapped(np.asfortranarray(rows), folder),
    "part of a memory map": lambda rows, folder: _mapped(np.pad(rows, 3), folder)[3:-3, 3:-3],
    "pandas": lambda rows, _: pd.DataFrame(rows, columns=NAMES),
    "polars": lambda rows, _: pl.DataFrame(rows, schema=NAMES),
    "pyarrow": lambda rows, _: pa.table({name: rows[:, i] for i, name in enumerate(NAMES)}),
    "data set": lambda rows, _: dataset.dataset(pa.Table.from_pandas(pd.DataFrame(rows, columns=NAMES))),
    "another library": lambda rows, _: array_api_strict.asarray(rows.copy()),
    "Dask": lambda rows, _: da.from_array(rows, chunks=(len(rows) // 3 - 1, 4)),
    "frame of Dask": lambda rows, _: dd.from_pandas(pd.DataFrame(rows, columns=NAMES), npartitions=3),
}
pytestmark = pytest.mark.filterwarnings("ignore:X has feature names")
each_kind = pytest.mark.parametrize("kind", [*KINDS, "chunks"])


def table(kind, rows, weights, folder):
    """Return a table of a kind, and the weights that are passed with it."""
    if kind == "chunks":
        return Chunks(rows, weights), None
    return KINDS[kind](rows, folder), weights


def on_host(answer):
    return to_numpy(answer.compute() if hasattr(answer, "compute") else answer)


@pytest.fixture(scope="module")
def expected():
    return {name: fitted(X, weights) for name, weights in WEIGHTS.items()}


def fitted(rows, weights=None):
    model = apolar.GaussianMixture(4, covariance_type="spherical", random_state=0)
    return model.fit(rows, sample_weight=weights)


@pytest.mark.parametrize(("kind", "weighted"), pairs([*KINDS, "chunks"], list(WEIGHTS)))
def test_fits_and_answers_are_the_same(kind, weighted, expected, tmp_path, monkeypatch):
    monkeypatch.setattr("apolar.data.rows.CHUNK_SIZE", 700)
    rows, weights = table(kind, X, WEIGHTS[weighted], tmp_path)
    model, of_array = fitted(rows, weights), expected[weighted]
    # EM may stop elsewhere near the same optimum, as sums differ by rounding.
    assert model.lower_bound_ == pytest.approx(of_array.lower_bound_, abs=1e-7)
    np.testing.assert_allclose(model.means_, of_array.means_, atol=1e-3)
    assert model.n_samples_seen_ == pytest.approx(of_array.n_samples_seen_)
    assert of_array.score(rows, sample_weight=weights) == pytest.approx(
        of_array.score(X, sample_weight=WEIGHTS[weighted]), rel=1e-12
    )
    # Rows of weight zero in chunks are skipped.
    rows = Chunks(X, None) if kind == "chunks" else rows
    np.testing.assert_array_equal(on_host(of_array.predict(rows)), of_array.predict(X))
    posteriors = on_host(of_array.predict_proba(rows))
    np.testing.assert_allclose(posteriors, of_array.predict_proba(X), atol=1e-9)
    if kind != "sparse":
        np.testing.assert_array_equal(on_host(of_array.outliers(rows)), of_array.outliers(X))
    if hasattr(model, "feature_names_in_"):
        assert list(model.feature_names_in_) == NAMES


@each_kind
def test_what_is_wrong_is_named(kind, expected, tmp_path):
    weights = np.ones(1000)
    weights[100:200] = 0
    bad = X[:1000].copy()
    bad[777, 2] = np.inf
    # Rows are counted with those of weight zero, except in chunks, whose weights come with them.
    rows, given = table(kind, bad, weights, tmp_path)
    if kind not in ("sparse", "chunks"):
        with pytest.raises(ValueError, match="first in row 777, column (2|'c')|row 1.. on.*partition"):
            apolar.MomentSketch(6).update(rows, given)
    for method in ("predict", "score_samples", "score"):
        with pytest.raises(ValueError, match="NaN or infinity|contains infinity"):
            on_host(getattr(expected["none"], method)(rows))
    for wrong, message in ((weights - 0.5, "negative"), (0 * weights, "all zero")):
        rows, given = table(kind, X[:1000], wrong, tmp_path)
        with pytest.raises(ValueError, match=message):
            apolar.MomentSketch(6).update(rows, given)
    if kind in ("sparse", "pandas", "polars", "pyarrow", "data set", "another library"):
        with pytest.raises(ValueError, match="X has no rows"):
            apolar.MomentSketch(6).update(*table(kind, X[:0], None, tmp_path))


@pytest.mark.parametrize(
    ("kind", "has_noise"), [("chunks", True), ("Dask", False), ("another library", True)]
)
def test_noise_and_rounded_columns_are_the_same(kind, has_noise, tmp_path):
    rows = np.vstack([X[:1500], 40 * RNG.uniform(-1, 1, (100, 6))]) if has_noise else np.round(X[:1500] / 6)
    given, _ = table(kind, rows, None, tmp_path)
    settings = {"covariance_type": "diag", "noise": has_noise, "random_state": 0}
    ours, theirs = (apolar.GaussianMixture(4, **settings).fit(each) for each in (given, rows))
    # The tolerance of EM.
    np.testing.assert_allclose(ours.means_, theirs.means_, atol=1e-3)
    np.testing.assert_allclose(ours.rounding_variances_, theirs.rounding_variances_)
    assert np.any(ours.rounding_variances_) != has_noise
    assert ours.noise_weight_ == pytest.approx(theirs.noise_weight_, rel=1e-4)
    np.testing.assert_array_equal(on_host(theirs.predict(given)), theirs.predict(rows))


ROWS = np.random.default_rng(0).standard_normal((5000, 4)) * [1, 2, 3, 4] + [0, 1, 0, 5]


@pytest.mark.parametrize("before", [[], [ROWS[:0]], [(ROWS[:9], np.zeros(9)), (ROWS[:0], np.zeros(0))]])
def test_looking_at_the_first_rows_of_a_stream_loses_none(before):
    chunks = [ROWS[:100], ROWS[100:]]
    if before and isinstance(before[0], tuple):
        chunks = [(rows, np.ones(len(rows))) for rows in chunks]
    assert apolar.MomentSketch(4).update(iter([*before, *chunks])).n_rows == len(ROWS)


def test_an_error_has_the_index_of_its_row():
    bad = ROWS.copy()
    bad[777, 2] = np.inf
    with pytest.raises(ValueError, match="row 777, column 2") as caught:
        apolar.MomentSketch(4).update(bad)
    assert caught.value.row == 777


def test_a_column_far_from_zero_keeps_its_digits_next_to_wide_ones():
    far = np.random.default_rng(0).standard_normal((4000, 2)) * [1e-3, 1e3] + [1e3, 0.0]
    model = apolar.GaussianMixture(1, prior=None).fit(far)
    np.testing.assert_allclose(np.diag(model.covariances_[0]), np.var(far, axis=0), rtol=1e-9)


class Unsteady:
    """An iterable of chunks that has other rows from some pass on."""

    def __init__(self, first, later, n_first):
        self.first, self.later, self.n_first = first, later, n_first

    def __iter__(self):
        self.n_first -= 1
        return iter(np.array_split(ROWS[: self.first if self.n_first >= 0 else self.later], 7))


@pytest.mark.parametrize("n_first", [5, 6, 8])
@pytest.mark.parametrize(("later", "said"), [(2000, "2000"), (3000, "more")])
def test_an_iterable_that_yields_other_rows_later_is_refused(n_first, later, said):
    first = 5000 - later
    with pytest.raises(ValueError, match=f"X had {first} rows in one pass .* and {said} in a later one"):
        apolar.GaussianMixture(3, random_state=0).fit(Unsteady(first, later, n_first))
