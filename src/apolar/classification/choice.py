"""What describes the classes: the candidates that the parameters allow, and the choice between them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import softmax

from apolar._core.arrays import Array, IndexArray
from apolar.estimator import GaussianMixture
from apolar.estimator.fitted import FittedState
from apolar.exceptions import (
    ApolarWarning,
    CollapsedWarning,
    ColumnWarning,
    FarRowsWarning,
    FewRowsWarning,
)
from apolar.mixture.families import family
from apolar.mixture.parameters import MixtureParameters
from apolar.scores import lower_is_better_bic
from apolar.selection import Selection, default_kinds, select

__all__ = ["ClassRows", "choose_mixtures", "log_joint"]

# The numbers of components that are tried in each class, as by mclust's MclustDA, if none are given.
AUTO = tuple(range(1, 6))
# The number of parts of the rows, each of which is left out once.
N_FOLDS = 5
# How far covariances are moved towards a common one, and towards its diagonal: coarse, as rows that are left
# out cannot tell nearby values apart.
TOWARDS_COMMON = (1.0, 0.6, 0.3, 0.1, 0.0)
TOWARDS_DIAGONAL = (1.0, 0.6, 0.3, 0.1, 0.03, 0.01)
# Rows of unknown class count together for at most this part of those of known class, and the steps of EM that
# assign them: see benchmarks/results/few_labels.md.
UNLABELLED_SHARE, N_STEPS = 0.5, 20
# How often missing values are drawn, where covariances are shared: the sums then have their expected values
# up to a third of what sampling rows does to them.
N_COMPLETIONS = 10

Mixtures = tuple[GaussianMixture, ...]
"""One for each class."""


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Rows of known classes.

    Attributes
    ----------
    values : ndarray, shape (n_samples, n_features)
        NaN where missing.
    codes : ndarray of int, shape (n_samples,)
        The class of each row, from zero on.
    weights : ndarray, shape (n_samples,)
        Above zero.
    classes : ndarray
        The classes by code.
    seed : int
        For the draws of missing values.
    unlabelled : tuple of ndarray
        Rows of unknown class without missing values, and their weights.
    """

    values: Array
    codes: IndexArray
    weights: Array
    classes: Any
    seed: int
    unlabelled: tuple[Array, Array]

    @functools.cached_property
    def counts(self) -> Array:
        """The sums of weights of the classes."""
        return np.bincount(self.codes, self.weights, minlength=len(self.classes))

    def without(self, weights: Array) -> ClassRows:
        """Return the rows less some of their weights."""
        rest = self.weights - weights
        # Up to rounding, nothing is left of rows that are left out.
        kept = rest > 1e-9 * weights
        return replace(self, values=self.values[kept], codes=self.codes[kept], weights=rest[kept])

    def of_class(self, code: int) -> tuple[Array, Array]:
        """Return the rows of a class, and their weights."""
        chosen = self.codes == code
        return self.values[chosen], self.weights[chosen]

    def label(self, code: int) -> str:
        """Return a class as messages name it."""
        return f"Class {np.asarray(self.classes).tolist()[code]!r}"

    @functools.cached_property
    def complete(self) -> ClassRows:
        """The rows without missing values: several draws of them, under one Gaussian for each class."""
        if not np.isnan(self.values).any():
            return self
        drawn = np.empty((N_COMPLETIONS, *self.values.shape))
        for code in range(len(self.classes)):
            values, weights = self.of_class(code)
            model = GaussianMixture(1, prior="conjugate", random_state=self.seed)
            with warnings.catch_warnings(action="ignore"):
                model.fit(values, sample_weight=weights)
            drawn[:, self.codes == code] = model.impute(values, n_draws=N_COMPLETIONS)
        codes, weights = np.tile(self.codes, N_COMPLETIONS), np.tile(self.weights, N_COMPLETIONS)
        flat = drawn.reshape(-1, self.values.shape[1])
        return replace(self, values=flat, codes=codes, weights=weights / N_COMPLETIONS)

    @functools.cached_property
    def moments(self) -> tuple[Array, Array]:
        """The means and variances of the columns over all rows."""
        values = np.concatenate([self.complete.values, self.unlabelled[0]])
        weights = np.concatenate([self.complete.weights, self.unlabelled[1]])
        mean = np.average(values, axis=0, weights=weights)
        return mean, np.average((values - mean) ** 2, axis=0, weights=weights)


