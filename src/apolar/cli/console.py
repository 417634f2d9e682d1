"""What a person sees in the terminal: lines that cannot steer it, errors, bars and tables."""

from __future__ import annotations

import difflib
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar._core.display import count_noun as count_noun
from apolar.exceptions import ColumnError, ComponentError

if TYPE_CHECKING:
    from rich.console import Console

# The width in characters, if the output is not a terminal; and what the name of a column may take of it.
FILE_WIDTH = 110
NAME_WIDTH = 15
# How often a line tells the progress, if the output is not a terminal.
SECONDS_OF_LINE = 10.0
# The bundled tables, and the column of each that holds known classes.
EXAMPLES = {"iris": "species", "olive": "area", "diabetes": "class"}


# --- errors ---------------------------------------------------------------------------------------


class TableError(ValueError):
    """A problem with the user's file or request; its message is one line that names the remedy."""


class BadInput(click.ClickException):
    """Bad input: one line, whatever names and strings of files are in it, and exit code 2."""

    exit_code = 2

    def format_message(self) -> str:
        """Return the line."""
        return escape(self.message)


class Interrupted(BadInput):
    """Interrupted by the user; the message says what was saved: one line, exit code 130."""

    exit_code = 130


def error_message(error: BaseException) -> str:
    """Return what the command line says about an error of the library."""
    if isinstance(error, ComponentError):
        return f"Cluster {error.component + 1} {error.problem}"
    if isinstance(error, ColumnError):
        return f"{error} Columns are chosen with --columns."
    if isinstance(error, OSError):
        return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}."
    return str(error) or "There is not enough memory: take fewer rows or columns."


def not_found(path: Path) -> str:
    """Return what is said about a file that is not there: perhaps one of a similar name is."""
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder {shown_path(folder)}: check the name."
    if path.suffix == ".csv" and path.stem in EXAMPLES:
        return f"There is no file {shown_path(path)}: `apolar example {path.stem}` writes one."
    # A link that leads nowhere is listed too.
    others = [other.name for other in folder.glob("*") if other.exists()]
    close = difflib.get_close_matches(path.name, others, n=3, cutoff=0.7)
    guess = f"did you mean {' or '.join(repr(str(folder / other)) for other in close)}?" if close else ""
    return f"There is no file {shown_path(path)}: {guess or 'check the name and the folder.'}"


# --- lines ----------------------------------------------------------------------------------------


def escape(text: str) -> str:
    """Return text in which control characters have no effect, on one line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def escape_lines(text: str) -> str:
    """Return lines of text in which control characters have no effect."""
    return "\n".join(map(escape, text.split("\n")))


def shown_path(path: Path) -> str:
    """Return a path on one line."""
    return str(path) if str(path).isprintable() else repr(str(path))


def quote(text: str) -> str:
    """Return a string from a file in quotes, shortened, on one line."""
    return repr(text if len(text) <= 40 else f"{text[:39]}…")


# --- consoles -------------------------------------------------------------------------------------


def new_console(*, stderr: bool = False) -> Console:
    """Return a console that does not colour numbers; without a terminal, as wide as COLUMNS says."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, soft_wrap=not stderr)
    if not console.is_terminal:
        width = os.environ.get("COLUMNS", "")
        console.width = int(width) if width.isdecimal() and int(width) > 0 else FILE_WIDTH
    return console


def say(*texts: str, err: bool = False) -> None:
    """Print lines that cannot steer a terminal; leave out empty ones."""
    for text in filter(None, texts):
        print(escape(text), file=sys.stderr if err else sys.stdout)


def print_object(answer: dict[str, Any]) -> None:
    """Print an object as JSON."""
    click.echo(json.dumps(answer, allow_nan=False))


def as_number(value: Any) -> Any:
    """Return a number as JSON has it: a pair [real, imaginary] if it is complex, null if it is not finite."""
    if isinstance(value, complex):
        return [value.real, value.imag]
    return float(value) if math.isfinite(value) else None


def show_grid(
    fixed: Mapping[str, Sequence[str]],
    others: Mapping[str, Sequence[str]],
    separation: Sequence[float] | None = None,
) -> None:
    """Print a table with the fixed columns, and as many of the others as the terminal has room for.

    If not all have room, those come first that separate the clusters best.

    Parameters
    ----------
    fixed, others : dict of sequences of str
        The cells of columns by their names.
    separation : sequence of float, optional
        How much each of the others separates the clusters.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console = new_console()

    def width(column: tuple[str, Sequence[str]]) -> int:
        name, cells = column
        return max(*map(len, cells), min(len(name), NAME_WIDTH))

    columns, shown = list(fixed.items()), list(others.items())
    room = console.width - sum(width(column) + 2 for column in columns)  # a space on each side
    if sum(width(column) + 2 for column in shown) > room:
        if separation is not None:
            shown = [shown[j] for j in sorted(range(len(shown)), key=lambda j: -separation[j])]
        ends = itertools.accumulate(width(column) + 2 for column in shown)
        shown = shown[: max(1, sum(end + len(" ... ") <= room for end in ends))]
    is_cut = len(shown) < len(others)
    columns += [*shown, *[("...", ["..."] * len(columns[0][1]))] * is_cut]
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        grid.add_column(Text(escape(column[0])), justify="right", no_wrap=True, max_width=width(column))
    for row in zip(*(cells for _, cells in columns), strict=True):
        grid.add_row(*(Text(escape(cell)) for cell in row))
    console.print(grid)
    if is_cut:
        which = "" if separation is None else ", those that separate the clusters best"
        say(f"Shown: {len(shown)} of {len(others)} columns{which}.")


class Bar(AbstractContextManager["Bar"]):
    """A progress bar on a terminal; if the output is not one, a line on stderr every ten seconds."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        console = new_console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.what, self.began, self.n_lines = "", time.monotonic(), 0

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self, what: str, total: float | None = None) -> None:
        """Show a bar for a step of the work; without a total, one that only moves."""
        self.end()
        self.what = what
        self.progress.add_task(what, total=total, note="")
        self.progress.start()

    def step(self, done: float | None, note: str, **changes: Any) -> None:
        """Move the bar."""
        self.progress.update(self.progress.task_ids[0], completed=done, note=note, **changes)
        what, seconds = changes.get("description", self.what), time.monotonic() - self.began
        if self.progress.disable and seconds >= SECONDS_OF_LINE * (self.n_lines + 1):
            self.n_lines = int(seconds / SECONDS_OF_LINE)
            click.echo(f"{what}: {note}, {seconds:.0f} s", err=True)

    def passes(self, done: float, expected: float) -> None:
        """Move the bar of the passes of one fit."""
        self.step(done, f"{done:.0f} of about {expected:.0f} passes", total=expected)

    def candidates(self, what: str, done: int, total: int) -> None:
        """Move the bar of candidates that are compared."""
        self.step(done, f"{done} of {total} candidates", description=what, total=total)

    def end(self) -> None:
        """Remove the bar."""
        self.progress.stop()
        for task in self.progress.task_ids:
            self.progress.remove_task(task)
