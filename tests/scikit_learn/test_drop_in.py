"""What a script written for scikit-learn's mixture relies on, beside what its own tests ask."""

import inspect
import warnings

import numpy as np
import pytest
import sklearn.mixture
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import apolar
from apolar import GaussianMixture
from apolar.exceptions import CollapsedWarning, SkippedStartWarning
from mixtures import pairs

NAMES = ("full", "tied", "diag", "spherical")


def example(n=400, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    return 4 * np.eye(3)[labels] + rng.standard_normal((n, 3)) * np.array([0.5, 1.0, 1.5])


def test_every_parameter_is_taken_by_a_class_of_the_same_name():
    theirs = inspect.signature(sklearn.mixture.GaussianMixture).parameters
    assert set(theirs) <= set(inspect.signature(GaussianMixture).parameters)
    assert [name for name, p in theirs.items() if p.kind is p.POSITIONAL_OR_KEYWORD] == ["n_components"]
    model = GaussianMixture(**{name: p.default for name, p in theirs.items()}).fit(example())
    assert model._n_parameters() == model.n_parameters_ == 3 + 6
    assert GaussianMixture.__name__ == sklearn.mixture.GaussianMixture.__name__
    for weights in (None, [2.0]):
        with pytest.raises(ValueError, match="minimum of 2 is required"):
            model.fit(np.ones((1, 3)), sample_weight=weights)


@pytest.mark.parametrize(("name", "reg_covar"), pairs(NAMES, [0, 1e-6, 0.5]))
def test_reg_covar_is_added_to_the_variances(name, reg_covar):
    # One component has a closed form, in any units.
    X = example() * [1.0, 10.0, 0.01]
    ours = GaussianMixture(1, covariance_type=name, reg_covar=reg_covar).fit(X)
    theirs = sklearn.mixture.GaussianMixture(1, covariance_type=name, reg_covar=reg_covar).fit(X)
    np.testing.assert_allclose(ours.covariances_, theirs.covariances_, rtol=1e-9, atol=1e-12)
    assert ours.lower_bound_ == pytest.approx(theirs.score(X))


def test_collapse_without_regularisation_is_an_error_and_with_it_is_none():
    X = np.repeat(np.eye(4), 5, axis=0)
    with pytest.raises(ValueError, match="ill-defined empirical covariance.* reg_covar=None"):
        GaussianMixture(4, reg_covar=0, random_state=0).fit(X)
    for reg_covar in (None, 1e-3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            GaussianMixture(4, reg_covar=reg_covar, random_state=0).fit(X)


@pytest.mark.parametrize("name", [*NAMES, "tied_diag", "tied_spherical"])
def test_single_precision_stays_single(name, tmp_path):
    X = example().astype(np.float32)
    model = GaussianMixture(3, covariance_type=name, random_state=0).fit(X)
    for attribute in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        assert getattr(model, attribute).dtype == np.float32
    assert isinstance(model.lower_bound_, float)
    for answer in (model.predict_proba(X), model.score_samples(X), model.sample(3)[0]):
        assert answer.dtype == np.float32
    assert model.predict(X).dtype == np.int64
    # Of rows in double precision, and of sparse ones.
    assert model.score_samples(X.astype(float)).dtype == np.float64
    assert model.score_samples(sparse.csr_array(X)).dtype == np.float32
    double = GaussianMixture(3, covariance_type=name, random_state=0).fit(X.astype(float))
    assert double.means_.dtype == double.score_samples(X).dtype == np.float64
    np.testing.assert_allclose(model.means_, double.means_, rtol=1e-5, atol=1e-5)
    model.save(tmp_path / "a.model")
    loaded = GaussianMixture.load(tmp_path / "a.model")
    assert loaded.means_.dtype == np.float32
    np.testing.assert_array_equal(loaded.score_samples(X), model.score_samples(X))
    # Squares that single precision does not hold.
    vast = GaussianMixture(3, covariance_type=name, random_state=0).fit((example() * 1e25).astype(np.float32))
    assert vast.covariances_.dtype == np.float64
    assert np.all(np.isfinite(vast.covariances_))


def test_single_precision_keeps_what_nearly_singular_covariances_need():
    # The columns differ by less than float32 can hold in a covariance.
    rng = np.random.default_rng(0)
    column = rng.standard_normal(500)
    X = np.column_stack([column, column + 1e-4 * rng.standard_normal(500)]).astype(np.float32)
    model = GaussianMixture(1, random_state=0).fit(X)
    double = GaussianMixture(1, random_state=0).fit(X.astype(float))
    assert model.lower_bound_ == pytest.approx(double.lower_bound_, abs=1e-6)
    assert model.score(X) == pytest.approx(double.score(X.astype(float)), abs=1e-4)
    # Somebody who sets parameters is believed.
    model.means_ = model.means_ + np.float32(5)
    assert model.score(X) < double.score(X.astype(float)) - 10


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "max_iter"), pairs(NAMES, [0, 1, 2, 5]))
def test_the_lower_bound_is_that_of_what_is_returned(name, max_iter):
    X = example()
    model = GaussianMixture(4, covariance_type=name, init_params="random", max_iter=max_iter, random_state=0)
    model.fit(X)
    assert model.n_iter_ == max(max_iter, 1)
    assert model.lower_bound_ == pytest.approx(model.score_samples(X).mean(), abs=1e-10)


