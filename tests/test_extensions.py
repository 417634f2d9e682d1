"""What CONTRIBUTING says of additions: one file, here a few lines, and one entry of a table."""

import dataclasses
import json

import numpy as np
import polars as pl
import pytest

import apolar
from apolar import GaussianMixture, Prior
from apolar.cli.tables import read_table
from apolar.cli.tables.formats import FORMATS, TableFormat, open_lazily
from apolar.data import Rows
from apolar.data.sources import SOURCES, SourceKind
from apolar.decomposition.methods import METHODS
from apolar.mixture.families import FAMILIES
from apolar.mixture.prior import PRIORS, PriorTerms
from apolar.scores import CRITERIA, lower_is_better_aic
from apolar.search.starts import STARTS, StartEntry
from apolar.selection import Row

N_COMPONENTS = 3


RNG = np.random.default_rng(0)
LABELS, MEANS = RNG.integers(0, N_COMPONENTS, 600), 6 * RNG.standard_normal((N_COMPONENTS, 4))
VOLUMES, SHAPE = np.array([0.6, 1.0, 1.7]), np.array([2.0, 0.5, 1.25, 0.8])
# Three clusters of one shape, each with its own size.
X = MEANS[LABELS] + VOLUMES[LABELS, None] * np.sqrt(SHAPE) * RNG.standard_normal((600, 4))


# --- a covariance family: diagonal, of one shape, with volumes of their own ---------------------


def one_shape(_family, scatter, divisor, _near):
    """Return covariances v_k diag(a), which maximise the objective of the M-step."""
    n_features = scatter.shape[-1]
    volumes = np.exp(np.log(scatter / divisor[..., None]).mean(axis=-1))
    for _ in range(100):
        shape = (scatter / volumes[..., None]).sum(axis=-2)
        shape /= np.exp(np.log(shape).mean(axis=-1, keepdims=True))
        volumes = (scatter / shape[..., None, :]).sum(axis=-1) / (n_features * divisor)
    return volumes[..., None] * shape[..., None, :]


@pytest.fixture
def _shared_shape(monkeypatch):
    family = dataclasses.replace(FAMILIES["VEI"], name="shared_shape", code="its own", estimate=one_shape)
    monkeypatch.setitem(FAMILIES, family.name, family)


def fitted(X, kind="full", **parameters):
    return GaussianMixture(N_COMPONENTS, covariance_type=kind, random_state=0, **parameters).fit(X)


@pytest.mark.usefixtures("_shared_shape")
@pytest.mark.parametrize("start", ["auto", "moments", "kmeans", "mbhc"])
def test_a_family_is_fitted_from_every_start(start):
    model = fitted(X, "shared_shape", init_params=start)
    shapes = model.covariances_ / np.exp(np.log(model.covariances_).mean(axis=1, keepdims=True))
    np.testing.assert_allclose(shapes, np.broadcast_to(shapes[0], shapes.shape), rtol=1e-5)
    assert model.converged_
    # Between the families that share more and less, by more than the prior makes.
    likelihoods = [fitted(X, kind).lower_bound_ for kind in ("spherical", "tied_diag", "diag")]
    assert max(likelihoods[:2]) + 0.02 < model.lower_bound_ < likelihoods[2] + 1e-3


@pytest.mark.usefixtures("_shared_shape")
def test_a_family_is_saved_streamed_selected_and_has_standard_errors(tmp_path):
    model = fitted(X, "shared_shape")
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(GaussianMixture.load(tmp_path / "model.npz").predict(X), model.predict(X))
    errors, resampled = model.standard_errors(X), model.bootstrap(X, n_resamples=20).standard_errors()
    # Twenty resamples tell a standard error to about a sixth.
    assert 0.6 < np.median(errors.means / resampled.means) < 1.6
    assert 0.6 < np.median(errors.covariances / resampled.covariances) < 1.6
    selection = apolar.select(X, range(2, 5), ["diag", "shared_shape"], random_state=0)
    assert selection.best.covariance_type == "shared_shape"
    assert np.isfinite(model.partial_fit(X[:200]).lower_bound_)


# --- a start, a criterion, a method, a prior, a format ----------------------------------------


