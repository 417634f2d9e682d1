"""Files that cannot be written and interruptions: the old results stay."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import apolar
from cli.commands import names_in, refuse, rows_of, run, succeed


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_outputs_that_cannot_be_written(flowers, tmp_path):
    blocked, loop, out = tmp_path / "file", tmp_path / "loop.npz", tmp_path / "out"
    blocked.write_text("in the way")
    loop.symlink_to(loop)
    (out / "model.npz").mkdir(parents=True)
    (out / "labels.csv").write_text("old")
    for arguments, reason in (
        (("fit", flowers, "-k", 2, "-o", blocked / "below"), f"Cannot write to {blocked / 'below'}"),
        (("sketch", flowers, "-o", loop), "a symbolic link that leads to itself: give another path."),
        (("fit", loop, "-k", 2), f"There is no file {loop}: check the name and the folder."),
        (("fit", flowers, "-k", 2, "--no-report", "-o", out), "it is a folder"),
    ):
        assert reason in refuse(*arguments)
    assert blocked.read_text() == "in the way"
    assert (out / "labels.csv").read_text() == "old"
    assert names_in(out) == {"labels.csv", "model.npz"}


@pytest.mark.parametrize("moment", ["writing", "renaming", "removing"])
def test_a_failure_at_any_moment_keeps_the_old_results(flowers, tmp_path, monkeypatch, moment):
    out = tmp_path / "out"
    succeed(
        "fit", flowers, "-k", 2, "--covariance", "diag", "-o", out, "--outliers", "--append", "--no-report"
    )
    before = contents(out)
    owner, name, culprit = {
        "writing": (apolar.GaussianMixture, "save", ".part"),
        "renaming": (os, "replace", ".part"),
        "removing": (Path, "unlink", "table.csv"),
    }[moment]
    real = getattr(owner, name)

    def fail(*arguments, **options):
        if any(str(argument).endswith(culprit) for argument in arguments):
            raise OSError(28, "No space left on device")
        return real(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fail)
        said = refuse("fit", flowers, "-k", 3, "--covariance", "diag", "-o", out, "--no-report")
    assert "No space left on device. Nothing was changed." in said
    assert contents(out) == before


@pytest.mark.parametrize("command", ["fit", "merge"])
def test_an_interruption_leaves_nothing(flowers, tmp_path, monkeypatch, command):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("apolar.reports.analysis.analyse", stop)
    monkeypatch.setattr(sys.modules["apolar.cli.sketch_command"], "_load_sketch", stop)
    result = run(command, flowers, *["-k", 2] * (command == "fit"), "-o", tmp_path / "a" / "b")
    assert result.exit_code == 130
    assert result.output.strip() == "Error: Interrupted; nothing was written."
    assert names_in(tmp_path) == {"flowers.csv"}


def test_the_permissions_of_earlier_results_stay(flowers, tmp_path):
    out = tmp_path / "out"
    for number in (2, 3):
        succeed("fit", flowers, "-k", number, "--covariance", "diag", "--no-report", "-o", out)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()}
        for path in out.iterdir():
            path.chmod(0o600)
    assert modes == dict.fromkeys(("labels.csv", "model.npz"), 0o600)


def test_names_that_are_not_utf8(flowers, tmp_path, monkeypatch):
    name, out = os.fsdecode(b"s\xff.csv"), tmp_path / os.fsdecode(b"o_\xff")
    try:
        flowers.rename(tmp_path / name)
    except OSError:
        pytest.skip("the file system has no such names")
    arguments = ["fit", str(tmp_path / name), "-k", "2", "-o", str(out)]
    monkeypatch.setattr(sys, "argv", ["apolar", *arguments])
    assert r"o_\udcff" in succeed(*arguments)
    assert names_in(out) == {"labels.csv", "model.npz", "report.html"}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert r"s\udcff.csv" in page
    assert r"o_\udcff" in page


HOSTILE = {
    "=cmd|'/c calc'!A1": "'=cmd|'/c calc'!A1",
    "@SUM(1+1)": "'@SUM(1+1)",
    "+1+1": "'+1+1",
    "-2+3": "'-2+3",
    "\tcmd": "'\tcmd",
    "\n=1+1": "'\n=1+1",
    "\x1b[31mred": r"\x1b[31mred",
    "=\x07": r"'=\x07",
    # What is no formula stays as it is.
    "a=1": "a=1",
    "-": "-",
    "-1,5": "-1,5",
    "+3.5e-7": "+3.5e-7",
    "two\nlines": "two\nlines",
}


def fit_hostile(folder, kind):
    """Fit a table with hostile cells, whose last row is an outlier; return the folder of the results."""
    rng = np.random.default_rng(0)
    cells = list(HOSTILE) * 5
    X = rng.standard_normal((len(cells), 2))
    X[-1] = 60
    columns = {"=1+1": X[:, 0], "@b": X[:, 1], "\x1b[1mc": cells}
    frame = pl.DataFrame(columns)
    path = folder / f"=1+1.{kind}"
    if kind == "csv":
        frame.write_csv(path)
    else:
        frame.with_columns(pl.last().cast(pl.Categorical)).write_parquet(path)
    options = ("-k", 1, "--append", "--outliers", "--no-report", "-o", folder / "o")
    succeed("fit", path, path, *options)
    return folder / "o"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_cells_and_names_are_harmless_in_spreadsheets_and_terminals(tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = fit_hostile(Path(), kind)
    table = rows_of(out / "table.csv")
    assert list(table[0])[:3] == ["'=1+1", "'@b", r"\x1b[1mc"]
    assert [row[r"\x1b[1mc"] for row in table] == list(HOSTILE.values()) * 10
    assert any(row["'=1+1"].startswith("-") for row in table), "numbers below zero stay numbers"
    outliers = rows_of(out / "outliers.csv")
    assert outliers
    assert list(outliers[0])[-2:] == ["'=1+1", "'@b"]
    assert {row["file"] for row in rows_of(out / "labels.csv")} == {f"'=1+1.{kind}"}
    for path in out.glob("*.csv"):
        assert b"\x1b" not in path.read_bytes()


def test_control_c_in_a_real_process(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "rows.npy", rng.standard_normal((400_000, 12)))
    command = [sys.executable, "-m", "apolar", "fit", "rows.npy", "-k", "auto", "--no-report"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "apolar-rows").exists():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=60)
        finally:
            process.kill()
    # Python ends by the signal itself if it came while text was executed, as where a dataclass is made;
    # a shell shows 130 for both.
    assert process.returncode in (130, -signal.SIGINT), error
    assert "Traceback" not in error + out
    assert names_in(tmp_path) == {"rows.npy"}


def test_a_failure_after_files_were_written_names_them(flowers, tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["apolar.cli.fit_command"], "_print", fails)
    said = refuse("fit", flowers, "-k", 1, "--no-report", "-o", tmp_path / "out")
    assert said.startswith("Error: No space left on device. Written before: ")
    assert str(tmp_path / "out" / "model.npz") in said


def test_files_of_an_earlier_fit_do_not_stay(flowers, tmp_path):
    out = tmp_path / "out"
    succeed("fit", flowers, "-k", 2, "-o", out, "--append", "--outliers")
    every = {"labels.csv", "model.npz", "report.html", "table.csv", "outliers.csv"}
    assert names_in(out) == every
    (out / "notes.txt").write_text("mine")
    (out / "selection.csv").write_text("mine")
    succeed("fit", flowers, "-k", 3, "-o", out, "--no-report")
    assert names_in(out) == {"labels.csv", "model.npz", "notes.txt", "selection.csv"}
    succeed("sketch", flowers, "--columns", "1,2", "-o", tmp_path / "s.npz")
    succeed("fit", "--sketch", tmp_path / "s.npz", "-k", 1, "-o", out)
    assert names_in(out) == {"model.npz", "notes.txt", "selection.csv"}


def test_files_of_others_stay(flowers, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for name in ("report.html", "outliers.csv", "table.tsv"):
        (out / name).write_text("row,cluster,p1 of my own\n")
    flowers.rename(out / "table.csv")
    before = contents(out)
    succeed("fit", out / "table.csv", "-k", 2, "-o", out, "--no-report")
    after = contents(out)
    assert after.keys() == before.keys() | {"labels.csv", "model.npz"}
    assert before.items() <= after.items()
