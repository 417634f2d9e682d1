"""`GaussianMixture`, with scikit-learn's contract."""

from __future__ import annotations

import copy
import numbers
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    check_is_fitted,
)

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, fits_in_memory, one_of, positive_number, random_generator
from apolar._core.threads import one_blas_thread
from apolar.data import Rows
from apolar.em.lbfgs import LBFGSHistory
from apolar.em.loop import Fit, FitStatus, in_canonical_order
from apolar.em.whitened import WhitenedData
from apolar.em.whitening import whitening_around
from apolar.estimator.attributes import exact_parameters, fitted_attributes
from apolar.estimator.checkpoint import Checkpoint, check_writable, is_path, resumed
from apolar.estimator.fit import Outcome, fitted
from apolar.estimator.inference import Bootstrap, StandardErrors, bootstrap, standard_errors
from apolar.estimator.inputs import float_type, in_single_precision, opened, with_weight
from apolar.estimator.predict import Answer, Likelihood, Predictor, densities, labels, probabilities
from apolar.estimator.progress import CallbackSupportMixin, NotConvergedWarning, Progress, with_callbacks
from apolar.estimator.storage import load_model, save_model
from apolar.estimator.stream import Stream
from apolar.exceptions import SkippedStartWarning
from apolar.mixture import SphericalMixture
from apolar.mixture.families import Family, family
from apolar.mixture.order import canonical_order
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.moments.covariance import column_moments
from apolar.scores import lower_is_better_aic, lower_is_better_bic
from apolar.starts import STARTS, Candidate, Started, started
from apolar.starts.given import (
    checked_means,
    checked_precisions,
    checked_weights,
    covariance_shape,
    from_assignment,
)

__all__ = ["GaussianMixture"]

# Up to so many rows, the likelihood of the mixture that is returned is computed once more, in the units of X.
RECOUNTED_ROWS = 10_000
# The objectives that a fit which did not converge leaves for a warm start.
TRACE = 3


