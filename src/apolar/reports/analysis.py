"""A table, clustered: the fitted mixture, and everything that the report shows."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import is_missing
from apolar.data import open_rows
from apolar.data.checks import MissingValueError
from apolar.estimator import GaussianMixture
from apolar.estimator.attributes import fitted_parameters, set_parameters
from apolar.estimator.predict import NOISE, Likelihood
from apolar.estimator.standard_errors import StandardErrors
from apolar.exceptions import ColumnError, ColumnWarning, ComponentError
from apolar.mixture.families import family
from apolar.mixture.parameters import MixtureParameters
from apolar.moments.available import available_moments
from apolar.moments.covariance import column_moments, is_constant
from apolar.plots.mixtures import MixtureView
from apolar.scores import adjusted_rand_index, error_rate
from apolar.selection import Selection, select

"""Among which a family is chosen, unless one is given."""
MOST_COMPONENTS = 9
"""The largest number of components that is tried, unless others are given."""

# Standard errors cost about one pass over the rows per parameter: above this many numbers they are left out.
MOST_NUMBERS = 2e9
# The largest mean of a column whose square does not overflow.
MOST_MEAN = 1e150
# Rows that are read at a time.
CHUNK = 65_536
# A row with a log-density below this is too far from every cluster for its probabilities to be numbers.
LEAST_DENSITY = -1e270


@dataclass(frozen=True, eq=False)
class KnownClasses:
    """Known classes, compared with the clusters.

    Attributes
    ----------
    names : tuple of str
        Of the classes, in the order of the codes.
    codes : ndarray of int, shape (n_samples,)
        -1 where the class is not known.
    ari, error_rate : float
    counts : ndarray of int, shape (n_classes, n_components)
    noise_counts : ndarray of int, shape (n_classes,)
        Rows of each class that are noise, which counts as one more cluster.
    n_unknown : int
        Rows without a class; they do not count.
    """

    names: tuple[str, ...]
    codes: Array
    ari: float
    error_rate: float
    counts: Array
    noise_counts: Array
    n_unknown: int


@dataclass(frozen=True, eq=False)
class Analysis:
    """The clusters of a table.

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
        -1 for noise.
    uncertainty : ndarray, shape (n_samples,)
        One less the largest posterior of each row.
    log_likelihood : float
        Of all rows together, in the units of the table.
    criteria : dict of str to float
        By the names of `apolar.scores.CRITERIA`, in the units of the table; lower is better.
    n_parameters : int
    errors : StandardErrors or None
    no_errors : str
        Why there are no standard errors.
    warnings : tuple of str
        The warnings of the fit.
    truth : KnownClasses or None
    seconds : float
        For fit, choice, labels and standard errors.
    n_missing : ndarray of int, shape (n_features,)
        The number of missing values of each column.
    outliers : ndarray of bool, shape (n_samples,)
        Rows too far from every cluster, by the rule of `GaussianMixture.outliers`.
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
    criteria: dict[str, float]
    n_parameters: int
    errors: StandardErrors | None
    no_errors: str
    warnings: tuple[str, ...]
    truth: KnownClasses | None
    seconds: float
    n_missing: Array
    outliers: Array

    @property
    def counts(self) -> Array:
        """The number of rows of each cluster, shape (n_components,)."""
        return np.bincount(self.predicted[self.predicted != NOISE], minlength=len(self.model.weights_))

    @property
    def has_noise(self) -> bool:
        """Whether rows may be noise."""
        return self.model.noise_box_ is not None

    @property
    def n_noise(self) -> int:
        """The number of rows that are noise."""
        return int(np.count_nonzero(self.predicted == NOISE))

    @property
    def deviations(self) -> Array:
        """The deviation of each component in each column, shape (n_components, n_features)."""
        return component_deviations(self.model)


def component_deviations(model: GaussianMixture) -> Array:
    """Return the deviation of each component in each column, shape (n_components, n_features)."""
    return np.sqrt(MixtureView.of(model).variances)


