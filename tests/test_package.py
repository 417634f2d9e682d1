"""The package as its users meet it: names, versions, libraries, kernels, examples."""

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import apolar
from apolar._core import compiled
from apolar._core.threads import default_threads
from cli.commands import run
from kernel_sums import needs_kernels

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


@pytest.mark.skipif(not (ROOT / ".github").is_dir(), reason="a source distribution has no workflows")
def test_what_builds_a_release_is_pinned_by_content():
    workflows = "".join(path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml"))
    used = re.findall(r"uses: (\S+)", workflows)
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []
    tools = (ROOT / ".github/build-tools.txt").read_text().splitlines()
    pin = r"[\w-]+==[\w.]+( ; os_name == \"nt\")? --hash=sha256:[0-9a-f]{64}"
    assert [line for line in tools if not re.fullmatch(f"#.*|{pin}", line)] == []


def test_the_bill_of_materials_lists_all_that_is_needed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bill_of_materials = runpy.run_path(str(ROOT / "sbom.py"))["bill_of_materials"]
    extras = project["optional-dependencies"]
    bill = bill_of_materials("apolar", "1.2", project["license"], project["dependencies"], extras)
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/apolar@1.2"
    listed = {
        (part["name"], part["scope"], *(each["value"] for each in part["properties"]))
        for part in bill["components"]
    }
    needed = {(Requirement(text), "required") for text in project["dependencies"]}
    needed |= {(Requirement(text), "optional", extra) for extra, texts in extras.items() for text in texts}
    texts = {(one.name, scope, *extra) for one, scope, *extra in needed}
    assert {(name, scope, *extra) for name, scope, _, *extra in listed} == texts
    assert ("numpy", "required", ">=2.0,<3") in listed
    references = [part["bom-ref"] for part in bill["components"]]
    assert bill["dependencies"][0]["dependsOn"] == references
    assert len(set(references)) == len(references)


def test_libraries_are_loaded_when_they_are_used():
    code = """
import sys, apolar.cli
assert not {"numpy", "scipy"} & set(sys.modules)
import apolar.plots
apolar.report, apolar.GaussianMixture
assert not {"dask", "distributed", "matplotlib", "jinja2"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
# What matplotlib says where there is no screen.
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
# About rows, and hidden from users.
@pytest.mark.filterwarnings("ignore:Two solutions")
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
    monkeypatch.setattr("apolar.versions.LIBRARIES", ("no-such-library",))
    apolar.show_versions()
    text = capsys.readouterr().out
    shown = dict(entries(text))
    assert ("version", apolar.__version__) in entries(text)
    assert shown["numpy"] == np.__version__
    assert shown["no-such-library"] == "not installed"
    assert shown["threads"] == str(default_threads())
    assert shown["kernels"].split()[0] == compiled.kernels_in_use()
    assert shown["python"].startswith(sys.version.split()[0])
    assert ("user_api", "blas") in entries(text)


def test_the_command_line_shows_them_with_verbose():
    plain, refused = run("--version"), run("--verbose", "fit", "table.csv")
    assert (plain.exit_code, plain.output) == (0, f"main, version {apolar.__version__}\n")
    for order in (("--version", "-v"), ("--verbose", "--version")):
        assert ("version", apolar.__version__) in entries(run(*order).output)
    assert refused.exit_code == 2
    assert "--verbose needs --version" in refused.output


@needs_kernels
def test_the_environment_chooses_kernels():
    shown = dict(entries(fresh(APOLAR_KERNELS="numpy").stdout))
    assert shown["kernels"].split(" ")[0] == "numpy"
    assert "APOLAR_KERNELS=numpy" in shown["kernels"]


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
