"""Hostile tables for what is built on mixtures: classes, imputation, variational fits, selection, moments."""

import warnings

import numpy as np

import apolar
from fuzz.estimator import FAMILIES, incomplete
from fuzz.outcomes import refused_on_purpose
from fuzz.tables import table, weights


def run(rng):
    """Give a table to one of the models; return what was tried."""
    kind, X = table(rng)
    weighted, sample_weight = weights(rng, len(X))
    name, family = str(rng.choice(list(MODELS))), str(rng.choice(FAMILIES))
    tried = f"{name} of {kind} {X.shape} {X.dtype}, {family}, weights {weighted}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            MODELS[name](rng, X, family, sample_weight)
    except (ValueError, TypeError) as error:
        refused_on_purpose(error)
        return f"{tried}: {error}"
    return tried


def _classifier(rng, X, family, sample_weight):
    y = rng.integers(0, int(rng.choice([2, 3])), size=len(X))
    if rng.random() < 0.3:
        y[rng.random(len(X)) < 0.5] = -1
    n_components = [1, 2, "auto"][rng.integers(3)]
    model = apolar.MixtureClassifier(n_components, covariance_type=family, random_state=0)
    shares = model.fit(X, y, sample_weight).predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    assert np.all(np.isin(model.predict(X), model.classes_))


def _imputer(rng, X, family, sample_weight):  # noqa: ARG001 - all models are called alike
    _, X = incomplete(rng, "", X)
    model = apolar.MixtureImputer(int(rng.integers(1, 4)), covariance_type=family, random_state=0)
    whole = model.fit(X).transform(X)
    assert np.all(np.isfinite(whole)), "an imputed value is not finite"


def _bayesian(rng, X, family, sample_weight):
    family = str(rng.choice(["full", "tied", "diag", "spherical"]))
    kind = str(rng.choice(["dirichlet_process", "dirichlet_distribution"]))
    model = apolar.BayesianGaussianMixture(
        int(rng.integers(1, 6)), covariance_type=family, weight_concentration_prior_type=kind, random_state=0
    )
    model.fit(X, sample_weight=sample_weight)
    for name in ("weights_", "means_", "covariances_", "lower_bound_"):
        assert np.all(np.isfinite(getattr(model, name))), f"{name} is not finite"
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1, dtype=float), 1, rtol=1e-5)
    assert np.all(np.isfinite(model.score_samples(X)))


def _selection(rng, X, family, sample_weight):
    criterion = str(rng.choice(["bic", "aic", "icl", "evidence", "loo", "clusters"]))
    distribution = [("gaussian",), ("gaussian", "t")][rng.integers(2)]
    found = apolar.select(
        X, range(1, 4), (family, "full"), criterion,
        sample_weight=sample_weight, random_state=0, distribution=distribution,
    )  # fmt: skip
    assert np.all(np.isfinite(found.best.score_samples(X)))


def _moments(rng, X, family, sample_weight):
    form = str(rng.choice(["equivariant", "paper"])) if family == "spherical" else "equivariant"
    mixture = apolar.mixture_from_moments(
        X, int(rng.integers(1, 4)), form, covariance_type=family, sample_weight=sample_weight, random_state=0
    )
    for name in ("weights", "means"):
        assert np.all(np.isfinite(getattr(mixture, name))), f"{name} are not finite"


def _questions(rng, X, family, sample_weight):
    """Ask a fitted mixture what takes more than its densities."""
    law = apolar.StudentMixture if rng.random() < 0.3 else apolar.GaussianMixture
    model = law(int(rng.integers(1, 4)), covariance_type=family, random_state=0)
    model.fit(X, sample_weight=sample_weight)
    question = str(rng.choice(list(QUESTIONS)))
    QUESTIONS[question](model, X)


MODELS = {
    "classifier": _classifier,
    "imputer": _imputer,
    "Bayesian": _bayesian,
    "selection": _selection,
    "moments": _moments,
    "questions": _questions,
}
QUESTIONS = {
    "standard errors": lambda model, X: model.standard_errors(X),
    "bootstrap": lambda model, X: model.bootstrap(X, n_resamples=3),
    "stability": lambda model, X: model.stability(X, n_resamples=3),
    "combination": lambda model, X: model.combine(X),
    "overlapping": lambda model, X: model.combine(X, by="overlap"),
    "left out": lambda model, X: model.loo_samples(X),
    "directions": lambda model, X: model.discriminating_directions(),
    "summary": lambda model, X: str(model.summary(X)),
    "text": lambda model, X: type(model).from_json(model.to_json()).score_samples(X),
    "query": lambda model, X: model.to_sql(),
    "one column": lambda model, X: model.regress(0, X[:, :1]),
}
