"""The report: what it says, what it escapes, and how large it is."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import apolar
from apolar._core.display import with_error
from apolar.reports import Provenance, report_page
from apolar.reports.analysis import analyse

HOSTILE = "<script>document.title='stolen'</script>"


class Page(HTMLParser):
    """Tags, text, and what is not closed."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self.open = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def hostile():
    """A report of a table whose names are attacks."""
    iris = apolar.datasets.load_iris()
    names = [HOSTILE, '" onload="alert(1)', "{{ 7 * 7 }}", "$x^2$ & <b>"]
    labels = np.array(["<img src=x onerror=alert(1)>", "b", "c"])[iris.target]
    analysis = analyse(iris.data, names, [2, 3], labels=labels, covariance_type="full", seed=0)
    provenance = Provenance(f"{HOSTILE}.csv", f"apolar fit '{HOSTILE}.csv' -k 2-3", 0, (HOSTILE,))
    return report_page(analysis, iris.data, provenance)


@pytest.fixture(scope="module")
def plain():
    X, labels = apolar.datasets.make_example(1, 1000, random_state=0)
    names = [f"x{i}" for i in range(6)]
    analysis = analyse(X, names, 4, covariance_type="spherical", labels=labels, seed=0)
    return analysis, report_page(analysis, X, Provenance("example.csv", "apolar fit example.csv -k 4", 0))


def test_names_are_text(hostile):
    page = Page(hostile)
    assert page.open == []
    assert not any(tag in ("iframe", "link", "b") for tag, _ in page.tags)
    assert [attributes for tag, attributes in page.tags if tag == "script"] == [{}]  # that of the page
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    text = "".join(page.text)
    assert HOSTILE in text
    assert "{{ 7 * 7 }}" in text
    assert "<img src=x onerror=alert(1)>" in text


def test_nothing_is_asked_from_elsewhere(hostile):
    page = Page(hostile)
    for tag, attributes in page.tags:
        for name in ("src", "href"):
            if name in attributes:
                assert attributes[name].startswith(("data:text/csv", "#")), (tag, attributes[name][:60])
    policy = next(attributes["content"] for _, attributes in page.tags if "http-equiv" in attributes)
    script = hostile.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert not re.search(r"fetch|XMLHttpRequest|import|https?:(?!//www.w3.org/2000/svg)", script)
    assert hostile.count("url(") == hostile.count("url(#")
    assert "@import" not in hostile


def test_the_page_can_be_used_without_eyes_or_mouse(plain):
    page = Page(plain[1])
    images = [attributes for tag, attributes in page.tags if attributes.get("role") == "img"]
    assert len(images) >= 3
    assert all(len(image["aria-label"]) > 30 for image in images)
    # Other small pictures stand beside the words that they mark.
    assert all(
        attributes.get("role") or attributes["aria-hidden"] for tag, attributes in page.tags if tag == "svg"
    )
    assert next(attributes for tag, attributes in page.tags if tag == "html")["lang"] == "en"
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    links = [attributes["href"] for tag, attributes in page.tags if tag in ("a", "use")]
    assert {link[1:] for link in links if not link.startswith("data:")} <= set(ids)
    # What scrolls can be reached by keyboard, and has a name.
    regions = [attributes for _, attributes in page.tags if "wide" in attributes.get("class", "")]
    assert regions
    assert all(region.get("tabindex") == "0" and region.get("aria-label") for region in regions)
    heads = [attributes for tag, attributes in page.tags if tag == "th"]
    assert all(head.get("scope") in ("col", "row") for head in heads)


def test_the_numbers_are_those_of_the_analysis(plain):
    analysis, html = plain
    text = re.sub(r"\s+", " ", "".join(Page(html).text))
    counts = [f"{count}" for count in analysis.counts]
    assert f"4 clusters in 1,000 rows: {', '.join(counts[:3])} and {counts[3]} rows." in text
    for weight in analysis.model.weights_:
        assert f"{weight:.4f}" in text
    assert f"{analysis.likelihood.criteria['bic']:.2f}" in text
    assert "-2 log evidence" in text
    assert f"{analysis.likelihood.criteria['evidence']:.2f} (lower is better)" in text
    mean, error = with_error(analysis.model.means_[0, 0], analysis.errors.means[0, 0]).split(" ± ")
    assert f"{mean} ± {error}" in text
    assert f"adjusted Rand index {analysis.truth.ari:.3f}" in text
    assert "apolar fit example.csv -k 4" in text
    assert f"numpy {np.__version__}" in text


def test_contrast_is_enough_in_light_and_dark(plain):
    html = plain[1]

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    themes = re.findall(r":root \{([^}]*)\}", html)
    assert len(themes) == 2
    for theme in themes:
        colours = dict(re.findall(r"--(\w+): (#\w{6})", theme))
        paper = luminance(colours["paper"])
        for name in ("ink", "soft", "good", "note", "bad", "link"):
            light, dark = sorted((luminance(colours[name]), paper), reverse=True)
            # WCAG AA for text.
            assert (light + 0.05) / (dark + 0.05) >= 4.5, name


def test_a_large_table_gives_a_small_page():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((60_000, 8)), rng.standard_normal((60_000, 8)) + 4])
    analysis = analyse(X, [f"x{i}" for i in range(8)], 2, covariance_type="diag", seed=0)
    html = report_page(analysis, X, Provenance("big.csv", "apolar fit big.csv -k 2", 0))
    assert len(html) < 2_000_000


def test_many_columns_and_one_column():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((60, 50)), rng.standard_normal((60, 50)) + 2])
    analysis = analyse(X, [f"column number {i}" for i in range(50)], 2, covariance_type="spherical", seed=0)
    html = report_page(analysis, X, Provenance("wide.csv", "apolar fit wide.csv -k 2", 0))
    assert "20 more columns are in the model file." in html
    thin = analyse(X[:, :1], ["x"], 2, covariance_type="full", seed=0)
    html = report_page(thin, X[:, :1], Provenance("thin.csv", "apolar fit thin.csv -k 2", 0))
    assert "2 clusters in 120 rows" in html
