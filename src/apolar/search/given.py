"""The start that the parameters of an estimator ask for: a name, a callable, or an explicit start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import numeric_array
from apolar._core.settings import SETTINGS
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.mixture import SphericalMixture
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters, canonical_order
from apolar.mixture.prior import Prior
from apolar.search.candidates import start_candidates
from apolar.search.factor_numbers import mixture_of_shares
from apolar.search.moment_starts import whitened_mixture
from apolar.search.search import Candidates, SearchReport

# The least weight of a component of given parameters, in rows.
MIN_ROWS = 1e-3
# How far the sum of weights_init, or of the responsibilities of a row, may be from one.
SUM_ROUNDING = 1e-6


def from_assignment(
    data: Problem,
    n_components: int,
    prior: Prior | None,
    assignment: Any,
    name: str,
    has_weight: Array | None,
    alternative: str,
) -> WhitenedParameters:
    """Return the M-step from labels or responsibilities.

    Parameters
    ----------
    data : Problem
    n_components : int
    prior : Prior or None
    assignment : array_like, shape (n_rows,) or (n_rows, n_components)
        Labels of any type, or responsibilities. With a noise component, rows of label -1 are noise, and the
        responsibilities of a row may add up to less than one.
    name : str
        How messages refer to the assignment.
    has_weight : ndarray of bool or None
        Which of the user's rows are in the data, if not all are.
    alternative : str
        What else could have been given, for messages.

    Returns
    -------
    parameters : WhitenedParameters
        In the order of the sorted labels, or of the columns.
    """
    if data.rows.is_distributed:
        raise ValueError(
            f"{name}: labels and responsibilities are for rows in memory, and those of Dask stay where they "
            "are. Give means_init, or the name of a start."
        )
    array, has_noise = np.asarray(assignment), data.has_noise
    n_rows = data.n_rows if has_weight is None else len(has_weight)
    if array.ndim not in (1, 2) or len(array) != n_rows:
        got = f"shape {array.shape}" if array.ndim else type(assignment).__name__
        raise ValueError(
            f"{name} must be labels of shape ({n_rows},), responsibilities of shape "
            f"({n_rows}, {n_components}), or {alternative}; got {got}."
        )
    if has_weight is not None:
        array = array[has_weight]
    if array.ndim == 1:
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            raise ValueError(f"{name} has labels that are NaN or infinite: give every row one.")
        distinct, labels = np.unique(array, return_inverse=True)
        if has_noise and array.dtype.kind in "if" and distinct[0] == -1:
            # Noise: the first of the sorted labels; those of the others count from it.
            return _from_labels(data, n_components, prior, labels - 1, distinct[1:], name)
        return _from_labels(data, n_components, prior, labels, distinct, name)
    responsibilities = numeric_array(array, name)
    if array.shape[1] != n_components or np.iscomplexobj(responsibilities) or np.any(responsibilities < 0):
        raise ValueError(
            f"{name} must hold {n_components} responsibilities per row, none negative; got shape "
            f"{array.shape}."
        )
    sums = responsibilities.sum(axis=1)
    if not np.allclose(np.maximum(sums, 1) if has_noise else sums, 1, atol=SUM_ROUNDING):
        most = "at most to one" if has_noise else "to one"
        raise ValueError(f"The responsibilities of {name} must add up {most} per row.")
    weights = data.row_weights()
    if np.any(
        (responsibilities if weights is None else responsibilities * weights[:, None]).sum(axis=0) <= 0
    ):
        raise ValueError(f"{name} leaves components without rows: give each of them some.")
    return mixture_of_shares(data.imputed(), responsibilities.T, prior)


def _from_labels(
    data: Problem, n_components: int, prior: Prior | None, labels: Array, distinct: Array, name: str
) -> WhitenedParameters:
    """Return the M-step from labels 0 to n_components - 1, and -1 for noise."""
    if len(distinct) != n_components:
        raise ValueError(f"{name} has {len(distinct)} different labels; n_components is {n_components}.")
    if np.any(labels < 0) or data.family.has_factors:
        return mixture_of_shares(data.imputed(), labels[None] == np.arange(n_components)[:, None], prior)
    return data.m_step(data.imputed().hard_stats(labels, n_components), prior)


def checked_weights(weights: Any, n_components: int, name: str = "weights_init") -> Array:
    """Return the checked weights, with sum one; `name` is what the user calls them."""
    array = _given_array(weights, name, (n_components,), "weights", "one number for each component")
    if np.any(array < 0) or np.any(array > 1 + SUM_ROUNDING):
        raise ValueError(
            f"The parameter 'weights' should be in the range [0, 1], but got max value {array.max():.5f}, "
            f"min value {array.min():.5f}. Divide {name} by its sum."
        )
    if not np.isclose(array.sum(), 1, rtol=0, atol=SUM_ROUNDING):
        raise ValueError(
            f"The parameter 'weights' should be normalized, but got sum(weights) = {array.sum():.5f}. Divide "
            f"{name} by its sum."
        )
    return array / array.sum()


def checked_precisions(precisions: Any, family: Family, n_components: int, n_features: int) -> Array:
    """Return the covariances whose inverses are the checked precisions, in the shape of a family."""
    name, shape = f"{family.name} precision", family.covariance_shape(n_components, n_features)
    remedy = f"that shape for {family.name!r} covariances"
    array = _given_array(precisions, "precisions_init", shape, name, remedy)
    covariances = family.from_precisions(array, name)
    if not np.all(np.isfinite(covariances)):
        raise ValueError(
            "precisions_init are so small that the covariances overflow. Scale the columns of X."
        )
    return covariances


def _given_array(value: Any, name: str, shape: tuple[int, ...], what: str, remedy: str) -> Array:
    """Return an array of real numbers of a shape; messages begin as scikit-learn's, which scripts match."""
    array = numeric_array(value, name)
    if np.iscomplexobj(array):
        raise TypeError(f"{name} must hold real numbers; it is complex.")
    if array.shape != shape:
        raise ValueError(
            f"The parameter '{what}' should have the shape of {shape}, but got {array.shape}. "
            f"Give {name} {remedy}."
        )
    return array


