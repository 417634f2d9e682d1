"""Parameters, X and sample_weight: checked by scikit-learn, or here where it would load or refuse X."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import (
    _check_n_features,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from apolar._core.arrays import Array, IndexArray
from apolar._core.namespaces import is_dask, to_numpy
from apolar._core.threads import default_threads
from apolar.data import ArrayRows, Rows, open_rows
from apolar.data.chunks import as_counts, require_numbers
from apolar.data.sources import naming_text_columns, source_kind
from apolar.em.known import UNKNOWN, HeldParameters, Known
from apolar.em.problem import Problem
from apolar.exceptions import ColumnError
from apolar.mixture.families import UNIVARIATE, Family, family
from apolar.mixture.parameters import MixtureParameters
from apolar.mixture.prior import AdaptivePrior, Prior
from apolar.mixture.tails import MIN_DOF
from apolar.search.given import checked_weights
from apolar.search.starts import STARTS

__all__ = [
    "allows_rounding",
    "check_columns",
    "check_parameters",
    "family_of",
    "float_type",
    "is_path",
    "known_of",
    "labels_of",
    "n_threads_of",
    "open_input",
    "unknown_rows",
    "weighted_rows",
    "with_column_names",
]
# --- parameters ---------------------------------------------------------------------------------


def constraints() -> dict[str, Any]:
    """Return what scikit-learn is to check of each parameter of `GaussianMixture`.

    A family is checked by `family`, whose message lists them; labels, responsibilities and given parameters
    later, against the rows.
    """
    counted, whole = (Interval(Integral, least, None, closed="left") for least in (1, 0))
    not_negative, positive = (Interval(Real, 0, None, closed=side) for side in ("left", "neither"))
    return {
        "n_components": [counted],
        "covariance_type": "no_validation",
        "init_params": [StrOptions(set(STARTS)), callable, "array-like"],
        "n_init": [counted],
        "max_iter": [whole],
        "tol": [not_negative],
        "reg_covar": [not_negative, None],
        "prior": [StrOptions({"default", "conjugate"}), Prior, None],
        "random_state": [whole, np.random.RandomState, np.random.Generator, None],
        "warm_start": ["boolean", str, os.PathLike],
        "verbose": ["verbose"],
        "verbose_interval": [counted],
        "weights_init": ["array-like", None],
        "means_init": ["array-like", None],
        "precisions_init": ["array-like", Real, None],
        "noise": ["boolean", Interval(Real, 0, 1, closed="neither")],
        "n_threads": [counted, None],
        "checkpoint": [str, os.PathLike, None],
        "checkpoint_every": [counted],
        "weight_concentration_prior_type": [StrOptions({"dirichlet_process", "dirichlet_distribution"})],
        "weight_concentration_prior": [positive, None],
        "mean_precision_prior": [positive, None],
        "mean_prior": ["array-like", None],
        "degrees_of_freedom_prior": [positive, None],
        "covariance_prior": ["array-like", positive, None],
        "n_factors": [StrOptions({"auto"}), counted],
        "dof": [StrOptions({"own", "common"}), Interval(Real, MIN_DOF, None, closed="left")],
    }


def check_parameters(estimator: Any) -> tuple[Family, Prior | None]:
    """Return the family and the prior of an estimator, after checking all of its parameters.

    If `reg_covar` is given, it takes the place of the default prior, and there is none.
    """
    validate_parameter_constraints(constraints(), estimator.get_params(deep=False), type(estimator).__name__)
    prior = estimator.prior
    if isinstance(prior, str):
        default = Prior() if prior == "conjugate" else AdaptivePrior()
        prior = default if estimator.reg_covar is None else None
    return family_of(estimator), prior


def family_of(estimator: Any) -> Family:
    """Return the family of an estimator, with the tails and the number of factors of its components."""
    return family(estimator.covariance_type, estimator.dof, estimator.n_factors)


def check_columns(estimator: Any, n_features: int) -> None:
    """Refuse mclust's codes for data of one column if there are several."""
    kind = estimator.covariance_type
    if n_features > 1 and kind in UNIVARIATE:
        raise ValueError(
            f"Covariance type {kind!r} is for data of one column, and there are {n_features}: use "
            f"{UNIVARIATE[kind].name!r} ({UNIVARIATE[kind].code}) for spherical components, or 'full'."
        )
    least = 1 if estimator.n_factors == "auto" else estimator.n_factors
    if family_of(estimator).has_factors and n_features <= least:
        raise ValueError(
            f"Covariance type {kind!r} needs more columns than factors: there are {n_features}, and "
            f"n_factors={estimator.n_factors!r}. Ask for fewer factors, or use 'full'."
        )


