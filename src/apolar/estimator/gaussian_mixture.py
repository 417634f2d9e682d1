"""`GaussianMixture`, with scikit-learn's contract: every public method is here."""

from __future__ import annotations

import numbers
import os
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from apolar._core.arrays import Array
from apolar._core.checks import CovarianceType, PriorName, StartName
from apolar._core.constants import MIN_WEIGHT
from apolar._core.namespaces import namespace
from apolar._core.threads import one_blas_thread
from apolar.em.known import UNKNOWN
from apolar.estimator import marginals
from apolar.estimator.cluster_merging import Combination, Overlap, combine, overlap
from apolar.estimator.exports import sql_of_labels, to_sklearn
from apolar.estimator.fit import CallbackSupportMixin, fit_rows, with_callbacks
from apolar.estimator.fitted import FittedState
from apolar.estimator.inputs import (
    check_parameters,
    float_type,
    labels_of,
    open_input,
    weighted_rows,
    with_column_names,
)
from apolar.estimator.model_files import (
    check_writable,
    load_model,
    model_from_json,
    model_to_json,
    save_model,
)
from apolar.estimator.standard_errors import (
    Bootstrap,
    Stability,
    StandardErrors,
    bootstrap,
    stability_of,
    standard_errors,
)
from apolar.estimator.stream import update_from_batch
from apolar.estimator.summary import Summary, summary_of
from apolar.mixture.directions import Directions
from apolar.mixture.prior import Prior
from apolar.mixture.recovered import sample
from apolar.scores import FitSummary

__all__ = ["GaussianMixture"]


