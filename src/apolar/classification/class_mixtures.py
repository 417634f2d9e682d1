"""The mixtures of classes: each from its own rows, or all together where they share covariances."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.estimator import GaussianMixture
from apolar.estimator.fitted import FittedState, fitted_parameters
from apolar.exceptions import CollapsedWarning, ColumnWarning
from apolar.mixture.families import family
from apolar.mixture.parameters import MixtureParameters
from apolar.selection import Selection, select

__all__ = [
    "Candidate",
    "ClassRows",
    "bic",
    "larger_class",
    "separate_candidates",
    "separate_mixtures",
    "shared_candidates",
    "shrunk_candidates",
]

# How far the covariances of the classes are moved towards their common one: coarse, as rows that are left out
# cannot tell nearby values apart.
TOWARDS_COMMON = (1.0, 0.6, 0.3, 0.1, 0.0)
# How often missing values are drawn, where covariances are shared: the sums then have their expected values
# up to a third of what sampling rows does to them.
N_DRAWS = 10


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Rows of known classes.

    Attributes
    ----------
    values : ndarray, shape (n_samples, n_features)
        NaN where missing.
    codes : ndarray of int, shape (n_samples,)
        The class of each row, from zero on.
    weights : ndarray, shape (n_samples,), or None
        Above zero.
    classes : ndarray
        The classes by code.
    seed : int
        Of the draws of missing values.
    """

    values: Array
    codes: IndexArray
    weights: Array | None
    classes: Any
    seed: int

    def counts(self) -> Array:
        """Return the sums of weights of the classes."""
        return np.bincount(self.codes, self.weights, minlength=len(self.classes)).astype(float)

    def without(self, weights: Array) -> ClassRows:
        """Return the rows less some of their weights."""
        rest = (np.ones(len(self.codes)) if self.weights is None else self.weights) - weights
        # Up to rounding, nothing is left of rows that are left out.
        kept = rest > 1e-9 * weights
        return ClassRows(self.values[kept], self.codes[kept], rest[kept], self.classes, self.seed)

    def of_class(self, code: int) -> tuple[Array, Array | None]:
        """Return the rows of a class, and their weights."""
        chosen = self.codes == code
        return self.values[chosen], None if self.weights is None else self.weights[chosen]

    def named(self, code: int) -> str:
        """Return a class in words."""
        value = self.classes[code]
        return f"Class {value.item() if isinstance(value, np.generic) else value!r}"

    @functools.cached_property
    def complete(self) -> ClassRows:
        """The rows without missing values: several draws of them, under one Gaussian for each class."""
        return _completed(self)


@dataclass(frozen=True)
class Candidate:
    """A way to describe the classes.

    Attributes
    ----------
    name : str
        In words.
    fit : callable
        Returns the mixtures of classes from their rows; ValueError or LinAlgError where these are too few.
    covariance_type : str or None
        The family, where it is shared.
    is_linear : bool
        Whether it is linear discriminant analysis: the first such candidate is what others have to surpass.
    """

    name: str
    fit: Callable[[ClassRows], tuple[GaussianMixture, ...]]
    covariance_type: str | None = None
    is_linear: bool = False


