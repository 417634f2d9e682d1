"""The methods that the paper compares, EM from four starts, and those of this library."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from apolar._core.arrays import Array
from apolar._core.threads import one_blas_thread
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.run import plain_em
from apolar.estimator import GaussianMixture
from apolar.mixture import SphericalMixture
from apolar.mixture.families import family
from apolar.mixture.parameters import WhitenedParameters
from apolar.recovery.from_moments import spherical_mixture
from apolar.scores import adjusted_rand_index, majority_error_rate, mclust_bic
from apolar.search.hierarchical import merge_tree
from apolar.search.moment_starts import whitened_spherical
from apolar.search.starts import best_of_short_runs, from_kmeans

# EM as the paper ran it, with mclust: at most 100 iterations, until the log-likelihood changes by this much
# of itself.
MAX_ITER = 100
RELATIVE_TOL = 1e-5
KMEANS_RUNS = 50
EMEM_RUNS = 50
EMEM_STEPS = 5

PAPER_METHODS = ("em_km", "em_mom", "em_mbhc", "em_emEM")
"""As the paper names them."""
OUR_METHODS = ("em_moments", "apolar", "oracle")
"""The same EM from the equivariant moments, the search of this library, and EM from the truth."""
METHODS = PAPER_METHODS + OUR_METHODS

SPHERICAL = family("spherical")


@dataclass(frozen=True, eq=False)
class Task:
    """Rows to be clustered.

    Attributes
    ----------
    X : ndarray, shape (n_samples, n_features)
    labels : ndarray of int, shape (n_samples,)
        The true classes.
    n_components : int
    feature_names : tuple of str
    class_names : tuple of str
        Empty where the classes have no names.
    truth : SphericalMixture or None
        What the rows were drawn from, where that is known.
    """

    X: Array
    labels: Array
    n_components: int
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...] = ()
    truth: SphericalMixture | None = None


@dataclass(frozen=True, eq=False)
class Clustering:
    """The result of a method.

    Attributes
    ----------
    method : str
    log_likelihood, bic : float
        BIC as mclust has it, 2 l - nu log n: the larger the better.
    ari, error_rate : float
        Against the true classes; the error rate as the paper's tables have it (`majority_error_rate`).
    start_s, time_s : float
        Seconds for the start, and for start, EM and labels together. For `apolar`, whose starts are runs of
        EM themselves, both are the time of the whole fit.
    predicted : ndarray of int, shape (n_samples,)
    mixture : SphericalMixture
        Its component k is the label k.
    """

    method: str
    log_likelihood: float
    bic: float
    ari: float
    error_rate: float
    start_s: float
    time_s: float
    predicted: Array
    mixture: SphericalMixture


def n_parameters(task: Task) -> int:
    """Return how many numbers a spherical mixture has."""
    return SPHERICAL.n_parameters(task.n_components, task.X.shape[1])


def clustering(method: str, task: Task, seed: int) -> Clustering:
    """Return the result of a method, on one thread.

    Parameters
    ----------
    method : str
        One of `PAPER_METHODS` or `OUR_METHODS`.
    task : Task
    seed : int

    Returns
    -------
    result : Clustering
    """
    rng = np.random.default_rng(seed)
    # On one thread: times can be compared, and sums in another order would end in other digits.
    with threadpool_limits(1), warnings.catch_warnings():
        # Warnings that good starts disagree: the tables show that anyway.
        warnings.simplefilter("ignore", UserWarning)
        fit = _default_fit(task, seed) if method == "apolar" else _em_from(STARTS[method], task, rng)
    return Clustering(
        method,
        fit.log_likelihood,
        mclust_bic(fit.log_likelihood, n_parameters(task), len(task.X)),
        adjusted_rand_index(task.labels, fit.predicted),
        majority_error_rate(task.labels, fit.predicted),
        fit.start_s,
        fit.time_s,
        fit.predicted,
        fit.mixture,
    )


def timed(method: str, task: Task, seed: int, *, repeats: int = 5, enough_s: float = 0.5) -> Clustering:
    """Return the result of a method, with the median times of several equal runs.

    The first run warms up, and its times count only if it takes longer than `enough_s`.
    """
    first = clustering(method, task, seed)
    runs: list[Clustering] = []
    while first.time_s <= enough_s and len(runs) < repeats and sum(run.time_s for run in runs) < enough_s:
        runs.append(clustering(method, task, seed))
    if not runs:
        return first
    start_s, time_s = np.median([(run.start_s, run.time_s) for run in runs], axis=0).tolist()
    return replace(first, start_s=start_s, time_s=time_s)


@dataclass(frozen=True, eq=False)
class _TimedFit:
    log_likelihood: float
    predicted: Array
    mixture: SphericalMixture
    start_s: float
    time_s: float


def _em_from(
    start: Callable[[Problem, Task, np.random.Generator], WhitenedParameters],
    task: Task,
    rng: np.random.Generator,
) -> _TimedFit:
    """Run the paper's EM from a start."""
    began = time.perf_counter()
    data = Problem(open_rows(task.X), SPHERICAL)
    parameters = start(data, task, rng)
    started = time.perf_counter()
    with one_blas_thread():
        fit = plain_em(data, Fit(parameters, ""), None, relative_tol=RELATIVE_TOL, max_iter=MAX_ITER)
        predicted = data.row_responsibilities(fit.parameters)[0].argmax(axis=0)
    ended = time.perf_counter()
    log_likelihood = fit.log_likelihood + data.whitening.log_det * data.weight
    fitted = data.whitening.inverse_transform_parameters(fit.parameters)
    mixture = SphericalMixture(fitted.weights, fitted.means, fitted.covariances)
    return _TimedFit(log_likelihood, predicted, mixture, started - began, ended - began)


