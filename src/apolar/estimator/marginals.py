"""What a fitted mixture says about rows and columns: marginals, regressions, missing values, outliers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
from scipy.stats import chi2, f, norm, t

from apolar._core.arrays import Array
from apolar._core.checks import check_fraction, check_integer, numeric_array, random_generator
from apolar._core.threads import one_blas_thread
from apolar.data import Rows, on_checked
from apolar.em.blocks import as_float64_rows
from apolar.estimator.fitted import FittedState
from apolar.estimator.inputs import float_type, open_input
from apolar.mixture.conditional import min_distances
from apolar.mixture.directions import Directions, discriminating_directions
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters
from apolar.mixture.prior import Strengths

__all__ = [
    "OutlierRule",
    "Regression",
    "cdf",
    "conditional",
    "directions",
    "find_outliers",
    "impute",
    "marginal",
    "quantile",
    "regress",
]

Model = TypeVar("Model")


@dataclass(frozen=True, eq=False)
class Regression:
    """What a mixture says about some columns, given the values of the others, row by row.

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


# --- rows ---------------------------------------------------------------------------------------


@one_blas_thread()
def _map_rows(
    rows: Rows,
    function: Callable[[Array], Any],
    n_columns: int | None = None,
    dtype: Any = np.float64,
    *,
    n_working: int = 0,
    axis: int = 0,
) -> Any:
    """Return a function of the values of rows, some of which may be missing.

    It is computed on the host in chunks; of distributed rows, lazily and where they are.

    Parameters
    ----------
    rows : Rows
    function : callable
        Takes values, shape (n, n_features), and returns an array with n entries along `axis`.
    n_columns : int or None, default=None
        The number of values that it returns for each row; None: one value, without an axis.
    dtype : dtype, default=float64
        Of what it returns.
    n_working : int, default=0
        The working memory of the function per row, in numbers.
    axis : int, default=0
    """
    if rows.is_distributed:
        return rows.map_lazily(lambda chunk: function(chunk.values), n_columns, dtype)
    of_chunk = on_checked(lambda block, _: function(block), allows_missing=True)
    chunk_rows = functools.partial(Rows.chunk_rows, n_working=n_working)
    return np.concatenate(list(rows.on_host().map(of_chunk, chunk_rows=chunk_rows)), axis=axis)


@dataclass(frozen=True, eq=False)
class OutlierRule:
    """The squared distances from the components above which a row is an outlier.

    Attributes
    ----------
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray, shape (n_components, n_features), or with one more axis
        Variances of the columns, or matrices.
    limits : ndarray, shape (n_components, n_features + 1)
        For rows of 0, 1, ... values that are not missing.
    is_cluster : ndarray of bool, shape (n_components,)
        Which components count: one that a single row has for itself is not a cluster.
    """

    means: Array
    covariances: Array
    limits: Array
    is_cluster: Array

    @classmethod
    def of(cls, estimator: Any, level: float, rows: Rows | None = None) -> Self:
        """Return the rule of a fitted mixture; `level` is for as many rows as the fit had together.

        Parameters
        ----------
        estimator : GaussianMixture
        level : float
        rows : Rows, optional
            To be judged. Those of the fit are nearer to its components than others are.
        """
        check_fraction(level, "level")
        state = FittedState.of(estimator)
        kind, parameters = state.family, state.parameters
        shape, covariances = parameters.means.shape, parameters.covariances
        if kind.is_axis_aligned:
            variances = kind.diagonals(kind.per_component(covariances))
            covariances = np.broadcast_to(variances.reshape(len(variances), -1), shape)
        else:
            covariances = kind.matrices(covariances, *shape)
        n_rows = max(float(estimator.n_samples_seen_), 1.0)
        is_cluster = np.round(n_rows * parameters.weights) > 1
        is_cluster |= ~is_cluster.any()
        tail = float(-np.expm1(np.log1p(-level) / n_rows))
        is_new = rows is None or not state.is_of_fit(rows)
        limits = _distance_limits(state, tail, is_new=is_new)
        return cls(parameters.means, covariances, limits, is_cluster)

    def __call__(self, X: Array) -> Array:
        """Return whether each row is an outlier, shape (n_samples,)."""
        X = np.asarray(X, dtype=np.float64)
        is_far = np.ones(len(X), dtype=bool)
        for k in np.flatnonzero(self.is_cluster):
            distances, n_observed = min_distances(self.means[[k]], self.covariances[[k]], X)
            is_far &= distances > self.limits[k, n_observed]
        return is_far

    def of_component(self, k: Any) -> Self:
        """Return the rule for one of the components alone."""
        parts = self.means[[k]], self.covariances[[k]], self.limits[[k]], np.ones(1, dtype=bool)
        return type(self)(*parts)


