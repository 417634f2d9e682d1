"""The compiled kernels compute what NumPy does, of rows of every shape, layout and dtype."""

import numpy as np
import pytest

from apolar._core import compiled
from apolar._core.compiled import FULL, SPHERICAL, RowMap
from kernel_sums import (
    KINDS,
    TARGETS,
    assert_within,
    expected,
    features,
    mapped,
    needs_kernels,
    random_natural,
    use_for_a_test,
)

pytestmark = needs_kernels

# Rows, columns, components, mixtures; lengths around those of vectors, blocks and parts, and no rows at all;
# numbers of columns around those of vectors and tiles.
SHAPES = [
    *[(0, 3, 3, 1), (1, 1, 1, 1), (1, 33, 5, 2), (2, 2, 2, 1), (7, 3, 3, 3), (127, 7, 5, 1), (128, 8, 2, 2)],
    *[(129, 9, 1, 3), (255, 16, 5, 1), (256, 17, 4, 1), (257, 33, 3, 1), (257, 2, 300, 1), (4095, 4, 5, 1)],
    *[(4097, 5, 2, 2)],
]
ANSWERS = ("logits", "probabilities", "labels", "densities", "sums")
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(params=TARGETS)
def extension(request):
    yield from use_for_a_test(request.param)


def problem(n_rows, n_columns, n_components=3, kind=FULL, n_mixtures=1, seed=0):
    """Return rows, weights, their map, and natural parameters, shape (n_mixtures, n_components, n_stats)."""
    rng = np.random.default_rng([seed, n_rows, n_columns, n_components, kind])
    values = rng.standard_normal((n_rows, n_columns)) * 2 + 5
    row_map = RowMap.of(np.full(n_columns, 4.5), rng.uniform(0.3, 0.7, n_columns))
    natural = [random_natural(rng, n_components, n_columns, kind) for _ in range(n_mixtures)]
    return values, rng.uniform(0, 2, n_rows), row_map, np.stack(natural)


# --- every function, of every shape -------------------------------------------------------------------


@pytest.mark.usefixtures("extension")
@each_kind
@each_shape
def test_the_e_step_is_that_of_numpy(shape, kind):
    n_rows, n_columns, n_components, n_mixtures = shape
    values, weights, row_map, natural = problem(n_rows, n_columns, n_components, kind, n_mixtures)
    cases = [(None, row_map, natural), (weights, row_map, natural)]
    if n_columns == 7:
        # Rows mapped by a matrix to fewer or more columns.
        rng = np.random.default_rng(0)
        for n_outputs in (1, 3, 5, 8, 17):
            matrix = RowMap.of(row_map.centre, rng.standard_normal((7, n_outputs)) / 3)
            cases.append((weights, matrix, random_natural(rng, 4, n_outputs, kind)[None]))
    for given, row_map, natural in cases:
        stats, log_likelihood = compiled.e_step(values, given, row_map, natural, kind)
        for mixture, by_mixture in enumerate(stats.reshape(natural.shape)):
            of_one = expected(values, given, row_map, natural[mixture], kind)
            assert_within(by_mixture, of_one.stats, of_one.scale)
            scale = n_rows + np.abs(of_one.density).sum()
            assert_within(log_likelihood[mixture], of_one.sums[0], scale)


