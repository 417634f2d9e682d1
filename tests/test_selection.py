"""Selection: the right candidate wins, neighbours help, the table says what happened, progress is told."""

import re
import warnings
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_wine

from apolar import Prior
from apolar.datasets import load_iris, make_example
from apolar.estimator import GaussianMixture
from apolar.exceptions import ColumnWarning, FarRowsWarning
from apolar.scores import CRITERIA, adjusted_rand_index
from apolar.selection import Row, select
from apolar.selection.selection_table import ranked_rows
from mixtures import matrices_of
from references import table


def clusters(covariances, counts, seed=0, apart=6.0):
    """Return rows of clusters on the axes, with given covariances."""
    rng = np.random.default_rng(seed)
    m = len(covariances[0])
    means = apart * np.vstack([np.zeros(m), np.eye(m)])
    kinds = zip(means, covariances, counts, strict=False)
    return np.concatenate([rng.multivariate_normal(*kind) for kind in kinds])


@pytest.fixture(scope="module")
def example():
    return make_example(1, random_state=0)[0]


@pytest.fixture(scope="module")
def selection(example):
    return select(example, range(1, 7), ("spherical", "diag", "full"), random_state=0)


def test_the_first_example_of_the_paper_has_four_spherical_components(selection):
    assert (selection.best.covariance_type, selection.best.n_components) == ("spherical", 4)
    assert selection.criterion == "bic"
    assert selection.reason.startswith("4 spherical components have the lowest BIC")
    assert "very strong evidence" in selection.reason
    assert len(selection.table) == len(selection.models) == 18
    assert selection.models["spherical", 4] is selection.best
    assert [row.n_components for row in selection.table[:6]] == list(range(1, 7))


def test_rows_say_what_the_models_say(example, selection):
    assert set(CRITERIA) < {field.name for field in fields(Row)}
    for row in selection.table[3::4]:
        model = selection.models[row.covariance_type, row.n_components]
        assert type(model) is GaussianMixture
        assert (row.n_parameters, row.start) == (model.n_parameters_, model.start_)
        for criterion in ("bic", "aic", "icl"):
            assert getattr(row, criterion) == pytest.approx(getattr(model, criterion)(example), rel=1e-10)
        assert row.evidence == -2 * model.evidence_
        assert row.log_likelihood == pytest.approx(model.score(example) * len(example), rel=1e-10)
        assert row.converged
        assert row.failed is None
        assert row.seconds > 0
        # The heaviest first, whether the start was the estimator's or a neighbour's.
        assert np.all(np.diff(model.weights_) <= 0)
        assert (model.warm_start, model.n_threads) == (False, None)


def test_the_likelihood_does_not_fall_as_components_are_added(selection):
    values = np.array([row.log_likelihood for row in selection.table]).reshape(3, 6)
    # Up to the true number: beyond it fits that cannot be chosen are not looked at again.
    assert np.all(np.diff(values[:, :4], axis=1) > 0)


def test_evidence_chooses_the_number_and_the_family():
    long, wide = np.diag([9.0, 0.3]), np.array([[2.0, 1.8], [1.8, 2.0]])
    X = clusters([long, wide, wide[::-1, ::-1] * [[1, -1], [-1, 1]]], [80, 60, 60], apart=8)
    selection = select(X, range(1, 6), ("diag", "tied", "full"), "evidence", random_state=0)
    assert (selection.best.covariance_type, selection.best.n_components) == ("full", 3)
    lowest = min(row.evidence for row in selection.table)
    assert lowest == -2 * selection.best.evidence_
    start = f"3 full components have the lowest -2 log evidence, {lowest:.1f}, "
    assert selection.reason.startswith(start)
    (marked,) = [line for line in str(selection).splitlines() if "<- lowest -2 log evidence" in line]
    assert marked.split()[:2] == ["full", "3"]
    # Five clusters in twelve columns: of 40 rows each, a covariance of 78 parameters is not to be had alone.
    rng = np.random.default_rng(0)
    roots = np.linalg.qr(rng.standard_normal((5, 12, 12)))[0] * np.geomspace(0.5, 2, 12)
    X = np.concatenate([4 * np.eye(12)[k] + rng.standard_normal((40, 12)) @ roots[k] for k in range(5)])
    table = select(X, range(3, 7), "full", "evidence", random_state=0).table
    assert min(table, key=lambda row: row.evidence).n_components == 5
    assert min(table, key=lambda row: row.bic).n_components < 5