@dataclass(frozen=True, eq=False)
class ClassModel:
    """A way to describe the classes.

    Attributes
    ----------
    name : str
    fit : callable
        Returns the mixtures of classes from their rows; ValueError or LinAlgError where these are too few.
    covariance_type : str or None
        The family, where it is shared.
    is_linear : bool
        Whether it is linear discriminant analysis: the first such candidate is what others have to surpass.
    mixtures : tuple of GaussianMixture
        Those of all rows.
    notes : tuple of (warning class, str)
        What the user is warned of.
    """

    name: str
    fit: Callable[[ClassRows], Mixtures]
    covariance_type: str | None = None
    is_linear: bool = False
    mixtures: Mixtures = ()
    notes: tuple[tuple[type[Warning], str], ...] = ()


def choose_mixtures(
    settings: Any, rows: ClassRows, numbers: tuple[int, ...], class_prior: Array
) -> tuple[ClassModel, dict[str, Any]]:
    """Return what describes the classes: as the parameters say, chosen by rows left out where they do not.

    Parameters
    ----------
    settings : MixtureClassifier
    rows : ClassRows
    numbers : tuple of int
        The numbers of components to try in each class; empty if none were given.
    class_prior : ndarray, shape (n_classes,)

    Returns
    -------
    model : ClassModel
    attributes : dict of str to object
        Of the classifier: how the model was chosen.
    """
    by_prediction, shared = settings.criterion == "brier_score", settings.shared
    tries_shared = bool(shared) or (shared is None and by_prediction and not numbers)
    candidates = _shared_candidates(rows, settings, by_prediction) if tries_shared else []
    if shared and not by_prediction and not candidates[0].notes:
        bics = {str(one.covariance_type): _bic(rows, one) for one in candidates}
        best = min(candidates, key=lambda one: bics[str(one.covariance_type)])
        return best, {"message_": f"{best.name}: the lowest BIC of {len(bics)}.", "bics_": bics}
    attributes: dict[str, Any] = {}
    # With too few rows for two components in any class, mixtures of one are among the candidates.
    is_few = tries_shared and not numbers and _most_components(rows, rows.counts.max(), numbers) < 2
    if not (shared or (is_few and settings.covariance_type is None)):
        criterion = "bic" if by_prediction else settings.criterion
        try:
            attributes["selections_"], own = _separate_candidates(rows, settings, numbers, criterion)
        except ValueError:
            if not candidates:
                raise
        else:
            # By another criterion, the choice is that of the most components.
            candidates += own if by_prediction else own[-1:]
    # Where no class is the most probable one, that says nothing.
    if tries_shared and settings.covariance_type is None and np.ptp(class_prior) > 0:
        candidates.append(_same_for_all(rows))
    if len(candidates) == 1:
        return candidates[0], {"message_": f"{candidates[0].name}.", **attributes}
    best, chosen = _best_prediction(rows, candidates, class_prior)
    return best, chosen | attributes


# --- one Gaussian for each class ----------------------------------------------------------------


def _shared_candidates(rows: ClassRows, settings: Any, by_prediction: bool) -> list[ClassModel]:
    """Return what describes each class by one Gaussian, fitted, the simplest first.

    Where covariances of the given families are singular, these are shrunk ones, with a warning.
    """
    given, prior = settings.covariance_type, settings.prior
    kinds = default_kinds(rows.values.shape[1], len(rows.values)) if given is None else given
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    families = {kind: family(kind) for kind in kinds}
    for kind, known in families.items():
        if known.has_factors:
            raise ValueError(
                f"covariance_type={kind!r} is for mixtures without classes: use 'diag' or 'full' here, or "
                "fit a GaussianMixture to each class."
            )
    # With the default prior the strength is the one that predicts the classes of rows left out best.
    is_default = prior == "default" and by_prediction
    shrinking = [kind for kind in families if is_default and families[kind].name in ("full", "tied")]
    own = not all(families[kind].shares_covariance for kind in shrinking or kinds)
    shrunk = _shrunk_candidate(rows, TOWARDS_COMMON if own else TOWARDS_COMMON[:1])
    is_free = by_prediction and given is None
    candidates = [shrunk] if shrinking or is_free else []
    for kind in () if is_free else [kind for kind in kinds if kind not in shrinking]:
        name, fit = f"one Gaussian for each class ({kind})", functools.partial(_fit_family, kind, prior)
        candidates.append(ClassModel(name, fit, kind, families[kind].name == "tied"))
    found = []
    for one in candidates:
        with contextlib.suppress(ValueError, np.linalg.LinAlgError):
            found.append(replace(one, mixtures=one.fit(rows)))
    if found:
        return found
    smallest = int(np.argmin(rows.counts))
    note = (
        f"The classes have too few rows for covariance_type={given!r}, {rows.label(smallest)} only "
        f"{rows.counts[smallest]:g}: without shrinkage, covariances are singular. Used instead: {{}}. Use "
        "prior='default' to ask for shrinkage."
    )
    return [replace(shrunk, mixtures=shrunk.fit(rows), notes=((FewRowsWarning, note.format(shrunk.name)),))]


