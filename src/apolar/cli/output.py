"""Output files, which are all written, or none of them."""

import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from apolar.cli.console import BadInput

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
        with self._refuse_to_write(f"to {self.folder}"):
            for path in reversed(missing):
                path.mkdir()
                self._made.append(path)
            probe = self.folder / f".{uuid.uuid4().hex}.part"
            probe.touch()
            probe.unlink()
        return self

    @contextmanager
    def _refuse_to_write(self, what: str) -> Iterator[None]:
        """Turn an error of the system into what the user can do, and leave nothing behind."""
        try:
            yield
        except OSError as error:
            self._clean()
            reason = error.strerror or str(error)
            raise BadInput(
                f"Cannot write {what}: {reason}. Nothing was changed. Choose another -o."
            ) from error

    def add(self, name: str, write: Callable[[Path], None]) -> Path:
        """Write a file under a temporary name; return where it will be."""
        from apolar._core.files import new_part, real_path

        target = self.folder / name
        with self._refuse_to_write(f"{target}"):
            real = real_path(target)
            if real.exists() and not real.is_file():
                what = "a folder" if real.is_dir() else "not a plain file"
                raise BadInput(f"Cannot write {target}: it is {what}. Choose another -o.")
            if real in self._reads:
                raise BadInput(f"Output file {target} is also an input; choose another -o.")
            self._parts[real] = part = new_part(real)
            write(part)
        return target

    def add_lines(self, name: str, lines: Iterable[str]) -> Path:
        """Write lines of text."""
        return self.add(name, lambda part: _write_lines(part, lines))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._clean()
            return
        with self._refuse_to_write(f"to {self.folder}"):
            self._publish()

    def _publish(self) -> None:
        """Rename all files to their final names; if one fails, restore those that were there before."""
        from apolar._core.files import replace_by_part

        backups: dict[Path, Path] = {}
        done: list[Path] = []
        try:
            for target in (*self._parts, *self._stale()):
                if target.exists():
                    backups[target] = target.with_name(f".{uuid.uuid4().hex}.kept")
                    _back_up(target, backups[target], keep=target in self._parts)
                if target in self._parts:
                    replace_by_part(self._parts[target], target)
                    done.append(target)
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
        with suppress(OSError):  # somebody else may have put a file there
            for path in reversed(self._made):
                path.rmdir()


def _is_result(path: Path) -> bool:
    """Return whether a file with the name of a result was written by a fit."""
    try:
        with path.open("rb") as file:
            head = file.read(_LOOKED_AT)
            file.seek(max(path.stat().st_size - len(PAGE_MARK), 0))
            return _RESULTS[path.name].search(file.read() if path.suffix == ".html" else head) is not None
    except OSError:
        return False


def _back_up(target: Path, name: Path, *, keep: bool) -> None:
    """Give a file a second name; rename it if it is not to be kept, or the file system has no links."""
    if keep:
        with suppress(OSError):
            os.link(target, name)
            return
    os.replace(target, name)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    from apolar._core.files import flush_to_disk

    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.writelines(lines)
        flush_to_disk(file)
