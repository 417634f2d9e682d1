"""The front door: exact, noisy, best approximation, known forms, bad input."""

import numpy as np
import pytest

import apolar
from apolar import Status, SymmetricTensor, decompose, refine
from apolar.decomposition.least_squares import gauss_newton
from apolar.decomposition.terms import Terms
from problems import largest_error, noisy, random_terms, tune

SHAPES = [
    (2, 3, 2), (3, 3, 3), (6, 3, 4), (10, 3, 10), (4, 4, 4), (5, 4, 5),
    (2, 5, 3), (4, 5, 10), (5, 6, 15), (3, 7, 10), (2, 9, 5), (30, 3, 2),
]  # fmt: skip


@pytest.mark.parametrize(("dim", "order", "rank"), SHAPES)
def test_exact_tensors_give_back_their_terms(dim, order, rank):
    for seed in range(3):
        weights, points = random_terms(dim, rank, seed)
        tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
        waring = apolar.decompose(tensor, random_state=seed)
        assert waring.rank == rank
        assert waring.status is Status.EXACT
        assert not waring.is_complex
        assert largest_error(weights, points, waring) < 1e-6
        assert waring.residual < 1e-10
        assert np.linalg.norm(waring.points, axis=1) == pytest.approx(1)


@pytest.mark.parametrize("order", [3, 4, 5])
def test_complex_tensors_give_back_their_terms(order):
    weights, points = random_terms(4, 3, 1, is_complex=True)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
    waring = apolar.decompose(tensor, random_state=0)
    assert waring.is_complex
    assert (waring.weights > 0).all()
    assert largest_error(weights, points, waring) < 1e-6