def separate_mixtures(
    rows: ClassRows,
    numbers: tuple[int, ...],
    rows_each: int,
    covariance_type: Any,
    criterion: str,
    prior: Any,
) -> tuple[tuple[Selection, ...], list[tuple[type[Warning], str]]]:
    """Return for each class the choice among mixtures of its rows alone, and the warnings of the fits.

    No more components are tried than there are `rows_each` of the rows; one always is.
    """
    selections: list[Selection] = []
    notes: list[tuple[type[Warning], str]] = []
    for code, count in enumerate(rows.counts()):
        values, weights = rows.of_class(code)
        if count < 2 * (1 - 1e-12) or _are_equal(values):
            raise ValueError(
                f"{rows.named(code)} has no two rows that differ, and a mixture of its own needs them: leave "
                "it out, or use shared=True, where the classes share a covariance."
            )
        most = max(1, int(count * (1 + 1e-12)) // rows_each)
        tried = tuple(number for number in numbers if number <= most) or (most,)
        settings = {} if prior is None else {"prior": prior}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                selection = select(
                    values,
                    tried,
                    covariance_type,
                    criterion,
                    sample_weight=weights,
                    random_state=rows.seed,
                    **settings,
                )
            except ValueError as error:
                raise ValueError(
                    f"{rows.named(code)}: {error} If its rows are too few, leave it out, or use shared=True, "
                    "where the classes share a covariance."
                ) from error
        # A column that is constant in one class can tell it from the others.
        notes += [
            (warning.category, f"{rows.named(code)}: {warning.message}")
            for warning in caught
            if not issubclass(warning.category, ColumnWarning)
        ]
        selections.append(selection)
    return tuple(selections), notes


def separate_candidates(rows: ClassRows, selections: tuple[Selection, ...]) -> list[Candidate]:
    """Return mixtures of each class with at most one component, at most two, and so on.

    Up to each number, the criterion of the selections chooses for each class.
    """
    numbers = sorted({row.n_components for selection in selections for row in selection.table})
    found: dict[tuple[tuple[str, int], ...], Candidate] = {}
    for most in numbers:
        keys = []
        for selection in selections:
            allowed = [row for row in selection.table if row.is_fitted and row.n_components <= most]
            if allowed:
                best = min(allowed, key=lambda row: getattr(row, selection.criterion))
                keys.append((best.covariance_type, best.n_components))
        if len(keys) == len(selections):
            models = tuple(selection.models[key] for selection, key in zip(selections, keys, strict=True))
            words = ", ".join(f"{number} {kind}" for kind, number in keys)
            found.setdefault(
                tuple(keys),
                Candidate(
                    f"a mixture for each class ({words})", functools.partial(_fitted_again, rows, models)
                ),
            )
    return list(found.values())


def _fitted_again(
    every: ClassRows, models: tuple[GaussianMixture, ...], rows: ClassRows
) -> tuple[GaussianMixture, ...]:
    """Return mixtures of the same families and numbers, fitted to some of the rows."""
    if rows is every:
        return models
    fitted = []
    for code, model in enumerate(models):
        values, weights = rows.of_class(code)
        again = GaussianMixture(
            model.n_components,
            covariance_type=model.covariance_type,
            prior=model.prior,
            init_params=model.predict(values),
            random_state=rows.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted.append(again.fit(values, sample_weight=weights))
    return tuple(fitted)


def _are_equal(values: Array) -> bool:
    """Return whether no observed value differs from the others of its column."""
    return all(len(np.unique(column[~np.isnan(column)])) < 2 for column in values.T)


def shared_candidates(kinds: Iterable[str], prior: Any) -> list[Candidate]:
    """Return one Gaussian for each class, of covariances of each family [bensmail1996].

    The covariances are those of an M-step whose responsibilities are the classes: a family says what they
    share.
    """
    return [
        Candidate(
            f"one Gaussian for each class ({kind})",
            functools.partial(_of_family, kind=kind, prior=prior),
            kind,
            family(kind).name == "tied",
        )
        for kind in kinds
    ]


def shrunk_candidates(rows: ClassRows, own: bool = True) -> list[Candidate]:
    """Return one Gaussian for each class, of covariances between own and common, and shrunk to a diagonal.

    They are those of regularised discriminant analysis [friedman1989], with the diagonal of the common
    covariance as the target, so that the units of columns do not matter, and with the strength of
    [ledoit2004], which is not to be chosen.

    Parameters
    ----------
    rows : ClassRows
        All rows: one more row of the variances of their columns keeps a column that is constant within the
        classes from being singular.
    own : bool, default=True
        Whether to include covariances that differ between the classes.

    Returns
    -------
    candidates : list of Candidate
        The simplest first.
    """
    variances = _moments(rows)[1]
    candidates = []
    for common in TOWARDS_COMMON if own else TOWARDS_COMMON[:1]:
        kind = "tied" if common == 1 else "full"
        steps = f"{common:g} towards the common one and " if 0 < common < 1 else ""
        candidates.append(
            Candidate(
                f"one Gaussian for each class ({kind}, shrunk {steps}towards a diagonal)",
                functools.partial(_shrunk, common=common, variances=variances),
                kind,
                common == 1,
            )
        )
    return candidates


def _shrunk(rows: ClassRows, common: float, variances: Array) -> tuple[GaussianMixture, ...]:
    """Return one Gaussian for each class, of covariances moved towards the common one and its diagonal."""
    complete, counts = rows.complete, rows.counts()
    weights = np.ones(len(complete.values)) if complete.weights is None else complete.weights
    means, scatters = [], []
    centred = np.empty_like(complete.values)
    for code in range(len(counts)):
        chosen = complete.codes == code
        means.append(np.average(complete.values[chosen], axis=0, weights=weights[chosen]))
        centred[chosen] = complete.values[chosen] - means[-1]
        scatters.append((centred[chosen] * weights[chosen, None]).T @ centred[chosen])
    pooled = np.sum(scatters, axis=0)
    n_free = max(counts.sum() - len(counts), 0.0)
    target = (np.diagonal(pooled) + variances) / (n_free + 1)
    diagonal = _ledoit_wolf(centred / np.sqrt(target), weights)
    mixtures = []
    for mean, scatter, count in zip(means, scatters, counts, strict=True):
        divisor = (1 - common) * max(count - 1, 0.0) + common * n_free
        mixed = ((1 - common) * scatter + common * pooled) / max(divisor, 1.0)
        covariance = (1 - diagonal) * mixed + diagonal * np.diag(target)
        mixtures.append(_gaussian("full", mean, covariance[None], count))
    return tuple(mixtures)


def _ledoit_wolf(centred: Array, weights: Array) -> float:
    """Return how far to shrink the covariance of centred rows towards the identity [ledoit2004]."""
    n_rows, n_features = weights.sum(), centred.shape[1]
    covariance = (centred * weights[:, None]).T @ centred / n_rows
    distance = np.sum((covariance - np.eye(n_features) * np.trace(covariance) / n_features) ** 2)
    # The variance of the entries of the covariance, summed.
    error = (weights @ np.sum(centred**2, axis=1) ** 2 / n_rows - np.sum(covariance**2)) / n_rows
    return float(error / distance) if 0 <= error < distance else 1.0


def larger_class(rows: ClassRows) -> tuple[GaussianMixture, ...]:
    """Return the same Gaussian for each class: a row then goes to the most probable class."""
    mean, variances = _moments(rows)
    return tuple(_gaussian("diag", mean, variances[None], count) for count in rows.counts())


def _moments(rows: ClassRows) -> tuple[Array, Array]:
    """Return the means and variances of the columns over all rows."""
    complete = rows.complete
    mean = np.average(complete.values, axis=0, weights=complete.weights)
    return mean, np.average((complete.values - mean) ** 2, axis=0, weights=complete.weights)


def bic(rows: ClassRows, kind: str, mixtures: tuple[GaussianMixture, ...]) -> float:
    """Return the BIC of the rows with their classes, under one Gaussian for each; lower is better."""
    counts = rows.counts()
    log_likelihood = counts @ np.log(counts / counts.sum())
    for code, mixture in enumerate(mixtures):
        values, weights = rows.of_class(code)
        densities = mixture.score_samples(values)
        log_likelihood += densities.sum() if weights is None else weights @ densities
    n_parameters = family(kind).n_parameters(len(counts), rows.values.shape[1])
    return float(n_parameters * np.log(counts.sum()) - 2 * log_likelihood)


def _of_family(rows: ClassRows, kind: str, prior: Any) -> tuple[GaussianMixture, ...]:
    """Return one Gaussian for each class, of covariances of a family."""
    complete, counts = rows.complete, rows.counts()
    model = GaussianMixture(
        len(counts), covariance_type=kind, init_params=complete.codes, prior=prior, max_iter=0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(complete.values, sample_weight=complete.weights)
    for warning in caught:
        if issubclass(warning.category, CollapsedWarning):
            raise ValueError(str(warning.message))
    known = family(kind)
    parameters = fitted_parameters(model)
    matrices = known.per_component(parameters.covariances)
    return tuple(
        _gaussian(known.untied.name, mean, matrices[code % len(matrices)][None], count)
        for code, (mean, count) in enumerate(zip(parameters.means, counts, strict=True))
    )


def _gaussian(kind: str, mean: Array, covariance: Array, count: float) -> GaussianMixture:
    """Return a fitted mixture of one component."""
    mixture = GaussianMixture(1, covariance_type=kind)
    FittedState(
        family(kind),
        MixtureParameters(np.ones(1), mean[None], covariance),
        n_samples_seen=float(count),
        converged=True,
        n_iter=0,
        start="classes",
        message="The M-step from the classes.",
    ).set_on(mixture)
    return mixture


def _completed(rows: ClassRows) -> ClassRows:
    """Return rows without missing values: several draws of them, under one Gaussian for each class."""
    if not np.isnan(rows.values).any():
        return rows
    values, codes, weights = [], [], []
    for code in range(len(rows.classes)):
        of_class, of_rows = rows.of_class(code)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = GaussianMixture(1, prior="conjugate", random_state=rows.seed).fit(
                of_class, sample_weight=of_rows
            )
        drawn = model.impute(of_class, n_draws=N_DRAWS)
        values.append(drawn.reshape(-1, of_class.shape[1]))
        codes.append(np.full(len(values[-1]), code))
        each = np.ones(len(of_class)) if of_rows is None else of_rows
        weights.append(np.tile(each, N_DRAWS) / N_DRAWS)
    joined = np.concatenate(values), np.concatenate(codes), np.concatenate(weights)
    return ClassRows(*joined, rows.classes, rows.seed)