def _fit_family(kind: str, prior: Any, rows: ClassRows) -> Mixtures:
    """Return one Gaussian for each class, with covariances of a family [bensmail1996].

    They are those of an M-step whose responsibilities are the classes: a family says what they share.
    """
    complete, counts = rows.complete, rows.counts
    model = GaussianMixture(
        len(counts), covariance_type=kind, init_params=complete.codes, prior=prior, max_iter=0
    )
    with warnings.catch_warnings(action="ignore"):
        warnings.simplefilter("error", CollapsedWarning)
        try:
            model.fit(complete.values, sample_weight=complete.weights)
        except CollapsedWarning as warning:
            raise ValueError(str(warning)) from None
    known, parameters = family(kind), FittedState.of(model).parameters
    matrices = known.per_component(parameters.covariances)
    return tuple(
        _gaussian(known.untied.name, mean, matrices[code % len(matrices)][None], count)
        for code, (mean, count) in enumerate(zip(parameters.means, counts, strict=True))
    )


def _shrunk_candidate(rows: ClassRows, towards_common: tuple[float, ...]) -> ClassModel:
    """Return one Gaussian for each class, with covariances between own and common, shrunk to a diagonal.

    They are those of regularised discriminant analysis [friedman1989], with the diagonal of the common
    covariance as the target, so that the units of columns do not matter. One more row of the variances of the
    columns of all rows keeps a column that is constant within the classes from being singular. Rows of
    unknown class count by how probable the classes are [nigam2000].
    """
    is_tied = towards_common == (1.0,)
    fit = functools.partial(_fit_shrunk, towards_common=towards_common, variances=rows.moments[1])
    what = "common, shrunk towards a diagonal" if is_tied else "shrunk towards a common one and a diagonal"
    name = f"one Gaussian for each class (covariances {what})"
    return ClassModel(name, fit, "tied" if is_tied else "full", is_linear=True)


def _fit_shrunk(rows: ClassRows, towards_common: tuple[float, ...], variances: Array) -> Mixtures:
    """Return one Gaussian for each class, with the shrinkage that predicts rows left out best."""
    distinct, parts = _left_out(rows)
    complete, (others, weights) = distinct.complete, rows.unlabelled
    n_copies, truth = len(complete.codes) // len(parts), np.eye(len(rows.classes))[complete.codes]
    parts = np.tile(parts[:, parts.any(axis=0)], (n_copies, 1)) / n_copies
    if len(others):
        weights = weights * min(UNLABELLED_SHARE * rows.weights.sum() / weights.sum(), 1.0)
    values, unknown = np.concatenate([complete.values, others]), np.zeros((len(others), truth.shape[1]))

    def sums_without(left: Array) -> ClassSums:
        shares = np.concatenate([truth * (complete.weights - left)[:, None], unknown])
        return ClassSums.of(values, shares, variances)

    left_out = complete.values, truth, parts, sums_without
    nothing = np.zeros(len(truth))
    sums, strengths = sums_without(nothing), _mean_strengths(*left_out, towards_common)
    for step in range(N_STEPS if len(others) else 0):
        unknown = softmax(sums.log_joint(others, *strengths), axis=1) * weights[:, None]
        sums = sums_without(nothing)
        # Chosen less and less often, as they change less and less.
        if step & (step + 1) == 0:
            strengths = _mean_strengths(*left_out, towards_common)
    each = zip(sums.means, sums.covariances(*strengths), sums.counts, strict=True)
    return tuple(_gaussian("full", mean, covariance[None], count) for mean, covariance, count in each)