class GaussianMixture(CallbackSupportMixin, DensityMixin, BaseEstimator):
    """A mixture of Gaussians, fitted by EM from a portfolio of starts.

    Replaces `sklearn.mixture.GaussianMixture`: all of its parameters, methods and attributes are
    there. It differs in the start (`init_params="auto"`: moments, over-seeding, split and merge), in a prior
    that lets components with few rows borrow from the others where scikit-learn adds `reg_covar`, in choosing
    among optima by the likelihood of rows left out, and in running EM to the optimum.

    Parameters
    ----------
    n_components : int, default=1
    covariance_type : str, default="full"
        "full", "tied", "diag", "spherical" as in scikit-learn, "tied_diag", "tied_spherical", or mclust's
        codes: "VVV", "EEE", "VVI", "VII", "EEI", "EII" for these, and "VEI", "EVI", "VEE", "EVE", "VVE",
        "EEV", "VEV", "EVV" for components that share a part of their covariances. "E" and "V" are those for
        data of one column. For many columns, "factor": a few factors in each component, and noise of its own
        in each column, as in factor analysis; "ppca": with noise of one size in all columns, as in
        probabilistic PCA; "factor_tied_noise", "ppca_tied_noise": with the same noise in all components.
    init_params : str, callable or array_like, default="auto"
        Where EM starts. "auto": a portfolio of starts, the best of which is run to its end. "moments": the
        moments of the data, without any randomness. "overseed": four times as many k-means++ seeds, merged.
        "kmeans": the best of 10 runs. "mbhc": model-based hierarchical clustering. "emem": the best of 50
        short runs from random rows. "k-means++", "random_from_data", "random": as in scikit-learn. A callable
        takes (X, n_components, random_state) and returns labels, responsibilities or a mixture; labels, shape
        (n_samples,), and responsibilities, shape (n_samples, n_components), can also be given directly.
    n_init : int, default=1
        The number of starts; the best result is kept: with the default prior the one with the highest
        likelihood of rows left out, otherwise the one with the highest likelihood.
    max_iter : int, default=500
        The most passes over the data in a run of EM.
    tol : float, default=1e-3
        EM ends when less than this is left to gain in the log-likelihood of all rows together, plus the
        log-prior.
    reg_covar : float or None, default=None
        Added to the variances in every M-step, in the units of X, as in scikit-learn; it then takes the place
        of the default prior. None: the prior keeps variances above zero, whatever the units of X are.
    prior : {"default", "conjugate"}, Prior or None, default="default"
        "default": covariances are shrunk towards a common one, up to a volume of their own, that one towards
        its diagonal, and weights towards equal ones, with the strength that suits rows left out best:
        see `shrinkage_`. Optima are compared by the likelihood of rows left out too. Covariances that share
        a part, but not all, have the conjugate prior. Components are also kept from being narrower than the
        rounding errors of the columns: see `rounding_variances_`. "conjugate": a weak prior on each component
        by itself, `Prior()`; another `Prior` changes its parameters. None: plain maximum likelihood, as in
        mclust. With these three, optima are compared by likelihood.
    random_state : int, RandomState, Generator or None, default=None
    warm_start : bool, str or path, default=False
        Start where the last fit ended or, if there was none, from the checkpoint, if that exists. A path:
        start from the mixture of that file.
    verbose : int, default=0
        Whether to print the progress; 2: with the time.
    verbose_interval : int, default=10
        Passes over the data from one line to the next.
    weights_init, means_init, precisions_init : array_like, optional
        Parts of the start that replace those of `init_params`.
    n_threads : int or None, default=None
        The number of threads for data of many rows; None: one per processor, or fewer where BLAS is limited
        to fewer. Results do not depend on it.
    checkpoint : str, path or None, default=None
        A file to which `fit` writes the mixture so far, the best of all runs, for `warm_start` and `load` to
        read; at the end, the fitted one. An existing file is replaced. Fits that run at the same time need
        different files.
    checkpoint_every : int, default=5
        Passes over all rows from one write to the next; the first pass is written too.
    noise : bool or float, default=False
        Whether some rows may be noise, in no cluster: spread evenly over the box of all rows, as in mclust.
        Their label is -1. A number is the share of the rows that is expected to be noise, at which EM
        starts; True: it is found from the rows. In both cases EM estimates `noise_weight_`.
    n_factors : int or "auto", default="auto"
        With covariances of few factors, how many each component has. "auto": the least number that rows left
        out do not tell from the best.

    Attributes
    ----------
    weights_ : ndarray, shape (n_components,)
        In float32 if X is, as are means and covariances. They add up to one, or with noise to one minus
        `noise_weight_`. Components are in canonical order, the heaviest first, unless the start was given by
        labels, responsibilities or parameters: then they keep its order.
    means_ : ndarray, shape (n_components, n_features)
    covariances_ : ndarray
        Shape (n_components, n_features, n_features) full, (n_features, n_features) tied, (n_components,
        n_features) diag, (n_components,) spherical, (n_features,) tied_diag, () tied_spherical;
        with few factors (n_components, n_features, 1 + n_factors): `noise_variances_`, then `loadings_`.
    precisions_, precisions_cholesky_ : ndarray
        In the same shape. With few factors `precisions_` holds 1 / v, v = `noise_variances_`, then W, for the
        inverse diag(1 / v) - W W^t, and there is no `precisions_cholesky_`.
    n_factors_ : int
        With covariances of few factors.
    loadings_ : ndarray, shape (n_components, n_features, n_factors)
        Likewise: the covariance of a component is loadings loadings^t + diag(noise variances). They are known
        up to a rotation.
    noise_variances_ : ndarray, shape (n_components, n_features)
        Likewise.
    converged_ : bool
    n_iter_ : int
        Passes over the data of the run that won.
    lower_bound_ : float
        The mean log-likelihood of the rows under the fitted mixture.
    lower_bounds_ : list of float
        The objective of EM after each pass: log-likelihood plus log-prior, per row. When the default prior is
        adapted to the rows, it changes by a constant, which is added to the values of earlier passes.
    evidence_ : float
        A lower bound on the logarithm of the evidence of all rows together, in the units of X: how probable
        they are under mixtures of this family and number of components, whatever the parameters. Higher is
        better; it compares fits to the same rows, of any family and number. After `partial_fit` it is there
        only while all rows so far are kept.
    start_ : str
        The start that won.
    start_notes_ : list of str
        Which starts were skipped, and why.
    message_ : str
        How EM ended. Ctrl-C ends a fit with the best mixture so far and a warning; pressed again, at once.
    clusters_ : tuple of tuple of int
        The components of each cluster, where `select(criterion="clusters")` or `apolar fit -k auto` combined
        some; `predict` tells components. Not there otherwise.
    search_ : SearchCost
        What the search for the start took: `passes` of one mixture over all rows, at a `budget` of about two
        runs of EM, or of some tenths of a second; the `n_rows` that it was on, and `seconds`. Not there
        where nothing was searched.
    rounding_variances_ : ndarray, shape (n_features,)
        The variance of the rounding errors of each column that is recorded with a resolution, such as
        integers, if a component was narrower than these, so that they were added to all variances; else zero.
    loo_ : float
        The log-likelihood of rows left out: the sum of the log-densities of all rows, each under the mixture
        that is fitted without it, in closed form. Divided by the number of rows, it is what to expect of a
        new row. It compares fits to the same rows, whatever they are.
    loo_standard_error_ : float
        The standard error of `loo_` over rows.
    shrinkage_ : Strengths
        How strongly the default prior shrinks: `common`, the weight, in rows, of the common covariance in
        each component: in a component of that number of rows, half of the covariance is its own; `diagonal`,
        the fraction of the common covariance that its diagonal replaces; `weights`, the rows that are added
        to the weight of each component. All 0 if nothing is shrunk.
    noise_weight_ : float
        The share of the rows that is noise; 0 with `noise=False`.
    noise_box_ : NoiseBox or None
        The box that the noise is spread over, in the units of X: its `origin`, `edges` and `log_volume`. Rows
        outside of it have the same density of noise.
    n_samples_seen_ : float
        The sum of the weights of the rows, as the fit counts them.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X has column names.

    Examples
    --------
    >>> import apolar
    >>> X, labels = apolar.datasets.make_example(1, random_state=0)
    >>> gm = apolar.GaussianMixture(4, covariance_type="spherical", random_state=0).fit(X)
    >>> gm.weights_.round(2)
    array([0.4 , 0.34, 0.25, 0.01])
    >>> apolar.scores.error_rate(labels, gm.predict(X)) < 0.005
    True
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
        reg_covar: float | None = None,
        prior: PriorName | Prior | None = "default",
        random_state: Any = None,
        warm_start: bool | str | os.PathLike[str] = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        n_threads: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 5,
        noise: bool | float = False,
        n_factors: int | Literal["auto"] = "auto",
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.init_params = init_params
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.reg_covar = reg_covar
        self.prior = prior
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.n_threads = n_threads
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.noise = noise
        self.n_factors = n_factors

    weights_: Array
    means_: Array
    covariances_: Array
    loadings_: Array
    noise_variances_: Array
    dof: Any = None
    """The degrees of freedom of the components: those of Gaussian ones are not limited."""
    _state_type: ClassVar[type[FittedState]] = FittedState
    # How checked rows are fitted, and attributes set.
    _fit_rows: ClassVar[Any] = fit_rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    # --- fitting ------------------------------------------------------------------------

    @with_callbacks
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None, fixed: Any = None
    ) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : array_like, sparse matrix, dataframe, or another source of rows
            Shape (n_samples, n_features). Other sources are a memory map, a pyarrow data set, an array of
            torch or CuPy, an array or dataframe of Dask, what `apolar.on_device` returns, and an iterable of
            chunks that can be read again: these are neither loaded into memory nor moved. NaN stands for a
            value that is missing, at random: the likelihood is that of the values that are there
            [ghahramani1994].
        y : array_like, shape (n_samples,), optional
            The components of rows, from 0, where they are known, and -1, NaN or None where they are not. Rows
            of known component stay in it, from the start on. A y without unknown rows is ignored, as in
            scikit-learn, whose pipelines pass the classes; so is one of -1 and 1 alone, two classes, where
            NaN marks unknown rows, and one that does not hold whole numbers from -1 on.
        sample_weight : array_like, shape (n_samples,), optional
            How many rows each row counts as. Weights whose sum is less than the number of rows with a weight
            above zero cannot be counts: they are scaled to add up to that number. (Weights that come with
            chunks, and those of `partial_fit`, are used as they are.)
        groups : array_like, shape (n_samples,), optional
            Rows of the same group are in one component, whichever that is: the responsibilities of a group
            follow from the densities of all of its rows [shental2004]. Any values; -1, NaN or None for rows
            that are in no group.
        fixed : dict, optional
            Parameters that are known, "weights", "means" or "covariances", in the shapes of the attributes,
            and stay as they are given; NaN for all of the mean or the covariance of a component whose
            own are estimated. Criteria count them as if they were estimated.

        Returns
        -------
        self : GaussianMixture
            If components of rows or parameters are known, components keep their order. What is known needs
            dense rows in memory, and the criteria and predictions are those of the mixture alone.

        Examples
        --------
        >>> import numpy as np
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> y = np.full(150, -1)
        >>> y[::10] = iris.target[::10]
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data, y)
        >>> float(np.mean(gm.predict(iris.data) == iris.target))
        0.97...
        """
        kind, prior = check_parameters(self)
        if self.checkpoint is not None:
            check_writable(self.checkpoint)
        before = dict(self.__dict__)
        try:
            rows = open_input(self, X, sample_weight, reset=True, is_reread=True)
            with one_blas_thread(), with_column_names(self):
                known = {"y": y, "groups": groups, "fixed": fixed}
                self._fit_rows(X, rows, kind, prior, weighted_rows(sample_weight), **known)
                if rows.in_memory and rows.device_template is None:
                    labels = labels_of(y, self.n_components)
                    found = self.predict(X)
                    self._labels = found if labels is None else np.where(labels == UNKNOWN, found, labels)
        except BaseException:
            # A fit that fails, or is interrupted from the keyboard, leaves the estimator as it was.
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Update the mixture from a batch of a stream, in bounded memory.

        The first batches are kept, and fitted together as by `fit` with each call, until there are about 20
        rows per parameter of the means and weights (and at least 5000). From then on only sums are kept:
        stepwise EM mixes those of each batch into those of the stream. Each time the number of rows has
        doubled, it also tries the mixture of the moments of all rows seen.

        Parameters
        ----------
        X : array_like, sparse matrix or dataframe, shape (n_samples, n_features)
        y : None
            Ignored.
        sample_weight : array_like, shape (n_samples,), optional

        Returns
        -------
        self : GaussianMixture
            After `fit`, the batch continues from the fitted mixture.
        """
        update_from_batch(self, X, sample_weight)
        return self

    @property
    def labels_(self) -> Array:
        """The component of each row of the last fit, shape (n_samples,), if the rows were in memory."""
        check_is_fitted(self)
        known: Array | None = vars(self).get("_labels")
        if known is None:
            raise AttributeError(
                "labels_ are those of the rows of fit, if these were in memory: call predict(X), also after "
                "partial_fit and load."
            )
        return known

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit the mixture and return the component of each row, shape (n_samples,).

        Rows whose component y says have that one.
        """
        labels = vars(self.fit(X, y, sample_weight=sample_weight)).get("_labels")
        return self.predict(X) if labels is None else labels

    # --- rows -----------------------------------------------------------------------------------

    def _answer_rows(self, X: Any, what: str) -> Any:
        """Return an answer for each row of X, in single precision if both X and the mixture are."""
        rows = open_input(self, X)
        answers = FittedState.of(self).answer(rows, what, self.n_threads)
        is_single = self.means_.dtype == np.float32 and float_type(X) == np.float32
        if not is_single or what == "labels":
            return answers
        if hasattr(answers, "astype"):
            # Log-densities of far rows may be beyond single precision.
            largest = np.finfo(np.float32).max
            return answers.clip(-largest, largest).astype(np.float32)
        xp = namespace(answers)
        return xp.astype(answers, xp.float32)

    @overload
    def predict(self, X: Array) -> Array: ...
    @overload
    def predict(self, X: Any) -> Any: ...
    def predict(self, X: Any) -> Any:
        """Return the most probable component of each row, shape (n_samples,); -1 for noise.

        For an array of torch or CuPy, an array of the same library on the same device; for rows of Dask, a
        lazy array.
        """
        return self._answer_rows(X, "labels")

    @overload
    def predict_proba(self, X: Array) -> Array: ...
    @overload
    def predict_proba(self, X: Any) -> Any: ...
    def predict_proba(self, X: Any) -> Any:
        """Return the posterior probability of each component, shape (n_samples, n_components).

        With noise, those of a row add up to one minus the probability that it is noise.
        """
        return self._answer_rows(X, "probabilities")

    @overload
    def score_samples(self, X: Array) -> Array: ...
    @overload
    def score_samples(self, X: Any) -> Any: ...
    def score_samples(self, X: Any) -> Any:
        """Return the log-density of the observed values of each row, shape (n_samples,)."""
        return self._answer_rows(X, "densities")

    def outliers(self, X: Any, *, level: float = 0.05) -> Any:
        """Return whether each row is an outlier: further from every component than rows of the mixture are.

        A row is one if its squared Mahalanobis distance from every component is above a limit, so high that
        among as many rows as the fit had, drawn from the mixture, there would be any outlier at all with the
        probability `level`. For new rows the limit follows from how many rows estimate the component
        [hotelling1931]; the rows of the fit, if X is all of them, are nearer to it, and the limit is that of
        parameters that are known. A component that a single row has for itself does not count. The
        probabilities of an outlier, which add up to one however far it is, say little.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)
            Missing values, NaN, do not count.
        level : float, default=0.05

        Returns
        -------
        outliers : ndarray of bool, shape (n_samples,)
            For rows of Dask, a lazy array.

        Examples
        --------
        >>> import apolar
        >>> X = apolar.datasets.load_iris().data
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(X)
        >>> int(gm.outliers(X).sum()), gm.outliers([[1e6, 1e6, 1e6, 1e6]])
        (0, array([ True]))
        """
        return marginals.find_outliers(self, open_input(self, X), level)

    # --- likelihood and criteria ----------------------------------------------------------------

    def _fit_summary(self, X: Any, sample_weight: Any) -> FitSummary:
        """Return what criteria of X are computed from."""
        rows = open_input(self, X, sample_weight)
        return FittedState.of(self).likelihood(rows, self.n_threads)

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
        summary = self._fit_summary(X, sample_weight)
        return summary.log_likelihood / summary.n_samples

    @property
    def n_parameters_(self) -> int:
        """The number of free parameters of the fitted mixture.

        A noise component counts as two, its weight and its volume, as in mclust.
        """
        check_is_fitted(self)
        try:
            return FittedState.of(self).n_parameters
        except ValueError as error:  # of a property, for `hasattr`
            raise AttributeError(str(error)) from error

    def _n_parameters(self) -> int:
        """Return `n_parameters_`, under the private name that users of scikit-learn's class rely on."""
        return self.n_parameters_

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Return the Bayesian information criterion on X: lower is better, as in scikit-learn."""
        return self._fit_summary(X, sample_weight).criteria["bic"]

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Return Akaike's information criterion on X: lower is better, as in scikit-learn."""
        return self._fit_summary(X, sample_weight).criteria["aic"]

    def icl(self, X: Any, sample_weight: Any = None) -> float:
        """Return the integrated completed likelihood on X: lower is better, and overlap makes it higher."""
        return self._fit_summary(X, sample_weight).criteria["icl"]

    def loo_samples(self, X: Any, sample_weight: Any = None) -> Any:
        """Return the log-density of each row of the fit under the mixture that is fitted without it.

        In closed form, with the responsibilities of the other rows as they are. `loo_` is their sum.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)
            The rows of the fit.
        sample_weight : array_like, shape (n_samples,), optional
            Their weights: a row of weight 2 stands for two rows, one of which is left out.

        Returns
        -------
        densities : ndarray, shape (n_samples,)
            For rows on a device or of Dask, an array of the same library.

        Examples
        --------
        >>> import apolar
        >>> X = apolar.datasets.load_iris().data
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(X)
        >>> bool(gm.loo_samples(X).sum() < gm.score_samples(X).sum())
        True
        """
        state, prior = FittedState.of(self), check_parameters(self)[1]
        if state.loo is None:
            raise ValueError(
                "This mixture was not fitted to rows that can be left out one at a time: call fit(X) first, "
                "with all rows."
            )
        if sample_weight is not None:
            # Rows of weight zero would not be answered for.
            weights = np.asarray(sample_weight) if isinstance(sample_weight, Sequence) else sample_weight
            sample_weight = weights + (weights == 0) * MIN_WEIGHT
        rows = open_input(self, X, sample_weight)
        return state.answer(rows, "densities", self.n_threads, left_out=state.left_out(prior))

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
        fitted, state = FittedState.of(self), self.random_state
        if not isinstance(n_samples, numbers.Integral) or n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': {n_samples}. The sampling requires at least one sample."
            )
        rng = state if isinstance(state, np.random.Generator) else check_random_state(state)
        X, labels = sample(fitted.family, fitted.parameters, n_samples, rng, grouped=True)
        return X.astype(self.means_.dtype, copy=False), labels

    # --- columns --------------------------------------------------------------------------------

    def impute(self, X: Any, *, n_draws: int | None = None) -> Any:
        """Return the rows with their missing values replaced.

        Parameters
        ----------
        X : array_like, dataframe or another source of rows, shape (n_samples, n_features)
            NaN where a value is missing. Values that are not missing are returned as they are.
        n_draws : int, optional
            For multiple imputation: the number of draws of the missing values of each row, given those that
            are observed. By default they are replaced by their expected values.

        Returns
        -------
        X : ndarray, shape (n_samples, n_features), or (n_draws, n_samples, n_features) with `n_draws`
            In float32 if X is. For rows on a device or of Dask, an array of the same library.

        Examples
        --------
        >>> import numpy as np
        >>> import apolar
        >>> X = apolar.datasets.load_iris().data
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(X)
        >>> gm.impute([[5.0, 3.4, np.nan, 0.2]]).round(1)
        array([[5. , 3.4, 1.4, 0.2]])
        """
        return marginals.impute(self, open_input(self, X), float_type(X), n_draws)

    def marginal(self, columns: Any) -> Self:
        """Return the mixture of some of the columns.

        Parameters
        ----------
        columns : int, str, or sequence of these
            By number, from zero, or by name, in the order in which the mixture returned has them.

        Returns
        -------
        mixture : GaussianMixture
            With the same number of components. Where components share a part of their covariances, such as
            the volume, those of some columns do not: each then has its own.
        """
        return marginals.marginal(self, columns)

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
            A mixture of the columns that are not given, in their order: the weights are the responsibilities
            of the components for the values, the means their regressions.

        Examples
        --------
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
        >>> gm.conditional([0, 1], [5.0, 3.4]).means_.shape
        (3, 2)
        """
        return marginals.conditional(self, columns, values)

    def regress(self, columns: Any, values: Any) -> marginals.Regression:
        """Return the expected values of the other columns, given those of some, for many rows at a time.

        For each row they are the mean and the standard deviations of what `conditional` returns: regressions
        that are not linear, with deviations that differ from row to row.

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
        return marginals.regress(self, columns, values)

    def cdf(self, X: Any) -> Array:
        """Return the probability of a value up to each of X, for a mixture of one column.

        Parameters
        ----------
        X : array_like, shape (n_samples,) or (n_samples, 1)

        Returns
        -------
        probabilities : ndarray, shape (n_samples,)

        Examples
        --------
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> petals = apolar.GaussianMixture(3, random_state=0).fit(iris.data).marginal(2)
        >>> petals.cdf([1.5, 3.0, 5.0]).round(2)
        array([0.19, 0.33, 0.72])
        """
        return marginals.cdf(self, X)

    def quantile(self, q: Any) -> Array:
        """Return the values up to which a mixture of one column has some probabilities.

        Parameters
        ----------
        q : array_like
            Probabilities, from 0 to 1.

        Returns
        -------
        values : ndarray
            In the shape of `q`.

        Examples
        --------
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> petals = apolar.GaussianMixture(3, random_state=0).fit(iris.data).marginal(2)
        >>> petals.quantile([0.25, 0.5, 0.75]).round(1)
        array([1.6, 4.2, 5.1])
        """
        return marginals.quantile(self, q)

    def discriminating_directions(self, n_directions: int = 2) -> Directions:
        """Return the directions that separate the components best, as mclust's `MclustDR`.

        The first are those of linear discriminant analysis, which separate the means (mclust's `crimcoords`,
        of the fitted mixture instead of labels); then come those in which the covariances differ most
        [scrucca2010].

        Parameters
        ----------
        n_directions : int, default=2
            At most; there are no more than columns.

        Returns
        -------
        directions : Directions
            With `axes`, shape (n_features, n_directions), and `transform(X)`.

        Examples
        --------
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
        >>> plane = gm.discriminating_directions()
        >>> plane.n_by_position, plane.transform(iris.data).shape
        (2, (150, 2))
        """
        return marginals.directions(self, n_directions)

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
        return standard_errors(self, X, sample_weight)

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
            Draw the rows from the mixture instead of the data.

        Returns
        -------
        resamples : Bootstrap
            With `standard_errors()` and `interval(level)`.
        """
        return bootstrap(self, X, sample_weight, n_resamples, parametric=parametric)

    def stability(self, X: Any, sample_weight: Any = None, *, n_resamples: int = 100) -> Stability:
        """Return whether the clusters come back when the rows are drawn again [hennig2007].

        Each resample of the rows, of at most 10,000, is fitted by the search that the parameters ask for, and
        not from the fitted mixture, where every cluster would come back.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)
            The rows of the fit.
        sample_weight : array_like, shape (n_samples,), optional
            Their weights.
        n_resamples : int, default=100

        Returns
        -------
        stability : Stability
            With the Jaccard indices of each cluster, `jaccard`, their `mean` and `interval(level)`, and in
            how many resamples each is `recovered`.

        Examples
        --------
        >>> import apolar
        >>> X = apolar.datasets.load_iris().data
        >>> gm = apolar.GaussianMixture(2, random_state=0).fit(X)
        >>> print(gm.stability(X, n_resamples=20))
        Clusters in 20 resamples: Jaccard index with the most similar cluster.
        <BLANKLINE>
        cluster  Jaccard  2.5%  97.5%  comes back
              1     1.00  ...        1.00
              2     1.00  ...        1.00
        """
        return stability_of(self, X, sample_weight, n_resamples)

    # --- description --------------------------------------------------------------------------

    def summary(self, X: Any = None, sample_weight: Any = None) -> Summary:
        """Return a summary of the fitted mixture: what was found, a table of clusters, how the fit went.

        Parameters
        ----------
        X : rows that can be read again, shape (n_samples, n_features), optional
            Adds the number of rows of each cluster, and the BIC on them.
        sample_weight : array_like, shape (n_samples,), optional
            For the BIC.

        Returns
        -------
        summary : str
            In notebooks it is shown as a table. Clusters are counted from 1; means are shown with the
            standard deviation of the column in the cluster.

        Examples
        --------
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
        >>> print(gm.summary())
        3 clusters in 150 rows (full covariances).
        <BLANKLINE>
        cluster  weight           x0           x1           x2           x3
              1   0.33...
        """
        return summary_of(self, X, sample_weight)

    def overlap(self) -> Overlap:
        """Return how much the components overlap, pair by pair, with standard errors.

        Returns
        -------
        overlap : Overlap
            With the probabilities of misclassification of [maitra2010], `misclassification`, and the
            coefficients of [bhattacharyya1943], `bhattacharyya`; `pair()` returns the two components that
            overlap most. A noise component is left out.

        Examples
        --------
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
        >>> print(gm.overlap())
        Percentage of the rows of a cluster (line) that would be assigned to another (column): clusters ...
        <BLANKLINE>
        cluster      1      2      3
              1         <0.1%   2.9%
              2  <0.1%         <0.1%
              3   1.8%  <0.1%
        """
        return overlap(FittedState.of(self))

    def combine(
        self, X: Any, n_clusters: int | None = None, *, by: Literal["entropy", "overlap"] = "entropy"
    ) -> Combination:
        """Return the components combined into clusters, by the entropy of the clustering or by overlap.

        The number of Gaussians that describe the density well can be larger than the number of clusters: one
        that is not Gaussian takes several. Step by step, two clusters are combined. The mixture stays what it
        is.

        Parameters
        ----------
        X : rows of any source, shape (n_samples, n_features)
            Read once.
        n_clusters : int, optional
            By default, by entropy, where it begins to rise fast against the number of clusters: where two
            lines that meet in it fit best, as in mclust's `clustCombiOptim`. It is a rule of thumb, for three
            components or more: look at the table. By overlap, where that of any two clusters is at most 5%.
        by : {"entropy", "overlap"}, default="entropy"
            "entropy": combine the two that leave the least doubt about which cluster a row is in, as in
            mclust's `clustCombi` [baudry2010]. "overlap": the two that overlap most, by the share of the
            rows of each that would be assigned to the other, together [hennig2010]. Where the number of
            clusters is not known, this finds it more often: `select(X, criterion="clusters")` uses it.

        Returns
        -------
        combination : Combination
            With `predict`, `predict_proba`, the `groups` of components, all `merges` and `entropies`.

        Examples
        --------
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
        >>> print(gm.combine(iris.data))
        3 components combine into 2 clusters: 1+3, 2.
        <BLANKLINE>
        clusters  entropy    combined
               3    5.4...
               2        0    1 with 3  <-
               1        0  1+3 with 2
        """
        return combine(self, open_input(self, X), n_clusters, by)

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's diagram of the estimator, and below it the summary of a fitted one."""
        diagram = str(super()._repr_html_inner())
        if not hasattr(self, "weights_"):
            return diagram
        try:
            return diagram + summary_of(self, None, None)._repr_html_()
        except (ValueError, AttributeError):
            # A mixture that is not what its parameters say, such as one whose covariance_type was changed.
            return diagram

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return what notebooks show: the same."""
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in shown:
            shown["text/html"] = self._repr_html_inner()
        return shown

    # --- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted mixture to a file of arrays, with a version and a checksum, and without code.

        The file is written completely or not at all. A callable `init_params` and a generator as
        `random_state` cannot be stored: "auto" and None take their place. Paths are not stored: in the loaded
        model `checkpoint` is None, and a path as `warm_start` is False.

        Parameters
        ----------
        path : str or path
        """
        save_model(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the mixture of a file that `save` wrote.

        Parameters
        ----------
        path : str or path

        Returns
        -------
        model : GaussianMixture
            The state of a stream is not stored: `partial_fit` continues as after `fit`.
        """
        return load_model(cls, path)

    def to_json(self) -> str:
        """Return the fitted mixture as JSON text: what `save` writes, with all digits.

        Returns
        -------
        text : str
            For `from_json`.

        Examples
        --------
        >>> import apolar
        >>> X = apolar.datasets.load_iris().data
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(X)
        >>> again = apolar.GaussianMixture.from_json(gm.to_json())
        >>> bool((again.predict_proba(X) == gm.predict_proba(X)).all())
        True
        """
        return model_to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the mixture of a text that `to_json` returned, after checking all of it."""
        return model_from_json(cls, text)

    # --- elsewhere ----------------------------------------------------------------------------

    def to_sklearn(self) -> Any:
        """Return the fitted mixture as an estimator of scikit-learn, for what takes only that.

        Returns
        -------
        model : sklearn.mixture.GaussianMixture
            For a `BayesianGaussianMixture`, scikit-learn's own class. Its predictions are the same. Families
            that scikit-learn has not become "spherical", "diag" or "full": components repeat what they
            share. A noise component and t distributions are refused.

        Examples
        --------
        >>> import apolar
        >>> X = apolar.datasets.load_iris().data
        >>> gm = apolar.GaussianMixture(3, covariance_type="VEV", random_state=0).fit(X)
        >>> gm.to_sklearn().covariance_type
        'full'
        """
        return to_sklearn(self)

    def to_sql(self, dialect: str = "sqlite") -> str:
        """Return `predict` as an expression of SQL, to be computed where the rows are.

        Parameters
        ----------
        dialect : {"sqlite", "postgresql", "duckdb", "mysql", "bigquery", "tsql"}, default="sqlite"
            How names of columns are quoted; the rest is the same.

        Returns
        -------
        expression : str
            The label of a row, of columns with the names in the fit, or x0, x1 and so on; NULL where a column
            is. Only `+ - * CASE` and a subquery without a table.

        Examples
        --------
        >>> import sqlite3
        >>> import apolar
        >>> X = apolar.datasets.load_iris().data[:, :2]
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(X)
        >>> database = sqlite3.connect(":memory:")
        >>> _ = database.execute("CREATE TABLE flowers (x0 REAL, x1 REAL)")
        >>> _ = database.executemany("INSERT INTO flowers VALUES (?, ?)", X.tolist())
        >>> labels = database.execute(f"SELECT {gm.to_sql('sqlite')} FROM flowers").fetchall()
        >>> [label for (label,) in labels] == gm.predict(X).tolist()
        True
        """
        return sql_of_labels(self, dialect)
