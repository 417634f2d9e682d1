"""Certificates: what they claim is true, with all rounding, and they claim it where it can be proved."""

from dataclasses import replace
from fractions import Fraction

import flint
import numpy as np
import pytest

from apolar import SymmetricTensor, Waring, decompose, refine
from apolar.decomposition.exact.arithmetic import in_floats, to_balls
from apolar.decomposition.proofs.flattenings import hankel_flattening, koszul_flattening, koszul_image
from apolar.decomposition.proofs.newton import Linearisation, near_all_sums
from apolar.decomposition.ranks import PRIME
from apolar.tensor.monomials import sum_of_powers
from mixtures import pairs
from problems import noisy
from problems import random_terms as draw_terms


def random_terms(dim, order, rank, seed, is_complex=False):
    return Waring(*draw_terms(dim, rank, seed, is_complex=is_complex), order)


def integer_terms(dim, order, rank, seed):
    """Return terms, none of them zero, whose sum is computed without rounding."""
    rng = np.random.default_rng(seed)
    weights, points = rng.integers(1, 5, rank), rng.integers(-3, 4, (rank, dim))
    points[~np.any(points, axis=1), 0] = 1
    return Waring(weights.astype(float), points.astype(float), order)


def largest_move(waring, truth):
    """Return how far true points are from those found, relative to their lengths, at the weights found."""
    moves = []
    for weight, point in zip(waring.weights, waring.points, strict=True):
        roots = np.exp(2j * np.pi * np.arange(waring.order) / waring.order)
        factors = (truth.weights / weight).astype(complex) ** (1 / waring.order)
        candidates = (truth.points * factors[:, None])[:, None] * roots[:, None]
        moves.append(np.linalg.norm(candidates - point, axis=2).min() / np.linalg.norm(point))
    return max(moves)


def rational(array):
    return np.frompyfunc(lambda x: Fraction(float(x)), 1, 1)(array)


# --- distances, and terms near by ------------------------------------------------------


@pytest.mark.parametrize(("dim", "order", "rank"), [(3, 3, 2), (4, 4, 5), (2, 5, 3), (3, 5, 7)])
def test_the_distance_is_not_below_the_exact_one(dim, order, rank):
    terms = random_terms(dim, order, rank, 0)
    tensor = terms.to_tensor()
    sums = sum_of_powers(rational(terms.weights), rational(terms.points), order)
    differences = (rational(tensor.coefficients) - sums) ** 2
    counts = [Fraction(int(count)) for count in tensor.multinomials]
    square = sum(count * d for count, d in zip(counts, differences, strict=True))
    norm = sum(count * t * t for count, t in zip(counts, rational(tensor.coefficients), strict=True))
    distance = terms.certify(tensor).distance
    assert Fraction(distance) ** 2 * norm >= square
    assert distance < 1e-13


# More equations than unknowns, where Hankel matrices or Koszul flattenings decide, and as many of both.
SHAPES = [(3, 4, 3), (3, 6, 5), (2, 7, 3), (4, 4, 4), (5, 3, 3), (4, 3, 4), (3, 5, 4), (2, 5, 3), (4, 3, 5)]


@pytest.mark.parametrize(("shape", "is_complex"), pairs(SHAPES, [False, True]))
def test_terms_before_noise_are_within_the_radius(shape, is_complex):
    (dim, order, rank), claims = shape, 0
    for seed in range(0, 8, 2):
        truth = random_terms(dim, order, rank, seed, is_complex)
        clean = truth.to_tensor()
        size = 10.0 ** -(14 - seed)
        tensor = noisy(clean, size, seed)
        # From the true terms, so that the best approximation near by is found: the claim is about that.
        found = refine(tensor, truth, max_iter=20)
        certificate = found.certificate
        if certificate.margin is None:
            continue
        claims += 1
        if size * clean.norm() <= 0.99 * certificate.margin * tensor.norm():
            move = largest_move(found, truth)
            # The true terms are not rounded, what they are compared by is.
            assert move <= certificate.radius + 1e-14
            assert certificate.radius < 1e4 * certificate.margin * max(truth.condition, 1)
    assert claims >= 2


