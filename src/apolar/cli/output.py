"""Files of results: labels of rows, tables with their labels, lists; all are written, or none of them."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import BadInput, count_noun, escape
from apolar.exceptions import join_names

if TYPE_CHECKING:
    import polars as pl

    from apolar import GaussianMixture
    from apolar.cli.tables import TableFile
    from apolar.reports.scoring import TableScores

# The key, in the context of a command, of the files that have been written: a later error names them.
WRITTEN = "apolar.written"
# Decimals of a probability in a file.
DECIMALS = 6
# A spreadsheet takes text that begins so for a formula, but numbers and single signs.
_FORMULA = r"\A[=+\-@\t\r\n＝＋－＠]"  # noqa: RUF001
_NO_FORMULA = re.compile(r"[+-]?(\d[\d., ]*|\.\d+|inf(inity)?|nan)?(e[+-]?\d+)?%?", re.IGNORECASE)
# What steers a terminal, but line ends and tabs.
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"

# At the top of a page, so that it is known as one of ours.
PAGE_MARK = "<!-- written by apolar fit -->\n"
# The first lines of the results of a fit. Files of these names that do not are somebody else's.
_RESULTS = {
    "labels.csv": rb"\A(file,)?row,(id,)?cluster,probability[,\n]",
    "outliers.csv": rb"\A(file,)?row,(id,)?cluster,distance[,\n]",
    "report.html": re.escape(PAGE_MARK.encode()),
    "table.csv": rb"\bcluster(_\d+)?[,;| ]p1(_\d+)?[,;| ].*outlier(_\d+)?\n",
    "table.tsv": rb"\bcluster(_\d+)?\tp1(_\d+)?\t.*outlier(_\d+)?\n",
}


class Output:
    """A folder that receives several files at the end.

    Each file is first written under a temporary name, and renamed when all are complete. On an error or an
    interruption, existing files stay as they were, and no other files are left.

    Parameters
    ----------
    folder : Path
    reads : sequence of str
        Files that the command reads, which must not be replaced.
    is_fit : bool
        Whether the results of an earlier fit in the folder go, unless they are written again.
    """

    def __init__(self, folder: Path, reads: Sequence[str] = (), *, is_fit: bool = False) -> None:
        self.folder, self.is_fit = folder, is_fit
        self._reads = {Path(path).resolve() for path in reads}
        self._parts: dict[Path, Path] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Output:
        from apolar._core.files import new_part

        missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        with self._refuse_to_write(f"to {self.folder}"):
            for path in reversed(missing):
                path.mkdir()
                self._undo.callback(_remove_empty, path)
            new_part(self.folder / "probe").unlink()
        return self

    @contextmanager
    def _refuse_to_write(self, what: str) -> Iterator[None]:
        """Turn an error of the system into what the user can do, and leave nothing behind."""
        try:
            yield
        except OSError as error:
            self._undo.close()
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
            self._undo.callback(part.unlink, missing_ok=True)
            write(part)
        return target

    def add_lines(self, name: str, lines: Iterable[str]) -> Path:
        """Write lines of text."""
        from apolar._core.files import flush_to_disk

        def write(part: Path) -> None:
            with part.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                file.writelines(lines)
                flush_to_disk(file)

        return self.add(name, write)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._undo:
            if kind is None:
                with self._refuse_to_write(f"to {self.folder}"):
                    self._publish()
                self._undo.pop_all()

    def _publish(self) -> None:
        """Rename all files to their final names; if one fails, restore those that were there before."""
        from apolar._core.files import replace_by_part

        stale = self._stale()
        with ExitStack() as copies, ExitStack() as restore:
            for target in (*self._parts, *stale):
                if target.exists():
                    copy = _keep(target)
                    copies.callback(copy.unlink, missing_ok=True)
                    restore.callback(os.replace, copy, target)
                else:
                    restore.callback(target.unlink, missing_ok=True)
            for target, part in self._parts.items():
                replace_by_part(part, target)
            for target in stale:
                target.unlink()
            restore.pop_all()
        context = click.get_current_context(silent=True)
        if context is not None:
            context.meta.setdefault(WRITTEN, []).extend(map(str, self._parts))

    def _stale(self) -> list[Path]:
        """Return the files of an earlier fit that are not written again."""
        paths = [self.folder / name for name in _RESULTS] if self.is_fit else []
        return [
            path for path in paths if path.resolve() not in (*self._parts, *self._reads) and _is_result(path)
        ]


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # somebody else may have put a file there
        folder.rmdir()


def _keep(target: Path) -> Path:
    """Give a file a second name, or a copy where the file system has no links; return its path."""
    copy = target.with_name(f".{uuid.uuid4().hex}.kept")
    try:
        os.link(target, copy)
    except OSError:
        shutil.copy2(target, copy)
    return copy


def _is_result(path: Path) -> bool:
    """Return whether a file with the name of a result was written by a fit."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return re.search(_RESULTS[path.name], file.readline()) is not None