def test_the_number_of_jobs_changes_nothing(example):
    X = example[:300]
    alone, parallel = (
        select(X, range(1, 5), ("spherical", "full"), random_state=3, n_jobs=n_jobs) for n_jobs in (None, 2)
    )
    for row, other in zip(alone.table, parallel.table, strict=True):
        assert replace(row, seconds=0) == replace(other, seconds=0)
    np.testing.assert_array_equal(alone.best.means_, parallel.best.means_)
    assert parallel.best.n_threads is None


def test_weights_stand_for_repeated_rows(example):
    X = example[:200]
    counts = np.random.default_rng(0).integers(0, 3, len(X))
    # One mixture is the same in closed form; of more, the starts draw rows, and reach the same optimum.
    weighted = select(X, (1, 3), "spherical", sample_weight=counts, random_state=0)
    repeated = select(np.repeat(X, counts, axis=0), (1, 3), "spherical", random_state=0)
    for row, other in zip(weighted.table, repeated.table, strict=True):
        # EM ends 1e-3 below the optimum at most.
        assert row.log_likelihood == pytest.approx(other.log_likelihood, abs=5e-3)
        assert row.bic == pytest.approx(other.bic, abs=1e-2)
        assert row.icl == pytest.approx(other.icl, abs=2e-2)


def test_tables_of_other_makes(example):
    pandas = pytest.importorskip("pandas")
    X = example[:150]
    plain = select(X, (1, 2), "diag", random_state=0)
    frame = select(pandas.DataFrame(X, columns=list("abcdef")), (1, 2), "diag", random_state=0)
    assert list(frame.best.feature_names_in_) == list("abcdef")
    for other in (frame, select(sparse.csr_matrix(X), (1, 2), "diag", random_state=0)):
        assert other.table[1].bic == pytest.approx(plain.table[1].bic, abs=1e-2)
    table = plain.to_pandas()
    assert list(table["n_components"]) == [1, 2]
    assert table["bic"][1] == plain.table[1].bic


def test_the_text_is_a_table_with_the_winner_marked(selection):
    head, *lines, empty, reason = str(selection).splitlines()
    criteria = ["log-likelihood", "BIC", "AIC", "ICL", "-2 log evidence", "-2 LOO"]
    assert re.split("  +", head) == ["covariance", "components", "parameters", *criteria, "start"]
    assert len(lines) == 18
    (marked,) = [line for line in lines if "<- lowest BIC" in line]
    assert marked.split()[:2] == ["spherical", "4"]
    assert (empty, reason) == ("", selection.reason)
    assert repr(selection) == str(selection)


def test_failures_are_recorded_and_not_raised():
    X = np.random.default_rng(0).standard_normal((4, 2))
    selection = select(X, (1, 2, 6), "spherical", random_state=0)
    assert selection.table[0].failed is None
    assert "too many for 4 rows" in selection.table[1].failed
    assert "need at least as many rows" in selection.table[2].failed
    assert np.isnan(selection.table[2].bic)
    assert ("spherical", 6) not in selection.models
    assert "failed: " in str(selection)
    with pytest.raises(ValueError, match=r"Every candidate failed\. 6 spherical .*at least as many rows"):
        select(X, (6, 7), "spherical", random_state=0)


