"""The resolution of columns: what has one, and what has none."""

import numpy as np
import pytest

from apolar.data.resolution import resolution, rounding_variances

N = 2000
Z = np.random.default_rng(0).standard_normal(N)
INTEGERS = np.round(3 * Z)
TENTHS = np.round(Z, 1)

WITH_ONE = {
    "integers": (INTEGERS, 1.0),
    "one decimal": (TENTHS, 0.1),
    # The same numbers by other operations: 0.1 * 3 is not 0.3.
    "computed": (0.1 * np.round(10 * Z) + 0.3, 0.1),
    "rounded in the last place": (TENTHS + np.where(np.arange(N) % 3, 0, 2e-16), 0.1),
    "zeros and ones": ((Z > 2.5).astype(float), 1.0),
    "even numbers": (2 * INTEGERS, 2.0),
    "a large offset": (1e9 + TENTHS, 0.1),
    "standardised": ((INTEGERS - 0.123) / 2.917, 1 / 2.917),
    "bytes as fractions": (np.round(255 / (1 + np.exp(-Z))) / 255, 1 / 255),
    "small units": (1e-200 * INTEGERS, 1e-200),
    # Sparse tails: from the smallest value to the next are many steps, and each is off by rounding.
    "one decimal in single precision": (np.float32(np.round(1000 + 100 * Z, 1)).astype(float), 0.1),
    "standardised in single precision": (np.float32((INTEGERS - 0.123) / 2.917).astype(float), 1 / 2.917),
    "large integers in single precision": (np.round(1000 * Z) + 16e6, 1.0),
}
WITHOUT = {
    "measurements": Z,
    "measurements in single precision": np.float32(Z).astype(float),
    "beyond the range of single precision": np.repeat(1e100 * Z[: N // 2], 2),
    "constant": np.ones(N),
    "numbers of rows": np.arange(N, dtype=float),
    "zeros and measurements": np.where(Z > 0, Z, 0.0),
    "each measurement twice": np.repeat(Z[: N // 2], 2),
    # Beside such an offset, doubles are too far apart to tell.
    "an offset without end": 1e17 + 100 * INTEGERS,
}


@pytest.mark.parametrize("name", WITH_ONE)
def test_columns_with_a_resolution(name):
    values, step = WITH_ONE[name]
    # In single precision, a step is known to the precision over the number of steps.
    assert resolution(values) == pytest.approx(step, rel=1e-6)


@pytest.mark.parametrize("name", WITHOUT)
def test_columns_without_a_resolution(name):
    assert resolution(WITHOUT[name]) == 0


def test_columns_are_looked_at_one_by_one():
    variances = rounding_variances(np.stack([Z, INTEGERS, np.ones(N), TENTHS], axis=1))
    np.testing.assert_allclose(variances, np.array([0, 1, 0, 0.01]) / 12, rtol=1e-9)


def test_a_weight_is_a_repeated_value():
    values, counts = np.unique(INTEGERS, return_counts=True)
    assert resolution(values) == 0
    assert resolution(values, counts.astype(float)) == 1
    # Measurements do not get a resolution by their weights, and rows of weight zero are not there.
    assert resolution(Z, np.full(N, 3.0)) == 0
    weights = np.r_[np.full(N, 1.0), 0.0]
    assert resolution(np.r_[INTEGERS, 0.5], weights) == 1
