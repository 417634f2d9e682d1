"""What the user knows before a fit, `y`, `groups` and `fixed`, checked and in the coordinates of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.em.known import UNKNOWN, HeldParameters, Known
from apolar.em.problem import Problem
from apolar.mixture.parameters import MixtureParameters
from apolar.search.given import checked_weights

__all__ = ["known_of", "labels_of", "unknown_rows"]

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
    spread = labels.copy()
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
    for i in np.flatnonzero((groups != UNKNOWN) & (labels == UNKNOWN)).tolist():
        spread[i] = of_group.get(int(groups[i]), UNKNOWN)
    return spread


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
