"""A clustering as text: findings, what tells clusters apart, the choice, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.display import with_error
from apolar.estimator import summary
from apolar.exceptions import join_names
from apolar.plots.views import MixtureView
from apolar.reports.analysis import Analysis
from apolar.reports.scoring import LIMITS

# The options of the command line that a change replaces.
_OPTIONS = {"k": ("-k", "--components"), "criterion": ("--criterion",), "columns": ("--columns",)}


def headline(analysis: Analysis) -> str:
    """Return the result in one sentence."""
    n_noise = analysis.n_noise if analysis.has_noise else None
    return summary.headline(
        analysis.n_rows,
        len(analysis.groups),
        analysis.covariance_type,
        n_noise=n_noise,
        has_tails=analysis.model.dof is not None,
        n_components=len(analysis.model.weights_),
    )


def spread_name(analysis: Analysis) -> str:
    """Return what the numbers after means are: long tails may have no standard deviation."""
    return "standard deviation" if analysis.model.dof is None else "scale"


# What is said about a fit that stopped early.
NOT_CONVERGED = (
    "EM stopped before it had converged: try another seed or fewer clusters, or leave out columns that "
    "repeat others."
)


def is_at_most_tried(analysis: Analysis) -> bool:
    """Return whether the number of clusters is the largest of several that were compared."""
    numbers = {row.n_components for row in analysis.selection.table} if analysis.selection else {0}
    return len(numbers) > 1 and len(analysis.model.weights_) == max(numbers)


# --- what tells clusters apart --------------------------------------------------------------


@dataclass(frozen=True)
class Trait:
    """A column in which a cluster differs from others.

    Attributes
    ----------
    column : str
    words : str
        Where the mean is among those of all clusters, and the column: "lowest width".
    values : str
        The mean, and the least and the greatest of the other clusters.
    """

    column: str
    words: str
    values: str


def traits(analysis: Analysis) -> list[list[Trait]]:
    """Return what tells each cluster from the others: columns, the first of which differs most.

    Each further column is that in which the cluster differs most from those others that are near it in the
    columns before; if there are none, from all others together.
    """
    mixture = analysis.clusters
    means, n_clusters = mixture.means, len(mixture.means)
    if n_clusters == 1:
        return [[]]
    within = np.sqrt(mixture.shares @ mixture.variances)
    scaled = np.divide(means, within, out=np.zeros_like(means), where=within > 0)
    found = []
    for k in range(n_clusters):
        gaps = np.abs(np.delete(scaled, k, axis=0) - scaled[k])
        is_near, columns = np.ones(len(gaps), dtype=bool), list[int]()
        while len(columns) < LIMITS.n_traits and is_near.any():
            # A gap of many deviations is not worth more than one that is clear.
            worth = np.minimum(gaps[is_near], LIMITS.clear_difference).sum(axis=0)
            worth[columns] = -1.0
            best = int(np.lexsort((-gaps[is_near].sum(axis=0), -worth.round(9)))[0])
            if gaps[is_near, best].max() < LIMITS.min_difference:
                break
            columns.append(best)
            is_near &= gaps[:, best] < LIMITS.min_difference
        further = np.abs(np.delete(scaled, k, axis=0).mean(axis=0) - scaled[k])
        order = np.argsort(-further, kind="stable").tolist()
        columns += [j for j in order if j not in columns and further[j] >= LIMITS.min_difference]
        columns = columns[: LIMITS.n_traits]
        found.append([_trait(analysis.names[j], k, means[:, j], float(within[j])) for j in columns])
    return found


def _trait(column: str, k: int, means: Array, deviation: float) -> Trait:
    """Return how the mean of a cluster in a column compares with those of the others."""
    rest = np.delete(means, k)
    gaps = (means[k] - rest) / deviation
    n_below, n_above = (int(np.count_nonzero(sign * gaps >= LIMITS.min_difference)) for sign in (1, -1))
    level = "middle" if n_below == n_above else "high" if n_below > n_above else "low"
    if len(gaps) in (n_below, n_above):
        level += "est"
    own, *others = (
        with_error(float(mean), deviation).partition(" ")[0] for mean in (means[k], rest.min(), rest.max())
    )
    which = "others" if len(rest) > 1 else "other"
    return Trait(column, f"{level} {column}", f"{own}; {which} {' to '.join(dict.fromkeys(others))}")


# --- known classes ------------------------------------------------------------------------


def agreement(analysis: Analysis) -> str:
    """Return how the clusters agree with the known classes."""
    truth = analysis.truth
    if truth is None:
        return ""
    n_known = analysis.n_rows - truth.n_unknown
    wrong = f"{round(truth.error_rate * n_known):,} of {n_known:,} rows"
    unknown = f" The class of {truth.n_unknown:,} rows is not known." if truth.n_unknown else ""
    return (
        f"Known classes: adjusted Rand index {truth.ari:.3f} (1 is full agreement, 0 is chance); "
        f"{wrong} ({100 * truth.error_rate:.1f}%) are not in the cluster that matches their class.{unknown}"
    )


# --- the number of clusters ---------------------------------------------------------------


def choice(analysis: Analysis, *, is_fitted_before: bool = False) -> str:
    """Return how the number of clusters was chosen; one that was given may have been chosen by `select`."""
    if analysis.selection is not None:
        return analysis.selection.reason
    given = f"The number of clusters, {len(analysis.model.weights_)}, was given."
    if is_fitted_before:
        return f"{given} apolar.select(X) chooses the best of several."
    return f"{given} If several numbers are given, the best of them is chosen."


# --- what to do next ----------------------------------------------------------------------


@dataclass(frozen=True)
class Provenance:
    """How an analysis was made: enough to repeat it.

    Attributes
    ----------
    source : str
    command : str
    seed : int or None
    notes : tuple of str
        What was noticed about the columns and what was done, a sentence each.
    row_numbers : ndarray of int, shape (n_samples,), or None
        The numbers of the rows in the file, from 0; None if no row was dropped.
    title : str
        Of the page; by default from the source.
    is_python : bool
        Whether the page was made from Python, of a mixture that was fitted before.
    row_names : ndarray of str, shape (n_samples,), or None
        What the rows are called, if a column says so.
    categories : dict
        By name, columns that did not take part and have few different values, as strings.
    model_file : str
        Where the model was written, for new rows; empty if it was not.
    """

    source: str
    command: str
    seed: int | None
    notes: tuple[str, ...] = ()
    row_numbers: Array | None = None
    title: str = ""
    is_python: bool = False
    row_names: Array | None = None
    categories: dict[str, Array] = field(default_factory=dict)
    model_file: str = ""

    def command_with(self, **changes: Any) -> str:
        """Return the command with other options, or lines of Python; empty if there is none.

        Parameters
        ----------
        **changes : object
            `k`, such as "4", "2-6" or "auto"; `criterion`; `columns`, a list; `noise`, `drop_missing`, bools.
        """
        if self.is_python:
            return _python_with(**changes)
        words = shlex.split(self.command)
        if words[:2] != ["apolar", "fit"]:
            return ""
        for name, value in changes.items():
            if isinstance(value, bool):
                words += [f"--{name.replace('_', '-')}"] * value
                continue
            names = [value] if isinstance(value, str) else value
            listed = ",".join(f'"{each}"' if "," in each and names is value else each for each in names)
            words = [*_without(words, _OPTIONS[name]), _OPTIONS[name][0], listed]
        return shlex.join(words)

    @property
    def prediction(self) -> str:
        """The command that assigns new rows to the clusters; empty if no model was written."""
        if self.is_python:
            return "model.predict(new_rows)"
        return shlex.join(["apolar", "predict", self.model_file, "NEW.csv"]) if self.model_file else ""


def _without(words: list[str], options: tuple[str, ...]) -> list[str]:
    """Return the words of a command without some options and their values."""
    left: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif word in options:
            skips = True
        elif not word.startswith(tuple(f"{option}=" for option in options)):
            left.append(word)
    return left


def _python_with(**changes: Any) -> str:
    """Return lines of Python that fit a mixture of X in another way."""
    k, criterion, columns = changes.get("k"), changes.get("criterion"), changes.get("columns")
    rows = "X" if columns is None else f"X[{columns!r}]"
    rows = "X[~np.isnan(X).any(axis=1)]" if changes.get("drop_missing") else rows
    others = [f"criterion={criterion!r}"] if criterion else []
    if k is not None and k.isdecimal():
        return f"apolar.GaussianMixture({k}).fit({rows})"
    if k is not None and "-" in k:
        least, most = map(int, k.split("-"))
        others.insert(0, f"range({least}, {most + 1})")
    if changes.get("noise"):
        others.append("noise=True")
    return f"apolar.select({', '.join([rows, *others])}).best"


def tails_sentence(tails: Sequence[str]) -> str:
    """Return what to do about columns with long tails."""
    return (
        f"Columns with a long tail, which clusters may follow: {join_names(tails)}. Replace the values by "
        "their logarithms and fit again."
    )


def long_tails(analysis: Analysis, X: Array) -> list[str]:
    """Return columns of positive numbers whose clusters are wider the larger their values are."""
    mixture = MixtureView.of(analysis.model)
    means, deviations = mixture.means, np.sqrt(mixture.variances)
    if len(means) < 3:
        return []
    sample = np.asarray(X[np.unique(np.linspace(0, len(X) - 1, LIMITS.sampled_rows).astype(np.int64))])
    found = []
    for j, name in enumerate(analysis.names):
        values = sample[~np.isnan(sample[:, j]), j]
        if values.min() <= 0 or means[:, j].min() <= 0 or deviations[:, j].min() <= 0:
            continue
        low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
        has_tail = high + low - 2 * middle > LIMITS.long_tail * (high - low)
        logs = np.log([means[:, j], deviations[:, j]])
        if has_tail and np.ptp(logs, axis=1).min() > 0 and np.corrcoef(logs)[0, 1] > LIMITS.widening:
            found.append(name)
    return found
