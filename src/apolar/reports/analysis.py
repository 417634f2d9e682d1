"""A table, clustered: the fitted mixture, and everything that the report shows."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import is_missing
from apolar._core.settings import SETTINGS
from apolar.em.result import FitStatus
from apolar.estimator import GaussianMixture, StudentMixture
from apolar.estimator.cluster_merging import Group
from apolar.estimator.fit import reports_passes
from apolar.estimator.fitted import NOISE_LABEL, FittedState
from apolar.estimator.standard_errors import Stability, StandardErrors
from apolar.exceptions import ColumnError, ColumnWarning, ComponentError, FarRowsWarning
from apolar.mixture.families import family
from apolar.mixture.parameters import MixtureParameters
from apolar.moments.covariance import is_constant
from apolar.plots.views import MixtureView
from apolar.reports.scoring import (
    LIMITS,
    OUTLIER_LEVEL,
    TableScores,
    column_deviations,
    column_statistics,
    component_groups,
    divide_columns,
    score_table,
    select_in_units,
)
from apolar.scores import adjusted_rand_index, error_rate, match_labels
from apolar.selection import Selection

Tails = Literal["gaussian", "t", "auto"]

_LAWS: dict[str, type[GaussianMixture]] = {"gaussian": GaussianMixture, "t": StudentMixture}


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
    counts : ndarray of int, shape (n_classes, n_clusters + 1)
        Rows of each class in each cluster; noise counts as one more, the last.
    n_unknown : int
        Rows without a class; they do not count.
    matched : dict
        The name of the class that matches each cluster, or noise (-1), best, one to one.
    is_wrong : ndarray of bool, shape (n_samples,)
        Rows that are not in the cluster of their class, or not noise if that matches it.
    """

    names: tuple[str, ...]
    codes: Array
    ari: float
    error_rate: float
    counts: Array
    n_unknown: int
    matched: dict[int, str]
    is_wrong: Array


def compare_classes(labels: Any, predicted: Array, n_clusters: int) -> KnownClasses:
    """Return known classes, compared with the clusters of the same rows; a missing label is not a class."""
    strings = np.asarray(labels).astype(str)
    known = np.array([not is_missing(string) for string in strings.tolist()])
    if not known.any():
        raise ValueError("All labels are missing: leave them out.")
    names, known_codes = np.unique(strings[known], return_inverse=True)
    codes = np.full(len(strings), -1)
    codes[known] = known_codes
    found = np.where(predicted[known] == NOISE_LABEL, n_clusters, predicted[known])
    counts = np.zeros((len(names), n_clusters + 1), dtype=np.int64)
    np.add.at(counts, (known_codes, found), 1)
    clusters = match_labels(counts)
    is_wrong = np.zeros(len(strings), dtype=bool)
    is_wrong[known] = clusters[known_codes] != found
    pairs = zip(clusters.tolist(), names.tolist(), strict=True)
    return KnownClasses(
        tuple(names.tolist()),
        codes,
        adjusted_rand_index(known_codes, predicted[known]),
        error_rate(known_codes, predicted[known]),
        counts,
        int(np.count_nonzero(~known)),
        {k if k < n_clusters else NOISE_LABEL: name for k, name in pairs if k >= 0},
        is_wrong,
    )


