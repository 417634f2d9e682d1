"""Hard rows: no spurious optima, no NaN, and fits that end where nothing moves."""

import warnings

import numpy as np
import pytest

import apolar
from apolar import GaussianMixture
from estimator.clusters import example
from mixtures import FAMILY_NAMES, pairs


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
        warnings.filterwarnings("ignore", "Good starts disagree")
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
    with pytest.warns(UserWarning, match="Good starts disagree"):
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


def test_no_tolerance_ends_when_nothing_moves():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((50, 2)), rng.standard_normal((50, 2)) + 20])
    assert GaussianMixture(2, random_state=0, tol=0).fit(X).converged_
