"""The number of components and the covariance family: all candidates are fitted, and compared."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from apolar._core.checks import check_integer, one_of, random_generator
from apolar.data import Rows
from apolar.estimator import GaussianMixture
from apolar.estimator.inputs import opened
from apolar.estimator.parameters import checked_parameters
from apolar.exceptions import ConstantColumnWarning
from apolar.mixture.families import family
from apolar.moments.available import observed_column_moments
from apolar.moments.covariance import is_constant
from apolar.scores import CRITERIA, criterion_title
from apolar.selection.candidates import CandidateFits
from apolar.selection.result import Row, Selection, reason

__all__ = ["Row", "Selection", "select"]

# Parameters of the estimator that belong to one mixture, and make no sense for many fits.
REFUSED = (
    "warm_start", "weights_init", "means_init", "precisions_init", "checkpoint", "checkpoint_every",
)  # fmt: skip


def select(
    X: Any,
    n_components: int | Iterable[int] = range(1, 10),
    covariance_type: str | Iterable[str] = ("spherical", "diag", "full"),
    criterion: str = "bic",
    *,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
    **parameters: Any,
) -> Selection:
    """Fit mixtures of several sizes and covariance families, and choose one.

    Each candidate is first fitted from the start of the estimator. Then candidates of the same family are
    fitted again from their neighbours: from the fit with one component less, with one component split, and
    from the fit with one component more, with two components merged. A fit that is clearly better replaces
    the first one, so that a poor start of a candidate does not decide the choice.

    Parameters
    ----------
    X : array_like, sparse matrix, dataframe, or iterable of chunks that can be read again
        Of shape (n_samples, n_features).
    n_components : int or iterable of int, default=range(1, 10)
    covariance_type : str or iterable of str, default=("spherical", "diag", "full")
        Families as in `GaussianMixture`, mclust's codes included.
    criterion : {"bic", "aic", "icl", "evidence"}, default="bic"
        Lower is better. The ICL also penalises components that overlap. "evidence" is minus twice the
        `evidence_` of each fit, which takes the place of the BIC's approximation: the parameters of a
        component cost as much as its rows determine them.
    sample_weight : array_like, shape (n_samples,), optional
        How many rows each row stands for.
    n_jobs : int or None, default=None
        The number of processes that fit candidates at the same time: None means 1, and -1 one per processor.
        The result does not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        All candidates are fitted with the same seed.
    verbose : int, default=0
        Whether to print one line per candidate.
    **parameters
        Parameters of `GaussianMixture`: init_params, n_init, max_iter, tol, reg_covar, prior, n_threads.

    Returns
    -------
    selection : Selection
        Its table also has the candidates that failed, with the reason, and the warnings of each fit.

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
    numbers, kinds = _checked_numbers(n_components), _checked_kinds(covariance_type)
    model = _checked_model(parameters, random_state)
    # Bad rows are refused here, with the messages of the estimator, before any candidate is fitted.
    source = opened(model, X, sample_weight, reset=True, least_rows=2)
    _warn_of_constant_columns(source, getattr(model, "feature_names_in_", None))
    parallel = effective_n_jobs(n_jobs) > 1
    if parallel and source.is_distributed:
        raise ValueError("With rows of Dask its workers share each fit: leave n_jobs out.")
    common = {**model.get_params(), "n_threads": 1} if parallel else model.get_params()
    fits = CandidateFits(X, sample_weight, common)
    # The slowest first, so that the processes end at about the same time.
    order = sorted(
        ((kind, r) for kind in kinds for r in numbers),
        key=lambda pair: -pair[1] * family(pair[0]).n_stats(source.n_features),
    )
    # Processes, not threads: with few rows most of the time is spent in Python, which holds the lock.
    pool = Parallel(n_jobs=n_jobs, prefer="processes")
    tried = dict(zip(order, pool(delayed(fits.fitted)(*pair) for pair in order), strict=True))
    by_kind = dict.fromkeys(kind for kind, _ in order)
    swept = pool(delayed(fits.swept)(kind, {r: tried[kind, r] for r in sorted(numbers)}) for kind in by_kind)
    rows = {(row.covariance_type, row.n_components): (row, fitted) for part in swept for row, fitted in part}
    in_order = [rows[kind, r] for kind in kinds for r in numbers]
    threads = model.n_threads
    models = {
        (row.covariance_type, row.n_components): fitted.set_params(n_threads=threads, warm_start=False)
        for row, fitted in in_order
        if row.failed is None and fitted is not None
    }
    table = tuple(row for row, _ in in_order)
    for row in table if verbose else ():
        value = f"{criterion_title(criterion)} {getattr(row, criterion):.8g}"
        ended = row.failed or f"log-likelihood {row.log_likelihood:.8g}, {value}"
        print(f"{row.named}: {ended}, {row.seconds:.2g} s")
    if not models:
        raise ValueError(f"Every candidate failed. {table[0].named}: {table[0].failed}")
    ranked = sorted(
        (row for row in table if row.failed is None),
        key=lambda row: (getattr(row, criterion), row.n_parameters),
    )
    best = models[ranked[0].covariance_type, ranked[0].n_components]
    return Selection(best, table, criterion, reason(ranked, numbers, criterion), models)


# --- checks of the arguments ----------------------------------------------------------------


def _warn_of_constant_columns(rows: Rows, names: Any) -> None:
    """Warn of constant columns: a criterion counts their parameters, though they carry no information."""
    if rows.is_distributed or not rows.in_memory:
        return  # a pass over rows elsewhere costs more than the warning is worth
    _, _, mean, variances = observed_column_moments(rows)
    constant = np.flatnonzero(is_constant(mean, variances))
    if not 0 < len(constant) < rows.n_features:
        return
    shown = ", ".join(str(column) if names is None else repr(names[column]) for column in constant[:5])
    not_shown = f" and {len(constant) - 5} more" if len(constant) > 5 else ""
    warnings.warn(
        f"Constant columns ({shown}{not_shown}) are counted by the criterion, though they carry no "
        "information, and can change the choice: leave them out.",
        ConstantColumnWarning,
        stacklevel=3,
    )


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
    checked_parameters(model)
    return model