@pytest.mark.parametrize("noise", [1e-3, 1e-2])
@pytest.mark.parametrize("seed", range(3))
def test_noisy_tensors_give_what_refining_the_truth_gives(noise, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((10, 10)) / np.sqrt(10)
    exact = apolar.SymmetricTensor.from_waring(np.ones(10), vectors, 3)
    tensor = noisy(exact, noise, seed)
    waring = apolar.decompose(tensor, 10, random_state=seed)
    best = gauss_newton(tensor, Terms(vectors, np.ones(10)))
    truth = apolar.Waring(np.ones(10), vectors, 3)
    reference = apolar.Waring(np.ones(10), best.vectors, 3)
    error = largest_error(truth.weights, truth.points, waring)
    assert error <= 1.1 * largest_error(truth.weights, truth.points, reference) + 1e-6
    assert waring.status is Status.APPROXIMATE


def test_same_seed_same_result():
    tensor = apolar.SymmetricTensor(3, 2, np.random.default_rng(0).standard_normal(4))
    first, second = (apolar.decompose(tensor, 2, random_state=5) for _ in range(2))
    np.testing.assert_array_equal(first.points, second.points)
    np.testing.assert_array_equal(first.weights, second.weights)


def test_what_makes_a_tensor_is_taken():
    terms = {(3, 0): 1.0, (1, 2): -3.0}
    tensor = apolar.SymmetricTensor.from_polynomial(terms)
    for value in (tensor, terms, "x^3 - 3*x*y^2", tensor.to_dense(), tensor.to_dense().tolist()):
        assert apolar.decompose(value, random_state=0).rank == 2


# --- known forms -------------------------------------------------------------------


def test_real_rank_and_complex_rank_differ():
    waring = apolar.decompose("x^3 - 3*x*y^2", random_state=0)
    assert (waring.rank, waring.is_complex, waring.status) == (2, True, Status.EXACT)
    assert waring.to_string() == "0.5*(x + 1i*y)^3 + 0.5*(x - 1i*y)^3"
    real = apolar.decompose("x^3 - 3*x*y^2", random_state=0, field="real")
    assert (real.rank, real.is_complex, real.status) == (3, False, Status.EXACT)
    assert "raised" in real.rank_source
    by_powers = apolar.decompose("x^3 - 3*x*y^2", method="spm", random_state=0)
    assert (by_powers.is_complex, by_powers.status) == (True, Status.EXACT)


@pytest.mark.slow
def test_real_terms_of_a_quartic_that_has_fewer_complex_ones():
    waring = apolar.decompose("x^2*y^2", random_state=0, field="real")
    assert (waring.rank, waring.is_complex, waring.status) == (4, False, Status.EXACT)


def test_quadratic_linear_and_univariate_forms():
    waring = apolar.decompose("x^2 + y^2 - 3*z^2 + 4*x*y")
    assert waring.rank == 3
    assert sorted(np.sign(waring.weights)) == [-1, -1, 1]
    assert waring.residual < 1e-14
    assert apolar.decompose("x^2 + 2*x*y + y^2").rank == 1
    assert "less than the 2" in apolar.decompose({(2, 0): 1.0}, 2).rank_source
    assert apolar.decompose("4*x^2 + y^2", 1).residual == pytest.approx(1 / np.sqrt(17))
    takagi = apolar.decompose("x^2 + (1+2i)*x*y + 3i*y^2")
    assert (takagi.rank, takagi.is_complex) == (2, True)
    assert takagi.residual < 1e-14
    linear = apolar.decompose("3*x - 4*y")
    assert linear.weights == pytest.approx([5])
    assert linear.points == pytest.approx(np.array([[0.6, -0.8]]))
    for form in ("-8*x^3", "-8*x^4", "(1+1i)*x^3"):
        assert apolar.decompose(form).residual < 1e-14


def test_the_zero_tensor_has_rank_0():
    waring = apolar.decompose(apolar.SymmetricTensor.zeros(3, 2))
    assert (waring.rank, waring.residual, waring.status) == (0, 0.0, Status.ZERO)
    assert waring.points.shape == (0, 2)
    assert waring.to_tensor() == apolar.SymmetricTensor.zeros(3, 2)
    assert waring.to_string() == "0"
    assert waring.condition == 1


def test_a_real_decomposition_that_only_the_complex_search_finds_is_real():
    rng = np.random.default_rng(1)
    points, weights = rng.standard_normal((7, 4)), rng.standard_normal(7)
    waring = apolar.decompose(apolar.SymmetricTensor.from_waring(weights, points, 4), 7, random_state=0)
    assert (waring.is_complex, waring.status) == (False, Status.EXACT)
    assert largest_error(weights, points, waring) < 1e-6


# --- best approximation ----------------------------------------------------------------


def test_approximations_and_runs_that_stop_early_say_so():
    waring = apolar.decompose("x*y^3 + 0.1*z^4", 1, random_state=0)
    assert waring.status is Status.APPROXIMATE
    # The best power of one form for x y^3 has residual sqrt(1 - 27/64); the form vanishes on its leading one.
    assert waring.residual == pytest.approx(np.sqrt(1 - 27 / 64), abs=0.02)
    early = apolar.decompose("x^3 + y^3 + z^3 + x*y*z + x^2*y", 3, max_iter=1, random_state=0)
    assert early.status is Status.NOT_CONVERGED


def test_terms_that_diverge_are_said_to():
    # The infimum over rank 2 is 0, and no form of rank 2 reaches it.
    waring = apolar.decompose("x^2*y", 2, random_state=0)
    assert waring.status is Status.DIVERGING
    assert "no best approximation" in waring.message
    assert waring.residual < 1e-2
    assert apolar.decompose("x^3 - 3*x*y^2", 2, field="real", random_state=0).status is Status.DIVERGING


def test_more_terms_than_needed_are_exact():
    weights, points = random_terms(3, 2, 0)
    waring = apolar.decompose(apolar.SymmetricTensor.from_waring(weights, points, 3), 4, random_state=0)
    # The other two may be as small as rounding, or lie next to each other.
    assert waring.status in (Status.EXACT, Status.ILL_CONDITIONED)
    assert (waring.rank, waring.residual < 1e-10) == (4, True)


# --- the result ------------------------------------------------------------------------


def test_the_result_says_what_happened():
    weights, points = random_terms(3, 2, 0)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, 3)
    waring = apolar.decompose(tensor, random_state=0)
    assert waring.rank_source == "the numerical rank of the Hankel matrix"
    assert len(waring.singular_values) == 3
    assert waring.method == "pencil"
    assert "EXACT" in repr(waring)
    np.testing.assert_allclose(waring.to_tensor().coefficients, tensor.coefficients, atol=1e-12)
    np.testing.assert_allclose(waring.to_tensor(5)(np.eye(3)), (waring.points**5).T @ waring.weights)
    assert apolar.decompose(tensor, 2, random_state=0).rank_source == "given"
    assert apolar.decompose(tensor, lambda values: 2, random_state=0).rank_source == "the rank rule"


