"""The evidence of a fit: a closed form, what leaves it as it is, and which fits have it."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

import apolar
from apolar import GaussianMixture
from apolar.mixture.families import family
from estimator.clusters import example, fitted
from mixtures import FAMILY_NAMES, pairs


def test_one_round_component_has_the_evidence_of_its_closed_form():
    X, _ = example(70)
    n, m = X.shape
    log_unit = 0.5 * np.log(np.mean(np.var(X, axis=0, ddof=1)))
    # In these units the variance is one. The mean, known to 1/n, is drawn from the rows' own distribution.
    deviations = -0.5 * m * (n - 1) * (np.log(2 * np.pi) + 1)
    mean = -0.5 * m * np.log(2 * np.pi * n)
    expected = deviations + mean - 0.5 * np.log(n) - n * m * log_unit
    for kind in ("spherical", "tied_spherical"):
        model = GaussianMixture(1, covariance_type=kind, prior=None).fit(X)
        assert model.evidence_ == pytest.approx(expected)


@pytest.mark.parametrize("name", [name for name in FAMILY_NAMES if family(name).shared])
def test_one_component_has_the_evidence_of_its_family_without_sharing(name):
    X, _ = example(70)
    alone = GaussianMixture(1, covariance_type=family(name).untied.name, prior=None).fit(X)
    model = GaussianMixture(1, covariance_type=name, prior=None).fit(X)
    # A weak prior keeps the covariances of families that share a part from vanishing.
    assert model.evidence_ == pytest.approx(alone.evidence_, abs=1.0)


@pytest.mark.parametrize(
    ("name", "parameters"),
    pairs(FAMILY_NAMES, [{}, {"prior": "conjugate"}, {"prior": None}, {"reg_covar": 1e-6}, {}]),
)
def test_every_fit_has_one_below_its_likelihood(name, parameters):
    X, _ = example(200)
    model = fitted(X, name, **parameters)
    assert isinstance(model.evidence_, float)
    assert -np.inf < model.evidence_ < model.score(X) * len(X)
    # It is no BIC, but near it where rows are many for the parameters.
    if name != "full":
        assert abs(model.evidence_ + model.bic(X) / 2) < 0.02 * abs(model.evidence_)


@pytest.mark.filterwarnings("ignore::apolar.exceptions.FewRowsWarning")
def test_it_prefers_the_cultivars_of_wine_to_a_more_likely_mixture():
    X, cultivars = load_wine(return_X_y=True)
    right = GaussianMixture(3, init_params=cultivars).fit(X)
    # From three rows as seeds, and with a prior that lets covariances follow the rows closely.
    seeds = X[np.random.default_rng(2).choice(len(X), 3, replace=False)]
    nearest = np.argmin((((X[:, None] - seeds) / X.std(axis=0)) ** 2).sum(axis=2), axis=1)
    wrong = GaussianMixture(3, init_params=nearest, prior="conjugate").fit(X)
    agreement = [apolar.scores.adjusted_rand_index(cultivars, model.predict(X)) for model in (right, wrong)]
    assert agreement[0] > 0.95 > 0.85 > agreement[1]
    assert wrong.score(X) > right.score(X)
    assert wrong.evidence_ < right.evidence_ - 10


def test_a_stream_has_it_while_all_rows_are_kept():
    X, _ = apolar.datasets.make_example(2, 8000, random_state=0)
    model = GaussianMixture(3, covariance_type="spherical", random_state=0)
    kept = model.partial_fit(X[:2000]).partial_fit(X[2000:4000]).evidence_
    whole = GaussianMixture(3, covariance_type="spherical", random_state=0).fit(X[:4000])
    # The second batch starts where the first ended.
    assert kept == pytest.approx(whole.evidence_, abs=1e-2)
    model.partial_fit(X[4000:6000])
    assert not hasattr(model.partial_fit(X[6000:]), "evidence_")
    assert not hasattr(whole.partial_fit(X[4000:]), "evidence_")


def small_clusters(seed, n_samples, name="full"):
    """Return rows of a cluster of 90% and three small ones, and the true means."""
    rng = np.random.default_rng(seed)
    means = 4 * rng.standard_normal((4, 3))
    labels = rng.choice(4, n_samples, p=[0.90, 0.06, 0.025, 0.015])
    if name == "full":
        roots = np.stack([0.6 * rng.standard_normal((3, 3)) + 0.3 * np.eye(3) for _ in range(4)])
    else:
        roots = np.stack([np.diag(np.exp(rng.uniform(-0.7, 0.7, 3))) for _ in range(4)])
    noise = rng.standard_normal((n_samples, 3))
    return means[labels] + np.einsum("nij,nj->ni", roots[labels], noise), means


def test_a_small_cluster_beside_another_is_not_given_up_for_an_empty_component():
    # The evidence of three components is higher, but four were asked for.
    X, _ = small_clusters(2, 2000)
    assert GaussianMixture(4, random_state=2).fit(X).weights_.min() * len(X) > 5


@pytest.mark.filterwarnings("ignore:Two solutions with nearly equal")
@pytest.mark.parametrize(
    ("seed", "n_samples", "name"),
    [
        # Two small clusters overlap: the split that finds them is along the skewness of their union.
        (19, 6000, "full"),
        # The large cluster has to be split, which looks bad for some steps.
        (39, 20000, "diag"),
        # Evidence alone prefers two halves of the large cluster, because they have the same shape.
        (58, 600, "diag"),
    ],
)
def test_small_clusters_are_found_as_from_the_true_means(seed, n_samples, name):
    X, means = small_clusters(seed, n_samples, name)
    truth = GaussianMixture(4, covariance_type=name, means_init=means).fit(X)
    model = GaussianMixture(4, covariance_type=name, random_state=seed).fit(X)
    assert (truth.lower_bound_ - model.lower_bound_) * n_samples < 1
