"""Ranks that are not given, and exact terms that numbers do not determine."""

import numpy as np
import pytest

import apolar
from apolar import Status, SymmetricTensor, decompose
from apolar.decomposition import component_errors, ranks
from apolar.decomposition.ranks import HankelSVD
from apolar.tensor import n_monomials
from problems import generic_form, noisy, random_terms

# --- generic forms -----------------------------------------------------------------


# Few starts, so that it is fast: complex terms are reached from nearly every one.
@pytest.mark.parametrize(
    ("dim", "order", "rank", "proved"),
    [
        (6, 3, 10, 9),
        pytest.param(4, 5, 14, 12, marks=pytest.mark.slow),
        pytest.param(4, 6, 21, 20, marks=pytest.mark.slow),
    ],
)
def test_generic_forms_have_the_generic_rank(dim, order, rank, proved):
    waring = decompose(generic_form(dim, order, 0), random_state=0, n_starts=4)
    assert (waring.rank, waring.status) == (rank, Status.EXACT)
    # By Koszul flattenings for odd orders, by the squarest Hankel matrix for even ones.
    assert waring.rank_bounds == (proved, rank)
    # What no flattening proves is said.
    assert f"from {proved} to {rank}" in waring.message
    assert "raised until exact" in waring.rank_source


def test_forms_below_the_generic_rank_have_their_own():
    # Two monomials of rank 4, in variables that hide them: Hankel matrices say 6, the generic rank is 10. The
    # Koszul flattening proves the 8.
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    tensor = SymmetricTensor.from_polynomial("x*y*z + u*v*w").change_variables(turn)
    waring = decompose(tensor, random_state=0, n_starts=4, field="complex")
    assert (waring.rank, waring.status, waring.rank_bounds) == (8, Status.EXACT, (8, 8))
    # Each monomial is decomposed by itself, also over the real numbers.
    waring = decompose(tensor, random_state=0, n_starts=4)
    assert (waring.rank, waring.status, waring.rank_bounds) == (8, Status.EXACT, (8, 8))
    assert waring.rank_source == "the ranks of summands that share no variable"


