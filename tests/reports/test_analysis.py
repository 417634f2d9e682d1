"""A table, clustered: units, choices, classes, noise, what is said; other rows under its mixture."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import apolar
from apolar.plots.views import MixtureView
from apolar.reports import Provenance, report_page
from apolar.reports.analysis import analyse, describe
from apolar.reports.listed_rows import choose_rows
from apolar.reports.scoring import score_table
from apolar.reports.text import choice, headline, long_tails, traits

NAMES = ("a", "b", "c", "d")
UNITS = np.array([1.0, 10.0, 0.01, 1000.0])
LEVELS = ["problem", "note", "good"]


@pytest.fixture(scope="module")
def flowers():
    return apolar.datasets.load_iris()


@pytest.fixture(scope="module")
def model(flowers):
    return apolar.GaussianMixture(3, random_state=0).fit(flowers.data)


@pytest.fixture(scope="module")
def fitted(flowers):
    """Iris in three clusters, compared with its species."""
    species = np.array(flowers.target_names)[flowers.target]
    return analyse(flowers.data, NAMES, 3, labels=species, seed=0)


@pytest.mark.parametrize("kind", ["spherical", "tied_spherical", "diag", "tied_diag", "full", "tied"])
@pytest.mark.filterwarnings("ignore::apolar.exceptions.DisagreementWarning")
def test_standardised_fits_are_given_back_in_the_units_of_the_table(flowers, kind):
    X = flowers.data * UNITS + 5
    analysis, scales = analyse(X, NAMES, 3, covariance_type=kind, standardise=True, seed=0), X.std(axis=0)
    scaled = X / scales
    plain = apolar.GaussianMixture(3, covariance_type=kind, random_state=0).fit(scaled)
    np.testing.assert_allclose(analysis.model.means_, plain.means_ * scales, rtol=1e-4)
    deviations = np.sqrt(MixtureView.of(plain).variances) * scales
    np.testing.assert_allclose(analysis.deviations, deviations, rtol=1e-4)
    np.testing.assert_array_equal(analysis.predicted, plain.predict(scaled))
    assert analysis.covariance_type == kind
    assert analysis.likelihood.n_parameters == plain.n_parameters_
    # The density in other units differs by the product of these.
    shift = np.log(scales).sum()
    assert analysis.likelihood.log_likelihood == pytest.approx(plain.score(scaled) * 150 - 150 * shift)
    assert analysis.model.lower_bound_ == pytest.approx(analysis.likelihood.log_likelihood / 150)
    assert analysis.model.evidence_ == pytest.approx(plain.evidence_ - 150 * shift)
    if analysis.errors is None:  # where the prior decides
        with pytest.raises(ValueError, match="use bootstrap"):
            plain.standard_errors(scaled)
    else:
        expected = plain.standard_errors(scaled)
        np.testing.assert_allclose(analysis.errors.means, expected.means * scales, rtol=1e-3)


def test_without_standardisation_it_is_the_estimator(flowers, fitted, model):
    X, criteria = flowers.data, fitted.likelihood.criteria
    np.testing.assert_allclose(fitted.model.means_, model.means_)
    expected = {
        "bic": model.bic(X),
        "aic": model.aic(X),
        "icl": model.icl(X),
        "evidence": -2 * model.evidence_,
        "loo": -2 * model.loo_,
    }
    assert criteria == pytest.approx(expected)
    assert list(fitted.model.feature_names_in_) == list(NAMES)
    assert fitted.selection is None


@pytest.mark.parametrize("standardise", [False, True])
def test_a_memory_map_gives_what_the_array_gives(flowers, tmp_path, standardise):
    stored = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, flowers.data.shape)
    stored[:] = flowers.data
    options = {"covariance_type": "spherical", "standardise": standardise, "seed": 0}
    analysis, expected = (analyse(X, NAMES, 3, **options) for X in (stored, flowers.data))
    # Of starts that lead to the same optimum, another may be the best by rounding.
    np.testing.assert_allclose(analysis.model.means_, expected.model.means_, rtol=1e-3)


@pytest.mark.parametrize("standardise", [False, True])
def test_numbers_and_families_are_chosen_and_there_is_one_bic(flowers, standardise):
    analysis = analyse(flowers.data * UNITS, NAMES, [1, 2, 3], standardise=standardise, seed=0)
    selection, bic = analysis.selection, analysis.likelihood.criteria["bic"]
    assert len(selection.table) == 3 * 14
    assert selection.best_row.bic == np.nanmin([row.bic for row in selection.table])
    assert selection.best_row.bic == pytest.approx(bic, rel=1e-12)
    assert f", {bic:.1f}, " in choice(analysis)


def test_constant_columns_cannot_be_standardised(flowers):
    X = np.column_stack([flowers.data[:, :3], np.full(150, 7.0)])
    with pytest.raises(ValueError, match="Column 'd' is constant: it cannot be standardised. Leave it out."):
        analyse(X, NAMES, 2, standardise=True)


# --- what is said -------------------------------------------------------------------------


def page_of(analysis, X, command="apolar fit data.csv -k 3", **more):
    return unescape(report_page(analysis, X, Provenance("data.csv", command, 0, **more)))


def findings_of(page):
    """Return level and text of what the page says of the fit, in its order."""
    return re.findall(r'<li class="(\w+)"><span class="level">[^<]*</span>(.*)</li>', page)


def test_what_is_said_in_words(flowers):
    analysis = analyse(flowers.data, NAMES, 3, covariance_type="spherical", seed=0)
    assert headline(analysis) == "3 clusters in 150 rows (spherical covariances)."
    page = page_of(analysis, flowers.data, notes=("A note.",))
    sizes = "{}, {} and {}".format(*analysis.counts)
    clear = int(100 * np.mean(analysis.certainty >= 0.9))
    expected = f"3 clusters in 150 rows: {sizes} rows. The cluster is clear for {clear}% of the rows."
    assert f'<p class="lead">{expected}</p>' in page
    said = findings_of(page)
    assert [level for level, _ in said] == sorted((level for level, _ in said), key=LEVELS.index)
    fit = f"The fit converged after {analysis.model.n_iter_} passes over the data"
    assert any(level == "good" and text.startswith(fit) for level, text in said)
    ((level, doubt),) = [finding for finding in said if "in doubt" in finding[1]]
    n_doubtful = np.count_nonzero(analysis.certainty < 0.9)
    assert f"For {n_doubtful} rows" in doubt
    assert level == ("problem" if n_doubtful > 15 else "note")
    assert ("note", "A note.") in said
    small = np.concatenate([flowers.data, [[50.0, 50, 50, 50], [50.1, 50, 50, 50]]])
    said = findings_of(page_of(analyse(small, NAMES, 2, covariance_type="spherical", seed=0), small))
    assert ("problem", "Clusters of fewer than 5 rows, which may be due to chance: 2.") in said


def test_findings_do_not_contradict(flowers):
    analysis = analyse(flowers.data, NAMES, 2, covariance_type="spherical", seed=0)
    problem = "Cluster 2 is not at a maximum of the likelihood of these rows."
    faulty = replace(analysis, errors=None, no_errors="", fault=problem, posteriors=np.ones((150, 2)))
    said = findings_of(page_of(faulty, flowers.data))
    ((level, ended),) = [finding for finding in said if "passes" in finding[1]]
    assert level == "problem"
    assert "converged" not in ended
    assert problem in ended
    ((level, _),) = [finding for finding in said if "in doubt" in finding[1]]
    assert level == "good"


def test_what_makes_a_cluster(flowers, fitted):
    model, listed = fitted.model, traits(fitted)
    small = int(model.means_[:, 2].argmin())
    # Setosa: short and narrow petals.
    assert [trait.words for trait in listed[small]][:2] == ["lowest c", "lowest d"]
    words = {trait.words for of_cluster in listed for trait in of_cluster if trait.column == "d"}
    assert words == {"highest d", "middle d", "lowest d"}
    assert listed[small][0].values == "1.46; others 4.22 to 5.49"
    assert traits(analyse(flowers.data, NAMES, 1, seed=0)) == [[]]


def test_each_cluster_is_told_from_each_other():
    """Two clusters that are alike in their first column differ in a further one that is listed."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0, 0], [20, 0, 0], [20, 5, 0], [40, 5, 5]])
    X = np.repeat(centres, 60, axis=0) + rng.normal(size=(240, 3))
    analysis = analyse(X, ("a", "b", "c"), 4, covariance_type="spherical", seed=0)
    means, spread = analysis.model.means_, np.sqrt(analysis.model.covariances_.mean())
    for k, listed in enumerate(traits(analysis)):
        columns = ["abc".index(trait.column) for trait in listed]
        gaps = np.abs(np.delete(means, k, axis=0) - means[k])[:, columns] / spread
        assert np.all(gaps.max(axis=1) > 1)