class GaussianMixture(CallbackSupportMixin, DensityMixin, BaseEstimator):
    """A mixture of Gaussians, fitted by EM from a portfolio of starts.

    Takes the place of `sklearn.mixture.GaussianMixture`: all of its parameters, methods and attributes are
    there. It differs in the start (`init_params="auto"`: moments, over-seeding, split and merge), in a weak
    prior that keeps components from collapsing where scikit-learn adds `reg_covar`, and in running EM to the
    optimum.

    Parameters
    ----------
    n_components : int, default=1
    covariance_type : str, default="full"
        "full", "tied", "diag", "spherical" as in scikit-learn, "tied_diag", "tied_spherical", or mclust's
        codes for these: "VVV", "EEE", "VVI", "VII", "EEI", "EII".
    init_params : str, callable or array_like, default="auto"
        Where EM starts. "auto": a portfolio of starts, the best of which goes on. "moments": the moments of
        the data, without any randomness. "overseed": four times as many k-means++ seeds, merged. "kmeans":
        the best of 10 runs. "mbhc": model-based hierarchical clustering. "emem": the best of 50 short runs
        from random rows. "k-means++", "random_from_data", "random": as the names say. A callable takes
        (X, n_components, random_state) and returns labels, responsibilities or a mixture; labels, shape
        (n_samples,), and responsibilities, shape (n_samples, n_components), can be given as they are.
    n_init : int, default=1
        How often to start; the best result is kept.
    max_iter : int, default=500
        The most passes over the data of a run of EM.
    tol : float, default=1e-3
        EM ends when less than this is left to gain in the log-likelihood of all rows together.
    reg_covar : float or None, default=None
        Added to the variances in every M-step, in the units of X, as in scikit-learn; it then takes the place
        of the default prior. None: the prior does that work, whatever the units of X are.
    prior : "default", Prior or None, default="default"
        The conjugate prior; None is plain maximum likelihood, as in mclust.
    random_state : int, RandomState, Generator or None, default=None
    warm_start : bool, str or path, default=False
        Start where the last fit ended or, if there was none, from the checkpoint, if that exists. A path:
        start from the mixture of that file.
    verbose : int, default=0
        Whether to print lines on the progress; 2: with the time.
    verbose_interval : int, default=10
        Passes over the data from one line to the next.
    weights_init, means_init, precisions_init : array_like, optional
        Parts of the start, in place of what `init_params` says.
    n_threads : int or None, default=None
        Threads for data of many rows; None: one a processor.
    checkpoint : str, path or None, default=None
        A file to which `fit` writes the mixture so far, the best of all runs, for `warm_start` and `load` to
        read; at the end, the fitted one. A file that is there is replaced. One fit, one file.
    checkpoint_every : int, default=5
        Passes over all rows from one write to the next; the first pass is written too.

    Attributes
    ----------
    weights_ : ndarray, shape (n_components,)
        Of float32 if X is, as are means and covariances. Components are in canonical order, the heaviest
        first, unless the start was given by labels, responsibilities or parameters: then they keep its order.
    means_ : ndarray, shape (n_components, n_features)
    covariances_ : ndarray
        Shape (n_components, n_features, n_features) full, (n_features, n_features) tied, (n_components,
        n_features) diag, (n_components,) spherical, (n_features,) tied_diag, () tied_spherical.
    precisions_, precisions_cholesky_ : ndarray
        Of the same shape.
    converged_ : bool
    n_iter_ : int
        Passes over the data of the run that won.
    lower_bound_ : float
        The mean log-likelihood of the rows under the fitted mixture.
    lower_bounds_ : list of float
        What EM raises, log-likelihood plus log-prior a row, after each pass.
    start_ : str
        The start that won.
    start_notes_ : list of str
        Which starts stepped aside, and why.
    message_ : str
        How EM ended, in words.
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
        covariance_type: str = "full",
        init_params: Any = "auto",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-3,
        reg_covar: float | None = None,
        prior: Any = "default",
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

    n_samples_seen_: float
    _stream: Stream

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # --- fitting ------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Fit the mixture.

        Parameters
        ----------
        X : array_like, sparse matrix, dataframe, or where rows are
            Of shape (n_samples, n_features). Also a memory map, a data set of files of pyarrow, an array of
            torch or CuPy, an array or dataframe of Dask, what `apolar.on_device` returns, or an iterable of
            chunks that can be read again: these are not loaded into memory, and not moved.
        y : None
            Ignored.
        sample_weight : array_like, shape (n_samples,), optional
            How many rows each row stands for. Weights that add up to less than the number of rows that have
            some are no counts: they are multiplied until they add up to it. (Weights that come with chunks,
            and those of `partial_fit`, are taken as they are.)

        Returns
        -------
        self : GaussianMixture
        """
        kind, prior = self._checked_parameters()
        if self.checkpoint is not None:
            check_writable(self.checkpoint)
        before = dict(self.__dict__)
        try:
            rows = opened(self, X, sample_weight, reset=True, least_rows=2)
            with one_blas_thread():
                self._fit(X, rows, kind, prior, with_weight(sample_weight))
        except Exception:
            # A fit that fails leaves the mixture as it was.
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: Any, rows: Rows, kind: Family, prior: Prior | None, kept: Array | None) -> None:
        if kind.frame_kind == "matrix":
            n_numbers = 4 * rows.n_features**2 + 4 * self.n_components * kind.n_stats(rows.n_features)
            what = f"covariance_type={self.covariance_type!r} of {rows.n_features} columns"
            fits_in_memory(n_numbers, what, "use 'diag' or 'spherical', or fewer columns")
        stored = resumed(self, kind, rows.n_features)
        data = WhitenedData(rows, kind, threads=self._threads(), noise=self.reg_covar or 0.0)
        data.refuse_rows_out_of_reach()
        dtype = float_type(X)
        n_components = self.n_components
        if data.n_rows < n_components:
            raise ValueError(
                f"n_components = {n_components} components need at least as many rows; got "
                f"n_samples = {data.n_rows}. Ask for fewer components."
            )
        start, n_init, given_order = self._start(data, X, prior, kept, stored)

        def ordered(fit: Fit) -> Fit:
            return fit if given_order else in_canonical_order(fit, kind, data.whitening)

        def attributes_of(fit: Fit) -> dict[str, Any]:
            return self._attributes(data, kind, fit, dtype)

        progress = Progress(self, X, data.weight, data.whitening.log_det, attributes_of)
        checkpoint = None
        if self.checkpoint is not None:
            checkpoint = Checkpoint(self, attributes_of, ordered)

        def callback(fit: Fit) -> bool:
            if checkpoint is not None:
                checkpoint(fit)
            return progress(fit)

        outcome = fitted(
            data,
            prior,
            start,
            n_init=n_init,
            tol=self.tol,
            max_iter=self.max_iter,
            rng=random_generator(self.random_state),
            callback=callback,
        )
        is_final = outcome.fit.status is FitStatus.CONVERGED
        if outcome.is_collapsed and is_final and self.reg_covar == 0:
            raise ValueError(
                "Fitting the mixture model failed because some components have ill-defined empirical "
                "covariance (for instance caused by singleton or collapsed samples). Try to decrease the "
                "number of components, increase reg_covar, or scale the input data. reg_covar=None, the "
                "default, keeps components from collapsing by a prior."
            )
        fit = ordered(outcome.fit)
        attributes = attributes_of(fit) | {
            "start_": outcome.start,
            "start_notes_": list(outcome.notes),
            "message_": fit.status.value,
        }
        if self.reg_covar or data.n_rows <= RECOUNTED_ROWS:
            # The density of the mixture that is returned: without noise of the rows, and after the rounding
            # on the way from the units of the fit to those of the data.
            found = Predictor.of(kind, exact_parameters(attributes)).likelihood(rows, self._threads())
            attributes["lower_bound_"] = found.log_likelihood / found.weight
        for name, value in attributes.items():
            setattr(self, name, value)
        if checkpoint is not None:
            checkpoint.end(attributes)
        earlier = self._earlier(data)
        for name in ("_stream", "_curvature", "_trace"):
            self.__dict__.pop(name, None)
        if fit.status is FitStatus.MAX_ITER:
            # For a warm start: a fit of few passes cannot tell by itself that it has converged.
            self._trace = data.weight, (*earlier, *fit.history)[-TRACE:]
            if fit.curvature is not None and fit.curvature.pairs:
                self._curvature = fit.curvature.arrays()
        self._tell(outcome)
        progress.end(self.message_, {})

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Learn from a batch of a stream, in bounded memory.

        The first batches are kept, until there are about 20 rows a parameter (and at least 5000), and fitted
        together each time. From then on only sums are kept: stepwise EM mixes those of each batch into
        those of the stream, and each time the number of rows has doubled, the mixture of the moments of all
        rows seen is tried as well.

        Parameters
        ----------
        X : array_like, sparse matrix or dataframe, shape (n_samples, n_features)
        y : None
            Ignored.
        sample_weight : array_like, shape (n_samples,), optional

        Returns
        -------
        self : GaussianMixture
            After `fit`, it goes on where that ended.
        """
        kind, prior = self._checked_parameters()
        fresh = not hasattr(self, "weights_")
        rows = opened(self, X, sample_weight, reset=fresh, once=True, is_batch=True)
        if rows.is_distributed:
            raise ValueError(
                "partial_fit takes a batch in memory: call it for each partition, X.partitions[i].compute(), "
                "or use fit, which reads all of them where they are."
            )
        if rows.n_rows is None:
            raise ValueError("partial_fit takes one batch at a time: call it for each chunk.")
        if fresh:
            start = self.init_params if isinstance(self.init_params, str) else "auto"
            stream = Stream(kind, self.n_components, prior, start, noise=self.reg_covar or 0.0)
        elif hasattr(self, "_stream"):
            stream = copy.deepcopy(self._stream)
        else:
            whitening = replace(whitening_around(self._parameters(), kind), noise=self.reg_covar or 0.0)
            stream = Stream.after(kind, self._parameters(), whitening, self.n_samples_seen_, prior)
        with one_blas_thread():
            stream.update(rows, random_generator(self.random_state), self._threads())
        assert stream.parameters is not None
        attributes = fitted_attributes(kind, stream.parameters, float_type(X))
        # Set together, when nothing can fail any more.
        self._stream = stream
        for name, value in attributes.items():
            setattr(self, name, value)
        self.lower_bound_ = stream.mean_likelihood
        self.n_samples_seen_ = stream.weight
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        self.lower_bounds_ = [*getattr(self, "lower_bounds_", []), self.lower_bound_]
        self.converged_ = False
        self.start_ = "stream"
        self.start_notes_: list[str] = []
        self.message_ = "The mixture follows a stream: each call of partial_fit moves it."
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit the mixture and return the component of each row, shape (n_samples,)."""
        return self.fit(X, y, sample_weight=sample_weight).predict(X)

    def _checked_parameters(self) -> tuple[Family, Prior | None]:
        check_integer(self.n_components, "n_components", least=1)
        check_integer(self.n_init, "n_init", least=1)
        check_integer(self.max_iter, "max_iter", least=0)
        if self.tol != 0:
            positive_number(self.tol, "tol")
        if self.reg_covar is not None and self.reg_covar != 0:
            positive_number(self.reg_covar, "reg_covar")
        check_integer(self.verbose_interval, "verbose_interval", least=1)
        if isinstance(self.init_params, str):
            one_of(self.init_params, "init_params", STARTS)
        if self.n_threads is not None:
            check_integer(self.n_threads, "n_threads", least=1)
        if self.checkpoint is not None and not is_path(self.checkpoint):
            raise TypeError(f"checkpoint must be the path of a file, or None; got {self.checkpoint!r}.")
        check_integer(self.checkpoint_every, "checkpoint_every", least=1)
        is_default = isinstance(self.prior, str) and self.prior == "default"
        if self.prior is not None and not is_default and not isinstance(self.prior, Prior):
            raise ValueError(f"prior must be 'default', an apolar.Prior, or None; got {self.prior!r}.")
        prior = self.prior
        if is_default:
            prior = Prior() if self.reg_covar is None else None
        return family(self.covariance_type), prior

    def _threads(self) -> int:
        if self.n_threads is not None:
            return self.n_threads
        try:
            return len(os.sched_getaffinity(0))
        except AttributeError:  # not on Linux
            return os.cpu_count() or 1

    def _start(
        self,
        data: WhitenedData,
        X: Any,
        prior: Prior | None,
        kept: Array | None,
        stored: tuple[MixtureParameters, LBFGSHistory | None] | None,
    ) -> tuple[Callable[[np.random.Generator], Started], int, bool]:
        """Return what makes the candidates, how often to call it, and whether their order is the user's.

        `kept` marks the rows of X that are in the table, where it is not all of them; `stored` is the mixture
        of a file.
        """
        r = self.n_components
        in_part = any(v is not None for v in (self.weights_init, self.means_init, self.precisions_init))
        is_named = isinstance(self.init_params, str) or callable(self.init_params)
        if stored is not None or (self.warm_start and self._is_of(data.family, r, data.n_features)):
            found, curvature = (self._parameters(), self._memory()) if stored is None else stored
            parameters = data.whitening.transform_parameters(found)
            earlier = self._earlier(data) if stored is None else ()
            # A fit that was killed ends in the order in which it would have ended.
            is_killed = stored is not None and not is_path(self.warm_start)
            warm = Candidate(
                "warm start", parameters, is_from_all_rows=True, curvature=curvature, earlier=earlier
            )
            return lambda _: ([warm], []), 1, in_part or not is_named or not is_killed
        if in_part:
            return (lambda rng: ([self._from_parameters(data, X, prior, rng, kept)], [])), 1, True
        if isinstance(self.init_params, str):
            name = self.init_params
            return (lambda rng: started(name, data, r, prior, rng)), self.n_init, False
        if is_named:
            return (lambda rng: ([self._called(data, X, prior, rng, kept)], [])), self.n_init, False
        parameters = from_assignment(data, r, prior, self.init_params, "init_params", kept)
        return lambda _: ([Candidate("given", parameters, is_from_all_rows=True)], []), 1, True

    def _memory(self) -> LBFGSHistory | None:
        """Return what the last fit, if it did not converge, learnt of the curvature."""
        return LBFGSHistory.of(*self._curvature) if "_curvature" in self.__dict__ else None

    def _earlier(self, data: WhitenedData) -> tuple[float, ...]:
        """Return the last objectives of the fit that a warm start continues, on rows of the same weight."""
        weight, values = self.__dict__.get("_trace", (0.0, ()))
        return values if self.warm_start and weight == data.weight else ()

    def _called(
        self, data: WhitenedData, X: Any, prior: Prior | None, rng: np.random.Generator, kept: Array | None
    ) -> Candidate:
        found = self.init_params(X, self.n_components, np.random.RandomState(rng.integers(2**31)))
        name = getattr(self.init_params, "__name__", "callable")
        if isinstance(found, SphericalMixture):
            metric = data.whitening.metric
            covariances = data.family.from_spherical(found.variances, metric, found.weights)
            return Candidate(
                name, WhitenedParameters(found.weights, data.whitening.transform(found.means), covariances)
            )
        if hasattr(found, "predict_proba"):
            found = found.predict_proba(X)
        given = from_assignment(data, self.n_components, prior, found, "What init_params returned", kept)
        return Candidate(name, given)

    def _from_parameters(
        self, data: WhitenedData, X: Any, prior: Prior | None, rng: np.random.Generator, kept: Array | None
    ) -> Candidate:
        r, m, whitening = self.n_components, data.n_features, data.whitening
        weights = None if self.weights_init is None else checked_weights(self.weights_init, r)
        means = None if self.means_init is None else whitening.transform(checked_means(self.means_init, r, m))
        covariances = None
        if self.precisions_init is not None:
            covariances = checked_precisions(self.precisions_init, data.family, r, m)
            covariances = whitening.transform_parameters(
                MixtureParameters(np.ones(r), np.zeros((r, m)), covariances)
            ).covariances
        if weights is None or means is None or covariances is None:
            # What is not given comes from the rows nearest to the means, or from the start by name.
            if means is not None:
                stats = data.nearest_stats(means)
                base = data.family.m_step(stats, Prior() if prior is None else prior)
            elif isinstance(self.init_params, str):
                # Precisions are given in an order: that of components in canonical order.
                best = started(self.init_params, data, r, prior, rng)[0][0].parameters
                means_in_data = whitening.inverse_transform(best.means)
                base = data.family.reordered(best, canonical_order(best.weights, means_in_data))
            elif callable(self.init_params):
                base = self._called(data, X, prior, rng, kept).parameters
            else:
                base = from_assignment(data, r, prior, self.init_params, "init_params", kept)
            weights = base.weights if weights is None else weights
            means = base.means if means is None else means
            covariances = base.covariances if covariances is None else covariances
        weights = np.maximum(weights, 1e-3 / data.weight)
        return Candidate(
            "given", WhitenedParameters(weights / weights.sum(), means, covariances), is_from_all_rows=True
        )

    def _attributes(self, data: WhitenedData, kind: Family, fit: Fit, dtype: np.dtype[Any]) -> dict[str, Any]:
        """Return the fitted attributes that a fit in the frame of a table stands for."""
        found = data.whitening.inverse_transform_parameters(fit.parameters)
        offset = data.whitening.log_det
        return fitted_attributes(kind, found, dtype) | {
            "converged_": fit.status is FitStatus.CONVERGED,
            "n_iter_": fit.n_iter,
            "lower_bound_": fit.log_likelihood / data.weight + offset,
            "lower_bounds_": [value / data.weight + offset for value in fit.history],
            "n_features_in_": data.n_features,
            "n_samples_seen_": data.weight,
        }

    def _tell(self, outcome: Outcome) -> None:
        """Warn of what the user should know."""
        if outcome.fit.status is FitStatus.MAX_ITER and self.max_iter > 0:
            warnings.warn(self.message_, NotConvergedWarning, stacklevel=5)
        if isinstance(self.init_params, str) and self.init_params == "moments":
            for note in outcome.notes:
                warnings.warn(note, SkippedStartWarning, stacklevel=5)
        for warning in outcome.warnings:
            warnings.warn(warning, stacklevel=5)

    def _is_of(self, kind: Family, n_components: int, n_features: int) -> bool:
        """Return whether there is a fitted mixture of that family and size."""
        if not hasattr(self, "weights_") or self.means_.shape != (n_components, n_features):
            return False
        return np.shape(self.covariances_) == covariance_shape(kind, n_components, n_features)

    # --- what a fitted mixture says of rows ---------------------------------------------------

    def _parameters(self) -> MixtureParameters:
        if not self._is_of(family(self.covariance_type), *self.means_.shape):
            raise ValueError(
                f"The mixture was not fitted with covariance_type={self.covariance_type!r}: fit it again."
            )
        return exact_parameters(vars(self))

    def _n_parameters(self) -> int:
        """Return the number of free parameters: scikit-learn's private name for `n_parameters_`."""
        return self.n_parameters_

    def _asked(self, X: Any, answer: Answer) -> Any:
        """Return an answer on each row of X."""
        check_is_fitted(self)
        rows = opened(self, X, reset=False, once=True)
        found = self._reader().each(rows, answer, self._threads())
        is_single = self.means_.dtype == np.float32 and float_type(X) == np.float32
        return in_single_precision(found) if is_single and answer is not labels else found

    def _reader(self) -> Predictor:
        return Predictor.of(family(self.covariance_type), self._parameters())

    def predict(self, X: Any) -> Any:
        """Return the most probable component of each row, shape (n_samples,).

        Arrays of another library give one of that library, where they are; those of Dask, a lazy one.
        """
        return self._asked(X, labels)

    def predict_proba(self, X: Any) -> Any:
        """Return the posterior probability of each component, shape (n_samples, n_components)."""
        return self._asked(X, probabilities)

    def score_samples(self, X: Any) -> Any:
        """Return the log-density of each row, shape (n_samples,)."""
        return self._asked(X, densities)

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
        found = self._likelihood(X, sample_weight)
        return found.log_likelihood / found.weight

    @property
    def n_parameters_(self) -> int:
        """The number of free parameters of the fitted mixture."""
        check_is_fitted(self)
        return family(self.covariance_type).n_parameters(*self.means_.shape)

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Return the Bayesian information criterion on X: lower is better, as in scikit-learn."""
        found = self._likelihood(X, sample_weight)
        return lower_is_better_bic(found.log_likelihood, self.n_parameters_, found.weight)

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Return Akaike's information criterion on X: lower is better, as in scikit-learn."""
        return lower_is_better_aic(self._likelihood(X, sample_weight).log_likelihood, self.n_parameters_)

    def icl(self, X: Any, sample_weight: Any = None) -> float:
        """Return the integrated completed likelihood on X: lower is better; overlap costs."""
        found = self._likelihood(X, sample_weight)
        bic = lower_is_better_bic(found.log_likelihood, self.n_parameters_, found.weight)
        return bic - 2 * found.log_certainty

    def _likelihood(self, X: Any, sample_weight: Any) -> Likelihood:
        check_is_fitted(self)
        rows = opened(self, X, sample_weight, reset=False, once=True)
        return self._reader().likelihood(rows, self._threads())

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
        """
        check_is_fitted(self)
        if isinstance(n_samples, numbers.Integral) and n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': {n_samples}. The sampling requires at least one sample."
            )
        check_integer(n_samples, "n_samples", least=1)
        state = self.random_state
        rng = random_generator(state) if isinstance(state, np.random.Generator) else check_random_state(state)
        kind, parameters = family(self.covariance_type), self._parameters()
        counts = rng.multinomial(n_samples, parameters.weights / parameters.weights.sum())
        labels = np.repeat(np.arange(len(counts)), counts)
        noise = rng.standard_normal(size=(n_samples, parameters.n_features))
        root = kind.root(parameters.covariances)
        own = root if kind.tied else root[labels]
        drawn = parameters.means[labels] + kind.mean_retraction(own, noise)
        return drawn.astype(self.means_.dtype, copy=False), labels

    # --- how sure it is -----------------------------------------------------------------------

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
        data, prior = self._table_again(X, sample_weight)
        _, _, mean, variances = column_moments(data.rows)
        constant = np.flatnonzero(np.sqrt(np.maximum(variances, 0.0)) <= 1e-13 * np.abs(mean))
        if len(constant):
            raise ValueError(
                f"Column {constant[0]} is constant: its variance has no standard error. Fit without it."
            )
        with one_blas_thread():
            return standard_errors(data, self._parameters(), prior)

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
        data, prior = self._table_again(X, sample_weight)
        rng = random_generator(self.random_state)
        with one_blas_thread():
            return bootstrap(
                data,
                self._parameters(),
                prior,
                rng=rng,
                n_resamples=n_resamples,
                parametric=parametric,
                tol=max(self.tol, 1e-9),
                max_iter=max(self.max_iter, 1),
            )

    def _table_again(self, X: Any, sample_weight: Any) -> tuple[WhitenedData, Prior | None]:
        check_is_fitted(self)
        kind, prior = self._checked_parameters()
        rows = opened(self, X, sample_weight, reset=False).on_host()
        return WhitenedData(rows, kind, threads=self._threads(), noise=self.reg_covar or 0.0), prior

    # --- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted mixture to a file: arrays, a version and a checksum, nothing that can run.

        The file appears whole or not at all. A callable `init_params` and a generator as `random_state`
        cannot be stored: "auto" and None take their place. Paths are not stored: `checkpoint` is None in the
        loaded model, and a path as `warm_start` is False.

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
            A stream goes on as after `fit`.
        """
        return load_model(cls, path)
