"""`BayesianGaussianMixture`: variational inference, with scikit-learn's contract."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from apolar._core.arrays import Array, as_plain
from apolar._core.checks import CovarianceType, StartName, numeric_array, random_generator
from apolar._core.constants import MIN_WEIGHT
from apolar.data import Rows
from apolar.em.problem import Problem
from apolar.em.result import FitStatus, in_canonical_order
from apolar.em.variational import (
    ConjugatePrior,
    Posterior,
    PosteriorFit,
    expected_log_weights,
    log_density_shifts,
    mean_weights,
    run_variational,
)
from apolar.em.whitening import check_scale, whitening_of
from apolar.estimator.fit import NotConvergedWarning, check_enough_rows, check_memory
from apolar.estimator.fitted import FittedState
from apolar.estimator.gaussian_mixture import GaussianMixture
from apolar.estimator.inputs import check_columns, family_of, float_type, is_path, n_threads_of
from apolar.estimator.summary import Summary
from apolar.exceptions import warn_user
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters
from apolar.moments.covariance import RowMoments, row_moments
from apolar.search.given import requested_candidates

__all__ = ["BayesianGaussianMixture", "VariationalState"]


@dataclass(frozen=True, eq=False)
class VariationalState(FittedState):
    """A posterior and how it was found; the parameters are its means.

    The fields are the attributes of scikit-learn's class.
    """

    # As in `Posterior`, and with what was left to the rows in `ConjugatePrior`: never None.
    weight_concentration: Any = None
    mean_precision: Any = None
    degrees_of_freedom: Any = None
    weight_concentration_prior: float | None = None
    mean_precision_prior: float | None = None
    mean_prior: Array | None = None
    degrees_of_freedom_prior: float | None = None
    covariance_prior: Array | float | None = None

    @property
    def log_factors(self) -> Array:
        """What the expected log-densities add to those of the mixture of the means."""
        weights = np.log(np.maximum(self.parameters.weights, MIN_WEIGHT))
        shifts = log_density_shifts(self.mean_precision, self.degrees_of_freedom, self.parameters.n_features)
        return np.asarray(expected_log_weights(self.weight_concentration) - weights + shifts)

    @classmethod
    def of_posterior(
        cls, fit: PosteriorFit, problem: Problem, dtype: Any, prior: dict[str, Any]
    ) -> VariationalState:
        """Return the state of a result, and of the prior as attributes."""
        posterior, bounds = fit.posterior, list(fit.lower_bounds)
        inside = WhitenedParameters(
            mean_weights(posterior.concentration), posterior.means, posterior.covariances
        )
        return cls(
            problem.family,
            problem.whitening.inverse_transform_parameters(inside),
            dtype,
            n_samples_seen=problem.weight,
            converged=fit.status is FitStatus.CONVERGED,
            n_iter=len(bounds),
            lower_bound=fit.lower_bound,
            lower_bounds=bounds,
            start=fit.start,
            start_notes=[],
            message=fit.status.value,
            weight_concentration=posterior.concentration,
            mean_precision=posterior.mean_precision,
            degrees_of_freedom=as_plain(posterior.dof),
            **prior,
        )

    @staticmethod
    def stored_shapes(kind: Family, n_components: int, n_features: int) -> dict[str, tuple[int, ...]]:
        """Return the fields that files hold besides those of a mixture, and their shapes."""
        of_weights, one = (n_components,), (n_features,) * kind.n_axes
        return {
            "weight_concentration": of_weights,
            "mean_precision": of_weights,
            "degrees_of_freedom": () if kind.shares_covariance else of_weights,
            "weight_concentration_prior": (),
            "mean_precision_prior": (),
            "mean_prior": (n_features,),
            "degrees_of_freedom_prior": (),
            "covariance_prior": one,
        }

    def as_start(self, problem: Problem) -> PosteriorFit:
        """Return the posterior as the start of another run."""
        inside = problem.whitening.transform_parameters(self.parameters)
        known = self.weight_concentration, self.mean_precision, np.asarray(self.degrees_of_freedom)
        posterior = Posterior(*known, inside.means, inside.covariances)
        return PosteriorFit(posterior, "warm start", lower_bounds=tuple(self.lower_bounds or ()))


class BayesianGaussianMixture(GaussianMixture):
    """A mixture of Gaussians whose parameters have a distribution, by variational inference.

    Replaces `sklearn.mixture.BayesianGaussianMixture`: from the same start, each pass gives the
    same posterior and the same lower bound. It is faster, as passes are those of `GaussianMixture`, and takes
    the starts, sources of rows and sample weights of that class.

    Parameters
    ----------
    n_components : int, default=1
        The most components: those that the rows do not need keep the weight of the prior.
    covariance_type : str, default="full"
        "full", "tied", "diag", "spherical", "tied_diag", "tied_spherical", or mclust's codes for these.
    tol : float, default=1e-3
        The run ends when the lower bound of all rows together changes by less than this in a pass.
    reg_covar : float, default=1e-6
        Added to the variances of the rows of each component.
    max_iter : int, default=100
    n_init : int, default=1
        The number of starts; the result with the highest lower bound is kept.
    init_params : str, callable or array_like, default="kmeans"
        As in `GaussianMixture`.
    weight_concentration_prior_type : {"dirichlet_process", "dirichlet_distribution"}
        Under a process, the default, components are given in order, and the first have more weight.
    weight_concentration_prior : float, optional
        Lower values leave more components empty. By default 1 / n_components.
    mean_precision_prior : float, optional
        How many rows the prior of a mean counts as. By default 1.
    mean_prior : array_like, shape (n_features,), optional
        By default the mean of the rows.
    degrees_of_freedom_prior : float, optional
        Of the prior of the covariances; more than n_features - 1. By default n_features.
    covariance_prior : float or array_like, optional
        One covariance of the type. By default that of all rows.
    random_state : int, RandomState, Generator or None, default=None
    warm_start : bool, default=False
        Whether to start from the last posterior.
    verbose : int, default=0
    verbose_interval : int, default=10
        Passes from one line to the next.
    n_threads : int or None, default=None
        As in `GaussianMixture`.

    Attributes
    ----------
    weights_ : ndarray, shape (n_components,)
        The expected weights. Components keep the order of the start: that of labels, if these were given, or
        the heaviest first.
    means_ : ndarray, shape (n_components, n_features)
    covariances_, precisions_, precisions_cholesky_ : ndarray
        In the shapes of `GaussianMixture`; `precisions_` are the expected ones.
    weight_concentration_ : ndarray, shape (n_components,), or tuple of two
        Of the distribution of the weights; under a process, of the fractions of the rest, which are of a beta
        distribution.
    mean_precision_ : ndarray, shape (n_components,)
    degrees_of_freedom_ : ndarray, shape (n_components,), or float
    weight_concentration_prior_, mean_precision_prior_, mean_prior_, degrees_of_freedom_prior_, \
