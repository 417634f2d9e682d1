"""What describes the classes: the candidates that the parameters allow, and the choice between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.classification.class_mixtures import (
    Candidate,
    ClassRows,
    bic,
    larger_class,
    separate_candidates,
    separate_mixtures,
    shared_candidates,
    shrunk_candidates,
)
from apolar.classification.prediction import N_FOLDS, Choice, best_prediction
from apolar.estimator import GaussianMixture
from apolar.exceptions import FewRowsWarning
from apolar.mixture.families import family
from apolar.selection import Selection, default_kinds

__all__ = ["Description", "Settings", "described"]

# The numbers of components that are tried in each class, as by mclust's MclustDA, if none are given.
AUTO = tuple(range(1, 6))

Notes = list[tuple[type[Warning], str]]
Fits = dict[str, tuple[GaussianMixture, ...]]


@dataclass(frozen=True)
class Settings:
    """The parameters of the classifier, checked.

    Attributes
    ----------
    numbers : tuple of int
        The numbers of components to try in each class; empty if none were given.
    covariance_type : str, iterable of str or None
    shared : bool or None
    criterion : str
    prior : str, Prior or None
    """

    numbers: tuple[int, ...]
    covariance_type: str | Iterable[str] | None
    shared: bool | None
    criterion: str
    prior: Any

    @property
    def by_prediction(self) -> bool:
        """Whether candidates are compared by what they predict."""
        return self.criterion == "brier_score"

    @property
    def tries_shared(self) -> bool:
        """Whether each class may be one Gaussian of covariances that share what a family says."""
        return bool(self.shared) or (self.shared is None and self.by_prediction and not self.numbers)

    def rows_each(self, n_features: int) -> int:
        """Return how many rows of a class a component has at least, on average.

        Where no number is given, each part that is left out can have a row of it, and its covariance can be
        regular.
        """
        return 1 if self.numbers else max(N_FOLDS, n_features + 1)

    def kinds(self, n_features: int) -> tuple[str, ...]:
        """Return the families to try."""
        if self.covariance_type is None:
            return default_kinds(n_features)
        given = self.covariance_type
        return (given,) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True, eq=False)
class Description:
    """The mixtures of the classes, and how they were chosen.

    Attributes
    ----------
    mixtures : tuple of GaussianMixture
    message : str
    notes : list of (warning class, str)
    covariance_type : str or None
        The family that the classes share.
    losses, bics : dict of str to float
        What was compared; empty where it was not.
    selections : tuple of Selection
        Of mixtures of each class; empty without.
    """

    mixtures: tuple[GaussianMixture, ...]
    message: str
    notes: Notes = field(default_factory=list)
    covariance_type: str | None = None
    losses: dict[str, float] = field(default_factory=dict)
    bics: dict[str, float] = field(default_factory=dict)
    selections: tuple[Selection, ...] = ()


def described(rows: ClassRows, settings: Settings, class_prior: Array) -> Description:
    """Return the mixtures of the classes: what was asked for, and the best of what was not."""
    fits: Fits = {}
    notes: dict[str, Notes] = {}
    shared: list[Candidate] = []
    if settings.tries_shared:
        shared, notes = _shared(rows, settings, fits)
    if settings.shared and not settings.by_prediction and not notes:
        return _of_lowest_bic(rows, shared, fits)
    selections: tuple[Selection, ...] = ()
    own: list[Candidate] = []
    if not settings.shared:
        try:
            selections, of_selections = separate_mixtures(
                rows,
                settings.numbers or AUTO,
                settings.rows_each(rows.values.shape[1]),
                settings.covariance_type,
                "bic" if settings.by_prediction else settings.criterion,
                settings.prior,
            )
        except ValueError:
            if not shared:
                raise
        else:
            own = separate_candidates(rows, selections)
            # By another criterion, the choice is that of the most components.
            own = own if settings.by_prediction else own[-1:]
            fits |= _fits(rows, own)[0]
            notes |= {one.name: of_selections for one in own}
    candidates = shared + own
    is_any = settings.tries_shared and settings.covariance_type is None
    if len(candidates) == 1:
        choice = Choice(candidates[0], {}, f"{candidates[0].name}.")
    else:
        choice = best_prediction(rows, candidates, class_prior, or_none=is_any)
    best = choice.best
    if best is None:
        advice = "Every row is given that class: more rows or other columns are needed."
        of_best: Notes = [(FewRowsWarning, f"{choice.reason} {advice}")]
        mixtures, kind = larger_class(rows), None
    else:
        mixtures, kind, of_best = fits[best.name], best.covariance_type, notes.get(best.name, [])
    return Description(mixtures, choice.reason, of_best, kind, choice.losses, selections=selections)


def _shared(rows: ClassRows, settings: Settings, fits: Fits) -> tuple[list[Candidate], dict[str, Notes]]:
    """Return what describes each class by one Gaussian, the simplest first, and warnings by name.

    Where covariances of the given families are singular, these are shrunk ones. The mixtures are added to
    `fits`.
    """
    kinds = settings.kinds(rows.values.shape[1])
    names = {family(kind).name for kind in kinds}
    # With the default prior these are shrunk as strongly as rows left out say, not as the evidence does.
    shrinking = names & {"full", "tied"} if settings.prior == "default" and settings.by_prediction else set()
    shrunk: list[Candidate] = []
    if shrinking or (settings.by_prediction and settings.covariance_type is None):
        shrunk = shrunk_candidates(rows, own=shrinking != {"tied"})
    left = [kind for kind in kinds if family(kind).name not in shrinking]
    candidates = shrunk + shared_candidates(left, settings.prior)
    found, problem = _fits(rows, candidates)
    notes: dict[str, Notes] = {}
    if not found:
        candidates = shrunk_candidates(rows, own=not all(family(kind).shares_covariance for kind in kinds))
        found, another = _fits(rows, candidates)
        if not found:
            raise ValueError(f"No family could be fitted to the classes: {problem} {another}")
        counts = rows.counts()
        least = int(np.argmin(counts))
        note = (
            f"The classes have too few rows for covariance_type={settings.covariance_type!r}, "
            f"{rows.named(least)} only {counts[least]:g}: without shrinkage, covariances are singular. Used "
            "instead: {}. Use prior='default' to ask for shrinkage."
        )
        notes = {one.name: [(FewRowsWarning, note.format(one.name))] for one in candidates}
    fits |= found
    return [one for one in candidates if one.name in found], notes


def _fits(rows: ClassRows, candidates: list[Candidate]) -> tuple[Fits, str]:
    """Return the mixtures of candidates that can be fitted, by name, and the first problem with others."""
    fits, problem = {}, ""
    for one in candidates:
        try:
            fits[one.name] = one.fit(rows)
        except (ValueError, np.linalg.LinAlgError) as error:
            problem = problem or str(error)
    return fits, problem


def _of_lowest_bic(rows: ClassRows, candidates: list[Candidate], fits: Fits) -> Description:
    """Return the family that the classes share with the lowest BIC."""
    bics = {
        str(one.covariance_type): bic(rows, str(one.covariance_type), fits[one.name]) for one in candidates
    }
    best = min(candidates, key=lambda one: bics[str(one.covariance_type)])
    message = f"{best.name}: the lowest BIC of {len(bics)}."
    return Description(fits[best.name], message, covariance_type=best.covariance_type, bics=bics)
