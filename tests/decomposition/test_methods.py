"""The building blocks: joint diagonalisation, algorithm 2, the subspace power method, rank rules."""

import numpy as np
import pytest

import apolar
from apolar._core.arrays import svd, unit_rows
from apolar.decomposition import component_errors, pencil, ranks
from apolar.decomposition.proofs.flattenings import hankel_flattening
from apolar.decomposition.ranks import HankelSVD, range_basis
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
    for seed in range(10, 16):
        rotation = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
        waring = apolar.decompose(form.change_variables(rotation), method="spm", random_state=seed)
        assert waring.status is apolar.Status.DIVERGING


@pytest.mark.parametrize("is_complex", [False, True])
def test_joint_eigenvalues_of_matrices_that_share_their_factors(is_complex):
    rng = np.random.default_rng(0)
    values, left, right = rng.standard_normal((3, 4, 4)) + is_complex * 1j * rng.standard_normal((3, 4, 4))
    # Nearly the same first two: one pencil alone separates them by 1e-9.
    values[0, 1] = values[0, 0] * (1 + 1e-9)
    matrices = np.array([left @ np.diag(v) @ right for v in values])
    found = unit_rows(pencil.joint_eigenvalues(matrices, rng))
    cosines = np.abs(found.conj() @ unit_rows(values.T).T)
    # The squares of the errors, which the conditions of the factors enlarge.
    assert np.all(1 - cosines.max(axis=0) < 1e-12)


@pytest.mark.parametrize(("dim", "order", "rank", "row_degree"), ALGORITHM_2)
def test_algorithm_2_is_exact_up_to_its_limit(dim, order, rank, row_degree):
    weights, points = random_terms(dim, rank, seed=dim)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
    waring = apolar.decompose(tensor, method="pencil", refine=False, row_degree=row_degree, random_state=0)
    assert (waring.rank, waring.method, waring.status) == (rank, "pencil", apolar.Status.UNREFINED)
    assert largest_error(weights, points, waring) < EXACT


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(
    ("dim", "order", "rank"), [(4, 3, 4), (5, 4, 7), (4, 5, 6), (3, 6, 5), (6, 3, 1), (5, 3, 2)]
)
def test_power_method_finds_every_component(dim, order, rank, is_complex):
    # A deflation that is forgotten or done twice loses or repeats one of them.
    weights, points = random_terms(dim, rank, seed=3, is_complex=is_complex)
    if order % 2 == 0 and not is_complex:
        weights = weights * np.resize([1, -1], rank)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
    waring = apolar.decompose(tensor, rank, method="spm", refine=False, random_state=0)
    assert largest_error(weights, points, waring) < 1e-4
    refined = apolar.decompose(tensor, rank, method="spm", random_state=0)
    assert largest_error(weights, points, refined) < EXACT


def test_the_power_method_gives_up_soon_on_what_is_not_of_its_rank(monkeypatch):
    # A tensor without structure of the largest rank that the method takes: no start reaches a component.
    climbs = []
    climb = apolar.decomposition.power_method._climb
    monkeypatch.setattr(
        "apolar.decomposition.power_method._climb", lambda *args: climbs.append(1) or climb(*args)
    )
    rng = np.random.default_rng(0)
    tensor = apolar.SymmetricTensor(5, 6, rng.standard_normal(apolar.tensor.n_monomials(6, 5)))
    assert np.isfinite(apolar.decompose(tensor, 21, method="spm", random_state=0).residual)
    # Of two tries a term there would be 84, real points and complex ones together.
    assert len(climbs) < 50


def test_methods_say_their_limits():
    weights, points = random_terms(3, 4, seed=0)
    cubic = apolar.SymmetricTensor.from_waring(weights, points, 3)
    for method in ("pencil", "spm"):
        with pytest.raises(ValueError, match=f"above what method='{method}' can find.*: 3.*method='auto'"):
            apolar.decompose(cubic, 4, method=method)
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


