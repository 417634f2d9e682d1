"""The number of components and the covariance family: all candidates are fitted, and compared."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from apolar._core.arrays import Array
from apolar._core.checks import CovarianceType, Criterion, check_integer, one_of, random_generator
from apolar._core.constants import MIN_WEIGHT
from apolar._core.namespaces import to_numpy
from apolar._core.settings import SETTINGS
from apolar._core.threads import one_blas_thread
from apolar.data import ArrayRows, Rows
from apolar.em.result import FitStatus, in_canonical_order, is_below
from apolar.em.whitening import column_units, find_far_rows, is_host_array
from apolar.estimator import GaussianMixture, StudentMixture
from apolar.estimator.cluster_merging import Combination
from apolar.estimator.fit import check_memory
from apolar.estimator.fit_warnings import few_rows_seen, warn_of_rows
from apolar.estimator.fitted import FittedState
from apolar.estimator.inputs import (
    allows_rounding,
    check_columns,
    check_parameters,
    float_type,
    n_threads_of,
    open_input,
    weighted_rows,
)
from apolar.mixture.families import FAMILIES, UNIVARIATE, Family, family
from apolar.moments.covariance import RowMoments, is_constant, row_moments
from apolar.scores import CHOICES, CRITERIA, adjusted_rand_index, criterion_title
from apolar.selection.grid import UNDER_PRIOR, Callback, Candidate, CandidateGrid, Optimum, Task
from apolar.selection.selection_table import Row, Selection, ranked_rows, reason

__all__ = ["Row", "Selection", "select"]
# Parameters of the estimator that belong to one mixture, and make no sense for many fits.
REFUSED = (
    "warm_start", "weights_init", "means_init", "precisions_init", "checkpoint", "checkpoint_every",
)  # fmt: skip


def select(
    X: Any,
    n_components: int | Iterable[int] = range(1, 10),
    covariance_type: CovarianceType | str | Iterable[str] | None = None,
    criterion: Criterion | str = "bic",
    *,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
    callback: Callback | None = None,
    distribution: str | Iterable[str] = "gaussian",
    **parameters: Any,
) -> Selection:
    """Fit mixtures of several sizes and covariance families, and choose one.

    Candidates are fitted by maximum likelihood, for which the BIC is defined, from starts that all families
    share. Those near the best are fitted again from their neighbours: from the fit with one component fewer,
    with one component split, from the fit with one more, with two merged, and from families that they
    contain. A better fit replaces the first one, so that a poor start of a candidate does not decide the
    choice. Candidates that cannot be the best, because a family that contains theirs is not likely enough,
    are not fitted. Where the likelihood has no maximum, because a component would collapse on a few rows, or
    where there are fewer than three values for each parameter, the candidate is not compared: its row says
    why. Constant columns are left out of the comparison; in the mixtures they have their value as mean.

    With a `prior`, and by "evidence" or "loo", candidates are fitted under a prior, in the same way.

    Parameters
    ----------
    X : array_like, sparse matrix, dataframe, or iterable of chunks that can be read again
        Of shape (n_samples, n_features).
    n_components : int or iterable of int, default=range(1, 10)
    covariance_type : str or iterable of str, optional
        Families as in `GaussianMixture`, mclust's codes included. By default all fourteen; with more than
        32 columns, not those that share a part of a full covariance, which would take long.
    criterion : {"bic", "aic", "icl", "evidence", "loo", "clusters"}, default="bic"
        Lower is better. The ICL also penalises components that overlap. "evidence" is minus twice the
        `evidence_` of each fit, which takes the place of the BIC's approximation: the parameters of a
        component cost as much as its rows determine them. "loo" is minus twice the `loo_` of each fit: the
        likelihood of rows that are left out; of the candidates within one standard error of the lowest, the
        one with the fewest parameters is chosen. "clusters": the components of the lowest BIC of each family
        are combined as long as two overlap by more than 5% (see `GaussianMixture.combine`), and the family
        whose clusters agree best with those of the others is chosen. The BIC counts the Gaussians that the
        density takes, several for a cluster that is not Gaussian.
    sample_weight : array_like, shape (n_samples,), optional
        How many rows each row stands for.
    n_jobs : int or None, default=None
        How many candidates are fitted at the same time, -1 for one per processor: by default as many as there
        are threads. The result does not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        All candidates are fitted with the same seed.
    verbose : int, default=0
        Whether to print one line per candidate.
    callback : callable, optional
        Called during the work with what is being done, how many candidates are finished, and of how many.
    distribution : {"gaussian", "t"} or both, default="gaussian"
        Gaussian components, or t distributions, with long tails, as in `StudentMixture`. ("gaussian", "t")
        compares both.
    **parameters
        Parameters of `GaussianMixture`: init_params, n_init, max_iter, tol, reg_covar, prior, n_threads,
        noise; with "t", also dof.

    Returns
    -------
    selection : Selection
        Its table also has the candidates that failed or were dropped, with the reason, and the warnings of
        each fit.

    Examples
    --------
    >>> import apolar
    >>> from apolar.selection import select
    >>> X, _ = apolar.datasets.make_example(2, random_state=0)
    >>> selection = select(X, range(1, 5), "spherical", random_state=0)
    >>> selection.best.n_components
    3
    >>> print(selection.reason)
    3 spherical components have the lowest BIC, ...: very strong evidence (Kass and Raftery 1995).
    """
    begun = time.perf_counter()
    one_of(criterion, "criterion", tuple(dict.fromkeys((*CRITERIA, *CHOICES))))
    are_combined = criterion == "clusters"
    criterion = "bic" if are_combined else criterion
    numbers = component_numbers(n_components)
    kinds = () if covariance_type is None else _checked_kinds(covariance_type)
    laws = _checked_laws(distribution, parameters)
    parameters.pop("dof", None)
    model = _checked_model(parameters, random_state)
    # Bad rows are refused here, with the messages of the estimator, before any candidate is fitted.
    rows = open_input(model, X, sample_weight, reset=True, is_reread=True)
    if effective_n_jobs(n_jobs) > 1 and rows.is_distributed:
        raise ValueError("With rows of Dask its workers share each fit: leave n_jobs out.")
    for kind in kinds:
        check_columns(GaussianMixture(covariance_type=kind), rows.n_features)
    has_weight, columns = weighted_rows(sample_weight), None
    if is_host_array(rows):
        columns = row_moments(rows, allows_missing=True)
        used = "They are left out of the comparison."
        warn_of_rows(model, columns, find_far_rows(rows, columns), has_weight, used)
    constants = None if columns is None else ConstantColumns.of(columns)
    if criterion not in UNDER_PRIOR and "prior" not in parameters:
        model.set_params(prior=None)
    task = Task(
        rows if constants is None else constants.without(rows),
        X,
        has_weight,
        model,
        check_parameters(model)[1],
        # By maximum likelihood as by default.
        allows_rounding(GaussianMixture(**parameters)),
        criterion,
        n_threads_of(model) if n_jobs is None else effective_n_jobs(n_jobs),
        callback,
    )
    by_family = {family(kind): kind for kind in kinds or default_kinds(rows.n_features, rows.count()[0])}
    for fitted_family in by_family:
        check_memory(fitted_family, max(numbers), rows.n_features)
    tailed = [replace(kind, dof=dof) for dof in laws for kind in by_family]
    candidates = [Candidate(kind, number) for kind in tailed for number in numbers]
    with one_blas_thread():
        grid = CandidateGrid(task, candidates)
        grid.run()
        table, models = _table_of(grid, by_family, constants)
    seconds = (time.perf_counter() - begun) / len(candidates)
    table = [replace(row, seconds=seconds) for row in table]
    if verbose:
        print(*(_line_of(row, criterion) for row in table), sep="\n")
    if not models:
        raise ValueError(f"Every candidate failed. {table[0].named}: {table[0].failed}")
    ranked = ranked_rows(table, criterion)
    chosen = _simplest_near(ranked, models, X, sample_weight) if criterion == "loo" else ranked[0]
    best, clusters, agreement = models[chosen.key], None, None
    is_maximal = task.prior is None or criterion in UNDER_PRIOR
    note = "" if is_maximal else "Candidates were fitted under a prior, not by maximum likelihood."
    if are_combined:
        clusters, agreement = agreed_clusters(table, models, X)
        best = clusters.mixture
        if clusters.n_clusters < best.n_components:
            replace(FittedState.of(best), clusters=clusters.groups).set_on(best)
    selection = Selection(best, tuple(table), criterion, "", models, note, clusters, agreement)
    return replace(selection, reason=reason(selection))


def _simplest_near(
    ranked: list[Row], models: dict[tuple[Any, ...], GaussianMixture], X: Any, sample_weight: Any
) -> Row:
    """Return the row of fewest parameters for which rows left out are hardly less likely than for the first.

    That is within one standard error of the sum of the differences of the rows.
    """
    # Their scale does not matter, but products with large ones would overflow.
    weights = 1.0 if sample_weight is None else np.divide(sample_weight, np.max(sample_weight), dtype=float)

    def densities(row: Row) -> Array:
        return np.asarray(models[row.key].loo_samples(X, sample_weight)) * weights

    of_best = densities(ranked[0])
    simpler = [row for row in ranked if row.n_parameters < ranked[0].n_parameters]
    for row in sorted(simpler, key=lambda row: row.n_parameters):
        if not is_below(densities(row), of_best):
            return row
    return ranked[0]


def default_kinds(n_features: int, n_rows: int) -> tuple[str, ...]:
    """Return the families that are compared by default: all, as far as they differ and cost little.

    With many columns, covariances with more parameters than the table has values are left out.
    """
    if n_features == 1:
        return tuple(UNIVARIATE)
    every = dict.fromkeys(FAMILIES.values())
    return tuple(
        kind.name
        for kind in every
        if n_features <= SETTINGS.max_columns
        or kind.is_axis_aligned
        or (not kind.shared and kind.n_covariance_parameters(1, n_features) <= n_rows * n_features)
    )


def _line_of(row: Row, criterion: str) -> str:
    """Return what is printed of a candidate."""
    value = f"{criterion_title(criterion)} {getattr(row, criterion):.8g}"
    ended = row.failed or row.dropped or f"log-likelihood {row.log_likelihood:.8g}, {value}"
    return f"{row.named}: {ended}"


def _table_of(
    grid: CandidateGrid, by_family: dict[Family, str], constants: ConstantColumns | None
) -> tuple[list[Row], dict[tuple[Any, ...], GaussianMixture]]:
    """Return the rows of all candidates, and the models of those that were fitted by their keys."""
    table, models = [], {}
    for each in grid.candidates:
        row = Row(
            by_family[each.family.gaussian],
            each.n_components,
            grid.n_parameters(each),
            failed=grid.failed.get(each),
            dropped=grid.dropped.get(each),
            distribution="gaussian" if each.family.dof is None else "t",
        )
        if row.is_fitted:
            row, models[row.key] = _fitted_row(row, grid.optima[each], grid.task, constants)
        table.append(row)
    return table, models


def _fitted_row(
    row: Row, optimum: Optimum, task: Task, constants: ConstantColumns | None
) -> tuple[Row, GaussianMixture]:
    """Return the row of a fit, and its model."""
    (problem, fit), dtype = optimum, float_type(task.X)
    state = FittedState.of_fit(in_canonical_order(fit, problem.family, problem.whitening), problem, dtype)
    likelihood = state.likelihood(task.rows, task.n_threads)
    state = state.with_likelihood(task.rows, task.prior, task.n_threads)
    evidence, loo = (np.nan if value is None else value for value in (state.evidence, state.loo))
    summary = replace(likelihood, n_parameters=row.n_parameters, log_evidence=evidence, log_left_out=loo)
    # By the names of fields of Row.
    criteria: dict[str, Any] = {**summary.criteria}
    few = None if problem.is_wide else few_rows_seen(problem, fit)
    is_stopped = fit.status is FitStatus.MAX_ITER and fit.n_iter >= task.model.max_iter
    row = replace(
        row,
        log_likelihood=likelihood.log_likelihood,
        converged=fit.status is FitStatus.CONVERGED,
        start=fit.start,
        warnings=tuple(filter(None, (few, fit.status.value if is_stopped else None))),
        n_samples=problem.weight,
        **criteria,
    )
    state = replace(state, lower_bound=row.log_likelihood / problem.weight)
    if constants is not None:
        state = constants.put_back(state, replace(family(row.covariance_type), dof=problem.family.dof))
    settings = task.model.get_params()
    settings |= {"n_components": row.n_components, "covariance_type": row.covariance_type}
    dof = problem.family.dof
    model = GaussianMixture(**settings) if dof is None else StudentMixture(**settings, dof=dof)
    state.set_on(model)
    # The number and the names of all columns.
    model.__dict__.update({name: value for name, value in vars(task.model).items() if name.endswith("_in_")})
    return row, model


@dataclass(frozen=True, eq=False)
class ConstantColumns:
    """Columns that are left out of the comparison: the likelihood has no maximum with them.

    Attributes
    ----------
    varying : ndarray of int
        The positions of the other columns.
    mean, units : ndarray, shape (n_features,)
        Of all columns. In a constant column, components have the standard deviation of its unit.
    """

    varying: Array
    mean: Array
    units: Array

    @classmethod
    def of(cls, columns: RowMoments) -> ConstantColumns | None:
        """Return the constant columns, if some columns are constant and others are not."""
        varying = np.flatnonzero(~is_constant(columns.mean, columns.variances))
        if len(varying) in (0, len(columns.mean)):
            return None
        return cls(varying, columns.mean, column_units(np.maximum(columns.variances, 0.0), columns.mean))

    def without(self, rows: Rows) -> Rows:
        """Return the rows of an array without these columns."""
        values, weights = rows.take(slice(None))
        kept = ArrayRows(values[:, self.varying], weights)
        kept.names = None if rows.names is None else tuple(rows.names[k] for k in self.varying)
        return kept

    def put_back(self, state: FittedState, kind: Family) -> FittedState:
        """Return the state of a mixture of the other columns as one of all columns."""
        parameters, n_features = state.parameters, len(self.mean)
        means = np.tile(self.mean, (len(parameters.weights), 1))
        means[:, self.varying] = parameters.means
        covariances = np.asarray(parameters.covariances)
        if kind.n_axes:
            columns: tuple[Any, ...] = (..., *np.ix_(*[self.varying] * kind.n_axes))
            unit = self.units**2 if kind.n_axes == 1 else np.diag(self.units**2)
            spread = np.tile(unit, (*covariances.shape[: -kind.n_axes], *[1] * kind.n_axes))
            spread[columns] = covariances
            covariances = spread
        rounding = np.zeros(n_features)
        if state.rounding_variances is not None:
            rounding[self.varying] = state.rounding_variances
        parameters = replace(parameters, means=means, covariances=covariances)
        return replace(state, family=kind, parameters=parameters, rounding_variances=rounding)


# --- checks of the arguments ----------------------------------------------------------------


def component_numbers(n_components: Any) -> tuple[int, ...]:
    """Return the numbers of components to compare, each once."""
    given = _several(n_components, "n_components", "a number, or several, as in range(1, 10)")
    return tuple(dict.fromkeys(check_integer(number, "n_components", least=1) for number in given))


def _several(value: Any, name: str, what: str) -> list[Any]:
    """Return the values of an argument that takes one or several, but not none."""
    is_single = isinstance(value, str | bytes) or not isinstance(value, Iterable)
    given = [value] if is_single else list(value)
    if not given:
        raise ValueError(f"{name} is empty: give {what}.")
    return given


def _checked_kinds(covariance_type: Any) -> tuple[str, ...]:
    kinds: dict[str, str] = {}
    # Each family once, under the name that was given first: "full" and "VVV" are the same.
    for kind in _several(covariance_type, "covariance_type", "a family, or several, as in ('diag', 'full')"):
        kinds.setdefault(family(kind).name, kind)
    return tuple(kinds.values())


def _checked_laws(distribution: Any, parameters: dict[str, Any]) -> list[Any]:
    """Return the degrees of freedom of the components that are compared; None for Gaussian ones."""
    names = _several(distribution, "distribution", "'gaussian', 't', or both")
    for name in names:
        one_of(name, "distribution", ("gaussian", "t"))
    if "dof" in parameters and "t" not in names:
        raise ValueError("dof is for components with long tails: give distribution='t' too.")
    dof = parameters.get("dof", "own")
    check_parameters(StudentMixture(dof=dof))
    return [None if name == "gaussian" else dof for name in dict.fromkeys(names)]


def _checked_model(parameters: dict[str, Any], random_state: Any) -> GaussianMixture:
    """Return an estimator with the parameters that all candidates share."""
    known = set(GaussianMixture().get_params()) - {"n_components", "covariance_type", *REFUSED}
    for name, value in parameters.items():
        fixes = name == "init_params" and not isinstance(value, str) and not callable(value)
        if name in REFUSED or fixes:
            raise ValueError(
                f"{name} belongs to one mixture, and select fits several: fit a GaussianMixture with it."
            )
        if name not in known:
            listed = ", ".join(sorted(known - {"random_state", "verbose"}))
            raise TypeError(f"select has no parameter {name!r}; those of the fits are {listed}.")
    if random_state is None or not isinstance(random_state, int | np.integer):
        random_state = int(random_generator(random_state).integers(2**31))
    random_generator(random_state)
    model = GaussianMixture(random_state=random_state, **parameters)
    check_parameters(model)
    return model


# --- agreed clusters -------------------------------------------------------------------------------


def agreed_clusters(
    table: Sequence[Row], models: Mapping[tuple[Any, ...], Any], X: Any
) -> tuple[Combination, float]:
    """Return the clusters of the family with which those of the other families agree best.

    The clusters of a family are the components of its mixture with the lowest BIC, combined where they
    overlap. Two families agree by the adjusted Rand index of their clusters, and the more a family describes,
    the more it counts: by the third power of how far its BIC is below that of one component, as a part of how
    far the lowest is.

    Returns
    -------
    clusters : Combination
    agreement : float
        The weighted mean of the index with the others; NaN where there is nothing to compare.
    """
    first: dict[str, Row] = {}
    for row in ranked_rows(table, "bic"):
        first.setdefault(row.form, row)
    rows = list(first.values())
    bics = np.array([row.bic for row in rows])
    of_one = [row.bic for row in table if row.is_fitted and row.n_components == 1]
    gains = np.maximum(min(of_one, default=bics.max()) - bics, 0.0)
    if len(rows) == 1 or not np.any(gains):
        return models[rows[0].key].combine(X, by="overlap"), np.nan
    combined = [models[row.key].combine(X, by="overlap") for row in rows]
    found = [each.predict(X) for each in combined]
    labels = [np.asarray(each if hasattr(each, "compute") else to_numpy(each)) for each in found]
    weights = np.maximum((gains / gains.max()) ** SETTINGS.agreement_power, MIN_WEIGHT)
    indices = [[adjusted_rand_index(each, other) for other in labels] for each in labels]
    others = weights * (1 - np.eye(len(rows)))
    agreement = (indices * others).sum(axis=1) / others.sum(axis=1)
    # Among families that agree as well, the one with the lowest BIC; the last digits do not decide.
    best = int(np.argmax(agreement.round(6)))
    return combined[best], float(agreement[best])
