"""What a fitted mixture says about some columns: alone, given the others, and in place of missing values."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, numeric_array, random_generator
from apolar._core.namespaces import to_device_of
from apolar.data import Rows, open_rows
from apolar.em.completion import Completion, as_float64_rows
from apolar.estimator.fitted import FittedState
from apolar.estimator.inputs import float_type
from apolar.estimator.predict import Predictor, map_rows, predictor_of
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters

__all__ = ["Regression", "conditional", "impute", "marginal", "regress"]

Model = TypeVar("Model")


@dataclass(frozen=True, eq=False)
class Regression:
    """What a mixture says of some columns, given the values of the others, row by row.

    Attributes
    ----------
    columns : tuple of int
        The columns that are described, by number.
    mean : ndarray, shape (n_samples, n_columns)
        Their expected values.
    deviations : ndarray, shape (n_samples, n_columns)
        Their standard deviations around these, which include the disagreement of the components.
    """

    columns: tuple[int, ...]
    mean: Array
    deviations: Array


def impute(model: Any, rows: Rows, dtype: np.dtype[Any], n_draws: int | None) -> Any:
    """Return rows with their missing values replaced by expected values, or by draws."""
    if n_draws is not None:
        check_integer(n_draws, "n_draws", least=1)
    if rows.is_sparse:
        raise TypeError("X is sparse, and none of its values can be missing: there is nothing to impute.")
    completion, rng = predictor_of(model).completion, random_generator(model.random_state)
    if rows.is_distributed:
        if n_draws is not None:
            raise ValueError("n_draws is for rows in memory: call impute for each partition.")
        # Not a function within this one: Dask wants to know whether two tasks are the same.
        expected = functools.partial(_fill_partition, completion, dtype)
        return rows.map_lazily(expected, rows.n_features, dtype)

    def drawn(values: Array) -> Array:
        return np.stack([completion.draw(values, rng) for _ in range(n_draws or 0)])

    out = map_rows(rows, completion.impute if n_draws is None else drawn, axis=-2)
    with np.errstate(over="ignore"):
        cast = out.astype(dtype, copy=False)
    # In double precision if values leave the range of single precision.
    out = cast if np.all(np.isfinite(cast)) else out
    is_elsewhere = rows.device_template is not None and not rows.returns_to_host
    return to_device_of(out, rows.device_template) if is_elsewhere else out


def _fill_partition(completion: Completion, dtype: np.dtype[Any], values: Array) -> Array:
    return completion.impute(values).astype(dtype, copy=False)


def marginal(model: Model, columns: Any) -> Model:
    """Return the mixture of some of the columns."""
    predictor, chosen = predictor_of(model), _column_numbers(model, columns)
    weights, means = predictor.parameters.weights, predictor.parameters.means[:, chosen]
    kind, covariances = _without_shared_parts(predictor)
    marginal = MixtureParameters(weights, means, kind.marginal(covariances, chosen))
    return _with_columns(model, kind, marginal, chosen)


def conditional(model: Model, columns: Any, values: Any) -> Model:
    """Return the mixture of the other columns, given the values of some."""
    predictor, given = predictor_of(model), _column_numbers(model, columns)
    x = numeric_array(np.atleast_1d(np.asarray(values, dtype=object)).astype(np.float64), "values")
    if x.shape != (len(given),):
        raise ValueError(f"values must hold {len(given)} numbers, one for each column; got shape {x.shape}.")
    others, completion = _other_columns(predictor.parameters.n_features, given), predictor.completion
    row = np.full((1, predictor.parameters.n_features), np.nan)
    row[0, given] = x
    ((part, components, responsibilities),) = completion.parts(row)
    means, units = part.expectations(components)[:, 0, others], completion.units[others]
    kind, covariances = _without_shared_parts(predictor)
    if kind.is_axis_aligned:
        covariances = kind.marginal(covariances, others)
    else:
        matrices = components.covariances[0][:, others][:, :, others] * units * units[:, None]
        covariances = matrices[0] if kind.shares_covariance else matrices
    means = completion.centre[others] + units * means
    return _with_columns(model, kind, MixtureParameters(responsibilities[:, 0], means, covariances), others)


def regress(model: Any, columns: Any, values: Any) -> Regression:
    """Return the expected values of the other columns, given those of some, and their deviations."""
    completion, given = predictor_of(model).completion, _column_numbers(model, columns)
    others = _other_columns(model.n_features_in_, given)
    if len(given) == 1 and np.ndim(values) == 1 and not hasattr(values, "columns"):
        values = np.asarray(values).reshape(-1, 1)
    rows = open_rows(values)
    if rows.is_distributed or rows.is_sparse:
        raise TypeError("values must be dense, and not of Dask: call regress for each partition.")
    if rows.n_features != len(given):
        raise ValueError(f"values must have the {len(given)} columns that are given; got {rows.n_features}.")
    known = getattr(model, "feature_names_in_", None)
    expected = None if known is None else [str(known[column]) for column in given]
    if expected is not None and rows.names is not None and list(rows.names) != expected:
        raise ValueError(
            f"The columns that are given are {', '.join(expected)[:200]}; those of values are "
            f"{', '.join(rows.names)[:200]}."
        )

    def described(block: Array) -> Array:
        full = np.full((len(block), model.n_features_in_), np.nan)
        full[:, given] = as_float64_rows(block)
        moments = completion.impute(full), np.sqrt(completion.variances(full))
        return np.stack([moment[:, others] for moment in moments])

    moments = map_rows(rows, described, n_working=4 * model.n_features_in_, axis=1)
    return Regression(tuple(others), *moments.astype(float_type(values), copy=False))


def _with_columns(model: Any, kind: Family, parameters: MixtureParameters, columns: list[int]) -> Any:
    """Return a fitted mixture of some columns, with the settings of the model that still apply."""
    made = type(model)(parameters.n_components, covariance_type=kind.name, random_state=model.random_state)
    # Nothing is known about rows of these columns alone.
    replace(
        FittedState.of(model),
        family=kind,
        parameters=parameters,
        lower_bound=float("nan"),
        lower_bounds=[],
        evidence=None,
        shrinkage=0.0,
        rounding_variances=None,
    ).set_on(made)
    if hasattr(model, "feature_names_in_"):
        made.feature_names_in_ = np.asarray(model.feature_names_in_, dtype=object)[columns]
    return made


def _without_shared_parts(predictor: Predictor) -> tuple[Family, Array]:
    """Return the family of some columns of the components, and all covariances as it stores them."""
    kind, covariances = predictor.family, predictor.parameters.covariances
    return (kind, covariances) if kind.shares_covariance else (kind.untied, kind.per_component(covariances))


def _other_columns(n_features: int, given: list[int]) -> list[int]:
    others = [column for column in range(n_features) if column not in given]
    if not others:
        raise ValueError("All columns are given: leave at least one to be described.")
    return others


def _column_numbers(model: Any, columns: Any) -> list[int]:
    """Return columns by their numbers; refuse unknown ones, and none."""
    is_single = isinstance(columns, str) or not isinstance(columns, Sequence | np.ndarray)
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    numbers = []
    for column in [columns] if is_single else columns:
        if isinstance(column, str) and column not in names:
            known = f"its columns are {', '.join(names)[:200]}" if names else "its columns have no names"
            raise ValueError(f"The mixture has no column {column!r}: {known}.")
        number = names.index(column) if isinstance(column, str) else column
        numbers.append(check_integer(number, "a column", least=0))
        if numbers[-1] >= model.n_features_in_:
            raise ValueError(f"The mixture has {model.n_features_in_} columns, from 0: there is no {number}.")
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError("columns must name at least one column, and none of them twice.")
    return numbers
