"""Labels of the fit, and fitted mixtures elsewhere: in scikit-learn, JSON and SQL."""

import functools
import json
import sqlite3

import numpy as np
import pandas as pd
import pytest
import sklearn.mixture
from scipy import sparse
from sklearn.base import clone, is_clusterer
from sklearn.exceptions import NotFittedError

from apolar import BayesianGaussianMixture, GaussianMixture, StudentMixture
from mixtures import FAMILY_NAMES

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.standard_normal((60, 3)) * [1, 2, 0.5] + shift for shift in (0, 5, [0, 9, -4])])
NEW = RNG.standard_normal((300, 3)) * 5


def fit(kind="full", rows=X, cls=GaussianMixture, **parameters):
    return cls(3, covariance_type=kind, init_params="kmeans", random_state=0, **parameters).fit(rows)


KINDS = [(GaussianMixture, kind, {}) for kind in FAMILY_NAMES] + [
    (BayesianGaussianMixture, kind, {"weight_concentration_prior_type": prior_type, "max_iter": 500})
    for kind in ("full", "tied", "diag", "spherical", "tied_diag", "tied_spherical")
    for prior_type in ("dirichlet_process", "dirichlet_distribution")
]
OTHERS = [
    (GaussianMixture, "full", {"noise": True}),
    (StudentMixture, "full", {}),
    (GaussianMixture, "factor", {"n_factors": 1}),
]


@pytest.fixture(scope="module")
def fitted():
    """A function that returns the mixture of an entry of these lists, fitted once."""
    return functools.cache(lambda cls, kind, *items: fit(kind, cls=cls, **dict(items)))


@pytest.fixture
def model(request, fitted):
    cls, kind, parameters = request.param
    return fitted(cls, kind, *parameters.items())


def each_of(kinds):
    names = [f"{cls.__name__}-{kind}" for cls, kind, _ in kinds]
    return pytest.mark.parametrize("model", kinds, ids=names, indirect=True)


# --- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [GaussianMixture, StudentMixture, BayesianGaussianMixture])
def test_labels_are_those_of_the_rows_of_the_fit(cls):
    model = cls(3, init_params="kmeans", random_state=0, max_iter=500)
    assert is_clusterer(model)
    assert not hasattr(model, "labels_")
    with pytest.raises(NotFittedError):
        _ = model.labels_
    weights = np.arange(len(X)) % 3
    for rows in (X, X.tolist(), pd.DataFrame(X, columns=["a", "b", "c"])):
        model.fit(rows, sample_weight=weights)
        np.testing.assert_array_equal(model.labels_, model.predict(rows))
    np.testing.assert_array_equal(clone(model).fit_predict(X), model.fit(X).labels_)


def test_labels_are_not_those_of_an_earlier_fit(tmp_path):
    model = fit()
    np.testing.assert_array_equal(model.fit(sparse.csr_array(X)).labels_, model.predict(X))
    model.save(tmp_path / "model.npz")
    np.save(tmp_path / "rows.npy", X)
    elsewhere = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for other in (
        fit(rows=[X[:90], X[90:]]),
        fit(rows=elsewhere),
        GaussianMixture.load(tmp_path / "model.npz"),
        fit().partial_fit(X),
    ):
        with pytest.raises(AttributeError, match=r"call predict\(X\)"):
            _ = other.labels_
    np.testing.assert_array_equal(
        clone(model).fit_predict([X[:90], X[90:]]), model.fit([X[:90], X[90:]]).predict(X)
    )


def test_noise_is_labelled_in_the_fit():
    rows = np.vstack([X, RNG.uniform(-20, 20, (30, 3))])
    model = fit(rows=rows, noise=True)
    assert (model.labels_ == -1).sum() > 10
    np.testing.assert_array_equal(model.labels_, model.predict(rows))


# --- scikit-learn -------------------------------------------------------------------------------


@each_of(KINDS)
def test_scikit_learn_says_the_same_of_rows(model):
    theirs = model.to_sklearn()
    assert type(theirs) is getattr(sklearn.mixture, type(model).__name__)
    np.testing.assert_array_equal(theirs.predict(NEW), model.predict(NEW))
    np.testing.assert_allclose(theirs.predict_proba(NEW), model.predict_proba(NEW), atol=1e-9)
    np.testing.assert_allclose(theirs.score_samples(NEW), model.score_samples(NEW), rtol=1e-9)
    assert theirs.sample(4)[0].shape == (4, 3)
    assert theirs.converged_ is model.converged_
    if model.covariance_type in ("full", "tied", "diag", "spherical"):
        for name in ("covariances_", "precisions_", "precisions_cholesky_"):
            np.testing.assert_allclose(getattr(theirs, name), getattr(model, name), rtol=1e-12)
    # It is a copy that can be fitted again.
    theirs.covariances_ += 1
    assert not np.allclose(theirs.covariances_, model.covariances_)
    clone(theirs).fit(X)


