"""Lower bounds of the rank, and bounds of what is computed in floating point."""

import flint
import numpy as np
import pytest
from scipy.linalg import hadamard

from apolar import SymmetricTensor
from apolar.decomposition.exact import arithmetic as balls
from apolar.decomposition.proofs import flattenings as matrices
from apolar.decomposition.proofs.flattenings import (
    flattenings,
    rank_bound,
)
from apolar.decomposition.ranks import numerical_rank
from problems import generic_form, random_terms


def certified_bound(tensor, radius):
    return matrices.certified_bound(
        balls.to_balls(tensor.coefficients), tensor.dim, tensor.order, flint.arb(radius)
    )


# --- flattenings ------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "order"), [(3, 3), (4, 3), (5, 3), (3, 5), (4, 5), (3, 4), (2, 6)])
def test_flattenings_have_the_norms_and_ranks_they_say(dim, order):
    tensor = generic_form(dim, order)
    power = SymmetricTensor.from_waring(*random_terms(dim, 1, 0), order)
    for flattening in flattenings(dim, order, 1e8):
        matrix = flattening.matrix(tensor.coefficients)
        frobenius = np.sqrt(flattening.power_rank) * tensor.norm()
        assert np.linalg.norm(matrix) == pytest.approx(frobenius, rel=1e-12)
        assert np.linalg.norm(matrix, 2) <= flattening.norm * tensor.norm() * (1 + 1e-12)
        values = np.linalg.svd(flattening.matrix(power.coefficients), compute_uv=False)
        assert numerical_rank(values) == flattening.power_rank


# --- bounds of the rank --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "bound"), [("x*y*z", 4), ("x*y*z + u*v*w", 8), ("x^3 - x^3 + 0*y^3", 0), ("x^4 + y^4 + z^4", 3)]
)
def test_the_bound_of_known_forms(form, bound):
    assert rank_bound(SymmetricTensor.from_polynomial(form)) == bound


# The generic rank, where the flattening is large enough to prove it: Aronhold's invariant for ternary cubics.
@pytest.mark.parametrize(
    ("dim", "order", "bound"),
    [(3, 3, 4), (4, 3, 5), (5, 3, 8), (7, 3, 12), (3, 5, 7), (3, 7, 12), (4, 5, 12)],
)
def test_generic_forms_of_odd_order_have_better_bounds_than_those_of_hankel_matrices(dim, order, bound):
    tensor = generic_form(dim, order)
    assert rank_bound(tensor) == bound
    assert certified_bound(tensor, 1e-12) == (bound, "the Koszul flattening")


def test_bounds_hold_for_all_tensors_within_the_radius():
    tensor = SymmetricTensor.from_polynomial("x^4 + 0.1*y^4 + 0.01*z^4")
    assert [certified_bound(tensor, radius)[0] for radius in (1e-3, 0.02, 0.2, 2.0)] == [3, 2, 1, 0]
    # At the radius itself there is a tensor of lower rank.
    assert certified_bound(tensor, 0.01)[0] == 2
    assert certified_bound(tensor, 0.00999)[0] == 3
    # Koszul flattenings too: rank 3 is at a distance of 1/6 sqrt(6), the norm of x y z.
    assert certified_bound(SymmetricTensor.from_polynomial("x + y"), 1e-15)[0] == 1
    assert certified_bound(SymmetricTensor.zeros(1, 3), 1e-15)[0] == 0
    cubic = SymmetricTensor.from_polynomial("x^3 + y^3 + z^3 + x*y*z")
    assert certified_bound(cubic, 1e-3)[0] == 4
    assert certified_bound(cubic, 1 / np.sqrt(6))[0] <= 3


# --- bounds of rounding ---------------------------------------------------------------------


def lower(matrix):
    return np.array([float(value.lower()) for value in balls.singular_values_below(balls.to_balls(matrix))])


def test_singular_values_are_bounded_from_below_and_closely():
    # Singular values 1 to 8 up to the norm of a Hadamard matrix, all exact.
    exact = np.sqrt(8) * np.arange(8, 0, -1.0)
    found = lower(hadamard(8) @ np.diag(np.arange(8, 0, -1.0)))
    assert np.all(found < exact)
    np.testing.assert_allclose(found, exact, rtol=1e-12)


@pytest.mark.parametrize("factor", [1.0, 1 + 2j])
def test_singular_matrices_are_never_called_regular(factor):
    rng = np.random.default_rng(0)
    for _ in range(50):
        left, right = rng.integers(-9, 9, size=(6, 4)), rng.integers(-9, 9, size=(4, 5))
        assert lower((left @ right) * factor)[4] <= 0


def test_norms_hold_the_truth():
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((20, 30)) + 1j * rng.standard_normal((20, 30))
    in_balls = balls.to_balls(matrix)
    assert float(balls.norm(in_balls)) == pytest.approx(np.linalg.norm(matrix), rel=1e-14)
    assert (
        np.linalg.norm(matrix, 2)
        < float(balls.operator_norm(in_balls))
        <= np.linalg.norm(matrix) * (1 + 1e-14)
    )
    assert balls.norm(balls.to_balls(np.zeros(3))) == 0
    # A ball that holds zero has a norm, too.
    assert balls.norm(np.array([flint.arb(0, 1)])) <= 1.01
    assert balls.upper_end(flint.arb(1) / 3) > 1 / 3
