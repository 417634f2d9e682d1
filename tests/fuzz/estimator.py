"""Fits of hostile tables: a sound mixture, or an error that says what to do."""

import warnings

import numpy as np

import apolar
from fuzz.outcomes import refused_on_purpose
from fuzz.tables import table, weights

FAMILIES = ("full", "tied", "diag", "spherical", "tied_diag", "tied_spherical")
STARTS = ("auto", "auto", "auto", "moments", "overseed", "kmeans", "mbhc", "emem", "k-means++",
          "random_from_data", "random")  # fmt: skip
STRONG = apolar.Prior(shrinkage=1e-8, dof=1e6, scale=1e-6)
PRIORS = ("default", "default", None, apolar.Prior(), STRONG)


def parameters(rng):
    """Return parameters of the estimator, most of them sound."""
    return {
        "n_components": int(rng.choice([1, 2, 2, 3, 3, 5, 10, 40])),
        "covariance_type": str(rng.choice(FAMILIES)),
        "init_params": str(rng.choice(STARTS)),
        "prior": PRIORS[rng.integers(len(PRIORS))],
        "reg_covar": [None, None, None, 0, 1e-6, 1e-300, 1e300][rng.integers(7)],
        "max_iter": int(rng.choice([0, 1, 3, 500, 500, 500])),
        "tol": float(rng.choice([1e-3, 1e-3, 0, 1e-9, 1.0])),
        "random_state": int(rng.integers(100)),
    }


def run_incomplete(rng):
    """Fit a table with missing values, and replace them; return what was tried."""
    kind, X = table(rng)
    X = X.astype(np.float32 if X.dtype == np.float32 else np.float64)
    X[rng.random(X.shape) < rng.choice([0.02, 0.1, 0.3, 0.7])] = np.nan
    return run_on(rng, f"incomplete {kind}", X)


def run(rng):
    """Fit a table; return what was tried."""
    return run_on(rng, *table(rng))


def run_on(rng, kind, X):
    """Fit a table of some kind; return what was tried."""
    weighted, sample_weight = weights(rng, len(X))
    chosen = parameters(rng)
    tried = f"{kind} {X.shape} {X.dtype}, weights {weighted}, {chosen}"
    model = apolar.GaussianMixture(**chosen)
    try:
        # Warnings of the library are for people; those of NumPy are defects, and stay errors.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, sample_weight=sample_weight)
    except (ValueError, TypeError) as error:
        refused_on_purpose(error)
        assert not hasattr(model, "weights_"), "a fit that failed left something behind"
        return f"{tried}: {error}"
    sound(model, X, sample_weight)
    return tried


def sound(model, X, sample_weight):
    """Check what a fitted mixture says of itself and of its rows."""
    for name in (
        "weights_",
        "means_",
        "covariances_",
        "precisions_",
        "precisions_cholesky_",
        "lower_bound_",
        "evidence_",
    ):
        assert np.all(np.isfinite(getattr(model, name))), f"{name} is not finite"
    np.testing.assert_allclose(model.weights_.sum(dtype=float), 1, rtol=1e-5)
    assert np.all(model.weights_ >= 0)
    covariances = np.asarray(model.covariances_, dtype=float)
    is_matrix = model.covariance_type in ("full", "tied")
    spreads = np.diagonal(covariances, axis1=-2, axis2=-1) if is_matrix else covariances
    assert np.all(spreads > 0), "a variance is not positive"
    densities, posteriors = model.score_samples(X), model.predict_proba(X)
    assert np.all(np.isfinite(densities)), "a log-density is not finite"
    np.testing.assert_allclose(posteriors.sum(axis=1), 1, rtol=1e-5)
    single = X.dtype == np.float32
    # Rounded to single precision, two of them may be equal.
    largest = posteriors[np.arange(len(X)), model.predict(X)]
    assert np.all(largest >= posteriors.max(axis=1) - (1e-6 if single else 0))
    size = np.abs(densities.astype(float)).max() + 1
    score = model.score(X)
    assert abs(score - densities.mean(dtype=float)) <= (1e-5 if single else 1e-9) * size
    bound = score if sample_weight is None else model.score(X, sample_weight=sample_weight)
    assert abs(bound - model.lower_bound_) <= 1e-9 * size, f"lower_bound_ {model.lower_bound_}, score {bound}"
    assert np.isfinite(model.bic(X)) and np.isfinite(model.aic(X)) and np.isfinite(model.icl(X))  # noqa: PT018
    assert np.all(np.isfinite(model.sample(5)[0])), "a sampled row is not finite"
    if np.any(np.isnan(X)):
        assert np.all(np.isfinite(model.impute(X))), "an imputed value is not finite"
        assert np.all(np.isfinite(model.impute(X, n_draws=2))), "a drawn value is not finite"
    if model.converged_ and model.n_components > 1 and model.prior is not STRONG:
        not_worse_than_one_component(model, X, sample_weight)


def not_worse_than_one_component(model, X, sample_weight):
    """Check that more components do not lower the likelihood."""
    has_prior = isinstance(model.prior, apolar.Prior) or (model.prior is not None and model.reg_covar is None)
    if has_prior and len(np.unique(X, axis=0)) < 10:
        return  # the prior, which depends on the number of components, decides
    n_rows = min(model.n_samples_seen_, len(X))
    if isinstance(model.prior, str) and n_rows < 2 * model.n_parameters_:
        return  # covariances are those of few rows and of the others, and not the likeliest
    single = apolar.GaussianMixture(**model.get_params() | {"n_components": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        alone = single.fit(X, sample_weight=sample_weight).lower_bound_
    slack = 1e-6 * (1 + abs(alone)) + 1e-3
    if has_prior:
        # The prior is for each component: it may take half a nat for each parameter.
        slack += 0.5 * model.n_parameters_ / model.n_samples_seen_
    assert model.lower_bound_ >= alone - slack, f"one component is better: {model.lower_bound_} < {alone}"