@pytest.mark.usefixtures("extension")
@each_kind
@each_shape
def test_results_of_rows_are_those_of_numpy(shape, kind):
    n_rows, n_columns, n_components, _ = shape
    values, weights, row_map, (natural,) = problem(n_rows, n_columns, n_components, kind)
    of_numpy = expected(values, weights, row_map, natural, kind)
    rows = values, weights, row_map, natural, kind
    logits, responsibilities, labels, densities, sums = (
        compiled.row_answers(*rows, each) for each in ANSWERS
    )
    # A logit is a sum of some tens of terms of size one: so is its error of rounding units.
    np.testing.assert_allclose(logits, of_numpy.logits, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(densities, of_numpy.density, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(responsibilities.T, of_numpy.responsibilities, rtol=1e-12)
    # Where two are equal to rounding, either is right.
    chosen = np.take_along_axis(of_numpy.responsibilities, labels[None], axis=0)[0]
    np.testing.assert_allclose(chosen, of_numpy.responsibilities.max(axis=0), rtol=1e-12)
    scale = n_rows + np.abs(of_numpy.density).sum()
    assert_within(sums, of_numpy.sums, scale)


@pytest.mark.usefixtures("extension")
@each_kind
@each_shape
def test_sums_under_responsibilities_are_those_of_numpy(shape, kind):
    n_rows, n_columns, n_components, _ = shape
    values, weights, row_map, _ = problem(n_rows, n_columns, n_components, kind)
    row_stats = features(mapped(values, row_map), kind)
    given = np.random.default_rng(1).uniform(-1, 1, (n_rows, 2 * n_components))
    for responsibilities in (given[:, :n_components].T.copy(), given[::-1, ::2].T):
        for row_weights in (None, weights):
            weighted = responsibilities if row_weights is None else responsibilities * row_weights
            stats = compiled.stats_under(values, row_weights, row_map, responsibilities, kind)
            assert_within(stats, weighted @ row_stats.T, np.abs(weighted) @ np.abs(row_stats.T))
    stats = compiled.stats_under(values, weights, row_map, None, kind)
    assert_within(stats[0], row_stats @ weights, np.abs(row_stats) @ weights)


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("n_outputs", [None, 1, 2, 3, 8])
@pytest.mark.parametrize("shape", [(1, 1), (257, 2), (130, 7), (300, 16)], ids=str)
def test_third_sums_are_those_of_numpy(shape, n_outputs):
    values, weights, row_map, _ = problem(*shape)
    if n_outputs is not None:
        matrix = np.random.default_rng(2).standard_normal((shape[1], n_outputs))
        row_map = RowMap.of(row_map.centre, matrix)
    x = (values - row_map.centre) * row_map.scale
    z = mapped(values, row_map)
    places = [
        (i, j, k) for i in range(z.shape[1]) for j in range(i, z.shape[1]) for k in range(j, z.shape[1])
    ]
    products = np.stack([z[:, i] * z[:, j] * z[:, k] for i, j, k in places])
    for given in (None, weights):
        by_row = np.ones(len(z)) if given is None else given
        square_times, third = compiled.third_sums(values, given, row_map)
        lengths = np.sum(x**2, axis=1)
        assert_within(square_times, (by_row * lengths) @ x, (by_row * lengths) @ np.abs(x))
        assert_within(third, products @ by_row, np.abs(products) @ by_row)


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "some columns of a wider table": lambda x: np.hstack([x, x, x])[:, x.shape[1] : 2 * x.shape[1]],
    "reversed rows, every third column": lambda x: np.repeat(x, 3, axis=1)[::-1].copy()[::-1, ::3],
    "both reversed, Fortran": lambda x: np.asfortranarray(x[::-1, ::-1])[::-1, ::-1],
    "one row for all": lambda x: np.broadcast_to(x[:1], x.shape),
}


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_read_as_they_are_stored(layout, dtype):
    for n_columns in (1, 5, 8, 19):
        values, weights, row_map, natural = problem(300, n_columns)
        stored = LAYOUTS[layout](values.astype(dtype))
        values = stored.copy()
        stored = stored.view()
        stored.flags.writeable = False
        assert compiled.can_read(stored)
        # Weights too have any stride.
        strided = np.repeat(weights[::-1], 2)[::-2]
        stats, log_likelihood = compiled.e_step(stored, strided, row_map, natural, FULL)
        of_numpy = expected(values, weights, row_map, natural[0], FULL)
        assert_within(stats, of_numpy.stats, of_numpy.scale)
        assert_within(log_likelihood, of_numpy.sums[:1], 300 + np.abs(of_numpy.density).sum())


@pytest.mark.usefixtures("extension")
def test_exponentials_and_logarithms_have_all_digits():
    # Two components, of logits 0 and z: the odds are exp(z), the density log(1 + exp(z)).
    z = np.concatenate([np.linspace(-99.9, 0, 5001), -np.geomspace(1e-17, 1, 500)])
    natural = np.array([[0.0, 0, 0], [0, 1, 0]])
    rows = z[:, None], None, RowMap.of(np.zeros(1)), natural, SPHERICAL
    first, second = compiled.row_answers(*rows, "probabilities").T
    # A unit of rounding each, 1.1e-16: of two quotients, the reduction of the argument, the polynomial.
    np.testing.assert_allclose(second / first, np.exp(z), rtol=7e-16)
    # One of 1 + exp(z), which counts in full where the logarithm is small; then of the logarithm.
    densities = compiled.row_answers(*rows, "densities")
    np.testing.assert_allclose(densities, np.log1p(np.exp(z)), rtol=4e-16, atol=1.2e-16)


@pytest.mark.usefixtures("extension")
def test_huge_logits_leave_one_component():
    natural = np.zeros((1, 3, 3))
    natural[0, :, 1] = [-1e300, 0.0, 1e300]
    values = np.array([[1.0], [-1.0], [0.0], [1e-300]])
    stats, log_likelihood = compiled.e_step(values, None, RowMap.of(np.zeros(1)), natural, SPHERICAL)
    thirds = np.exp([-1.0, 0, 1]) / np.exp([-1.0, 0, 1]).sum()
    np.testing.assert_allclose(stats[:, 0], np.array([1.0, 0, 1]) + 1 / 3 + thirds, rtol=1e-15, atol=1e-40)
    assert log_likelihood[0] == pytest.approx(2e300, rel=1e-15)
    labels = compiled.row_answers(values, None, RowMap.of(np.zeros(1)), natural[0], SPHERICAL, "labels")
    assert labels.tolist() == [2, 0, 0, 2]


@pytest.mark.usefixtures("extension")
@each_kind
def test_a_tie_of_hard_assignment_goes_to_the_first(kind):
    values, weights, row_map, _ = problem(500, 4)
    one = random_natural(np.random.default_rng(3), 1, 4, kind)
    one[:, 5:] = 0.0
    other = one - np.eye(1, one.shape[1])
    natural = np.concatenate([other, one, one, other, one])
    stats, _ = compiled.e_step(values, weights, row_map, natural[None], kind, is_hard=True, is_linear=True)
    assert np.flatnonzero(stats.any(axis=1)).tolist() == [1]
    assert stats[1, 0] == pytest.approx(weights.sum(), rel=1e-14)


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_components", [1, 2, 7])
def test_hard_assignment_is_that_of_numpy(kind, n_components):
    values, weights, row_map, (natural,) = problem(700, 5, n_components, kind)
    natural[:, 6:] = 0.0
    of_numpy = expected(values, weights, row_map, natural, kind, is_hard=True)
    for is_linear in (False, True):
        stats, _ = compiled.e_step(
            values, weights, row_map, natural[None], kind, is_hard=True, is_linear=is_linear
        )
        assert_within(stats, of_numpy.stats, of_numpy.scale)
