"""The building blocks: joint diagonalisation, algorithm 2, the subspace power method, rank rules."""

import numpy as np
import pytest

import apolar
from apolar._core.arrays import svd, unit_rows
from apolar.decomposition import component_errors, pencil, power_method, ranks
from apolar.decomposition.hankel import HankelSVD, middle_degree, range_basis
from apolar.decomposition.methods import METHODS
from apolar.tensor import n_monomials
from problems import largest_error, noisy, random_terms

# (m, d, r, k): at the largest rank that algorithm 2 finds, and below.
ALGORITHM_2 = [
    (4, 3, 4, 2),
    (4, 4, 4, 2),
    (4, 4, 4, 3),
    (4, 5, 10, 3),
    (5, 6, 15, 3),
    (4, 7, 20, 4),
    (3, 6, 3, 2),
]

# Exact data: what rounding of the coefficients, times the condition of these random terms, leaves.
EXACT = 1e-6


@pytest.mark.parametrize("form", ["x*y*z^3 + y^4*z", "x^4*y + z^5"])
def test_the_power_method_ends_at_double_points(form):
    # Where the curvature of a climb vanishes, a step without damping is singular.
    form = apolar.SymmetricTensor.from_polynomial(form)
    for seed in range(10, 20):
        rotation = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
        waring = apolar.decompose(form.change_variables(rotation), method="spm", random_state=seed)
        assert waring.status is apolar.Status.DIVERGING


@pytest.mark.parametrize("is_complex", [False, True])
def test_joint_eigenvalues_of_commuting_matrices(is_complex):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((5, 4)) + is_complex * 1j * rng.standard_normal((5, 4))
    basis = rng.standard_normal((4, 4)) + is_complex * 1j * rng.standard_normal((4, 4))
    matrices = np.array([basis @ np.diag(v) @ np.linalg.inv(basis) for v in values])
    eigenvalues = pencil.joint_eigenvalues(matrices, rng)
    assert eigenvalues.shape == (4, 5)
    for expected in values.T:
        assert np.abs(eigenvalues - expected).max(axis=1).min() < 1e-10


@pytest.mark.parametrize("is_complex", [False, True])
def test_a_newton_sweep_squares_the_distance_to_diagonal(is_complex):
    rng = np.random.default_rng(1)

    def draws(*shape):
        return rng.standard_normal(shape) + is_complex * 1j * rng.standard_normal(shape)

    diagonal = np.concatenate([np.eye(5)[None], [np.diag(v) for v in draws(6, 5)]])
    nearly = np.eye(5) + 1e-4 * draws(5, 5)
    stack = np.linalg.inv(nearly) @ diagonal @ nearly
    left, right = pencil._newton_sweep(stack)
    before, after = pencil._off_diagonal(stack), pencil._off_diagonal(left @ stack @ right)
    assert before > 1e-4
    assert after < 100 * before**2


@pytest.mark.parametrize(("dim", "order", "rank", "row_degree"), ALGORITHM_2)
def test_algorithm_2_is_exact_up_to_its_limit(dim, order, rank, row_degree):
    weights, points = random_terms(dim, rank, seed=dim)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
    waring = apolar.decompose(tensor, method="pencil", refine=False, row_degree=row_degree, random_state=0)
    assert waring.rank == rank
    assert waring.method == "pencil"
    assert waring.status is apolar.Status.UNREFINED
    assert largest_error(weights, points, waring) < EXACT


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(
    ("dim", "order", "rank"), [(4, 3, 4), (5, 4, 7), (4, 5, 6), (3, 6, 5), (6, 3, 1), (5, 3, 2)]
)
def test_power_method_finds_every_component(dim, order, rank, is_complex):
    # A deflation that is forgotten or done twice loses or repeats one of them.
    weights, points = random_terms(dim, rank, seed=3, is_complex=is_complex)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
    waring = apolar.decompose(tensor, rank, method="spm", refine=False, random_state=0)
    assert largest_error(weights, points, waring) < 1e-4
    refined = apolar.decompose(tensor, rank, method="spm", random_state=0)
    assert largest_error(weights, points, refined) < EXACT


def test_power_method_takes_weights_of_both_signs():
    weights, points = random_terms(4, 3, seed=5)
    weights = weights * [1, -1, 1]
    tensor = apolar.SymmetricTensor.from_waring(weights, points, 4)
    waring = apolar.decompose(tensor, method="spm", random_state=0)
    assert sorted(np.sign(waring.weights)) == [-1, 1, 1]
    assert largest_error(weights, points, waring) < EXACT


