"""The directions that separate components best."""

import numpy as np
import pytest
from scipy.linalg import eigh

from apolar import GaussianMixture
from mixtures import FAMILY_NAMES

RNG = np.random.default_rng(0)
SHIFTS = np.array([[0.0, 0, 0, 0], [8, 2, 0, 0], [0, 9, 3, 0]])
X = np.concatenate([RNG.standard_normal((80, 4)) * [1, 2, 0.5, 30] + shift for shift in SHIFTS])


def fit(kind="full", rows=X, n=3, **parameters):
    return GaussianMixture(n, covariance_type=kind, init_params="kmeans", random_state=0, **parameters).fit(
        rows
    )


@pytest.mark.parametrize("kind", FAMILY_NAMES)
def test_the_first_are_those_of_discriminant_analysis(kind):
    model = fit(kind, X[:, :3])
    plane = model.discriminating_directions(3)
    covariances = model.to_sklearn().covariances_
    if kind.endswith("spherical"):
        covariances = covariances[:, None, None] * np.eye(3)
    elif covariances.ndim == 2:
        covariances = covariances[None] if kind == "tied" else covariances[:, :, None] * np.eye(3)
    weights = model.weights_
    within = np.tensordot(weights, np.broadcast_to(covariances, (3, 3, 3)), axes=1)
    offsets = model.means_ - weights @ model.means_
    between = (offsets.T * weights) @ offsets
    expected = eigh(between, within)[1][:, ::-1][:, :2]
    assert plane.n_by_position == 2
    for axis, other in zip(plane.axes.T, expected.T, strict=False):
        cosine = axis @ other / np.linalg.norm(axis) / np.linalg.norm(other)
        assert abs(cosine) == pytest.approx(1, abs=1e-6)
    # Rows of the mixture have no correlations there, and variance one.
    np.testing.assert_allclose(plane.axes.T @ (between + within) @ plane.axes, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(plane.transform(plane.origin), 0, atol=1e-12)


def test_then_come_those_in_which_covariances_differ():
    rows = np.concatenate(
        [RNG.standard_normal((300, 3)) * [1, 1, 0.2], RNG.standard_normal((300, 3)) * [1, 1, 5]]
    )
    plane = GaussianMixture(2, random_state=0).fit(rows).discriminating_directions()
    assert plane.n_by_position == 0
    assert np.abs(plane.loadings[:, 0]).argmax() == 2


def test_there_are_no_more_than_columns():
    assert fit().discriminating_directions(9).axes.shape == (4, 4)
    assert fit(rows=X[:, :1]).discriminating_directions().axes.shape == (1, 1)
    assert fit(n=1).discriminating_directions().n_by_position == 0


def test_bad_numbers_are_refused():
    with pytest.raises(ValueError, match="n_directions must be at least 1"):
        fit().discriminating_directions(0)
    with pytest.raises(TypeError, match="n_directions"):
        fit().discriminating_directions(1.5)