covariance_prior_ : float or ndarray
        The prior, with what was left to the rows.
    lower_bound_ : float
        Of the log-evidence, up to a constant, at the end.
    lower_bounds_ : list of float
        After each pass.
    converged_ : bool
    n_iter_ : int
    start_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X has column names.

    Examples
    --------
    >>> import apolar
    >>> X, labels = apolar.datasets.make_example(1, random_state=0)
    >>> bgm = apolar.BayesianGaussianMixture(
    ...     8, covariance_type="spherical", weight_concentration_prior=1e-3, max_iter=500, random_state=0
    ... ).fit(X)
    >>> int((bgm.weights_ > 0.005).sum())
    4
    """

    # What this class has no parameter for.
    prior = weights_init = means_init = precisions_init = checkpoint = None
    noise, n_factors = False, "auto"
    _state_type: ClassVar[type[FittedState]] = VariationalState

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: CovarianceType | str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: StartName | Any = "kmeans",
        weight_concentration_prior_type: str = "dirichlet_process",
        weight_concentration_prior: float | None = None,
        mean_precision_prior: float | None = None,
        mean_prior: Any = None,
        degrees_of_freedom_prior: float | None = None,
        covariance_prior: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        n_threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weight_concentration_prior_type = weight_concentration_prior_type
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_precision_prior = mean_precision_prior
        self.mean_prior = mean_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.n_threads = n_threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # type: ignore[override]  # noqa: ARG002
        """Find the posterior.

        Parameters
        ----------
        X : array_like, sparse matrix, dataframe, or another source of rows
            Shape (n_samples, n_features), as for `GaussianMixture`, but without missing values.
        y : None
            Ignored.
        sample_weight : array_like, shape (n_samples,), optional
            How many rows each row counts as.

        Returns
        -------
        self : BayesianGaussianMixture
        """
        if family_of(self).has_factors:
            raise ValueError(
                f"covariance_type={self.covariance_type!r} has no distribution of its parameters here: use "
                "GaussianMixture, or another covariance type."
            )
        return super().fit(X, None, sample_weight)

    def _fit_rows(
        self, X: Any, rows: Rows, family: Family, prior: None, has_weight: Array | None, **_known: None
    ) -> None:
        """Find the posterior for checked rows, and set the attributes."""
        if family.shares_part or is_path(self.warm_start):
            raise ValueError(
                f"BayesianGaussianMixture takes 'full', 'tied', 'diag' and 'spherical' covariances, not "
                f"{family.name!r}: use GaussianMixture for those that share a part."
                if family.shares_part
                else "warm_start must be True or False: BayesianGaussianMixture cannot start from a file."
            )
        check_memory(family, int(self.n_components), rows.n_features)
        check_columns(self, rows.n_features)
        threads = n_threads_of(self)
        moments = row_moments(rows, threads, has_covariance=not family.is_axis_aligned)
        check_scale(moments, rows.names, self.reg_covar or 0.0)
        problem = Problem(rows, family, whitening_of(moments, family), threads)
        check_enough_rows(problem, int(self.n_components))
        whitening = problem.whitening
        known, conjugate = self._priors(problem, moments)
        candidates = requested_candidates(self, problem, X, prior, has_weight)
        rng = random_generator(self.random_state)

        def drawn_start() -> PosteriorFit:
            drawn = candidates.draw(rng)[0]
            if not candidates.keeps_order:
                # Under a process, the heaviest first are the likeliest.
                drawn = in_canonical_order(drawn, family, whitening)
            stats = family.stats_of(drawn.parameters, problem.weight, None)
            return PosteriorFit(conjugate.posterior(family, stats), drawn.start)

        if self.warm_start and hasattr(self, "weights_"):
            last = FittedState.of(self)
            assert isinstance(last, VariationalState)
            starts = [last.as_start(problem)]
        else:
            starts = [drawn_start() for _ in range(candidates.n_init)]
        settings = self.max_iter, self.tol, self._print_pass
        ends = [run_variational(problem, conjugate, start, *settings) for start in starts]
        best = max(ends, key=lambda end: end.lower_bound)
        VariationalState.of_posterior(best, problem, float_type(X), known).set_on(self)
        if best.status is FitStatus.MAX_ITER:
            warn_user(best.status.value, NotConvergedWarning)

    def _priors(self, problem: Problem, moments: RowMoments) -> tuple[dict[str, Any], ConjugatePrior]:
        """Return the prior, as attributes and in whitened coordinates."""
        family, n_features = problem.family, problem.n_features
        mean, covariance, dof = self.mean_prior, self.covariance_prior, self.degrees_of_freedom_prior
        if covariance is None:
            correction = moments.weight / max(moments.weight - 1, 1.0)
            stored = moments.variances if moments.covariance is None else moments.covariance
            covariance = correction * np.asarray(stored if family.n_axes else stored.mean())
        else:
            shape = (n_features,) * family.n_axes
            covariance = _given(covariance, shape, f"{family.name} covariance_prior")
            family.check_covariances(covariance, "covariance_prior")
        if dof is not None and not dof > n_features - 1:
            raise ValueError(
                f"The parameter 'degrees_of_freedom_prior' should be greater than {n_features - 1}, but got "
                f"{dof:.3f}."
            )
        known: dict[str, Any] = {
            "weight_concentration_prior": float(self.weight_concentration_prior or 1 / self.n_components),
            "mean_precision_prior": float(self.mean_precision_prior or 1.0),
            "mean_prior": moments.mean if mean is None else _given(mean, (n_features,), "means"),
            "degrees_of_freedom_prior": float(dof or n_features),
            "covariance_prior": as_plain(covariance),
        }
        inside = problem.whitening.transform_parameters(
            MixtureParameters(np.ones(1), known["mean_prior"][None], covariance)
        )
        errors = problem.error_covariance(self.reg_covar or 0.0)
        return known, ConjugatePrior(
            known["weight_concentration_prior"],
            known["mean_precision_prior"],
            inside.means[0],
            known["degrees_of_freedom_prior"],
            inside.covariances,
            np.zeros_like(inside.covariances) if errors is None else errors,
            is_process=self.weight_concentration_prior_type == "dirichlet_process",
        )

    def _print_pass(self, fit: PosteriorFit) -> None:
        n_passes = len(fit.lower_bounds)
        if self.verbose and n_passes % self.verbose_interval == 0:
            print(f"pass {n_passes}: lower bound {fit.lower_bound:.10g}")

    def to_gaussian_mixture(self) -> GaussianMixture:
        """Return the mixture of the posterior means, with all that `GaussianMixture` has.

        Examples
        --------
        >>> import apolar
        >>> X = apolar.datasets.load_iris().data
        >>> bgm = apolar.BayesianGaussianMixture(3, max_iter=500, random_state=0).fit(X)
        >>> bgm.to_gaussian_mixture().conditional([0, 1], [5.0, 3.4]).means_.shape
        (3, 2)
        """
        state = FittedState.of(self)
        made = GaussianMixture(
            self.n_components,
            covariance_type=self.covariance_type,
            random_state=self.random_state,
            n_threads=self.n_threads,
        )
        known = {one.name: getattr(state, one.name) for one in fields(FittedState)}
        # The lower bound of the evidence is not a log-likelihood.
        FittedState(**known | {"lower_bound": float("nan"), "lower_bounds": []}).set_on(made)
        if hasattr(self, "feature_names_in_"):
            made.feature_names_in_ = self.feature_names_in_
        return made

    def summary(self, X: Any = None, sample_weight: Any = None) -> Summary:
        """Return the summary of the mixture of the posterior means: see `GaussianMixture.summary`."""
        return self.to_gaussian_mixture().summary(X, sample_weight)


def _given(value: Any, shape: tuple[int, ...], name: str) -> Array:
    """Return a parameter as an array of some shape; the message begins as scikit-learn's."""
    array = numeric_array(value, name)
    if array.shape != shape:
        raise ValueError(f"The parameter '{name}' should have the shape of {shape}, but got {array.shape}.")
    return array


def _refuse(name: str) -> property:
    """Return a property instead of a method of maximum likelihood, which says what to call."""

    def missing(self: Any) -> Any:
        raise AttributeError(
            f"{type(self).__name__} has no {name}: call it on to_gaussian_mixture(), the mixture of the "
            "posterior means."
        )

    return property(missing)


_REFUSED = "aic bic icl loo_samples partial_fit bootstrap standard_errors marginal conditional regress"
for _name in _REFUSED.split():
    setattr(BayesianGaussianMixture, _name, _refuse(_name))
