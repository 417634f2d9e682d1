"""`MixtureImputer`: missing values replaced by what a Gaussian mixture says about them, in a pipeline."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import MissingIndicator
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from apolar._core.arrays import Array
from apolar._core.checks import CovarianceType, PriorName, StartName
from apolar.data.sources import naming_text_columns
from apolar.estimator.gaussian_mixture import GaussianMixture
from apolar.exceptions import ColumnWarning
from apolar.mixture.prior import Prior

__all__ = ["MixtureImputer"]


class MixtureImputer(TransformerMixin, BaseEstimator):
    """Replace missing values by their expected values under a Gaussian mixture of the observed ones.

    The mixture is fitted by exact EM to all values that are observed, of complete and incomplete rows: see
    `GaussianMixture.fit`. Each missing value is then replaced by its expected value given the observed values
    of its row, or by a draw.

    Parameters
    ----------
    n_components : int, default=1
        With one component, the missing values of a row are its linear regressions on the others.
    covariance_type : str, default="full"
        As in `GaussianMixture`.
    init_params, n_init, max_iter, tol, prior, n_threads
        As in `GaussianMixture`.
    sample_posterior : bool, default=False
        Draw missing values instead of their expected ones, as in scikit-learn's `IterativeImputer`: for
        multiple imputation, transform several times with different `random_state`.
    keep_empty_features : bool, default=False
        Whether columns without any observed value in `fit` are kept, as zeros; by default they are left out.
    add_indicator : bool, default=False
        Append columns that say which values were missing, of those columns in which some were in `fit`.
    random_state : int, RandomState, Generator or None, default=None

    Attributes
    ----------
    mixture_ : GaussianMixture
        The mixture of the columns with observed values.
    n_iter_ : int
        Its passes over the rows.
    indicator_ : MissingIndicator or None
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> import apolar
    >>> X = apolar.datasets.load_iris().data
    >>> imputer = apolar.MixtureImputer(3, random_state=0).fit(X)
    >>> imputer.transform([[5.0, 3.4, np.nan, 0.2]]).round(1)
    array([[5. , 3.4, 1.4, 0.2]])
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: CovarianceType | str = "full",
        init_params: StartName | Any = "auto",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-3,
        prior: PriorName | Prior | None = "default",
        sample_posterior: bool = False,
        keep_empty_features: bool = False,
        add_indicator: bool = False,
        random_state: Any = None,
        n_threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.init_params = init_params
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.prior = prior
        self.sample_posterior = sample_posterior
        self.keep_empty_features = keep_empty_features
        self.add_indicator = add_indicator
        self.random_state = random_state
        self.n_threads = n_threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the mixture.

        Parameters
        ----------
        X : array_like or dataframe, shape (n_samples, n_features)
            NaN where a value is missing.
        y : None
            Ignored.

        Returns
        -------
        self : MixtureImputer
        """
        values = self._checked(X, reset=True)
        self._is_observed = ~np.all(np.isnan(values), axis=0)
        if not np.any(self._is_observed):
            raise ValueError("X has no observed value.")
        shared = set(GaussianMixture().get_params()) & set(self.get_params())
        mixture = GaussianMixture(**{name: getattr(self, name) for name in shared})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColumnWarning)  # about clusters, which nobody asks for
            self.mixture_ = mixture.fit(values[:, self._is_observed])
        self.n_iter_ = self.mixture_.n_iter_
        self.indicator_ = MissingIndicator(error_on_new=False).fit(values) if self.add_indicator else None
        return self

    def transform(self, X: Any) -> Array:
        """Return the rows with missing values replaced, and the indicators if they were asked for.

        Parameters
        ----------
        X : array_like or dataframe, shape (n_samples, n_features)

        Returns
        -------
        X : ndarray, shape (n_samples, n_features_out)
        """
        check_is_fitted(self)
        values = self._checked(X, reset=False)
        kept = self._is_observed
        n_draws = 1 if self.sample_posterior else None
        imputed = self.mixture_.impute(values[:, kept], n_draws=n_draws).reshape(len(values), -1)
        if self.keep_empty_features:
            out = np.zeros(values.shape, dtype=imputed.dtype)
            out[:, kept] = imputed
            # A column that was empty in `fit` may have values here.
            out[:, ~kept] = np.nan_to_num(values[:, ~kept], nan=0.0)
            imputed = out
        added = [] if self.indicator_ is None else [self.indicator_.transform(values).astype(imputed.dtype)]
        return np.hstack([imputed, *added])

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array_like of str, optional
            By default the names of `fit`.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        names = np.asarray(_check_feature_names_in(self, input_features), dtype=object)
        out = names if self.keep_empty_features else names[self._is_observed]
        added = [] if self.indicator_ is None else [self.indicator_.get_feature_names_out(names)]
        return np.concatenate([out, *added])

    def _checked(self, X: Any, *, reset: bool) -> Array:
        """Return X as an array of float32 or float64, NaN where a value is missing."""
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.float64), np.nan)
        with naming_text_columns(X):
            return validate_data(
                self,
                X,
                reset=reset,
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan",
                ensure_min_samples=2 if reset else 1,
            )
