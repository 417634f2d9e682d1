"""Fits: hard rows, starts that are given, and what changes nothing: shifts, units, rotations, order."""

import signal
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import apolar
from apolar import GaussianMixture
from apolar.mixture.families import family
from apolar.search import search
from estimator.clusters import example, fitted
from mixtures import FAMILY_NAMES, each_family, matrices_of, pairs


def test_the_prior_keeps_components_from_collapsing():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((100, 2)), np.full((2, 2), 9.0)])
    model = GaussianMixture(2, covariance_type="spherical", random_state=0)
    assert model.fit(X).covariances_.min() > 1e-3
    with pytest.warns(UserWarning, match="collapsed"):
        model.set_params(prior=None, init_params="kmeans").fit(X)
    assert np.all(np.isfinite(model.score_samples(X)))


@pytest.mark.parametrize(("name", "integer"), pairs(["full", "tied_spherical", "EVE"], [np.int64, np.uint8]))
def test_integers_of_numpy_are_numbers_as_any(name, integer):
    # As in GaussianMixture(labels.max() + 1). Products of bytes would overflow, and have no kernels.
    X, labels = example(60)
    numbers = {"n_components": labels.max() + 1, "n_init": 2, "max_iter": 100, "random_state": 3}
    given = {key: integer(value) for key, value in numbers.items()}
    plain = {key: int(value) for key, value in numbers.items()}
    one, other = (GaussianMixture(**each, covariance_type=name).fit(X) for each in (given, plain))
    assert np.array_equal(one.means_, other.means_)
    assert isinstance(one.n_components, integer)
    streamed = GaussianMixture(**given, covariance_type=name).partial_fit(X)
    assert np.all(np.isfinite(streamed.means_))


CHANGES = {
    "float32 offset 1e4": lambda X: (X + 1e4).astype(np.float32),
    "float64 offset 1e8": lambda X: X + 1e8,
    "scale 1e-6": lambda X: X * 1e-6,
    "scale 1e6": lambda X: X * 1e6,
    "scale 1e-140": lambda X: X * 1e-140,
    "scale 1e140": lambda X: X * 1e140,
    "constant column": lambda X: np.column_stack([X, np.full(len(X), 7.0)]),
    "large constant column": lambda X: np.column_stack([X, np.full(len(X), 1e9)]),
    "column twice": lambda X: np.column_stack([X, X[:, 0]]),
    "rows repeated": lambda X: np.repeat(X[:40], 5, axis=0),
    "integers": lambda X: np.round(4 * X).astype(np.int64),
    "bytes": lambda X: np.round(4 * X).astype(np.int8),
    "halves": lambda X: X.astype(np.float16),
    "Fortran": lambda X: np.asfortranarray(X),
    "few different rows": lambda X: np.round(X / 4) + 0.0,
}


@pytest.mark.filterwarnings("ignore:.*components hold less than one row")
@pytest.mark.filterwarnings("ignore::apolar.exceptions.ColumnWarning")
@pytest.mark.parametrize(("name", "change"), pairs(FAMILY_NAMES, list(CHANGES)))
def test_data_that_breaks_others_works(name, change):
    X, labels = example(200)
    rows = CHANGES[change](X)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Two solutions with nearly equal")
        model = GaussianMixture(3, covariance_type=name, random_state=0).fit(rows)
    assert np.all(np.isfinite(model.score_samples(rows)))
    assert np.all(np.isfinite(model.precisions_cholesky_))
    if len(np.unique(rows, axis=0)) > 150:
        assert apolar.scores.error_rate(labels, model.predict(rows)) < 0.05


def test_rows_that_are_all_equal_are_said_to_be_too_few():
    with pytest.warns(UserWarning, match="only 1 different rows for 2 components"):
        model = GaussianMixture(2, random_state=0).fit(np.ones((20, 3)))
    assert np.all(np.isfinite(model.score_samples(np.ones((2, 3)))))


def test_starts_that_disagree_are_warned_of():
    # Components of very different spread, fitted with one spread for all: two optima, hardly apart.
    X, _ = apolar.datasets.make_example(2, 2000, random_state=3)
    with pytest.warns(UserWarning, match="Two solutions with nearly equal"):
        GaussianMixture(3, covariance_type="tied_diag", random_state=0).fit(X)


def test_flat_directions_do_not_end_a_fit():
    # Three components in one column: the likelihood is almost flat along a long way.
    rng = np.random.default_rng(27)
    n = int(rng.choice([300, 1000, 3000]))
    X = rng.normal(size=(n, 1)) * rng.choice([0.5, 1, 1.5], n)[:, None] + rng.choice([-1, 0, 1.5], n)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", apolar.ApolarWarning)
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


