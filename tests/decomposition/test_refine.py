"""Refinement: derivatives, convergence, agreement of the two methods."""

import numpy as np
import pytest

import apolar
from apolar.decomposition import check_gradient, check_hessian, check_retraction
from apolar.decomposition.least_squares import Objective, TermsModel, gauss_newton
from apolar.decomposition.riemannian import ManifoldPoint
from apolar.decomposition.terms import Terms
from problems import largest_error, noisy, random_terms, tune


def problem(order, *, is_complex, seed=0, dim=4, rank=3):
    """Return a tensor and terms that do not fit it."""
    weights, points = random_terms(dim, rank, seed, is_complex=is_complex)
    other_weights, other_points = random_terms(dim, rank + 2, seed + 1, is_complex=is_complex)
    return apolar.SymmetricTensor.from_waring(other_weights, other_points, order), weights, points


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_derivatives(order, is_complex):
    tensor, weights, points = problem(order, is_complex=is_complex)
    for check in (check_gradient, check_hessian, check_retraction):
        result = check(tensor, weights, points)
        assert result.passed, f"{check.__name__}: slope {result.slope}"


@pytest.mark.parametrize("is_complex", [False, True])
def test_the_checks_can_fail(is_complex, monkeypatch):
    tensor, weights, points = problem(3, is_complex=is_complex)
    exact = ManifoldPoint.second_derivatives
    linear = property(lambda self: exact(self, with_residual=False))
    monkeypatch.setattr(ManifoldPoint, "hessian", linear)
    assert not check_hessian(tensor, weights, points).passed
    moved = ManifoldPoint.moved

    def backwards(self, step):
        return moved(self, -step)

    monkeypatch.setattr(ManifoldPoint, "moved", backwards)
    assert not check_gradient(tensor, weights, points).passed


@pytest.mark.parametrize(("order", "penalty"), [(3, 0.0), (3, 0.1), (4, 0.1)])
def test_the_gradient_and_the_matrix_are_those_of_the_cost(order, penalty):
    tensor, _, points = problem(order, is_complex=False, rank=5)
    rng = np.random.default_rng(2)
    vectors, direction = points + 0.3 * rng.standard_normal((2, 5, 4))
    signs = np.array([1.0, -1.0, 1.0, 1.0, -1.0]) if order == 4 else np.ones(5)

    def model(step):
        objective = Objective(tensor, signs, tensor.norm(), penalty)
        return TermsModel(objective, vectors + step * direction)

    slope = (model(1e-5).cost - model(-1e-5).cost) / 2e-5
    # Central differences: an error of step^2 times a third derivative.
    assert np.isclose(np.sum(model(0).gradient * direction), slope, rtol=1e-6)
    step = model(0).step(1e-3).ravel()
    ridge = 1e-3 * np.repeat(model(0).scales, 4)
    np.testing.assert_allclose(model(0).matrix @ step + ridge * step, -model(0).gradient.ravel(), atol=1e-10)


@pytest.mark.parametrize("method", ["newton", "gauss-newton", "auto"])
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_refinement_recovers_exact_terms(order, is_complex, method):
    rank = 3 if order > 2 else 1
    weights, points = random_terms(5, rank, 4, is_complex=is_complex)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
    nearby = points + 0.05 * np.random.default_rng(1).standard_normal(points.shape)
    start = apolar.Waring(weights, nearby, order)
    waring = apolar.refine(tensor, start, method=method)
    assert waring.status is apolar.Status.EXACT
    assert 0 < waring.n_iter == len(waring.history)
    assert largest_error(weights, points, waring) < 1e-6


def test_newton_converges_quadratically_where_the_residual_is_large():
    # Gauss-Newton leaves out the curvature that the residual brings, and converges linearly.
    tensor = apolar.SymmetricTensor(3, 4, np.random.default_rng(1).standard_normal(20))
    start = apolar.decompose(tensor, 2, random_state=0)
    assert start.residual > 0.3
    moved = apolar.Waring(start.weights, start.points + 1e-3, 3)
    newton = apolar.refine(tensor, moved, method="newton", tol=1e-12)
    linear = apolar.refine(tensor, moved, method="gauss-newton", tol=1e-12)
    assert newton.status is apolar.Status.APPROXIMATE
    assert newton.n_iter <= 5 < linear.n_iter
    assert newton.residual == pytest.approx(start.residual, rel=1e-9)


def test_the_residual_never_rises():
    tensor, weights, points = problem(4, is_complex=False, seed=3)
    for method in ("newton", "gauss-newton"):
        history = apolar.refine(tensor, apolar.Waring(weights, points, 4), method=method).history
        # The cost is a difference of numbers near one: 1e-14 of it is rounding.
        assert (np.diff(history) < 1e-12).all()


