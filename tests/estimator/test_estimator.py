"""The estimator: equivariance, weights, starts that are given, hard data, streams, and bad input."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import apolar
from apolar import GaussianMixture

NAMES = ["full", "tied", "diag", "tied_diag", "spherical", "tied_spherical"]
each_family = pytest.mark.parametrize("name", NAMES)


def example(n=400, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    means = np.array([[0.0, 0, 0, 0], [6, 0, 1, 0], [0, 6, 0, 2]])
    return means[labels] + rng.standard_normal((n, 4)) * np.array([0.6, 1, 1.4])[labels, None], labels


def fitted(X, name="full", n_components=3, **kwargs):
    return GaussianMixture(n_components, covariance_type=name, random_state=0, tol=1e-8, **kwargs).fit(X)


# --- laws -----------------------------------------------------------------------------------


@each_family
def test_whole_fits_follow_shift_and_scale(name):
    X, _ = example()
    model, moved = fitted(X, name), fitted(1e-3 * X + 1e3, name)
    np.testing.assert_allclose(moved.weights_, model.weights_, atol=1e-5)
    np.testing.assert_allclose(moved.means_, 1e-3 * model.means_ + 1e3, rtol=0, atol=1e-7)
    np.testing.assert_allclose(moved.covariances_, 1e-6 * model.covariances_, rtol=1e-3, atol=1e-10)


@pytest.mark.parametrize("name", ["full", "tied", "spherical", "tied_spherical"])
def test_whole_fits_follow_rotations(name):
    X, _ = example()
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((4, 4)))[0]
    model, turned = fitted(X, name), fitted(X @ turn, name)
    np.testing.assert_allclose(turned.weights_, model.weights_, atol=1e-5)
    np.testing.assert_allclose(turned.means_, model.means_ @ turn, atol=1e-4)


@pytest.mark.parametrize("name", ["full", "tied", "diag", "tied_diag"])
def test_whole_fits_follow_units_of_the_columns(name):
    X, _ = example()
    units = np.array([1e-3, 1.0, 50.0, 1e4])
    model, scaled = fitted(X, name), fitted(X * units, name)
    np.testing.assert_allclose(scaled.means_, model.means_ * units, rtol=1e-3, atol=1e-4 * units.max())
    np.testing.assert_array_equal(scaled.predict(X * units), model.predict(X))


@each_family
def test_weights_are_repeated_rows(name):
    X, _ = example(200)
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = GaussianMixture(3, covariance_type=name, init_params="moments", tol=1e-8).fit(
        X, sample_weight=counts
    )
    repeated = GaussianMixture(3, covariance_type=name, init_params="moments", tol=1e-8).fit(
        X.repeat(counts, axis=0)
    )
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-7)
    np.testing.assert_allclose(weighted.means_, repeated.means_, atol=1e-6)
    np.testing.assert_allclose(weighted.covariances_, repeated.covariances_, rtol=1e-6, atol=1e-8)
    assert weighted.bic(X, counts) == pytest.approx(repeated.bic(X.repeat(counts, axis=0)))
    assert weighted.icl(X, counts) == pytest.approx(repeated.icl(X.repeat(counts, axis=0)))


def test_the_order_of_the_rows_does_not_matter_to_the_optimum():
    X, _ = example()
    model, shuffled = fitted(X), fitted(X[np.random.default_rng(0).permutation(len(X))])
    np.testing.assert_allclose(shuffled.means_, model.means_, atol=1e-4)


def test_components_are_in_canonical_order_whatever_the_seed():
    X, _ = example(300)
    fits = [GaussianMixture(3, covariance_type="spherical", random_state=seed).fit(X) for seed in range(4)]
    for model in fits[1:]:
        np.testing.assert_allclose(model.means_, fits[0].means_, atol=0.01)


def test_chunks_give_what_the_whole_gives():
    X, _ = example()
    model = fitted(X)
    chunked = fitted([X[:150], X[150:]])
    np.testing.assert_allclose(chunked.means_, model.means_, atol=1e-4)
    np.testing.assert_array_equal(chunked.predict([X[:100], X[100:]]), model.predict(X))
    with pytest.raises(ValueError, match="read only once"):
        fitted(iter([X[:150], X[150:]]))


def test_sparse_rows_are_rows():
    X, _ = example()
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    for form in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        # Sums are rounded otherwise, and EM ends within its tolerance of the optimum.
        np.testing.assert_allclose(fitted(form(X)).means_, fitted(X).means_, atol=1e-4)


# --- starts that are given --------------------------------------------------------------------


def test_labels_responsibilities_and_callables_are_starts():
    X, labels = example()
    by_labels = fitted(X, init_params=np.array(["b", "c", "a"])[labels])
    assert by_labels.start_ == "given"
    # In the order of the sorted labels: a is the third cluster.
    np.testing.assert_allclose(by_labels.means_[0], X[labels == 2].mean(axis=0), atol=0.3)
    by_share = fitted(X, init_params=np.eye(3)[labels])
    np.testing.assert_allclose(by_share.means_[2], by_labels.means_[0], atol=1e-4)

    def third(X, n_components, random_state):
        assert isinstance(random_state, np.random.RandomState)
        return np.arange(len(X)) % n_components

    assert fitted(X, init_params=third).start_ == "third"
    by_moments = fitted(X, "spherical", init_params=lambda X, r, s: apolar.mixture_from_moments(X, r))
    assert by_moments.score(X) == pytest.approx(fitted(X, "spherical").score(X), abs=1e-6)


@each_family
def test_parameters_are_starts_and_keep_their_order(name):
    X, labels = example()
    best = fitted(X, name)
    order = [2, 0, 1]
    tied = name.startswith("tied")
    precisions = best.precisions_ if tied else best.precisions_[order]
    model = fitted(
        X, name, weights_init=best.weights_[order], means_init=best.means_[order], precisions_init=precisions
    )
    np.testing.assert_allclose(model.means_, best.means_[order], atol=1e-4)
    only_means = fitted(X, name, means_init=best.means_[order])
    np.testing.assert_allclose(only_means.means_, best.means_[order], atol=1e-3)
    only_weights = fitted(X, name, weights_init=[0.2, 0.3, 0.5], init_params=labels)
    assert only_weights.score(X) == pytest.approx(best.score(X), abs=1e-4)


def test_a_warm_start_goes_on():
    X, _ = example()
    model = GaussianMixture(3, random_state=0, warm_start=True, max_iter=2, init_params="random")
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        first = model.fit(X).score(X)
    model.set_params(max_iter=500).fit(X)
    assert model.start_ == "warm start"
    assert model.score(X) > first
    assert model.converged_


def test_the_moments_step_aside_with_a_warning():
    X = np.random.default_rng(0).standard_normal((80, 2))
    with pytest.warns(UserWarning, match="stepped aside"):
        model = GaussianMixture(4, init_params="moments", random_state=0, covariance_type="tied").fit(X)
    assert model.start_ == "overseed"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Good starts disagree")
        quiet = GaussianMixture(4, random_state=0, covariance_type="tied").fit(X)
    assert any("stepped aside" in note for note in quiet.start_notes_)


def test_no_passes_give_the_start():
    X, labels = example()
    model = GaussianMixture(3, init_params=labels, max_iter=0, prior=None, covariance_type="diag").fit(X)
    np.testing.assert_allclose(model.means_, [X[labels == k].mean(axis=0) for k in range(3)])


# --- no spurious optima, no NaN -----------------------------------------------------------------


def test_the_prior_keeps_components_from_collapsing():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((100, 2)), np.full((2, 2), 9.0)])
    model = GaussianMixture(2, covariance_type="spherical", random_state=0).fit(X)
    assert model.covariances_.min() > 1e-3
    with pytest.warns(UserWarning, match="collapsed"):
        bare = GaussianMixture(
            2, covariance_type="spherical", random_state=0, prior=None, init_params="kmeans"
        ).fit(X)
    assert np.all(np.isfinite(bare.score_samples(X)))


@each_family
@pytest.mark.filterwarnings("ignore:.*components hold less than one row")
@pytest.mark.parametrize(
    "change",
    [
        lambda X: (X + 1e4).astype(np.float32),
        lambda X: X + 1e8,
        lambda X: X * 1e-6,
        lambda X: X * 1e6,
        lambda X: X * 1e-140,
        lambda X: X * 1e140,
        lambda X: np.column_stack([X, np.full(len(X), 7.0)]),
        lambda X: np.column_stack([X, np.full(len(X), 1e9)]),
        lambda X: np.column_stack([X, X[:, 0]]),
        lambda X: np.repeat(X[:40], 5, axis=0),
        lambda X: np.round(4 * X).astype(np.int64),
        lambda X: np.round(4 * X).astype(np.int8),
        lambda X: X.astype(np.float16),
        lambda X: np.asfortranarray(X),
        lambda X: np.round(X / 4) + 0.0,
    ],
    ids=[
        "float32 offset 1e4", "float64 offset 1e8", "scale 1e-6", "scale 1e6", "scale 1e-140", "scale 1e140",
        "constant column", "large constant column", "column twice", "rows repeated", "integers", "bytes",
        "halves", "Fortran", "few different rows",
    ],
)  # fmt: skip
def test_data_that_breaks_others_works(name, change):
    X, labels = example(200)
    rows = change(X)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Good starts disagree")
        model = GaussianMixture(3, covariance_type=name, random_state=0).fit(rows)
    assert np.all(np.isfinite(model.score_samples(rows)))
    assert np.all(np.isfinite(model.precisions_cholesky_))
    if len(np.unique(rows, axis=0)) > 150:
        assert apolar.scores.error_rate(labels, model.predict(rows)) < 0.05


def test_rows_that_are_all_equal_are_said_to_be_too_few():
    with pytest.warns(UserWarning, match="less than one row"):
        model = GaussianMixture(2, random_state=0).fit(np.ones((20, 3)))
    assert np.all(np.isfinite(model.score_samples(np.ones((2, 3)))))


def test_starts_that_disagree_are_told():
    # Components of very different spread, fitted with one spread for all: two optima, hardly apart.
    X, _ = apolar.datasets.make_example(2, 2000, random_state=3)
    with pytest.warns(UserWarning, match="Good starts disagree"):
        GaussianMixture(3, covariance_type="tied_diag", random_state=0).fit(X)


# --- what else a fitted mixture does -----------------------------------------------------------


@each_family
def test_samples_have_the_parameters_of_the_mixture(name):
    X, _ = example()
    model = fitted(X, name)
    rows, labels = model.sample(40_000)
    assert np.all(np.diff(labels) >= 0)
    again = GaussianMixture(3, covariance_type=name, means_init=model.means_).fit(rows)
    np.testing.assert_allclose(again.weights_, model.weights_, atol=0.02)
    np.testing.assert_allclose(again.covariances_, model.covariances_, atol=0.12)


def test_criteria_agree_with_their_definitions():
    X, _ = example()
    model = fitted(X, "spherical")
    log_likelihood, n_parameters = model.score_samples(X).sum(), 3 * 6 - 1
    assert model.n_parameters_ == n_parameters
    assert model.bic(X) == pytest.approx(n_parameters * np.log(len(X)) - 2 * log_likelihood)
    assert model.aic(X) == pytest.approx(2 * n_parameters - 2 * log_likelihood)
    assert model.icl(X) >= model.bic(X)


@pytest.mark.parametrize("name", ["spherical", "full"])
def test_a_stream_learns_what_the_whole_says(name):
    X, labels = apolar.datasets.make_example(1, 12_000, random_state=0)
    model = GaussianMixture(4, covariance_type=name, random_state=0)
    for start in range(0, len(X), 1000):
        model.partial_fit(X[start : start + 1000])
    assert model.n_samples_seen_ == len(X)
    whole = GaussianMixture(4, covariance_type=name, random_state=0).fit(X)
    assert model.score(X) > whole.score(X) - 0.01
    assert apolar.scores.error_rate(labels, model.predict(X)) < 0.01
    whole.partial_fit(X[:1000])
    assert whole.n_samples_seen_ == len(X) + 1000


def test_a_bad_batch_leaves_a_stream_as_it_was():
    X, _ = example()
    model = GaussianMixture(3, random_state=0).partial_fit(X)
    means = model.means_.copy()
    for bad in (np.full((5, 4), np.nan), X[:, :3], X[:0]):
        with pytest.raises(ValueError, match="X|NaN|features|sample"):
            model.partial_fit(bad)
        np.testing.assert_array_equal(model.means_, means)
    assert model.n_samples_seen_ == len(X)


def test_a_stream_that_began_badly_is_put_right_by_the_moments():
    # The first rows come from one place only; the moments of all rows show the rest.
    X, labels = apolar.datasets.make_example(2, 60_000, random_state=1)
    first = np.flatnonzero(labels == 0)[:5000]
    rest = np.setdiff1d(np.arange(len(X)), first)
    model = GaussianMixture(3, covariance_type="spherical", random_state=0).partial_fit(X[first])
    for start in range(0, len(rest), 2000):
        model.partial_fit(X[rest[start : start + 2000]])
    best = GaussianMixture(3, covariance_type="spherical", random_state=0).fit(X[rest])
    assert model.score(X[rest]) > best.score(X[rest]) - 0.05


def test_standard_errors_and_bootstrap_have_the_shapes_of_the_parameters():
    X, _ = example()
    model = fitted(X, "full")
    errors = model.standard_errors(X)
    assert errors.means.shape == model.means_.shape
    assert errors.covariances.shape == model.covariances_.shape
    resamples = model.bootstrap(X, n_resamples=100)
    assert resamples.means.shape == (100, *model.means_.shape)
    # The deviation of 100 values is known to 7 per cent, and there are 12 of them.
    np.testing.assert_allclose(resamples.standard_errors().means, errors.means, rtol=0.25)


def test_a_saved_mixture_is_the_same(tmp_path):
    X, _ = example()
    model = fitted(X)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        GaussianMixture.load(tmp_path / "model").predict_proba(X), model.predict_proba(X)
    )


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1"),
        ({"n_components": 2.5}, TypeError, "an integer"),
        ({"n_components": 500}, ValueError, "fewer components"),
        ({"covariance_type": "round"}, ValueError, "'tied_diag'"),
        ({"init_params": "best"}, ValueError, "'overseed'"),
        ({"init_params": np.zeros(3)}, ValueError, "labels of shape"),
        ({"init_params": np.zeros(400)}, ValueError, "1 different labels"),
        ({"init_params": np.ones((400, 2))}, ValueError, "add up to one"),
        ({"init_params": -np.ones((400, 2))}, ValueError, "none negative"),
        ({"init_params": np.tile([1.0, 0.0], (400, 1))}, ValueError, "without rows"),
        ({"init_params": lambda X, r, s: np.zeros(2)}, ValueError, "What init_params returned"),
        ({"n_init": 0}, ValueError, "n_init"),
        ({"max_iter": -1}, ValueError, "max_iter"),
        ({"tol": -1.0}, ValueError, "tol"),
        ({"n_threads": 0}, ValueError, "n_threads"),
        ({"prior": "strong"}, ValueError, "apolar.Prior"),
        ({"random_state": "seed"}, TypeError, "random_state"),
        ({"weights_init": [0.5, 0.6]}, ValueError, "normalized.* by its sum"),
        ({"means_init": np.zeros((2, 3))}, ValueError, r"shape of \(2, 4\)"),
        ({"precisions_init": -np.eye(4)}, ValueError, r"shape of \(2, 4, 4\)"),
        ({"precisions_init": np.tile(-np.eye(4), (2, 1, 1))}, ValueError, "positive-definite"),
    ],
)
def test_bad_parameters_are_refused_with_the_remedy(parameters, error, message):
    X, _ = example()
    with pytest.raises(error, match=message):
        GaussianMixture(**{"n_components": 2, **parameters}).fit(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((0, 3)), "0 sample"),
        (np.zeros(5), "2D"),
        (np.array([[1.0, np.nan]]), "NaN"),
        (np.array([[1.0, np.inf]]), "infinity"),
        (np.array([["a", "b"]]), "numeric|convert"),
        (np.array([[1 + 2j, 0]]), "[Cc]omplex"),
    ],
)
def test_bad_rows_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture().fit(X)


@pytest.mark.parametrize("weights", [np.zeros(400), -np.ones(400), np.ones(3), np.full(400, np.nan)])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match="[Ww]eight|NaN"):
        GaussianMixture().fit(example()[0], sample_weight=weights)


def test_an_unfitted_mixture_says_so():
    for method in ("predict", "predict_proba", "score_samples", "bic", "standard_errors"):
        with pytest.raises(NotFittedError):
            getattr(GaussianMixture(), method)(example()[0])
    with pytest.raises(NotFittedError):
        GaussianMixture().sample(3)


# --- what once went wrong -----------------------------------------------------------------------


@pytest.mark.parametrize("column", [lambda X: X[:, 0], lambda X: X[:, 0] + X[:, 1]], ids=["twice", "a sum"])
def test_columns_that_depend_on_each_other_without_a_prior_are_told(column):
    X, _ = example(150)
    rows = np.column_stack([X, column(X)])
    with pytest.warns(UserWarning, match="collapsed"):
        model = GaussianMixture(3, prior=None, random_state=0).fit(rows)
    assert np.all(np.isfinite(model.precisions_cholesky_))
    assert np.isfinite(model.score(rows))


def test_a_failed_fit_leaves_the_mixture_as_it_was():
    X, _ = example()
    model = fitted(X)
    before = model.predict(X)
    with pytest.raises(ValueError, match="fewer components"):
        model.fit(X[:2, :2])
    np.testing.assert_array_equal(model.predict(X), before)


def test_rows_of_weight_zero_take_their_labels_with_them():
    X, labels = example(200)
    weights = np.where(np.arange(200) < 20, 0.0, 1.0)
    expected = fitted(X[20:], init_params=labels[20:])
    for start in (labels, np.eye(3)[labels], lambda X, r, s: labels):
        model = GaussianMixture(3, init_params=start, tol=1e-8).fit(X, sample_weight=weights)
        np.testing.assert_allclose(np.sort(model.weights_), np.sort(expected.weights_), atol=1e-6)


def test_a_warm_start_of_another_family_or_table_starts_afresh():
    X, _ = example()
    model = GaussianMixture(3, warm_start=True, random_state=0).fit(X)
    model.set_params(covariance_type="diag").fit(X)
    assert model.start_ != "warm start"
    model.fit(X[:, :2])
    assert model.means_.shape == (3, 2)
    with pytest.raises(ValueError, match="fit it again"):
        model.set_params(covariance_type="tied").predict(X[:, :2])


def test_a_fitted_mixture_may_be_what_a_callable_returns():
    X, _ = example()
    model = fitted(
        X, init_params=lambda X, r, s: GaussianMixture(r, covariance_type="tied", random_state=s).fit(X)
    )
    assert model.converged_
    with pytest.raises(ValueError, match="got NoneType"):
        GaussianMixture(3, init_params=lambda X, r, s: None).fit(X)


def test_flat_directions_do_not_end_a_fit():
    # Three components in one column: the likelihood is almost flat along a long way.
    rng = np.random.default_rng(27)
    n = int(rng.choice([300, 1000, 3000]))
    X = rng.normal(size=(n, 1)) * rng.choice([0.5, 1, 1.5], n)[:, None] + rng.choice([-1, 0, 1.5], n)[:, None]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Good starts disagree")
        model = GaussianMixture(3, random_state=0).fit(X)
        longer = GaussianMixture(3, random_state=0, tol=1e-9, max_iter=3000).fit(X)
    assert n * (longer.lower_bounds_[-1] - model.lower_bounds_[-1]) < 2e-3


@pytest.mark.parametrize("name", ["spherical", "full", "diag", "tied_spherical", "tied_diag"])
def test_equal_components_are_parted(name):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 2))
    X[300:, 0] += 8
    best = GaussianMixture(2, covariance_type=name, prior=None, random_state=0).fit(X).score(X)
    equal = GaussianMixture(2, covariance_type=name, prior=None, init_params=np.full((600, 2), 0.5)).fit(X)
    assert equal.score(X) == pytest.approx(best, abs=1e-5)


@each_family
def test_a_stream_after_a_fit_goes_on_where_it_ended(name):
    X, _ = example(60)
    model = GaussianMixture(3, covariance_type=name, random_state=0).fit(X)
    before = model.covariances_.copy()
    model.partial_fit(X[:1])
    # One row in sixty, by the rule of stepwise EM: (1/61)^0.8 of the way.
    np.testing.assert_allclose(model.covariances_, before, atol=0.15 * np.abs(before).max())


def test_no_tolerance_ends_when_nothing_moves():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((50, 2)), rng.standard_normal((50, 2)) + 20])
    assert GaussianMixture(2, random_state=0, tol=0).fit(X).converged_


def test_numbers_out_of_range_and_constant_columns_are_named():
    X, _ = example(100)
    with pytest.raises(ValueError, match="Column 0 of X has .* Divide the column"):
        GaussianMixture(2).fit(X * 1e160)
    with pytest.raises(ValueError, match="Column 2 of X has a deviation of .*e-155"):
        GaussianMixture(2).fit(X * np.where(np.arange(X.shape[1]) == 2, 1e-155, 1))
    rows = np.column_stack([X, np.ones(100)])
    with pytest.raises(ValueError, match="Column 4 is constant"):
        GaussianMixture(3, random_state=0).fit(rows).standard_errors(rows)


@pytest.mark.parametrize("weights", [-np.ones(400), np.zeros(400), [1, 2]])
def test_scores_check_their_weights(weights):
    X, _ = example()
    model = fitted(X)
    for method in (model.score, model.bic):
        with pytest.raises(ValueError, match="[Ww]eight"):
            method(X, sample_weight=weights)
