"""The page in a real browser: colours and numbers across it, in dark, on a phone, and printed."""

import re

import numpy as np
import pytest

import apolar
from apolar.plots import chart as palette
from apolar.reports import Provenance, report_page
from apolar.reports.analysis import analyse
from reports.browser import measured, needs_browser, printed, run_browser

pytestmark = needs_browser

HOSTILE = "<script>document.title='stolen'</script>"
# A4 without the margins of the page, at 96 pixels per inch.
A4 = 687

SCRIPT = r"""
const colour = element => window.getComputedStyle(element).fill;
const found = {swatches: {}, points: {}, lines: {}};
for (const cluster of document.querySelectorAll(".cluster")) {
  const mark = cluster.querySelector("path");
  (found.swatches[cluster.dataset.cluster] ??= []).push([colour(mark), mark.getAttribute("d")]);
}
for (const group of document.querySelectorAll("g.points")) {
  const use = group.querySelector("use");
  (found.points[group.dataset.kind.replace("cluster-", "")] ??= []).push(colour(use));
}
for (const group of document.querySelectorAll("g[data-kind]:not(.points)")) {
  const line = group.querySelector("path");
  (found.lines[group.dataset.kind.replace("cluster-", "")] ??= []).push(window.getComputedStyle(line).stroke);
}
const text = selector => [...document.querySelectorAll(selector)].map(element => element.textContent.trim());
found.summary = text(".card strong").map(words => words.match(/^([\d,]+) rows?$/)).filter(Boolean)
  .map(match => match[1]);
found.legends = [...document.querySelectorAll("ul.legend")].map(list =>
  [...list.querySelectorAll("li")].map(item => item.textContent.trim()));
found.classes = [...document.querySelectorAll("table.classes tbody tr")].map(row =>
  [...row.querySelectorAll("td")].map(cell => cell.textContent.trim()));
found.findings = [...document.querySelectorAll(".findings li")].map(item =>
  [item.className, item.textContent]);
found.doubtful = text("#doubtful tbody th");
found.titles = text("use title");
found.bic = text("#trust ~ dl dd");
found.candidates = text("#candidates tbody tr:first-child td");
found.choice = text("#number + p");
found.download = document.querySelector("#labels")?.getAttribute("href");
found.paper = window.getComputedStyle(document.body).backgroundColor;
found.panels = [...new Set([...document.querySelectorAll(".picture svg path")].map(colour))];
found.words = [...new Set([...document.querySelectorAll(".picture text")].map(colour))];
found.window = window.innerWidth;
found.scroll = document.documentElement.scrollWidth;
found.right = Math.max(...[...document.querySelectorAll("td, th, svg, .picture text, li, p, pre")]
  .map(element => element.getBoundingClientRect().right));
found.text = Math.min(...[...document.querySelectorAll(".picture text")].map(element =>
  parseFloat(window.getComputedStyle(element).fontSize) * element.getScreenCTM().a || Infinity));
return found;
"""


def rgb(colour):
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


@pytest.fixture(scope="module")
def iris():
    """A report with a choice, classes and long names."""
    flowers = apolar.datasets.load_iris()
    names = [f"{name}_in_centimetres" for name in flowers.feature_names]
    labels = np.array(flowers.target_names)[flowers.target]
    analysis = analyse(flowers.data, names, [2, 3], labels=labels, standardise=True, seed=0)
    provenance = Provenance("iris.csv", "apolar fit iris.csv -k 2-3 " + "--long " * 30, 0)
    return analysis, report_page(analysis, flowers.data, provenance)


