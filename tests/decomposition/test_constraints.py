"""Decompositions with a constraint: points and weights >= 0, or orthonormal points."""

import numpy as np
import pytest

import apolar
from problems import largest_error, noisy

# Exact data: what rounding of the coefficients, times the condition of these random terms, leaves.
EXACT = 1e-6


def nonnegative_terms(dim, rank, seed):
    """Return weights between 1 and 2, and points that lie apart, with about half of their entries zero."""
    rng = np.random.default_rng([dim, rank, seed])
    points = rng.random((rank, dim)) * (rng.random((rank, dim)) < 0.5)
    points[np.arange(rank), np.arange(rank) % dim] += 1
    return 1 + rng.random(rank), points / np.linalg.norm(points, axis=1)[:, None]


def orthogonal_terms(dim, order, rank, seed):
    """Return weights of modulus between 1 and 2, of both signs for even orders, and orthonormal points."""
    rng = np.random.default_rng([dim, rank, seed])
    weights = 1 + rng.random(rank)
    if order % 2 == 0:
        weights *= rng.choice([-1, 1], rank)
    return weights, np.linalg.qr(rng.standard_normal((dim, rank)))[0].T


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("dim", "order", "rank"), [(4, 3, 4), (8, 3, 5), (4, 4, 4), (3, 5, 4), (5, 6, 5)])
def test_nonnegative_terms_are_found(dim, order, rank, seed):
    weights, points = nonnegative_terms(dim, rank, seed)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
    waring = apolar.decompose(tensor, constraint="nonnegative", random_state=seed)
    assert waring.status is apolar.Status.EXACT
    assert waring.constraint == "nonnegative"
    assert np.all(waring.points >= 0)
    assert np.all(waring.weights > 0)
    assert largest_error(weights, points, waring) < EXACT


def test_nonnegative_terms_of_a_noisy_tensor_are_nonnegative_and_near():
    weights, points = nonnegative_terms(8, 6, 0)
    exact = apolar.SymmetricTensor.from_waring(weights, points, 3)
    noise = 1e-3
    tensor = noisy(exact, noise, 1)
    waring = apolar.decompose(tensor, 6, constraint="nonnegative", random_state=0)
    free = apolar.decompose(tensor, 6, random_state=0)
    assert waring.status is apolar.Status.APPROXIMATE
    assert np.all(waring.points >= 0)
    assert np.min(free.points) < 0  # zeros of the truth, moved by the noise
    # The truth is one of the decompositions that the best is chosen from.
    assert free.residual <= waring.residual <= noise * exact.norm() / tensor.norm()
    # To first order, by the condition number; twice that for the second.
    size = np.abs(weights).min()
    assert largest_error(weights, points, waring) < 2 * waring.condition * noise * exact.norm() / size


def test_a_tensor_without_nonnegative_terms_is_approximated():
    # The nearest to x^3 - y^3 is x^3: no power of a non-negative form is nearer to -y^3 than zero.
    waring = apolar.decompose("x^3 - y^3", 2, constraint="nonnegative", random_state=0)
    assert waring.status is apolar.Status.APPROXIMATE
    assert "nonnegative" in waring.message
    assert waring.rank_source == "given, less 1 that would be zero"
    np.testing.assert_allclose(waring.points, [[1, 0]], atol=1e-9)
    assert waring.residual == pytest.approx(np.sqrt(0.5))


@pytest.mark.parametrize(("form", "text"), [("2*x^3", "2*x^3"), ("x + 2*y - z", "2*(0.5*x + y)")])
def test_forms_of_one_term_keep_their_positive_part(form, text):
    waring = apolar.decompose(form, constraint="nonnegative")
    assert waring.to_string(["x", "y", "z"][: waring.dim]) == text


@pytest.mark.parametrize("rank", [None, "given"])
@pytest.mark.parametrize(("dim", "order", "n_terms"), [(4, 3, 4), (6, 3, 3), (5, 4, 4), (4, 5, 3), (3, 6, 3)])
def test_orthogonal_terms_are_found(dim, order, n_terms, rank):
    weights, points = orthogonal_terms(dim, order, n_terms, 0)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
    waring = apolar.decompose(tensor, rank and n_terms, constraint="orthogonal", random_state=0)
    assert waring.status is apolar.Status.EXACT
    assert largest_error(weights, points, waring) < 1e-10  # orthonormal points: the condition number is one


@pytest.mark.parametrize(("dim", "order", "rank"), [(8, 3, 8), (10, 3, 6), (6, 4, 4)])
def test_noise_moves_orthogonal_terms_by_no_more_than_itself(dim, order, rank):
    weights, points = orthogonal_terms(dim, order, rank, 1)
    exact = apolar.SymmetricTensor.from_waring(weights, points, order)
    for noise in (1e-2, 1e-4):
        tensor = noisy(exact, noise, 2)
        waring = apolar.decompose(tensor, rank, constraint="orthogonal", random_state=0)
        assert waring.status is apolar.Status.APPROXIMATE
        # The truth is one of the decompositions that the best is chosen from.
        assert waring.residual <= noise * exact.norm() / tensor.norm()
        np.testing.assert_allclose(waring.points @ waring.points.T, np.eye(rank), atol=1e-12)
        # First order in the noise with the condition number one; twice that for the second.
        assert largest_error(weights, points, waring) < 2 * noise * exact.norm() / np.abs(weights).min()


