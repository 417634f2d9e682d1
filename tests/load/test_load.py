"""Many fits at once, a scheduler that goes away, a file larger than memory, threads without a lock."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import apolar

# Where the package is that is tested, and these scripts.
FOLDERS = Path(apolar.__file__).parents[1], Path(__file__).parents[1]
# Only a hang takes so long.
DEADLINE = 900
# The file, in megabytes: less where the disk is short.
MEGABYTES = 2048
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="Limits of memory are those of Linux.")


def run(script, *arguments, python=sys.executable):
    """Run a script in a process of its own, with the sources that are tested."""
    paths = [*map(str, FOLDERS), os.environ.get("PYTHONPATH", "")]
    process = subprocess.run(
        [python, "-m", f"load.{script}", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_twenty_fits_in_threads_and_four_processes():
    assert "20 fits in threads, 4 in processes" in run("simultaneous_fits")


def test_a_scheduler_that_is_restarted():
    assert "after the restart: the same mixture" in run("restarted_scheduler")


@on_linux
def test_a_mapped_file_larger_than_the_memory_that_is_allowed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    free = shutil.disk_usage(tmp_path).free // 2**20
    megabytes = min(MEGABYTES, free // 4)
    if megabytes < 600:
        pytest.skip(f"{free} MB of disk are free: the file would be no larger than the memory.")
    assert f"{megabytes} MB fitted" in run("mapped_file", megabytes)


def test_threads_without_the_lock_of_the_interpreter():
    names = [sys.executable] if hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled() else []
    names += [path for minor in range(13, 20) if (path := shutil.which(f"python3.{minor}t"))]
    for python in names:
        known = subprocess.run(
            [python, "-c", "import sklearn, joblib, narwhals, array_api_compat"], check=False
        )
        if known.returncode == 0:
            assert "the same digits" in run("free_threads", python=python)
            return
    pytest.skip("There is no Python without the lock here that has the libraries apolar needs.")
