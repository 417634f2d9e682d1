"""Components combined into clusters: beside mclust, and by definition."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from apolar import GaussianMixture, StudentMixture
from apolar.estimator.cluster_merging import Combination
from apolar.mixture.families import family
from references import FOLDER, table


def given(reference):
    """Return the mixture of a reference, as a fitted one."""
    n, kind = reference["n_components"], family(reference["model"])
    means = np.reshape(reference["means"], (n, -1))
    m = means.shape[1]
    matrices = np.reshape(reference["covariances"], (n, m, m))
    covariances = np.diagonal(matrices, axis1=1, axis2=2) if kind.is_axis_aligned else matrices
    model = GaussianMixture(n, covariance_type=kind.name)
    model.weights_, model.means_, model.covariances_ = np.array(reference["weights"]), means, covariances
    model.n_features_in_ = m
    return model


@pytest.mark.parametrize("name", ["iris", "diabetes"])
def test_the_same_are_combined_as_by_mclust(name):
    reference = json.loads((FOLDER / "mclust" / f"combi_{name}.json").read_text())
    X = table(reference["data"])
    found = given(reference).combine(X)
    # Sums over rows of numbers that are computed from parameters written with 15 digits.
    np.testing.assert_allclose(found.entropies, reference["entropies"], rtol=1e-6, atol=1e-9)
    assert found.n_clusters == reference["n_clusters"]
    # mclust numbers the clusters that are left after each step: the combined one has the first of the two.
    left = [(k,) for k in range(reference["n_components"])]
    for step, pair in zip(reference["steps"], found.merges, strict=True):
        first, second = (left[k - 1] for k in sorted(step))
        # Where the entropy is zero up to rounding, all pairs are as good.
        if found.entropies[len(left) - 1] > 1e-6:
            assert set(pair) == {first, second}
        left = [tuple(sorted(first + second)) if g == first else g for g in left if g != second]


def crossed(n=300):
    """Return rows of a cross, which is one cluster of two components, and of a ball apart from it."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 3
    spreads = np.array([[3.0, 0.2], [0.2, 3.0], [0.5, 0.5]])[labels]
    return rng.standard_normal((n, 2)) * spreads + 12.0 * (labels == 2)[:, None], labels


@pytest.fixture(scope="module")
def cross():
    X, labels = crossed()
    return X, labels, GaussianMixture(3, covariance_type="diag", init_params=labels).fit(X)


def test_a_cluster_of_two_components_is_found(cross):
    X, labels, model = cross
    found = model.combine(X)
    assert found.n_clusters == 2
    assert found.groups == ((0, 1), (2,))
    np.testing.assert_array_equal(found.predict(X), labels == 2)
    posteriors, shares = model.predict_proba(X), found.predict_proba(X)
    np.testing.assert_array_equal(shares, np.stack([posteriors[:, :2].sum(axis=1), posteriors[:, 2]], axis=1))
    entropy = -np.sum(posteriors * np.log(np.maximum(posteriors, 1e-300)))
    # Rows that are certain to 1e-14 are left out.
    assert found.entropies[2] == pytest.approx(entropy, rel=1e-9)
    # Chunks are added in another order.
    parts = model.combine(iter(np.array_split(X, 5)))
    assert parts.merges == found.merges
    np.testing.assert_allclose(parts.entropies, found.entropies, rtol=1e-10, atol=1e-12)
    lazy = pytest.importorskip("dask.array").from_array(X, chunks=(100, 2))
    labels_there = model.combine(lazy).predict(lazy)
    assert hasattr(labels_there, "compute")
    np.testing.assert_array_equal(labels_there.compute(), labels == 2)


def test_the_number_of_clusters_can_be_asked_for(cross):
    X, _, model = cross
    all_apart = model.combine(X, n_clusters=3)
    # The largest cluster is the first.
    order = np.argsort(-model.weights_)
    assert all_apart.groups == tuple((k,) for k in order.tolist())
    np.testing.assert_array_equal(order[all_apart.predict(X)], model.predict(X))
    assert all_apart.with_n_clusters(1).groups == ((0, 1, 2),)
    for wrong, error in ((0, "n_clusters"), (4, "at most 3"), (1.5, "n_clusters")):
        with pytest.raises((TypeError, ValueError), match=error):
            model.combine(X, n_clusters=wrong)


def test_noise_keeps_its_label():
    X, labels = crossed()
    far = np.array([[-40.0, 30.0], [35.0, -40.0]])
    rows = np.vstack([X, far])
    model = GaussianMixture(3, covariance_type="diag", init_params=np.append(labels, [-1, -1]), noise=True)
    found = model.fit(rows).combine(rows, n_clusters=2)
    np.testing.assert_array_equal(found.predict(far), -1)
    assert np.mean(found.predict(X) == (labels == 2)) > 0.99


def test_noise_is_the_label_where_it_is_likelier_than_each_cluster():
    shares = np.array([[0.3, 0.25], [0.5, 0.1]])  # the rest, 0.45 and 0.4, is noise
    mixture = SimpleNamespace(predict_proba=lambda _: shares, weights_=np.array([0.3, 0.2]))
    found = Combination(mixture, 2, (((0,), (1,)),), np.zeros(2), np.zeros(2))
    np.testing.assert_array_equal(found.predict(None), [-1, 0])


def test_components_that_overlap_are_combined_and_others_are_not(cross):
    X, labels, model = cross
    found = model.combine(X, by="overlap")
    assert found.groups == ((0, 1), (2,))
    # By definition, with all three clusters: of the rows of two, the shares labelled the other.
    shares = model.predict_proba(X)
    assigned = np.eye(3)[shares.argmax(axis=1)]
    overlaps = shares.T @ assigned / shares.sum(axis=0)[:, None] * (1 - np.eye(3))
    # The weights of the fit are shrunk towards equal ones, by a few of 300 rows.
    np.testing.assert_allclose(found.overlaps[2], (overlaps + overlaps.T).max(), rtol=1e-2)
    assert found.overlaps[0] == 0
    assert found.overlaps[1] <= 0.05 < found.overlaps[2]
    np.testing.assert_array_equal(found.predict(X) == 1, labels == 2)
    assert str(found).startswith("3 components combine into 2 clusters: 1+2, 3.")
    with pytest.raises(ValueError, match="'entropy', 'overlap'"):
        model.combine(X, by="distance")


@pytest.mark.parametrize("cls", [GaussianMixture, StudentMixture])
def test_one_component_is_one_cluster(cls):
    rows = np.random.default_rng(0).standard_normal((50, 2))
    assert cls(1).fit(rows).combine(rows).n_clusters == 1
    found = cls(1).fit(rows).combine(rows, by="overlap")
    assert (found.n_clusters, found.groups) == (1, ((0,),))
    assert str(found).startswith("1 component combines into 1 cluster: 1.")