@pytest.mark.parametrize("order", [12, 40, 80])
def test_binary_forms_of_any_order_have_the_terms_of_sylvester(order):
    waring = decompose(generic_form(2, order, 1), random_state=0, field="complex")
    assert (waring.rank, waring.status, waring.method) == (order // 2 + 1, Status.EXACT, "sylvester")


# --- more terms than structured methods find ----------------------------------------


@pytest.mark.parametrize(("dim", "order", "rank", "is_given"), [
    (7, 3, 11, True), (8, 3, 14, True), (10, 3, 20, True), (5, 3, 6, False), (4, 5, 12, False),
])  # fmt: skip
def test_overcomplete_tensors_are_exact(dim, order, rank, is_given):
    # Where the rank is not given, terms that leave little are not taken for noise.
    rng = np.random.default_rng([dim, order, rank])
    points = rng.standard_normal((rank, dim))
    terms = apolar.Waring(rng.choice([-1.0, 1.0], rank), points, order)
    waring = decompose(terms.to_tensor(), rank if is_given else None, random_state=1)
    assert (waring.rank, waring.status) == (rank, Status.EXACT)
    # They are unique; a residual of 1e-10 times a condition in the thousands.
    assert component_errors(terms, waring).max() < 1e-5


# --- monomials -----------------------------------------------------------------------


# --- not settled -----------------------------------------------------------------------


def test_a_search_that_ends_too_soon_says_so():
    waring = decompose(generic_form(4, 5, 0), random_state=0, time_limit=1e-9, n_starts=2)
    assert waring.status is Status.RANK_NOT_SETTLED
    assert waring.rank_bounds == (12, 28)
    assert "from 12 to 28" in waring.message
    assert "time_limit was over" in waring.rank_source
    with pytest.raises(ValueError, match="time_limit"):
        decompose("x^3 + y^3", time_limit=0)
    waring = decompose(generic_form(11, 3, 0), random_state=0, n_starts=1)
    assert (waring.status, waring.rank) == (Status.RANK_NOT_SETTLED, 11)
    assert "more than 200 coefficients" in waring.rank_source


# --- weights of wide range ---------------------------------------------------------------


@pytest.mark.parametrize(("rank", "seed"), [(4, 2), (4, 23), (5, 0), (5, 29)])
def test_small_terms_are_not_taken_for_noise(rank, seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((rank, 3))
    tensor = SymmetricTensor.from_waring(rng.standard_normal(rank), points, 4)
    values = HankelSVD(tensor, 2).singular_values
    assert ranks.noise_floor_rank(values) < rank  # they do look like noise
    waring = decompose(tensor, random_state=0)
    assert (waring.rank, waring.status) == (rank, Status.EXACT)


# --- points that mean nothing --------------------------------------------------------------


def _clustered(distance):
    points = np.array([[1.0, 0.2, 0.1], [1.0, 0.2 + distance, 0.1], [0.0, 0.3, 1.0]])
    return SymmetricTensor.from_waring([2.0, 1.0, 1.0], points, 3)


@pytest.mark.parametrize("rank", [None, 3])
def test_points_that_rounding_moves_by_their_size_are_said_to(rank):
    waring = decompose(_clustered(1e-6), rank, random_state=0)
    assert waring.status is Status.ILL_CONDITIONED
    assert waring.residual < 1e-10
    assert "2 terms may be off by" in waring.message
    assert "condition number is" in waring.message
    assert apolar.refine(_clustered(1e-6), waring).status is Status.ILL_CONDITIONED


def test_a_term_of_the_size_of_rounding_is_not_determined():
    points = np.array([[1.0, 0.2, 0.1], [0.0, 0.3, 1.0], [0.5, -1.0, 0.3]])
    tensor = SymmetricTensor.from_waring([2.0, 1.0], points[:2], 4)
    waring = apolar.refine(tensor, apolar.Waring([2.0, 1.0, 1e-16], points, 4))
    assert waring.status is Status.ILL_CONDITIONED
    assert "The smallest term is no larger than" in waring.message


@pytest.mark.parametrize(("sign", "distance"), [(1, 1e-3), (-1, 1e-2), (-1, 1e-3)])
def test_a_close_pair_beside_other_terms_is_polished_to_rounding(sign, distance):
    # Condition up to 1e10, and more terms than variables.
    rng = np.random.default_rng(7)
    points = rng.standard_normal((8, 6))
    points[1] = points[0] + distance * rng.standard_normal(6)
    terms = apolar.Waring([1.0, sign, 1, 1, 1, 1, 1, 1], points, 4)
    waring = decompose(terms.to_tensor(), 8, random_state=0)
    assert waring.status is Status.EXACT
    # Rounding times the condition; before it was polished, the pair was off by a percent and more.
    assert component_errors(terms, waring).max() < 1e-4


# --- forms of border rank ------------------------------------------------------------------


def _on_a_tangent(dim, seed, *, integer):
    """Return a^2 b and cubes of other linear forms: rank dim + 1, and a limit of forms of rank dim."""
    rng = np.random.default_rng(seed)
    while True:
        forms = rng.integers(-3, 4, (dim, dim)).astype(float) if integer else rng.standard_normal((dim, dim))
        if abs(np.linalg.det(forms)) > 0.5:
            break
    a, b = (SymmetricTensor(1, dim, form) for form in forms[:2])
    return a * a * b + SymmetricTensor.from_waring(np.ones(dim - 2), forms[2:], 3)


BORDER_FORMS = [
    SymmetricTensor.from_polynomial("(3*x+y+z)^2*(3*x+y+2*z)+(2*x-2*y-3*z)^3"),
    _on_a_tangent(3, 0, integer=True),
    _on_a_tangent(3, 1, integer=False),
    _on_a_tangent(4, 2, integer=True),
    # Rounding hides all but a tenth of the first-order error.
    _on_a_tangent(3, 100, integer=True),
    _on_a_tangent(3, 102, integer=True),
]


# In four variables some seeds end at rank 6.
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_slow_terms_of_the_border_rank_are_not_taken_for_noise(seed):
    waring = decompose("x^3*y + z^4 + (x+y+z)^4", random_state=seed)
    assert (waring.rank, waring.status) == (6, Status.EXACT)


@pytest.mark.parametrize("form", [form for form in BORDER_FORMS if form.dim == 3])
def test_a_form_of_border_rank_has_a_larger_rank(form):
    waring = decompose(form, random_state=0)
    assert (waring.rank, waring.status) == (form.dim + 1, Status.EXACT)
    assert waring.residual < 1e-13


@pytest.mark.parametrize("form", BORDER_FORMS[1:5:2])
def test_terms_of_the_border_rank_are_not_exact(form):
    # Two points approach each other; polishing leaves 1e-12 at best, with weights of 1e3 and more.
    waring = decompose(form, form.dim, random_state=0)
    assert waring.status is Status.DIVERGING
    certificate = waring.certificate
    assert (certificate.unique, certificate.minimal, certificate.determined) == (None, False, False)
    assert "too close together" in certificate.message
    assert apolar.refine(form, waring).status is Status.DIVERGING


@pytest.mark.parametrize(("draw", "seed"), [(5, 61), (1, 5)])
def test_three_points_that_approach_each_other_are_not_exact(draw, seed):
    # a^2 c + a b^2 has rank 5; three points on a curve that osculates leave 1e-10, with weights of 1e5.
    forms = np.random.default_rng([draw, seed, 6]).integers(-4, 5, (3, 3)).astype(float)
    a, b, c = (SymmetricTensor(1, 3, form) for form in forms)
    assert decompose(a * a * c + a * b * b, 3, random_state=seed).status is Status.DIVERGING


@pytest.mark.parametrize("distance", [1e-2, 1e-4])
def test_large_terms_that_cancel_and_are_the_tensor_are_exact(distance):
    # As near to a form of border rank as the square of the distance, and not one.
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 3))
    points = np.array([a + distance * b, a - distance * b, c])
    terms = apolar.Waring([1 / distance, -1 / distance, 1.0], points, 3)
    waring = decompose(terms.to_tensor(), random_state=0)
    assert (waring.rank, waring.status) == (3, Status.EXACT)
    # The condition of the pair is the inverse of the cube of their distance.
    assert component_errors(terms, waring).max() < 10 * np.finfo(float).eps / distance**3