def is_path(value: Any) -> bool:
    """Return whether the value of a parameter is a path."""
    return isinstance(value, str | os.PathLike)


def n_threads_of(estimator: Any) -> int:
    """Return the number of threads of an estimator."""
    return default_threads() if estimator.n_threads is None else int(estimator.n_threads)


def allows_rounding(estimator: Any) -> bool:
    """Return whether a fit may take rows to be known up to their rounding errors: with the default prior."""
    is_default = bool(estimator.prior == "default") and estimator.reg_covar is None
    # Where columns vary with few factors, the prior keeps their noise from vanishing.
    return is_default and not family_of(estimator).has_factors


# --- X and sample_weight ------------------------------------------------------------------------


def open_input(
    estimator: Any,
    X: Any,
    sample_weight: Any = None,
    *,
    reset: bool = False,
    is_reread: bool = False,
    is_batch: bool = False,
) -> Rows:
    """Return the rows of X, checked, without those of weight zero.

    Parameters
    ----------
    estimator : estimator
    X : rows of any source
    sample_weight : array_like or None
    reset : bool, default=False
        Whether to set the number and the names of the features of the estimator, or to compare them. A fit
        needs two rows.
    is_reread : bool, default=False
        Whether the rows are read more than once.
    is_batch : bool, default=False
        Whether weights are used as they are: they have the same meaning in all batches.

    Returns
    -------
    rows : Rows
    """
    if not reset:
        check_is_fitted(estimator)
    min_rows = 2 if reset and not is_batch else 1
    if sample_weight is not None and not is_batch:
        sample_weight = as_counts(sample_weight)
    # It would load some tables into memory, and refuse others.
    if not source_kind(X).fits_scikit_learn:
        rows = open_rows(X, sample_weight)
        if is_reread and not rows.rereadable:
            raise ValueError(
                "X can be read only once, and EM reads it many times: pass a list of chunks or an object "
                "whose __iter__ starts again, or use partial_fit."
            )
        _check_unloaded(estimator, rows, min_rows, reset=reset)
        return rows
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    with naming_text_columns(X):
        X = validate_data(
            estimator,
            X,
            accept_sparse="csr",
            dtype="numeric",
            reset=reset,
            ensure_all_finite="allow-nan" if get_tags(estimator).input_tags.allow_nan else True,
            ensure_min_samples=min_rows,
        )
        # scikit-learn leaves categories of pandas as objects
        X = require_numbers(X)
    if sample_weight is None:
        return ArrayRows(X)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    is_weighted = weights > 0
    if not np.any(is_weighted):
        raise ValueError("The weights of the rows are all zero.")
    return ArrayRows(X, weights) if np.all(is_weighted) else ArrayRows(X[is_weighted], weights[is_weighted])


def _check_unloaded(estimator: Any, rows: Rows, min_rows: int, *, reset: bool) -> None:
    """Check rows of a source that scikit-learn would load into memory, or refuse."""
    name = type(estimator).__name__
    # Distributed rows would have to be counted; no rows at all are refused where they are read.
    if not rows.is_distributed and rows.n_rows and rows.n_rows < min_rows:
        raise ValueError(
            f"Found array with {rows.n_rows} sample(s) while a minimum of {min_rows} is required by {name}."
        )
    _check_n_features(estimator, np.empty((0, rows.n_features)), reset=reset)
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        if rows.names is not None:
            estimator.feature_names_in_ = np.array(rows.names, dtype=object)
        return
    known = getattr(estimator, "feature_names_in_", None)
    if rows.names is not None and known is not None and tuple(known) != rows.names:
        raise ValueError(
            "The feature names should match those that were passed during fit: "
            f"{', '.join(map(str, known))[:200]}; got {', '.join(rows.names)[:200]}."
        )


