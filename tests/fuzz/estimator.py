"""Fits of hostile tables: a sound mixture, or an error that says what to do."""

import tempfile
import warnings
from pathlib import Path

import numpy as np

import apolar
from fuzz.outcomes import refused_on_purpose
from fuzz.tables import table, weights

# What the first two targets draw from: with more families, seeds that did harm would be other cases.
FIRST_FAMILIES = ("full", "tied", "diag", "spherical", "tied_diag", "tied_spherical")
FAMILIES = (*FIRST_FAMILIES, "VEI", "EVI", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV")
MATRICES = ("full", "tied", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV")
UNIVARIATE = ("E", "V")
STARTS = ("auto", "auto", "auto", "moments", "overseed", "kmeans", "mbhc", "emem", "k-means++",
          "random_from_data", "random")  # fmt: skip
STRONG = apolar.Prior(shrinkage=1e-8, dof=1e6, scale=1e-6)
PRIORS = ("default", "default", None, apolar.Prior(), STRONG)
# The products of a pass over rows that lack different values, about: some seconds for a fit.
WORK = 10**8


def parameters(rng):
    """Return parameters of the estimator, most of them sound."""
    return {
        "n_components": int(rng.choice([1, 2, 2, 3, 3, 5, 10, 40])),
        "covariance_type": str(rng.choice(FIRST_FAMILIES)),
        "init_params": str(rng.choice(STARTS)),
        "prior": PRIORS[rng.integers(len(PRIORS))],
        "reg_covar": [None, None, None, 0, 1e-6, 1e-300, 1e300][rng.integers(7)],
        "max_iter": int(rng.choice([0, 1, 3, 500, 500, 500])),
        "tol": float(rng.choice([1e-3, 1e-3, 0, 1e-9, 1.0])),
        "random_state": int(rng.integers(100)),
    }


def run_incomplete(rng):
    """Fit a table with missing values, and replace them; return what was tried."""
    return run_on(rng, *incomplete(rng, *table(rng)))


def incomplete(rng, kind, X):
    """Return a table without some of its values."""
    X = X.astype(np.float32 if X.dtype == np.float32 else np.float64)
    X[rng.random(X.shape) < rng.choice([0.02, 0.1, 0.3, 0.7])] = np.nan
    return f"incomplete {kind}", X


def run(rng):
    """Fit a table; return what was tried."""
    return run_on(rng, *table(rng))


def run_families(rng):
    """Fit a table, perhaps with missing values, by any family, perhaps with noise; return what was tried."""
    kind, X = table(rng)
    if rng.random() < 0.3:
        kind, X = incomplete(rng, kind, X)
    codes = (*FAMILIES, *UNIVARIATE) if X.shape[1] == 1 else FAMILIES
    noise = [False, False, False, True, 0.1][rng.integers(5)]
    return run_on(rng, kind, X, covariance_type=str(rng.choice(codes)), noise=noise)


def run_tails(rng):
    """Fit a table, perhaps with missing values, by components with long tails; return what was tried."""
    kind, X = table(rng)
    if rng.random() < 0.3:
        kind, X = incomplete(rng, kind, X)
    codes = (*FAMILIES, *UNIVARIATE) if X.shape[1] == 1 else FAMILIES
    noise, dof = bool(rng.random() < 0.2), ["own", "own", "common", 1.0, 3.0, 1e6][rng.integers(6)]
    settings = {"covariance_type": str(rng.choice(codes)), "noise": noise, "dof": dof}
    return run_on(rng, kind, X, apolar.StudentMixture, **settings)


def run_noise(rng):
    """Fit Gaussian noise, often of fewer rows than columns, by any family; return what was tried."""
    n, m = int(rng.choice([1, 2, 3, 4, 6, 9, 20, 60, 200])), int(rng.choice([1, 2, 4, 8, 20, 40, 80]))
    kind, X = "noise", rng.standard_normal((n, m))
    if rng.random() < 0.2:
        kind, X = incomplete(rng, kind, X)
    codes = (*FAMILIES, *UNIVARIATE) if m == 1 else FAMILIES
    law = apolar.StudentMixture if rng.random() < 0.3 else apolar.GaussianMixture
    return run_on(rng, kind, X, law, covariance_type=str(rng.choice(codes)), noise=bool(rng.random() < 0.2))


def run_on(rng, kind, X, law=apolar.GaussianMixture, **settings):
    """Fit a table of some kind; return what was tried."""
    weighted, sample_weight = weights(rng, len(X))
    chosen = parameters(rng) | settings
    if chosen["covariance_type"] in MATRICES and X.shape[1] > 5 and np.isnan(X.astype(float)).any():
        # Matrices are inverted for each component and pattern of missing values: that would take minutes.
        most = int(np.clip(WORK // (len(X) * X.shape[1] ** 3), 1, 10))
        chosen["n_components"] = min(chosen["n_components"], most)
    tried = f"{kind} {X.shape} {X.dtype}, weights {weighted}, {chosen}"
    model = law(**chosen)
    try:
        # Warnings of the library are for people; those of NumPy are defects, and stay errors.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, sample_weight=sample_weight)
    except (ValueError, TypeError) as error:
        refused_on_purpose(error)
        assert not hasattr(model, "weights_"), "a fit that failed left something behind"
        return f"{tried}: {error}"
    is_scored = np.ones(len(X), dtype=bool) if model.noise_box_ is None else np.isfinite(X).all(axis=1)
    # Rows with missing values that have no weight do not keep a noise component from being fitted.
    sound(model, X[is_scored], sample_weight if sample_weight is None else sample_weight[is_scored])
    return tried


def sound(model, X, sample_weight):
    """Check what a fitted mixture says of itself and of its rows."""
    arrays = ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_")
    for name in (*arrays, "lower_bound_", "evidence_"):
        assert np.all(np.isfinite(getattr(model, name))), f"{name} is not finite"
    noise_weight = float(model.noise_weight_)
    np.testing.assert_allclose(model.weights_.sum(dtype=float) + noise_weight, 1, rtol=1e-5)
    assert np.all(model.weights_ >= 0)
    covariances = np.asarray(model.covariances_, dtype=float)
    is_matrix = model.covariance_type in MATRICES
    spreads = np.diagonal(covariances, axis1=-2, axis2=-1) if is_matrix else covariances
    assert np.all(spreads > 0), "a variance is not positive"
    densities, posteriors = model.score_samples(X), model.predict_proba(X)
    assert np.all(np.isfinite(densities)), "a log-density is not finite"
    single = X.dtype == np.float32
    totals, labels = posteriors.sum(axis=1, dtype=float), model.predict(X)
    assert np.all(totals <= 1 + 1e-5)
    if model.noise_box_ is None:
        np.testing.assert_allclose(totals, 1, rtol=1e-5)
    # The label of noise is -1. Rounded to single precision, two of them may be equal.
    everything = np.column_stack([posteriors, 1 - totals])
    largest = everything[np.arange(len(X)), labels]
    assert np.all(largest >= everything.max(axis=1) - (1e-6 if single else 1e-12))
    size = np.abs(densities.astype(float)).max() + 1
    score = model.score(X)
    assert abs(score - densities.mean(dtype=float)) <= (1e-5 if single else 1e-9) * size
    bound = score if sample_weight is None else model.score(X, sample_weight=sample_weight)
    assert abs(bound - model.lower_bound_) <= 1e-9 * size, f"lower_bound_ {model.lower_bound_}, score {bound}"
    assert np.isfinite(model.bic(X)) and np.isfinite(model.aic(X)) and np.isfinite(model.icl(X))  # noqa: PT018
    assert np.all(np.isfinite(model.sample(5)[0])), "a sampled row is not finite"
    assert np.all(np.isfinite(model.impute(X))), "an imputed value is not finite"
    if np.any(np.isnan(X)):
        assert np.all(np.isfinite(model.impute(X, n_draws=2))), "a drawn value is not finite"
    assert model.outliers(X).shape == (len(X),)
    overlap = model.overlap()
    for name in ("bhattacharyya", "misclassification"):
        shares = getattr(overlap, name)
        assert np.all((shares >= 0) & (shares <= 1)), f"{name} is not between 0 and 1"
    if model.n_features_in_ > 1:
        sound_given_one_column(model, X)
    same_from_a_file(model, X)
    # Rows that are taken for noise may be more likely than in clusters that EM does not find.
    if model.noise_box_ is None and model.converged_ and model.n_components > 1 and model.prior is not STRONG:
        not_worse_than_one_component(model, X, sample_weight)


def sound_given_one_column(model, X):
    """Check the mixture of all columns but one, given a value that this one has."""
    observed = np.argwhere(~np.isnan(X.astype(float)))
    row, column = observed[len(observed) // 2]
    given = model.conditional(int(column), float(X[row, column]))
    for name in ("weights_", "means_", "covariances_", "precisions_"):
        assert np.all(np.isfinite(getattr(given, name))), f"{name}, given a column, is not finite"
    others = np.delete(X, column, axis=1)
    assert np.all(np.isfinite(given.score_samples(others))), "a log-density given a column is not finite"


def same_from_a_file(model, X):
    """Check that a mixture that is saved and loaded says the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mixture.npz"
        model.save(path)
        loaded = apolar.GaussianMixture.load(path)
    np.testing.assert_array_equal(loaded.score_samples(X), model.score_samples(X))


def not_worse_than_one_component(model, X, sample_weight):
    """Check that more components do not lower the likelihood."""
    has_prior = isinstance(model.prior, apolar.Prior) or (model.prior is not None and model.reg_covar is None)
    shares = np.ones(len(X)) if sample_weight is None else sample_weight / np.max(sample_weight)
    n_rows = min(model.n_samples_seen_, shares.sum() ** 2 / (shares**2).sum())
    if n_rows < model.n_features_in_ + 1:
        return  # no covariance is determined: floors of variances decide
    if varies_too_little(X, model.reg_covar or 0.0):
        return  # floors of variances, or what is added to them, decide
    # Rows that differ in what is missing alone are not distinct.
    distinct = np.unique(np.where(np.abs(X.astype(float)) >= np.finfo(float).tiny, X, 0.0), axis=0)
    if has_prior and (len(distinct) < 10 or n_rows < 2 * model.n_parameters_):
        return  # the prior, which depends on the number of components, decides
    if has_prior and isinstance(model, apolar.StudentMixture):
        return  # the prior is one of scale matrices, and with long tails these say little about the rows
    single = type(model)(**model.get_params() | {"n_components": 1})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            alone = single.fit(X, sample_weight=sample_weight).lower_bound_
    except ValueError:
        # Without a prior, the likelihood of rows with missing values may have no maximum, of any mixture.
        assert not has_prior, "one component, with a prior, has no maximum"
        assert np.any(np.isnan(X)), "one component has no maximum"
        return
    if not single.converged_:
        return  # a step with `reg_covar` may lower the likelihood
    slack = 1e-6 * (1 + abs(alone)) + 1e-3
    if has_prior:
        # The prior is for each component: it may take half a nat for each parameter.
        slack += 0.5 * model.n_parameters_ / model.n_samples_seen_
    assert model.lower_bound_ >= alone - slack, f"one component is better: {model.lower_bound_} < {alone}"


@np.errstate(all="ignore")
def varies_too_little(X, reg_covar):
    """Return whether rows vary little beside `reg_covar`, or not in all directions, up to rounding."""
    values = X.astype(float)
    means, deviations = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    if reg_covar > 1e15 * deviations.min() ** 2 or np.any(deviations < 1e-12 * np.abs(means)):
        return True
    # A few rows, repeated with other values missing, look like many directions.
    n_distinct = max(len(np.unique(column[~np.isnan(column)])) for column in values.T)
    if np.isnan(values).any() and n_distinct <= X.shape[1]:
        return True
    centred = np.nan_to_num((values - means) / np.where(deviations > 0, deviations, 1))
    return np.linalg.matrix_rank(centred, tol=1e-9) < X.shape[1]
