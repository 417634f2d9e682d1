"""Types: a user's script passes mypy's strict mode, and names are those of the tables."""

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import apolar
from apolar._core import checks
from apolar.decomposition.constraints import CONSTRAINTS
from apolar.decomposition.methods import METHODS
from apolar.mixture.families import FACTORS, FAMILIES
from apolar.scores import CRITERIA
from apolar.search.starts import STARTS

SCRIPT = Path(__file__).parent / "script.py"


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (checks.CovarianceType, FAMILIES | FACTORS),
        (checks.StartName, STARTS),
        (checks.Criterion, CRITERIA),
        (checks.Method, METHODS),
        (checks.Constraint, CONSTRAINTS),
    ],
)
def test_names_are_those_of_the_table(names, known):
    assert set(get_args(names)) == set(known)


def test_a_script_passes_the_strict_mode_of_mypy(tmp_path):
    pytest.importorskip("mypy")
    settings = tmp_path / "mypy.ini"
    # scikit-learn and others have no types of their own.
    settings.write_text("[mypy]\nstrict = true\nignore_missing_imports = true\nfollow_imports = silent\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path / "cache", SCRIPT],
        capture_output=True,
        text=True,
        env={"MYPYPATH": str(Path(apolar.__file__).parents[1]), "PATH": str(Path(sys.executable).parent)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