def _distance_limits(state: FittedState, tail: float, *, is_new: bool) -> Array:
    """Return the squared distances that rows of each component exceed with a probability.

    These are quantiles of chi-squared, or of F where tails are long, for parameters that are known. Those of
    new rows are longer, as parameters are estimated: Hotelling's law for the mean and covariance of as many
    rows as estimate those of a component [hotelling1931]. Where columns are independent, the law of a sum of
    squares of t is approximated by F with the same mean and variance.

    Returns
    -------
    limits : ndarray, shape (n_components, n_features + 1)
    """
    kind, parameters = state.family, state.parameters
    r, m = parameters.means.shape
    p = np.arange(1.0, m + 1)
    known = np.broadcast_to(chi2.isf(tail, p), (r, m))
    limits = known if parameters.dof is None else p * f.isf(tail, p, parameters.dof[:, None])
    if is_new:
        n, on_diagonal = (each[:, None] for each in _estimation(state))
        q = np.maximum(n - p, 1.0) if kind.n_axes else m * np.maximum(n - 1, 1.0)
        new = p * (n + 1) / (q if kind.n_axes else q / m) * f.isf(tail, p, q)
        free = np.maximum(n - 1, 5.0)
        q = 4 + (p + 2) * (free - 4) / 3
        of_columns = p * (n + 1) / (free - 2) * (q - 2) / q * f.isf(tail, p, q)
        limits = limits * (new + on_diagonal * (of_columns - new)) / known
    return np.concatenate([np.full((r, 1), np.inf), limits], axis=1)


def _estimation(state: FittedState) -> tuple[Array, Array]:
    """Return how many rows estimate the covariance of each component, and how far columns are independent.

    The rows are those of the component, and more where components share parts, or are shrunk to a common
    covariance. The second number is 1 where columns are independent.
    """
    kind, parameters, total = state.family, state.parameters, float(state.n_samples_seen or 1.0)
    r, m = parameters.means.shape
    counts, strengths = np.maximum(parameters.weights * total, 1.0), state.shrinkage or Strengths()
    n_own, n_shared = (each.n_covariance_parameters(r, m) for each in (kind.untied, kind))
    is_one = kind.shares_covariance or r == 1
    own = np.full(r, total) if is_one else np.minimum(counts * (n_own / n_shared), total)
    common = float(strengths.common)
    rows = np.maximum((own + common) ** 2 / (own + common**2 / total), 2.0)
    of_common = np.ones(r) if is_one else common / (own + common)
    on_diagonal = {1: np.ones(r), 2: float(strengths.diagonal) * of_common}
    return rows, on_diagonal.get(kind.n_axes, np.zeros(r))


def find_outliers(estimator: Any, rows: Rows, level: float) -> Any:
    """Return whether each row is an outlier, shape (n_samples,); a lazy array for distributed rows."""
    if rows.is_sparse:
        raise TypeError("X is sparse: call outliers for X.toarray(), a part of the rows at a time.")
    return _map_rows(rows, OutlierRule.of(estimator, level, rows), None, np.bool_)