def test_warnings_go_into_the_rows(example):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selection = select(example[:200], (3, 4), "diag", max_iter=2, random_state=0, n_jobs=2)
    stopped = [row for row in selection.table if not row.converged]
    assert stopped
    assert all(any("max_iter" in text for text in row.warnings) for row in stopped)
    assert "not converged" in str(selection)


def test_one_number_one_family_and_repeats(example):
    X = example[:100]
    single = select(X, 2, "full", random_state=np.random.default_rng(0), tol=1e-2)
    assert [(row.covariance_type, row.n_components) for row in single.table] == [("full", 2)]
    assert single.best.tol == 1e-2
    several = select(X, [2, 1, 2], ["VII", "spherical"], "icl", random_state=0)
    assert list(several.models) == [("VII", 2), ("VII", 1)]
    assert several.best.icl(X) == pytest.approx(min(row.icl for row in several.table), rel=1e-10)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1"),
        ({"n_components": [1, 2.5]}, TypeError, "n_components must be an integer"),
        ({"n_components": []}, ValueError, "n_components is empty"),
        ({"covariance_type": "round"}, ValueError, "covariance_type must be one of"),
        ({"covariance_type": ()}, ValueError, "covariance_type is empty"),
        ({"criterion": "dic"}, ValueError, "criterion must be one of 'bic', 'aic', 'icl', 'evidence'"),
        ({"means_init": np.zeros((2, 6))}, ValueError, "means_init belongs to one mixture"),
        ({"iterations": 3}, TypeError, "no parameter 'iterations'"),
        ({"tol": -1.0}, ValueError, "tol"),
        ({"sample_weight": np.ones(3)}, ValueError, "sample_weight"),
        ({"X": np.full((50, 2), np.inf)}, ValueError, "infinity"),
    ],
)
def test_bad_values_are_refused_before_anything_is_fitted(example, monkeypatch, arguments, error, message):
    monkeypatch.setattr(GaussianMixture, "fit", lambda *_, **__: pytest.fail("fitted"))
    with pytest.raises(error, match=message):
        select(**{"X": example[:50]} | arguments)


def test_constant_columns_do_not_change_the_choice():
    X = load_iris().data
    Z = np.column_stack([np.full(len(X), 3.0), X, np.ones(len(X)), np.full(len(X), -7.0)])
    plain = select(X, range(1, 4), random_state=0)
    with pytest.warns(ColumnWarning, match=r"^Columns 0, 5 and 6 are constant\. .*comparison"):
        padded = select(Z, range(1, 4), random_state=0)
    for row, same in zip(plain.table, padded.table, strict=True):
        np.testing.assert_allclose(row.bic, same.bic, rtol=1e-6)
    assert padded.best.covariance_type == plain.best.covariance_type
    np.testing.assert_array_equal(padded.best.predict(Z), plain.best.predict(X))
    np.testing.assert_allclose(padded.best.means_[:, [0, 5, 6]], [[3.0, 1.0, -7.0]] * 2)
    for model in padded.models.values():
        assert model.n_features_in_ == 7
        assert np.all(np.isfinite(model.score_samples(Z)))


def test_one_gaussian_is_one_cluster():
    n_wrong = 0
    for n_samples, n_features in ((5, 3), (40, 6)):
        for seed in range(2):
            X = np.random.default_rng(seed).standard_normal((n_samples, n_features))
            selection = select(X, random_state=0)
            n_wrong += selection.best.n_components > 1
            assert selection.best.n_components == 1 or "very strong" not in selection.reason
    # BIC finds two clusters by chance in a few tables of so few rows.
    assert n_wrong <= 1


@pytest.mark.parametrize("parameters", [{}, {"tol": 1.001e-3}])
def test_one_gaussian_is_one_cluster_however_it_is_fitted(parameters):
    X = np.random.default_rng(1).standard_normal((40, 6))
    if not parameters:
        X[3, 2] = np.nan
    assert (
        select(X, range(1, 5), ("full", "diag", "VEI"), random_state=0, **parameters).best.n_components == 1
    )


