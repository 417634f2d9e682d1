"""A fitted mixture in words, and what notebooks show of results."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

from apolar import GaussianMixture
from estimator.clusters import example, fitted

X, _ = example()


@pytest.mark.parametrize("name", ["full", "tied", "diag", "tied_spherical"])
def test_it_says_what_the_mixture_is(name):
    model = fitted(X, name)
    text = model.summary(X)
    assert text.startswith(f"3 clusters in 400 rows ({name} covariances).")
    lines = text.splitlines()
    assert lines[2].split() == ["cluster", "rows", "weight", "x0", "x1", "x2", "x3"]
    counts = np.bincount(model.predict(X))
    assert [int(line.split()[1]) for line in lines[3:6]] == counts.tolist()
    assert f"BIC {model.bic(X):,.1f}" in text
    assert "EM converged after" in text
    assert repr(model.start_) in text
    assert " ± " in lines[3]


def test_without_rows_there_are_weights_only():
    model = fitted(X, "diag")
    text = model.summary()
    assert "rows  weight" not in text
    assert "BIC" not in text
    assert text.startswith("3 clusters in 400 rows")
    for number in (f"{model.weights_[0]:.3f}", f"± {np.sqrt(model.covariances_[0, 0]):.2f}"):
        assert number in text.splitlines()[3]


def test_names_are_those_of_the_columns_and_escaped():
    names = ["length", "<b>bold</b>", "a name that is much too long for a table", "d & e"]
    table = pd.DataFrame(X, columns=names)
    text = fitted(table).summary(table)
    assert "length" in text
    assert "a name that is much…" in text
    html = text._repr_html_()
    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "<b>bold" not in html
    assert "d &amp; e" in html


def test_many_columns_and_clusters_are_cut():
    rng = np.random.default_rng(0)
    labels = np.arange(320) % 32
    wide = labels[:, None] * 10.0 + rng.standard_normal((320, 40))
    model = GaussianMixture(32, covariance_type="tied_spherical", init_params=labels).fit(wide)
    text = model.summary(wide)
    assert max(map(len, text.splitlines())) <= 110
    assert "Showing the first 30 of 32 clusters." in text
    assert "Showing the first 10 of 40 columns." in text._repr_html_()


def test_noise_is_said():
    rows = np.vstack([X, np.random.default_rng(0).uniform(-30, 30, (40, 4))])
    model = fitted(rows, "spherical", noise=True)
    n_noise = int(np.sum(model.predict(rows) == -1))
    assert f"; {n_noise} rows ({n_noise / 440:.1%}) are noise." in model.summary(rows)
    assert f"; about {model.noise_weight_:.1%} of the rows are noise." in model.summary()


@pytest.mark.filterwarnings("ignore")
def test_a_fit_that_did_not_converge_says_so():
    model = GaussianMixture(3, max_iter=1, random_state=0).fit(X)
    assert model.message_ in model.summary()


def test_a_fitted_mixture_shows_its_summary_below_the_diagram_of_scikit_learn():
    model = GaussianMixture(3, random_state=0)
    for shown in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "GaussianMixture" in shown
        assert "3 clusters in" not in shown
    model.fit(X)
    for shown in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "sk-" in shown
        assert shown.count("3 clusters in 400 rows") == 1
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert "text/html" not in model._repr_mimebundle_()


def test_errors_of_parameters_are_tables():
    model = fitted(X, "diag")
    errors = model.standard_errors(X)
    html = errors._repr_html_()
    assert html.count("<tr>") == 4
    assert f"{errors.weights[0]:.2g}" in html
    assert "Deviations over 10 resamples" in model.bootstrap(X, n_resamples=10)._repr_html_()


def test_a_mixture_whose_family_was_changed_is_still_shown():
    assert "GaussianMixture" in fitted(X).set_params(covariance_type="diag")._repr_html_()
