"""Hostile tables as files, given to `apolar fit`: a result, or one line that says what to do."""

import csv
import io
import tempfile
import warnings
from pathlib import Path

from click.testing import CliRunner

from apolar.cli import main
from fuzz.tables import table

NAMES = (
    "a", "b", "length in cm", "a", "", "1", "ß", "\x1b[31mred", "x" * 300,
    "NA", "=1+1", "c,d", 'say "so"',
)  # fmt: skip
CELLS = (
    "=1+1", "@x", "+1+1", "-2+3", "\x1b[2J", "\x07", "-1.5", "-", "", "plain", 'say "so"', "\x9b1m", "\ttab",
)  # fmt: skip


def run(rng):
    """Write a table, and fit it; return what was tried."""
    kind, X = table(rng)
    options = ["-k", str(rng.choice(["1", "2", "3", "5"]))]
    if rng.random() < 0.7:
        options += ["--covariance", str(rng.choice(["spherical", "diag", "full", "tied"]))]
    options += ["--drop-missing"] * (rng.random() < 0.2) + ["--append", "--outliers"] * (rng.random() < 0.5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        names = [str(name).replace('"', '""') for name in rng.choice(NAMES, size=X.shape[1])]
        texts = [cell.replace('"', '""') for cell in rng.choice(CELLS, size=len(X))]
        lines = [",".join(f'"{name}"' for name in [*names, "text"])]
        lines += [",".join([*map(str, row), f'"{text}"']) for row, text in zip(X, texts, strict=True)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        arguments = ["fit", str(path), *options, "-o", str(Path(folder) / "out"), "--no-report"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = CliRunner().invoke(main, arguments)
        tried = f"{kind} {X.shape}, {' '.join(options)}: exit code {result.exit_code}"
        assert result.exit_code in (0, 2), f"{tried}\n{result.output}\n{result.exception!r}"
        assert "Traceback" not in result.output, result.output
        assert "\x1b[31m" not in result.output, "a name reached the terminal raw"
        written = Path(folder) / "out"
        for file in written.glob("*.csv"):
            text = file.read_bytes().decode()
            assert not set(text) & {"\x1b", "\x07", "\x9b"}, f"{file.name} steers a terminal"
            cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
            assert not [cell for cell in cells if cell[:1] in {"=", "@", "\t"}], f"{file.name} calculates"
        assert result.exit_code == 0 or not written.exists() or not any(written.iterdir()), "half a result"
    return tried