def impute(model: Any, rows: Rows, dtype: np.dtype[Any], n_draws: int | None) -> Any:
    """Return rows with their missing values replaced by expected values, or by draws."""
    if n_draws is not None:
        check_integer(n_draws, "n_draws", least=1)
    if rows.is_sparse:
        raise TypeError("X is sparse, and none of its values can be missing: there is nothing to impute.")
    if rows.is_distributed and n_draws is not None:
        raise ValueError("n_draws is for rows in memory: call impute for each partition.")
    rng = None if n_draws is None else random_generator(model.random_state)
    completion = FittedState.of(model).completion

    def filled(values: Array) -> Array:
        if rng is None:
            out = completion.impute(values)
        else:
            out = np.stack([completion.draw(values, rng) for _ in range(n_draws or 0)])
        with np.errstate(over="ignore"):
            cast = out.astype(dtype, copy=False)
        # In double precision if values leave the range of the type.
        return cast if np.all(np.isfinite(cast)) else out

    return rows.send_back(_map_rows(rows, filled, rows.n_features, dtype, axis=-2))


# --- one column ---------------------------------------------------------------------------------


def cdf(model: Any, values: Any) -> Array:
    """Return the probability of values up to each of some, of a mixture of one column."""
    weights, means, deviations, law = _laws_of_column(model)
    x = numeric_array(values, "X").astype(np.float64)
    if x.ndim != 1 and x.shape[1:] != (1,):
        raise ValueError(f"X must hold one column; got shape {x.shape}.")
    return np.asarray(law.cdf((x.reshape(-1, 1) - means) / deviations) @ weights)


def quantile(model: Any, probabilities: Any) -> Array:
    """Return the values up to which a mixture of one column has some probabilities, by bisection."""
    weights, means, deviations, law = _laws_of_column(model)
    p = numeric_array(probabilities, "q").astype(np.float64)
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError(f"q must hold probabilities, from 0 to 1; got {p[~((p >= 0) & (p <= 1))][0]}.")
    # Each is between those of the components.
    of_components = means + deviations * law.ppf(p[..., None])
    low, high = of_components.min(axis=-1), of_components.max(axis=-1)
    is_open = low < high
    while np.any(is_open):
        with np.errstate(invalid="ignore"):  # the ends of all values: for 0 and 1
            middle = low + (high - low) / 2
        # Halves end where nothing is between the ends.
        is_open &= (low < middle) & (middle < high)
        is_below = law.cdf((middle[..., None] - means) / deviations) @ weights < p
        low, high = np.where(is_open & is_below, middle, low), np.where(is_open & ~is_below, middle, high)
    return np.asarray(high)


def _laws_of_column(model: Any) -> tuple[Array, Array, Array, Any]:
    """Return weights, means and scales of the components of one column, and their standard law."""
    state = FittedState.of(model)
    parameters, n_features = state.parameters, state.parameters.n_features
    if n_features != 1:
        raise ValueError(
            f"The mixture has {n_features} columns: call it for one of them, as in "
            "model.marginal(0).quantile(0.5)."
        )
    if parameters.noise is not None:
        raise ValueError(
            "The distribution function of a noise component is not available: fit with noise=False, or take "
            "a marginal."
        )
    variances = state.family.matrices(np.asarray(parameters.covariances), *parameters.means.shape)[:, 0, 0]
    law = norm if parameters.dof is None else t(parameters.dof)
    return parameters.weights / parameters.weights.sum(), parameters.means[:, 0], np.sqrt(variances), law


# --- columns ------------------------------------------------------------------------------------


def marginal(model: Model, columns: Any) -> Model:
    """Return the mixture of some of the columns."""
    state, chosen = FittedState.of(model), _column_numbers(model, columns)
    weights, means = state.parameters.weights, state.parameters.means[:, chosen]
    kind, covariances = _without_shared_parts(state)
    marginal = MixtureParameters(weights, means, kind.marginal(covariances, chosen), dof=state.parameters.dof)
    return _with_columns(model, kind, marginal, chosen)