@contextmanager
def with_column_names(estimator: Any) -> Iterator[None]:
    """Let errors about a column, inside this context, name it as X did, if it had names."""
    try:
        yield
    except ColumnError as error:
        names = getattr(estimator, "feature_names_in_", None)
        if names is None:
            raise
        raise error.with_name(list(names)) from error


def weighted_rows(sample_weight: Any) -> Array | None:
    """Return which rows have a weight above zero; None if all have, or if the weights are of Dask."""
    if sample_weight is None or is_dask(sample_weight):
        return None
    weights = to_numpy(sample_weight)
    is_list = weights.ndim == 1 and weights.dtype.kind in "buif"
    return weights > 0 if is_list and not np.all(weights > 0) else None


def float_type(X: Any) -> np.dtype[Any]:
    """Return the floating type of results from X: float32 if all of its columns are, else float64."""
    if isinstance(X, Rows):
        X = X.device_template
    kinds = [X.dtype] if hasattr(X, "dtype") else list(getattr(X, "dtypes", []))
    # Without the byte order, and without the name of the library that torch and others put before it.
    names = [kind.name if isinstance(kind, np.dtype) else str(kind).rpartition(".")[2] for kind in kinds]
    is_single = bool(names) and all(name.lower() == "float32" for name in names)
    return np.dtype(np.float32 if is_single else np.float64)


# --- what is known about rows and parameters -------------------------------------------------------


HELD = ("weights", "means", "covariances")


def known_of(
    problem: Problem, n_components: int, has_weight: Array | None, *, y: Any, groups: Any, fixed: Any
) -> Known | None:
    """Return what is known about rows and parameters; None if nothing is.

    Parameters
    ----------
    problem : Problem
    n_components : int
    has_weight : ndarray of bool or None
        Which of the user's rows are in the problem, if not all are.
    y, groups, fixed : object
        See `GaussianMixture.fit`.
    """
    labels = labels_of(y, n_components)
    if labels is None and groups is None and fixed is None:
        return None
    rows = problem.rows
    if not rows.in_memory or rows.device_template is not None or rows.is_sparse:
        raise ValueError(
            "y with unknown rows, groups and fixed are for dense rows in memory: pass X as a NumPy array or "
            "a dataframe, or leave them out."
        )
    n_rows = problem.n_rows if has_weight is None else len(has_weight)
    labels = np.full(n_rows, UNKNOWN) if labels is None else labels
    in_groups = np.full(n_rows, UNKNOWN) if groups is None else _groups_of(groups)
    for name, array in (("y", labels), ("groups", in_groups)):
        if len(array) != n_rows:
            raise ValueError(f"{name} must have one entry for each of the {n_rows} rows; got {len(array)}.")
    known = Known(_spread(labels, in_groups), in_groups, _held(problem, n_components, fixed))
    return known if has_weight is None else known.taken(np.flatnonzero(has_weight))


def unknown_rows(y: Any) -> Array | None:
    """Return which rows y marks as unknown; None if it marks none, as the classes of scikit-learn do.

    NaN and None mark them, and so does -1 among whole numbers from -1 on, unless these are -1 and 1, which
    are two classes.
    """
    values = np.asarray(y, dtype=object)
    # One column is as good as a list.
    if values.ndim == 0 or values.size != len(values):
        return None
    values = values.ravel()
    is_empty = np.array([_is_missing(each) for each in values], dtype=bool)
    if is_empty.any():
        return is_empty
    is_marked = all(map(_is_code, values)) and UNKNOWN in values and set(values) != {UNKNOWN, 1}
    return values == UNKNOWN if is_marked else None


