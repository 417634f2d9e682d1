"""The methods of a fitted mixture that change nothing: predictions, criteria, samples, standard errors."""

from __future__ import annotations

import numbers
from typing import Any, overload

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, random_generator
from apolar._core.threads import one_blas_thread
from apolar.data import BlockFunction, Checked
from apolar.em.low_density import with_noise_component
from apolar.em.problem import Problem
from apolar.em.rounding import with_rounding
from apolar.estimator.attributes import fitted_parameters, was_rounded
from apolar.estimator.bootstrap import Bootstrap, bootstrap
from apolar.estimator.fit import n_threads_of
from apolar.estimator.inputs import float_type, in_single_precision, opened
from apolar.estimator.outliers import OutlierRule
from apolar.estimator.parameters import checked_parameters
from apolar.estimator.predict import Answer, Likelihood, densities, labels, predictor_of, probabilities
from apolar.estimator.standard_errors import StandardErrors, standard_errors
from apolar.exceptions import ColumnError
from apolar.mixture.families import family
from apolar.mixture.noise import N_NOISE_PARAMETERS
from apolar.mixture.prior import Prior
from apolar.mixture.sampling import sample
from apolar.moments.available import observed_column_moments
from apolar.moments.covariance import is_constant

__all__ = ["FittedMixtureMixin"]