def conditional(model: Model, columns: Any, values: Any) -> Model:
    """Return the mixture of the other columns, given the values of some."""
    state, given = FittedState.of(model), _column_numbers(model, columns)
    x = numeric_array(np.atleast_1d(np.asarray(values, dtype=object)).astype(np.float64), "values")
    if x.shape != (len(given),):
        raise ValueError(f"values must hold {len(given)} numbers, one for each column; got shape {x.shape}.")
    others, completion = _other_columns(state.parameters.n_features, given), state.completion
    row = np.full((1, state.parameters.n_features), np.nan)
    row[0, given] = x
    ((part, components, responsibilities, scales),) = completion.parts(row)
    means, units = part.expectations(components)[:, 0, others], completion.units[others]
    kind, covariances = _without_shared_parts(state)
    if kind.is_axis_aligned:
        covariances = kind.marginal(covariances, others)
    else:
        kind = kind.of_matrices
        matrices = components.covariances[0][:, others][:, :, others] * units * units[:, None]
        covariances = matrices[0] if kind.shares_covariance else matrices
    means, dof = completion.centre[others] + units * means, state.parameters.dof
    if dof is not None:
        # The scale matrices of t distributions depend on the values, and there are more degrees of freedom.
        kind, covariances = replace(kind.untied, dof="own"), kind.per_component(covariances)
        covariances, dof = covariances * kind.each(scales[:, 0]), dof + len(given)
    made = MixtureParameters(responsibilities[:, 0], means, covariances, dof=dof)
    return _with_columns(model, kind, made, others)


def directions(model: Any, n_directions: int) -> Directions:
    """Return the directions that separate the components best; noise does not count."""
    check_integer(n_directions, "n_directions", least=1)
    state = FittedState.of(model)
    weights, means = state.parameters.weights, state.parameters.means
    covariances = state.family.matrices(np.asarray(state.parameters.covariances), *means.shape)
    return discriminating_directions(weights / weights.sum(), means, covariances, n_directions)


def regress(model: Any, columns: Any, values: Any) -> Regression:
    """Return the expected values of the other columns, given those of some, and their deviations."""
    completion, given = FittedState.of(model).completion, _column_numbers(model, columns)
    others = _other_columns(model.n_features_in_, given)
    if len(given) == 1 and np.ndim(values) == 1 and not hasattr(values, "columns"):
        values = np.asarray(values).reshape(-1, 1)
    known = marginal(model, columns)
    if not hasattr(values, "columns"):
        # An array has no names, and none are asked for.
        vars(known).pop("feature_names_in_", None)
    rows = open_input(known, values)
    if rows.is_distributed or rows.is_sparse:
        raise TypeError("values must be dense, and not of Dask: call regress for each partition.")

    def described(block: Array) -> Array:
        full = np.full((len(block), model.n_features_in_), np.nan)
        full[:, given] = as_float64_rows(block)
        moments = completion.impute(full), np.sqrt(completion.variances(full))
        return np.stack([moment[:, others] for moment in moments])

    moments = _map_rows(rows, described, n_working=4 * model.n_features_in_, axis=1)
    return Regression(tuple(others), *moments.astype(float_type(values), copy=False))


def _with_columns(model: Any, kind: Family, parameters: MixtureParameters, columns: list[int]) -> Any:
    """Return a fitted mixture of some columns, with the settings of the model that still apply."""
    of_tails = {} if kind.dof is None else {"dof": kind.dof}
    known = {"covariance_type": kind.name, "random_state": model.random_state, **of_tails}
    made = type(model)(parameters.n_components, **known)
    # Nothing is known about rows of these columns alone.
    replace(
        FittedState.of(model),
        family=kind,
        parameters=parameters,
        lower_bound=float("nan"),
        lower_bounds=[],
        evidence=None,
        loo=None,
        loo_standard_error=None,
        shrinkage=None,
        rounding_variances=None,
    ).set_on(made)
    if hasattr(model, "feature_names_in_"):
        made.feature_names_in_ = np.asarray(model.feature_names_in_, dtype=object)[columns]
    return made


def _without_shared_parts(state: FittedState) -> tuple[Family, Array]:
    """Return the family of some columns of the components, and all covariances as it stores them."""
    kind, covariances = state.family, state.parameters.covariances
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
