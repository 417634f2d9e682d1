"""Moments of a sketch in other units, and of some of its columns."""

import numpy as np
import pytest

from apolar import MomentSketch

# Sums of a thousand terms of size one, about the mean: rounding, and no cancellation.
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.exponential(size=(1000, 4)) * [1, 2, 0.5, 1] + [5, 0, 1, -2]


def assert_same(moments, expected):
    np.testing.assert_allclose(moments.mean, expected.mean, **CLOSE)
    np.testing.assert_allclose(moments.covariance, expected.covariance, **CLOSE)
    np.testing.assert_allclose(moments.third.coefficients, expected.third.coefficients, **CLOSE)
    np.testing.assert_allclose(moments.square_times, expected.square_times, **CLOSE)
    assert moments.n_rows == expected.n_rows


def test_other_units(rows):
    units = np.array([0.1, 2.0, 3.0, 7.0])
    moments = MomentSketch(4).update(rows).central().divided(units)
    assert_same(moments, MomentSketch(4).update(rows / units).central())


@pytest.mark.parametrize("columns", [[0, 2], [1, 2, 3], [3], [0, 1, 2, 3]])
def test_some_columns(rows, columns):
    moments = MomentSketch(4).update(rows).central().of_columns(columns)
    assert_same(moments, MomentSketch(len(columns)).update(rows[:, columns]).central())


def test_a_frame_refuses_both(rows):
    moments = MomentSketch(4, frame=np.eye(4)[:, :2]).update(rows).central()
    with pytest.raises(ValueError, match="changed in a sketch with a frame"):
        moments.divided(np.ones(4))
    with pytest.raises(ValueError, match="changed in a sketch with a frame"):
        moments.of_columns([0])
