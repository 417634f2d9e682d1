"""The way of EM, read back from the axes."""

import warnings

import numpy as np
import pytest

import apolar
from apolar.plots import convergence
from plots.reading import blank, check_texts, legend, lines, note

X = np.random.default_rng(0).normal(size=(200, 2)) * [1, 2] + 2 * np.repeat([[0], [1]], 100, axis=0)


@pytest.fixture(scope="module")
def model():
    return apolar.GaussianMixture(2, init_params="random", random_state=0).fit(X)


def test_distances_are_those_to_the_best_value(model):
    axes = convergence(model)
    values = np.array(model.lower_bounds_)
    left = values.max() - values
    drawn = lines(axes)["distance"]
    np.testing.assert_array_equal(drawn.get_xdata(), np.arange(1, len(values) + 1))
    np.testing.assert_array_equal(drawn.get_ydata(), np.where(left > 0, left, np.nan))
    assert axes.get_yscale() == "log"
    # What is zero has no place on the axis, and stands at its bottom.
    zero = lines(axes)["best"]
    np.testing.assert_array_equal(zero.get_xdata(), 1 + np.flatnonzero(left == 0))
    assert set(zero.get_ydata()) < {value for value in zero.get_ydata() if value < left[left > 0].min()} | {0}
    assert axes.get_xlabel() == "passes over the data"
    assert axes.get_ylabel() == "distance to the best value, per row"
    check_texts(axes)
    # The start, the end and the tolerance.
    assert axes.get_title() == 'EM from the start "random": converged'
    assert note(axes).startswith(model.message_)
    assert f"after {model.n_iter_} passes." in note(axes)
    assert legend(axes) == ["tolerance: 5e-06 per row", "after a pass", "at the best value: 0"]
    (tolerance,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(tolerance.get_ydata(), model.tol / 200)


def test_a_run_that_did_not_converge():
    model = apolar.GaussianMixture(2, init_params="random", random_state=0, max_iter=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    axes = convergence(model, ax=blank())
    assert axes.get_title() == 'EM from the start "random": did not converge'
    assert "increase max_iter" in note(axes)
    assert note(axes).endswith("The optimum is higher than the best value so far.")
    assert legend(axes) == ["after a pass", "at the best value: 0"]


@pytest.mark.parametrize("values", [[-3.0, -2.0, -1.5], (-3, -2, -1), np.array([1.0, 3.0, 2.0])])
def test_a_sequence_of_values(values):
    axes = convergence(values, ax=blank())
    array = np.array(values)
    left = array.max() - array
    np.testing.assert_array_equal(lines(axes)["distance"].get_ydata(), np.where(left > 0, left, np.nan))
    assert axes.get_title() == "The values of 3 passes"
    assert axes.get_ylabel() == "distance to the best value"
    assert note(axes).startswith(f"The best value is {array.max():.6g}, after {array.argmax() + 1} passes.")


def test_a_single_pass_has_nothing_to_gain():
    axes = convergence([2.0])
    assert axes.get_yscale() == "linear"
    assert legend(axes) == ["at the best value: 0"]
    assert lines(axes)["best"].get_xydata().tolist() == [[1, 0]]
    assert axes.get_title() == "The values of 1 pass"
    check_texts(axes)


def test_a_stream_shows_its_values():
    model = apolar.GaussianMixture(2, init_params="kmeans", random_state=0)
    for part in np.array_split(X[np.random.default_rng(1).permutation(200)], 3):
        model.partial_fit(part)
    axes = convergence(model)
    np.testing.assert_array_equal(lines(axes)["values"].get_ydata(), model.lower_bounds_)
    assert axes.get_yscale() == "linear"
    assert axes.get_title() == "A mixture that follows a stream"
    assert axes.get_xlabel() == "calls of partial_fit"
    check_texts(axes)
