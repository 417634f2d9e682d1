"""Laws that hold for every tensor: hypothesis looks for one that breaks them."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import apolar
from problems import largest_error

shapes = st.tuples(st.integers(1, 4), st.integers(1, 5))
seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=60, deadline=None, derandomize=True)


def tensor_of(shape, rng, *, is_complex=False):
    dim, order = shape
    n = len(apolar.SymmetricTensor.zeros(order, dim).coefficients)
    values = rng.standard_normal(n) + is_complex * 1j * rng.standard_normal(n)
    return apolar.SymmetricTensor(order, dim, values)


def unitary(dim, rng, *, is_complex=False):
    return np.linalg.qr(rng.standard_normal((dim, dim)) + is_complex * 1j * rng.standard_normal((dim, dim)))[
        0
    ]


@laws
@given(shapes, seeds, st.booleans())
def test_the_apolar_product_is_invariant_under_unitary_maps(shape, seed, is_complex):
    rng = np.random.default_rng(seed)
    p, q = tensor_of(shape, rng, is_complex=is_complex), tensor_of(shape, rng, is_complex=is_complex)
    u = unitary(shape[0], rng, is_complex=is_complex)
    moved = apolar.apolar_product(p.change_variables(u), q.change_variables(u))
    assert moved == pytest.approx(apolar.apolar_product(p, q), abs=1e-10 * p.norm() * q.norm())


@laws
@given(shapes, seeds, st.booleans())
def test_the_product_with_a_power_evaluates(shape, seed, is_complex):
    rng = np.random.default_rng(seed)
    p = tensor_of(shape, rng, is_complex=is_complex)
    v = rng.standard_normal(shape[0]) + is_complex * 1j * rng.standard_normal(shape[0])
    power = apolar.SymmetricTensor.from_waring([1.0], [v], shape[1])
    scale = p.norm() * power.norm()
    assert apolar.apolar_product(power, p) == pytest.approx(p(v.conj()), abs=1e-12 * scale)


@laws
@given(shapes, seeds)
def test_multiplying_by_a_variable_is_adjoint_to_deriving(shape, seed):
    dim, order = shape
    rng = np.random.default_rng(seed)
    p, q = tensor_of((dim, order + 1), rng), tensor_of((dim, order), rng)
    for i in range(dim):
        unit = np.eye(dim)[i]
        derived = p.contract(unit)  # the derivative by x_i, divided by the order
        variable = apolar.SymmetricTensor(1, dim, unit)
        expected = apolar.apolar_product(derived, q)
        assert apolar.apolar_product(p, variable * q) == pytest.approx(expected, abs=1e-10)


@laws
@given(shapes, seeds)
def test_euler_and_the_string_round_trip(shape, seed):
    rng = np.random.default_rng(seed)
    p = tensor_of(shape, rng)
    x = rng.standard_normal(shape[0])
    assert p.gradient(x) @ x == pytest.approx(shape[1] * p(x), abs=1e-9 * (1 + np.linalg.norm(x)) ** 5)
    names = [f"x{i}" for i in range(shape[0])]
    text = p.to_string(names, precision=17)
    again = apolar.SymmetricTensor.from_polynomial(text, variables=names)
    np.testing.assert_allclose(again.coefficients, p.coefficients, rtol=1e-14)


# (dim, order, largest identifiable rank)
decomposable = st.sampled_from([(2, 3, 2), (3, 3, 3), (5, 3, 4), (3, 4, 3), (3, 5, 5), (4, 4, 4)])


def spread_terms(dim, rank, rng):
    """Return terms that lie apart: the law is about algebra, not about conditioning."""
    points = rng.standard_normal((rank, dim))
    points /= np.linalg.norm(points, axis=1)[:, None]
    inner = np.abs(points @ points.T) - np.eye(rank)
    assume(inner.max(initial=0) < 0.95)
    weights = rng.uniform(0.5, 2, rank) * rng.choice([-1, 1], rank)
    assume(apolar.Waring(weights, points, 3).condition < 1e3)
    return weights, points


@laws
@given(decomposable, st.data(), seeds)
def test_waring_round_trip(shape, data, seed):
    dim, order, limit = shape
    rank = data.draw(st.integers(1, limit))
    weights, points = spread_terms(dim, rank, np.random.default_rng(seed))
    tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
    waring = apolar.decompose(tensor, random_state=0)
    assert waring.status is apolar.Status.EXACT
    assert largest_error(weights, points, waring) < 1e-6


@laws
@given(decomposable, seeds)
def test_decomposition_turns_with_the_coordinates(shape, seed):
    dim, order, rank = shape
    rng = np.random.default_rng(seed)
    weights, points = spread_terms(dim, rank, rng)
    tensor = apolar.SymmetricTensor.from_waring(weights, points, order)
    u = unitary(dim, rng)
    waring = apolar.decompose(tensor, random_state=0)
    turned = apolar.decompose(tensor.change_variables(u), random_state=0)
    # P(U y) has the points U^t xi.
    assert largest_error(waring.weights, waring.points @ u, turned) < 1e-6