# --- labels ---------------------------------------------------------------------------------------


def label_frames(model: GaussianMixture, table: TableFile, scores: TableScores) -> Iterator[pl.DataFrame]:
    """Yield the number, cluster, probability, mark and all probabilities of rows, a chunk at a time.

    Rows and clusters are counted from 1; noise is -1. Probabilities are those of a row that is of the
    mixture: they say nothing of an outlier, which has its mark. They are missing for a row so far away that
    they cannot be computed.
    """
    import numpy as np
    import polars as pl

    from apolar.reports.scoring import CHUNK

    n_clusters = scores.posteriors.shape[1] - (model.noise_box_ is not None)
    names = [f"p{k + 1}" for k in range(n_clusters)] + ["p_noise"] * (model.noise_box_ is not None)
    files = np.array(
        [name.encode("utf-8", "backslashreplace").decode() for name in table.files], dtype=object
    )
    clusters = scores.predicted + (scores.predicted >= 0)
    for start in range(0, scores.n_rows, CHUNK):
        part = slice(start, start + CHUNK)
        posteriors = scores.posteriors[part]
        columns = {"file": files[table.file_of_rows[part]]} if len(files) > 1 else {}
        columns |= {
            "row": table.row_numbers[part] + 1,
            **({} if table.ids is None else {"id": table.ids[part]}),
            "cluster": clusters[part],
            "probability": posteriors.max(axis=1),
            "outlier": np.where(scores.outliers[part], "yes", "no"),
            **dict(zip(names, posteriors.T, strict=True)),
        }
        yield pl.DataFrame(columns).fill_nan(None)


def label_lines(frames: Iterable[pl.DataFrame]) -> Iterator[str]:
    """Yield labels as CSV."""
    from polars import selectors

    return csv_text(frame.with_columns(selectors.float().round(DECIMALS)) for frame in frames)


def csv_text(
    frames: Iterable[pl.DataFrame], names: Sequence[str] | None = None, **style: Any
) -> Iterator[str]:
    """Yield frames as CSV with one header: names that may be repeated, or those of the frames.

    Names and cells of text are harmless in spreadsheets and terminals.
    """
    import polars as pl
    from polars import selectors

    for i, frame in enumerate(frames):
        if i == 0:
            header = pl.DataFrame({f"{j}": [harmless(name)] for j, name in enumerate(names or frame.columns)})
            yield header.write_csv(include_header=False, **style)
        # Most columns have nothing to change, which costs one search in each.
        texts = frame.select(selectors.string(include_categorical=True).cast(pl.String))
        risky = [column for column in texts if column.str.contains(f"{_FORMULA}|{_CONTROL}").any()]
        changed = [column.map_elements(harmless, pl.String) for column in risky]
        yield frame.with_columns(changed).write_csv(include_header=False, **style)


def harmless(text: str) -> str:
    """Return text that no spreadsheet calculates, after an apostrophe, with control characters written out.

    >>> harmless("=1+1"), harmless("-1.5"), harmless("a\\x1b[31m")
    ("'=1+1", '-1.5', 'a\\\\x1b[31m')
    """
    text = re.sub(_CONTROL, lambda found: escape(found[0]), text)
    return f"'{text}" if re.match(_FORMULA, text) and not _NO_FORMULA.fullmatch(text) else text


# --- the table with its labels --------------------------------------------------------------------


def check_rereadable(sources: Sequence[str]) -> None:
    """Refuse what can be read only once."""
    if any(source == "-" or not (Path(source).is_file() or Path(source).is_dir()) for source in sources):
        raise BadInput("--append reads the table twice: give it as a file, not as a stream.")


