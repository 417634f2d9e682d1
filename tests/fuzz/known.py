"""Fits of hostile tables of which something is known: components, groups of rows, parameters."""

import warnings

import numpy as np

import apolar
from fuzz.estimator import FAMILIES, incomplete, parameters, same_from_a_file
from fuzz.outcomes import refused_on_purpose
from fuzz.tables import table, weights


def run(rng):
    """Fit a table of which something is known; return what was tried."""
    kind, X = table(rng)
    if rng.random() < 0.3:
        kind, X = incomplete(rng, kind, X)
    weighted, sample_weight = weights(rng, len(X))
    chosen = parameters(rng) | {
        "covariance_type": str(rng.choice(FAMILIES)),
        "noise": bool(rng.random() < 0.2),
    }
    chosen["n_components"] = min(chosen["n_components"], 5)
    law = apolar.StudentMixture if rng.random() < 0.3 else apolar.GaussianMixture
    names = [name for name in KNOWN if rng.random() < 0.5]
    known = {name: KNOWN[name](rng, X, chosen["n_components"]) for name in names}
    tried = f"{kind} {X.shape} {X.dtype}, weights {weighted}, {law.__name__} {chosen}, known {known}"
    model = law(**chosen)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, sample_weight=sample_weight, **known)
    except (ValueError, TypeError) as error:
        refused_on_purpose(error)
        assert not hasattr(model, "weights_"), "a fit that failed left something behind"
        return f"{tried}: {error}"
    for name in ("weights_", "means_", "covariances_", "lower_bound_"):
        assert np.all(np.isfinite(getattr(model, name))), f"{name} is not finite"
    np.testing.assert_allclose(model.weights_.sum(dtype=float) + float(model.noise_weight_), 1, rtol=1e-5)
    for name, values in known.get("fixed", {}).items():
        kept = np.asarray(getattr(model, f"{name}_"), dtype=float)
        size = np.nanmax(np.abs(X), initial=1.0 if name == "weights" else 0.0)
        np.testing.assert_allclose(
            np.where(np.isnan(values), values, kept), values, rtol=1e-5, atol=1e-9 * size
        )
    is_scored = np.ones(len(X), dtype=bool) if model.noise_box_ is None else np.isfinite(X).all(axis=1)
    assert np.all(np.isfinite(model.score_samples(X[is_scored]))), "a log-density is not finite"
    assert np.all(np.isfinite(model.impute(X[is_scored]))), "an imputed value is not finite"
    same_from_a_file(model, X[is_scored])
    return tried


def _components(rng, X, n_components):
    """Return components of some rows, -1 for the others; seldom one that is not there."""
    y = rng.integers(0, n_components + (rng.random() < 0.05), size=len(X))
    return np.where(rng.random(len(X)) < rng.choice([0.1, 0.5, 1.0]), y, -1)


def _groups(rng, X, n_components):  # noqa: ARG001 - all are called alike
    n_groups = int(rng.choice([1, 2, max(1, len(X) // 3), len(X)]))
    return rng.integers(0, n_groups, size=len(X))


def _parameters(rng, X, n_components):
    """Return means or weights, of all components or of some."""
    if rng.random() < 0.5:
        shares = rng.dirichlet(np.ones(n_components))
        if rng.random() < 0.5:
            shares[rng.random(n_components) < 0.5] = np.nan
        return {"weights": shares}
    means = np.asarray(X, dtype=float)[rng.integers(len(X), size=n_components)]
    means[rng.random(n_components) < 0.5] = np.nan
    return {"means": means}


KNOWN = {"y": _components, "groups": _groups, "fixed": _parameters}