@pytest.mark.parametrize(("dim", "order", "rank"), [(3, 4, 3), (3, 5, 3), (4, 3, 3), (4, 4, 5), (4, 3, 5)])
def test_exact_terms_of_integer_forms_are_within_the_radius(dim, order, rank):
    truth = integer_terms(dim, order, rank, 1)
    tensor = truth.to_tensor()
    waring = decompose(tensor, rank, random_state=0)
    certificate = waring.certificate
    assert certificate.exact_nearby is True
    assert certificate.distance > 0
    # As far as the move can be computed in floating point.
    assert largest_move(waring, truth) <= certificate.radius + 1e-14
    assert certificate.radius < 1e-8
    assert certificate.unique is True
    assert certificate.minimal
    assert "Exact terms of the tensor have points within" in certificate.message


def test_a_form_that_is_one_digit_off_has_no_exact_terms():
    tensor = integer_terms(4, 4, 5, 0).to_tensor()
    coefficients = tensor.coefficients.copy()
    coefficients[3] = np.nextafter(coefficients[3], np.inf)
    certificate = decompose(SymmetricTensor(4, 4, coefficients), 5, random_state=0).certificate
    assert certificate.exact_nearby is False
    # All the same, sums of five powers as near as that have terms near by.
    assert certificate.radius < 1e-8
    assert "to its last digit the tensor needs more terms" in certificate.message
    assert certificate.distance < 1e-12


def test_a_rank_modulo_the_prime_proves_no_exact_terms():
    # Complex, and off by the prime in one coefficient: the ranks modulo the prime are those of two powers.
    terms = Waring([1.0, 1.0], [[4096.0, 3.0, 1.0], [5.0, 4095.0, 2.0]], 4)
    coefficients = terms.to_tensor().coefficients.copy()
    assert refine(terms.to_tensor(), terms).certificate.exact_nearby is True
    coefficients[5] += PRIME
    certificate = refine(SymmetricTensor(4, 3, coefficients * (1 + 0j)), terms).certificate
    assert certificate.margin is not None
    assert certificate.exact_nearby is None
    # Real numbers are compared as they are.
    assert refine(SymmetricTensor(4, 3, coefficients), terms).certificate.exact_nearby is False


def test_hankel_matrices_do_not_recognise_sums_of_cubes(monkeypatch):
    # Cubics in three of five variables have the Hankel matrix of three cubes, and are not all sums of three.
    terms = random_terms(5, 3, 3, 0)
    tensor = terms.to_tensor()
    linearised = Linearisation(to_balls(terms.weights), to_balls(terms.points), 3)
    distances = flint.arb(1e-12), flint.arb(1e-14)
    displacement = linearised.displacement(sum(distances))
    recognised = [
        near_all_sums(to_balls(tensor.coefficients), linearised, flattening, displacement, distances)
        for flattening in (hankel_flattening(5, 3, 1), koszul_flattening(5, 3, 2))
    ]
    assert recognised == [False, True]
    # Nothing holds for all tensors as far away as the tensor is long.
    wide, koszul = (flint.arb(tensor.norm()), distances[1]), koszul_flattening(5, 3, 2)
    assert not near_all_sums(to_balls(tensor.coefficients), linearised, koszul, displacement, wide)
    # Singular values count as far as they are those of the matrix.
    left, values, right = np.linalg.svd(in_floats(koszul.matrix(to_balls(tensor.coefficients))))
    monkeypatch.setattr(np.linalg, "svd", lambda _: (left, 100 * values, right))
    assert not near_all_sums(to_balls(tensor.coefficients), linearised, koszul, displacement, distances)


def test_terms_that_sum_to_the_tensor_exactly():
    terms = integer_terms(3, 4, 3, 0)
    certificate = terms.certify(terms.to_tensor())
    assert (certificate.distance, certificate.exact_nearby) == (0.0, True)
    assert "They are the tensor exactly." in certificate.message
    # Modulo a prime alone that would not be proved.
    off = terms.to_tensor().coefficients + np.array([2147483629.0] + [0.0] * 14)
    assert terms.certify(SymmetricTensor(4, 3, off)).distance > 0


