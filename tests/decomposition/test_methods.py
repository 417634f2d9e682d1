"""The building blocks: joint diagonalisation, algorithm 2, the subspace power method, rank rules."""

import numpy as np
import pytest

import apolar
from apolar.decomposition import component_errors, joint, ranks, spm
from apolar.decomposition.methods import METHODS
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


@pytest.mark.parametrize("is_complex", [False, True])
def test_joint_eigenvalues_of_commuting_matrices(is_complex):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((5, 4)) + is_complex * 1j * rng.standard_normal((5, 4))
    basis = rng.standard_normal((4, 4)) + is_complex * 1j * rng.standard_normal((4, 4))
    matrices = np.array([basis @ np.diag(v) @ np.linalg.inv(basis) for v in values])
    eigenvalues = joint.joint_eigenvalues(matrices, rng)
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
    left, right = joint._newton_sweep(stack)
    before, after = joint._off_diagonal(stack), joint._off_diagonal(left @ stack @ right)
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


@pytest.mark.parametrize("first", [0.0, 5e-324, 5e-324j, 1e-200 + 1e-310j])
def test_the_complement_of_a_vector_whose_first_entry_all_but_vanishes(first):
    vector = np.array([first, 3.0, 4.0j])
    basis = spm._complement(vector)
    np.testing.assert_allclose(basis.conj().T @ basis, np.eye(2), atol=1e-15)
    np.testing.assert_allclose(vector.conj() @ basis, 0, atol=1e-14)


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