@pytest.mark.parametrize(("dim", "order", "rank"), [(10, 4, 20), (15, 4, 40), (10, 5, 20)])
def test_the_rank_of_a_large_tensor_under_heavy_noise(dim, order, rank):
    weights, points = random_terms(dim, rank, seed=2)
    tensor = noisy(SymmetricTensor.from_waring(weights, points, order), 0.1, seed=0)
    waring = decompose(tensor, random_state=0)
    assert waring.rank == rank
    assert waring.status is Status.APPROXIMATE
    assert "noise" in waring.rank_source


def test_noise_alone_has_no_rank():
    rng = np.random.default_rng(0)
    tensor = SymmetricTensor(4, 12, rng.standard_normal(n_monomials(12, 4)))
    noise = SymmetricTensor(4, 12, tensor.coefficients / np.sqrt(tensor.multinomials))
    values = HankelSVD(noise, 2).singular_values
    assert ranks.noise_edge_rank(values) is None
    waring = decompose(noise, random_state=0)
    assert waring.status is Status.RANK_NOT_SETTLED
    assert waring.rank_bounds == (78, 2 * ranks.generic_rank(12, 4))


# --- forms in fewer variables, and sums in independent ones -----------------------------------------


def test_noise_in_the_variables_of_a_form_is_told():
    # Four variables of six: the noise fills the Hankel matrix of the form in its own variables.
    tensor = noisy(SymmetricTensor.from_waring(np.ones(3), np.eye(4)[:3] + 0.2, 4), 1e-4, seed=0)
    embedded = tensor.change_variables(np.random.default_rng(1).standard_normal((4, 6)))
    waring = decompose(embedded, random_state=0)
    assert (waring.rank, waring.status) == (3, Status.APPROXIMATE)
    assert "floor of noise" in waring.rank_source


@pytest.mark.parametrize("seed", range(4))
def test_summands_in_independent_variables_are_decomposed_by_themselves(seed):
    # x^4 y^2 has rank 5 and z^3 w^3 rank 4, in any coordinates; the ranks add up [carlini2015].
    form = SymmetricTensor.from_polynomial("x^4*y^2 + z^3*w^3")
    turned = form.change_variables(np.random.default_rng(seed).standard_normal((4, 4)))
    waring = decompose(turned, random_state=seed)
    assert (waring.rank, waring.status, waring.rank_bounds) == (9, Status.EXACT, None)
    assert "share no variable" in waring.rank_source


def test_a_sum_of_many_variables_has_real_summands():
    form = SymmetricTensor.from_polynomial("x^2*y + z^2*w")
    turned = form.change_variables(np.random.default_rng(0).standard_normal((4, 4)))
    waring = decompose(turned, field="real", random_state=0)
    assert (waring.rank, waring.status, waring.is_complex) == (6, Status.EXACT, False)


def test_the_bounds_of_a_triple_point_on_a_line_hold():
    # Its scheme has length four, of which rounding makes no more variables: no bound above the rank.
    for seed in range(6):
        form = SymmetricTensor.from_polynomial("x^3*y^2 + z^5")
        turned = form.change_variables(np.random.default_rng(seed).standard_normal((3, 3)))
        waring = decompose(turned, random_state=seed)
        assert (waring.rank, waring.status) == (5, Status.EXACT)
        assert waring.rank_bounds is None
