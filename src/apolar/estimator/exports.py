"""Fitted mixtures in other forms: as an estimator of scikit-learn, and as an expression of SQL."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn.mixture

from apolar._core.checks import one_of
from apolar._core.constants import MIN_WEIGHT
from apolar.estimator.fitted import NOISE_LABEL, FittedState
from apolar.mixture.families import FAMILIES
from apolar.mixture.parameters import noise_weights
from apolar.mixture.storage import LOG_2PI

__all__ = ["sql_of_labels", "to_sklearn"]

# The marks around a name, by dialect.
QUOTES = {
    "sqlite": '""', "postgresql": '""', "duckdb": '""', "mysql": "``", "bigquery": "``", "tsql": "[]",
}  # fmt: skip
# What scikit-learn's classes have in the same form.
SAME = "weights_ means_ converged_ n_iter_ lower_bound_ lower_bounds_ n_features_in_ feature_names_in_"


def to_sklearn(model: Any) -> Any:
    """Return the fitted mixture as an estimator of scikit-learn."""
    state = FittedState.of(model)
    if state.parameters.noise is not None:
        raise ValueError("scikit-learn's mixtures have no noise component: fit with noise=False.")
    _refuse_tails(state, "scikit-learn has no mixtures of t distributions")
    kind, (n, m) = state.family, state.parameters.means.shape
    name = kind.name if kind.name in ("full", "tied") else ("spherical", "diag", "full")[kind.n_axes]
    # Where components share a part, scikit-learn's repeat it.
    covariances = np.asarray(state.parameters.covariances)
    if kind.has_factors:
        covariances = kind.matrices(covariances, n, m)
    if kind.shares_covariance and name != "tied":
        covariances = np.repeat(covariances[None], n, axis=0)
    stored, of_posterior = FAMILIES[name], [f"{field}_" for field in state.stored_shapes(kind, n, m)]
    known, theirs = vars(model), sklearn.mixture
    cls = theirs.BayesianGaussianMixture if of_posterior else theirs.GaussianMixture
    parameters = {each: value for each, value in model.get_params(deep=False).items() if "_prior" in each}
    seed = None if isinstance(model.random_state, np.random.Generator) else model.random_state
    made = cls(n_components=n, covariance_type=name, random_state=seed, **parameters)
    fitted = {each: known[each] for each in (*SAME.split(), *of_posterior) if each in known}
    fitted["covariances_"] = covariances.astype(state.dtype)
    fitted["precisions_"] = stored.precisions(covariances).astype(state.dtype)
    fitted["precisions_cholesky_"] = stored.whiteners(covariances).astype(state.dtype)
    if of_posterior and name != "tied":
        fitted["degrees_of_freedom_"] = np.broadcast_to(fitted["degrees_of_freedom_"], n).copy()
    vars(made).update(fitted)
    return made


def sql_of_labels(model: Any, dialect: str) -> str:
    """Return the label of a row as an expression of SQL, of the columns by their names."""
    state = FittedState.of(model)
    one_of(dialect, "dialect", tuple(QUOTES))
    _refuse_tails(state, "SQL is written for Gaussian components")
    kind, parameters = state.family, state.parameters
    (n, m), opening, closing = parameters.means.shape, QUOTES[dialect][0], QUOTES[dialect][1]
    names = [str(name) for name in getattr(model, "feature_names_in_", [f"x{j}" for j in range(m)])]
    columns = [f"{opening}{name.replace(closing, 2 * closing)}{closing}" for name in names]
    covariances = kind.matrices(parameters.covariances, n, m)
    stored = FAMILIES["full"]
    roots, log_dets = stored.whiteners(covariances), stored.log_det(covariances, m)
    constants = np.log(np.maximum(parameters.weights, MIN_WEIGHT)) - 0.5 * (m * LOG_2PI + log_dets)
    constants = constants + state.log_factors
    logits = []
    for constant, mean, root in zip(constants, parameters.means, roots, strict=True):
        offsets = [f"({column} - {_number(at)})" for column, at in zip(columns, mean, strict=True)]
        # Independent standard columns, whose squares are never negative.
        parts = [
            " + ".join(f"{_number(root[i, j])} * {offsets[i]}" for i in np.flatnonzero(root[:, j]))
            for j in range(m)
        ]
        squares = " + ".join(f"({part}) * ({part})" for part in parts)
        logits.append(f"{_number(constant)} - 0.5e0 * ({squares})")
    labels = list(range(n))
    if parameters.noise is not None:
        logits.append(_number(float(np.log(noise_weights(parameters.weights))) - parameters.noise.log_volume))
        labels.append(NOISE_LABEL)
    return _case_of_largest(logits, labels)


def _case_of_largest(logits: list[str], labels: list[int]) -> str:
    """Return the expression of the label of the first of the largest; NULL if a column is."""
    each = ", ".join(f"{logit} AS l{k}" for k, logit in enumerate(logits))
    cases = [
        f"WHEN {' AND '.join(f'l{k} >= l{i}' for i in range(k + 1, len(logits)))} THEN {labels[k]}"
        for k in range(len(logits) - 1)
    ]
    text = " ".join(["CASE WHEN l0 IS NULL THEN NULL", *cases, f"ELSE {labels[-1]} END"])
    return f"(SELECT {text} FROM (SELECT {each}) AS logits)"


def _number(value: float) -> str:
    """Return a number with an exponent: without, it would be of a decimal type."""
    return f"({float(value):.17e})" if value < 0 else f"{float(value):.17e}"


def _refuse_tails(state: FittedState, reason: str) -> None:
    if state.parameters.dof is not None:
        raise ValueError(f"{reason}: fit a GaussianMixture.")
