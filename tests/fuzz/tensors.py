"""Hostile tensors: whatever is passed, a decomposition that is what it says, or an error in words."""

import math

import numpy as np

import apolar
from apolar.decomposition import ranks
from apolar.tensor import as_tensor, n_monomials
from fuzz.outcomes import REFUSALS, single_line

# Coefficients of a case, at most: it is to take less than 20 seconds. Most are smaller.
MAX_COEFFICIENTS, USUAL_COEFFICIENTS = 2000, 300
SCALES = [1.0] * 8 + [1e-320, 1e-308, 1e-200, 1e-150, 1e-30, 1e30, 1e150, 1e223, 1e300, 1e306]
BAD_RANKS = [0, -1, 2.5, "3", True, None, 10**6, np.int64(2), float("nan"), [2]]


def run(rng):
    """Try one tensor; return what it was."""
    order, dim = _shape(rng)
    make = MAKERS[rng.integers(len(MAKERS))]
    options = _options(rng)
    described = f"order {order}, dim {dim},{make.__name__.replace('_', ' ')}, {options}"
    try:
        tensor = make(rng, order, dim)
        waring = apolar.decompose(tensor, **options)
    except REFUSALS as error:
        return f"{described}: {single_line(error)}"
    except ZeroDivisionError as error:
        raise AssertionError(f"{described}: {error!r}") from error
    _check(as_tensor(tensor), waring, described)
    return f"{described}: {waring.status.name}"


def _shape(rng):
    most = USUAL_COEFFICIENTS if rng.random() < 0.95 else MAX_COEFFICIENTS
    while True:
        order, dim = int(rng.integers(1, 8)), int(rng.integers(1, 8))
        if n_monomials(dim, order) <= most:
            return order, dim


# --- tensors -----------------------------------------------------------------------------------


def _numbers(rng, *shape):
    """Return real or complex numbers of one scale."""
    values = rng.standard_normal(shape)
    if rng.random() < 0.3:
        values = values + 1j * rng.standard_normal(shape)
    return values * rng.choice(SCALES)


def _few_terms(rng, order, dim):
    rank = int(rng.integers(1, max(2, ranks.generic_rank(dim, order))))
    points = rng.standard_normal((rank, dim))
    if rank > 1 and rng.random() < 0.3:
        # Points that nearly coincide.
        points[1] = points[0] + rng.choice([0.0, 1e-15, 1e-10, 1e-5, 1e-2]) * points[1]
    if rng.random() < 0.3:
        points = points + 1j * rng.standard_normal((rank, dim))
    return apolar.SymmetricTensor.from_waring(_numbers(rng, rank), points, order)


def _orthogonal_points(rng, order, dim):
    return apolar.SymmetricTensor.from_waring(rng.standard_normal(dim), np.eye(dim), order)


def _noise(rng, order, dim):
    return apolar.SymmetricTensor(order, dim, _numbers(rng, n_monomials(dim, order)))


def _nearly_real(rng, order, dim):
    values = rng.standard_normal(n_monomials(dim, order))
    return apolar.SymmetricTensor(order, dim, values * (1 + 1e-16j) * rng.choice(SCALES))


def _sparse(rng, order, dim):
    values = _numbers(rng, n_monomials(dim, order))
    values[rng.random(len(values)) < rng.choice([0.5, 0.9, 1.0])] = 0
    return apolar.SymmetricTensor(order, dim, values)


def _integers(rng, order, dim):
    values = rng.integers(-3, 4, n_monomials(dim, order))
    return apolar.SymmetricTensor(order, dim, values.astype(rng.choice(["int8", "int64", "float32", "bool"])))


def _numbers_of_all_sizes(rng, order, dim):
    n = n_monomials(dim, order)
    return apolar.SymmetricTensor(order, dim, rng.standard_normal(n) * 10.0 ** rng.integers(-320, 308, n))


def _not_finite(rng, order, dim):
    values = _numbers(rng, n_monomials(dim, order))
    values[rng.integers(len(values))] = rng.choice([np.nan, np.inf, -np.inf])
    return apolar.SymmetricTensor(order, dim, values)


