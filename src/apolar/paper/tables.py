"""Tables of one data set: the scores of each method, with those that the paper prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apolar.paper.methods import METHODS, Clustering, Task, n_parameters, timed
from apolar.paper.printed import TABLES, PrintedTable
from apolar.paper.tasks import task_of
from apolar.scores import mclust_bic

COLUMNS = (
    "method",
    "bic",
    "ari",
    "error_rate",
    "time_s",
    "paper_bic",
    "paper_ari",
    "paper_error_rate",
    "paper_time_s",
)
COUNT_COLUMNS = ("method", "paper_bic", "bic_printed_count", "bic_right_count")

Cell = str | float | None
MethodCallback = Callable[[str], None]
"""Called with the name of the method that is run next."""


@dataclass(frozen=True, eq=False)
class ComparedTable:
    """The results of all methods on one data set.

    Attributes
    ----------
    label : str
    task : Task
    seed : int
    results : dict of str to Clustering
        By method, in the order of the table.
    """

    label: str
    task: Task
    seed: int
    results: dict[str, Clustering]

    @property
    def printed(self) -> PrintedTable:
        """What the paper prints."""
        return TABLES[self.label]

    def records(self) -> list[dict[str, Cell]]:
        """Return one row per method; None where the paper has no value."""
        rows: list[dict[str, Cell]] = []
        for method, ours in self.results.items():
            theirs = self.printed.rows.get(method)
            rows.append(
                {
                    "method": method,
                    "bic": ours.bic,
                    "ari": ours.ari,
                    "error_rate": ours.error_rate,
                    "time_s": ours.time_s,
                    "paper_bic": theirs.bic if theirs else None,
                    "paper_ari": theirs.ari if theirs else None,
                    "paper_error_rate": theirs.error_rate if theirs else None,
                    "paper_time_s": theirs.time_s if theirs else None,
                }
            )
        return rows

    def counts(self) -> list[dict[str, Cell]]:
        """Return each BIC with the paper's number of parameters and with the right one.

        Empty where the two numbers are the same.
        """
        wrong = self.printed.n_parameters
        if wrong is None:
            return []
        rows: list[dict[str, Cell]] = []
        for method, ours in self.results.items():
            theirs = self.printed.rows.get(method)
            rows.append(
                {
                    "method": method,
                    "paper_bic": theirs.bic if theirs else None,
                    "bic_printed_count": mclust_bic(ours.log_likelihood, wrong, len(self.task.X)),
                    "bic_right_count": ours.bic,
                }
            )
        return rows

    @property
    def right_count(self) -> int:
        """The number of parameters of the model."""
        return n_parameters(self.task)


def compared(label: str, seed: int = 0, callback: MethodCallback | None = None) -> ComparedTable:
    """Run every method on the data of a table.

    Parameters
    ----------
    label : str
        Of a table of one data set.
    seed : int, default=0
        Of what is drawn at random: simulated rows, and the starts.
    callback : callable, optional
        Called with the name of the method that is run next.

    Returns
    -------
    table : ComparedTable
    """
    task = task_of(label, seed)
    results = {}
    for method in METHODS:
        if callback is not None:
            callback(method)
        results[method] = timed(method, task, seed)
    return ComparedTable(label, task, seed, results)
