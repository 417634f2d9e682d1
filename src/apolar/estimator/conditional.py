"""What a fitted mixture says about some columns: alone, given the others, and in place of missing values."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, numeric_array, random_generator
from apolar._core.namespaces import to_device_of
from apolar._core.threads import one_blas_thread
from apolar.data import on_checked
from apolar.em.completion import Completion
from apolar.em.whitening import mixture_around
from apolar.estimator.fitted import FittedState
from apolar.estimator.inputs import float_type, open_input
from apolar.estimator.regression import Regression, regression
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import MixtureParameters

__all__ = ["ConditionalMixin"]


class ConditionalMixin:
    """The methods of a fitted mixture that are about some of its columns."""

    covariance_type: str
    random_state: Any
    means_: Array
    n_features_in_: int

    def impute(self, X: Any, *, n_draws: int | None = None) -> Any:
        """Return the rows with their missing values replaced.

        Parameters
        ----------
        X : array_like, dataframe or another source of rows, shape (n_samples, n_features)
            NaN where a value is missing. Values that are not missing are returned as they are.
        n_draws : int, optional
            For multiple imputation: draw the missing values of each row so many times, from what the mixture
            says of them given those that are observed. By default they are replaced by their expected values.

        Returns
        -------
        X : ndarray, shape (n_samples, n_features), or (n_draws, n_samples, n_features) with `n_draws`
            Of float32 if X is. Of rows on a device or of Dask, an array of the same library.

        Examples
        --------
        >>> import numpy as np
        >>> import apolar
        >>> X = apolar.datasets.load_iris().data
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(X)
        >>> gm.impute([[5.0, 3.4, np.nan, 0.2]]).round(1)
        array([[5. , 3.4, 1.4, 0.2]])
        """
        check_is_fitted(self)
        if n_draws is not None:
            check_integer(n_draws, "n_draws", least=1)
        rows = open_input(self, X, reset=False, once=True)
        if rows.is_sparse:
            raise TypeError("X is sparse, and none of its values can be missing: there is nothing to impute.")
        kind, parameters = family(self.covariance_type), FittedState.of(self).parameters
        completion = Completion.by_mixture(kind, *mixture_around(parameters, kind))
        dtype = float_type(X)
        if rows.is_distributed:
            if n_draws is not None:
                raise ValueError("n_draws is for rows in memory: call impute for each partition.")
            return rows.map_lazily(functools.partial(_imputed, completion, dtype), self.n_features_in_, dtype)
        rng = random_generator(self.random_state)

        def filled(block: Array, _: Any) -> Array:
            if n_draws is None:
                return completion.expected(block)
            return np.stack([completion.drawn(block, rng) for _ in range(n_draws)])

        on_host = rows.on_host()
        with one_blas_thread():
            parts = list(on_host.map(on_checked(filled, allows_missing=True)))
        out = _cast(np.concatenate(parts, axis=-2), dtype)
        is_elsewhere = rows.device_template is not None and not rows.returns_to_host
        return to_device_of(out, rows.device_template) if is_elsewhere else out

    def marginal(self, columns: Any) -> Self:
        """Return the mixture of some of the columns.

        Parameters
        ----------
        columns : int, str, or sequence of these
            By number, from zero, or by name, in the order in which the mixture returned has them.

        Returns
        -------
        mixture : GaussianMixture
            Of as many components. Where components share a part of their covariances, such as the volume,
            those of some columns do not: each then has its own.
        """
        kind, parameters, chosen = self._of_columns(columns)
        alone = _alone(kind)
        covariances = alone.marginal(_stored(kind, alone, parameters.covariances), chosen)
        return self._like(
            alone, MixtureParameters(parameters.weights, parameters.means[:, chosen], covariances), chosen
        )

    def conditional(self, columns: Any, values: Any) -> Self:
        """Return the mixture of the other columns, given the values of some.

        Parameters
        ----------
        columns : int, str, or sequence of these
            The columns that are known, by number, from zero, or by name.
        values : float or sequence of float
            Their values, one for each.

        Returns
        -------
        mixture : GaussianMixture
            Of the columns that are not given, in their order: the weights are the responsibilities of the
            components for the values, the means their regressions.

        Examples
        --------
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
        >>> gm.conditional([0, 1], [5.0, 3.4]).means_.shape
        (3, 2)
        """
        kind, parameters, given = self._of_columns(columns)
        x = numeric_array(np.atleast_1d(np.asarray(values, dtype=object)).astype(np.float64), "values")
        if x.shape != (len(given),):
            raise ValueError(
                f"values must hold {len(given)} numbers, one for each column; got shape {x.shape}."
            )
        others = [column for column in range(self.n_features_in_) if column not in given]
        if not others:
            raise ValueError("All columns are given: leave at least one to be described.")
        completion = Completion.by_mixture(kind, *mixture_around(parameters, kind))
        row = np.full(self.n_features_in_, np.nan)
        row[given] = x
        ((part, conditional, responsibilities),) = completion.parts(row[None])
        means, units = part.expected(conditional)[:, 0, others], completion.units[others]
        alone = _alone(kind)
        if alone.is_axis_aligned:
            covariances = alone.marginal(_stored(kind, alone, parameters.covariances), others)
        else:
            matrices = conditional.covariances[0][:, others][:, :, others] * units * units[:, None]
            covariances = matrices[0] if alone.shares_covariance else matrices
        mixture = MixtureParameters(
            responsibilities[:, 0], completion.centre[others] + units * means, covariances
        )
        return self._like(alone, mixture, others)

    def regress(self, columns: Any, values: Any) -> Regression:
        """Return the expected values of the other columns, given those of some, for many rows at a time.

        Of each row they are the mean and the deviations of what `conditional` returns: regressions that are
        not linear, with deviations that differ from row to row.

        Parameters
        ----------
        columns : int, str, or sequence of these
            The columns that are known, by number, from zero, or by name.
        values : array_like, dataframe or another source of rows, shape (n_samples, n_known)
            Their values, in the order of `columns`; of one column, shape (n_samples,) too. NaN where one is
            not known either.

        Returns
        -------
        regression : Regression
            With `mean` and `deviations`, both of shape (n_samples, n_others).

        Examples
        --------
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
        >>> petals = gm.regress([0, 1], [[5.0, 3.4], [6.5, 3.0]])
        >>> petals.columns
        (2, 3)
        >>> petals.mean.round(1)
        array([[1.5, 0.2],
               [5.1, 1.8]])
        """
        kind, parameters, given = self._of_columns(columns)
        completion = Completion.by_mixture(kind, *mixture_around(parameters, kind))
        return regression(self, given, values, completion)

    def _of_columns(self, columns: Any) -> tuple[Family, MixtureParameters, list[int]]:
        """Return the family, the mixture, and columns by their numbers."""
        check_is_fitted(self)
        return family(self.covariance_type), FittedState.of(self).parameters, _numbers(self, columns)

    def _like(self, kind: Family, parameters: MixtureParameters, columns: list[int]) -> Self:
        """Return a fitted mixture of some columns, with the settings of this one that still apply."""
        # The class that this one is mixed into has these parameters.
        make: Any = type(self)
        model = make(parameters.n_components, covariance_type=kind.name, random_state=self.random_state)
        # Nothing is known of rows of these columns alone.
        state = replace(
            FittedState.of(self),
            family=kind,
            parameters=parameters,
            lower_bound=float("nan"),
            lower_bounds=[],
            evidence=None,
            shrinkage=0.0,
            rounding_variances=None,
        )
        state.set_on(model)
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            model.feature_names_in_ = np.asarray(names, dtype=object)[columns]
        made: Self = model
        return made


def _imputed(completion: Completion, dtype: np.dtype[Any], values: Array) -> Array:
    """Return the completed rows of a partition."""
    return completion.expected(values).astype(dtype, copy=False)


def _cast(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return values in a floating type; in double precision if they leave the range of that type."""
    with np.errstate(over="ignore"):
        cast = values.astype(dtype, copy=False)
    return cast if np.all(np.isfinite(cast)) else values


def _alone(kind: Family) -> Family:
    """Return the family of some columns of components of a family."""
    return kind if kind.shares_covariance else kind.untied


def _stored(kind: Family, alone: Family, covariances: Array) -> Array:
    """Return the covariances of a family as those of another, of the same storage."""
    return covariances if kind == alone else kind.per_component(covariances)


def _numbers(estimator: Any, columns: Any) -> list[int]:
    """Return columns by their numbers; refuse unknown ones, and none."""
    is_single = isinstance(columns, str) or not isinstance(columns, Sequence | np.ndarray)
    listed = [columns] if is_single else list(columns)
    names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    n_features, numbers = estimator.n_features_in_, []
    for column in listed:
        if isinstance(column, str):
            if column not in names:
                known = f"its columns are {', '.join(names)[:200]}" if names else "it has no names of columns"
                raise ValueError(f"The mixture has no column {column!r}: {known}.")
            numbers.append(names.index(column))
        else:
            number = check_integer(column, "a column", least=0)
            if number >= n_features:
                raise ValueError(
                    f"The mixture has {n_features} columns, from 0 on, and none of number {number}."
                )
            numbers.append(number)
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError("columns must name at least one column, and none of them twice.")
    return numbers
