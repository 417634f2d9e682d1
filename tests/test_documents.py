"""What can be checked of the documents without building the site: links, names, versions, workflows."""

import doctest
import importlib
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import apolar
from apolar import datasets, plots
from cli.commands import run

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HOME = PROJECT["urls"]["Homepage"]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
pytestmark = pytest.mark.skipif(
    not (ROOT / ".github").is_dir(), reason="a source distribution does not have all that documents link to"
)
# Made when the site is built, each from the script of its name.
EXECUTED = re.compile(r"auto_examples/(plot_\w+)\.rst$")


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def missing_targets(text, folder):
    """Return the links of a page that lead to no file."""
    missing = []
    for target in LINK.findall(without_code(text)):
        if re.match(r"[a-z]+:|#", target) or target == "auto_examples/index.rst":
            continue
        path = target.partition("#")[0]
        if executed := EXECUTED.fullmatch(path):
            path = f"../examples/{executed[1]}.py"
        if not (folder / path).exists():
            missing.append(target)
    return missing


@pytest.mark.parametrize(
    "page", [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *PAGES], ids=lambda p: p.name
)
def test_links_lead_somewhere(page):
    assert missing_targets(page.read_text(), page.parent) == []


def test_pictures_of_the_readme_are_absolute_and_there():
    # The package index shows the README without the files next to it.
    raw = HOME.replace("github.com", "raw.githubusercontent.com") + "/main/"
    pictures = PICTURE.findall(README.read_text())
    assert pictures
    for picture in pictures:
        assert picture.startswith(raw)
        assert (ROOT / picture.removeprefix(raw)).is_file()


def console_examples(text):
    """Return commands and their outputs, of fenced blocks of no language that begin with "$ apolar"."""
    blocks = re.findall(r"^```\n(\$ apolar.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    parts = [re.split(r"^\$ apolar ", block, flags=re.MULTILINE)[1:] for block in blocks]
    return [part.partition("\n")[::2] for block in parts for part in block]


WITH_COMMANDS = [page for page in [README, *PAGES] if console_examples(page.read_text())]


# The tutorial has most of them, and takes as long as all others together.
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page.stem == "tutorial")) for page in WITH_COMMANDS],
    ids=lambda page: page.name,
)
def test_commands_print_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for command, shown in console_examples(page.read_text()):
        result = run(*shlex.split(command))
        assert result.exit_code == 0, result.output
        assert doctest.OutputChecker().check_output(shown, result.output, flags), (command, result.output)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem != "bibliography"], ids=lambda page: page.name
)
def test_pages_open_with_a_picture_or_code_and_have_an_executed_example(page):
    text = page.read_text()
    opening = "".join(text.splitlines(keepends=True)[:12])
    assert re.search(r"^(```|!\[)", opening, flags=re.MULTILINE)
    assert re.search(r"^>>> ", text, flags=re.MULTILINE) or console_examples(text)


def test_the_readme_is_short():
    text = README.read_text()
    assert len(text.splitlines()) <= 120
    assert len(text.split()) <= 900


def listed_objects():
    """Return the names that have a page in the API."""
    blocks = re.findall(r"autosummary::\n(.*?)```", (ROOT / "docs" / "api.md").read_text(), flags=re.DOTALL)
    return {line.strip() for block in blocks for line in block.splitlines() if re.match(r" +\w", line)}


def test_every_public_name_has_a_page_and_every_page_its_object():
    listed = listed_objects()
    modules = {"datasets", "decomposition", "mixture", "moments", "plots", "scores", "tensor"}
    names = set(apolar.__all__) - modules - {"__version__"}
    names |= {f"datasets.{name}" for name in datasets.__all__}
    names |= {f"plots.{name}" for name in vars(plots) if callable(getattr(plots, name))}
    assert names - listed == set()
    for name in listed:
        module, _, attribute = f"apolar.{name}".rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_every_guide_is_in_a_list_of_pages():
    lists = [page.read_text() for page in PAGES if "{toctree}" in page.read_text()]
    listed = {line for text in lists for line in re.findall(r"^[\w-]+$", text, flags=re.MULTILINE)}
    assert {page.stem for page in PAGES} - listed == {"index"}


def test_citations_of_the_guides_are_in_the_bibliography():
    keys = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "refs.bib").read_text(), flags=re.MULTILINE))
    cited = {key for page in PAGES for key in re.findall(r"(?<!\])\[([a-z]+\d{4}[a-z]*)\]", page.read_text())}
    assert "louis1982" in cited
    assert cited - keys == set()


def test_the_citation_names_this_project():
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["repository-code"] == HOME
    # That of the code: the bundled tables have their own.
    assert citation["license"] == PROJECT["license"].split(" AND ")[0]


def test_the_workflow_tests_what_the_classifiers_say():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    assert {"lint", "tests", "oldest", "docs", "wheel"} <= set(jobs)
    matrix = jobs["tests"]["strategy"]["matrix"]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    tested = set(matrix["python"]) | {more["python"] for more in matrix["include"]}
    said = {found[1] for text in PROJECT["classifiers"] if (found := re.search(r":: (3\.\d+)$", text))}
    assert tested == said
    assert PROJECT["requires-python"] == f">={min(said, key=lambda text: int(text[2:]))}"