@pytest.fixture(scope="module")
def many():
    """A report of twelve clusters in seven columns, and noise."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(-60, 60, (12, 7))
    X = np.vstack([np.repeat(centres, 25, axis=0) + rng.normal(size=(300, 7)), rng.uniform(-80, 80, (30, 7))])
    names = [f"measurement_number_{i}" for i in range(7)]
    labels = np.append(np.repeat([f"class number {i}" for i in range(12)], 25), ["other"] * 30)
    analysis = analyse(X, names, 12, covariance_type="spherical", labels=labels, noise=True, seed=0)
    return analysis, report_page(analysis, X, Provenance("many.csv", "apolar fit many.csv", 0))


@pytest.fixture(scope="module")
def light(iris, many, tmp_path_factory):
    pages = {
        "iris": (iris[1], 1000),
        "iris_phone": (iris[1], 420),
        "iris_print": (printed(iris[1]), A4),
        "many": (many[1], 1000),
        "many_phone": (many[1], 420),
        "many_print": (printed(many[1]), A4),
    }
    return measured(pages, SCRIPT, tmp_path_factory.mktemp("light"))


@pytest.fixture(scope="module")
def dark(iris, many, tmp_path_factory):
    pages = {"iris": (iris[1], 1000), "many": (many[1], 1000), "iris_print": (printed(iris[1]), A4)}
    return measured(pages, SCRIPT, tmp_path_factory.mktemp("dark"), dark=True)


@pytest.mark.parametrize("name", ["iris", "many"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_cluster_has_one_colour_and_mark(request, name, scheme):
    found = request.getfixturevalue(scheme)[name]
    n_clusters = len(request.getfixturevalue(name)[0].model.weights_)
    colours = palette.COLOURS if scheme == "light" else palette.DARK_COLOURS
    marks = set()
    for k in range(n_clusters):
        swatches = found["swatches"][str(k + 1)]
        expected = rgb(colours[k % len(colours)])
        assert {colour for colour, _ in swatches} == {expected}
        assert len({shape for _, shape in swatches}) == 1
        assert set(found["points"][str(k + 1)]) == {expected}
        assert expected in found["lines"][str(k + 1)]
        marks.add(tuple(swatches[0]))
    assert len(marks) == n_clusters
    if name == "many":
        assert set(found["points"]["noise"]) == {colour for colour, _ in found["swatches"]["noise"]}


def test_pictures_are_dark_in_the_dark_and_light_in_print(light, dark):
    assert dark["iris"]["paper"] == "rgb(20, 23, 26)"
    assert "rgb(255, 255, 255)" in light["iris"]["panels"]
    assert "rgb(255, 255, 255)" not in dark["iris"]["panels"]
    assert dark["iris"]["paper"] in dark["iris"]["panels"]
    assert dark["iris"]["words"] == ["rgb(230, 232, 235)"]
    assert dark["iris_print"]["paper"] == light["iris"]["paper"] == "rgb(255, 255, 255)"
    assert dark["iris_print"]["words"] == light["iris"]["words"]


@pytest.mark.parametrize("name", ["iris", "many"])
def test_numbers_are_the_same_in_all_places(request, light, name):
    analysis, found = request.getfixturevalue(name)[0], light[name]
    counts = [f"{count}" for count in analysis.counts]
    assert found["summary"][: len(counts)] == counts
    with_counts = [
        [re.fullmatch(r"cluster \d+ \((\d+)\)", words) for words in legend if words.startswith("cluster ")]
        for legend in found["legends"]
    ]
    with_counts = [[match[1] for match in legend] for legend in with_counts if legend and all(legend)]
    assert with_counts == [counts] * 2
    # Tables of at most ten clusters; noise stands in the last.
    n_classes = len(analysis.truth.names)
    tables = [found["classes"][i : i + n_classes] for i in range(0, len(found["classes"]), n_classes)]
    cells = np.hstack([np.array(table, dtype=int) for table in tables])
    # All rows of these tables have a class.
    np.testing.assert_array_equal(cells[:, : len(counts)].sum(axis=0), analysis.counts)
    assert cells.sum() == analysis.n_rows
    n_doubtful = int(np.count_nonzero(analysis.certainty < 0.9))
    ((level, said),) = [finding for finding in found["findings"] if "is in doubt" in finding[1]]
    assert re.match(rf"Note: For {n_doubtful} rows? " if n_doubtful else "Good: Every row is assigned", said)
    assert level == ("note" if n_doubtful else "good")
    assert len(found["doubtful"]) == min(n_doubtful, 15)
    assert any(f"in doubt ({n_doubtful})" in legend for legend in found["legends"]) == (n_doubtful > 0)


@pytest.mark.parametrize("name", ["iris_phone", "many_phone"])
def test_a_phone_needs_no_scrolling_sideways(light, name):
    assert light[name]["window"] == 420
    assert light[name]["scroll"] <= 420
    assert light[name]["text"] >= 8


@pytest.mark.parametrize("name", ["iris_print", "many_print"])
def test_nothing_is_cut_in_print(light, name):
    assert light[name]["window"] == A4
    assert light[name]["right"] <= A4
    assert light[name]["scroll"] <= A4


BRUSH = r"""
const press = (element, key) =>
  element.dispatchEvent(new window.KeyboardEvent("keydown", {key, bubbles: true}));
