"""Bars and tables in the terminal."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from apolar.cli.text import escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

# Columns of text where there is no terminal to ask.
FILE_WIDTH = 110


def new_console(*, stderr: bool = False) -> Console:
    """Return a console that does not colour numbers, and has room where there is no terminal."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, soft_wrap=not stderr)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


def line(text: str) -> Text:
    """Return one line of text as it is: neither its brackets nor its control characters mean anything."""
    from rich.text import Text

    return Text(escaped(text))


class Bar:
    """Shows on a terminal that something is going on, and how far; silent elsewhere."""

    def __init__(self) -> None:
        self.console = new_console(stderr=True)
        self.bar: Progress | None = None
        self.task: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def begin(self, what: str, total: float | None = None) -> None:
        """Show a bar for something; without a total, one that only moves."""
        self.end()
        if not self.console.is_terminal:
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.text import Text

        class Words(TextColumn):
            """The words beside the bar, as they are."""

            def render(self, task: Any) -> Text:
                return Text(str(task.fields["what"]))

        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), Words(""), TimeElapsedColumn()]
        if total:
            columns.append(TimeRemainingColumn())
        self.bar = Progress(*columns, console=self.console, transient=True)
        self.task = self.bar.add_task(what, total=total, what="")
        self.bar.start()

    def step(self, done: float | None, what: str = "") -> None:
        """Move the bar."""
        if self.bar is not None:
            self.bar.update(self.task, completed=done, what=what)

    def reading(self, done: int, total: int | None) -> None:
        """Move the bar of a file that is read."""
        if self.bar is None:
            return
        self.bar.update(self.task, completed=done, total=total, what=f"{done / 1e6:.0f} MB")

    def end(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