def test_families_have_exact_terms_near_by_and_infinitely_many_others():
    certificate = decompose("x^3 + y^3 + z^3 + x*y*z", random_state=0).certificate
    assert (certificate.unique, certificate.exact_nearby) == (False, True)
    assert certificate.radius < 1e-9
    assert certificate.isolation is None
    assert "Infinitely many others" in certificate.message
    assert certificate.minimal


@pytest.mark.parametrize("seed", range(5))
def test_other_terms_with_the_same_sum_are_outside_of_the_isolation(seed):
    # Seven fifth powers of points on a line are dependent: three of them have the sum of four others.
    rng = np.random.default_rng(seed)
    parameters = rng.permutation(np.arange(-6, 7))[:7]
    points = np.stack([np.ones(7), parameters, np.zeros(7)], axis=1)
    powers = np.stack([points[:, 1] ** k for k in range(6)])
    weights = np.linalg.svd(powers)[2][-1]
    few = Waring(weights[:3], points[:3], 5)
    many = Waring(-weights[3:], points[3:], 5)
    assert (few.to_tensor() - many.to_tensor()).norm() < 1e-9 * few.to_tensor().norm()
    assert few.certificate.unique is True
    assert many.certificate.unique is False
    assert 0 < few.certificate.isolation < 0.5
    assert few.certificate.minimal


# --- ranks ---------------------------------------------------------------------------


def test_terms_that_say_too_much_are_not_minimal():
    terms = random_terms(3, 4, 2, 0)
    more = Waring(np.repeat(terms.weights / 2, 2), np.repeat(terms.points, 2, axis=0), 4)
    certificate = more.certify(terms.to_tensor())
    # x^2 y has rank 3, and sums of two cubes are as near as rounding.
    for proved in (certificate, decompose("x^2*y", random_state=0).certificate):
        assert proved.rank_lower_bound == 2
        assert not proved.minimal
    assert "Fewer terms than 2 do not come as near" in certificate.message
    assert certificate.unique is not True


def test_nothing_is_said_of_fewer_terms_than_there_are():
    # One cube is not the form, but two are: proofs about the cube that is not zero would be wrong.
    form = SymmetricTensor.from_polynomial("x^3 + y^3 + 0*z^3")
    certificate = Waring([1.0, 0.0], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], 3).certify(form)
    assert (certificate.unique, certificate.exact_nearby, certificate.margin) == (None, None, None)
    assert not certificate.minimal
    assert "a term is zero" in certificate.message


@pytest.mark.parametrize("seed", range(2))
def test_bounds_never_exceed_the_number_of_terms(seed):
    rng = np.random.default_rng(seed)
    for _ in range(8):
        dim, order, rank = (int(x) for x in rng.integers((2, 2, 1), (6, 6, 9)))
        terms = integer_terms(dim, order, rank, int(rng.integers(1000)))
        scale = 2.0 ** int(rng.integers(-300, 300))
        tensor = terms.to_tensor() * scale
        certificate = replace(terms, weights=terms.weights * scale).certify(tensor)
        assert max(certificate.rank_lower_bound, certificate.exact_rank_bound) <= rank
        assert certificate.distance == 0
        moved = noisy(tensor, 10.0 ** int(rng.integers(-15, 1)), seed)
        assert replace(terms, weights=terms.weights * scale).certify(moved).rank_lower_bound <= rank


# --- where certificates come from ----------------------------------------------------------


def test_terms_of_ones_own_are_compared_with_their_sum_or_with_a_tensor():
    terms = random_terms(3, 4, 3, 0)
    certificate = terms.certificate
    assert (certificate.unique, certificate.distance, certificate.exact_nearby) == (True, None, None)
    assert certificate.minimal
    assert "not compared with a tensor (there is none)" in certificate.message
    with pytest.raises(ValueError, match="order 4 in 3 variables"):
        terms.certify("x^3 + y^3")
    far = terms.certify(2 * terms.to_tensor())
    assert 0.49 < far.distance < 0.51
    large = random_terms(60, 4, 3, 0).certificate
    assert (large.unique, large.rank_lower_bound) == (True, 0)
    assert "too large" in large.lower_bound_by