class FittedMixtureMixin:
    """The methods of a fitted mixture that change nothing."""

    covariance_type: str
    max_iter: int
    tol: float
    reg_covar: float | None
    random_state: Any
    weights_: Array
    means_: Array
    covariances_: Array
    rounding_variances_: Array
    noise: bool | float
    noise_weight_: float

    def _n_parameters(self) -> int:
        """Return `n_parameters_`, under the private name that users of scikit-learn's class rely on."""
        return self.n_parameters_

    def _predicted(self, X: Any, answer: Answer) -> Any:
        """Return an answer for each row of X, in single precision if both X and the mixture are."""
        check_is_fitted(self)
        rows = opened(self, X, reset=False, once=True)
        answers = predictor_of(self).each(rows, answer, n_threads_of(self))
        is_single = self.means_.dtype == np.float32 and float_type(X) == np.float32
        return in_single_precision(answers) if is_single and answer is not labels else answers

    @overload
    def predict(self, X: Array) -> Array: ...
    @overload
    def predict(self, X: Any) -> Any: ...
    def predict(self, X: Any) -> Any:
        """Return the most probable component of each row, shape (n_samples,); -1 for noise.

        Of an array of torch or CuPy, an array of the same library on the same device; of rows of Dask, a
        lazy array.
        """
        return self._predicted(X, labels)

    @overload
    def predict_proba(self, X: Array) -> Array: ...
    @overload
    def predict_proba(self, X: Any) -> Any: ...
    def predict_proba(self, X: Any) -> Any:
        """Return the posterior probability of each component, shape (n_samples, n_components).

        With noise, those of a row add up to one less the probability that it is noise.
        """
        return self._predicted(X, probabilities)

    @overload
    def score_samples(self, X: Array) -> Array: ...
    @overload
    def score_samples(self, X: Any) -> Any: ...
    def score_samples(self, X: Any) -> Any:
        """Return the log-density of each row, of its values that are observed, shape (n_samples,)."""
        return self._predicted(X, densities)

    def outliers(self, X: Any, *, level: float = 0.05) -> Any:
        """Return whether each row is an outlier: further from every component than rows of the mixture are.

        A row is one if its squared Mahalanobis distance from every component is above a quantile of the
        chi-squared distribution, so high that in the rows of the fit, were they drawn from the mixture, there
        would be any outlier at all with the probability `level` at most. A component that a single row has
        for itself does not count. The probabilities of an outlier, which add up to one however far it is, say
        little.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)
            Missing values, NaN, do not count.
        level : float, default=0.05

        Returns
        -------
        outliers : ndarray of bool, shape (n_samples,)
            Of rows of Dask, a lazy array.

        Examples
        --------
        >>> import apolar
        >>> X = apolar.datasets.load_iris().data
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(X)
        >>> int(gm.outliers(X).sum()), gm.outliers([[1e6, 1e6, 1e6, 1e6]])
        (0, array([ True]))
        """
        check_is_fitted(self)
        is_outlier = OutlierRule.of(self, level)
        rows = opened(self, X, reset=False, once=True)
        if rows.is_sparse:
            raise TypeError("X is sparse: call outliers for X.toarray(), a part of the rows at a time.")
        if rows.is_distributed:
            return rows.map_lazily(is_outlier, None, np.bool_)
        parts = rows.on_host().map_blocks(
            BlockFunction(lambda block, _: is_outlier(block)), Checked(allows_missing=True)
        )
        return np.concatenate(list(parts))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Return the mean log-density of the rows.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)
        y : None
            Ignored.
        sample_weight : array_like, shape (n_samples,), optional

        Returns
        -------
        score : float
        """
        likelihood = self._likelihood(X, sample_weight)
        return likelihood.log_likelihood / likelihood.weight

    @property
    def n_parameters_(self) -> int:
        """The number of free parameters of the fitted mixture.

        A noise component counts as two, its weight and its volume, as in mclust.
        """
        check_is_fitted(self)
        n_of_noise = 0 if vars(self).get("noise_box_") is None else N_NOISE_PARAMETERS
        return family(self.covariance_type).n_parameters(*self.means_.shape) + n_of_noise

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Return the Bayesian information criterion on X: lower is better, as in scikit-learn."""
        return self._likelihood(X, sample_weight).criteria(self.n_parameters_)["bic"]

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Return Akaike's information criterion on X: lower is better, as in scikit-learn."""
        return self._likelihood(X, sample_weight).criteria(self.n_parameters_)["aic"]

    def icl(self, X: Any, sample_weight: Any = None) -> float:
        """Return the integrated completed likelihood on X: lower is better, and overlap makes it higher."""
        return self._likelihood(X, sample_weight).criteria(self.n_parameters_)["icl"]

    def _likelihood(self, X: Any, sample_weight: Any) -> Likelihood:
        check_is_fitted(self)
        rows = opened(self, X, sample_weight, reset=False, once=True)
        return predictor_of(self).likelihood(rows, n_threads_of(self))

    def sample(self, n_samples: int = 1) -> tuple[Array, Array]:
        """Return rows drawn from the mixture, and their components.

        Parameters
        ----------
        n_samples : int, default=1

        Returns
        -------
        X : ndarray, shape (n_samples, n_features)
            Grouped by component, as in scikit-learn.
        y : ndarray of int, shape (n_samples,)
            -1 for noise, whose rows are the last.
        """
        check_is_fitted(self)
        if isinstance(n_samples, numbers.Integral) and n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': {n_samples}. The sampling requires at least one sample."
            )
        check_integer(n_samples, "n_samples", least=1)
        state = self.random_state
        rng = random_generator(state) if isinstance(state, np.random.Generator) else check_random_state(state)
        X, labels = sample(
            family(self.covariance_type), fitted_parameters(self), n_samples, rng, grouped=True
        )
        return X.astype(self.means_.dtype, copy=False), labels

    # --- uncertainty of the parameters ----------------------------------------------------------

    def standard_errors(self, X: Any, sample_weight: Any = None) -> StandardErrors:
        """Return standard errors of weights, means and covariances, from the observed information.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)
            The rows of the fit.
        sample_weight : array_like, shape (n_samples,), optional
            Their weights.

        Returns
        -------
        errors : StandardErrors
            Its `weights`, `means` and `covariances` have the shapes of the fitted ones.
        """
        data, prior = self._fitted_data(X, sample_weight)
        _check_columns_vary(data)
        with one_blas_thread():
            return standard_errors(data, fitted_parameters(self), prior)

    def bootstrap(
        self, X: Any, sample_weight: Any = None, *, n_resamples: int = 200, parametric: bool = False
    ) -> Bootstrap:
        """Return the parameters of fits to resamples of the rows, components aligned with the fitted ones.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)
            The rows of the fit.
        sample_weight : array_like, shape (n_samples,), optional
        n_resamples : int, default=200
        parametric : bool, default=False
            Draw the rows from the mixture in place of the data.

        Returns
        -------
        resamples : Bootstrap
            With `standard_errors()` and `interval(level)`.
        """
        check_integer(n_resamples, "n_resamples", least=2)
        data, prior = self._fitted_data(X, sample_weight, is_drawn=parametric)
        rng = random_generator(self.random_state)
        with one_blas_thread():
            return bootstrap(
                data,
                fitted_parameters(self),
                prior,
                rng=rng,
                n_resamples=n_resamples,
                parametric=parametric,
                tol=max(self.tol, 1e-9),
                max_iter=max(self.max_iter, 1),
            )

    def _fitted_data(
        self, X: Any, sample_weight: Any, *, is_drawn: bool = False
    ) -> tuple[Problem, Prior | None]:
        """Return the rows of the fit, on the host and whitened as in the fit, and its prior.

        Rows that are drawn from the mixture are not rounded: with `is_drawn`, they have no rounding errors.
        """
        check_is_fitted(self)
        kind, prior = checked_parameters(self)
        if prior is not None:
            # Zero if the fit had no use for a prior that adapts to the rows, or is from a file without it.
            prior = prior.of_strength(vars(self).get("shrinkage_", 0.0))
        rows = opened(self, X, sample_weight, reset=False).on_host()
        data = Problem(rows, kind, threads=n_threads_of(self), noise=self.reg_covar or 0.0)
        box = vars(self).get("noise_box_")
        if box is not None:
            data = with_noise_component(data, self.noise or self.noise_weight_, box)
        if was_rounded(self) and not is_drawn:
            return with_rounding(data, prior, np.asarray(self.rounding_variances_))
        return data, prior


def _check_columns_vary(data: Problem) -> None:
    """Refuse a constant column: its variance is at its floor, and has no standard error there."""
    if data.scale is None:
        _, _, mean, variances = observed_column_moments(data.rows)
    else:
        # The whitening was made of these moments: no other pass over the rows is needed.
        mean, variances = data.scale.mean, data.scale.variances
    constant = np.flatnonzero(is_constant(mean, variances))
    if len(constant):
        problem = "is constant: its variance has no standard error. Fit without it."
        raise ColumnError(int(constant[0]), problem)