def labels_of(y: Any, n_components: int) -> IndexArray | None:
    """Return the component of each row, UNKNOWN where y marks it so; None if it marks none, or all."""
    is_unknown = unknown_rows(y)
    if is_unknown is None or is_unknown.all():
        return None
    known = np.asarray(y, dtype=object).ravel()[~is_unknown]
    wrong = [each for each in known if not _is_code(each) or each >= n_components]
    if wrong:
        raise ValueError(
            f"y marks rows of unknown component, so the others must hold the number of theirs, 0 to "
            f"{n_components - 1}; got {wrong[0]!r}. Give these numbers, more components, or y=None."
        )
    labels = np.full(len(is_unknown), UNKNOWN)
    labels[~is_unknown] = known.astype(int)
    return labels


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or the missing value of pandas."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _is_code(value: Any) -> bool:
    """Return whether a value is a whole number from -1 on."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return is_number and bool(UNKNOWN <= value < np.inf) and value == round(value)


def _groups_of(groups: Any) -> IndexArray:
    """Return the group of each row, UNKNOWN for -1, NaN and None."""
    values = np.asarray(groups, dtype=object)
    if values.ndim != 1:
        raise ValueError(f"groups must hold one entry for each row; got shape {values.shape}.")
    codes: dict[Any, int] = {UNKNOWN: UNKNOWN}
    named = (UNKNOWN if _is_missing(each) else each for each in values)
    return np.array([codes.setdefault(each, len(codes)) for each in named], dtype=int)


def _spread(labels: IndexArray, groups: IndexArray) -> IndexArray:
    """Return the labels, those of some rows of a group for all of it."""
    members = np.flatnonzero((groups != UNKNOWN) & (labels != UNKNOWN))
    of_group = dict(zip(groups[members].tolist(), labels[members].tolist(), strict=True))
    for i in members.tolist():
        if of_group[int(groups[i])] != labels[i]:
            first = members[groups[members] == groups[i]]
            other = first[labels[first] != labels[i]][0]
            raise ValueError(
                f"Rows {min(i, other)} and {max(i, other)} are in one group, and y says that they are in "
                f"components {labels[min(i, other)]} and {labels[max(i, other)]}: correct one of the two."
            )
    of_rows = np.array([of_group.get(group, UNKNOWN) for group in groups.tolist()], dtype=int)
    return np.where(labels == UNKNOWN, of_rows, labels)


def _held(problem: Problem, n_components: int, fixed: Any) -> HeldParameters:
    """Return the parameters that are kept, in whitened coordinates."""
    if fixed is None:
        return HeldParameters()
    if not isinstance(fixed, dict) or not set(fixed) <= set(HELD):
        got = sorted(map(str, fixed)) if isinstance(fixed, dict) else type(fixed).__name__
        raise ValueError(f"fixed must be a dict with some of the keys {', '.join(HELD)}; got {got}.")
    family, whitening, n_features = problem.family, problem.whitening, problem.n_features
    weights = means = covariances = None
    if "weights" in fixed:
        if problem.has_noise:
            raise ValueError(
                "With a noise component weights cannot be fixed: leave out noise or the weights."
            )
        weights = checked_weights(fixed["weights"], n_components, "fixed['weights']")
    if "means" in fixed:
        means = whitening.transform(_partly(fixed["means"], "means", (n_components, n_features)))
    if "covariances" in fixed and family.has_factors:
        raise ValueError(
            f"Covariances of type {family.name!r} cannot be fixed: fix means or weights, or use 'full'."
        )
    if "covariances" in fixed:
        shape = family.covariance_shape(n_components, n_features)
        given = _partly(fixed["covariances"], "covariances", shape, is_one=family.shares_covariance)
        is_free = np.isnan(given)
        if family.shared and not family.shares_covariance and is_free.any():
            raise ValueError(
                f"Covariances of type {family.name!r} share a part: fix those of all components, or of none."
            )
        filled = np.where(is_free, family.repeated(family.identity(n_features), n_components), given)
        if not family.smallest_variance(filled) > 0:
            raise ValueError("A covariance in fixed is not positive definite: check it.")
        spread = MixtureParameters(np.ones(n_components), np.zeros((n_components, n_features)), filled)
        covariances = np.where(is_free, np.nan, whitening.transform_parameters(spread).covariances)
    return HeldParameters(weights, means, covariances, n_components, family.shares_covariance)


def _partly(values: Any, name: str, shape: tuple[int, ...], *, is_one: bool = False) -> Array:
    """Return an array of a shape, in which all values of a component may be NaN: it is not fixed."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"fixed[{name!r}] must hold numbers, in the shape {shape}.") from error
    if array.shape != shape:
        raise ValueError(f"fixed[{name!r}] must have the shape {shape}; got {array.shape}.")
    of_components = np.isfinite(array).reshape(1 if is_one else shape[0], -1)
    is_free = np.isnan(array).reshape(of_components.shape).all(axis=1)
    if not np.all(of_components.all(axis=1) | (is_free & (not is_one))):
        raise ValueError(f"fixed[{name!r}] must be finite, or NaN for all of a component that is not fixed.")
    return array