def _mean_strengths(
    values: Array,
    truth: Array,
    parts: Array,
    sums_without: Callable[[Array], ClassSums],
    towards_common: tuple[float, ...],
) -> tuple[float, float]:
    """Return how far to shrink towards the common covariance, and towards its diagonal.

    These are means over a grid, weighted by the exponential of minus twice the Brier score of rows that are
    left out: the best of the grid would depend on single rows.

    Parameters
    ----------
    values, truth, parts : ndarray, shape (n_samples, ...)
        Rows, their classes as shares, and how much of their weight is left out in each part.
    sums_without : callable
        Takes the weights that are left out.
    towards_common : tuple of float
    """
    grid = np.array(list(itertools.product(towards_common, TOWARDS_DIAGONAL)))
    losses = np.zeros(len(grid))
    for part in parts.T:
        here, rest = part > 0, sums_without(part)
        for i, strengths in enumerate(grid):
            try:
                joint = rest.log_joint(values[here], *strengths)
            except np.linalg.LinAlgError:
                losses[i] = np.inf
                continue
            losses[i] += part[here] @ ((softmax(joint, axis=1) - truth[here]) ** 2).sum(axis=1)
    if not np.isfinite(losses).any():
        raise ValueError("The rows of the classes do not vary enough to be told apart.")
    likely = softmax(-2 * losses)
    return float(likely @ grid[:, 0]), float(np.exp(likely @ np.log(grid[:, 1])))


@dataclass(frozen=True, eq=False)
class ClassSums:
    """The sums over rows that Gaussians of the classes follow from.

    Attributes
    ----------
    counts : ndarray, shape (n_classes,)
    means : ndarray, shape (n_classes, n_features)
    scatters : ndarray, shape (n_classes, n_features, n_features)
    variances : ndarray, shape (n_features,)
        Of the columns of all rows.
    """

    counts: Array
    means: Array
    scatters: Array
    variances: Array

    @classmethod
    def of(cls, values: Array, shares: Array, variances: Array) -> ClassSums:
        """Return the sums of rows, by the shares that classes have of each, shape (n_rows, n_classes)."""
        counts = shares.sum(axis=0)
        means = shares.T @ values / counts[:, None]
        pairs = zip(means, shares.T, strict=True)
        scatters = [((values - mean).T * share) @ (values - mean) for mean, share in pairs]
        return cls(counts, means, np.stack(scatters), variances)

    def covariances(self, common: float, diagonal: float) -> Array:
        """Return covariances, shape (n_classes, n_features, n_features), shrunk this far."""
        pooled, total = self.scatters.sum(axis=0), self.counts.sum()
        target = (np.diagonal(pooled) + self.variances) / (max(total - len(self.counts), 0.0) + 1)
        within = (1 - common) * np.maximum(self.counts - 1, 0.0)
        divisors = np.maximum(within + common * max(total - len(self.counts), 0.0), 1.0)
        mixed = ((1 - common) * self.scatters + common * pooled) / divisors[:, None, None]
        return np.asarray((1 - diagonal) * mixed + diagonal * np.diag(target))

    def log_joint(self, values: Array, common: float, diagonal: float) -> Array:
        """Return logarithms of class share times density, up to a constant, shape (n_rows, n_classes)."""
        logs = []
        for mean, root in zip(
            self.means, np.linalg.cholesky(self.covariances(common, diagonal)), strict=True
        ):
            solved = solve_triangular(root, (values - mean).T, lower=True, check_finite=False)
            logs.append(-0.5 * (solved**2).sum(axis=0) - np.log(np.diagonal(root)).sum())
        return np.column_stack(logs) + np.log(self.counts)


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


def _same_for_all(rows: ClassRows) -> ClassModel:
    """Return what gives every row the most probable class: one Gaussian for all classes."""
    mean, variances = rows.moments
    same = tuple(_gaussian("diag", mean, variances[None], count) for count in rows.counts)
    note = (
        "No description of the classes predicts rows left out better than the shares of the classes do: "
        "every row is given the most probable class. More rows or other columns are needed."
    )
    return ClassModel("the most probable class", lambda _: same, None, False, same, ((FewRowsWarning, note),))