@pytest.mark.parametrize("rule", [ranks.tolerance(0.05), ranks.gap(), None])
@pytest.mark.parametrize(("dim", "order", "rank"), [(8, 3, 3), (6, 4, 3), (4, 6, 4), (4, 5, 3)])
def test_the_rank_of_a_noisy_tensor_is_detected(dim, order, rank, rule):
    weights, points = random_terms(dim, rank, seed=1)
    tensor = noisy(apolar.SymmetricTensor.from_waring(weights, points, order), 1e-3, seed=2)
    waring = apolar.decompose(tensor, rule, random_state=0)
    assert (waring.rank, waring.status) == (rank, apolar.Status.APPROXIMATE)
    assert largest_error(weights, points, waring) < 0.02


def test_generic_ranks_and_their_exceptions():
    # Sylvester, Clebsch and the other exceptions of Alexander and Hirschowitz.
    known = {
        (2, 3): 2, (2, 4): 3, (3, 3): 4, (3, 4): 6, (4, 3): 5, (4, 4): 10, (5, 3): 8, (5, 4): 15, (3, 5): 7,
    }  # fmt: skip
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


CORRELATED = {"shifted": lambda draws: draws + 1, "positive": np.abs, "close": lambda draws: draws + 3}


@pytest.mark.parametrize(("dim", "order", "rank", "kind"), [
    (16, 4, 60, "shifted"), (16, 4, 60, "positive"), (10, 6, 210, None), (4, 8, 31, None),
    pytest.param(10, 4, 45, None, marks=pytest.mark.slow),
    pytest.param(16, 4, 60, "close", marks=pytest.mark.slow),
])  # fmt: skip
def test_components_that_are_correlated_or_fill_the_space_are_found(dim, order, rank, kind):
    # Plain power steps need hundreds of iterations; 31 to 210 are at the limit of the method, or near it; and
    # some weights are a thousandth of others.
    rng = np.random.default_rng(rank)
    draws = rng.standard_normal((rank, dim))
    points = unit_rows(CORRELATED[kind](draws) if kind else draws)
    tensor = apolar.SymmetricTensor.from_waring(rng.standard_normal(rank), points, order)
    for method in ("auto", "spm") if kind else ("auto",):
        waring = apolar.decompose(tensor, rank, method, random_state=0)
        assert waring.status is apolar.Status.EXACT
        assert np.abs(waring.points @ points.T).max(axis=0).min() > 1 - EXACT


@pytest.mark.parametrize("order", [3, 4])
def test_a_large_hankel_matrix_of_low_rank_is_seen_through_random_vectors(order, monkeypatch):
    weights, points = random_terms(14, 20, seed=1)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
    whole = HankelSVD(tensor, 2)
    monkeypatch.setattr("apolar.decomposition.ranks.range_basis", lambda matrix: range_basis(matrix, 4))
    sampled = HankelSVD(tensor, 2, max_dense=1)
    rounding = 1e-12 * whole.singular_values[0]
    np.testing.assert_allclose(sampled.singular_values, whole.singular_values, atol=rounding)
    reduced = sampled.left * sampled.singular_values[: sampled.left.shape[1]] @ sampled.right.T
    np.testing.assert_allclose(
        reduced, hankel_flattening(14, order, 2).matrix(tensor.coefficients), atol=1e-11 * tensor.norm()
    )
    # With noise the rank is full, and nothing is left out.
    full = HankelSVD(noisy(tensor, 1e-3, seed=0), 2, max_dense=1)
    assert full.left.shape[1] == len(whole.singular_values)


def test_singular_values_where_divide_and_conquer_fails(monkeypatch):
    def fails(*_, **__):
        raise np.linalg.LinAlgError("SVD did not converge")

    matrix = np.random.default_rng(0).standard_normal((6, 4))
    expected = np.linalg.svd(matrix, compute_uv=False)
    monkeypatch.setattr(np.linalg, "svd", fails)
    left, values, right = svd(matrix)
    np.testing.assert_allclose(values, expected, rtol=1e-13)
    np.testing.assert_allclose(left * values @ right, matrix, atol=1e-13)
