"""The whole folder: files, the page, errors that leave nothing half-written."""

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner

from apolar.cli import main
from apolar.datasets import bundled, load_mnist01
from apolar_reproduction import run, study
from apolar_reproduction.methods import cluster, load_task
from apolar_reproduction.printed import FIGURES, ITEMS, STUDIES, TABLES


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.links, self.text, self.open = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def small(monkeypatch):
    """Few rows of every data set, few methods, made-up studies."""

    def few(label, seed):
        task = load_task(label, seed)
        step = 100 if label == "table10" else 3
        return replace(task, X=task.X[::step], labels=task.labels[::step])

    def score(example, seed, key):
        rng = np.random.default_rng([example, seed, *key])
        return key, np.round(rng.random((7, 3)), 6)

    monkeypatch.setattr(run, "load_task", few)
    monkeypatch.setattr(run, "time_method", cluster)
    monkeypatch.setattr(run, "DPI", 40)
    monkeypatch.setattr(study, "score_data_set", score)


def invoke(*arguments):
    return CliRunner().invoke(main, ["reproduce", *map(str, arguments)])


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_all_makes_one_folder(tmp_path):
    folder = tmp_path / "new" / "folder"
    result = invoke("all", "-o", folder, "--simulations", 2, "--repeats", 2, "--jobs", 1)
    assert result.exit_code == 0, result.output
    expected = {"index.html", "summary.md", "table8_counts.csv", "table9_counts.csv"}
    expected |= {f"{label}.{kind}" for label in (*TABLES, *STUDIES) for kind in ("csv", "md")}
    expected |= {f"{label}.{kind}" for label in FIGURES for kind in ("png", "svg")}
    expected |= {f"{label}_runs.csv" for label in STUDIES}
    assert {path.name for path in folder.iterdir()} == expected
    assert all(path.stat().st_size > 0 for path in folder.iterdir())
    assert result.output.strip().endswith(f"Written to {folder / 'index.html'}")
    summary = (folder / "summary.md").read_text()
    for label in ITEMS:
        name = f"Figure {label[-1]}" if label in FIGURES else f"## {label} "
        assert name in summary
    page = Page((folder / "index.html").read_text())
    assert page.open == []
    ids = {attributes.get("id") for _, attributes in page.tags}
    assert set(ITEMS) <= ids
    # No file but this one, and nothing that runs.
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert not any(tag in ("script", "link", "iframe") for tag, _ in page.tags)
    policy = [attributes for tag, attributes in page.tags if attributes.get("http-equiv")]
    assert policy[0]["content"].startswith("default-src 'none'")
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(images) == 3
    assert all(len(image["alt"]) > 40 for image in images)
    assert page.text.count("em_moments") >= 8
    assert sum(tag == "table" for tag, _ in page.tags) == len(TABLES) + len(STUDIES) + 2


@pytest.mark.usefixtures("small")
def test_names_and_files_of_single_tables(tmp_path):
    result = invoke("iris", "table6", "-o", tmp_path, "--simulations", 1, "--repeats", 1, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == {
        *("table7.csv", "table7.md"),
        *("table6.csv", "table6.md", "table6_runs.csv"),
    }
    assert re.search(r"table7 \(Table 5 in print\): Iris", result.output)
    assert result.output.index("table6 (") < result.output.index("table7 (")


@pytest.mark.usefixtures("small")
def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("diabetes", "table5", "--simulations", 1, "--repeats", 1, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "The printed BIC counts 17 parameters, not 14" in result.output
    assert list(tmp_path.iterdir()) == []


def test_no_name_lists_what_there_is():
    result = invoke()
    assert result.exit_code == 0
    for label in ITEMS:
        assert label in result.output
    assert "iris" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table3"], "There is no 'table3' in the paper. Choose from table1"),
        (["iris", "--simulations", 0], "Invalid value for '--simulations'"),
        (["iris", "--seed", -1], "Invalid value for '--seed'"),
    ],
)
def test_bad_arguments(arguments, message):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.usefixtures("small")
def test_a_write_that_fails_is_told_and_leaves_the_old_file(tmp_path, monkeypatch):
    (tmp_path / "table7.csv").write_text("old")
    result = invoke("iris", "-o", tmp_path / "table7.csv" / "below")
    assert result.exit_code == 2
    assert result.output.startswith("Error: Cannot write to ")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    result = invoke("iris", "-o", tmp_path)
    assert result.exit_code == 2
    assert result.output.endswith(f"Cannot write to {tmp_path}: No space left on device.\n")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"table7.csv": "old"}


@pytest.mark.parametrize(
    ("missing", "names", "message"),
    [
        ("matplotlib", ["figure1"], 'Pictures need matplotlib: pip install "apolar[report]".'),
        ("jinja2", ["all"], 'Pages need jinja2: pip install "apolar[report]".'),
    ],
)
def test_what_is_missing_is_named_before_anything_is_done(tmp_path, monkeypatch, missing, names, message):
    for name in [missing, *(name for name in sys.modules if name.startswith(f"{missing}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    result = invoke(*names, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "out").exists()


def test_without_the_package_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(bundled, "CLONE", tmp_path / "nowhere")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.endswith("reproduction")])
    for name in [name for name in sys.modules if name.startswith("apolar_reproduction")]:
        monkeypatch.delitem(sys.modules, name)
    result = invoke("iris")
    assert result.exit_code == 2
    assert "pip install" in result.output
    assert "#subdirectory=reproduction" in result.output
    with pytest.raises(ImportError, match="apolar-reproduction"):
        load_mnist01()


@pytest.mark.usefixtures("small")
def test_an_interruption_says_what_was_saved(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "compare_methods", stop)
    result = invoke("iris", "-o", tmp_path)
    assert result.exit_code == 130
    assert f"what was done is in {tmp_path}: run the same command to continue." in result.output
    result = invoke("iris", "table5", "--simulations", 1, "--repeats", 1, "--jobs", 1)
    assert result.exit_code == 130
    assert "nothing was saved: give -o DIR to save results as they come." in result.output