def _bic(rows: ClassRows, one: ClassModel) -> float:
    """Return the BIC of the rows with their classes, under one Gaussian for each; lower is better."""
    counts = rows.counts
    joint = log_joint(one.mixtures, rows.values, counts / counts.sum())
    log_likelihood = rows.weights @ np.take_along_axis(joint, rows.codes[:, None], axis=1)[:, 0]
    n_parameters = family(str(one.covariance_type)).n_parameters(len(counts), rows.values.shape[1])
    return lower_is_better_bic(log_likelihood, n_parameters, counts.sum())


# --- a mixture for each class -------------------------------------------------------------------


def _separate_candidates(
    rows: ClassRows, settings: Any, numbers: tuple[int, ...], criterion: str
) -> tuple[tuple[Selection, ...], list[ClassModel]]:
    """Return for each class the choice among mixtures of its rows alone, and the mixtures that were compared.

    These are mixtures of each class with at most one component, at most two, and so on. Up to each number,
    the criterion chooses for each class.
    """
    selections: list[Selection] = []
    notes: list[tuple[type[Warning], str]] = []
    for code in range(len(rows.counts)):
        with warnings.catch_warnings(record=True, action="always") as caught:
            selections.append(_selection(rows, code, settings, numbers, criterion))
        # A FarRowsWarning is made from numbers of rows, not from a text. A column that is constant in one
        # class can tell it from the others.
        label = rows.label(code)
        notes += [
            (ApolarWarning if each.category is FarRowsWarning else each.category, f"{label}: {each.message}")
            for each in caught
            if each.category is not ColumnWarning
        ]
    found: dict[str, ClassModel] = {}
    for most in sorted({row.n_components for selection in selections for row in selection.table}):
        allowed = [
            [row for row in selection.table if row.is_fitted and row.n_components <= most]
            for selection in selections
        ]
        if not all(allowed):
            continue
        best = [min(of_class, key=lambda row: getattr(row, criterion)) for of_class in allowed]
        pairs = zip(selections, best, strict=True)
        models = tuple(one.models[row.covariance_type, row.n_components] for one, row in pairs)
        described = ", ".join(f"{row.n_components} {row.covariance_type}" for row in best)
        name, fit = f"a mixture for each class ({described})", functools.partial(_fit_again, models)
        found.setdefault(name, ClassModel(name, fit, mixtures=models, notes=tuple(notes)))
    return tuple(selections), list(found.values())


def _selection(
    rows: ClassRows, code: int, settings: Any, numbers: tuple[int, ...], criterion: str
) -> Selection:
    """Return the choice among mixtures of the rows of a class.

    Where no number is given, each part that is left out can have a row of a component, and its covariance can
    be regular. One component is always tried.
    """
    values, weights = rows.of_class(code)
    # Sums of weights that are numbers of rows are such numbers up to rounding.
    count = np.round(rows.counts[code], 9)
    if count < 2 or not np.any(np.fmax.reduce(values, axis=0) > np.fmin.reduce(values, axis=0)):
        raise ValueError(
            f"{rows.label(code)} has no two rows that differ, and a mixture of its own needs them: leave "
            "it out, or use shared=True, where the classes share a covariance."
        )
    most = _most_components(rows, count, numbers)
    tried = tuple(number for number in numbers or AUTO if number <= most) or (most,)
    prior = {} if settings.prior is None else {"prior": settings.prior}
    given = tried, settings.covariance_type, criterion
    try:
        return select(values, *given, sample_weight=weights, random_state=rows.seed, **prior)
    except ValueError as error:
        raise ValueError(
            f"{rows.label(code)}: {error} If its rows are too few, leave it out, or use shared=True, "
            "where the classes share a covariance."
        ) from error


