"""Decomposition of sums of powers of rows, beside that of the formed tensor."""

import numpy as np
import pytest

import apolar
from apolar._core.arrays import leading_eigenvectors
from apolar.decomposition import component_errors, implicit
from apolar.decomposition.terms import Terms, absorb_weights
from apolar.decomposition.tuning import TUNING
from apolar.tensor import row_tensor
from problems import tune


def clusters(n_rows, dim, rank, noise, seed=0):
    """Return rows around a few centres, and the centres."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((rank, dim))
    rows = centres[rng.integers(0, rank, n_rows)] + noise * rng.standard_normal((n_rows, dim))
    return rows, centres


def distance(tensor, waring):
    formed = tensor.to_tensor()
    return (formed - waring.to_tensor()).norm() / formed.norm()


@pytest.mark.parametrize("order", [3, 4, 5])
@pytest.mark.parametrize("rank", [5, None])
def test_few_distinct_rows_are_found(order, rank):
    rng = np.random.default_rng(order)
    points = rng.standard_normal((5, 60))
    which, weights = rng.integers(0, 5, 200), rng.uniform(0.5, 1.5, 200)
    if order % 2 == 0:
        weights *= np.where(which < 2, -1, 1)
    T = apolar.SymmetricTensor.from_rows(points[which], weights, order)
    W = apolar.decompose(T, rank, random_state=0)
    truth = apolar.Waring(np.bincount(which, weights), points, order)
    assert W.status is apolar.Status.EXACT
    assert W.rank == 5
    assert "sherman2020" in apolar.citation(W)
    # The condition of five random points in 60 dimensions is below 10.
    assert component_errors(truth, W).max() < 1e-8


@pytest.mark.parametrize(("order", "dim", "noise"), [(3, 40, 1.0), (4, 22, 0.3), (4, 22, 1.0)])
def test_the_best_approximation_is_that_of_the_formed_tensor(order, dim, noise):
    rows, _ = clusters(500, dim, 4, noise)
    T = apolar.SymmetricTensor.from_rows(rows, None, order)
    assert apolar.tensor.n_monomials(dim, order) > TUNING.formed_coefficients
    W = apolar.decompose(T, 4, random_state=0)
    V = apolar.decompose(T.to_tensor(), 4, random_state=0, n_starts=3)
    assert W.status is apolar.Status.APPROXIMATE
    assert W.method.startswith("projection")
    # Both gradients are below 1e-9: the residuals agree to its square, the terms to it times their condition.
    assert W.residual == pytest.approx(V.residual, rel=1e-8)
    assert W.residual == pytest.approx(distance(T, W), rel=1e-8)
    assert W.residual_error == 0
    assert component_errors(V, W).max() < 1e-5


def test_a_small_tensor_is_formed():
    rows, _ = clusters(100, 5, 2, 0.1)
    T = apolar.SymmetricTensor.from_rows(rows, None, 3)
    W, V = (apolar.decompose(tensor, 2, random_state=0) for tensor in (T, T.to_tensor()))
    np.testing.assert_array_equal(W.points, V.points)
    assert W.residual == V.residual


def test_the_standard_error_is_that_of_the_estimates(monkeypatch):
    rows, _ = clusters(300, 40, 3, 3.0)
    T = apolar.SymmetricTensor.from_rows(rows, None, 3)
    W = apolar.decompose(T, 3, random_state=0)
    terms = Terms(*absorb_weights(W.weights, W.points, 3))
    monkeypatch.setattr(row_tensor, "NORM_WORK", 0.0)
    scores = []
    for seed in range(16):
        norm, residual, error = implicit.residual_of(T, terms, np.random.default_rng(seed))
        scores.append((residual - W.residual) / error)
    assert norm == pytest.approx(T._norm, rel=0.1)
    estimated = apolar.decompose(T, 3, random_state=0)
    assert abs(estimated.residual - W.residual) < 4 * estimated.residual_error
    assert ("+-" in repr(estimated), "+-" in repr(W)) == (True, False)
    # The deviation of sixteen scores of deviation one has a standard error of 0.18, their mean one of 0.25.
    assert np.std(scores) == pytest.approx(1.0, abs=0.5)
    assert abs(np.mean(scores)) < 0.6


def test_an_estimate_is_never_exact(monkeypatch):
    rows, _ = clusters(300, 40, 3, 1e-12)
    monkeypatch.setattr(row_tensor, "NORM_WORK", 0.0)
    tune(monkeypatch, "implicit", rounding=0.0)
    W = apolar.decompose(apolar.SymmetricTensor.from_rows(rows, None, 3), 3, random_state=0)
    assert W.status is apolar.Status.APPROXIMATE
    assert W.residual >= implicit.MIN_RESIDUAL


@pytest.mark.parametrize(("order", "rank", "method"), [(4, 30, "projection"), (3, 50, "rows")])
def test_ranks_above_the_columns_of_the_projection(order, rank, method):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((rank, 70))
    rows = np.repeat(centres, 20, axis=0) + 0.01 * rng.standard_normal((20 * rank, 70))
    W = apolar.decompose(apolar.SymmetricTensor.from_rows(rows, None, order), rank, random_state=0)
    assert W.method.startswith(method)
    # Means of 20 rows of deviation 0.01: an error of 0.2% of the centres, times the order.
    assert component_errors(apolar.Waring(np.full(rank, 1 / rank), centres, order), W).max() < 0.02


def test_without_refinement_and_in_the_complex_field():
    rows, _ = clusters(500, 40, 3, 1.0)
    T = apolar.SymmetricTensor.from_rows(rows, None, 3)
    V = apolar.decompose(T, 3, field="complex", random_state=0)
    assert V.residual == pytest.approx(distance(T, V), rel=1e-6)
    W = apolar.decompose(T, 3, refine=False, random_state=0)
    assert W.status is apolar.Status.UNREFINED
    assert W.residual == pytest.approx(distance(T, W), rel=1e-8)
    real = apolar.decompose(T, 3, random_state=0)
    assert V.residual <= real.residual * (1 + 1e-6) < W.residual


def test_a_rule_for_the_rank_sees_the_projection():
    rows, _ = clusters(500, 40, 3, 0.05)
    T = apolar.SymmetricTensor.from_rows(rows, None, 3)
    W = apolar.decompose(T, lambda values: int(np.sum(values > 0.1 * values[0])), random_state=0)
    assert W.rank == 3
    assert "projection" in W.rank_source


def test_a_term_that_larger_noise_hides_is_found_where_the_noise_cancels():
    rng = np.random.default_rng(0)
    noise = np.zeros((200, 60))
    noise[:, :40] = 30 * rng.standard_normal((200, 40))
    point = np.zeros((1, 60))
    point[0, 40:] = rng.standard_normal(20)
    rows = np.concatenate([np.repeat(point, 10, axis=0), noise, -noise])
    T = apolar.SymmetricTensor.from_rows(rows, None, 3)
    _, leading = leading_eigenvectors(T.second_moment, T.dim, 7, rng)
    assert T.change_variables(leading).norm() < 1e-6 * T.norm()
    W = apolar.decompose(T, 1, random_state=0)
    # The powers that cancel are 1e8 times as large as the term, and leave their rounding.
    assert W.points[0] @ point[0] == pytest.approx(np.linalg.norm(point), rel=1e-6)


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_large_and_small_rows(scale):
    rows, _ = clusters(300, 50, 3, 0.3)
    tensors = [apolar.SymmetricTensor.from_rows(size * rows, None, 4) for size in (1.0, scale)]
    expected, W = (apolar.decompose(tensor, 3, random_state=0) for tensor in tensors)
    np.testing.assert_allclose(W.points, expected.points, atol=1e-7)
    assert W.residual == pytest.approx(expected.residual, rel=1e-6)


def test_rows_that_cancel_or_vanish_have_no_terms():
    rows = np.random.default_rng(0).standard_normal((100, 50))
    T = apolar.SymmetricTensor.from_rows(np.concatenate([rows, -rows]), None, 3)
    W = apolar.decompose(T, 2, random_state=0)
    assert (W.rank, W.status) == (0, apolar.Status.ZERO)
    assert "cancel" in W.rank_source
    W = apolar.decompose(apolar.SymmetricTensor.from_rows(np.zeros((10, 50)), None, 4))
    assert (W.rank, W.dim, W.status) == (0, 50, apolar.Status.ZERO)
