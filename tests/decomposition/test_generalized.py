"""Generalised additive decompositions, and the interpolation degree."""

import numpy as np
import pytest

import apolar
from apolar import Status, SymmetricTensor
from apolar.decomposition.generalized import direct_summands
from problems import random_terms


@pytest.mark.parametrize(
    ("form", "lengths", "degrees"),
    [
        ("x^2*y + z^3", (2, 1), [1, 1]),
        ("x^3*y + z^4 + (x + y + z)^4", (2, 1, 1), [1, 1, 1]),
        ("x*(x*z + y^2)", (3,), [2]),
        ("x^4*(x*z + y^2)", (3,), [2]),
        ("x^3*y^2", (3,), [2]),
        ("(3*x+y+z)^2*(3*x+y+2*z) + (2*x-2*y-3*z)^3", (2, 1), [1, 1]),
        ("x^6 + y^6 + (x+y)^6 + (x+2*y+z)^5*y", (2, 1, 1, 1), [1, 1, 1, 1]),
        ("(x + i*y)^4*z + (x - i*y)^4*z", (2, 2), [1, 1]),
    ],
)
def test_the_scheme_of_a_form(form, lengths, degrees):
    # (x + i y)^4 z and its conjugate have a real sum.
    form = form if "i" not in form else "2*(x^4 - 6*x^2*y^2 + y^4)*z"
    tensor = SymmetricTensor.from_polynomial(form)
    for seed in range(3):
        found = apolar.gad(tensor, random_state=seed)
        assert found.lengths == lengths
        assert [q.order for q in found.forms] == degrees
        assert found.cactus_rank == sum(lengths)
        assert (found.to_tensor() - tensor).norm() < 1e-9 * tensor.norm()
        assert found.residual < 1e-9
        assert not found.is_simple


def test_a_turned_form_has_the_same_scheme():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    tensor = SymmetricTensor.from_polynomial("x^4*y + z^5 + w^3*(x + z)^2").change_variables(turn)
    found = apolar.gad(tensor)
    assert found.lengths == (3, 2, 1)
    assert (found.to_tensor() - tensor).norm() < 1e-8 * tensor.norm()


def test_simple_points_are_those_of_the_decomposition():
    terms = apolar.Waring(*random_terms(4, 6, 0), 5)
    found = apolar.gad(terms.to_tensor())
    assert (found.is_simple, found.cactus_rank) == (True, 6)
    assert np.abs(terms.points @ found.points.T).max(axis=1).min() > 1 - 1e-12


def test_a_scheme_that_is_not_determined_is_refused():
    for form in ("x*y*z", "x^3*y^3 + z^6"):
        with pytest.raises(ValueError, match="do not determine a scheme"):
            apolar.gad(form)
    for form in ("x^2 + y^2", "x^3", "0*x^3 + 0*y^3"):
        with pytest.raises(ValueError, match="order 3 or more"):
            apolar.gad(form)


@pytest.mark.parametrize(("order", "rank"), [(3, 4), (4, 5), (5, 6), (6, 7)])
def test_forms_on_tangents_have_the_rank_of_monomials(order, rank):
    # l^(d-1) m and another power: the sum of coprime monomials in other variables.
    rng = np.random.default_rng(order)
    a, b, c = (SymmetricTensor(1, 3, form) for form in rng.standard_normal((3, 3)))
    power = a
    for _ in range(order - 2):
        power = power * a
    last = SymmetricTensor.from_waring([1.0], c.coefficients[None], order)
    for field in ("auto", "real"):
        waring = apolar.decompose(power * b + last, random_state=0, field=field)
        assert (waring.rank, waring.status) == (rank, Status.EXACT)
        assert not waring.is_complex
        assert "share no variable" in waring.rank_source


def test_the_interpolation_degree():
    rng = np.random.default_rng(0)
    # Generic points: the least degree with as many monomials.
    assert apolar.interpolation_degree(rng.standard_normal((10, 4))) == 2
    assert apolar.interpolation_degree(rng.standard_normal((11, 4)) + 1j) == 3
    assert apolar.interpolation_degree([[1.0, 2.0]]) == 0
    # Points of a conic have as many independent powers of degree k as 2 k + 1.
    conic = np.arange(-3, 4)[:, None] ** np.arange(3)
    assert apolar.interpolation_degree(conic) == 3
    for points, message in (([[1, 2], [2, 4]], "same"), ([[0, 0], [1, 1]], "zero"), ([1, 2], "shape")):
        with pytest.raises(ValueError, match=message):
            apolar.interpolation_degree(points)


def test_small_variables_are_variables():
    # Summands have all variables of a form but those that are rounding: a small one is among them.
    tensor = SymmetricTensor.from_polynomial("x^2*y + y^2*z").change_variables(np.diag([1.0, 1.0, 1e-8]))
    [(form, variables)] = direct_summands(tensor, np.random.default_rng(0), is_real=False)
    assert form.dim == 3
    difference = form.change_variables(variables) - tensor
    assert difference.norm() < 1e-14 * tensor.norm()


def test_summands_are_as_accurate_as_the_form():
    # Eigenvalues of the centre come close for some draws, and powers of its projections are large.
    form = SymmetricTensor.from_polynomial("x^6*y + z^4*w^3")
    change = [[2, -2, -3, -1], [-1, 2, 0, -3], [-1, 1, 2, 2], [3, -2, 3, -3]]
    tensor = form.change_variables(change)
    for seed in range(20):
        summands = direct_summands(tensor, np.random.default_rng(seed), is_real=True)
        assert len(summands) == 2
        first, second = (part.change_variables(variables) for part, variables in summands)
        assert (first + second - tensor).norm() < 1e-12 * tensor.norm()
