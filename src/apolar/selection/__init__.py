"""The number of components and the covariance family: all candidates are fitted, and compared."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from apolar._core.checks import check_integer, one_of, random_generator
from apolar._core.literals import CovarianceType, Criterion
from apolar.data import Rows
from apolar.em.far_rows import find_far_rows, is_host_array
from apolar.estimator import GaussianMixture
from apolar.estimator.inputs import float_type, open_input
from apolar.estimator.parameters import check_columns, check_parameters, n_threads_of
from apolar.estimator.progress import warn_of_constant_columns, warn_of_far_rows
from apolar.mixture.families import FAMILIES, UNIVARIATE, family
from apolar.moments.available import observed_column_moments
from apolar.scores import CRITERIA, criterion_title
from apolar.selection.candidates import fit_candidate
from apolar.selection.comparable import NO_MAXIMUM, min_component_rows, too_many_parameters
from apolar.selection.likelihood import ConstantColumns, Fitted, LikelihoodFits
from apolar.selection.progress import FITTING, Callback, counted
from apolar.selection.result import Models, Row, Selection, reason

__all__ = ["Row", "Selection", "select"]

# Parameters of the estimator that belong to one mixture, and make no sense for many fits.
REFUSED = (
    "warm_start", "weights_init", "means_init", "precisions_init", "checkpoint", "checkpoint_every",
)  # fmt: skip

# With more columns than this, families that share a part of a full covariance are compared only if named.
MAX_COLUMNS = 32


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
    **parameters: Any,
) -> Selection:
    """Fit mixtures of several sizes and covariance families, and choose one.

    Candidates are fitted by maximum likelihood, for which the BIC is defined, from starts that all families
    share. Those near the best are fitted again from their neighbours: from the fit with one component less,
    with one component split, from the fit with one more, with two merged, and from families that they
    contain. A better fit replaces the first one, so that a poor start of a candidate does not decide the
    choice. Candidates that cannot be the best, as a family that contains theirs is not likely enough, are not
    fitted. Where the likelihood has no maximum, because a component would collapse on a few rows, or where
    there are fewer than three values for each parameter, the candidate is not compared: its row says why.
    Constant columns are left out of the comparison; in the mixtures they have their value as mean.

    With `init_params`, `n_init`, `tol`, `max_iter`, `reg_covar`, `noise` or `prior` given, with missing
    values, or by "evidence", each candidate is fitted as `GaussianMixture` does; the reason says so.

    Parameters
    ----------
    X : array_like, sparse matrix, dataframe, or iterable of chunks that can be read again
        Of shape (n_samples, n_features).
    n_components : int or iterable of int, default=range(1, 10)
    covariance_type : str or iterable of str, optional
        Families as in `GaussianMixture`, mclust's codes included. By default all fourteen; of more than 32
        columns, without those that share a part of a full covariance, which would take long.
    criterion : {"bic", "aic", "icl", "evidence"}, default="bic"
        Lower is better. The ICL also penalises components that overlap. "evidence" is minus twice the
        `evidence_` of each fit, which takes the place of the BIC's approximation: the parameters of a
        component cost as much as its rows determine them.
    sample_weight : array_like, shape (n_samples,), optional
        How many rows each row stands for.
    n_jobs : int or None, default=None
        How many candidates are fitted at the same time, -1 for one per processor: by default as many as there
        are threads, or one where each candidate is fitted by the estimator, in processes. The result does not
        depend on it.
    random_state : int, RandomState, Generator or None, default=None
        All candidates are fitted with the same seed.
    verbose : int, default=0
        Whether to print one line per candidate.
    callback : callable, optional
        Called as the work goes on with what is done, in words, how many candidates are done with it, and
        how many are to be.
    **parameters
        Parameters of `GaussianMixture`: init_params, n_init, max_iter, tol, reg_covar, prior, n_threads,
        noise.

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
    one_of(criterion, "criterion", tuple(CRITERIA))
    numbers = _checked_numbers(n_components)
    if covariance_type is not None:
        _checked_kinds(covariance_type)
    model = _checked_model(parameters, random_state)
    # Bad rows are refused here, with the messages of the estimator, before any candidate is fitted.
    source = open_input(model, X, sample_weight, reset=True, min_rows=2)
    columns = observed_column_moments(source) if is_host_array(source) else None
    if columns is not None:
        names, used = getattr(model, "feature_names_in_", None), "They are left out of the comparison."
        warn_of_constant_columns(columns.mean, columns.variances, names, used)
    if columns is not None and not model.noise:
        has_weight = None if sample_weight is None else np.asarray(sample_weight) > 0
        warn_of_far_rows(find_far_rows(source, columns), has_weight)
    for kind in () if covariance_type is None else _checked_kinds(covariance_type):
        check_columns(GaussianMixture(covariance_type=kind), source.n_features)
    kinds = default_kinds(source.n_features) if covariance_type is None else _checked_kinds(covariance_type)
    if effective_n_jobs(n_jobs) > 1 and source.is_distributed:
        raise ValueError("With rows of Dask its workers share each fit: leave n_jobs out.")
    in_order, given = None, _given_settings(parameters)
    if not given and criterion != "evidence":
        n_threads = n_threads_of(model) if n_jobs is None else effective_n_jobs(n_jobs)
        settings, constants = model.get_params(), None if columns is None else ConstantColumns.of(columns)
        rows = source if constants is None else constants.without(source)
        fits = LikelihoodFits(
            rows, settings, criterion, n_threads, float_type(X), _names(model), callback, constants
        )
        given = ("missing values",) if fits.is_incomplete else ()
        in_order = None if fits.is_incomplete else fits.table(kinds, numbers)
    if in_order is None:
        in_order = _fitted_one_by_one(X, sample_weight, source, model, kinds, numbers, n_jobs, callback)
        if criterion != "evidence" and len(numbers) > 1:
            in_order = [(_compared(row, make), make) for row, make in in_order]
    models = Models(
        {
            (row.covariance_type, row.n_components): make
            for row, make in in_order
            if row.is_fitted and make is not None
        }
    )
    table = tuple(row for row, _ in in_order)
    for row in table if verbose else ():
        value = f"{criterion_title(criterion)} {getattr(row, criterion):.8g}"
        ended = row.failed or row.dropped or f"log-likelihood {row.log_likelihood:.8g}, {value}"
        print(f"{row.named}: {ended}, {row.seconds:.2g} s")
    if not models:
        raise ValueError(f"Every candidate failed. {table[0].named}: {table[0].failed}")
    ranked = sorted(
        (row for row in table if row.is_fitted),
        key=lambda row: (getattr(row, criterion), row.n_parameters),
    )
    best = models[ranked[0].covariance_type, ranked[0].n_components]
    note = f"Candidates were fitted one by one, as GaussianMixture does, because of {' and '.join(given)}."
    note = note if given else ""
    return Selection(best, table, criterion, reason(ranked, numbers, criterion, note), models, note)