@pytest.mark.parametrize("is_nonnegative", [False, True])
def test_matrix_free_and_dense_models_end_at_the_same_terms(monkeypatch, is_nonnegative):
    weights, points = random_terms(5, 4, 7)
    points = np.abs(points) if is_nonnegative else points
    tensor = noisy(apolar.SymmetricTensor.from_waring(weights, points, 3), 1e-2, seed=1)
    start = Terms(points * weights[:, None] ** (1 / 3), np.ones(4))
    dense = gauss_newton(tensor, start, is_nonnegative=is_nonnegative)
    tune(monkeypatch, "least_squares", dense_work=0, max_unknowns=0)
    free = gauss_newton(tensor, start, is_nonnegative=is_nonnegative)
    # The gradients are below 1e-9, times the condition of these terms.
    np.testing.assert_allclose(free.vectors, dense.vectors, atol=1e-8)
    assert free.n_iter > 1
    assert dense.n_iter > 1


def test_refinement_takes_an_implicit_tensor():
    """A mean over rows of data, by its contractions alone."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50, 3)) + np.array([2.0, 0.0, 0.0])

    class ThirdMoment:
        order, dim = 3, 3

        def norm(self):
            return float(np.sqrt(np.mean((rows @ rows.T) ** 3)))

        def contract_all(self, points, left):
            projected = rows @ points.T
            if left == 1:
                return (projected**2).T @ rows / len(rows)
            i, j = np.triu_indices(3)
            return projected.T @ (rows[:, i] * rows[:, j]) / len(rows)

    explicit = apolar.SymmetricTensor.from_waring(np.full(50, 1 / 50), rows, 3)
    start = apolar.Waring([1.0, 1.0], [[1.0, 0.1, 0.2], [0.3, 1.0, 0.1]], 3)
    for method in ("newton", "gauss-newton"):
        implicit = apolar.refine(ThirdMoment(), start, method=method)
        expected = apolar.refine(explicit, start, method=method)
        np.testing.assert_allclose(implicit.points, expected.points, atol=1e-6)


@pytest.mark.parametrize("method", ["newton", "gauss-newton"])
def test_a_term_of_weight_zero_keeps_its_direction(method):
    tensor = apolar.SymmetricTensor.from_polynomial("x^3 + y^3 + x*y^2")
    start = apolar.Waring([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 3)
    assert apolar.refine(tensor, start, method=method).status is apolar.Status.EXACT


def test_the_checks_take_what_users_pass():
    tensor = apolar.SymmetricTensor.from_polynomial("x^3 + y^3 + x*y^2")
    assert check_hessian(tensor, [1, 1], [[3, 4], [1, 0]]).passed
    assert check_hessian(tensor * 1j, [1, 1], [[0.6, 0.8], [1, 0]]).passed
    with pytest.raises(ValueError, match="shape"):
        check_gradient(tensor, [1, 1], [[1, 0]])
    with pytest.raises(ValueError, match="order must be at least 2"):
        check_gradient(apolar.SymmetricTensor(1, 2, [1, 2]), [1], [[1, 0]])


def test_max_iter_is_kept_and_reported():
    tensor, weights, points = problem(3, is_complex=False)
    waring = apolar.refine(tensor, apolar.Waring(weights, points, 3), method="newton", max_iter=2)
    assert waring.n_iter == 2
    assert waring.status is apolar.Status.NOT_CONVERGED
    assert "more iterations" in waring.message


def test_bad_starts_and_options_are_refused():
    tensor, weights, points = problem(3, is_complex=False)
    start = apolar.Waring(weights, points, 3)
    for name, value in (("method", "bfgs"), ("max_iter", 0), ("tol", -1.0)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            apolar.refine(tensor, start, **{name: value})
    with pytest.raises(ValueError, match="order 4"):
        apolar.refine(tensor, apolar.Waring(weights, points, 4))
    with pytest.raises(ValueError, match="no terms"):
        apolar.refine(tensor, apolar.Waring(np.zeros(0), np.zeros((0, 4)), 3))
    with pytest.raises(ValueError, match="zero"):
        apolar.refine(apolar.SymmetricTensor.zeros(3, 4), apolar.Waring(weights, points, 3))
    with pytest.raises(ValueError, match="rank"):
        apolar.Waring([1.0, 2.0], [[1.0, 2.0]], 3)
    with pytest.raises(TypeError, match="Waring"):
        apolar.refine(tensor, points)
