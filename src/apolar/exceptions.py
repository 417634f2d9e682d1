"""The warnings of the library, by class, so that they can be filtered, and errors that say where."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "ApolarWarning",
    "CheckpointWarning",
    "CollapsedWarning",
    "ColumnError",
    "ColumnWarning",
    "ComponentError",
    "DisagreementWarning",
    "EmptyComponentWarning",
    "FarRowsWarning",
    "FewRowsWarning",
    "LongTailsWarning",
    "RowError",
    "SkippedStartWarning",
]


def join_names(members: Sequence[str], most: int = 5) -> str:
    """Return members as "a, b and c", or "a, b and 7 more" if they are many."""
    shown = list(members[:most])
    n_more = len(members) - len(shown)
    last = f"{n_more:,} more" if n_more else shown.pop()
    return f"{', '.join(shown)} and {last}" if shown else last


def warn_user(message: str | Warning, category: type[Warning] | None = None) -> None:
    """Warn at the line outside of apolar, and of scikit-learn's wrappers, that the call came from."""
    frame, level, inside = inspect.currentframe(), 0, ("apolar", "sklearn")
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level + 1)


def is_hidden(category: type[Warning]) -> bool:
    """Return whether the filters of warnings hide all of a category: then nothing is computed for it."""
    for action, message, about, module, line in warnings.filters:
        is_ignored = action == "ignore"
        if issubclass(category, about) and not (is_ignored and (message or module or line)):
            return is_ignored
    return False


class ApolarWarning(UserWarning):
    """The base of all warnings of apolar."""


class CheckpointWarning(ApolarWarning):
    """A checkpoint could not be written; the fit continues."""


class CollapsedWarning(ApolarWarning):
    """A component is without spread in some direction."""


class ColumnWarning(ApolarWarning):
    """A column is constant: clusters do not depend on it, but criteria such as BIC count its parameters.

    It is shown where filters of warnings ask for it.
    """


class DisagreementWarning(ApolarWarning):
    """Another optimum is nearly as good, and assigns the rows differently.

    It is about the rows, not the fit, and is shown in the report and where filters of warnings ask for it:
    `warnings.simplefilter("default", apolar.exceptions.DisagreementWarning)`.
    """


class LongTailsWarning(ApolarWarning):
    """The tails of the components are longer than Gaussian ones: `StudentMixture` has such components.

    It is about the rows, and shown where filters of warnings ask for it.
    """


# The last of all filters, so that any other one decides.
for about_rows in (ColumnWarning, DisagreementWarning, LongTailsWarning):
    warnings.simplefilter("ignore", about_rows, append=True)


class EmptyComponentWarning(ApolarWarning):
    """A component holds less than one row."""


class FarRowsWarning(ApolarWarning):
    """Rows are so far from all others that they do not count in the scale of the columns.

    Parameters
    ----------
    rows : sequence of int
        Their numbers, from zero.
    """

    def __init__(self, rows: Sequence[int]) -> None:
        super().__init__(rows)
        self.rows = tuple(rows)

    def __str__(self) -> str:
        return self.counted_from(0)

    def counted_from(self, first: int) -> str:
        """Return the message with rows counted from `first`."""
        rows, are = ("Rows", "are") if len(self.rows) > 1 else ("Row", "is")
        numbers = join_names([str(row + first) for row in self.rows])
        return (
            f"{rows} {numbers} {are} more than 100 standard deviations away from the other rows in some "
            "column. Remove such rows if they are errors or codes for missing values, or fit with noise to "
            "set them aside."
        )


class FewRowsWarning(ApolarWarning):
    """There are fewer rows than parameters, or a component holds fewer rows than columns."""


class SkippedStartWarning(ApolarWarning):
    """The start that was asked for could not be made, and another took its place."""


@dataclass(eq=False)
class ColumnError(ValueError):
    """A column cannot be used.

    Parameters
    ----------
    column : int or str
        Its number, from zero, or its name.
    problem : str
        The message after the column: "is constant: leave it out."
    """

    column: int | str
    problem: str

    def __str__(self) -> str:
        return f"Column {self.column!r} {self.problem}"

    def with_name(self, names: Sequence[str]) -> ColumnError:
        """Return the error with the column by its name."""
        return self if isinstance(self.column, str) else ColumnError(names[self.column], self.problem)


@dataclass(eq=False)
class ComponentError(ValueError):
    """A component does not allow what was asked for.

    Messages count clusters from 1, as pages and files do; attributes of Python count from zero.

    Parameters
    ----------
    component : int
        Its number, from zero.
    problem : str
        The message after the component: "holds no rows: ask for fewer components."
    """

    component: int
    problem: str

    def __str__(self) -> str:
        return f"Cluster {self.component + 1} (means_[{self.component}]) {self.problem}"


@dataclass(eq=False)
class RowError(ValueError):
    """A row cannot be used.

    Parameters
    ----------
    row : int
        Its number, from zero.
    message : str
        With `{row}` where it names the row.
    """

    row: int
    message: str

    def __str__(self) -> str:
        return self.message.replace("{row}", str(self.row))
