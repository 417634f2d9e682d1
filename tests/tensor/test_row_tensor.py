"""Sums of powers of data rows that are not formed: every operation beside that of the formed tensor."""

import array_api_strict
import numpy as np
import pytest
from scipy import sparse

import apolar
from apolar.tensor import RowTensor

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 4))
SIGNED = RNG.standard_normal(50)
POINTS = RNG.standard_normal((3, 4))
# Sums of fifty terms of a few hundred at most: their rounding.
ROUNDING = 1e-11


KINDS = {
    "array": np.array,
    "Fortran": np.asfortranarray,
    "sparse": sparse.csr_array,
    "strict": lambda array: array_api_strict.asarray(array.copy()),
    "torch": lambda array: pytest.importorskip("torch").from_numpy(array.copy()),
    "dask": lambda array: pytest.importorskip("dask.array").from_array(array, chunks=(20, 4)),
    "list": np.ndarray.tolist,
}


def both(order, weights=SIGNED):
    of_rows = apolar.SymmetricTensor.from_rows(X, weights, order)
    return of_rows, apolar.SymmetricTensor.from_waring(weights, X, order)


# Each on a tensor of rows and on the same tensor formed; the last ones from order 3 on.
OPERATIONS = [
    lambda T: T(POINTS),
    lambda T: T(POINTS[0]),
    lambda T: T(POINTS[None]),
    lambda T: T(POINTS + 1j * POINTS[::-1]),
    lambda T: T.gradient(POINTS),
    lambda T: T.change_variables(np.eye(4)).coefficients,
    lambda T: T.change_variables(POINTS[:2].T).coefficients,
    lambda T: T.norm(),
    lambda T: T.contract_all(POINTS, 2),
    lambda T: T.contract(POINTS[0]).change_variables(np.eye(4)).coefficients,
    # With one slot filled, the weights of the rows have signs of their own.
    lambda T: T.contract(POINTS[0]).contract(POINTS[1])(POINTS),
    lambda T: T.contract(POINTS[0]).contract(POINTS[1]).norm(),
]


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_operations_are_those_of_the_formed_tensor(order):
    of_rows, formed = both(order)
    assert isinstance(of_rows, RowTensor)
    assert (of_rows.order, of_rows.dim, of_rows.n_rows) == (order, 4, 50)
    np.testing.assert_allclose(of_rows.to_tensor().coefficients, formed.coefficients, atol=ROUNDING)
    for operation in OPERATIONS if order > 2 else OPERATIONS[:8]:
        np.testing.assert_allclose(operation(of_rows), operation(formed), rtol=1e-9, atol=100 * ROUNDING)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_kind(kind):
    weights = np.abs(SIGNED)
    T = apolar.SymmetricTensor.from_rows(KINDS[kind](X), None if kind == "dask" else weights, 3)
    formed = apolar.SymmetricTensor.from_waring(np.full(50, 1 / 50) if kind == "dask" else weights, X, 3)
    for operation in OPERATIONS:
        np.testing.assert_allclose(operation(T), operation(formed), rtol=1e-9, atol=10 * ROUNDING)
    moment = T.second_moment(np.eye(4))
    np.testing.assert_allclose(moment, moment.T, atol=ROUNDING)
    assert T.share_outside(np.eye(4)[:, :2]) == pytest.approx(np.sqrt((X[:, 2:] ** 2).sum() / (X**2).sum()))


@pytest.mark.parametrize("weights", [SIGNED, np.abs(SIGNED), -np.abs(SIGNED)])
def test_the_norm_by_pairs_of_rows(weights, monkeypatch):
    # As if the coefficients were too many.
    monkeypatch.setattr(RowTensor, "_coefficient_work", np.inf)
    of_rows, formed = both(4, weights)
    assert of_rows.norm() == pytest.approx(formed.norm())
    assert of_rows.contract(POINTS[0]).norm() == pytest.approx(formed.contract(POINTS[0]).norm())


def test_what_takes_too_long_or_too_much_memory_is_refused():
    T = apolar.SymmetricTensor.from_rows(np.ones((40_000, 100)), None, 4)
    assert not T.norm_is_affordable
    with pytest.raises(ValueError, match="all pairs of rows"):
        T.norm()
    wide = apolar.SymmetricTensor.from_rows(np.ones((3, 5000)), None, 4)
    assert float(wide(np.ones(5000))) == pytest.approx(5000.0**4)
    with pytest.raises(MemoryError, match="order 4 in 5000 variables"):
        wide.to_tensor()


def test_a_sample_of_rows_estimates_products_without_bias():
    of_rows, formed = both(3)
    units, signs = of_rows.sampled_rows(20_000, np.random.default_rng(1))
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1)
    draws = of_rows.total_size * signs * formed(units)
    # Four standard errors.
    assert abs(draws.mean() - formed.norm() ** 2) <= 4 * draws.std() / np.sqrt(len(draws))


@pytest.mark.parametrize(
    ("rows", "weights", "order", "message"),
    [
        (X * 1e100, None, 4, "overflow"),
        (X * 1e-100, None, 4, "vanish"),
        (X, np.zeros(50), 3, "all zero"),
        (X, 1j * SIGNED, 3, "real numbers"),
        (X * np.nan, None, 3, "NaN"),
        (X, None, 0, "order"),
        (iter([X]), None, 3, "only once"),
    ],
)
def test_what_is_refused(rows, weights, order, message):
    with pytest.raises(ValueError, match=message):
        apolar.SymmetricTensor.from_rows(rows, weights, order)


def test_wrong_points_are_refused_and_rows_are_not_copied():
    T, _ = both(3)
    for call in (
        lambda: T(np.ones(3)),
        lambda: T.contract(X[0], 3),
        lambda: T.contract(X[:2]),
        lambda: T.contract(1j * X[0]),
        lambda: T.change_variables(np.ones((3, 2))),
    ):
        with pytest.raises(ValueError, match="variables|contract takes|matrix must"):
            call()

    # The rows are neither copied nor frozen.
    rows = X.copy()
    T = apolar.SymmetricTensor.from_rows(rows, None, 3)
    before = T(POINTS)
    rows *= 2
    np.testing.assert_allclose(T(POINTS), 8 * before)
