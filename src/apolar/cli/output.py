"""Output files, which are all written, or none of them."""

import os
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType

import click

from apolar.cli.errors import BadInput

# The key, in the context of a command, of the files that have been written: a later error names them.
WRITTEN = "apolar.written"

# At the end of a page, so that it is known as one of ours.
PAGE_MARK = "<!-- written by apolar fit -->\n"
# How the results of a fit begin or end. Files of these names that do not are somebody else's.
_RESULTS = {
    "labels.csv": re.compile(rb"\A(file,)?row,cluster,probability[,\n]"),
    "outliers.csv": re.compile(rb"\A(file,)?row,cluster,distance[,\n]"),
    "report.html": re.compile(re.escape(PAGE_MARK.encode()) + rb"\Z"),
    "table.csv": re.compile(rb"\bcluster(_\d+)?[,;| ]p1(_\d+)?[,;| ].*outlier(_\d+)?\n"),
    "table.tsv": re.compile(rb"\bcluster(_\d+)?\tp1(_\d+)?\t.*outlier(_\d+)?\n"),
}
# Bytes at the beginning and at the end of a file by which it is known.
_LOOKED_AT = 2**16


class Output:
    """A folder that receives several files at the end.

    Each file is first written under a temporary name, and renamed when all are complete. On an error or an
    interruption, existing files stay as they were, and no other files are left.

    Parameters
    ----------
    folder : Path
    reads : sequence of str
        Files that the command reads, which must not be replaced.
    is_fit : bool, default=False
        Whether the files are the results of a fit: those of an earlier one that this one does not write are
        then removed from the folder, at the same moment. Files that apolar did not write stay.
    """

    def __init__(self, folder: Path, *, reads: Sequence[str] = (), is_fit: bool = False) -> None:
        self.folder, self.is_fit = folder, is_fit
        self._reads = [Path(name).resolve() for name in reads if name != "-"]
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
        """Write a file under a temporary name; return where it will be."""
        from apolar._core.files import new_part, real_path

        target = self.folder / name
        try:
            real = real_path(target)
        except OSError as error:
            raise BadInput(str(error)) from error
        if real.exists() and not real.is_file():
            what = "a folder" if real.is_dir() else "not a plain file"
            raise BadInput(f"Cannot write {target}: it is {what}. Choose another -o.")
        if real in self._reads:
            raise BadInput(f"Output file {target} is also an input; choose another -o.")
        try:
            self._parts[real] = part = new_part(real)
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
                self._publish()
            except OSError as failed:
                self._clean()
                raise BadInput(
                    f"Cannot write to {self.folder}: {failed.strerror or failed}. Nothing was changed."
                ) from failed
            return
        self._clean()

    def _publish(self) -> None:
        """Rename all files to their final names; if one fails, restore those that were there before."""
        from apolar._core.files import replace_by_part

        backups: dict[Path, Path] = {}
        done: list[Path] = []
        try:
            for target, part in self._parts.items():
                if target.exists():
                    backups[target] = target.with_name(f".{uuid.uuid4().hex}.kept")
                    _back_up(target, backups[target])
                replace_by_part(part, target)
                done.append(target)
            for target in self._stale():
                backups[target] = target.with_name(f".{uuid.uuid4().hex}.kept")
                os.replace(target, backups[target])
        except BaseException:
            for target in done:
                target.unlink(missing_ok=True)
            for target, old in backups.items():
                os.replace(old, target)
                old.unlink(missing_ok=True)  # two names of one file: replacing one by the other does nothing
            raise
        for old in backups.values():
            old.unlink(missing_ok=True)
        context = click.get_current_context(silent=True)
        if context is not None:
            context.meta.setdefault(WRITTEN, []).extend(map(str, done))

    def _stale(self) -> list[Path]:
        """Return the files of an earlier fit that are not written again."""
        if not self.is_fit:
            return []
        paths = [self.folder / name for name in _RESULTS]
        return [
            path
            for path in paths
            if path.is_file()
            and not path.is_symlink()
            and path.resolve() not in (*self._parts, *self._reads)
            and _is_result(path)
        ]

    def _clean(self) -> None:
        for part in self._parts.values():
            part.unlink(missing_ok=True)
        for path in reversed(self._made):
            try:
                path.rmdir()
            except OSError:
                break


def _is_result(path: Path) -> bool:
    """Return whether a file with the name of a result was written by a fit."""
    try:
        with path.open("rb") as file:
            head = file.read(_LOOKED_AT)
            file.seek(max(path.stat().st_size - len(PAGE_MARK), 0))
            return _RESULTS[path.name].search(file.read() if path.suffix == ".html" else head) is not None
    except OSError:
        return False


def _back_up(target: Path, name: Path) -> None:
    """Give a file a second name; if the file system has no links, rename it."""
    try:
        os.link(target, name)
    except OSError:
        os.replace(target, name)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    from apolar._core.files import flush_to_disk

    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.writelines(lines)
        flush_to_disk(file)