def test_orthogonal_terms_of_small_forms():
    tensor = apolar.SymmetricTensor.from_waring([3.0, 2.0, 1.0], np.eye(4)[:3], 3)
    waring = apolar.decompose(tensor, 2, constraint="orthogonal", random_state=0)
    np.testing.assert_allclose(waring.weights, [3, 2], rtol=1e-12)
    assert waring.residual == pytest.approx(np.sqrt(1 / 14))
    waring = apolar.decompose("x^3 + 2*y^3 + 0*z^3", 3, constraint="orthogonal", random_state=0)
    assert (waring.rank, waring.status) == (2, apolar.Status.EXACT)
    assert waring.rank_source == "given, less 1 that would be zero"
    waring = apolar.decompose("x^2 + x*y - 3*y^2", constraint="orthogonal")
    assert (waring.status, waring.constraint) == (apolar.Status.EXACT, "orthogonal")
    assert "tensor {SVD}" in apolar.citation(waring)
    np.testing.assert_allclose(waring.points @ waring.points.T, np.eye(2), atol=1e-14)


def test_quadratic_forms_have_nonnegative_factors():
    rng = np.random.default_rng(0)
    factor = rng.random((3, 6)) * (rng.random((3, 6)) < 0.6)
    waring = apolar.decompose(factor.T @ factor, 3, constraint="nonnegative", random_state=0)
    assert waring.status is apolar.Status.EXACT
    assert np.all(waring.points >= 0)
    assert np.all(waring.weights > 0)


def test_a_noisy_orthogonal_tensor_tells_its_rank():
    weights, points = orthogonal_terms(9, 3, 4, 3)
    tensor = noisy(apolar.SymmetricTensor.from_waring(weights, points, 3), 1e-4, 0)
    waring = apolar.decompose(tensor, constraint="orthogonal", random_state=0)
    assert waring.rank == 4
    assert "floor of noise" in waring.rank_source


@pytest.mark.parametrize("constraint", ["nonnegative", "orthogonal"])
def test_sums_of_powers_of_rows_are_formed(constraint):
    rows = np.repeat(np.diag([1.0, 2.0, 3.0]), 5, axis=0)
    tensor = apolar.SymmetricTensor.from_rows(rows, None, order=3)
    waring = apolar.decompose(tensor, 3, constraint=constraint, random_state=0)
    assert waring.status is apolar.Status.EXACT
    np.testing.assert_allclose(waring.points, np.eye(3)[::-1], atol=1e-9)
    wide = apolar.SymmetricTensor.from_rows(np.ones((2, 400)), None, order=3)
    with pytest.raises(ValueError, match="Reduce the columns"):
        apolar.decompose(wide, 1, constraint=constraint)


@pytest.mark.parametrize(
    ("form", "rank", "options", "words"),
    [
        ("x^3 + y^3", None, {"constraint": "positive"}, "nonnegative"),
        ("x^3 + y^3", None, {"constraint": "orthogonal", "method": "spm"}, "its own search"),
        ("x^3 + y^3", None, {"constraint": "nonnegative", "field": "complex"}, "real points"),
        ("x^3 + y^3", None, {"constraint": "nonnegative", "refine": False}, "enforced by the refinement"),
        ("x^3 + y^3", 3, {"constraint": "orthogonal"}, "rank of at most 2"),
        ("x^3 + y^3", 5, {"constraint": "nonnegative"}, "Ask for fewer"),
        ("2*x^3", 2, {"constraint": "nonnegative"}, "its rank is 1"),
        ("-x^3 - y^3", 2, {"constraint": "nonnegative"}, "nearer to this tensor than zero"),
        ("x^3 + 1i*y^3", 2, {"constraint": "nonnegative"}, "this one is complex"),
    ],
)
def test_what_has_no_meaning_is_refused_in_words(form, rank, options, words):
    with pytest.raises(ValueError, match=words):
        apolar.decompose(form, rank, random_state=0, **options)


def test_a_rank_that_is_not_settled_is_asked_for():
    # A form of more coefficients than the search for a rank goes to, far from every sum of few powers.
    coefficients = np.random.default_rng(0).standard_normal(220)
    tensor = apolar.SymmetricTensor(3, 10, coefficients)
    with pytest.raises(ValueError, match="give the rank"):
        apolar.decompose(tensor, constraint="nonnegative", random_state=0, n_starts=1, max_iter=5)
