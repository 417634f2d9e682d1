"""`GaussianMixture`, with scikit-learn's contract."""

from __future__ import annotations

import os
from typing import Any, Self

from sklearn.base import BaseEstimator, DensityMixin

from apolar._core.arrays import Array
from apolar._core.literals import CovarianceType, PriorName, StartName
from apolar._core.threads import one_blas_thread
from apolar.estimator.checkpoint import check_writable
from apolar.estimator.conditional import ConditionalMixin
from apolar.estimator.description import DescriptionMixin
from apolar.estimator.fit import fit_rows
from apolar.estimator.inputs import opened, with_column_names, with_weight
from apolar.estimator.parameters import checked_parameters
from apolar.estimator.progress import CallbackSupportMixin, with_callbacks
from apolar.estimator.queries import FittedMixtureMixin
from apolar.estimator.storage import load_model, save_model
from apolar.estimator.stream import Stream, update_from_batch
from apolar.mixture.prior import Prior

__all__ = ["GaussianMixture"]


class GaussianMixture(
    CallbackSupportMixin, FittedMixtureMixin, ConditionalMixin, DescriptionMixin, DensityMixin, BaseEstimator
):
    """A mixture of Gaussians, fitted by EM from a portfolio of starts.

    Takes the place of `sklearn.mixture.GaussianMixture`: all of its parameters, methods and attributes are
    there. It differs in the start (`init_params="auto"`: moments, over-seeding, split and merge), in a prior
    that lets components with few rows borrow from the others where scikit-learn adds `reg_covar`, in choosing
    among optima by evidence and likelihood, not by likelihood alone, and in running EM to the optimum.

    Parameters
    ----------
    n_components : int, default=1
    covariance_type : str, default="full"
        "full", "tied", "diag", "spherical" as in scikit-learn, "tied_diag", "tied_spherical", or mclust's
        codes: "VVV", "EEE", "VVI", "VII", "EEI", "EII" for these, and "VEI", "EVI", "VEE", "EVE", "VVE",
        "EEV", "VEV", "EVV" for components that share a part of their covariances. "E" and "V" are those for
        data of one column.
    init_params : str, callable or array_like, default="auto"
        Where EM starts. "auto": a portfolio of starts, of which the best is run to its end. "moments": the
        moments of the data, without any randomness. "overseed": four times as many k-means++ seeds, merged.
        "kmeans": the best of 10 runs. "mbhc": model-based hierarchical clustering. "emem": the best of 50
        short runs from random rows. "k-means++", "random_from_data", "random": as in scikit-learn. A callable
        takes (X, n_components, random_state) and returns labels, responsibilities or a mixture; labels, shape
        (n_samples,), and responsibilities, shape (n_samples, n_components), can also be given directly.
    n_init : int, default=1
        The number of starts, of which the best result is kept: with the default prior that of the highest
        mean of log-evidence and log-likelihood, otherwise that of the highest likelihood.
    max_iter : int, default=500
        The most passes over the data in a run of EM.
    tol : float, default=1e-3
        EM ends when less than this is left to gain in the log-likelihood of all rows together, plus the
        log-prior.
    reg_covar : float or None, default=None
        Added to the variances in every M-step, in the units of X, as in scikit-learn; it then takes the place
        of the default prior. None: the prior keeps variances above zero, whatever the units of X are.
    prior : {"default", "conjugate"}, Prior or None, default="default"
        "default": the covariances of the components are shrunk towards a common one, up to a volume of their
        own, as strongly as the rows suggest: see `shrinkage_`. Optima are compared by evidence and likelihood
        together. Where this does not apply (components that share their covariance, a single one, rows of
        longer tails than those of Gaussians), it is the conjugate prior. Components are also kept from being
        narrower than the rounding errors of the columns: see `rounding_variances_`. "conjugate": a weak prior
        on each component by itself, `Prior()`; another `Prior` changes its parameters. None: plain maximum
        likelihood, as in mclust. With these three, optima are compared by likelihood.
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

    Attributes
    ----------
    weights_ : ndarray, shape (n_components,)
        Of float32 if X is, as are means and covariances. They add up to one, or with noise to one less
        `noise_weight_`. Components are in canonical order, the heaviest
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
        How EM ended, in words.
    rounding_variances_ : ndarray, shape (n_features,)
        The variance of the rounding errors of each column that is recorded with a resolution, such as
        integers, if a component was narrower than these, so that they were added to all variances; else zero.
    shrinkage_ : float
        How many rows the common covariance counts as in each component, with the default prior: of a
        component of as many rows, half of the covariance is its own. 0 if covariances were not shrunk.
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

    n_samples_seen_: float
    evidence_: float
    _stream: Stream

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    # --- fitting ------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Fit the mixture.

        Parameters
        ----------
        X : array_like, sparse matrix, dataframe, or another source of rows
            Of shape (n_samples, n_features). Other sources are a memory map, a pyarrow data set, an array of
            torch or CuPy, an array or dataframe of Dask, what `apolar.on_device` returns, and an iterable of
            chunks that can be read again: these are neither loaded into memory nor moved. NaN stands for a
            value that is missing, at random: the likelihood is that of the values that are there
            [ghahramani1994].
        y : None
            Ignored.
        sample_weight : array_like, shape (n_samples,), optional
            How many rows each row counts as. Weights whose sum is less than the number of rows with a weight
            above zero cannot be counts: they are scaled to add up to that number. (Weights that come with
            chunks, and those of `partial_fit`, are used as they are.)

        Returns
        -------
        self : GaussianMixture
        """
        kind, prior = checked_parameters(self)
        if self.checkpoint is not None:
            check_writable(self.checkpoint)
        before = dict(self.__dict__)
        try:
            rows = opened(self, X, sample_weight, reset=True, min_rows=2)
            with one_blas_thread(), with_column_names(self):
                fit_rows(self, X, rows, kind, prior, with_weight(sample_weight))
        except BaseException:
            # A fit that fails, or is interrupted from the keyboard, leaves the estimator as it was.
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Update the mixture from a batch of a stream, in bounded memory.

        The first batches are kept, and fitted together with each call, until there are about 20 rows per
        parameter of the means and weights (and at least 5000). From then on only sums are kept: stepwise EM
        mixes those of each batch into those of the stream. Each time the number of rows has doubled, it also
        tries the mixture of the moments of all rows seen. Rounding errors are added as in `fit` if the rows
        that are kept need it.

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

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit the mixture and return the component of each row, shape (n_samples,)."""
        return self.fit(X, y, sample_weight=sample_weight).predict(X)

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
