"""What an installation says about itself: versions, libraries, threads, and which kernels it uses and why."""

import os
import subprocess
import sys

import numpy as np
import pytest

import apolar
from apolar._core import compiled
from apolar._core.threads import default_threads
from cli.commands import run
from kernel_sums import TARGETS, needs_kernels


def entries(text):
    """Return the lines of a report as (name, text)."""
    return [tuple(part.strip() for part in line.split(":", 1)) for line in text.splitlines() if ":" in line]


def fresh(**environment):
    """Return the finished process of `apolar --version --verbose` in another environment."""
    command = [sys.executable, "-m", "apolar", "--version", "--verbose"]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_versions_libraries_threads_and_kernels_are_shown(capsys, monkeypatch):
    monkeypatch.setattr("apolar.versions.OPTIONAL", ("no-such-library",))
    apolar.show_versions()
    text = capsys.readouterr().out
    shown = dict(entries(text))
    assert shown["version"] == apolar.__version__
    assert shown["numpy"] == np.__version__
    assert shown["no-such-library"] == "not installed"
    assert shown["threads"] == str(default_threads())
    assert shown["kernels"].split()[0] == compiled.kernels_in_use()
    assert shown["Python"].startswith(sys.version.split()[0])
    assert any(name == "blas" for name, _ in entries(text))


def test_the_command_line_shows_them_with_verbose():
    plain, refused = run("--version"), run("--verbose", "fit", "table.csv")
    assert (plain.exit_code, plain.output) == (0, f"main, version {apolar.__version__}\n")
    for order in (("--version", "-v"), ("--verbose", "--version")):
        assert dict(entries(run(*order).output))["version"] == apolar.__version__
    assert refused.exit_code == 2
    assert "--verbose goes with --version" in refused.output


@needs_kernels
@pytest.mark.parametrize("kernels", ["numpy", *TARGETS[-1:]])
def test_the_environment_chooses_kernels(kernels):
    shown = dict(entries(fresh(APOLAR_KERNELS=kernels).stdout))
    assert shown["kernels"].split(" ")[0] == kernels
    assert f"APOLAR_KERNELS={kernels}" in shown["kernels"]


@needs_kernels
def test_kernels_that_are_not_there_are_refused_in_a_line():
    process = fresh(APOLAR_KERNELS="z80")
    assert process.returncode != 0
    assert process.stderr.startswith("Error: The environment variable APOLAR_KERNELS must be one of numpy, ")
    assert process.stderr.count("\n") == 1


def test_an_extension_that_cannot_be_loaded_is_the_reason_for_numpy(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "apolar._kernels", None)
    monkeypatch.delenv("APOLAR_KERNELS", raising=False)
    monkeypatch.setattr(compiled, "kernels", compiled._load_kernels())
    apolar.show_versions()
    shown = dict(entries(capsys.readouterr().out))["kernels"]
    assert shown.startswith("numpy (the extension was not built")
    assert compiled.kernels is None