# --- what to do next ----------------------------------------------------------------------


def steps_of(analysis, X, **made):
    """Return what the page advises, with the command of each step."""
    (steps,) = re.findall(r'<ol class="steps">(.*?)</ol>', page_of(analysis, X, **made), re.DOTALL)
    return dict(re.findall(r"<li>(.*?)(?:<pre><code>(.*?)</code></pre>)?</li>", steps))


def test_advice_has_the_exact_command(flowers, fitted):
    steps = steps_of(fitted, flowers.data, model_file="o/model.npz")
    assert steps["Compare other numbers of clusters:"] == "apolar fit data.csv -k auto"
    assert steps["Assign new rows to these clusters:"] == "apolar predict o/model.npz NEW.csv"
    noise = np.random.default_rng(0).normal(size=(150, 1))
    X = np.hstack([flowers.data, noise])
    analysis = analyse(X, (*NAMES, "e"), 3, seed=0)
    steps = steps_of(analysis, X, command="apolar fit data.csv --components=3 --columns all")
    left_out = "Columns that hardly differ between clusters: e. Leave them out:"
    assert steps[left_out].endswith(" --columns a,b,c,d")
    assert steps["Compare other numbers of clusters:"] == "apolar fit data.csv --columns all -k auto"


def test_advice_does_not_contradict_itself(flowers):
    X = np.vstack([flowers.data, [[50.0] * 4]])
    analysis = analyse(X, NAMES, [2, 3, 4], seed=0)
    assert analysis.counts.min() == 1
    texts = steps_of(analysis, X)
    assert not {"Leave out the smallest clusters:", "Try more clusters:"} <= set(texts)
    assert not any("were tried" in text for _, text in findings_of(page_of(analysis, X)))


