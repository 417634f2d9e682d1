"""Files that appear together, whole, or not at all."""

import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from apolar.cli.errors import BadInput


class Output:
    """A folder that receives several files at the end.

    Each file is written under another name first; when all are complete they get their own names. On an error
    or an interruption those already there stay as they were, and nothing else is left.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._parts: dict[Path, Path] = {}
        self._made: list[Path] = []

    def __enter__(self) -> "Output":
        missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        try:
            for path in reversed(missing):
                path.mkdir()
                self._made.append(path)
            probe = self.folder / f".{uuid.uuid4().hex}.part"
            probe.touch()
            probe.unlink()
        except OSError as error:
            self._clean()
            raise BadInput(
                f"Cannot write to {self.folder}: {error.strerror or error}. Choose another -o."
            ) from error
        return self

    def add(self, name: str, write: Callable[[Path], None]) -> Path:
        """Write a file under a passing name; return where it will be."""
        target = self.folder / name
        part = self.folder / f".{uuid.uuid4().hex}{target.suffix}"
        self._parts[target] = part
        try:
            write(part)
        except OSError as error:
            raise BadInput(
                f"Cannot write {target}: {error.strerror or error}. Nothing was changed."
            ) from error
        return target

    def add_lines(self, name: str, lines: Iterable[str]) -> Path:
        """Write lines of text."""
        return self.add(name, lambda part: _write_lines(part, lines))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                for target, part in self._parts.items():
                    os.replace(part, target)
            except OSError as failed:
                self._clean()
                raise BadInput(f"Cannot write to {self.folder}: {failed.strerror or failed}.") from failed
            return
        self._clean()

    def _clean(self) -> None:
        for part in self._parts.values():
            part.unlink(missing_ok=True)
        for path in reversed(self._made):
            try:
                path.rmdir()
            except OSError:
                break


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)
