"""A table, clustered: the fitted mixture and all that there is to say about it."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import is_missing
from apolar.data import open_rows
from apolar.estimator import GaussianMixture
from apolar.estimator.inference import StandardErrors
from apolar.mixture.families import family
from apolar.moments.covariance import column_moments
from apolar.plots.mixtures import Mixture
from apolar.scores import (
    adjusted_rand_index,
    error_rate,
    lower_is_better_aic,
    lower_is_better_bic,
    lower_is_better_icl,
)
from apolar.selection import Selection, select

FAMILIES = ("spherical", "diag", "full")
"""Among which a family is chosen, unless one is given."""
MOST_COMPONENTS = 9
"""The largest number of components that is tried, unless told otherwise."""

# Standard errors take some passes a parameter: no more numbers than this are read for them.
MOST_NUMBERS = 2e9
# The mean of a column whose square is still a number.
MOST_MEAN = 1e150
# Rows that are read at a time.
CHUNK = 65_536
# The log-density below which a row is so far from every cluster that it is a mistake.
LEAST_DENSITY = -1e270


@dataclass(frozen=True, eq=False)
class Truth:
    """Known classes beside the clusters.

    Attributes
    ----------
    names : tuple of str
        Of the classes, in the order of the codes.
    codes : ndarray of int, shape (n_samples,)
        -1 where the class is not known.
    ari, error_rate : float
    counts : ndarray of int, shape (n_classes, n_components)
    n_unknown : int
        Rows without a class; they do not count.
    """

    names: tuple[str, ...]
    codes: Array
    ari: float
    error_rate: float
    counts: Array
    n_unknown: int


@dataclass(frozen=True, eq=False)
class Analysis:
    """What was found in a table.

    Attributes
    ----------
    model : GaussianMixture
        In the units of the table, with its column names. After standardisation, spherical components are
        diagonal in these units.
    covariance_type : str
        Of the components as they were fitted.
    names : tuple of str
    n_rows : int
    standardised : bool
    selection : Selection or None
        Where the number of components was not given.
    predicted : ndarray of int, shape (n_samples,)
    uncertainty : ndarray, shape (n_samples,)
        One less the largest posterior of each row.
    log_likelihood, bic, aic, icl : float
        Of the table in its own units; lower is better but for the first.
    n_parameters : int
    errors : StandardErrors or None
    no_errors : str
        Why there are no standard errors.
    warnings : tuple of str
        What the fit warned of.
    truth : Truth or None
    seconds : float
        For fit, choice, labels and standard errors.
    """

    model: GaussianMixture
    covariance_type: str
    names: tuple[str, ...]
    n_rows: int
    standardised: bool
    selection: Selection | None
    predicted: Array
    uncertainty: Array
    log_likelihood: float
    bic: float
    aic: float
    icl: float
    n_parameters: int
    errors: StandardErrors | None
    no_errors: str
    warnings: tuple[str, ...]
    truth: Truth | None
    seconds: float

    @property
    def deviations(self) -> Array:
        """The deviation of each component in each column, shape (n_components, n_features)."""
        return component_deviations(self.model)


def component_deviations(model: GaussianMixture) -> Array:
    """Return the deviation of each component in each column, shape (n_components, n_features)."""
    return np.sqrt(Mixture.of(model).variances)


def analysed(
    X: Array,
    names: Sequence[str],
    n_components: int | Sequence[int],
    *,
    covariance_type: str | Sequence[str] | None = None,
    labels: Any = None,
    standardise: bool = False,
    criterion: str = "bic",
    seed: int = 0,
) -> Analysis:
    """Cluster a table.

    Parameters
    ----------
    X : ndarray, shape (n_samples, n_features)
        May be a memory map.
    names : sequence of str
        Of the columns.
    n_components : int or sequence of int
        Among several, that with the lowest criterion is chosen.
    covariance_type : str or sequence of str, optional
        By default "full" for one number of components, and the best of `FAMILIES` for several.
    labels : array_like, shape (n_samples,), optional
        Known classes, to be compared with the clusters.
    standardise : bool, default=False
        Divide the columns by their deviations first. It matters to spherical components only: the others
        follow the units of the columns.
    criterion : {"bic", "aic", "icl"}, default="bic"
    seed : int, default=0

    Returns
    -------
    analysis : Analysis
    """
    began = time.perf_counter()
    _, _, mean, variances = column_moments(open_rows(X))
    vast = np.flatnonzero(~np.isfinite(variances) | (np.abs(mean) > MOST_MEAN))
    if len(vast):
        raise ValueError(
            f"Column {names[vast[0]]!r} has numbers whose squares overflow: divide it by its scale first."
        )
    if np.all(variances <= 1e-28 * mean**2):
        raise ValueError("All rows are equal: there is nothing to tell clusters apart.")
    numbers = (n_components,) if isinstance(n_components, int) else tuple(n_components)
    kinds = covariance_type or ("full" if len(numbers) == 1 else FAMILIES)
    units = _units(X, names) if standardise else np.ones(X.shape[1])
    data = X if not standardise else _Divided(X, units) if isinstance(X, np.memmap) else X / units
    selection = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if len(numbers) == 1 and isinstance(kinds, str):
            fitted = GaussianMixture(numbers[0], covariance_type=kinds, random_state=seed).fit(data)
        else:
            selection = select(data, numbers, kinds, criterion, random_state=seed)
            fitted = selection.best
    told = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    if selection is not None:
        # Those of the others are in its table.
        told = [
            text
            for row in selection.table
            if selection.models.get((row.covariance_type, row.n_components)) is fitted
            for text in row.warnings
        ]
    errors, no_errors = _errors(fitted, data, units, names)
    n_parameters = fitted.n_parameters_
    kind = fitted.covariance_type
    model = _in_units(fitted, units, names)
    predicted, uncertainty, log_likelihood = scored(model, X)
    bic = lower_is_better_bic(log_likelihood, n_parameters, len(X))
    truth = None if labels is None else _truth(labels, predicted, len(model.weights_))
    return Analysis(
        model,
        kind,
        tuple(names),
        len(X),
        standardise,
        selection,
        predicted,
        uncertainty,
        log_likelihood,
        bic,
        lower_is_better_aic(log_likelihood, n_parameters),
        lower_is_better_icl(bic, 1 - uncertainty[:, None]),
        n_parameters,
        errors,
        no_errors,
        tuple(dict.fromkeys(told)),
        truth,
        time.perf_counter() - began,
    )


class _Divided:
    """Rows with each column divided by its unit, a chunk at a time; can be read again."""

    def __init__(self, X: Array, units: Array) -> None:
        self.X, self.units = X, units

    def __iter__(self) -> Iterator[Array]:
        for start in range(0, len(self.X), CHUNK):
            yield self.X[start : start + CHUNK] / self.units


def _units(X: Array, names: Sequence[str]) -> Array:
    """Return the deviation of each column."""
    _, _, mean, variances = column_moments(open_rows(X))
    constant = [
        name for name, one, size in zip(names, variances, mean, strict=True) if one <= 1e-28 * size**2
    ]
    if constant:
        raise ValueError(
            f"Column {constant[0]!r} is constant: it cannot be standardised. Leave it out with --columns."
        )
    return np.sqrt(variances)


def _in_words(text: str, names: Sequence[str]) -> str:
    """Return a message with columns by their names, and components counted from one, as clusters."""
    text = re.sub(r"\bColumn (\d+)\b", lambda found: f"Column {names[int(found[1])]!r}", text)
    return re.sub(r"\bComponent (\d+)\b", lambda found: f"Cluster {int(found[1]) + 1}", text)


def _errors(
    model: GaussianMixture, data: Any, units: Array, names: Sequence[str]
) -> tuple[StandardErrors | None, str]:
    """Return the standard errors in the units of the table, or why there are none."""
    n_numbers = model.n_samples_seen_ * len(units) * model.n_parameters_
    if n_numbers > MOST_NUMBERS:
        return None, "The table is too large to work out standard errors here; model.standard_errors(X) does."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = model.standard_errors(data)
    except (ValueError, ArithmeticError) as error:
        return None, _in_words(str(error), names)
    covariances = np.asarray(found.covariances)
    kind = model.covariance_type
    if kind in ("full", "tied"):
        covariances = covariances * np.outer(units, units)
    elif not np.all(units == 1) or kind in ("diag", "tied_diag"):
        spread = covariances[..., None] if kind in ("spherical", "tied_spherical") else covariances
        covariances = spread * units**2
    return StandardErrors(found.weights, found.means * units, covariances, found.information_condition), ""


def _in_units(model: GaussianMixture, units: Array, names: Sequence[str]) -> GaussianMixture:
    """Return the mixture in the units of the table, with its column names.

    Spherical components of standardised columns are diagonal ones of the columns as they are.
    """
    if not np.all(units == 1):
        kind, covariances = model.covariance_type, np.asarray(model.covariances_)
        if kind in ("spherical", "tied_spherical"):
            covariances = covariances[..., None] * units**2
            kind = "diag" if kind == "spherical" else "tied_diag"
        elif kind in ("full", "tied"):
            covariances = covariances * np.outer(units, units)
        else:
            covariances = covariances * units**2
        model.covariance_type = kind
        model.means_ = model.means_ * units
        model.covariances_ = covariances
        model.precisions_ = family(kind).precisions(covariances)
        model.precisions_cholesky_ = family(kind).whiteners(covariances)
        model.lower_bound_ -= float(np.log(units).sum())
        model.lower_bounds_ = [bound - float(np.log(units).sum()) for bound in model.lower_bounds_]
    model.feature_names_in_ = np.array(names, dtype=object)
    return model


def scored(model: GaussianMixture, X: Array) -> tuple[Array, Array, float]:
    """Return labels, uncertainties, and the log-likelihood of all rows, read a chunk at a time."""
    predicted = np.empty(len(X), dtype=np.int64)
    uncertainty = np.empty(len(X))
    log_likelihood = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # arrays have no column names
        for start in range(0, len(X), CHUNK):
            rows = np.asarray(X[start : start + CHUNK])
            posteriors, densities = model.predict_proba(rows), model.score_samples(rows)
            bad = np.flatnonzero(~(densities > LEAST_DENSITY))
            if len(bad):
                raise ValueError(
                    f"Row {start + bad[0] + 1} is too far from every cluster for its probabilities to be "
                    "numbers. Check its values, or leave it out."
                )
            cut = slice(start, start + len(rows))
            predicted[cut] = posteriors.argmax(axis=1)
            uncertainty[cut] = 1 - posteriors.max(axis=1)
            log_likelihood += float(densities.sum(dtype=np.float64))
    return predicted, uncertainty, log_likelihood


def _truth(labels: Any, predicted: Array, n_components: int) -> Truth:
    texts = np.asarray(labels).astype(str)
    known = np.array([not is_missing(text) for text in texts.tolist()])
    if not known.any():
        raise ValueError("The label column is empty: leave --label-column out.")
    names, inside = np.unique(texts[known], return_inverse=True)
    codes = np.full(len(texts), -1)
    codes[known] = inside
    counts = np.zeros((len(names), n_components), dtype=np.int64)
    np.add.at(counts, (inside, predicted[known]), 1)
    return Truth(
        tuple(names.tolist()),
        codes,
        adjusted_rand_index(inside, predicted[known]),
        error_rate(inside, predicted[known]),
        counts,
        int(np.count_nonzero(~known)),
    )
