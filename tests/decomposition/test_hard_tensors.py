"""Tensors at which a search by residuals goes wrong: exact input, special points, conjugates, other units."""

from fractions import Fraction

import numpy as np
import pytest

import apolar
from apolar import Status, SymmetricTensor, decompose
from apolar.decomposition import component_errors
from problems import noisy, random_terms


def real_tensor_of_complex_points(dim, order, rank, seed):
    weights, points = random_terms(dim, rank // 2, seed, is_complex=True)
    terms = apolar.Waring(np.tile(weights, 2), np.concatenate([points, points.conj()]), order)
    return terms, terms.to_tensor().real_if_close()


def on_a_rational_curve(dim, order, rank, seed=0):
    """Return a sum of powers of points (1, t, t^2, ...), turned."""
    rng = np.random.default_rng(seed)
    points = np.linspace(-1.5, 1.5, rank)[:, None] ** np.arange(dim) @ rng.standard_normal((dim, dim))
    return SymmetricTensor.from_waring(
        rng.uniform(1, 2, rank), points / np.linalg.norm(points, axis=1)[:, None], order
    )


# --- exact input is never noise --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dim", "order", "rank"), [(3, 5, 7), (3, 6, 8), (3, 8, 13), (4, 3, 5), (4, 5, 12), (3, 4, 5)]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_sums_of_integer_powers_have_their_rank(dim, order, rank, seed):
    rng = np.random.default_rng([dim, order, rank, seed])
    points = rng.permutation(np.array(np.meshgrid(*[range(-2, 4)] * (dim - 1))).reshape(dim - 1, -1).T)[:rank]
    points = np.column_stack([np.ones(rank, dtype=int), points]).tolist()
    form = SymmetricTensor.from_waring([1] * rank, points, order)
    waring = decompose(form, random_state=seed)
    assert (waring.rank, waring.status) == (rank, Status.EXACT)
    assert "noise" not in waring.rank_source


def test_a_small_exact_term_is_a_term():
    for form in ("x^3 + y^3/10^17", {(3, 0): 1, (0, 3): Fraction(1, 10**17)}, "x^4 + 1e-30*(x + y)^4 + z^4"):
        waring = decompose(form, random_state=0)
        tensor = SymmetricTensor.from_polynomial(form)
        assert (waring.rank, waring.status) == (tensor.dim if tensor.order == 4 else 2, Status.EXACT)


@pytest.mark.parametrize(
    ("form", "rank"),
    [
        # Fermat's cubic with x*y*z, and a sum of powers with x^3*y, have larger ranks than without the rest.
        ("x^3 + y^3 + z^3 + x*y*z/10^18", 4),
        ("x^3*y + z^4/10^20 + (x+y+z)^4", 6),
        ("x^5 + y^5 + x^3*y^2/10^25", 3),
        ("x^6 + (x+y)^6/10^20 + (x-y)^6/10^25", 3),
        # The sums of such large terms, in floating point, are not the form.
        ("10^20*((x + y/10^20)^4 - x^4)", 2),
    ],
)
def test_terms_without_the_last_exact_digits_are_not_exact(form, rank):
    waring = decompose(form, random_state=0)
    assert waring.status is not Status.EXACT
    assert waring.rank <= rank
    if waring.rank < rank:
        assert waring.rank_bounds[0] <= rank <= waring.rank_bounds[1]


@pytest.mark.parametrize(("dim", "order", "rank"), [(3, 6, 8), (4, 5, 12), (2, 6, 4), (4, 3, 5)])
def test_large_integers_are_decomposed_exactly(dim, order, rank):
    rng = np.random.default_rng(0)
    points = [[1, *map(int, rng.integers(-1000, 1000, dim - 1))] for _ in range(rank)]
    waring = decompose(SymmetricTensor.from_waring([1] * rank, points, order), random_state=0)
    assert (waring.rank, waring.status) == (rank, Status.EXACT)


@pytest.mark.parametrize("seed", range(4))
def test_ill_conditioned_integer_coordinates_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    forms = np.zeros((4, 4), dtype=int)
    while not 1000 < np.linalg.cond(forms) < 1e5:
        forms = rng.integers(-9, 10, (4, 4))
    waring = decompose(
        SymmetricTensor.from_polynomial("x^3*y + z^3*w").change_variables(forms.tolist()), random_state=seed
    )
    assert (waring.rank, waring.status) == (8, Status.EXACT)


def test_the_rank_of_a_quadratic_form_is_exact():
    assert decompose("x^2 + y^2/10^20").rank == 2


# --- points in special position --------------------------------------------------------------------


@pytest.mark.parametrize("rank", [None, 6])
@pytest.mark.parametrize("seed", range(4))
def test_points_on_a_line_are_found(rank, seed):
    form = "x^6 + 2*(x+y)^6 + 3*(x+2*y)^6 + 4*(x-y)^6 + 5*z^6 + 6*(x+y+z)^6"
    waring = decompose(form, rank, random_state=seed)
    assert waring.rank == 6
    assert waring.residual < 1e-13


@pytest.mark.parametrize(("dim", "order", "rank"), [(3, 6, 7), (3, 5, 6), (3, 8, 9), (4, 4, 7)])
@pytest.mark.parametrize("seed", [0, 1])
def test_one_of_infinitely_many_decompositions_is_not_unique(dim, order, rank, seed):
    waring = decompose(on_a_rational_curve(dim, order, rank), random_state=seed)
    assert waring.rank == rank
    assert waring.residual < 1e-13
    certificate = waring.certificate
    assert certificate.unique is None
    assert certificate.rank_lower_bound <= rank
    # Other draws give other terms of the same sum.
    other = decompose(on_a_rational_curve(dim, order, rank), random_state=seed + 2)
    assert component_errors(waring, other).max() > 1e-3


# --- real tensors of complex points ------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "order", "rank"), [(5, 4, 10), (6, 4, 14), (3, 8, 12), (5, 5, 12)])
@pytest.mark.parametrize("is_given", [False, True])
def test_pairs_of_conjugate_points_are_found(dim, order, rank, is_given):
    terms, tensor = real_tensor_of_complex_points(dim, order, rank, seed=1)
    waring = decompose(tensor, rank if is_given else None, random_state=0)
    assert (waring.rank, waring.status, waring.is_complex) == (rank, Status.EXACT, True)
    assert component_errors(terms, waring).max() < 1e-9


def test_pairs_of_conjugate_points_are_found_under_noise():
    terms, tensor = real_tensor_of_complex_points(5, 4, 8, seed=0)
    waring = decompose(noisy(tensor, 1e-4, seed=1), 8, random_state=0)
    assert waring.is_complex
    assert waring.residual < 1e-4
    assert component_errors(terms, waring).max() < 1e-2


# --- more terms than algorithm 2 finds -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("dim", "order", "rank", "method"),
    [
        (4, 5, 11, "koszul"),
        (4, 5, 12, "koszul"),
        (6, 3, 8, "koszul"),
        (5, 5, 20, "koszul"),
        (3, 8, 13, "kernel"),
    ],
)
@pytest.mark.parametrize("is_complex", [False, True])
def test_zeros_of_kernels_are_terms(dim, order, rank, method, is_complex):
    terms = apolar.Waring(*random_terms(dim, rank, 3, is_complex=is_complex), order)
    waring = decompose(terms.to_tensor(), random_state=0)
    assert (waring.rank, waring.status, waring.method) == (rank, Status.EXACT, method)
    assert component_errors(terms, waring).max() < 1e-8