def test_a_start(monkeypatch):
    def by_first_column(data, n_components, prior, _):
        order = np.argsort(data.whitened_rows()[0])
        labels = np.empty(data.n_rows, dtype=np.intp)
        labels[order] = np.arange(data.n_rows) * n_components // data.n_rows
        return data.family.m_step(data.hard_stats(labels, n_components), prior)

    monkeypatch.setitem(STARTS, "sorted", StartEntry(by_first_column))
    for kind in ("full", "tied"):
        model = GaussianMixture(3, covariance_type=kind, init_params="sorted", random_state=0).fit(X)
        assert model.start_ == "sorted"
        assert model.converged_
    with pytest.raises(ValueError, match="init_params.*'sorted'"):
        GaussianMixture(3, init_params="other").fit(X)


def test_a_criterion(monkeypatch):
    def hannan_quinn(fit):
        more = 2 * fit.n_parameters * (np.log(np.log(fit.n_samples)) - 1)
        return lower_is_better_aic(fit.log_likelihood, fit.n_parameters) + more

    wider = dataclasses.make_dataclass("Row", [("hq", float, np.nan)], bases=(Row,), frozen=True)
    monkeypatch.setitem(CRITERIA, "hq", hannan_quinn)
    monkeypatch.setattr("apolar.selection.Row", wider)
    selection = apolar.select(X, range(2, 5), "diag", "hq", random_state=0)
    assert selection.best.n_components == N_COMPONENTS
    assert all(row.aic < row.hq < row.bic for row in selection.table)
    assert "lowest HQ" in str(selection)


def test_a_method_of_decomposition(monkeypatch):
    monkeypatch.setitem(METHODS, "twice", lambda problem, rng: METHODS["pencil"](problem, rng))
    tensor = apolar.SymmetricTensor.from_waring([1.0, 2.0], [[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]], 3)
    assert apolar.decompose(tensor, method="twice").residual < 1e-10
    with pytest.raises(ValueError, match="'twice'"):
        apolar.decompose(tensor, method="other")


@dataclasses.dataclass(frozen=True)
class Unpulled(Prior):
    """A prior on covariances alone: the means are those of the rows."""

    def terms(self, family, n_components, n_features):
        terms = super().terms(family, n_components, n_features)
        return PriorTerms(0.0, terms.scatter, terms.divisor, 0.0)


@pytest.mark.parametrize("kind", ["full", "tied_diag"])
def test_a_prior(kind, monkeypatch, tmp_path):
    monkeypatch.setitem(PRIORS, "Unpulled", Unpulled)
    model = GaussianMixture(1, covariance_type=kind, prior=Unpulled(dof=50.0), random_state=0).fit(X)
    np.testing.assert_allclose(model.means_[0], X.mean(axis=0), atol=1e-10)
    assert model.lower_bound_ < GaussianMixture(1, covariance_type=kind, prior=None).fit(X).lower_bound_
    model.save(tmp_path / "model.npz")
    assert GaussianMixture.load(tmp_path / "model.npz").prior == Unpulled(dof=50.0)


def test_a_file_format(monkeypatch, tmp_path):
    def open_json(file):
        return open_lazily(file, "JSON", lambda path: pl.read_json(path).lazy())

    monkeypatch.setitem(FORMATS, "json", TableFormat(open_json, (".json",), (b"[{",)))
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"a": float(i), "b": float(i % 3)} for i in range(9)]))
    table = read_table(str(path))
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.X[:, 1], np.arange(9) % 3)


# --- another place where rows are -------------------------------------------------------------


class Database(list):
    """Rows that a query returns, some at a time."""

    n_queries = 0

    def query(self, first, last):
        self.n_queries += 1
        return self[first:last]


class QueriedRows(Rows):
    """The rows of a `Database`."""

    n_features = property(lambda self: len(self.database[0]))
    n_rows = property(lambda self: len(self.database))

    def __init__(self, database):
        self.database = database

    def read(self, size):
        for first in range(0, self.n_rows, size):
            yield np.array(self.database.query(first, first + size)), None


def test_a_backend(monkeypatch):
    kind = SourceKind(lambda X: isinstance(X, Database), QueriedRows)
    # Before more general kinds, as the table asks for.
    monkeypatch.setattr("apolar.data.sources.SOURCES", {"database": kind, **SOURCES})
    database = Database(X.tolist())
    model, expected = fitted(database), fitted(X)
    np.testing.assert_allclose(model.means_, expected.means_, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(database), expected.predict(X))
    moments = apolar.MomentSketch(4).update(database).central()
    np.testing.assert_allclose(moments.covariance, np.cov(X.T, ddof=0), rtol=1e-10)
    assert database.n_queries > 1