def test_what_scikit_learn_has_not_is_refused():
    with pytest.raises(ValueError, match="noise=False"):
        fit(noise=True).to_sklearn()
    with pytest.raises(ValueError, match="fit a GaussianMixture"):
        fit(cls=StudentMixture).to_sklearn()
    with pytest.raises(NotFittedError):
        GaussianMixture().to_sklearn()


# --- JSON ---------------------------------------------------------------------------------------


@each_of(KINDS + OTHERS)
def test_json_holds_all_digits(model):
    again = type(model).from_json(model.to_json())
    names = {name for name in vars(model) if name.endswith("_")}
    assert names == {name for name in vars(again) if name.endswith("_")}
    for name in names - {"noise_box_", "random_state"}:
        a, b = getattr(again, name), getattr(model, name)
        assert type(a) is type(b), name
        np.testing.assert_array_equal(a, b, err_msg=name)
    for method in ("predict", "predict_proba", "score_samples"):
        assert getattr(again, method)(NEW).tobytes() == getattr(model, method)(NEW).tobytes()
    assert again.to_json() == model.to_json()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "version 2; this library reads 1"),
        ({"weights_": [0.5, 0.5]}, "weights_ must be float64 of shape"),
        ({"weights_": [0.5, 0.4, 0.4]}, "must add up to one"),
        ({"weights_": [[0.5], 1, 2]}, "weights_ is ragged"),
        ({"covariances_": np.zeros((3, 3, 3)).tolist()}, "covariances_ must be positive definite"),
        ({"parameters": {"n_components": 3, "wrong": 1}}, "no parameter 'wrong'"),
        ({"n_iter_": "three"}, "n_iter_ must be a single int"),
    ],
)
def test_json_is_checked(changes, message):
    content = json.loads(fit().to_json()) | changes
    with pytest.raises(ValueError, match=message):
        GaussianMixture.from_json(json.dumps(content))


def test_json_of_something_else_is_refused():
    text = fit().to_json()
    for wrong in ("", "[]", "{", "3", text[:-5], "[" * 100_000):
        with pytest.raises(ValueError, match="The text is not"):
            GaussianMixture.from_json(wrong)
    content = json.loads(text)
    del content["means_"]
    with pytest.raises(ValueError, match="it has no means_"):
        GaussianMixture.from_json(json.dumps(content))
    with pytest.raises(ValueError, match="NaN"):
        GaussianMixture.from_json(text.replace('"n_iter_": ', '"n_iter_": NaN, "other": '))
    with pytest.raises(ValueError, match="no parameter"):
        BayesianGaussianMixture.from_json(text)
    posterior = json.loads(fit(cls=BayesianGaussianMixture).to_json())
    for name, value in (("mean_precision_", [1.0, 0.0, 1.0]), ("mean_prior_", [0.0])):
        with pytest.raises(ValueError, match=name):
            BayesianGaussianMixture.from_json(json.dumps(posterior | {name: value}))
    del posterior["degrees_of_freedom_"]
    with pytest.raises(ValueError, match="no degrees_of_freedom_"):
        BayesianGaussianMixture.from_json(json.dumps(posterior))


# --- SQL ----------------------------------------------------------------------------------------


def sqlite_labels(model, rows, names):
    database = sqlite3.connect(":memory:")
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    database.execute(f"CREATE TABLE t ({', '.join(quoted)})")
    database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", rows.tolist())
    return [label for (label,) in database.execute(f"SELECT {model.to_sql('sqlite')} FROM t")]


@each_of(KINDS + OTHERS[:1])
def test_sqlite_gives_the_same_labels(model):
    assert sqlite_labels(model, NEW, ["x0", "x1", "x2"]) == model.predict(NEW).tolist()


def test_sql_far_from_zero_of_odd_names_and_of_one_component():
    names = ['say "a"', "select", "c d"]
    rows = pd.DataFrame(X + 1e6, columns=names)
    model = fit(rows=rows)
    assert (
        sqlite_labels(model, NEW + 1e6, names)
        == model.predict(pd.DataFrame(NEW + 1e6, columns=names)).tolist()
    )
    assert '`say "a"`' in model.to_sql("mysql")
    assert "[select]" in model.to_sql("tsql")
    one = GaussianMixture(1, random_state=0).fit(X)
    with_gap = NEW.astype(object)
    with_gap[3, 1] = None
    labels = sqlite_labels(one, with_gap, ["x0", "x1", "x2"])
    assert labels[3] is None
    assert set(labels[:3] + labels[4:]) == {0}
    assert sqlite_labels(fit(), with_gap, ["x0", "x1", "x2"])[3] is None


def test_what_sql_cannot_say_is_refused():
    with pytest.raises(ValueError, match="dialect must be one of"):
        fit().to_sql("cobol")
    with pytest.raises(ValueError, match="fit a GaussianMixture"):
        fit(cls=StudentMixture).to_sql()