def test_labels_responsibilities_and_callables_are_starts():
    X, labels = example()
    by_labels = fitted(X, init_params=np.array(["b", "c", "a"])[labels])
    assert by_labels.start_ == "given"
    # In the order of the sorted labels: a is the third cluster.
    np.testing.assert_allclose(by_labels.means_[0], X[labels == 2].mean(axis=0), atol=0.3)
    by_responsibilities = fitted(X, init_params=np.eye(3)[labels])
    np.testing.assert_allclose(by_responsibilities.means_[2], by_labels.means_[0], atol=1e-4)

    def third(X, n_components, random_state):
        assert isinstance(random_state, np.random.RandomState)
        return np.arange(len(X)) % n_components

    assert fitted(X, init_params=third).start_ == "third"
    by_moments = fitted(X, "spherical", init_params=lambda X, r, s: apolar.mixture_from_moments(X, r))
    assert by_moments.score(X) == pytest.approx(fitted(X, "spherical").score(X), abs=1e-6)
    other = fitted(X, "tied")
    assert fitted(X, init_params=lambda *_: other).converged_


@pytest.mark.parametrize("name", ["full", "tied", "diag", "tied_diag", "spherical", "VEE", "EVE"])
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


@pytest.mark.parametrize(("n_components", "n_columns"), [(2, 6), (3, 5)])
def test_a_returned_mixture_of_another_shape_is_refused(n_components, n_columns):
    X, _ = apolar.datasets.make_example(1, 300, random_state=0)
    smaller = apolar.mixture_from_moments(X[:, :n_columns], n_components)
    with pytest.raises(ValueError, match=r"What init_params returned has means of shape"):
        GaussianMixture(3, init_params=lambda *_: smaller, random_state=0).fit(X)


X, _ = example()


@each_family
def test_whole_fits_follow_shifts_and_units(name):
    # Spherical components know one unit for all columns, as do those whose axes are orthogonal.
    has_one_unit = family(name).is_rotated or family(name).is_spherical
    units = np.full(4, 1e-3) if has_one_unit else np.array([1e-3, 1.0, 50.0, 1e4])
    rows = units * (X + 1e3)
    model, moved = fitted(X, name), fitted(rows, name)
    np.testing.assert_allclose(moved.weights_, model.weights_, atol=1e-5)
    np.testing.assert_allclose(moved.means_ / units - 1e3, model.means_, atol=1e-4)
    matrices = [matrices_of(each) for each in (model, moved)]
    np.testing.assert_allclose(matrices[1] / np.outer(units, units), matrices[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(moved.predict(rows), model.predict(X))
    # EM ends within its tolerance of the optimum.
    shift = len(X) * np.log(units).sum()
    assert moved.evidence_ == pytest.approx(model.evidence_ - shift, abs=1e-2)


@pytest.mark.parametrize("name", ["full", "tied", "spherical", "tied_spherical"])
def test_whole_fits_follow_rotations(name):
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    # The default prior shrinks covariances of matrices towards their diagonal, which a rotation changes.
    prior = "default" if family(name).is_spherical else "conjugate"
    given = X, X[rng.permutation(len(X))] @ turn
    model, turned = (fitted(each, name, prior=prior) for each in given)
    # Weights may be equal, and the order of the components is then that of the means.
    distances = np.linalg.norm((model.means_ @ turn)[:, None] - turned.means_, axis=2)
    order = distances.argmin(axis=1)
    np.testing.assert_allclose(distances.min(axis=1), 0, atol=1e-4)
    np.testing.assert_allclose(turned.weights_[order], model.weights_, atol=1e-5)
    assert turned.evidence_ == pytest.approx(model.evidence_, abs=1e-2)


@pytest.mark.filterwarnings("ignore::apolar.exceptions.FewRowsWarning")
@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_the_bound_of_one_row_is_its_score(weight):
    X, weights = np.array([[1.0, 0, 1], [3, 1, 2]]), np.array([0, weight])
    model = apolar.GaussianMixture(1, covariance_type="diag", reg_covar=1e-6).fit(X, sample_weight=weights)
    assert model.lower_bound_ == pytest.approx(model.score(X[1:]), rel=1e-12)


@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_an_interrupted_search_returns_the_best_mixture_so_far(covariance_type, monkeypatch):
    X = np.random.default_rng(0).standard_normal((300, 40)) + 4 * np.eye(40)[np.arange(300) % 6]
    n_runs, real = [0], search.approach

    def interrupted(*arguments):
        n_runs[0] += 1
        if n_runs[0] == 2:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(search, "approach", interrupted)
    model = GaussianMixture(6, covariance_type=covariance_type, random_state=0)
    with pytest.warns(ConvergenceWarning, match="interrupted: this is the best mixture so far"):
        model.fit(X)
    assert not model.converged_
    assert n_runs == [2]
    assert len(np.unique(model.predict(X))) > 1


def test_what_a_search_took():
    X = np.random.default_rng(0).standard_normal((3000, 4)) + 8 * np.eye(4)[np.arange(3000) % 3]
    model = GaussianMixture(3, random_state=0).fit(X)
    cost = model.search_
    assert 0 < cost.passes < cost.budget
    assert cost.n_rows <= 3000
    assert cost.seconds > 0
    assert not hasattr(GaussianMixture(3, means_init=model.means_).fit(X), "search_")


def test_log_densities_of_far_rows_stay_in_single_precision():
    rows = np.random.default_rng(0).standard_normal((50, 2)).astype(np.float32)
    model = GaussianMixture(1).fit(rows)
    densities = model.score_samples(np.array([[0, 0], [1e30, 0]], np.float32))
    assert densities.dtype == np.float32
    assert np.all(np.isfinite(densities))
    assert densities[0] > densities[1]