def _has_given_parameters(settings: Any) -> bool:
    """Return whether the user gave weights, means or precisions to start from."""
    names = ("weights_init", "means_init", "precisions_init")
    return any(getattr(settings, name) is not None for name in names)


def has_given_order(settings: Any, data: Problem) -> bool:
    """Return whether components are in an order that the user gave: with a start, or with what is known."""
    is_drawn = isinstance(settings.init_params, str) or callable(settings.init_params)
    names_components = data.known is not None and data.known.names_components
    return names_components or not is_drawn or _has_given_parameters(settings)


def requested_candidates(
    settings: Any,
    data: Problem,
    X: Any,
    prior: Prior | None,
    has_weight: Array | None,
    report: SearchReport | None = None,
) -> Candidates:
    """Return the source of the candidates that the parameters of an estimator ask for.

    Parameters
    ----------
    settings : GaussianMixture
        Only its parameters n_components, n_init, init_params, weights_init, means_init and precisions_init
        are read.
    data : Problem
    X : object
        The rows as the user gave them: the argument of a callable.
    prior : Prior or None
    has_weight : ndarray of bool or None
        Which rows of X are in the data, if not all are.
    report : callable, optional
        Told about the work of a search.

    Returns
    -------
    candidates : Candidates
    """
    init_params = settings.init_params
    # As Python's integer: in small integers of NumPy, products would overflow.
    n_components = int(settings.n_components)

    def assigned(assignment: Any, name: str, alternative: str) -> WhitenedParameters:
        return from_assignment(data, n_components, prior, assignment, name, has_weight, alternative)

    def drawn(rng: np.random.Generator) -> list[Fit]:
        if isinstance(init_params, str):
            return start_candidates(init_params, data, n_components, prior, rng, report)
        if not callable(init_params):
            parameters = assigned(init_params, "init_params", "the name of a start")
            return [Fit(parameters, "given", is_from_all_rows=True)]
        answer = init_params(X, n_components, np.random.RandomState(rng.integers(2**31)))
        name = getattr(init_params, "__name__", "callable")
        if isinstance(answer, SphericalMixture) and answer.covariance_type == "spherical":
            shape, expected = answer.means.shape, (n_components, data.n_features)
            if shape != expected:
                raise ValueError(
                    f"What init_params returned has means of shape {shape}; n_components and X ask for "
                    f"{expected}."
                )
            return [Fit(whitened_mixture(data, answer, np.ones(data.n_features)), name)]
        if hasattr(answer, "predict_proba"):
            answer = answer.predict_proba(X)
        return [Fit(assigned(answer, "What init_params returned", "a mixture"), name)]

    if _has_given_parameters(settings):
        return Candidates(lambda rng: [_from_parameters(settings, data, prior, drawn, rng)])
    is_drawn = isinstance(init_params, str) or callable(init_params)
    return Candidates(drawn, settings.n_init if is_drawn else 1, has_given_order(settings, data))


