"""The result of a selection: a table of candidates, and the reason for the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from apolar._core.display import html_table, text_table
from apolar.estimator import GaussianMixture
from apolar.estimator.cluster_merging import Combination
from apolar.scores import CRITERIA, criterion_title

__all__ = ["Row", "Selection", "ranked_rows", "reason"]

# What to call the evidence of a difference of the criterion of at least this size [kass1995, section 3.2].
EVIDENCE = (
    (10.0, "very strong evidence"),
    (6.0, "strong evidence"),
    (2.0, "positive evidence"),
    (0.0, "weak evidence"),
)

# With more candidates than this, only the best are printed.
MAX_PRINTED = 40
PRINTED_OF_MANY = 15


@dataclass(frozen=True)
class Row:
    """One candidate of a selection.

    Attributes
    ----------
    covariance_type : str
    n_components : int
    n_parameters : int
    log_likelihood : float
        Of all rows together; this and the criteria are NaN if the candidate failed.
    bic, aic, icl : float
        Lower is better.
    evidence : float
        Minus twice the log-evidence: lower is better here too.
    loo : float
        Minus twice the log-likelihood of rows left out: lower is better here too.
    converged : bool
    start : str
        The start that won: one of the estimator's, or "split of" or "merger of" a neighbour.
    seconds : float
        The time of all its fits.
    failed : str or None
        Why the candidate is not in the running: it could not be fitted, or collapsed.
    warnings : tuple of str
        The warnings of the fit.
    dropped : str or None
        Why the candidate was not fitted: a bound on its criterion, from a family that contains it.
    n_samples : float
        The weight of the rows.
    distribution : {"gaussian", "t"}
        Of the components.
    """

    covariance_type: str
    n_components: int
    n_parameters: int
    log_likelihood: float = np.nan
    bic: float = np.nan
    aic: float = np.nan
    icl: float = np.nan
    evidence: float = np.nan
    loo: float = np.nan
    converged: bool = False
    start: str = ""
    seconds: float = 0.0
    failed: str | None = None
    warnings: tuple[str, ...] = ()
    dropped: str | None = None
    n_samples: float = np.nan
    distribution: str = "gaussian"

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of the candidate's model: its family and number of components, and "t" for long tails."""
        of_tails = () if self.distribution == "gaussian" else (self.distribution,)
        return (self.covariance_type, self.n_components, *of_tails)

    @property
    def is_fitted(self) -> bool:
        """Whether the candidate is in the running."""
        return self.failed is None and self.dropped is None

    @property
    def form(self) -> str:
        """The family, and "t" for long tails, such as "VEV, t"."""
        return self.covariance_type if self.distribution == "gaussian" else f"{self.covariance_type}, t"

    @property
    def named(self) -> str:
        """The candidate as text, such as "3 full components"."""
        of_tails = "" if self.distribution == "gaussian" else f"{self.distribution} "
        plural = "s" * (self.n_components > 1)
        return f"{self.n_components} {self.covariance_type} {of_tails}component{plural}"


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The result of `select`.

    Attributes
    ----------
    best : GaussianMixture
        The fitted mixture with the lowest criterion; with `criterion="loo"`, the one of fewest parameters
        that is within one standard error of it; with `criterion="clusters"`, the one of `clusters`.
    table : tuple of Row
        All candidates, in the order they were asked for.
    criterion : {"bic", "aic", "icl", "evidence", "loo"}
    reason : str
        What won, by how much, and what that means.
    models : mapping
        The fitted mixtures by (covariance_type, n_components), and with long tails by (covariance_type,
        n_components, "t"), without those that failed or were dropped.
    note : str
        How candidates were fitted, if not by maximum likelihood; part of the reason.
    clusters : Combination or None
        The components of the best mixture, combined into clusters, with `predict`; with
        `criterion="clusters"`.
    agreement : float or None
        The mean adjusted Rand index of these with the clusters of other families; NaN without others.
    """

    best: GaussianMixture
    table: tuple[Row, ...]
    criterion: str
    reason: str
    models: Mapping[tuple[Any, ...], GaussianMixture]
    note: str = ""
    clusters: Combination | None = None
    agreement: float | None = None

    @property
    def is_agreed(self) -> bool:
        """Whether the choice is that of clusters on which families agree, and not of the lowest criterion."""
        return self.agreement is not None and not np.isnan(self.agreement)

    @property
    def best_row(self) -> Row:
        """The row of the mixture that was chosen."""
        return next(row for row in self.table if self.models.get(row.key) is self.best)

    def _repr_html_(self) -> str:
        """Return the best candidates and the choice for notebooks."""
        shown = ranked_rows(self.table, self.criterion)[:PRINTED_OF_MANY]
        caption = self.reason if len(shown) == len(self.table) else f"{self.reason} {self._not_shown(shown)}"
        return html_table(_heads(), [self._cells(row) for row in shown], caption)

    def __repr__(self) -> str:
        heads, shown = _heads(), list(self.table)
        if len(shown) > MAX_PRINTED:
            shown = ranked_rows(self.table, self.criterion)[:PRINTED_OF_MANY]
        left = (0, len(heads) - 2, len(heads) - 1)
        lines = text_table(heads, [self._cells(row) for row in shown], left)
        if len(shown) < len(self.table):
            lines.append(self._not_shown(shown))
        return "\n".join([*lines, "", self.reason])

    def _not_shown(self, shown: list[Row]) -> str:
        """Return how many candidates are not printed, and why."""
        n_dropped = sum(row.dropped is not None for row in self.table)
        n_failed = sum(row.failed is not None for row in self.table)
        parts = {
            f"{len(self.table) - len(shown)} more candidates are in the table": True,
            f"{n_dropped} were not fitted, as a bound shows that they are not the best": n_dropped,
            f"{n_failed} failed": n_failed,
        }
        return "; ".join(text for text, is_said in parts.items() if is_said) + "."

    def _cells(self, row: Row) -> tuple[str, ...]:
        if not row.is_fitted:
            note = f"dropped: {row.dropped}" if row.failed is None else f"failed: {row.failed}"
            numbers = ["-"] * (1 + len(CRITERIA))
        else:
            values = [getattr(row, name) for name in ("log_likelihood", *CRITERIA)]
            numbers, note = [f"{value:.1f}" for value in values], "" if row.converged else "not converged"
        if row is self.best_row:
            is_simpler = row is not ranked_rows(self.table, self.criterion)[0]
            why = "simplest near the lowest" if is_simpler else f"lowest {criterion_title(self.criterion)}"
            why = "best agreement" if self.is_agreed else why
            note = f"<- {why}" + (f", {note}" if note else "")
        counts = (str(row.n_components), str(row.n_parameters))
        return (row.form, *counts, *numbers, row.start, note)

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame, one row per candidate."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: install it, or read the rows of .table.") from error
        return pandas.DataFrame([asdict(row) for row in self.table])


def _heads() -> tuple[str, ...]:
    """Return the heads of the printed table."""
    names = [criterion_title(name) for name in CRITERIA]
    return ("covariance", "components", "parameters", "log-likelihood", *names, "start", "")


def ranked_rows(table: Sequence[Row], criterion: str) -> list[Row]:
    """Return the candidates that were fitted, the best first; of equals, the one with fewer parameters."""
    fitted = [row for row in table if row.is_fitted]
    return sorted(fitted, key=lambda row: (getattr(row, criterion), row.n_parameters))


def _is_same(row: Row, other: Row) -> bool:
    """Return whether two candidates are one model by two names, as the families of one component are."""
    sizes = row.n_components, row.n_parameters
    is_close = abs(row.log_likelihood - other.log_likelihood) <= 1e-6 * (1 + abs(other.log_likelihood))
    return sizes == (1, other.n_parameters) and other.n_components == 1 and is_close


def reason(selection: Selection) -> str:
    """Return the sentences that say what won and by how much."""
    best, clusters = selection.best_row, selection.clusters
    text = _agreement(selection) if selection.is_agreed else _lowest(selection)
    numbers = [row.n_components for row in selection.table]
    for warning in best.warnings:
        text += f" But: {warning}"
    r, most, least = best.n_components, max(numbers), min(numbers)
    if most > least and r == most:
        text += f" No more than {r} were tried: try more."
    elif most > least and r == least > 1:
        text += f" No fewer than {r} were tried: try fewer."
    combined = clusters.sentence if clusters is not None and clusters.n_clusters < r else ""
    return " ".join(filter(None, [text, combined, selection.note]))


def _agreement(selection: Selection) -> str:
    """Return the sentences that say which family was chosen for its clusters."""
    n_families, named = len({row.form for row in selection.table if row.is_fitted}), selection.best_row.named
    return (
        f"Compared the clusters of {n_families} families, each with its best number of components by BIC. "
        f"Those of {named} agree best with the others (mean adjusted Rand index {selection.agreement:.2f})."
    )


def _lowest(selection: Selection) -> str:
    """Return the sentence that says by how much the lowest criterion is lower than the next."""
    criterion, (best, *rivals) = selection.criterion, ranked_rows(selection.table, selection.criterion)
    rivals, name = [row for row in rivals if not _is_same(row, best)], criterion_title(criterion)
    lowest = getattr(best, criterion)
    has = "has" if best.n_components == 1 else "have"
    text = f"{best.named} {has} the lowest {name}, {lowest:.1f}"
    if not rivals:
        return f"{text}: there is no other to compare with."
    difference = getattr(rivals[0], criterion) - lowest
    text += f", {difference:.1f} below {rivals[0].named}"
    chosen = selection.best_row
    if chosen is not best:
        are, higher = "is" if chosen.n_components == 1 else "are", getattr(chosen, criterion) - lowest
        text += (
            f". {chosen.named} {are} chosen: {higher:.1f} higher, within one standard error over the rows, "
            f"and with {chosen.n_parameters} parameters instead of {best.n_parameters}"
        )
    if criterion == "loo":
        return f"{text}."
    if best.n_parameters > best.n_samples:
        return f"{text}; with more parameters than rows, {name} is a poor guide."
    size = next(words for least, words in EVIDENCE if difference >= least)
    return f"{text}: {size} (Kass and Raftery 1995)."
