"""Scores of data sets, saved one by one, so that an interrupted study goes on where it stopped."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np

from apolar._core.arrays import Array

Key = tuple[int, int]
"""Repeat and simulation."""

SCORES = ("bic", "ari", "error_rate")
# Decimals of the numbers in the file: results are the same whether the scores were read or just computed.
DECIMALS = 6


class RunsFile:
    """A table of scores, one line per data set, each appended when it is done.

    Parameters
    ----------
    path : Path or None
        None to keep the scores in memory.
    what : str
        What the scores are of. A file with scores of something else is refused.
    methods : tuple of str

    Attributes
    ----------
    scores : dict of Key to ndarray
        Of each data set, shape (n_methods, 3): BIC, ARI, error rate.
    """

    def __init__(self, path: Path | None, what: str, methods: tuple[str, ...]) -> None:
        self.path, self.methods = path, methods
        columns = [f"{method}_{score}" for method in methods for score in SCORES]
        self.head = f"# {what}: one line a data set\n" + ",".join(["repeat", "simulation", *columns]) + "\n"
        self.scores: dict[Key, Array] = {}
        self._file: IO[str] | None = None
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is damaged: it is no text. Remove it to begin anew.") from error
        if not text.startswith(self.head):
            if self.head.startswith(text):  # interrupted while the head was written
                path.unlink()
                return
            raise ValueError(
                f"{path} holds scores of something else: it begins {text.splitlines()[0][:80]!r}, not "
                f"{self.head.splitlines()[0]!r}. Choose another folder, or remove the file to begin anew."
            )
        body = text[len(self.head) :]
        lines = body.splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # interrupted in the middle of a line
        for number, line in enumerate(lines, start=self.head.count("\n") + 1):
            try:
                numbers = line.rstrip("\n").split(",")
                key = int(numbers[0]), int(numbers[1])
                scores = np.array(numbers[2:], dtype=float).reshape(len(self.methods), len(SCORES))
                if not np.all(np.isfinite(scores)):
                    raise ValueError("not finite")
                self.scores[key] = scores
            except (ValueError, IndexError) as error:
                raise ValueError(
                    f"{path}, line {number}, is damaged: remove that line, and run again."
                ) from error
        n_bytes = sum(len(line.encode()) for line in lines) + len(self.head.encode())
        if n_bytes < path.stat().st_size:
            with path.open("r+b") as file:
                file.truncate(n_bytes)

    def __enter__(self) -> RunsFile:
        if self.path is not None:
            is_new = not self.path.exists()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a", encoding="utf-8", newline="\n")
            if is_new:
                self._write(self.head)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, key: Key, scores: Array) -> None:
        """Keep the scores of a data set, and save them."""
        self.scores[key] = scores
        self._write(",".join([*map(str, key), *(f"{score:.{DECIMALS}f}" for score in scores.ravel())]) + "\n")

    def _write(self, text: str) -> None:
        if self._file is not None:
            self._file.write(text)
            self._file.flush()
