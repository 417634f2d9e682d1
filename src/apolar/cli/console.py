"""Bars and tables in the terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from apolar.cli.errors import escape

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

# The width in characters, if the output is not a terminal.
FILE_WIDTH = 110


def new_console(*, stderr: bool = False) -> Console:
    """Return a console that does not colour numbers, and is wide if the output is not a terminal."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, soft_wrap=not stderr)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


def line(text: str) -> Text:
    """Return a line of text in which neither brackets nor control characters have a meaning."""
    from rich.text import Text

    return Text(escape(text))


def new_grid(*names: str) -> Table:
    """Return an empty table with columns of numbers."""
    from rich import box
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        grid.add_column(line(name), justify="right", no_wrap=True)
    return grid


class Bar:
    """A progress bar on a terminal; silent if the output is not one."""

    def __init__(self) -> None:
        self.console = new_console(stderr=True)
        self.bar: Progress | None = None
        self.task: Any = None
        self._what, self._began, self._first = "", 0.0, 0

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self, what: str, total: float | None = None) -> None:
        """Show a bar for a step of the work; without a total, one that only moves."""
        self.end()
        if not self.console.is_terminal:
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = [TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[what]}")]
        self.bar = Progress(
            columns[0], BarColumn(), columns[1], TimeElapsedColumn(), console=self.console, transient=True
        )
        self.task = self.bar.add_task(what, total=total, what="")
        self.bar.start()

    def step(self, done: float | None, what: str = "") -> None:
        """Move the bar."""
        if self.bar is not None:
            self.bar.update(self.task, completed=done, what=what)

    def candidates(self, what: str, done: int, total: int) -> None:
        """Move the bar of candidates that are compared: how many are done, and how long the others take."""
        now = time.monotonic()
        if what != self._what:
            self.begin(what, total)
            self._what, self._began, self._first = what, now, done
        left = ""
        if self._first < done < total:
            seconds = (now - self._began) / (done - self._first) * (total - done)
            left = f", about {f'{seconds:.0f} s' if seconds < 90 else f'{seconds / 60:.0f} min'} left"
        self.step(done, f"{done} of {total} candidates{left}")

    def end(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
        self._what = ""
