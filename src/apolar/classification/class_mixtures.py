"""The mixtures of classes: each from its own rows, or all together where they share covariances."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.estimator import GaussianMixture
from apolar.estimator.attributes import fitted_parameters, set_parameters
from apolar.exceptions import CollapsedWarning, ColumnWarning
from apolar.mixture.families import family
from apolar.mixture.parameters import MixtureParameters
from apolar.selection import Selection, default_kinds, select

__all__ = ["ClassRows", "separate_mixtures", "shared_mixtures"]

# A component of fewer rows may be due to chance, and one of few rows for its columns is flat, so that the
# likelihood rewards it, and new rows are far from it: no more components than rows allow are tried.
ROWS_PER_COMPONENT, ROWS_PER_COLUMN = 5, 2
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
    """

    values: Array
    codes: IndexArray
    weights: Array | None
    classes: Any

    def counts(self) -> Array:
        """Return the sums of weights of the classes."""
        return np.bincount(self.codes, self.weights, minlength=len(self.classes)).astype(float)

    def of_class(self, code: int) -> tuple[Array, Array | None]:
        """Return the rows of a class, and their weights."""
        chosen = self.codes == code
        return self.values[chosen], None if self.weights is None else self.weights[chosen]

    def named(self, code: int) -> str:
        """Return a class in words."""
        value = self.classes[code]
        return f"Class {value.item() if isinstance(value, np.generic) else value!r}"


def separate_mixtures(
    rows: ClassRows,
    n_components: Iterable[int],
    covariance_type: Any,
    criterion: str,
    prior: Any,
    random_state: int,
) -> tuple[Selection, ...]:
    """Return for each class the choice among mixtures that are fitted to its rows alone."""
    numbers = tuple(n_components)
    selections = []
    for code, count in enumerate(rows.counts()):
        values, weights = rows.of_class(code)
        if count < 2 * (1 - 1e-12) or _are_equal(values):
            raise ValueError(
                f"{rows.named(code)} has no two rows that differ, and a mixture of its own needs them: leave "
                "it out, or use shared=True, where the classes share a covariance."
            )
        rows_each = max(ROWS_PER_COMPONENT, ROWS_PER_COLUMN * values.shape[1])
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
                    random_state=random_state,
                    **settings,
                )
            except ValueError as error:
                raise ValueError(
                    f"{rows.named(code)}: {error} If its rows are too few, leave it out, or use shared=True, "
                    "where the classes share a covariance."
                ) from error
        for warning in caught:
            # A column that is constant in one class can tell it from the others.
            if not issubclass(warning.category, ColumnWarning):
                warnings.warn(f"{rows.named(code)}: {warning.message}", warning.category, stacklevel=4)
        selections.append(selection)
    return tuple(selections)


def _are_equal(values: Array) -> bool:
    """Return whether no observed value differs from the others of its column."""
    return all(len(np.unique(column[~np.isnan(column)])) < 2 for column in values.T)


def shared_mixtures(
    rows: ClassRows, covariance_type: Iterable[str] | None, prior: Any, random_state: int
) -> tuple[tuple[GaussianMixture, ...], str, dict[str, float]]:
    """Return one Gaussian for each class, of the family with the lowest BIC [bensmail1996].

    The covariances are those of an M-step whose responsibilities are the classes: a family says what they
    share.

    Returns
    -------
    mixtures : tuple of GaussianMixture
    covariance_type : str
        The family.
    bics : dict of str to float
        Of the rows with their classes, by family; lower is better. Families whose covariances would be
        singular are not there.
    """
    n_features = rows.values.shape[1]
    kinds = default_kinds(n_features) if covariance_type is None else tuple(covariance_type)
    counts = rows.counts()
    complete = _completed(rows, random_state)
    log_priors = counts @ np.log(counts / counts.sum())
    made: dict[str, tuple[GaussianMixture, ...]] = {}
    bics: dict[str, float] = {}
    problem = ""
    for kind in kinds:
        try:
            mixtures = _of_family(complete, kind, prior, counts)
        except (ValueError, np.linalg.LinAlgError) as error:
            problem = problem or str(error)
            continue
        log_likelihood = log_priors
        for code, mixture in enumerate(mixtures):
            values, weights = rows.of_class(code)
            densities = mixture.score_samples(values)
            log_likelihood += densities.sum() if weights is None else weights @ densities
        n_parameters = family(kind).n_parameters(len(counts), n_features)
        made[kind], bics[kind] = mixtures, n_parameters * np.log(counts.sum()) - 2 * float(log_likelihood)
    if not made:
        least = int(np.argmin(counts))
        raise ValueError(
            f"No family could be fitted to the classes: {problem} {rows.named(least)} has the fewest rows, "
            f"{counts[least]:g}: leave it out, or try covariance_type='tied' or 'tied_diag'."
        )
    best = min(bics, key=lambda kind: bics[kind])
    return made[best], best, bics


def _of_family(rows: ClassRows, kind: str, prior: Any, counts: Array) -> tuple[GaussianMixture, ...]:
    """Return one Gaussian for each class, of covariances of a family."""
    model = GaussianMixture(
        len(counts), covariance_type=kind, init_params=rows.codes, prior=prior, max_iter=0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows.values, sample_weight=rows.weights)
    for warning in caught:
        if issubclass(warning.category, CollapsedWarning):
            raise ValueError(str(warning.message))
    known = family(kind)
    parameters = fitted_parameters(model)
    alone = known.untied
    matrices = known.per_component(parameters.covariances)
    mixtures = []
    for code, mean in enumerate(parameters.means):
        mixture = GaussianMixture(1, covariance_type=alone.name, prior=prior)
        covariance = matrices[code % len(matrices)][None]
        set_parameters(mixture, MixtureParameters(np.ones(1), mean[None], covariance))
        mixture.n_features_in_ = model.n_features_in_
        mixture.n_samples_seen_ = float(counts[code])
        mixture.converged_, mixture.n_iter_, mixture.start_ = True, 0, "classes"
        mixture.message_ = "The M-step from the classes."
        mixtures.append(mixture)
    return tuple(mixtures)


def _completed(rows: ClassRows, random_state: int) -> ClassRows:
    """Return rows without missing values: several draws of them, under one Gaussian for each class."""
    if not np.isnan(rows.values).any():
        return rows
    values, codes, weights = [], [], []
    for code in range(len(rows.classes)):
        of_class, of_rows = rows.of_class(code)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = GaussianMixture(1, prior="conjugate", random_state=random_state).fit(
                of_class, sample_weight=of_rows
            )
        drawn = model.impute(of_class, n_draws=N_DRAWS)
        values.append(drawn.reshape(-1, of_class.shape[1]))
        codes.append(np.full(len(values[-1]), code))
        each = np.ones(len(of_class)) if of_rows is None else of_rows
        weights.append(np.tile(each, N_DRAWS) / N_DRAWS)
    return ClassRows(np.concatenate(values), np.concatenate(codes), np.concatenate(weights), rows.classes)