@dataclass(frozen=True, eq=False)
class Analysis(TableScores):
    """The clusters of a table: what the mixture says about its rows, and how far to trust it.

    Attributes
    ----------
    likelihood : FitSummary
        In the units of the table, with the parameters of the components as they were fitted.
    model : GaussianMixture
        In the units of the table, with its column names. After standardisation, spherical components are
        diagonal in these units.
    covariance_type : str
        Of the components as they were fitted.
    names : tuple of str
    outlier_level : float
        The level of the rule for outliers.
    truth : KnownClasses or None
    errors : StandardErrors or None
    no_errors : str
        Why there are no standard errors.
    fault : str
        What is wrong with a cluster, such as that it is not at a maximum, so that there are none.
    seconds : float
        For fit, choice, labels and standard errors.
    standardised : bool
    selection : Selection or None
        Where the number of components was not given.
    warnings : tuple of str
        The warnings of the fit.
    stability : Stability or None
        Of the clusters, if it was asked for.
    """

    model: GaussianMixture
    covariance_type: str
    names: tuple[str, ...]
    outlier_level: float
    truth: KnownClasses | None
    errors: StandardErrors | None = None
    no_errors: str = ""
    fault: str = ""
    seconds: float = 0.0
    standardised: bool = False
    selection: Selection | None = None
    warnings: tuple[str, ...] = ()
    stability: Stability | None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        """The components of each cluster."""
        return component_groups(self.model)

    @property
    def are_combined(self) -> bool:
        """Whether a cluster has several components."""
        return len(self.groups) < len(self.model.weights_)

    @cached_property
    def clusters(self) -> MixtureView:
        """The clusters; one of several components is shown by the mean and covariance of all of them."""
        mixture = MixtureView.of(self.model)
        return mixture.combined(self.groups) if self.are_combined else mixture

    @property
    def counts(self) -> Array:
        """The number of rows of each cluster, shape (n_clusters,)."""
        return np.bincount(self.predicted[self.predicted != NOISE_LABEL], minlength=len(self.groups))

    @property
    def has_noise(self) -> bool:
        """Whether rows may be noise."""
        return self.model.noise_box_ is not None

    @property
    def n_noise(self) -> int:
        """The number of rows that are noise."""
        return int(np.count_nonzero(self.predicted == NOISE_LABEL))

    @cached_property
    def is_doubtful(self) -> Array:
        """Which rows have a cluster in doubt, shape (n_samples,)."""
        return self.certainty < LIMITS.doubt

    @cached_property
    def is_outlying(self) -> Array:
        """Which rows are outliers; those that are called noise are known to be in no cluster."""
        return self.outliers & (self.predicted != NOISE_LABEL)

    @cached_property
    def disagrees(self) -> Array:
        """Which rows are marked as not in the cluster of their class; none if they are many."""
        is_wrong = np.zeros(self.n_rows, dtype=bool) if self.truth is None else self.truth.is_wrong
        return is_wrong & (np.count_nonzero(is_wrong) <= LIMITS.n_rings)

    @property
    def deviations(self) -> Array:
        """The standard deviation of each cluster in each column, shape (n_clusters, n_features)."""
        return np.sqrt(self.clusters.variances)


