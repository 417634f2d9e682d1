"""Sparse rows of many columns, which are never converted to dense arrays."""

import numpy as np
import pytest
from scipy import sparse

import apolar
from apolar.scores import adjusted_rand_index


def topics(n_rows=1500, n_columns=1000, n_topics=4, per_row=40, seed=0):
    """Return rows of norm one, with most entries in the columns of their topic, and their topics."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_topics, n_rows)
    topic_columns = rng.integers(0, n_columns, (n_topics, n_columns // 20))
    columns = rng.integers(0, n_columns, (n_rows, per_row))
    is_on_topic = rng.random((n_rows, per_row)) < 0.6
    choices = rng.integers(0, topic_columns.shape[1], (n_rows, per_row))
    columns = np.where(is_on_topic, topic_columns[labels[:, None], choices], columns)
    indptr = np.arange(0, n_rows * per_row + 1, per_row)
    X = sparse.csr_matrix((np.ones(n_rows * per_row), columns.ravel(), indptr), shape=(n_rows, n_columns))
    X.sum_duplicates()
    return sparse.csr_matrix(X.multiply(1 / np.sqrt(X.multiply(X).sum(axis=1)))), labels


X, LABELS = topics()


@pytest.fixture
def never_dense(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a sparse matrix was made dense")

    for kind in (sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.csc_array):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)


def fitted(rows, kind="spherical", **kwargs):
    weight = kwargs.pop("sample_weight", None)
    return apolar.GaussianMixture(4, covariance_type=kind, random_state=0, **kwargs).fit(
        rows, sample_weight=weight
    )


@pytest.mark.usefixtures("never_dense")
@pytest.mark.parametrize("kind", ["spherical", "tied_spherical"])
def test_clusters_are_found(kind):
    model = fitted(X, kind)
    assert adjusted_rand_index(LABELS, model.predict(X)) > 0.95
    assert model.means_.shape == (4, 1000)
    assert any("leading directions" in note for note in model.start_notes_)
    assert np.isfinite(model.bic(X))


@pytest.mark.usefixtures("never_dense")
@pytest.mark.parametrize("start", ["moments", "mbhc"])
def test_every_start(start):
    assert adjusted_rand_index(LABELS, fitted(X, init_params=start).predict(X)) > 0.4


@pytest.mark.filterwarnings("ignore::apolar.exceptions.FewRowsWarning")
@pytest.mark.parametrize(
    ("kind", "weights"),
    [
        ("spherical", np.random.default_rng(0).uniform(0.5, 2, 1000)),
        pytest.param("tied_spherical", None, marks=pytest.mark.slow),
    ],
)
def test_the_same_as_dense_rows(kind, weights):
    some, options = X[:1000, :600], {"sample_weight": weights, "tol": 1e-6}
    dense = some.toarray()
    options["means_init"] = fitted(some, kind).means_ + 1e-3
    model, expected = fitted(some, kind, **options), fitted(dense, kind, **options)
    np.testing.assert_allclose(model.means_, expected.means_, atol=1e-7)
    np.testing.assert_allclose(model.covariances_, expected.covariances_, rtol=1e-6)
    np.testing.assert_allclose(model.score_samples(some), model.score_samples(dense), rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(some), model.predict_proba(dense), atol=1e-8)


@pytest.mark.usefixtures("never_dense")
def test_chunks_of_sparse_rows_and_counts_of_small_integers():
    chunks = [X[:500], X[500:700], X[700:]]
    assert adjusted_rand_index(LABELS, fitted(chunks).predict(chunks)) > 0.95
    counts = sparse.csr_matrix(X.multiply(120).astype(np.int8))
    model = fitted(counts)
    np.testing.assert_allclose(model.means_, fitted(counts.astype(np.float64)).means_, atol=1e-9)
    assert adjusted_rand_index(LABELS, model.predict(counts)) > 0.9


def test_other_families_and_one_component():
    model = fitted(X[:, :300], "diag", init_params="kmeans", tol=100.0)
    assert model.covariances_.shape == (4, 300)
    assert apolar.GaussianMixture(1, covariance_type="spherical").fit(X).means_.shape == (1, 1000)
    with pytest.raises(MemoryError, match="'diag' or 'spherical'"):
        fitted(sparse.csr_matrix((50, 2_000_000)), "full")


@pytest.mark.usefixtures("never_dense")
def test_a_stream_of_sparse_rows():
    model = apolar.GaussianMixture(4, covariance_type="spherical", random_state=0)
    for start in range(0, 1500, 500):
        model.partial_fit(X[start : start + 500])
    assert adjusted_rand_index(LABELS, model.predict(X)) > 0.9


def test_values_whose_sums_overflow_both_ways_are_refused():
    values = np.random.default_rng(0).standard_normal((4000, 2))
    values[:2000, 1], values[2000:, 1] = 1.5e308, -1.5e308
    for table in (values, sparse.csr_array(values)):
        with pytest.raises(ValueError, match="Column 1 of X has"):
            apolar.GaussianMixture(2, covariance_type="diag", random_state=0).fit(table)