def appended_text(
    sources: Sequence[str],
    model: GaussianMixture,
    table: TableFile,
    scores: TableScores,
    reading: dict[str, Any],
) -> Iterator[str]:
    """Yield the text of a table with the columns cluster, p1, p2, ..., outlier at the right.

    All columns and rows of the files are kept, in their order. Rows that were left out have nothing in the
    new cells.

    Parameters
    ----------
    sources : sequence of str
        The paths of the files of the table, which are read again.
    model : GaussianMixture
    table : TableFile
    scores : TableScores
    reading : dict
        How the files were read: parameters of `read_table`.
    """
    import numpy as np
    import polars as pl
    from polars import selectors

    from apolar.cli.tables.formats import READING, expand_folders, open_table

    options = {name: reading[name] for name in READING}
    # CSV has no cells of other types.
    as_text = (selectors.nested() | selectors.binary()).map_elements(str, pl.String)
    labels = pl.concat(label_frames(model, table, scores))
    every = pl.DataFrame({"row": np.arange(1, len(table.X) + table.n_dropped + 1)})
    labels = every.join(labels, on="row", how="left", maintain_order="left")
    labels = labels.select(selectors.exclude("file", "row", "id", "probability", "outlier"), "outlier")
    labels = labels.with_columns(selectors.float().round(DECIMALS))
    first_layout: list[str] = []
    n_rows = 0

    def append(frame: pl.DataFrame) -> pl.DataFrame:
        nonlocal n_rows
        beside = labels[n_rows : n_rows + len(frame)]
        n_rows += len(frame)
        frame.columns = [f"column {i}" for i in range(frame.width)]
        return pl.concat([frame.with_columns(as_text), beside], how="horizontal")

    for source in expand_folders(sources):
        with open_table(source, **options) as content:
            names, separator = [column.name for column in content.columns], content.separator
            is_first, layout = not first_layout, [separator, *names]
            first_layout = first_layout or layout
            if layout != first_layout:
                raise BadInput(
                    f"{source} differs in columns or delimiter from {sources[0]}: --append needs the same."
                )
            header = list(names)
            for name in labels.columns:
                numbered = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
                header.append(next(free for free in numbered if free not in names))
            style = {"separator": separator, "null_value": "NA" if separator == " " else ""}
            frames = map(append, (frame for frame, _ in content.frames(range(len(names)))))
            lines = csv_text(frames, header, decimal_comma=content.parse.decimal == ",", **style)
            yield from lines if is_first else itertools.islice(lines, 1, None)
    if n_rows != len(labels):
        raise BadInput(f"{sources[0]} changed while it was read: run the command again.")


# --- outliers -------------------------------------------------------------------------------------


def outliers_sentence(rows: Sequence[int], level: float) -> str:
    """Return how many rows are outliers, by which rule, and which they are: at most ten are named."""
    rule = f"{100 * level:.3g}% chance of any false alarm per table"
    if not rows:
        return f"No outliers ({rule})."
    noun = "row" if len(rows) == 1 else "rows"
    named = join_names([f"{row}" for row in rows], most=10)
    return f"{count_noun(len(rows), 'outlier')} ({rule}): {noun} {named}."


def outlier_text(model: GaussianMixture, table: TableFile, scores: TableScores) -> Iterator[str]:
    """Return as CSV, for each outlier its row, the cluster, the distance and its values.

    The distance is Mahalanobis' from the nearest cluster, in standard deviations; none if it overflows.
    """
    import numpy as np
    import polars as pl

    from apolar.estimator.marginals import OutlierRule
    from apolar.mixture.conditional import min_distances
    from apolar.reports.scoring import OUTLIER_LEVEL

    rule = OutlierRule.of(model, OUTLIER_LEVEL)  # for its means and covariances: no level changes them
    outliers = np.flatnonzero(scores.outliers)
    predicted = scores.predicted[outliers]
    values = np.asarray(table.X[outliers], dtype=np.float64)
    squares = min_distances(rule.means[rule.is_cluster], rule.covariances[rule.is_cluster], values)[0]
    distances = np.where(np.isfinite(squares), np.sqrt(squares), np.nan)
    frame = pl.DataFrame(
        {
            "row": table.row_numbers[outliers] + 1,
            **({} if table.ids is None else {"id": pl.Series(table.ids[outliers], dtype=pl.String)}),
            "cluster": predicted + (predicted >= 0),
            "distance": pl.Series(distances, dtype=pl.Float64).round_sig_figs(DECIMALS),
            **{f"column {i}": values[:, i] for i in range(values.shape[1])},
        }
    )
    return csv_text([frame.fill_nan(None)], [*frame.columns[: -len(table.names)], *table.names])