def _wrong_shape(rng, order, dim):
    n = n_monomials(dim, order)
    return apolar.SymmetricTensor(
        order, dim, np.ones([(n + 1,), (n, 1), (), (0,), (n // 2,)][rng.integers(5)])
    )


def _dense(rng, order, dim):
    order, dim = (3, 2) if dim**order > 3000 else (order, dim)
    full = _noise(rng, order, dim).to_dense().copy()
    if rng.random() < 0.3:
        full.flat[rng.integers(full.size)] += rng.choice([1e-12, 1.0, 1e300])
    if rng.random() < 0.3:
        return apolar.SymmetricTensor.from_dense(full, symmetrize=bool(rng.integers(2)))
    return full.tolist() if rng.random() < 0.5 else full


NO_TENSORS = (
    [[1.0, 2.0], [3.0]], [[1, "a"], ["a", 2]], np.array([[1, None], [None, 2]], dtype=object),
    np.array([[10**400, 1], [1, 2]], dtype=object), np.array([[1, 2 + 1j], [2 + 1j, 3]], dtype=object),
    np.array([["x", "y"], ["y", "z"]]), np.array([], dtype=float), np.zeros((0, 0)), np.ones((2, 3)),
    np.float64(3.0), 3, None, object(), np.array([["2020-01-01"]], dtype="datetime64[D]"),
    np.full((2, 2), np.finfo(np.longdouble).max, dtype=np.longdouble),
    {(1, 2): 3.0, (0, 3): 1e308, (3, 0): 1e-308}, {(1, 2): float("nan")}, (), [], "", b"x^2",
)  # fmt: skip


def _no_tensor(rng, *_):
    return NO_TENSORS[rng.integers(len(NO_TENSORS))]


MAKERS = (
    *(_few_terms, _few_terms, _orthogonal_points, _noise, _nearly_real, _sparse, _integers),
    *(_numbers_of_all_sizes, _not_finite, _wrong_shape, _dense, _no_tensor),
)


# --- options, and what must hold -----------------------------------------------------------------


def _options(rng):
    ranks_tried = [None] * 5 + [int(rng.integers(1, 9))] * 4 + [BAD_RANKS[rng.integers(len(BAD_RANKS))]]
    ranks_tried += [ranks.tolerance(1e-3), ranks.gap()]
    options = {
        "random_state": int(rng.integers(100)),
        "max_iter": int(rng.choice([1, 20, 200])),
        "n_starts": int(rng.choice([1, 3, 3, 50])),
        "rank": ranks_tried[rng.integers(len(ranks_tried))],
        "method": str(rng.choice(["auto", "auto", "pencil", "spm", "spm", "other"])),
        "field": str(rng.choice(["auto", "auto", "real", "complex"])),
        "refine": bool(rng.random() < 0.8),
    }
    return options | ({"row_degree": int(rng.integers(-1, 8))} if rng.random() < 0.1 else {})


def _check(form, waring, described):
    """Check that a decomposition is what it says of itself."""
    assert np.all(np.isfinite(waring.weights)), described
    assert np.all(np.isfinite(waring.points)), described
    assert math.isfinite(waring.residual), (described, waring)
    assert waring.points.shape == (waring.rank, form.dim), described
    assert waring.message, described
    if waring.rank == 0:
        assert form.norm() == 0, described
        return
    norms = np.linalg.norm(waring.points, axis=1)
    assert np.all(np.abs(norms - 1) < 1e-9), (described, norms)
    exponent = math.frexp(float(np.abs(form.coefficients).max()))[1]
    target = apolar.SymmetricTensor(form.order, form.dim, _scaled(form.coefficients, -exponent))
    weights = _scaled(waring.weights, -exponent)
    rebuilt = apolar.SymmetricTensor.from_waring(weights, waring.points, form.order)
    residual = (target - rebuilt).norm() / target.norm()
    # Terms that cancel are known to the rounding of the largest.
    rounding = 1e-11 * (1 + np.abs(weights).max() / target.norm())
    assert abs(residual - waring.residual) <= rounding + 1e-6 * residual, (described, residual, waring)
    assert repr(waring), described
    assert waring.to_string(), described


def _scaled(values, exponent):
    if np.iscomplexobj(values):
        return np.ldexp(values.real, exponent) + 1j * np.ldexp(values.imag, exponent)
    return np.ldexp(values, exponent)
