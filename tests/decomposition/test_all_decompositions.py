"""All decompositions of tensors that have finitely many, and common points of several tensors."""

import numpy as np
import pytest

import apolar
from apolar import Status, SymmetricTensor, Waring
from apolar.decomposition import component_errors
from problems import random_terms


def check_all(found, tensor):
    for waring in found:
        assert waring.status is Status.EXACT
        assert (waring.to_tensor() - tensor).norm() < 1e-12 * tensor.norm()
    for i, waring in enumerate(found):
        assert all(component_errors(other, waring).max() > 1e-6 for other in found[:i])


@pytest.mark.parametrize(
    ("dim", "order", "rank", "number"),
    [
        (2, 5, 3, 1),  # Sylvester
        (4, 3, 5, 1),  # Sylvester's pentahedron
        pytest.param(4, 4, 8, 2, marks=pytest.mark.slow),  # [chiantini2017generic]
        pytest.param(3, 5, 7, 1, marks=pytest.mark.slow),  # Hilbert
        pytest.param(6, 3, 9, 2, marks=pytest.mark.slow),  # [chiantini2017generic]
        pytest.param(3, 7, 12, 5, marks=pytest.mark.slow),  # [hauenstein2019]
    ],
)
def test_the_number_of_decompositions_of_generic_tensors(dim, order, rank, number):
    known = Waring(*random_terms(dim, rank, 0), order)
    tensor = known.to_tensor()
    found = apolar.decompositions(known, random_state=0)
    assert len(found) == number
    assert min(component_errors(known, waring).max() for waring in found) < 1e-8
    check_all(found, tensor)


def test_families_have_no_list():
    for form, rank in (("(x^2 + y^2)^2 + x^4", 4), ("x^4 + y^4 + z^4 + (x+y+z)^4 + (x-y)^4", 5)):
        with pytest.raises(ValueError, match=r"infinitely many|No exact terms"):
            apolar.decompositions(form, rank, random_state=0)
    with pytest.raises(ValueError, match="quadratic"):
        apolar.decompositions("x^2 + y^2")


@pytest.mark.parametrize(
    ("number", "dim", "order", "rank"), [(4, 5, 2, 5), (6, 4, 2, 6), (5, 4, 3, 8), (3, 3, 4, 6)]
)
def test_common_points_are_found(number, dim, order, rank):
    rng = np.random.default_rng([dim, order])
    weights, points = rng.standard_normal((number, rank)), rng.standard_normal((rank, dim))
    points /= np.linalg.norm(points, axis=1)[:, None]
    dense = np.array([SymmetricTensor.from_waring(row, points, order).to_dense() for row in weights])
    for given in (None, rank):
        found = apolar.decompose_jointly(dense, given, random_state=0)
        assert (found.rank, found.status) == (rank, Status.EXACT)
        assert np.abs(found.points @ points.T).max(axis=0).min() > 1 - 1e-12
        assert np.linalg.norm(found.to_dense() - dense) < 1e-12 * np.linalg.norm(dense)
    noise = 1e-5 * rng.standard_normal(dense.shape[0])[:, None] * rng.standard_normal(points.shape[1])
    moved = [
        form + SymmetricTensor.from_waring([1e-4], row[None], order)
        for form, row in zip(found.to_tensors(), noise * 1e3, strict=True)
    ]
    near = apolar.decompose_jointly(moved, rank, random_state=0)
    assert near.residual < 1e-3
    assert near.status is not Status.EXACT or near.residual < 1e-13


def test_limits_and_conjugate_points_are_not_exact():
    for forms in (["2*x*y", "x^2 + 0*y^2"], ["x^2 - y^2", "2*x*y"]):
        assert apolar.decompose_jointly(forms, 2, random_state=0).status is not Status.EXACT
        assert apolar.decompose_jointly(forms, 3, random_state=0).status is Status.EXACT


def test_what_is_no_stack_is_refused():
    with pytest.raises(ValueError, match="one order and dimension"):
        apolar.decompose_jointly(["x^2 + y^2", "x^3 + y^3"])
    with pytest.raises(ValueError, match="symmetric"):
        apolar.decompose_jointly(np.arange(8.0).reshape(2, 2, 2))
    with pytest.raises(ValueError, match="zero"):
        apolar.decompose_jointly(np.zeros((2, 2, 2)))
