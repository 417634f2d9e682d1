"""A table, clustered: units, choices, classes, and what is said about it."""

import numpy as np
import pytest

import apolar
from apolar.reports.analysis import analysed, component_deviations
from apolar.reports.words import agreement, diagnostics, headline

NAMES = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def flowers():
    return apolar.datasets.load_iris()


@pytest.mark.parametrize("kind", ["spherical", "tied_spherical", "diag", "tied_diag", "full", "tied"])
def test_standardised_fits_are_given_back_in_the_units_of_the_table(flowers, kind):
    units = np.array([1.0, 10.0, 0.01, 1000.0])
    X = flowers.data * units + 5
    analysis = analysed(X, NAMES, 3, covariance_type=kind, standardise=True, seed=0)
    scaled = X / X.std(axis=0)
    plain = apolar.GaussianMixture(3, covariance_type=kind, random_state=0).fit(scaled)
    np.testing.assert_allclose(analysis.model.means_, plain.means_ * X.std(axis=0), rtol=1e-6)
    np.testing.assert_allclose(analysis.deviations, component_deviations(plain) * X.std(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(analysis.predicted, plain.predict(scaled))
    assert analysis.covariance_type == kind
    assert analysis.n_parameters == plain.n_parameters_
    # The density in other units differs by the product of these.
    shift = np.log(X.std(axis=0)).sum()
    assert analysis.log_likelihood == pytest.approx(plain.score(scaled) * 150 - 150 * shift)
    assert analysis.model.lower_bound_ == pytest.approx(analysis.log_likelihood / 150)
    assert analysis.model.evidence_ == pytest.approx(plain.evidence_ - 150 * shift)
    assert analysis.errors is not None
    expected = plain.standard_errors(scaled)
    np.testing.assert_allclose(analysis.errors.means, expected.means * X.std(axis=0), rtol=1e-3)


def test_without_standardisation_it_is_the_estimator(flowers):
    analysis = analysed(flowers.data, NAMES, 3, seed=0)
    model = apolar.GaussianMixture(3, random_state=0).fit(flowers.data)
    np.testing.assert_allclose(analysis.model.means_, model.means_)
    assert analysis.criteria["bic"] == pytest.approx(model.bic(flowers.data))
    assert analysis.criteria["aic"] == pytest.approx(model.aic(flowers.data))
    assert analysis.criteria["icl"] == pytest.approx(model.icl(flowers.data))
    assert analysis.criteria["evidence"] == pytest.approx(-2 * model.evidence_)
    assert list(analysis.model.feature_names_in_) == list(NAMES)
    assert analysis.selection is None


def test_a_memory_map_gives_what_the_array_gives(flowers, tmp_path):
    stored = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, flowers.data.shape)
    stored[:] = flowers.data
    for standardise in (False, True):
        analysis, expected = (
            analysed(X, NAMES, 3, covariance_type="spherical", standardise=standardise, seed=0)
            for X in (stored, flowers.data)
        )
        # Of starts that lead to the same optimum, another may be the best by rounding.
        np.testing.assert_allclose(analysis.model.means_, expected.model.means_, rtol=1e-3)


def test_numbers_and_families_are_chosen(flowers):
    analysis = analysed(flowers.data, NAMES, [1, 2, 3], seed=0)
    assert analysis.selection is not None
    assert len(analysis.selection.table) == 3 * 14
    assert analysis.model is analysis.selection.best
    assert analysis.criteria["bic"] == pytest.approx(np.nanmin([row.bic for row in analysis.selection.table]))
    single = analysed(flowers.data, NAMES, [2, 3], covariance_type="full", seed=0)
    assert {row.covariance_type for row in single.selection.table} == {"full"}


def test_known_classes_are_compared(flowers):
    labels = np.array(flowers.target_names)[flowers.target]
    analysis = analysed(flowers.data, NAMES, 3, labels=labels, seed=0)
    assert analysis.truth.counts.sum() == 150
    assert analysis.truth.names == ("setosa", "versicolor", "virginica")
    assert analysis.truth.ari == pytest.approx(apolar.scores.adjusted_rand_index(labels, analysis.predicted))
    assert f"adjusted Rand index {analysis.truth.ari:.3f}" in agreement(analysis)


def test_constant_columns_cannot_be_standardised(flowers):
    X = np.column_stack([flowers.data[:, :3], np.full(150, 7.0)])
    with pytest.raises(ValueError, match="Column 'd' is constant: it cannot be standardised. Leave it out."):
        analysed(X, NAMES, 2, standardise=True)


def test_what_is_said_in_words(flowers):
    analysis = analysed(flowers.data, NAMES, 3, covariance_type="spherical", seed=0)
    assert headline(analysis) == "150 rows fall into 3 clusters, round, each with its own size."
    said = diagnostics(analysis)
    assert said[0] == (True, f"The fit converged after {analysis.model.n_iter_} passes over the data.")
    assert any("the cluster is in doubt" in text for _, text in said)
    small = np.concatenate([flowers.data, [[50.0, 50, 50, 50], [50.1, 50, 50, 50]]])
    two = analysed(small, NAMES, 2, covariance_type="spherical", seed=0)
    assert (False, "Cluster 2 has 2 rows: it may be chance. Try fewer clusters.") in diagnostics(two)
