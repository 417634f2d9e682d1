"""What predicts the classes of rows that are left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from apolar._core.arrays import Array
from apolar.classification.class_mixtures import Candidate, ClassRows
from apolar.estimator import GaussianMixture

__all__ = ["Choice", "best_prediction", "log_joint"]

# Into how many parts the rows are divided, of which each is left out once.
N_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Choice:
    """What predicts the classes of rows that are left out.

    Attributes
    ----------
    best : Candidate or None
        None: always the most probable class.
    losses : dict of str to float
        The mean Brier score of each candidate that did not fall behind, by its name.
    reason : str
    """

    best: Candidate | None
    losses: dict[str, float]
    reason: str


def log_joint(mixtures: tuple[GaussianMixture, ...], values: Array, class_prior: Array) -> Array:
    """Return the logarithms of class probability times density, shape (n_samples, n_classes)."""
    with np.errstate(divide="ignore"):  # a class of probability zero
        log_prior = np.log(class_prior)
    return np.column_stack([mixture.score_samples(values) for mixture in mixtures]) + log_prior


def best_prediction(
    rows: ClassRows, candidates: list[Candidate], class_prior: Array, *, or_none: bool
) -> Choice:
    """Return the candidate with the lowest Brier score of rows that are left out [brier1950].

    It is proper, as the log-loss is, and bounded: no single row decides.

    Where linear discriminant analysis is among them, another one has to be better by more than the standard
    error of the difference; mixtures, which take longest, are given up as soon as they are worse by more.

    Parameters
    ----------
    rows : ClassRows
    candidates : list of Candidate
    class_prior : ndarray, shape (n_classes,)
    or_none : bool
        Whether to return none of them, if always naming the most probable class makes fewer errors, by more
        than the standard error of the difference.

    Returns
    -------
    choice : Choice
    """
    rows, shares = _left_out(rows)
    # With the given probabilities of the classes, and not the shares of the rows.
    weights = shares * (class_prior / (rows.counts() / rows.counts().sum()))[rows.codes, None]
    left = {one.name: one for one in candidates}
    joints = {name: np.zeros((*shares.shape, len(class_prior))) for name in left}
    losses = {name: np.zeros(shares.shape) for name in left}
    done = np.zeros(shares.shape, dtype=bool)
    for part in range(N_FOLDS):
        here = weights[:, part] > 0
        if not np.any(here):
            continue
        others, codes = rows.without(shares[:, part]), rows.codes[here]
        for name, candidate in list(left.items()):
            try:
                joint = log_joint(candidate.fit(others), rows.values[here], class_prior)
            except (ValueError, np.linalg.LinAlgError):
                del left[name]
            else:
                joints[name][here, part] = joint
                wrong = softmax(joint, axis=1) - np.eye(len(class_prior))[codes]
                losses[name][here, part] = (wrong**2).sum(axis=1)
        done[here, part] = True
        means = {name: _mean(losses[name][done], weights[done]) for name in left}
        plain = next((name for name in left if left[name].is_linear), None)
        if plain is None:
            continue
        # Behind by more than a standard error, a mixture will not end ahead by one.
        left = {
            name: one
            for name, one in left.items()
            if one.covariance_type or not _is_above((losses[name] - losses[plain])[done], weights[done])
        }
    if not left or not np.any(done):
        return Choice(candidates[0], {}, f"{candidates[0].name}: no rows could be left out to compare.")
    weights, codes = weights[done], np.broadcast_to(rows.codes[:, None], shares.shape)[done]
    means = {name: means[name] for name in left}
    best = min(means, key=means.__getitem__)
    reason = "the lowest Brier score of rows left out"
    if plain and best != plain and not _is_above((losses[plain] - losses[best])[done], weights):
        best, reason = plain, f"no more than a standard error above {best}"
    errors = (np.argmax(joints[best][done], axis=1) != codes).astype(float)
    plain_errors = (codes != np.argmax(class_prior)).astype(float)
    if or_none and _is_above(errors - plain_errors, weights):
        wrong, most = _mean(errors, weights), _mean(plain_errors, weights)
        text = f"The most probable class is wrong in {most:.1%} of rows left out, and {best} in {wrong:.1%}."
        return Choice(None, means, text)
    return Choice(left[best], means, f"{best}: {reason}, {means[best]:.3g}.")


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
    weights = np.bincount(position.reshape(-1), rows.weights).astype(float)
    distinct = ClassRows(rows.values[first], rows.codes[first], weights, rows.classes, rows.seed)
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


def _mean(values: Array, weights: Array) -> float:
    return float(np.average(values, weights=weights))


def _is_above(differences: Array, weights: Array) -> bool:
    """Return whether the mean of differences is above zero by more than its standard error."""
    mean, n_rows = _mean(differences, weights), weights.sum()
    if n_rows <= 1:
        return False
    return bool(mean > np.sqrt(_mean((differences - mean) ** 2, weights) / (n_rows - 1)))