def default_kinds(n_features: int) -> tuple[str, ...]:
    """Return the families that are compared by default: all, as far as they differ and cost little."""
    if n_features == 1:
        return tuple(UNIVARIATE)
    every = dict.fromkeys(FAMILIES.values())
    return tuple(
        kind.name
        for kind in every
        if n_features <= MAX_COLUMNS or kind.is_axis_aligned or not kind.shares_parameters
    )


def _given_settings(parameters: dict[str, Any]) -> tuple[str, ...]:
    """Return the settings by which candidates are not fitted together, by maximum likelihood.

    The default prior is one of them, if it is given: together, candidates are fitted without a prior.
    """
    default = GaussianMixture()
    names = ("init_params", "n_init", "reg_covar", "max_iter", "tol", "noise")
    changed = [
        name for name in names if parameters.get(name, getattr(default, name)) != getattr(default, name)
    ]
    return tuple(name for name in parameters if name in changed or name == "prior")


def _fitted_one_by_one(
    X: Any,
    sample_weight: Any,
    source: Rows,
    model: GaussianMixture,
    kinds: tuple[str, ...],
    numbers: tuple[int, ...],
    n_jobs: int | None,
    callback: Callback | None,
) -> list[Fitted]:
    """Return rows of candidates, and functions that return models, each fitted by the estimator."""
    parallel = effective_n_jobs(n_jobs) > 1
    common = {**model.get_params(), "n_threads": 1} if parallel else model.get_params()
    # The slowest first, so that the processes end at about the same time.
    order = sorted(
        ((kind, r) for kind in kinds for r in numbers),
        key=lambda pair: -pair[1] * family(pair[0]).n_stats(source.n_features),
    )
    # Processes, not threads: with few rows most of the time is spent in Python, which holds the lock.
    pool = Parallel(n_jobs=n_jobs, prefer="processes", return_as="generator")
    fits = pool(delayed(fit_candidate)(X, sample_weight, common, *pair) for pair in order)
    fitted = dict(zip(order, counted(callback, FITTING, fits, len(order)), strict=True))
    out: list[Fitted] = []
    for kind in kinds:
        for r in numbers:
            row, candidate = fitted[kind, r]
            if candidate is not None:
                candidate.set_params(n_threads=model.n_threads)
            out.append((row, None if candidate is None else functools.partial(_same, candidate)))
    return out


def _compared(row: Row, make: Callable[[], GaussianMixture] | None) -> Row:
    """Return the row of a candidate, as failed if a maximum of the likelihood would say nothing there.

    The criteria are those of such a maximum, also for a fit under a prior.
    """
    if make is None or not row.is_fitted:
        return row
    model = make()
    kind, (n_components, n_features) = family(model.covariance_type), model.means_.shape
    failed = too_many_parameters(kind, n_components, n_features, row.n_samples)
    min_rows = min_component_rows(kind, n_components, n_features)
    if failed is None and model.weights_.min() * row.n_samples < min_rows:
        failed = NO_MAXIMUM
    return row if failed is None else replace(row, failed=failed)


def _same(model: GaussianMixture) -> GaussianMixture:
    return model


def _names(model: GaussianMixture) -> dict[str, Any]:
    """Return the attributes of an estimator that say which columns its rows have."""
    return {
        name: value for name, value in vars(model).items() if name in ("feature_names_in_", "n_features_in_")
    }


# --- checks of the arguments ----------------------------------------------------------------


def _checked_numbers(n_components: Any) -> tuple[int, ...]:
    single = isinstance(n_components, str | bytes) or not isinstance(n_components, Iterable)
    given = [n_components] if single else list(n_components)
    numbers = dict.fromkeys(check_integer(number, "n_components", least=1) for number in given)
    if not numbers:
        raise ValueError("n_components is empty: give a number, or several, as in range(1, 10).")
    return tuple(numbers)


def _checked_kinds(covariance_type: Any) -> tuple[str, ...]:
    single = isinstance(covariance_type, str) or not isinstance(covariance_type, Iterable)
    given = [covariance_type] if single else list(covariance_type)
    # Each family once, under the name that was given first: "full" and "VVV" are the same.
    kinds: dict[str, str] = {}
    for kind in given:
        kinds.setdefault(family(kind).name, kind)
    if not kinds:
        raise ValueError("covariance_type is empty: give a family, or several, as in ('diag', 'full').")
    return tuple(kinds.values())


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
