"""Uniqueness: never a claim that is false, and a claim where a theorem gives one."""

import numpy as np
import pytest

from apolar.decomposition.proofs.uniqueness import uniqueness
from apolar.tensor import n_monomials


def random_points(rank, dim, seed, is_complex=False):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((rank, dim))
    return points + 1j * rng.standard_normal((rank, dim)) if is_complex else points


def of_points(points, order):
    return uniqueness(np.ones(len(points)), points, order)


# --- what is known of generic points -----------------------------------------------


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(
    ("dim", "order", "rank", "word"),
    [
        (3, 3, 3, "Kruskal ranks"),
        (20, 3, 20, "Kruskal ranks"),
        (2, 5, 3, "Kruskal ranks"),
        (4, 3, 5, "Kruskal ranks"),  # Sylvester's pentahedron
        (6, 3, 8, "Kruskal ranks"),
        (3, 6, 8, "Kruskal ranks"),
        (3, 8, 13, "finitely many common zeros"),
        (4, 4, 7, "finitely many common zeros"),
        (5, 4, 11, "finitely many common zeros"),
        (6, 4, 15, "the points alone"),
        (7, 3, 10, "the differential of the Koszul flattening"),
        (5, 5, 17, "the differential of the Koszul flattening"),
    ],
)
def test_generic_terms_of_low_rank_are_unique(dim, order, rank, word, is_complex):
    unique, by = of_points(random_points(rank, dim, 0, is_complex), order)
    assert unique is True
    assert word in by


# The last: generic forms of these ranks have two decompositions [chiantini2017generic]; ternary quintics of
# rank 7 have one, as have quintics of rank 12 in four variables, which no theorem here proves: the kernels of
# their Koszul flattening are too small.
FAMILIES = [
    (3, 3, 4),
    (3, 4, 6),
    (3, 4, 5),
    (4, 4, 9),
    (5, 4, 14),
    (5, 3, 7),
    (2, 4, 3),
    (3, 2, 2),
    (3, 1, 2),
]
OPEN = [(3, 6, 9), (4, 4, 8), (6, 3, 9), (3, 5, 7), (4, 5, 12)]


@pytest.mark.parametrize(("shape", "unique"), [(s, False) for s in FAMILIES] + [(s, None) for s in OPEN])
def test_families_are_not_unique_and_some_terms_are_left_open(shape, unique):
    dim, order, rank = shape
    assert of_points(random_points(rank, dim, 0), order)[0] is unique


def generic_truth(dim, order, rank):
    """Return whether generic sums of powers are identifiable, by Chiantini, Ottaviani and Vannieuwenhoven."""
    if rank == 1:
        return True
    if order <= 2 or (dim, order, rank) in {(3, 4, 5), (4, 4, 9), (5, 4, 14), (5, 3, 7)}:
        return False
    if (dim, order, rank) in {(3, 6, 9), (4, 4, 8), (6, 3, 9)}:
        return False
    size = n_monomials(dim, order)
    if rank * dim == size:  # Galuppi and Mella
        return dim == 2 or (dim, order) in {(3, 5), (4, 3)}
    return rank * dim < size


@pytest.mark.parametrize("seed", range(2))
def test_generic_terms_of_any_shape_are_never_misjudged(seed):
    rng = np.random.default_rng(seed)
    decided = 0
    for _ in range(40):
        dim, order = int(rng.integers(2, 6)), int(rng.integers(1, 8))
        most = min(n_monomials(dim, order) // dim + 2, 30)
        rank = int(rng.integers(1, most + 1))
        points = rng.standard_normal((rank, dim))
        unique, by = of_points(points, order)
        assert unique in (None, generic_truth(dim, order, rank)), (dim, order, rank, by)
        decided += unique is not None
    assert decided >= 30


# --- special positions, of which it is known that other terms have the same sum ---------


def on_rational_curve(n_points, degree, dim, rng):
    """Return points on a rational normal curve of a degree, in a random subspace of the space."""
    parameters = rng.permutation(np.arange(-20, 21))[:n_points]
    curve = np.stack([parameters**k for k in range(degree + 1)], axis=1)
    return (curve @ rng.integers(-3, 4, size=(degree + 1, dim))).astype(float)


@pytest.mark.parametrize("curve_degree", [1, 2, 3])
def test_terms_with_too_many_points_on_a_curve_are_not_called_unique(curve_degree):
    # Powers of points on a rational normal curve of degree e are those of binary forms of degree e d, which
    # have infinitely many decompositions into more than (e d + 1) / 2 terms.
    rng = np.random.default_rng(0)
    for _ in range(6):
        dim, order = int(rng.integers(curve_degree + 1, 7)), int(rng.integers(3, 8))
        special = on_rational_curve((curve_degree * order + 1) // 2 + 1, curve_degree, dim, rng)
        others = rng.integers(-5, 6, size=(int(rng.integers(0, 3)), dim)).astype(float)
        others = others[np.any(others, axis=1)]
        points = np.vstack([special, others])
        if np.all(np.any(points, axis=1)):
            assert of_points(points, order)[0] is not True


PLANE = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 2.0, 0.0]])
EQUAL = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
CURVE = [on_rational_curve(*shape, np.random.default_rng(0)) for shape in ((4, 2, 3), (3, 1, 4), (4, 1, 4))]


@pytest.mark.parametrize(
    ("points", "order", "unique"),
    [
        # Four of nine points on a conic are too few for the test above, and three on a line.
        (CURVE[0], 4, True),
        (CURVE[1], 5, True),
        (CURVE[2], 5, False),
        # Three cubes of two variables, in three.
        (PLANE, 3, False),
        (PLANE @ np.array([[1.0, 1, 2], [0, 1, 3], [1, 0, 1]]), 3, False),
        (EQUAL[:2], 5, False),
        (EQUAL, 5, None),
        (np.array([[1.0, 0.0], [0.0, 0.0]]), 3, None),
        (np.zeros((0, 2)), 3, True),
    ],
)
def test_points_in_special_positions(points, order, unique):
    assert of_points(points, order)[0] is unique
    assert uniqueness(np.zeros(len(points)), points, order)[0] is (None if len(points) else True)