const opacity = element => parseFloat(window.getComputedStyle(element).opacity);
const groups = kind => [...document.querySelectorAll(`.picture [data-kind="${kind}"]`)];
const said = () => document.querySelector("#brushed span").textContent;
const halos = () => document.querySelectorAll(".halo").length;
const found = {};
const entry = [...document.querySelectorAll(".legend li")]
  .find(item => item.textContent.startsWith("cluster 2"));
found.focus = entry.tabIndex;
press(entry, "Enter");
found.faded = groups("cluster-1").map(opacity);
found.chosen = groups("cluster-2").map(opacity);
found.pressed = entry.getAttribute("aria-pressed");
found.cluster = said();
press(document.body, "Escape");
found.cleared = groups("cluster-1").map(opacity);
const picture = document.querySelector(".picture");
press(picture, "ArrowDown");
press(picture, "ArrowDown");
found.row = said();
found.halos = halos();
found.pictures = [...document.querySelectorAll(".picture")]
  .filter(part => part.querySelector(".halo")).length;
press(picture, "Escape");
found.after = [halos(), document.querySelector("#brushed").hidden];
const button = document.querySelector(".card .row");
button.click();
found.named = [button.dataset.row, said(), halos() > 0];
return found;
"""


def test_a_cluster_and_a_row_are_marked_in_all_pictures(iris, tmp_path):
    found = measured({"iris": (iris[1], 1000)}, BRUSH, tmp_path)["iris"]
    assert found["focus"] == 0
    assert max(found["faded"]) < 0.2
    assert set(found["chosen"]) == set(found["cleared"]) == {1}
    assert (found["pressed"], found["cluster"]) == ("true", "cluster 2")
    assert found["row"].startswith("row 2: cluster ")
    # In the plane, and in each panel of the matrix that is no histogram.
    assert (found["halos"], found["pictures"]) == (1 + 12, 2)
    assert found["after"] == [0, True]
    row, said, is_marked = found["named"]
    assert said.startswith(f"row {row}: cluster 1 ")
    assert is_marked


def test_points_say_what_they_are(iris, light):
    analysis, titles = iris[0], light["iris"]["titles"]
    probabilities = analysis.certainty
    for row in (0, 77, 149):
        cluster = analysis.predicted[row] + 1
        start = f"row {row + 1}: cluster {cluster} ({probabilities[row]:.2f})"
        assert any(line.startswith(start) for title in titles for line in title.split("\n")), start
    named = {line.partition(":")[0] for title in titles for line in title.split("\n")}
    assert len(named) > 140


def test_a_hostile_page_runs_nothing_and_asks_for_nothing(tmp_path):
    iris = apolar.datasets.load_iris()
    names = [HOSTILE, '" onload="alert(1)', "{{ 7 * 7 }}", "$x^2$ & <b>"]
    labels = np.array(["<img src=x onerror=alert(1)>", "</title></svg><b>", "c"])[iris.target]
    analysis = analyse(iris.data, names, 3, labels=labels, seed=0)
    page = tmp_path / "report.html"
    page.write_text(report_page(analysis, iris.data, Provenance(f"{HOSTILE}.csv", HOSTILE, 0)))
    log = tmp_path / "net.json"
    logging = "--enable-logging=stderr", "--v=0", f"--log-net-log={log}"
    result = run_browser(page, tmp_path, *logging, "--virtual-time-budget=2000", "--dump-dom")
    assert "CONSOLE" not in result.stderr
    dom = result.stdout
    # The hostile name is text, and no script has run.
    assert "&lt;script&gt;document.title='stolen'&lt;/script&gt;" in dom
    assert "<title>stolen</title>" not in dom
    assert "<img" not in dom
    assert "<b>" not in dom
    # The browser asks its maker for the time and the like; the page asks for nothing.
    requested = re.findall(r'"url":"((?:https?|file)://[^"]+)"', log.read_text())
    of_the_browser = re.compile(r"https?://[\w.-]+\.(google|googleapis|gstatic)\.com/")
    assert [url for url in requested if not of_the_browser.match(url) and url != page.as_uri()] == []