def analyse(
    X: Array,
    names: Sequence[str],
    n_components: int | Sequence[int],
    *,
    covariance_type: str | Sequence[str] | None = None,
    labels: Any = None,
    standardise: bool = False,
    criterion: str = "bic",
    noise: bool | float = False,
    tails: Tails = "gaussian",
    seed: int = 0,
    outlier_level: float = OUTLIER_LEVEL,
    n_resamples: int = 0,
    callback: Callable[[str, int, int], object] | None = None,
    report: Callable[[float, float], object] | None = None,
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
        Divide the columns by their standard deviations first. It matters to spherical components only:
        the others follow the units of the columns.
    criterion : {"bic", "aic", "icl", "evidence", "loo", "clusters"}, default="bic"
        "clusters" combines components that overlap, also those of one number.
    noise : bool or float, default=False
        Whether rows may be noise, or the fraction of them that is expected to be.
    tails : {"gaussian", "t", "auto"}, default="gaussian"
        Of the components. "auto" compares both: by the criterion where several numbers are compared, and by
        rows left out for one number.
    seed : int, default=0
    outlier_level : float, default=0.05
        As in `GaussianMixture.outliers`.
    n_resamples : int, default=0
        For the stability of the clusters.
    callback : callable, optional
        Of `select`, where the number of components is chosen.
    report : callable, optional
        Where it is given: takes how many passes the fit has taken, and about how many it will take.

    Returns
    -------
    analysis : Analysis
    """
    began = time.perf_counter()
    mean, variances, n_missing = column_statistics(X, names)
    vast = np.flatnonzero(~np.isfinite(variances) | (np.abs(mean) > LIMITS.max_mean))
    if len(vast):
        problem = "has numbers whose squares overflow: divide it by its scale first."
        raise ColumnError(names[vast[0]], problem)
    if np.all(is_constant(mean, variances)):
        raise ValueError("All rows are equal: nothing separates clusters.")
    numbers = (n_components,) if isinstance(n_components, int) else tuple(n_components)
    kinds = covariance_type or ("full" if len(numbers) == 1 else None)
    units = column_deviations(mean, variances, names) if standardise else np.ones(X.shape[1])
    data = divide_columns(X, units)
    selection = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ColumnWarning)  # the notes on the table say it
        if len(numbers) == 1 and isinstance(kinds, str) and criterion != "clusters":
            law = _LAWS[_tails_of(data, tails, numbers[0], kinds, seed, noise)]
            caught.clear()  # of fits that were only compared
            with reports_passes(report):
                fitted = law(numbers[0], covariance_type=kinds, random_state=seed, noise=noise).fit(data)
            if fitted.message_ == FitStatus.INTERRUPTED.value:
                raise KeyboardInterrupt
        else:
            laws = tuple(_LAWS) if tails == "auto" else (tails,)
            choice = {"random_state": seed, "noise": noise, "callback": callback, "distribution": laws}
            selection = select_in_units(
                X, numbers, kinds, criterion, units=units, n_missing=n_missing, **choice
            )
            fitted = selection.best
    of_rows = [w.message.counted_from(1) for w in caught if isinstance(w.message, FarRowsWarning)]
    if selection is None:
        messages = [w.message for w in caught if isinstance(w.message, UserWarning)]
        others = [str(message) for message in messages if not isinstance(message, FarRowsWarning)]
    else:
        # Only those of the chosen candidate; those of the others are in the table of the selection.
        others = list(selection.best_row.warnings)
    others = [message for message in others if message != fitted.message_]  # told by `findings`
    model = _in_units(fitted, units, n_missing / len(X))
    analysis = _analysis_of(model, X, names, labels, outlier_level)
    return replace(
        analysis,
        **_standard_errors(fitted, data, units, names),
        covariance_type=fitted.covariance_type,
        standardised=standardise,
        selection=selection,
        stability=fitted.stability(data, n_resamples=n_resamples) if n_resamples else None,
        likelihood=replace(
            analysis.likelihood,
            n_parameters=fitted.n_parameters_,
            log_evidence=getattr(model, "evidence_", np.nan),
            log_left_out=model.loo_,
        ),
        warnings=tuple(dict.fromkeys([*of_rows, *others])),
        seconds=time.perf_counter() - began,
    )


def _tails_of(data: Any, tails: Tails, n_components: int, kind: str, seed: int, noise: bool | float) -> str:
    """Return the tails that are asked for, or those under which rows left out are likelier.

    Long ones must be worth one nat for each degree of freedom, and that by more than a standard error.
    """
    if tails != "auto":
        return tails
    some = np.asarray(data[:: max(1, len(data) // SETTINGS.sample_rows)])
    settings: dict[str, Any] = {"covariance_type": kind, "random_state": seed, "noise": noise}
    gaussian, long = (law(n_components, **settings).fit(some) for law in _LAWS.values())
    gains = long.loo_samples(some) - gaussian.loo_samples(some)
    price = long.n_parameters_ - gaussian.n_parameters_
    return "t" if gains.sum() - price > np.sqrt(len(gains)) * gains.std() else "gaussian"


def describe(
    model: GaussianMixture,
    X: Array,
    names: Sequence[str],
    *,
    labels: Any = None,
    outlier_level: float = OUTLIER_LEVEL,
) -> Analysis:
    """Describe rows by a mixture that is already fitted, to these rows or to others.

    Parameters
    ----------
    model : GaussianMixture
        Fitted; it is not changed.
    X : ndarray, shape (n_samples, n_features)
        May be a memory map; NaN where a value is missing.
    names : sequence of str
        Of the columns.
    labels : array_like, shape (n_samples,), optional
        Known classes, to be compared with the clusters.
    outlier_level : float, default=0.05
        As in `GaussianMixture.outliers`.

    Returns
    -------
    analysis : Analysis
        Without standard errors if the mixture was fitted to other rows, to which they would belong.
    """
    began = time.perf_counter()
    analysis = _analysis_of(model, X, names, labels, outlier_level)
    likelihood = analysis.likelihood
    reason = "They belong to the rows that the mixture was fitted to, and these are others."
    errors: dict[str, Any] = {"no_errors": reason}
    if FittedState.of(model).is_as_likely(likelihood):
        errors = _standard_errors(model, X, np.ones(X.shape[1]), names)
        # Evidence, and rows left out, are those of the fit; mixtures of a stream have neither.
        known = {"log_evidence": "evidence_", "log_left_out": "loo_"}
        values: dict[str, Any] = {name: getattr(model, of, np.nan) for name, of in known.items()}
        likelihood = replace(likelihood, **values)
    return replace(analysis, **errors, likelihood=likelihood, seconds=time.perf_counter() - began)


def _analysis_of(
    model: GaussianMixture, X: Array, names: Sequence[str], labels: Any, level: float
) -> Analysis:
    """Return what a mixture, in the units of the table, says about its rows."""
    model = copy.copy(model)
    model.feature_names_in_ = np.array(names, dtype=object)
    scores = score_table(model, X, level)
    n_clusters = len(component_groups(model))
    truth = None if labels is None else compare_classes(labels, scores.predicted, n_clusters)
    return Analysis(
        **vars(scores),
        model=model,
        covariance_type=model.covariance_type,
        names=tuple(names),
        outlier_level=level,
        truth=truth,
    )


def _standard_errors(model: GaussianMixture, data: Any, units: Array, names: Sequence[str]) -> dict[str, Any]:
    """Return the `errors` in the units of the table, or why there are `no_errors`, or the `fault`."""
    if len(component_groups(model)) < len(model.weights_):
        return {"no_errors": "they are those of components, and a cluster combines several."}
    n_numbers = model.n_samples_seen_ * len(units) * model.n_parameters_
    if n_numbers > LIMITS.max_numbers:
        reason = "The table is too large to work out standard errors here; model.standard_errors(X) does."
        return {"no_errors": reason}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            errors = model.standard_errors(data)
    except ComponentError as error:
        return {"fault": f"Cluster {error.component + 1} {error.problem}"}
    except (ValueError, ArithmeticError) as error:
        return {"no_errors": str(error.with_name(names) if isinstance(error, ColumnError) else error)}
    covariances = np.asarray(errors.covariances)
    if not np.all(units == 1):
        _, covariances = family(model.covariance_type).rescaled(covariances, units)
    return {"errors": replace(errors, means=errors.means * units, covariances=covariances)}


def _in_units(model: GaussianMixture, units: Array, missing: Array) -> GaussianMixture:
    """Return the mixture in the units of the table.

    `missing` is the fraction of values of each column that are missing, and have no density. Spherical
    components of standardised columns are diagonal in the columns as they are.
    """
    if not np.all(units == 1):
        # The fitted mixture itself, which a selection holds, stays in its own units.
        model = copy.copy(model)
        state = FittedState.of(model)
        fitted = state.parameters
        name, covariances = state.family.rescaled(fitted.covariances, units)
        model.covariance_type = name
        box = None if fitted.noise is None else fitted.noise.rescaled(units)
        log_units = float(np.log(units) @ (1 - missing))
        replace(
            state,
            family=family(name, state.family.dof).of_stored(np.shape(covariances)),
            parameters=MixtureParameters(
                fitted.weights, fitted.means * units, covariances, box, dof=fitted.dof
            ),
            dtype=np.float64,
            lower_bound=model.lower_bound_ - log_units,
            lower_bounds=[bound - log_units for bound in model.lower_bounds_],
            evidence=None if state.evidence is None else state.evidence - log_units * model.n_samples_seen_,
            loo=model.loo_ - log_units * model.n_samples_seen_,
        ).set_on(model)
    return model