def _default_fit(task: Task, seed: int) -> _TimedFit:
    began = time.perf_counter()
    # Methods are compared by likelihood, which the default prior does not maximise.
    model = GaussianMixture(
        task.n_components, covariance_type="spherical", prior="conjugate", random_state=seed, n_threads=1
    ).fit(task.X)
    predicted = model.predict(task.X)
    time_s = time.perf_counter() - began
    mixture = SphericalMixture(model.weights_, model.means_, model.covariances_)
    return _TimedFit(model.score(task.X) * len(task.X), predicted, mixture, time_s, time_s)


def _after_a_step(data: Problem, mixture: SphericalMixture) -> WhitenedParameters:
    """Return the mixture after an E-step and an M-step: with which mclust's `em` begins."""
    parameters = whitened_spherical(data, mixture, np.ones(data.n_features))
    with one_blas_thread():
        stats, _ = data.e_step(parameters[None])
    return SPHERICAL.m_step(stats[0], None)


def _from_labels(data: Problem, labels: Array, n_components: int) -> WhitenedParameters:
    return SPHERICAL.m_step(data.hard_stats(labels, n_components), None)


def _kmeans(data: Problem, task: Task, rng: np.random.Generator) -> WhitenedParameters:
    return from_kmeans(data, task.n_components, None, rng, n_runs=KMEANS_RUNS)


def _paper_moments(data: Problem, task: Task, rng: np.random.Generator) -> WhitenedParameters:
    mixture = spherical_mixture(task.X, task.n_components, form="paper", random_state=rng)
    return _after_a_step(data, mixture)


def _equivariant_moments(data: Problem, task: Task, rng: np.random.Generator) -> WhitenedParameters:
    mixture = spherical_mixture(task.X, task.n_components, random_state=rng)
    return _after_a_step(data, mixture)


def _mbhc(data: Problem, task: Task, _: np.random.Generator) -> WhitenedParameters:
    labels = merge_tree(task.X, transform="svd").labels(task.n_components)
    return _from_labels(data, labels, task.n_components)


def _emem(data: Problem, task: Task, rng: np.random.Generator) -> WhitenedParameters:
    with one_blas_thread():
        return best_of_short_runs(
            data, task.n_components, None, rng, from_rows=False, n_runs=EMEM_RUNS, n_steps=EMEM_STEPS
        )


def _oracle(data: Problem, task: Task, _: np.random.Generator) -> WhitenedParameters:
    if task.truth is not None:
        return _after_a_step(data, task.truth)
    return _from_labels(data, task.labels, task.n_components)


STARTS: dict[str, Callable[[Problem, Task, np.random.Generator], WhitenedParameters]] = {
    "em_km": _kmeans,
    "em_mom": _paper_moments,
    "em_mbhc": _mbhc,
    "em_emEM": _emem,
    "em_moments": _equivariant_moments,
    "oracle": _oracle,
}
