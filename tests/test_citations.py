"""What to cite."""

import re
from pathlib import Path

import pytest

import apolar
from apolar import citations

ROOT = Path(__file__).parents[1]


def keys(text):
    return re.findall(r"^@\w+\{(\w+),", text, flags=re.MULTILINE)


def test_what_a_result_used_is_cited():
    assert keys(apolar.citation()) == ["khouja2022moments"]
    X, _ = apolar.datasets.make_example(2, 300, random_state=0)
    settings = {"covariance_type": "spherical", "init_params": "moments", "random_state": 0}
    model = apolar.GaussianMixture(3, **settings).fit(X)
    expected = "khouja2022moments hsu2013 cardoso1996 hansen1982 greene1989 friedman1989 hoffbeck1996"
    assert keys(apolar.citation(model)) == [*expected.split(), "stone1974", "bozdogan1994", "nocedal2006"]
    plain = apolar.GaussianMixture(2, init_params="mbhc", prior=None, random_state=0).fit(X)
    assert set(keys(apolar.citation(plain))) & {"fraley1998", "fraley2007"} == {"fraley1998"}
    noisy = apolar.GaussianMixture(3, noise=0.05, **settings).fit(X)
    assert {"banfield1993", "byers1998"} <= set(keys(apolar.citation(noisy)))
    posterior = apolar.BayesianGaussianMixture(2, max_iter=500, random_state=0).fit(X)
    assert keys(apolar.citation(posterior)) == ["khouja2022moments", "arthur2007", "attias2000", "blei2006"]
    pencil = apolar.decompose("x^3 + y^3", method="pencil")
    assert "khouja2022diagonalisation" in keys(apolar.citation(pencil))
    cited = keys(apolar.citation(apolar.select(X, [1, 2], "spherical", random_state=0), model))
    assert "schwarz1978" in cited
    assert len(cited) == len(set(cited))


def test_bad_arguments():
    with pytest.raises(TypeError, match="citation takes mixtures"):
        apolar.citation(3)
    with pytest.raises(ValueError, match="not fitted"):
        apolar.citation(apolar.GaussianMixture(2))


def test_every_key_in_the_source_is_in_the_bibliography():
    known = set(citations._entries())
    assert len(known) > 25
    tables = (citations._STARTS, citations._PRIORS, citations._METHODS, citations._CRITERIA)
    assert {key for table in tables for keys_of_entry in table.values() for key in keys_of_entry} <= known
    for path in (ROOT / "src").rglob("*.py"):
        for key in re.findall(r"\[([a-z]+\d{4}[a-z]*)[\],]", path.read_text()):
            assert key in known, (path, key)