# --- variables in other units ----------------------------------------------------------------------------


@pytest.mark.parametrize("order", [3, 4, 6])
@pytest.mark.parametrize("digits", [2, 4, 6])
@pytest.mark.parametrize("seed", [0, 1])
def test_units_of_variables_do_not_matter(order, digits, seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((4, 4)) * 10.0 ** np.linspace(-digits, digits, 4)
    terms = apolar.Waring(np.ones(4), points, order)
    waring = decompose(terms.to_tensor(), random_state=seed)
    assert (waring.rank, waring.status) == (4, Status.EXACT)
    # Of each variable by itself, too.
    vectors = waring.points * waring.weights[:, None] ** (1 / order)
    sizes = np.abs(points)
    for row in vectors:
        errors = np.abs(np.abs(row) - sizes) / sizes
        assert errors.max(axis=1).min() < 1e-10


def test_rounding_is_no_variable():
    # The entries of two variables are as small as rounding of the third: they are not magnified to terms, and
    # the term without them is not the tensor.
    rng = np.random.default_rng(0)
    coefficients = 1e-17 * rng.standard_normal(15)
    coefficients[0] = 1.0
    waring = decompose(SymmetricTensor(4, 3, coefficients), random_state=0)
    assert (waring.rank, waring.status) == (1, Status.APPROXIMATE)
    assert waring.residual < 1e-15


def test_terms_that_miss_a_small_variable_are_not_exact():
    # x^2*y + z^3 and others in units from 10^-4 to 10^4, as numbers in floating point.
    for seed in range(20):
        rng = np.random.default_rng(seed)
        forms = rng.standard_normal((3, 3)) * 10.0 ** rng.uniform(-4, 4, 3)
        x, y, z = (SymmetricTensor(1, 3, form) for form in forms)
        waring = decompose(x * x * y + z * z * z, random_state=seed)
        assert waring.rank == 4 or waring.status is not Status.EXACT


# --- the last digits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("seed", range(3))
def test_errors_are_the_condition_times_rounding(distance, seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((8, 6))
    points /= np.linalg.norm(points, axis=1)[:, None]
    points[1] = points[0] + distance * rng.standard_normal(6) / np.sqrt(6)
    terms = apolar.Waring(np.ones(8), points, 4)
    tensor = terms.to_tensor()
    waring = decompose(tensor, 8, random_state=seed)
    assert waring.status is Status.EXACT
    bound = waring.condition * np.finfo(float).eps * tensor.norm()
    assert component_errors(terms, waring).max() < bound