def _of_nearest(data: Problem, means: Array, prior: Prior) -> WhitenedParameters:
    """Return the mixture of the rows nearest to each mean."""
    if not data.family.has_factors:
        return data.family.m_step(data.nearest_stats(means), prior)
    sample = data.subsample(SETTINGS.sample_rows, np.random.default_rng(0))
    rows = sample.whitened_rows()
    nearest = (0.5 * np.einsum("ij,ij->i", means, means)[:, None] - means @ rows).argmin(axis=0)
    return mixture_of_shares(sample, nearest == np.arange(len(means))[:, None], prior)


def _from_parameters(
    settings: Any,
    data: Problem,
    prior: Prior | None,
    drawn: Callable[[np.random.Generator], list[Fit]],
    rng: np.random.Generator,
) -> Fit:
    """Return the start of given weights, means or precisions; those not given come from the rows."""
    family, whitening, n_features = data.family, data.whitening, data.n_features
    n_components = int(settings.n_components)
    weights = means = covariances = None
    if settings.weights_init is not None:
        weights = checked_weights(settings.weights_init, n_components)
    if settings.means_init is not None:
        shape, remedy = (n_components, n_features), "one row for each component, in the columns of X"
        means = whitening.transform(_given_array(settings.means_init, "means_init", shape, "means", remedy))
    if settings.precisions_init is not None:
        covariances = checked_precisions(settings.precisions_init, family, n_components, n_features)
        spread = MixtureParameters(np.ones(n_components), np.zeros((n_components, n_features)), covariances)
        covariances = whitening.transform_parameters(spread).covariances
    if weights is None or means is None or covariances is None:
        if means is not None:
            # From the rows that are nearest to the means.
            estimated = _of_nearest(data.imputed(), means, Prior() if prior is None else prior)
        else:
            estimated = drawn(rng)[0].parameters
            if isinstance(settings.init_params, str):
                # Given weights or precisions belong to components in canonical order.
                in_data_units = whitening.inverse_transform(estimated.means)
                estimated = family.reordered(estimated, canonical_order(estimated.weights, in_data_units))
        weights = estimated.weights if weights is None else weights
        means = estimated.means if means is None else means
        covariances = estimated.covariances if covariances is None else covariances
    # A weight of zero would stay so.
    weights = np.maximum(weights, MIN_ROWS / data.weight)
    weights = weights / weights.sum()
    parameters = WhitenedParameters(weights, means, family.projected(covariances, weights))
    return Fit(parameters, "given", is_from_all_rows=True)
