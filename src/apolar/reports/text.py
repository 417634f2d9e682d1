"""A clustering as text: findings, what tells clusters apart, the choice, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from apolar._core.arrays import Array
from apolar._core.display import count_noun, with_error
from apolar.estimator import summary
from apolar.exceptions import join_names
from apolar.plots.views import MixtureView
from apolar.reports.analysis import Analysis
from apolar.reports.limits import LIMITS
from apolar.reports.provenance import Provenance


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


def plain_headline(analysis: Analysis) -> str:
    """Return the result for readers who know no statistics: how many, how large, how clear."""
    counts, n_rows = analysis.counts.tolist(), analysis.n_rows
    text = f"{count_noun(len(counts), 'cluster')} in {n_rows:,} rows"
    if 1 < len(counts) <= LIMITS.listed_counts:
        listed = [f"{count:,}" for count in counts]
        text += f": {', '.join(listed[:-1])} and {listed[-1]} rows"
    text += "."
    if analysis.has_noise:
        in_none = "1 row belongs" if analysis.n_noise == 1 else f"{analysis.n_noise:,} rows belong"
        text += f" {in_none} to no cluster."
    if len(counts) > 1:
        clear = n_rows - int(np.count_nonzero(analysis.is_doubtful))
        share = "every row" if clear == n_rows else f"{int(100 * clear / n_rows)}% of the rows"
        text += f" The cluster is clear for {share}."
    return text


# --- what the reader must know ------------------------------------------------------------


Level = Literal["good", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """Something that the reader must know: good news, a note, or a problem."""

    level: Level
    text: str


# What is said about a fit that stopped early.
NOT_CONVERGED = (
    "EM stopped before it had converged: try another seed or fewer clusters, or leave out columns that "
    "repeat others."
)


def findings(analysis: Analysis, notes: Iterable[str] = ()) -> list[Finding]:
    """Return what the reader must know, problems first; no two of them contradict.

    Parameters
    ----------
    analysis : Analysis
    notes : iterable of str
        What else to note, such as what was done to the table.
    """
    found = [_of_the_fit(analysis), *(Finding("problem", message) for message in analysis.warnings)]
    small = small_clusters(analysis)
    if small:
        names = [f"{k + 1}" for k in small]
        which = f"Cluster {names[0]} has" if len(small) == 1 else f"Clusters {join_names(names)} have"
        text = f"{which} fewer than {LIMITS.few_rows} rows and may be due to chance."
        found.append(Finding("problem", text))
    found += _of_rows(analysis)
    if is_at_most_tried(analysis) and not small:
        number = len(analysis.model.weights_)
        noun = "components" if analysis.are_combined else "clusters"
        found.append(Finding("note", f"No more than {number} {noun} were tried."))
    stability = [] if analysis.stability is None else analysis.stability.sentences()
    tails = summary.tails_in_words(analysis.model)
    found += [Finding("note", note) for note in [*tails, *stability, *notes]]
    order = {"problem": 0, "note": 1, "good": 2}
    return sorted(found, key=lambda finding: order[finding.level])


def small_clusters(analysis: Analysis) -> list[int]:
    """Return the clusters of few rows, which may be due to chance, from 0."""
    return np.flatnonzero(analysis.counts < LIMITS.few_rows).tolist()


def is_at_most_tried(analysis: Analysis) -> bool:
    """Return whether the number of clusters is the largest of several that were compared."""
    numbers = {row.n_components for row in analysis.selection.table} if analysis.selection else {0}
    return len(numbers) > 1 and len(analysis.model.weights_) == max(numbers)


def _of_the_fit(analysis: Analysis) -> Finding:
    """Return whether EM ended at an optimum that the rows determine: one finding, whatever was noticed."""
    model, errors = analysis.model, analysis.errors
    passes = f"{count_noun(model.n_iter_, 'pass')} over the data"
    if not model.converged_:
        return Finding("problem", NOT_CONVERGED)
    if analysis.fault and not small_clusters(analysis):
        return Finding(
            "problem", f"EM ended after {passes}, but: {analysis.fault} There are no standard errors."
        )
    said = f"The fit converged after {passes}"
    if errors is None:
        reason = analysis.no_errors or "a cluster has too few rows."
        return Finding("note", f"{said}. There are no standard errors: {reason}")
    if (errors.information_condition or 0) > LIMITS.ill_conditioned:
        hardly = "but the rows hardly determine some of the parameters: their standard errors are large."
        return Finding("note", f"{said}, {hardly}")
    return Finding("good", f"{said}; EM started from {model.start_!r}.")


def _of_rows(analysis: Analysis) -> list[Finding]:
    found = []
    if len(analysis.groups) > 1:
        doubtful = int(np.count_nonzero(analysis.is_doubtful))
        share, least = doubtful / analysis.n_rows, f"{LIMITS.doubt:.0%}"
        text = f"Every row is assigned with a probability of at least {least}: none is in doubt."
        if doubtful:
            which = f"For {count_noun(doubtful, 'row')} ({share:.1%})"
            text = f"{which} the cluster is in doubt: its probability is below {least}."
        level: Level = "problem" if share >= LIMITS.much_doubt else "note" if doubtful else "good"
        found.append(Finding(level, text))
    outlying = np.count_nonzero(analysis.is_outlying)
    if outlying:
        which = "1 row is an outlier" if outlying == 1 else f"{outlying:,} rows are outliers"
        found.append(Finding("note", f"{which}: too far from every cluster to belong to one."))
    return found


# --- what tells clusters apart --------------------------------------------------------------


@dataclass(frozen=True)
class Trait:
    """A column in which a cluster differs from others.

    Attributes
    ----------
    column : str
    level : {"highest", "high", "middle", "low", "lowest"}
        Where the mean is among those of all clusters.
    mean : float
        Of the cluster.
    others : tuple of float
        The least and the greatest mean of the other clusters, or the only one.
    deviation : float
        Of the column within clusters.
    difference : float
        From the mean of the other clusters, in deviations within clusters, with a sign.
    """

    column: str
    level: str
    mean: float
    others: tuple[float, ...]
    deviation: float
    difference: float

    @property
    def words(self) -> str:
        """The level and the column."""
        return f"{self.level} {self.column}"

    @property
    def values(self) -> str:
        """The mean, and those of the other clusters."""
        own, *others = (
            with_error(mean, self.deviation).partition(" ")[0] for mean in (self.mean, *self.others)
        )
        which = "others" if len(others) > 1 else "other"
        return f"{own}; {which} {' to '.join(dict.fromkeys(others))}"


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
    others = (float(rest.min()), float(rest.max()))[: len(rest)]
    return Trait(column, level, float(means[k]), others, deviation, float(gaps.mean()))


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
class Step:
    """What to do next, and the command or the lines of Python that do it."""

    text: str
    command: str = ""


def next_steps(analysis: Analysis, provenance: Provenance, tails: Sequence[str] = ()) -> list[Step]:
    """Return what a reader may do next; no two of them contradict.

    Parameters
    ----------
    analysis : Analysis
    provenance : Provenance
    tails : list of str
        Columns whose logarithms may serve better.
    """
    number, n_clusters = len(analysis.model.weights_), len(analysis.groups)
    small = small_clusters(analysis)
    n_outlying = int(np.count_nonzero(analysis.is_outlying))
    steps = []
    if n_outlying and not analysis.has_noise:
        which = (
            "the row listed as an outlier"
            if n_outlying == 1
            else f"the {n_outlying:,} rows listed as outliers"
        )
        text = f"Check {which}: correct or remove errors. To set such rows aside instead:"
        steps.append(_set_aside(text, analysis, provenance))
    if tails:
        steps.append(Step(tails_sentence(tails)))
    alone = np.flatnonzero(analysis.counts == 1)
    if len(alone) and not analysis.has_noise and not n_outlying:
        which = "row that is a cluster" if len(alone) == 1 else f"{len(alone):,} rows that are clusters"
        text = f"Check the {which} by itself: correct or remove errors. To set such rows aside instead:"
        steps.append(_set_aside(text, analysis, provenance))
    elif small and n_clusters > len(small):
        steps.append(
            Step("Leave out the smallest clusters:", provenance.command_with(k=f"{n_clusters - len(small)}"))
        )
    elif is_at_most_tried(analysis) and not tails:
        more: dict[str, str] = {"k": f"{number}-{2 * number}"}
        noun = "clusters"
        if analysis.are_combined:
            more, noun = more | {"criterion": "clusters"}, "components"
        steps.append(Step(f"Try more {noun}:", provenance.command_with(**more)))
    elif analysis.selection is None:
        steps.append(Step("Compare other numbers of clusters:", provenance.command_with(k="auto")))
    n_doubtful = np.count_nonzero(analysis.is_doubtful)
    chosen_by = "" if analysis.selection is None else analysis.selection.criterion
    if n_doubtful > LIMITS.much_doubt * analysis.n_rows and chosen_by != "icl":
        share = f"{n_doubtful / analysis.n_rows:.0%}"
        text = f"Clusters overlap: {share} of the rows are in doubt. Prefer separate ones:"
        steps.append(Step(text, provenance.command_with(k="auto", criterion="icl")))
    steps += _of_columns(analysis, provenance)
    steps.append(Step("Assign new rows to these clusters:", provenance.prediction))
    return [step for step in steps if step.command or not step.text.endswith(":")]


def _set_aside(text: str, analysis: Analysis, provenance: Provenance) -> Step:
    """Return a step that allows for noise, which needs complete rows."""
    is_complete = not np.any(analysis.n_missing)
    return Step(text, provenance.command_with(noise=True, drop_missing=not is_complete))


def _of_columns(analysis: Analysis, provenance: Provenance) -> list[Step]:
    """Return what may be done about columns that do not separate clusters, and about those left out."""
    steps = []
    mixture = analysis.clusters
    is_used = mixture.separation > LIMITS.least_share
    used = [name for name, is_in in zip(analysis.names, is_used.tolist(), strict=True) if is_in]
    others = [name for name in analysis.names if name not in used]
    if others and len(mixture.means) > 1 < len(used) <= LIMITS.named_columns:
        noun, verb = ("Column", "differs") if len(others) == 1 else ("Columns", "differ")
        text = f"{noun} {join_names(others)} hardly {verb} between clusters. "
        steps.append(
            Step(
                f"{text}Leave {'it' if len(others) == 1 else 'them'} out:",
                provenance.command_with(columns=used),
            )
        )
    if provenance.categories:
        text = (
            f"Not used: {join_names(list(provenance.categories))}. To cluster by such a column, replace it "
            "by one column of 0 and 1 for each of its values."
        )
        steps.append(Step(text))
    return steps


def tails_sentence(tails: Sequence[str]) -> str:
    """Return what to do about columns with long tails."""
    return (
        f"{'Column' if len(tails) == 1 else 'Columns'} {join_names(tails)} "
        f"{'has' if len(tails) == 1 else 'have'} a long tail, which clusters may "
        "follow. Replace the values by their logarithms and fit again."
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