@pytest.mark.parametrize("max_iter", [1, 3])
def test_warm_starts_of_few_passes_converge(max_iter):
    X = example()
    model = GaussianMixture(3, init_params="random", max_iter=max_iter, warm_start=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert not model.fit(X).converged_
        for _ in range(500):
            if model.fit(X).converged_:
                break
    assert model.converged_
    best = GaussianMixture(3, init_params="random", random_state=0).fit(X)
    assert model.lower_bound_ == pytest.approx(best.lower_bound_, abs=1e-3)


def test_lines_come_at_the_interval(capsys):
    X = example()
    GaussianMixture(3, init_params="random", verbose=2, verbose_interval=3, random_state=0).fit(X)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("pass ")]
    numbers = [int(line.split()[1].rstrip(":")) for line in lines]
    assert numbers == [1, *range(3, 3 * len(lines), 3)]
    assert all(line.endswith(" s") for line in lines)
    with pytest.raises(ValueError, match="verbose_interval"):
        GaussianMixture(2, verbose_interval=0).fit(X)


def test_the_global_seed_of_numpy_is_followed():
    X = example()
    fits = []
    for seed in (1, 1, 2):
        np.random.seed(seed)  # noqa: NPY002
        fits.append(GaussianMixture(5, init_params="random", max_iter=0).fit(X).means_)
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.allclose(fits[0], fits[2])


@pytest.mark.parametrize("largest", [1.0, 1e-300, 1e-308])
def test_the_sum_of_weights_does_not_matter(largest):
    X = example()
    relative = np.random.default_rng(0).uniform(0.5, 1.0, size=len(X))
    counts, weights = relative / relative.mean(), relative * largest
    model = GaussianMixture(3, tol=1e-9, random_state=0)
    scaled, counted = (clone(model).fit(X, sample_weight=w) for w in (weights, counts))
    # With less than the tolerance to gain, means are within some square roots of it.
    np.testing.assert_allclose(scaled.means_, counted.means_, atol=1e-4)
    if weights.sum() < 1:
        assert scaled.n_samples_seen_ == pytest.approx(len(X))
        assert scaled.bic(X, sample_weight=weights) == pytest.approx(counted.bic(X, counts))
    vast = GaussianMixture(2, random_state=0).fit(X, sample_weight=np.full(len(X), 1.7e308))
    assert vast.lower_bound_ == pytest.approx(vast.score(X))


def test_weights_of_batches_are_taken_as_they_are():
    # One batch counts a tenth of the other: scaled each by itself, they would count alike.
    X = example()
    model = GaussianMixture(1, covariance_type="spherical", random_state=0)
    model.partial_fit(X, sample_weight=np.full(len(X), 0.1)).partial_fit(
        X + 100, sample_weight=np.ones(len(X))
    )
    assert model.n_samples_seen_ == pytest.approx(1.1 * len(X))
    np.testing.assert_allclose(model.means_[0], X.mean(axis=0) + 100 / 1.1, rtol=0.01)


@pytest.mark.filterwarnings("ignore::apolar.exceptions.FewRowsWarning")
def test_warnings_have_classes():
    X = example()
    with pytest.warns(apolar.ApolarWarning) as caught:
        GaussianMixture(3, init_params="random", max_iter=1, random_state=0).fit(X)
    assert any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    with pytest.warns(CollapsedWarning):
        GaussianMixture(3, prior=None, random_state=0).fit(np.repeat(X[:3], 5, axis=0))
    with pytest.warns(SkippedStartWarning, match="moments"):
        GaussianMixture(5, init_params="moments", random_state=0).fit(X)
