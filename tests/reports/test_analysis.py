"""A table, clustered: units, choices, classes, and what is said about it."""

from dataclasses import replace

import numpy as np
import pytest

import apolar
from apolar.plots.views import MixtureView
from apolar.reports.analysis import analyse
from apolar.reports.text import Finding, agreement, choice, findings, headline, traits

NAMES = ("a", "b", "c", "d")
UNITS = np.array([1.0, 10.0, 0.01, 1000.0])
LEVELS = ["problem", "note", "good"]


@pytest.fixture(scope="module")
def flowers():
    return apolar.datasets.load_iris()


@pytest.mark.parametrize("kind", ["spherical", "tied_spherical", "diag", "tied_diag", "full", "tied"])
@pytest.mark.filterwarnings("ignore::apolar.exceptions.DisagreementWarning")
def test_standardised_fits_are_given_back_in_the_units_of_the_table(flowers, kind):
    X = flowers.data * UNITS + 5
    analysis = analyse(X, NAMES, 3, covariance_type=kind, standardise=True, seed=0)
    scaled = X / X.std(axis=0)
    plain = apolar.GaussianMixture(3, covariance_type=kind, random_state=0).fit(scaled)
    np.testing.assert_allclose(analysis.model.means_, plain.means_ * X.std(axis=0), rtol=1e-6)
    np.testing.assert_allclose(
        analysis.deviations, np.sqrt(MixtureView.of(plain).variances) * X.std(axis=0), rtol=1e-6
    )
    np.testing.assert_array_equal(analysis.predicted, plain.predict(scaled))
    assert analysis.covariance_type == kind
    assert analysis.likelihood.n_parameters == plain.n_parameters_
    # The density in other units differs by the product of these.
    shift = np.log(X.std(axis=0)).sum()
    assert analysis.likelihood.log_likelihood == pytest.approx(plain.score(scaled) * 150 - 150 * shift)
    assert analysis.model.lower_bound_ == pytest.approx(analysis.likelihood.log_likelihood / 150)
    assert analysis.model.evidence_ == pytest.approx(plain.evidence_ - 150 * shift)
    assert analysis.errors is not None
    expected = plain.standard_errors(scaled)
    np.testing.assert_allclose(analysis.errors.means, expected.means * X.std(axis=0), rtol=1e-3)


def test_without_standardisation_it_is_the_estimator(flowers):
    analysis = analyse(flowers.data, NAMES, 3, seed=0)
    model = apolar.GaussianMixture(3, random_state=0).fit(flowers.data)
    np.testing.assert_allclose(analysis.model.means_, model.means_)
    assert analysis.likelihood.criteria["bic"] == pytest.approx(model.bic(flowers.data))
    assert analysis.likelihood.criteria["aic"] == pytest.approx(model.aic(flowers.data))
    assert analysis.likelihood.criteria["icl"] == pytest.approx(model.icl(flowers.data))
    assert analysis.likelihood.criteria["evidence"] == pytest.approx(-2 * model.evidence_)
    assert list(analysis.model.feature_names_in_) == list(NAMES)
    assert analysis.selection is None


def test_a_memory_map_gives_what_the_array_gives(flowers, tmp_path):
    stored = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, flowers.data.shape)
    stored[:] = flowers.data
    for standardise in (False, True):
        analysis, expected = (
            analyse(X, NAMES, 3, covariance_type="spherical", standardise=standardise, seed=0)
            for X in (stored, flowers.data)
        )
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


def test_known_classes_are_compared(flowers):
    labels = np.array(flowers.target_names)[flowers.target]
    analysis = analyse(flowers.data, NAMES, 3, labels=labels, seed=0)
    assert analysis.truth.counts.sum() == 150
    assert analysis.truth.names == ("setosa", "versicolor", "virginica")
    assert analysis.truth.ari == pytest.approx(apolar.scores.adjusted_rand_index(labels, analysis.predicted))
    assert f"adjusted Rand index {analysis.truth.ari:.3f}" in agreement(analysis)


def test_constant_columns_cannot_be_standardised(flowers):
    X = np.column_stack([flowers.data[:, :3], np.full(150, 7.0)])
    with pytest.raises(ValueError, match="Column 'd' is constant: it cannot be standardised. Leave it out."):
        analyse(X, NAMES, 2, standardise=True)


def test_what_is_said_in_words(flowers):
    analysis = analyse(flowers.data, NAMES, 3, covariance_type="spherical", seed=0)
    assert headline(analysis) == "3 clusters in 150 rows (spherical covariances)."
    said = findings(analysis)
    fit = f"The fit converged after {analysis.model.n_iter_} passes over the data"
    assert any(finding.level == "good" and finding.text.startswith(fit) for finding in said)
    (doubt,) = [finding for finding in said if "in doubt" in finding.text]
    n_doubtful = np.count_nonzero(1 - analysis.uncertainty < 0.9)
    assert f"For {n_doubtful} rows" in doubt.text
    assert doubt.level == ("problem" if n_doubtful > 15 else "note")
    small = np.concatenate([flowers.data, [[50.0, 50, 50, 50], [50.1, 50, 50, 50]]])
    two = analyse(small, NAMES, 2, covariance_type="spherical", seed=0)
    said = findings(two)
    assert Finding("problem", "Cluster 2 has 2 rows: it may be chance. Try fewer clusters.") in said
    assert [finding.level for finding in said] == sorted((f.level for f in said), key=LEVELS.index)


def test_findings_do_not_contradict(flowers):
    analysis = analyse(flowers.data, NAMES, 2, covariance_type="spherical", seed=0)
    problem = "Cluster 2 is not at a maximum of the likelihood of these rows."
    ended = [
        finding
        for finding in findings(replace(analysis, errors=None, no_errors="", fault=problem))
        if "passes" in finding.text
    ]
    assert [finding.level for finding in ended] == ["problem"]
    assert "converged" not in ended[0].text
    assert problem in ended[0].text
    (sure,) = [f for f in findings(replace(analysis, uncertainty=np.zeros(150))) if "in doubt" in f.text]
    assert sure.level == "good"


def test_what_makes_a_cluster(flowers):
    analysis = analyse(flowers.data, NAMES, 3, seed=0)
    model = analysis.model
    small = int(model.means_[:, 2].argmin())
    # Setosa: short and narrow petals.
    assert [trait.words for trait in traits(analysis)[small]][:2] == ["low c", "low d"]
    for listed in traits(analysis):
        sizes = [abs(trait.difference) for trait in listed]
        assert sizes == sorted(sizes, reverse=True)
        assert all(size >= 1 for size in sizes)
    others = np.delete(np.arange(3), small)
    weights = model.weights_[others] / model.weights_[others].sum()
    pooled = np.sqrt(model.weights_ @ np.diagonal(model.covariances_, axis1=1, axis2=2))
    expected = (model.means_[small] - weights @ model.means_[others]) / pooled
    assert traits(analysis)[small][0].difference == pytest.approx(expected[2])
    assert traits(analyse(flowers.data, NAMES, 1, seed=0)) == [[]]