def analysed(
    X: Array,
    names: Sequence[str],
    n_components: int | Sequence[int],
    *,
    covariance_type: str | Sequence[str] | None = None,
    labels: Any = None,
    standardise: bool = False,
    criterion: str = "bic",
    noise: bool | float = False,
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
        By default "full" for one number of components, and the best of all families for several.
    labels : array_like, shape (n_samples,), optional
        Known classes, to be compared with the clusters.
    standardise : bool, default=False
        Divide the columns by their deviations first. It matters to spherical components only: the others
        follow the units of the columns.
    criterion : {"bic", "aic", "icl", "evidence"}, default="bic"
    noise : bool or float, default=False
        Whether rows may be noise, or the share of them that is expected to be.
    seed : int, default=0

    Returns
    -------
    analysis : Analysis
    """
    began = time.perf_counter()
    mean, variances, n_missing = _observed(X, names)
    vast = np.flatnonzero(~np.isfinite(variances) | (np.abs(mean) > MOST_MEAN))
    if len(vast):
        problem = "has numbers whose squares overflow: divide it by its scale first."
        raise ColumnError(names[vast[0]], problem)
    if np.all(is_constant(mean, variances)):
        raise ValueError("All rows are equal: nothing separates clusters.")
    numbers = (n_components,) if isinstance(n_components, int) else tuple(n_components)
    kinds = covariance_type or ("full" if len(numbers) == 1 else None)
    units = _units(mean, variances, names) if standardise else np.ones(X.shape[1])
    data: Any = X
    if standardise:
        data = _StandardisedRows(X, units) if isinstance(X, np.memmap) else X / units
    selection = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ColumnWarning)  # the notes on the table say it
        if len(numbers) == 1 and isinstance(kinds, str):
            fitted = GaussianMixture(numbers[0], covariance_type=kinds, random_state=seed, noise=noise)
            fitted.fit(data)
        else:
            selection = select(data, numbers, kinds, criterion, random_state=seed, noise=noise)
            fitted = selection.best
    messages = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    if selection is not None:
        # Only those of the chosen candidate; those of the others are in the table of the selection.
        messages = list(selection.best_row.warnings)
    errors, no_errors = _errors(fitted, data, units, names)
    n_parameters = fitted.n_parameters_
    kind = fitted.covariance_type
    model = _in_units(fitted, units, names, n_missing / len(X))
    predicted, uncertainty, log_likelihood = scored(model, X)
    likelihood = Likelihood(log_likelihood, float(len(X)), float(np.log(1 - uncertainty).sum()))
    truth = None if labels is None else _known_classes(labels, predicted, len(model.weights_))
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
        likelihood.criteria(n_parameters, model.evidence_),
        n_parameters,
        errors,
        no_errors,
        tuple(dict.fromkeys(messages)),
        truth,
        time.perf_counter() - began,
        n_missing,
        _outliers(model, X),
    )


def _outliers(model: GaussianMixture, X: Array) -> Array:
    """Return which rows are too far from every cluster, read a chunk at a time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # arrays have no column names
        chunks = (np.asarray(X[start : start + CHUNK]) for start in range(0, len(X), CHUNK))
        return np.concatenate([model.outliers(rows) for rows in chunks])


def _observed(X: Array, names: Sequence[str]) -> tuple[Array, Array, Array]:
    """Return means and variances of the columns, and the number of missing values of each."""
    rows = open_rows(X)
    try:
        moments = column_moments(rows)
        return moments.mean, moments.variances, np.zeros(rows.n_features, dtype=np.int64)
    except MissingValueError:
        pass
    try:
        available = available_moments(rows)
    except ColumnError as error:
        raise error.with_name(names) from error
    n_missing = np.rint(available.weight - available.counts).astype(np.int64)
    return available.mean, available.variances, n_missing


class _StandardisedRows:
    """Rows with each column divided by its unit, a chunk at a time; can be read again."""

    def __init__(self, X: Array, units: Array) -> None:
        self.X, self.units = X, units

    def __iter__(self) -> Iterator[Array]:
        for start in range(0, len(self.X), CHUNK):
            yield self.X[start : start + CHUNK] / self.units


def _units(mean: Array, variances: Array, names: Sequence[str]) -> Array:
    """Return the deviation of each column; refuse columns without one."""
    constant = np.flatnonzero(is_constant(mean, variances))
    if len(constant):
        raise ColumnError(names[constant[0]], "is constant: it cannot be standardised. Leave it out.")
    return np.sqrt(variances)


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
            errors = model.standard_errors(data)
    except ColumnError as error:
        return None, str(error.with_name(names))
    except ComponentError as error:
        return None, f"Cluster {error.component + 1} {error.problem}"
    except (ValueError, ArithmeticError) as error:
        return None, str(error)
    covariances = np.asarray(errors.covariances)
    if not np.all(units == 1):
        _, covariances = family(model.covariance_type).rescaled(covariances, units)
    scaled = errors.means * units, covariances
    condition, of_noise = errors.information_condition, errors.noise_weight
    return StandardErrors(errors.weights, *scaled, condition, of_noise), ""


def _in_units(model: GaussianMixture, units: Array, names: Sequence[str], missing: Array) -> GaussianMixture:
    """Return the mixture in the units of the table, with its column names.

    `missing` is the fraction of values of each column that are missing, and have no density. Spherical
    components of standardised columns are diagonal in the columns as they are.
    """
    if not np.all(units == 1):
        # The fitted mixture itself, which a selection holds, stays in its own units.
        model = copy.copy(model)
        fitted = fitted_parameters(model)
        name, covariances = family(model.covariance_type).rescaled(fitted.covariances, units)
        model.covariance_type = name
        box = None if fitted.noise is None else fitted.noise.rescaled(units)
        set_parameters(model, MixtureParameters(fitted.weights, fitted.means * units, covariances, box))
        log_units = float(np.log(units) @ (1 - missing))
        model.lower_bound_ -= log_units
        model.lower_bounds_ = [bound - log_units for bound in model.lower_bounds_]
        model.evidence_ -= log_units * model.n_samples_seen_
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
            if model.noise_box_ is not None:
                posteriors = np.column_stack([posteriors, 1 - posteriors.sum(axis=1)])
            most_probable = posteriors.argmax(axis=1)
            predicted[cut] = np.where(most_probable < len(model.weights_), most_probable, NOISE)
            uncertainty[cut] = 1 - posteriors.max(axis=1)
            log_likelihood += float(densities.sum(dtype=np.float64))
    return predicted, uncertainty, log_likelihood


def _known_classes(labels: Any, predicted: Array, n_components: int) -> KnownClasses:
    strings = np.asarray(labels).astype(str)
    known = np.array([not is_missing(string) for string in strings.tolist()])
    if not known.any():
        raise ValueError("All labels are missing: leave them out.")
    names, known_codes = np.unique(strings[known], return_inverse=True)
    codes = np.full(len(strings), -1)
    codes[known] = known_codes
    counts = np.zeros((len(names), n_components), dtype=np.int64)
    in_cluster = predicted[known] != NOISE
    np.add.at(counts, (known_codes[in_cluster], predicted[known][in_cluster]), 1)
    return KnownClasses(
        tuple(names.tolist()),
        codes,
        adjusted_rand_index(known_codes, predicted[known]),
        error_rate(known_codes, predicted[known]),
        counts,
        np.bincount(known_codes[~in_cluster], minlength=len(names)),
        int(np.count_nonzero(~known)),
    )
