"""The uncertainty of a fitted mixture: standard errors from the observed information, and the bootstrap."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from apolar._core.arrays import Array, IndexArray
from apolar._core.checks import check_fraction, check_integer, random_generator
from apolar._core.display import SHOWN_CLUSTERS, SHOWN_COLUMNS, Displayed, TableCells, cluster_table, figures
from apolar._core.settings import SETTINGS
from apolar._core.threads import one_blas_thread
from apolar.data import CHUNK_SIZE, open_rows
from apolar.data.rows import WeightedRows, fetch_rows
from apolar.em.coordinates import LocalCoordinates, coordinates_of_components
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.run import Stop, run
from apolar.estimator.cluster_merging import Group, cluster_labels, cluster_shares
from apolar.estimator.fit import problem_of
from apolar.estimator.fitted import FittedState
from apolar.estimator.inputs import check_parameters, open_input
from apolar.exceptions import ColumnError, ComponentError
from apolar.mixture.families import Family
from apolar.mixture.parameters import WhitenedParameters, batch, noise_weights
from apolar.mixture.prior import Prior
from apolar.mixture.recovered import sample
from apolar.moments.covariance import is_constant, row_moments

__all__ = [
    "Bootstrap",
    "Interval",
    "Stability",
    "StandardErrors",
    "bootstrap",
    "stability_of",
    "standard_errors",
]
# The step of central differences, in deviations of a component and in logarithms of weights: a compromise
# between their error, of the order of its square, and that of rounding, of the order of its inverse.
GRADIENT_STEP = 1e-4
# A direction with less than this fraction of the largest information counts as flat: central differences
# are not more accurate than that.
FLAT = 1e-6


@dataclass(frozen=True, eq=False)
class StandardErrors(Displayed):
    """The standard errors of the parameters of a mixture, in the units of the data.

    Attributes
    ----------
    weights : ndarray, shape (n_components,)
        Zero if there is one component: its weight is known.
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray
        In the shape of the covariances of the family; every entry of a matrix has its own.
    information_condition : float or None
        The largest over the smallest eigenvalue of the information, in coordinates where it would be the
        identity if the component of each row were known: near 1 if the components hardly overlap, large if
        the rows hardly determine some direction. None after a bootstrap, which computes no information.
    noise_weight : float
        The error of the weight of the noise; zero without a noise component.
    """

    weights: Array
    means: Array
    covariances: Array
    information_condition: float | None
    noise_weight: float = 0.0
    dof: Array | None = None

    def _display(self) -> tuple[str, TableCells]:
        return self.table("Standard errors of the weights and means")

    def table(self, title: str) -> tuple[str, TableCells]:
        """Return the whole title of a table of the errors of weights and means, and the table."""
        n_clusters, n_features = self.means.shape
        shown = range(min(n_clusters, SHOWN_CLUSTERS))
        table = cluster_table(
            {
                "cluster": [str(k + 1) for k in shown],
                "weight": [figures(float(self.weights[k]), 2) for k in shown],
            },
            [f"mean of x{j}" for j in range(n_features)],
            lambda k, j: figures(float(self.means[k, j]), 2),
            SHOWN_COLUMNS,
        )
        rest = "" if n_clusters == len(shown) else f" of the first {len(shown)} of {n_clusters} clusters"
        return f"{title}{rest}; those of the covariances are in .covariances.", table


@dataclass(frozen=True, eq=False)
class Interval:
    """Intervals for the parameters of a mixture: lower ends at index 0 of each array, upper ones at 1.

    Attributes
    ----------
    level : float
        The fraction of the resamples between the ends of each interval.
    weights : ndarray, shape (2, n_components)
    means : ndarray, shape (2, n_components, n_features)
    covariances : ndarray, shape (2, ...)
    """

    level: float
    weights: Array
    means: Array
    covariances: Array


@dataclass(frozen=True, eq=False)
class Bootstrap(Displayed):
    """Mixtures fitted to resamples, in the units of the data.

    Attributes
    ----------
    weights : ndarray, shape (n_resamples, n_components)
        Components in the order of the fitted mixture.
    means : ndarray, shape (n_resamples, n_components, n_features)
    covariances : ndarray, shape (n_resamples, ...)
        In the shape of the covariances of the family.
    converged : ndarray of bool, shape (n_resamples,)
        Whether the fit to each resample reached an optimum; if many did not, raise max_iter.
    has_noise : bool
        Whether there is a noise component, whose weight is one minus the others.
    dof : ndarray, shape (n_resamples, n_components), or None
        Degrees of freedom, of components with long tails.
    """

    weights: Array
    means: Array
    covariances: Array
    converged: Array
    has_noise: bool = False
    dof: Array | None = None

    def _display(self) -> tuple[str, TableCells]:
        not_converged = int(np.count_nonzero(~self.converged))
        note = f" ({not_converged} did not converge)" if not_converged else ""
        return self.standard_errors().table(f"Deviations over {len(self.weights)} resamples{note}")

    def standard_errors(self) -> StandardErrors:
        """Return the standard deviations over the resamples."""
        return StandardErrors(
            np.std(self.weights, axis=0, ddof=1),
            np.std(self.means, axis=0, ddof=1),
            np.asarray(np.std(self.covariances, axis=0, ddof=1)),
            None,
            float(np.std(self.weights.sum(axis=1), ddof=1)) if self.has_noise else 0.0,
            None if self.dof is None else np.std(self.dof, axis=0, ddof=1),
        )

    def interval(self, level: float = 0.95) -> Interval:
        """Return percentile intervals.

        Parameters
        ----------
        level : float, default=0.95
            The fraction of the resamples within each interval, between 0 and 1.

        Returns
        -------
        interval : Interval
        """
        level = check_fraction(level, "level")
        ends = [(1 - level) / 2, (1 + level) / 2]
        arrays = (self.weights, self.means, self.covariances)
        return Interval(level, *(np.quantile(array, ends, axis=0) for array in arrays))


def _problem_of_fit(
    model: Any, X: Any, sample_weight: Any, *, is_drawn: bool = False
) -> tuple[FittedState, Problem, Prior | None]:
    """Return the state of a fit, its rows, on the host and whitened as they were, and its prior.

    Rows that are drawn from the mixture are not rounded: with `is_drawn`, they have no rounding errors.
    """
    kind, prior = check_parameters(model)
    state = FittedState.of(model)
    if kind.has_factors:
        raise ValueError(
            "There are no standard errors of loadings, which are known up to a rotation: stability(X) says "
            "whether the clusters come back."
        )
    if prior is not None:
        # Zero if the fit had no use for a prior that adapts to the rows, or is from a file without it.
        prior = prior.conjugate if state.shrinkage is None else prior.of_strengths(state.shrinkage)
    rows, box = open_input(model, X, sample_weight, is_reread=True).on_host(), state.parameters.noise
    noise = 0.0 if box is None else model.noise or model.noise_weight_
    problem = problem_of(model, rows, kind, noise, box)
    if state.rounding_variances is not None and state.is_rounded and not is_drawn:
        problem = problem.replace(measurement=np.asarray(state.rounding_variances))
        prior = problem.prior_for(prior)
    return state, problem, prior


# --- the information ----------------------------------------------------------------------------


@one_blas_thread()
def standard_errors(model: Any, X: Any, sample_weight: Any) -> StandardErrors:
    """Return standard errors of a fitted mixture from the observed information.

    The information is minus the Hessian of the log-likelihood, without the prior, at the mixture. Errors in
    the units of the data follow by the delta method. A few passes over the rows, or more for very many
    parameters.

    They are asymptotic: valid for many rows, at a maximum of the likelihood, if the rows come from a mixture
    of this family. A fit with a prior is at the maximum of the posterior instead, where the gradient of the
    likelihood is small, but not zero. The difference matters only if a component holds few rows and is
    determined mostly by the prior: then the errors are too small. Use `bootstrap` where the likelihood is far
    from quadratic.

    Parameters
    ----------
    model : GaussianMixture
    X, sample_weight : object
        The rows that the mixture was fitted to, with their weights: one of weight 2 counts as two rows.

    Returns
    -------
    errors : StandardErrors

    Raises
    ------
    ValueError
        If the mixture is not near a maximum, or the rows do not determine its parameters; the message says
        which, and what to do. A ComponentError if that is due to one component, a ColumnError if it is due to
        a column.
    """
    state, problem, prior = _problem_of_fit(model, X, sample_weight)
    moments = row_moments(problem.rows, allows_missing=True)
    constant = np.flatnonzero(is_constant(moments.mean, moments.variances))
    if len(constant):
        fault = "is constant: its variance has no standard error. Fit without it."
        raise ColumnError(int(constant[0]), fault)
    family, whitened = problem.family, problem.whitening.transform_parameters(state.parameters)
    _check_components(problem, whitened)
    coordinates = problem.coordinates(whitened)
    information, slopes = _derivatives(problem, coordinates)
    # Along the null direction the mixture does not change, and the information is zero. One is added there,
    # so that the information of known components is the identity; this changes no standard error.
    null_direction = coordinates.null_direction / np.linalg.norm(coordinates.null_direction)
    information += np.outer(null_direction, null_direction)
    # Degrees of freedom at a limit, or that the rows do not tell, are taken as known.
    of_dof = coordinates.places_of_dof
    fixed = of_dof[information[of_dof, of_dof] <= FLAT]
    information[fixed], information[:, fixed], slopes[fixed] = 0.0, 0.0, 0.0
    information[fixed, fixed] = 1.0
    if not np.all(np.isfinite(information)):
        raise ValueError(
            "The information is not finite: a component has collapsed. Fit with the default prior, or ask "
            "for fewer components."
        )
    values, vectors = np.linalg.eigh((information + information.T) / 2)
    positions = coordinates_of_components(family, whitened.n_components, whitened.n_features)
    _check_maximum(values, vectors[:, 0], positions)
    # The prior only serves to check that this is the maximum of what was fitted: it adds no information.
    stats = problem.e_step(whitened[None])[0][0]
    adapted = None if prior is None else prior.adapted_to(family, stats)
    gradient = coordinates.gradient(coordinates.origin, whitened, stats, adapted)
    # In standard errors. At one, half a unit of log-likelihood is left to gain.
    away = float(np.linalg.norm(vectors.T @ gradient / np.sqrt(values)))
    if not away <= 1:
        raise ValueError(
            f"The mixture is {away:.2g} standard errors from the maximum on these rows. Pass the rows and "
            "the weights of the fit; if they are those, use bootstrap, which also holds where the prior "
            "decides, or fit with more iterations or a smaller tolerance."
        )
    # Each value has the variance s^t V s, of its slopes s and the inverse V of the information.
    errors = np.linalg.norm((vectors.T @ slopes) / np.sqrt(values)[:, None], axis=0)
    (r, m), shape = whitened.means.shape, np.shape(whitened.covariances)
    weights, means, covariances, noise, dof = np.split(
        errors, np.cumsum([r, r * m, int(np.prod(shape)), int(problem.has_noise)])
    )
    return StandardErrors(
        weights,
        means.reshape(r, m),
        covariances.reshape(shape),
        float(values[-1] / values[0]),
        float(noise.sum()),
        None if whitened.dof is None else dof,
    )


def _check_components(problem: Problem, whitened: WhitenedParameters) -> None:
    """Refuse components that hold less than one row, or are flat."""
    family, counts = problem.family, whitened.weights * problem.weight
    smallest = int(np.argmin(counts))
    # The local coordinates take the count of a component to be at least one row. That of a component of
    # exactly one row is one up to rounding, which grows with the number of rows, and stays far below this.
    if not counts[smallest] >= 1 - FLAT:
        # A count just below one, rounded, would be shown as 1.
        shown = min(counts[smallest], 0.99)
        fault = f"holds {shown:.2g} rows, too few to determine its parameters. Fit with fewer components."
        raise ComponentError(smallest, fault)
    if family.is_collapsed(whitened.covariances):
        matrices = family.matrices(whitened.covariances, *whitened.means.shape)
        raise ComponentError(
            int(np.argmin(np.linalg.eigvalsh(matrices)[:, 0])),
            "has collapsed: it has no variance in some direction. Fit with the default prior, or ask for "
            "fewer components.",
        )


def _check_maximum(values: Array, direction: Array, positions: IndexArray) -> None:
    """Refuse a mixture where the likelihood has a direction of positive curvature, or of none.

    Parameters
    ----------
    values : ndarray
        The eigenvalues of the information, the smallest first.
    direction : ndarray, shape (n_coordinates,)
        The eigenvector of the smallest.
    positions : ndarray of int, shape (n_components, n_moving)
        The coordinates that move each component.
    """
    largest = max(float(values[-1]), 1.0)
    if values[0] > FLAT * largest:
        return
    worst = int(np.argmax(np.linalg.norm(direction[positions], axis=1)))
    if values[0] < -FLAT * largest:
        raise ComponentError(
            worst,
            "is not at a maximum of the likelihood of these rows: the likelihood rises if it is changed. Fit "
            "the mixture to these rows and their weights with more iterations, a smaller tolerance, or "
            "another start; if this message stays, the prior decides there and not the rows: use bootstrap, "
            "or fewer components.",
        )
    raise ComponentError(
        worst,
        "has parameters that the rows do not determine: the likelihood is flat in a direction, because "
        "components are the same or one has collapsed. Ask for fewer components or a covariance type with "
        "fewer parameters, or fit with the default prior.",
    )


def _derivatives(problem: Problem, coordinates: LocalCoordinates) -> tuple[Array, Array]:
    """Return the information, and the derivatives of the parameters by the coordinates.

    Both by central differences, from the E-step at nearby mixtures, as many at a time as fit into memory:
    whatever is unknown about the rows.

    Parameters
    ----------
    problem : Problem
    coordinates : LocalCoordinates
        Around the mixture.

    Returns
    -------
    information : ndarray, shape (n_coordinates, n_coordinates)
    slopes : ndarray, shape (n_coordinates, n_parameters)
        Of weights, means, covariances, the weight of the noise, and degrees of freedom, in the units of the
        data.
    """
    n, steps, slopes = len(coordinates.origin), GRADIENT_STEP * coordinates.scales, list[Array]()
    n_at_once = max(1, CHUNK_SIZE // (coordinates.centre.n_components * problem.n_stats))
    for first in range(0, n, n_at_once):
        part = slice(first, first + n_at_once)
        tangents = np.concatenate([np.diag(steps)[part], -np.diag(steps)[part]])
        nearby = [coordinates.retract(tangent) for tangent in tangents]
        stats = problem.e_step(batch(nearby))[0]
        gradients = [coordinates.gradient(tangents[j], at, stats[j], None) for j, at in enumerate(nearby)]
        shown = problem.whitening.inverse_transform_parameters(batch(nearby))
        of_noise = [noise_weights(shown.weights)] if problem.has_noise else []
        of_dof = [] if shown.dof is None else [shown.dof]
        parts = -np.array(gradients), shown.weights, shown.means, shown.covariances, *of_noise, *of_dof
        values = np.concatenate([np.reshape(each, (len(nearby), -1)) for each in parts], axis=1)
        above, below = np.split(values, 2)
        slopes.append((above - below) / (2 * steps[part, None]))
    information, of_parameters = np.split(np.concatenate(slopes), [n], axis=1)
    return information, of_parameters


# --- the bootstrap ------------------------------------------------------------------------------


@one_blas_thread()
def bootstrap(model: Any, X: Any, sample_weight: Any, n_resamples: int, *, parametric: bool) -> Bootstrap:
    """Return mixtures fitted to resamples of the rows of a fit, each by EM from the fitted mixture.

    Components are matched one to one to those of the fitted mixture, so that the sum of two distances is
    least: of the Gaussians, relative to the fitted covariance, and of the logarithms of the weights. The
    prior is that of the fit, in the whitened coordinates of all rows: it is the same for each resample.

    Parameters
    ----------
    model : GaussianMixture
    X, sample_weight : object
        The rows that the mixture was fitted to, with their weights: a row of weight 2 is two rows.
    n_resamples : int
    parametric : bool
        Draw rows from the mixture instead of the data: for few rows, if the model can be trusted.

    Returns
    -------
    bootstrap : Bootstrap
    """
    check_integer(n_resamples, "n_resamples", least=2)
    state, problem, prior = _problem_of_fit(model, X, sample_weight, is_drawn=parametric)
    family, whitening = problem.family, problem.whitening
    rng, stop = random_generator(model.random_state), Stop(max(model.max_iter, 1), gain=max(model.tol, 1e-9))
    fitted, fits = whitening.transform_parameters(state.parameters), list[Fit]()
    n_drawn, weights = max(1, round(problem.weight)), problem.row_weights()
    weights = np.ones(problem.n_rows) if weights is None else weights
    for _ in range(n_resamples):
        if parametric:
            drawn, _ = sample(state.family, state.parameters, n_drawn, rng)
            resample = problem.replace(rows=open_rows(drawn))
        else:
            # The same rows, weighted by how often each was drawn.
            counts = rng.multinomial(n_drawn, weights / weights.sum()) * (problem.weight / n_drawn)
            rows = WeightedRows(problem.rows, counts)
            resample = problem.replace(rows=rows, n_rows=problem.n_rows, weight=problem.weight)
        fits += run(resample, [Fit(fitted, "fitted")], prior, stop)
    aligned = whitening.inverse_transform_parameters(
        batch([_align_components(fit.parameters, fitted, family) for fit in fits])
    )
    converged = np.array([fit.status is FitStatus.CONVERGED for fit in fits])
    arrays = aligned.weights, aligned.means, aligned.covariances
    return Bootstrap(*arrays, converged, problem.has_noise, aligned.dof)


def _align_components(
    parameters: WhitenedParameters, to: WhitenedParameters, family: Family
) -> WhitenedParameters:
    """Return the components in the order that matches those of another mixture best."""
    unit = family.divisor(np.ones(()), to.n_features)
    offsets = parameters.means[None, :] - to.means[:, None]
    spread = family.between(offsets, np.ones(offsets.shape[:2])) + unit * parameters.covariances
    metric = family.per_component(to.covariances)[:, None]
    # The Kullback-Leibler divergence, without the terms that depend on one of the two Gaussians only: these
    # add the same to every matching.
    apart = 0.5 * family.trace_ratio(spread, metric)
    logs, to_logs = (np.log(np.maximum(c.weights, 1e-300)) for c in (parameters, to))
    order = linear_sum_assignment(apart + np.abs(logs[None, :] - to_logs[:, None]))[1]
    return family.reordered(parameters, order)


# --- stability -------------------------------------------------------------------------------------


# A cluster has come back if this part of the union with the most similar one is common to both [hennig2007].
RECOVERED = 0.75


@dataclass(frozen=True, eq=False)
class Stability(Displayed):
    """Whether the clusters of a mixture come back in resamples of its rows.

    Attributes
    ----------
    jaccard : ndarray, shape (n_resamples, n_clusters)
        The Jaccard index of each cluster with the most similar one of each resample, among the rows of the
        resample: the rows that are in both, of those in any. NaN where none of its rows was drawn.
    """

    jaccard: Array

    @property
    def mean(self) -> Array:
        """The mean Jaccard index of each cluster: above 0.75 it is stable, below 0.5 it dissolves."""
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            return np.asarray(np.nanmean(self.jaccard, axis=0))

    @property
    def recovered(self) -> IndexArray:
        """In how many resamples each cluster comes back, with a Jaccard index of at least 0.75."""
        return np.count_nonzero(self.jaccard >= RECOVERED, axis=0)

    def interval(self, level: float = 0.95) -> Array:
        """Return the interval of each cluster that has a fraction of the indices, shape (2, n_clusters)."""
        level = check_fraction(level, "level")
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            return np.asarray(np.nanquantile(self.jaccard, [(1 - level) / 2, (1 + level) / 2], axis=0))

    def sentences(self) -> list[str]:
        """Return what a reader has to know about each cluster."""
        low, high = self.interval()
        return [
            f"Cluster {k + 1} comes back in {n} of {len(self.jaccard)} resamples (Jaccard index "
            f"{self.mean[k]:.2f}, 95% of them between {low[k]:.2f} and {high[k]:.2f})."
            for k, n in enumerate(self.recovered.tolist())
            if np.isfinite(self.mean[k])
        ]

    def _display(self) -> tuple[str, TableCells]:
        low, high = self.interval()
        columns = self.mean, low, high, self.recovered / len(self.jaccard)
        lines = [[f"{k + 1}", *(f"{each[k]:.2f}" for each in columns)] for k in range(len(low))]
        title = f"Clusters in {len(self.jaccard)} resamples: Jaccard index with the most similar cluster."
        return title, (["cluster", "Jaccard", "2.5%", "97.5%", "comes back"], lines)


@one_blas_thread()
def stability_of(model: Any, X: Any, sample_weight: Any, n_resamples: int) -> Stability:
    """Return how alike the clusters of a mixture are to those of fits to resamples [hennig2007].

    Each resample is fitted by the same search as the rows were, not from the fitted mixture, whose clusters
    would then come back because EM begins there.
    """
    check_integer(n_resamples, "n_resamples", least=2)
    rows = open_input(model, X, sample_weight, is_reread=True).on_host()
    rng = random_generator(model.random_state)
    if rows.n_rows is None or rows.is_distributed:
        raise ValueError(
            "Resamples are of rows whose number is known: pass an array, or a sample of the rows."
        )
    values, weights = fetch_rows(rows, np.arange(rows.n_rows))
    probabilities = None if weights is None else weights / weights.sum()
    n_drawn = min(rows.n_rows, SETTINGS.sample_rows)
    settings = model.get_params(deep=False)
    fresh = {"warm_start": False, "checkpoint": None, "verbose": 0}
    settings |= {name: fresh[name] for name in fresh.keys() & settings.keys()}
    groups = FittedState.of(model).clusters
    # An array has no names of columns.
    with warnings.catch_warnings(action="ignore"):
        labels = _labels(model, values, groups)
    n_clusters = len(groups or model.weights_)
    jaccard = np.full((n_resamples, n_clusters), np.nan)
    for line in jaccard:
        drawn, counts = np.unique(rng.choice(rows.n_rows, n_drawn, p=probabilities), return_counts=True)
        seed = int(rng.integers(2**31))
        again = type(model)(**{**settings, "random_state": seed})
        with warnings.catch_warnings(action="ignore"):
            again.fit(values[drawn], sample_weight=counts)
        merged = None if groups is None else again.combine(values[drawn], by="overlap").groups
        found = _labels(again, values[drawn], merged)
        table = np.zeros((n_clusters + 1, len(merged or again.weights_) + 1))
        # The last line and column are of noise.
        np.add.at(table, (labels[drawn], found), 1)
        both = table[:n_clusters, :-1]
        unions = table[:n_clusters].sum(axis=1)[:, None] + table[:, :-1].sum(axis=0) - both
        is_drawn = table[:n_clusters].sum(axis=1) > 0
        line[is_drawn] = (both / np.maximum(unions, 1)).max(axis=1)[is_drawn]
    return Stability(jaccard)


def _labels(model: Any, X: Array, groups: Sequence[Group] | None) -> Array:
    """Return the cluster of each row, -1 for noise; each component is one, unless there are groups."""
    if groups is None:
        return np.asarray(type(model).predict(model, X))
    return np.asarray(cluster_labels(cluster_shares(model.predict_proba(X), groups)))