def test_a_likelihood_without_maximum_is_not_compared():
    X = np.random.default_rng(0).standard_normal((40, 6))
    selection = select(X, (1, 5), ("full", "tied_spherical"), random_state=0)
    assert ("full", 5) not in selection.models
    assert np.isnan(selection.table[1].bic)
    assert "too many for 40 rows" in selection.table[1].failed
    narrow = np.concatenate([np.random.default_rng(0).standard_normal((60, 2)), np.full((8, 2), 9.3)])
    for families, given in ((("spherical", "tied"), {}), (("spherical", "full"), {"prior": None})):
        selection = select(narrow, (1, 2), families, random_state=0, **given)
        assert selection.table[1].failed.startswith("the likelihood has no maximum")
    assert list(selection.models) == [("spherical", 1), ("full", 1)]


@pytest.mark.parametrize(("size", "place"), [(1e3, slice(None)), (1e5, 1), (1e7, slice(None)), (1e7, 1)])
def test_one_bad_row_is_one_more_cluster(size, place):
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(centre, 1, (100, 3)) for centre in (0, 8, -8)])
    X[5, place] = -size
    with pytest.warns(FarRowsWarning, match=r"^Row 5 is more than .* fit with noise") as caught:
        selection = select(X, range(1, 7), ("tied", "full", "tied_spherical"), random_state=0)
    assert caught[0].message.rows == (5,)
    assert sorted(np.bincount(selection.best.predict(X))) == [1, 99, 100, 100]


@pytest.mark.parametrize(
    "settings",
    [{"tol": 1.001e-3}, {"max_iter": 499}, {"n_init": 2}, {"init_params": "mbhc"}, {"reg_covar": 1e-9}],
)
def test_settings_do_not_change_how_candidates_are_fitted(example, settings):
    X = example[:300]
    plain, other = (
        select(X, (2, 3, 4), ("spherical", "tied"), random_state=0, **given) for given in ({}, settings)
    )
    assert other.best_row.bic == pytest.approx(plain.best_row.bic, abs=2e-2)
    assert other.note == ""


def test_candidates_under_a_prior_are_those_of_the_estimator(example):
    X = example[:300]
    selection = select(X, (2, 3), "spherical", random_state=0, prior="default")
    own = GaussianMixture(3, covariance_type="spherical", random_state=0).fit(X)
    assert selection.best.lower_bound_ == pytest.approx(own.lower_bound_, abs=1e-6)
    assert selection.reason.endswith(selection.note)
    assert "prior" in selection.note


@pytest.mark.filterwarnings("ignore:Two solutions with nearly equal")
def test_candidates_are_no_narrower_than_the_rounding_of_scores():
    rng = np.random.default_rng(0)
    is_low = rng.random(300) < 0.6
    low = np.where(rng.random((300, 5)) < 0.95, 1, rng.integers(2, 5, (300, 5)))
    high = np.clip(np.round(6 + 2.5 * rng.standard_normal((300, 5))), 1, 10)
    X = np.where(is_low[:, None], low, high).astype(float)
    selection = select(X, range(1, 5), ("diag", "full"), random_state=0)
    for model in selection.models.values():
        # Rounding errors have a variance of 1/12; where EM stops, a variance is within some per cent.
        assert np.linalg.eigvalsh(matrices_of(model)).min() > 0.95 / 12
    # Flat components are not worth more than they say: a density of 1.4 at each score, not hundreds.
    without = select(X, range(1, 5), ("diag", "full"), random_state=0, prior=Prior())
    assert selection.best.bic(X) > without.best.bic(X) + 1000
    assert any(np.any(model.rounding_variances_) for model in selection.models.values())
    assert not np.any(selection.models["diag", 1].rounding_variances_)