def test_a_row_that_is_a_cluster_by_itself_may_be_set_aside_and_is_out_of_the_frame(flowers):
    X = np.vstack([flowers.data, [[4000.0, 3.0, -3000.0, 1.2]]])
    X[0, 0] = np.nan
    analysis = analyse(X, NAMES, 4, seed=0, covariance_type="tied")
    assert np.sort(analysis.counts)[0] == 1
    steps = steps_of(analysis, X)
    asked = [command for text, command in steps.items() if "To set such rows aside" in text]
    assert "apolar fit data.csv -k 3 --noise --drop-missing" in asked
    _, values, remarks = choose_rows(analysis, X, [0, 1], 200)
    assert values[:, 0].max() < 10
    assert "1 row is far outside the frame." in remarks


def test_long_tails_are_seen_and_other_columns_are_not(flowers, fitted):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, 600)
    X = np.column_stack([np.exp(rng.normal(groups, 0.8)), rng.normal(groups + 20.0, 0.3)])
    analysis = analyse(X, ("spent", "age"), 4, covariance_type="diag", seed=0)
    assert long_tails(analysis, X) == ["spent"]
    assert long_tails(fitted, flowers.data) == []


def test_noise_is_in_no_cluster_and_is_named():
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0], [12, 3]], 100, axis=0) + rng.standard_normal((200, 2))
    X = np.vstack([X, rng.uniform(-20, 30, (20, 2))])
    kinds = np.repeat(["b", "a", "z"], [100, 100, 20])
    analysis = analyse(X, ("x", "y"), 2, labels=kinds, noise=True, seed=0)
    assert analysis.has_noise
    assert analysis.counts.sum() + analysis.n_noise == 220
    assert analysis.n_noise == pytest.approx(20, abs=4)
    truth = analysis.truth
    assert truth.names == ("a", "b", "z")
    np.testing.assert_array_equal(truth.counts.sum(axis=1), [100, 100, 20])
    assert truth.counts[2, -1] >= 16
    # Noise is one more cluster, which matches the class of the rows around.
    assert truth.ari > 0.9
    assert truth.error_rate < 0.05
    assert analysis.certainty.min() > 1 / 3
    assert f"; {analysis.n_noise} rows (" in headline(analysis)
    assert not any(re.search("Cluster|outlier", text) for _, text in findings_of(page_of(analysis, X)))
    assert analysis.errors.noise_weight > 0


# --- rows under a mixture that is already fitted --------------------------------------------


def test_the_rows_of_the_fit_are_described_as_by_a_fit(flowers, fitted, model):
    ours = describe(model, flowers.data, NAMES, labels=flowers.target)
    assert ours.likelihood.criteria == pytest.approx(fitted.likelihood.criteria)
    assert ours.truth.ari == fitted.truth.ari
    np.testing.assert_array_equal(ours.predicted, fitted.predicted)
    np.testing.assert_allclose(ours.errors.means, fitted.errors.means, rtol=1e-6)
    assert list(ours.model.feature_names_in_) == list(NAMES)
    assert not hasattr(model, "feature_names_in_")


def test_other_rows_have_no_standard_errors_and_missing_values_are_counted(flowers, model):
    holed = flowers.data.copy()
    holed[3, 1] = np.nan
    for rows in (np.delete(holed, 3, axis=0), flowers.data + 0.01, holed):
        analysis = describe(model, rows, NAMES)
        assert analysis.errors is None
        assert "fitted to" in analysis.no_errors
        assert np.isnan(analysis.likelihood.criteria["evidence"])
        assert analysis.n_missing.tolist() == [0, int(rows is holed), 0, 0]


def test_rows_beyond_all_numbers_go_to_the_nearest_cluster_and_are_marked(flowers, model):
    # The row lies in the direction of the mean of each cluster; the nearest is that of most spread there.
    far = np.vstack([flowers.data[:3], np.full((1, 4), 1e300)])
    scores = score_table(model, far)
    assert scores.outliers.tolist() == [False, False, False, True]
    assert np.isnan(scores.posteriors[3]).all()
    assert np.isfinite(scores.posteriors[:3]).all()
    direction = np.ones(4)
    spreads = [direction @ np.linalg.solve(covariance, direction) for covariance in model.covariances_]
    assert scores.predicted[3] == np.argmin(spreads)
    assert np.isfinite(scores.certainty).all()
    np.testing.assert_allclose(score_table(model, np.full((1, 4), 1e6)).posteriors.sum(), 1)