def test_certificates_of_simple_forms_and_of_zero():
    waring = decompose("x^3 - 3*x*y^2")
    assert waring.certificate is waring.certificate
    assert (
        refine(waring.tensor, waring).tensor
        is waring.tensor
        == SymmetricTensor.from_polynomial("x^3 - 3*x*y^2")
    )
    for text in ("x^2 + y^2", "3*x + 4*y"):
        certificate = decompose(text).certificate
        assert certificate.distance < 1e-14
        assert certificate.minimal
    certificate = decompose(SymmetricTensor.zeros(3, 2)).certificate
    assert (certificate.unique, certificate.exact_nearby, certificate.distance) == (True, True, 0.0)
    assert certificate.minimal
    certificate = Waring(np.ones(1), np.ones((1, 2)), 3).certify(SymmetricTensor.zeros(3, 2))
    assert certificate.distance > 1e100
    assert certificate.rank_lower_bound == 0


@pytest.mark.parametrize("exponent", [-900, 900])
def test_tensors_of_any_size_have_the_same_certificate(exponent):
    terms = random_terms(3, 4, 3, 0)
    moderate = terms.certify(terms.to_tensor())
    tensor = terms.to_tensor() * 2.0**exponent
    scaled = Waring(terms.weights * 2.0**exponent, terms.points, 4).certify(tensor)
    assert scaled == moderate
    # In the points, too.
    points = terms.points * 2.0 ** (exponent // 4)
    assert Waring(terms.weights, points, 4).certify(tensor) == moderate


def test_numbers_of_very_different_size_are_told_apart():
    terms = Waring([2.0**900], [[1.0, 0.0]], 3)
    for smallest, has_terms in [(0.0, True), (2.0**-300, False)]:
        tensor = SymmetricTensor(3, 2, [2.0**900, 0.0, 0.0, smallest])
        assert terms.certify(tensor).exact_nearby is has_terms
    near = Waring([1.0], [[2.0**300, 2.0**-900]], 3)
    assert 0 < near.certify(SymmetricTensor(3, 2, [2.0**900, 0.0, 0.0, 0.0])).distance < 1e-300


def test_exact_numbers_prove_terms_that_are_too_close_for_bounds_in_floats():
    # A binary cubic: the kernel of its Hankel matrix has the two points, however close.
    pair = Waring([2.0, 1.0], [[1.0, 0.0], [1.0, 1e-6]], 3)
    certificate = decompose(pair.to_tensor(), 2, random_state=0).certificate
    assert (certificate.unique, certificate.exact_nearby, certificate.margin) == (True, True, None)
    assert certificate.radius < 1e-3
    # As many unknowns as equations, without such a kernel.
    rng = np.random.default_rng(0)
    points = rng.standard_normal((5, 4))
    points[1] = points[0] + 1e-3 * points[1]
    close = Waring(np.ones(5), points, 3)
    certificate = refine(close.to_tensor(), close).certificate
    assert certificate.exact_nearby is True
    assert certificate.nearby_by == "Kantorovich's bounds of Newton's method, from terms of more digits"
    assert largest_move(refine(close.to_tensor(), close), close) <= certificate.radius < 1e-4


def test_what_is_exact_near_by_needs_no_margin():
    tensor = integer_terms(3, 4, 3, 0).to_tensor()
    certificate = decompose(tensor, random_state=0).certificate
    assert certificate.exact_nearby
    assert certificate.margin is not None
    assert "All sums of" not in certificate.message
    assert "All sums of" in replace(certificate, exact_nearby=False).message


def test_the_koszul_flattening_bounds_the_rank():
    tensor = random_terms(5, 3, 3, 0).to_tensor()
    # The flattening of one power has rank 6, that of the tensor 18.
    assert koszul_image(tensor, 2)[1] == 3
