"""The package as its users meet it: names, versions, examples."""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import apolar

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_there():
    for name in apolar.__all__:
        assert getattr(apolar, name) is not None
    assert dir(apolar) == sorted(apolar.__all__)
    with pytest.raises(AttributeError, match="no attribute 'als'"):
        _ = apolar.als


def test_the_oldest_versions_are_those_that_are_allowed():
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = content["project"]
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    pins = dict(line.lower().split("==") for line in lines if "==" in line)
    of_extras = [text for extra in project["optional-dependencies"].values() for text in extra]
    for text in (*project["dependencies"], *of_extras, *content["dependency-groups"]["test"]):
        requirement = Requirement(text)
        bounds = [one.version for one in requirement.specifier if one.operator == ">="]
        assert [Version(pins[requirement.name.lower()])] == [Version(bound) for bound in bounds], text


def test_the_command_line_starts_without_the_numerical_libraries():
    code = "import sys, apolar.cli; sys.exit('numpy' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
# What matplotlib says where there is no screen.
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_examples_run(example, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    runpy.run_path(str(example), run_name="__main__")
    figures = pyplot.get_fignums()
    pyplot.close("all")
    assert capsys.readouterr().out
    # The gallery of the site shows a picture of each.
    assert figures or not example.stem.startswith("plot_")


@pytest.mark.parametrize("name", ["Makefile", ".ci/run"])
def test_the_tests_that_are_named_exist(name):
    named = re.findall(r"(?<![\w/(-])tests(?:/\w+(?![\w*]))+(?:\.py)?", (ROOT / name).read_text())
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