def test_the_formula_reads_back():
    weights, points = random_terms(3, 3, 1)
    for order in (3, 4):
        tensor = apolar.SymmetricTensor.from_waring(weights * [1, -1, 1], points, order)
        text = apolar.decompose(tensor, random_state=0).to_string(precision=15)
        np.testing.assert_allclose(
            apolar.SymmetricTensor.from_polynomial(text).coefficients, tensor.coefficients, atol=1e-10
        )


def test_condition_is_the_same_dense_and_matrix_free(monkeypatch):
    points = random_terms(6, 5, 3)[1]
    waring = apolar.Waring(np.ones(5), points, 3)
    dense = waring.condition
    tune(monkeypatch, "terms", rank_work=0)
    assert apolar.Waring(np.ones(5), points, 3).condition == pytest.approx(dense, rel=1e-2)
    assert apolar.Waring(np.ones(3), random_terms(2, 3, 0)[1], 3).condition == np.inf
    twice = np.concatenate([points, points[:1]])
    assert apolar.Waring(np.ones(6), twice, 3).condition == np.inf


def test_condition_of_points_that_nearly_coincide():
    assert apolar.decompose("x^3 + y^3 + z^3").condition == pytest.approx(1)
    # For the points (1, e) and (1, -e) it is 1 / (2 sqrt(2) e^3) to leading order.
    close = apolar.Waring([1.0, 1.0], [[1, 1e-3], [1, -1e-3]], 3)
    assert close.condition == pytest.approx(3.5355e8, rel=1e-3)


# --- bad input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensor", "options", "error", "message"),
    [
        (np.arange(8.0).reshape(2, 2, 2), {}, ValueError, "not symmetric"),
        (np.zeros((2, 3)), {}, ValueError, "all sides equal"),
        (np.full((2, 2, 2), np.nan), {}, ValueError, "NaN"),
        ("x^3 + y^2", {}, ValueError, "not homogeneous"),
        (None, {}, TypeError, "a dict of exponents"),
        ("x^3 + y^3", {"rank": 0}, ValueError, "rank must be at least 1"),
        ("x^3 + y^3", {"rank": -2}, ValueError, "rank must be at least 1"),
        ("x^3 + y^3", {"rank": 2.0}, TypeError, "rank must be an integer"),
        ("x^3 + y^3", {"rank": True}, TypeError, "rank must be an integer"),
        ("x^3 + y^3", {"rank": 50}, ValueError, "no form of degree 3 in 2 variables"),
        ("x^3 + y^3", {"rank": lambda values: 0}, ValueError, "rank rule returned 0"),
        ("x^3 + y^3", {"rank": lambda values: None}, ValueError, "rank rule returned None"),
        ({(3, 0): 1.7e308, (0, 3): 1.7e308}, {}, ValueError, "overflows"),
        ("x^2 + y^2", {"rank": 3}, ValueError, "rank at most 2"),
        ("x^3 + 0*x^3", {"rank": 2}, ValueError, "its rank is 1"),
        ("x^3 + y^3", {"method": "als"}, ValueError, "method must be one of 'auto', 'pencil', 'spm'"),
        ("x^3 + y^3", {"field": "rational"}, ValueError, "field must be one of"),
        ("x^3 + 1i*y^3", {"field": "real"}, ValueError, "no real decomposition"),
        ("x^3 + y^3", {"row_degree": 2}, ValueError, "row_degree belongs to"),
        ("x^3 + y^3", {"method": "pencil", "row_degree": 3}, ValueError, "from 2 to the order less one"),
        ("x^3 + y^3", {"random_state": "seed"}, TypeError, "random_state"),
        ("x^3 + y^3", {"max_iter": 0}, ValueError, "max_iter"),
        ("x^3 + y^3", {"tol": 0}, ValueError, "tol"),
        ("x*y*z", {"rank": 4, "refine": False}, ValueError, "without refinement"),
    ],
)
def test_bad_input_is_refused(tensor, options, error, message):
    with pytest.raises(error, match=message):
        apolar.decompose(tensor, **options)