def test_methods_say_their_limits():
    weights, points = random_terms(3, 4, seed=0)
    cubic = apolar.SymmetricTensor.from_waring(weights, points, 3)
    with pytest.raises(ValueError, match="above what method='pencil' can find.*: 3.*method='auto'"):
        apolar.decompose(cubic, 4, method="pencil")
    with pytest.raises(ValueError, match="above what method='spm' can find.*: 3"):
        apolar.decompose(cubic, 4, method="spm")
    low = apolar.SymmetricTensor.from_waring(weights[:2], points[:2], 5)
    with pytest.raises(ValueError, match="Hankel matrix has rank 2"):
        apolar.decompose(low, 3, method="spm")
    with pytest.raises(ValueError, match="breaks down at rank 3"):
        apolar.decompose(low, 3, method="pencil")


def test_rank_rules():
    values = np.array([3.0, 2.0, 1.0, 1e-3, 9e-4, 8e-4])
    assert ranks.tolerance(1e-2)(values) == 3
    assert ranks.gap()(values) == 3
    assert ranks.gap(max_rank=2)(values) == 2
    assert ranks.gap()(np.array([2.0])) == 1
    assert ranks.numerical_rank(values) == 6
    assert ranks.noise_floor_rank(values) == 3
    assert ranks.noise_floor_rank(np.array([3.0, 2.0, 1.0])) is None
    assert ranks.numerical_rank(np.array([1.0, 1e-17])) == 1
    with pytest.raises(ValueError, match="rtol"):
        ranks.tolerance(0)


@pytest.mark.parametrize(("dim", "order", "rank"), [(6, 4, 3), (4, 4, 3), (4, 6, 4), (4, 5, 3)])
def test_rank_above_the_noise_of_any_order(dim, order, rank):
    for seed in range(3):
        weights, points = random_terms(dim, rank, seed)
        tensor = noisy(apolar.SymmetricTensor.from_waring(weights, points, order), 1e-3, seed)
        assert apolar.decompose(tensor, random_state=0).rank == rank


@pytest.mark.parametrize("rule", [ranks.tolerance(0.05), ranks.gap(), None])
def test_rank_of_a_noisy_tensor_is_detected(rule):
    weights, points = random_terms(8, 3, seed=1)
    tensor = noisy(apolar.SymmetricTensor.from_waring(weights, points, 3), 1e-3, seed=2)
    waring = apolar.decompose(tensor, rule, random_state=0)
    assert waring.rank == 3
    assert waring.status is apolar.Status.APPROXIMATE
    assert len(waring.singular_values) == 8
    assert largest_error(weights, points, waring) < 0.02


def test_generic_ranks_and_their_exceptions():
    # Sylvester, Clebsch and the other exceptions of Alexander and Hirschowitz.
    known = {
        (2, 3): 2,
        (2, 4): 3,
        (3, 3): 4,
        (3, 4): 6,
        (4, 3): 5,
        (4, 4): 10,
        (5, 3): 8,
        (5, 4): 15,
        (3, 5): 7,
    }
    assert {shape: ranks.generic_rank(*shape) for shape in known} == known


def test_component_errors_match_terms_up_to_roots_of_unity():
    weights, points = random_terms(3, 3, 0, is_complex=True)
    truth = apolar.Waring(weights, points, 3)
    turned = apolar.Waring(weights[::-1], points[::-1] * np.exp(2j * np.pi / 3), 3)
    assert component_errors(truth, turned).max() < 1e-14
    even = apolar.Waring([-1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]], 4)
    assert component_errors(even, apolar.Waring([2.0, -1.0], [[0.0, -1.0], [-1.0, 0.0]], 4)).max() < 1e-14
    assert component_errors(even, apolar.Waring([2.0, 1.0], [[0.0, 1.0], [1.0, 0.0]], 4)).max() > 0.5
    missing = component_errors(even, apolar.Waring([2.0], [[0.0, 1.0]], 4))
    assert sorted(np.isinf(missing)) == [False, True]
    with pytest.raises(ValueError, match="differ"):
        component_errors(truth, even)
    with pytest.raises(TypeError, match="Waring"):
        component_errors(truth, points)
    nothing = apolar.Waring([1.0, 0.0], np.eye(2), 4)
    assert component_errors(nothing, apolar.Waring([1.0, 1.0], np.eye(2), 4)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(("dim", "order", "rank"), [(6, 4, 12), (5, 5, 12), (4, 6, 14)])
@pytest.mark.parametrize("is_complex", [False, True])
def test_components_that_are_removed_leave_the_span_of_the_others(dim, order, rank, is_complex):
    weights, points = random_terms(dim, rank, seed=order, is_complex=is_complex)
    degree = middle_degree(order)
    flattening = HankelSVD.of(apolar.SymmetricTensor.from_waring(weights, points, order), degree)
    left, right = flattening.left[:, :rank], flattening.right[:, :rank]
    inverse = np.diag(1 / flattening.singular_values[:rank]).astype(left.dtype)
    left, right, inverse = power_method._deflate(
        left, right, inverse, unit_rows(points[:5]), degree, order - degree
    )
    rest = HankelSVD.of(apolar.SymmetricTensor.from_waring(weights[5:], points[5:], order), degree)
    assert left.shape == (n_monomials(dim, degree), rank - 5)
    # Projections on the two spans, and the inverse of what is left of the matrix; the condition is below 1e4.
    for found, expected in ((left, rest.left), (right, rest.right)):
        basis = expected[:, : rank - 5]
        np.testing.assert_allclose(found @ found.conj().T, basis @ basis.conj().T, atol=1e-9)
    matrix = left.conj().T @ rest.left * rest.singular_values @ rest.right.T @ right.conj()
    np.testing.assert_allclose(matrix @ inverse.T, np.eye(rank - 5), atol=1e-9)


CORRELATED = {"shifted": lambda draws: draws + 1, "positive": np.abs, "close": lambda draws: draws + 3}


@pytest.mark.parametrize("kind", CORRELATED)
@pytest.mark.parametrize("method", ["auto", "spm"])
def test_correlated_components_are_found(kind, method):
    # Plain power steps need hundreds of iterations for each of these.
    rng = np.random.default_rng(3)
    points = unit_rows(CORRELATED[kind](rng.standard_normal((60, 16))))
    weights = rng.standard_normal(60)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, 4)
    waring = apolar.decompose(tensor, method=method, random_state=0)
    assert waring.rank == 60
    assert waring.status is apolar.Status.EXACT
    assert np.abs(waring.points @ points.T).max(axis=0).min() > 1 - EXACT