def test_a_longer_list_does_not_make_a_candidate_worse():
    X = load_wine().data
    among = select(X, range(2, 5), random_state=0)
    rows = {(row.covariance_type, row.n_components): row for row in among.table}
    for kind in ("full", "VEV", "tied"):
        alone = select(X, 3, kind, random_state=0)
        if (kind, 3) in among.models:
            # Where EM stops depends on how near the best is.
            assert among.models[kind, 3].lower_bound_ > alone.best.lower_bound_ - 1e-3
        else:
            # Not fitted, as it cannot be the best: nor is it if it is fitted by itself.
            assert rows[kind, 3].dropped.startswith("at least ")
            assert alone.best_row.bic > among.best_row.bic + 9


def test_columns_whose_covariances_do_not_fit_into_memory_are_refused():
    X = np.random.default_rng(0).uniform(size=(20, 100_000))
    with pytest.raises(MemoryError, match="use 'diag' or 'spherical'"):
        select(X, 2, "full")
    # By default covariances with more parameters than the table has values are not compared.
    compared = {row.covariance_type for row in select(X[:, :60], 2, random_state=0).table}
    assert {"diag", "tied_spherical"} <= compared
    assert "full" not in compared


FITTING, REFINING, ON_ALL_ROWS = "fitting", "refining", "fitting to all rows"


@pytest.fixture(scope="module")
def iris():
    return load_iris().data


def reports(X, *arguments, **parameters):
    calls = []
    select(X, *arguments, callback=lambda *call: calls.append(call), random_state=0, **parameters)
    return calls


def check(calls, what, n_all):
    counts = [(done, total) for said, done, total in calls if said == what]
    assert counts
    assert {total for _, total in counts} == {n_all}
    done = [count for count, _ in counts]
    assert done == sorted(done)
    assert done[-1] == n_all


def test_candidates_are_counted_also_those_that_are_dropped(iris):
    calls = reports(iris, range(1, 4), ("full", "tied", "tied_spherical"))
    check(calls, FITTING, 9)
    assert list(dict.fromkeys(what for what, _, _ in calls)) == [FITTING, REFINING]
    check(reports(iris, (1, 2), ("diag", "spherical"), "evidence"), FITTING, 4)


def test_no_fit_is_below_that_of_mclusts_start_without_a_prior():
    # EM of the start from mclust's tree alone ends at this likelihood.
    (row,) = select(table("diabetes.csv"), 6, "VVI", random_state=0).table
    assert row.log_likelihood > -2311.494


def test_the_number_of_clusters_is_found_beside_noise():
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    X = np.array([[0.0, 0, 0], [9, 0, 1], [0, 9, 3]])[labels] + rng.standard_normal((300, 3))
    X = np.vstack([X, rng.uniform(X.min(axis=0) - 2, X.max(axis=0) + 2, (40, 3))])
    selection = select(X, range(1, 6), ("spherical", "full"), noise=True, random_state=0)
    best = selection.best
    assert (best.covariance_type, best.n_components) == ("spherical", 3)
    assert np.mean(best.predict(X[300:]) == -1) > 0.85
    row = next(row for row in selection.table if (row.covariance_type, row.n_components) == ("spherical", 3))
    # Weights, means and variances, and the weight and the volume of the noise.
    assert row.n_parameters == 2 + 9 + 3 + 2
    assert row.bic == best.bic(X)
    for kind in ("spherical", "full"):
        bounds = [row.log_likelihood for row in selection.table if row.covariance_type == kind]
        # The prior costs likelihood: a little less with one component more is not a worse optimum.
        assert np.all(np.diff(bounds) > -10)
    without = select(X, range(1, 6), "spherical", random_state=0).best
    assert without.n_components > 3
    assert without.bic(X) > best.bic(X)