@pytest.mark.parametrize("scale", [1e-308, 1e-200, 1e223, 1e300])
@pytest.mark.parametrize("method", ["auto", "pencil", "spm"])
@pytest.mark.parametrize("rank", [None, 3])
def test_tensors_of_any_size(scale, method, rank):
    rng = np.random.default_rng(5)
    points = rng.standard_normal((3, 4))
    plain = SymmetricTensor.from_waring([1.0, 2.0, 3.0], points, 3)
    tensor = SymmetricTensor.from_waring(np.array([1.0, 2.0, 3.0]) * scale, points, 3)
    expected = decompose(plain, rank, method, random_state=0)
    waring = decompose(tensor, rank, method, random_state=0)
    assert (waring.rank, waring.status) == (3, Status.EXACT)
    # What the refinement leaves, of any tensor.
    assert waring.residual < 1e-11
    np.testing.assert_allclose(waring.weights / scale, expected.weights, rtol=1e-9)
    np.testing.assert_allclose(waring.singular_values[:3] / scale, expected.singular_values[:3], rtol=1e-9)
    assert (tensor - waring.to_tensor()).norm() <= 1e-11 * tensor.norm()
    again = refine(tensor, waring)
    assert again.status is Status.EXACT
    np.testing.assert_allclose(again.weights / scale, expected.weights, rtol=1e-9)


@pytest.mark.parametrize("form", ["1e300*x*y", "1e-305*x - 2e-305*y", "1e300*x^5", "-1e-300*x^4"])
def test_simple_forms_of_any_size(form):
    tensor = SymmetricTensor.from_polynomial(form)
    waring = decompose(tensor)
    assert waring.status is Status.EXACT
    assert (tensor - waring.to_tensor()).norm() <= 1e-14 * tensor.norm()


@pytest.mark.parametrize("form", ["2*x^5*y^2 + 1e-300*x^4*y^3", "x*z^2 + 1e280*x^2*w + 2*x*y*z"])
def test_terms_that_are_exact_in_other_units_alone_are_not_exact(form):
    # In units of one size, rounding of one term may be larger than the form in its own units.
    tensor = SymmetricTensor.from_polynomial(form)
    waring = decompose(tensor, random_state=0)
    is_near = (tensor - waring.to_tensor()).norm() <= 1e-6 * tensor.norm()
    assert is_near == (waring.residual < 1e-6)
    assert is_near or waring.status is Status.DIVERGING


def test_weights_that_no_number_holds_are_told():
    with pytest.raises(ValueError, match="multiply it by a power of two"):
        decompose(SymmetricTensor.from_polynomial("1e-322*x^3 + 1e-322*y^2*x"))
    with pytest.raises(ValueError, match="divide"):
        decompose(SymmetricTensor(3, 2, [1.7e308, 1e308, 1e308, -1.7e308]))
