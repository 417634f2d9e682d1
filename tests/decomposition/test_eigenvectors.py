"""All eigenvectors of symmetric tensors, against their number and their equation."""

import numpy as np
import pytest

import apolar
from apolar import SymmetricTensor


@pytest.mark.parametrize(("dim", "order"), [(2, 5), (3, 3), (3, 4), (4, 3), (3, 6)])
@pytest.mark.parametrize("is_complex", [False, True])
def test_a_generic_tensor_has_as_many_as_the_theorem_says(dim, order, is_complex):
    rng = np.random.default_rng([dim, order])
    shape = len(SymmetricTensor.zeros(order, dim).coefficients)
    coefficients = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if is_complex else 0)
    tensor = SymmetricTensor(order, dim, coefficients)
    found = apolar.eigenvectors(tensor, random_state=0)
    assert len(found.values) == ((order - 1) ** dim - 1) // (order - 2) == found.expected
    assert found.is_complete
    assert np.all(found.multiplicities == 1)
    for value, vector in zip(found.values, found.vectors, strict=True):
        # Rounding times the condition of simple eigenvectors of random tensors.
        assert np.linalg.norm(tensor.gradient(vector) / order - value * vector) < 1e-10 * tensor.norm()
    inner = np.abs(found.vectors.conj() @ found.vectors.T) - np.eye(len(found.values))
    assert inner.max() < 1 - 1e-9


def test_the_largest_real_one_is_the_best_term():
    tensor = SymmetricTensor(4, 3, np.random.default_rng(0).standard_normal(15))
    found = apolar.eigenvectors(tensor, random_state=0)
    assert np.all(np.diff(np.abs(found.values[found.is_real])) < 1e-12)
    best = apolar.decompose(tensor, rank=1, random_state=0)
    assert abs(found.values[0].real - best.weights[0]) < 1e-9 * tensor.norm()


def test_orthogonal_terms_are_eigenvectors():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    tensor = SymmetricTensor.from_waring([4, 3, 2, 1], turn, 3)
    found = apolar.eigenvectors(tensor, random_state=0)
    # All are real: sums of the terms over subsets.
    assert (len(found.values), np.count_nonzero(found.is_real)) == (15, 15)
    for weight, point in zip([4, 3, 2, 1], turn, strict=True):
        place = np.argmax(np.abs(found.vectors @ point))
        assert abs(found.vectors[place] @ point) > 1 - 1e-12
        assert abs(abs(found.values[place]) - weight) < 1e-12


def test_multiple_ones_are_counted():
    for form, multiplicity in (("x^3*y + z^4", 6), ("(x + 2*y)^3 + (x - y + z)^3", 4)):
        found = apolar.eigenvectors(form, random_state=0)
        assert found.multiplicities.sum() == found.expected
        assert found.multiplicities.max() == multiplicity
        assert not found.is_complete


def test_what_has_no_finite_number_is_refused():
    with pytest.raises(ValueError, match="infinitely many eigenvectors"):
        apolar.eigenvectors("(x^2 + y^2 + z^2)^2", random_state=0)
    with pytest.raises(ValueError, match="eigh"):
        apolar.eigenvectors("x^2 + x*y")
    with pytest.raises(ValueError, match="more than"):
        apolar.eigenvectors(SymmetricTensor.from_waring([1.0], np.ones((1, 12)), 4))