def test_clusters_are_those_on_which_families_agree():
    iris = load_iris()
    by_bic = select(iris.data, range(1, 7), random_state=0)
    selection = select(iris.data, range(1, 7), criterion="clusters", random_state=0)
    # The lowest BIC of all is of two clusters, and most families find three.
    assert (by_bic.best.n_components, selection.clusters.n_clusters) == (2, 3)
    assert selection.best is selection.clusters.mixture
    assert selection.best_row.bic > by_bic.best_row.bic
    assert f"adjusted Rand index {selection.agreement:.2f}" in selection.reason
    assert "<- best agreement" in str(selection)
    assert by_bic.agreement is None
    # By definition: the mean over families, weighted by what they describe.
    ranked = ranked_rows(selection.table, "bic")
    first = [next(row for row in ranked if row.form == form) for form in {row.form for row in ranked}]
    labels = {
        row.form: selection.models[row.key].combine(iris.data, by="overlap").predict(iris.data)
        for row in first
    }
    of_one = min(row.bic for row in ranked if row.n_components == 1)
    gains = {row.form: max(of_one - row.bic, 0.0) ** 3 for row in first}

    def agreement(form):
        others = [other for other in labels if other != form]
        indices = [adjusted_rand_index(labels[form], labels[other]) for other in others]
        return np.average(indices, weights=[gains[other] for other in others])

    assert selection.agreement == pytest.approx(agreement(selection.best_row.form))
    assert selection.agreement == pytest.approx(max(map(agreement, labels)))


def test_clusters_may_have_several_components():
    rng = np.random.default_rng(0)
    squares = rng.uniform(-1, 1, (400, 2)) + np.repeat([[0, 0], [4, 0]], 200, axis=0)
    selection = select(squares, range(1, 7), criterion="clusters", random_state=0)
    assert selection.criterion == "bic"
    assert selection.best.n_components > 2
    assert selection.clusters.n_clusters == 2
    found = selection.clusters.predict(squares)
    assert adjusted_rand_index(np.arange(400) // 200, found) == 1
    assert selection.clusters.sentence in selection.reason
    assert select(squares, 1, random_state=0).clusters is None


def test_by_rows_left_out_the_simplest_within_one_standard_error_is_chosen():
    X, weights = load_iris().data, np.r_[np.full(5, 2.0), np.ones(140), np.zeros(5)]
    selection = select(
        X, range(1, 8), ["full", "tied"], criterion="loo", random_state=0, sample_weight=weights
    )
    best, lowest = selection.best_row, ranked_rows(selection.table, "loo")[0]

    def densities(row):
        return np.repeat(selection.models[row.key].loo_samples(X, weights), weights.astype(int))

    def is_near(row):
        gaps = densities(lowest) - densities(row)
        return gaps.sum() <= np.sqrt(len(gaps)) * gaps.std()

    assert best.n_parameters < lowest.n_parameters
    assert is_near(best)
    assert not any(is_near(row) for row in selection.table if row.n_parameters < best.n_parameters)
    assert f"{best.named} are chosen" in selection.reason
    assert "within one standard error over the rows" in selection.reason


def test_fits_to_all_rows_are_counted():
    # More rows than those on which candidates are compared first.
    calls = reports(make_example(1, 60_000, random_state=0)[0], (4, 5), ("spherical", "tied_spherical"))
    totals = {total for what, _, total in calls if what == ON_ALL_ROWS}
    assert len(totals) == 1
    check(calls, ON_ALL_ROWS, totals.pop())


def test_lines_are_printed_if_asked_for(example, capsys):
    select(example[:100], (1, 2), "spherical", verbose=1, random_state=0)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("1 spherical component: log-likelihood")


def test_by_rows_left_out_the_scale_of_the_weights_does_not_matter(example):
    few, weights = example[:200], np.linspace(0.5, 1.0, 200)
    by_scale = [
        select(few, [1, 3], "spherical", "loo", sample_weight=scale * weights, random_state=0)
        for scale in (1.0, 1e307)
    ]
    assert by_scale[0].best_row.key == by_scale[1].best_row.key