@pytest.mark.parametrize(("dim", "order", "rank"), [(10, 4, 45), (10, 6, 210), (4, 8, 31)])
def test_components_whose_powers_nearly_fill_the_space(dim, order, rank):
    # At the limit of the method, or within a tenth of it; some weights are a thousandth of others.
    rng = np.random.default_rng(rank)
    points = unit_rows(rng.standard_normal((rank, dim)))
    tensor = apolar.SymmetricTensor.from_waring(rng.standard_normal(rank), points, order)
    waring = apolar.decompose(tensor, rank, random_state=0)
    assert waring.status is apolar.Status.EXACT
    assert np.abs(waring.points @ points.T).max(axis=0).min() > 1 - EXACT


@pytest.mark.parametrize("order", [3, 4])
def test_a_large_hankel_matrix_of_low_rank_is_seen_through_random_vectors(order, monkeypatch):
    dim, rank = 14, 20
    weights, points = random_terms(dim, rank, seed=1)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
    whole = HankelSVD.of(tensor, 2)
    monkeypatch.setattr("apolar.decomposition.hankel.range_basis", lambda matrix: range_basis(matrix, 4))
    sampled = HankelSVD.of(tensor, 2, max_dense=1)
    assert sampled.singular_values.shape == whole.singular_values.shape
    np.testing.assert_allclose(
        sampled.singular_values, whole.singular_values, atol=1e-12 * whole.singular_values[0]
    )
    reduced = sampled.left * sampled.singular_values[: sampled.left.shape[1]] @ sampled.right.T
    np.testing.assert_allclose(reduced, apolar.tensor.weighted_hankel(tensor, 2), atol=1e-11 * tensor.norm())
    if order == 4:
        assert sampled.left.shape[1] == 32
    # With noise the rank is full, and nothing is left out.
    assert HankelSVD.of(noisy(tensor, 1e-3, seed=0), 2, max_dense=1).left.shape[1] == len(
        whole.singular_values
    )


def test_singular_values_where_divide_and_conquer_fails(monkeypatch):
    def fails(*_, **__):
        raise np.linalg.LinAlgError("SVD did not converge")

    matrix = np.random.default_rng(0).standard_normal((6, 4))
    expected = np.linalg.svd(matrix, compute_uv=False)
    monkeypatch.setattr(np.linalg, "svd", fails)
    left, values, right = svd(matrix)
    np.testing.assert_allclose(values, expected, rtol=1e-13)
    np.testing.assert_allclose(left * values @ right, matrix, atol=1e-13)


def test_an_entry_of_the_table_is_a_method(monkeypatch):
    calls = []

    def counted(problem, rng):
        calls.append(problem.rank)
        return METHODS["pencil"](problem, rng)

    monkeypatch.setitem(METHODS, "counted", counted)
    assert apolar.decompose("x^3 + y^3", 2, "counted").status is apolar.Status.EXACT
    assert calls == [2]
    with pytest.raises(ValueError, match="'spm', 'counted'"):
        apolar.decompose("x^3 + y^3", method="als")