def _most_components(rows: ClassRows, count: float, numbers: tuple[int, ...]) -> int:
    """Return the most components of a class of that many rows, if no numbers are given."""
    rows_each = 1 if numbers else max(N_FOLDS, rows.values.shape[1] + 1)
    return max(1, int(count) // rows_each)


def _fit_again(models: Mixtures, rows: ClassRows) -> Mixtures:
    """Return mixtures of the same families and numbers, fitted to some of the rows."""
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
        with warnings.catch_warnings(action="ignore"):
            fitted.append(again.fit(values, sample_weight=weights))
    return tuple(fitted)


# --- the prediction of rows that are left out ---------------------------------------------------


def log_joint(mixtures: Iterable[GaussianMixture], values: Array, class_prior: Array) -> Array:
    """Return the logarithms of class probability times density, shape (n_samples, n_classes)."""
    with np.errstate(divide="ignore"):  # a class of probability zero
        log_prior = np.log(class_prior)
    return np.column_stack([mixture.score_samples(values) for mixture in mixtures]) + log_prior


def _best_prediction(
    rows: ClassRows, candidates: list[ClassModel], class_prior: Array
) -> tuple[ClassModel, dict[str, Any]]:
    """Return the candidate with the lowest Brier score of rows that are left out [brier1950].

    It is proper, as the log-loss is, and bounded: no single row decides.

    Where linear discriminant analysis is among them, another one has to be better by more than the standard
    error of the difference; mixtures, which take longest, are given up as soon as they are worse by more.
    """
    distinct, shares = _left_out(rows)
    # With the given probabilities of the classes, and not the shares of the rows.
    weights = shares * (class_prior / (rows.counts / rows.counts.sum()))[distinct.codes, None]
    losses = {one.name: np.zeros(shares.shape) for one in candidates}
    left, done, linear = list(candidates), np.zeros(shares.shape, dtype=bool), None
    for part in np.flatnonzero(np.any(weights > 0, axis=0)):
        here = weights[:, part] > 0
        others, truth = distinct.without(shares[:, part]), np.eye(len(class_prior))[distinct.codes[here]]
        for one in list(left):
            try:
                joint = log_joint(one.fit(others), distinct.values[here], class_prior)
            except (ValueError, np.linalg.LinAlgError):
                left.remove(one)
                continue
            losses[one.name][here, part] = ((softmax(joint, axis=1) - truth) ** 2).sum(axis=1)
        done[here, part] = True
        linear = next((one for one in left if one.is_linear), None)
        if linear is not None:
            # Behind by more than a standard error, a mixture will not end ahead by one.
            behind = {one.name: (losses[one.name] - losses[linear.name])[done] for one in left}
            left = [
                one for one in left if one.covariance_type or not _is_above(behind[one.name], weights[done])
            ]
    if not left or not np.any(done):
        return candidates[0], {"message_": f"{candidates[0].name}: no rows could be left out to compare."}
    means = {one.name: float(np.average(losses[one.name][done], weights=weights[done])) for one in left}
    best, reason = min(left, key=lambda one: means[one.name]), "the lowest Brier score of rows left out"
    if linear and not _is_above((losses[linear.name] - losses[best.name])[done], weights[done]):
        reason = reason if linear is best else f"no more than a standard error above {best.name}"
        best = linear
    return best, {"message_": f"{best.name}: {reason}, {means[best.name]:.3g}.", "losses_": means}


def _left_out(rows: ClassRows) -> tuple[ClassRows, Array]:
    """Return the distinct rows, and how much of the weight of each is left out in each part.

    The copies of a row are left out one by one, as new rows may be copies too. A row with a weight of two is
    the same as the row given twice. Rows of a class that has no other row are never left out.

    Returns
    -------
    rows : ClassRows
    shares : ndarray, shape (n_distinct, N_FOLDS)
    """
    table = np.column_stack([rows.codes, np.where(np.isnan(rows.values), np.inf, rows.values)])
    _, first, position = np.unique(table, axis=0, return_index=True, return_inverse=True)
    weights = np.bincount(position.reshape(-1), rows.weights)
    distinct = replace(rows, values=rows.values[first], codes=rows.codes[first], weights=weights)
    codes, rng = distinct.codes, np.random.default_rng(rows.seed)
    n_copies = np.clip(np.round(weights), 1, N_FOLDS).astype(int)
    # One class after the other, and copies in successive parts, so that each part has its share of each.
    order = np.lexsort((rng.random(len(codes)), codes))
    start = np.empty(len(codes), dtype=int)
    start[order] = np.cumsum(n_copies[order]) - n_copies[order]
    parts = (np.arange(N_FOLDS) - start[:, None]) % N_FOLDS
    shares = np.where(parts < n_copies[:, None], (weights / n_copies)[:, None], 0.0)
    shares[np.bincount(codes)[codes] < 2] = 0.0
    return distinct, shares


def _is_above(differences: Array, weights: Array) -> bool:
    """Return whether the mean of differences is above zero by more than its standard error."""
    n_rows = weights.sum()
    if n_rows <= 1:
        return False
    mean = np.average(differences, weights=weights)
    return bool(mean > np.sqrt(np.average((differences - mean) ** 2, weights=weights) / (n_rows - 1)))
