"""Non-negative least squares."""

import numpy as np

from apolar.recovery.non_negative import non_negative_solution


def test_the_conditions_of_an_optimum_hold():
    rng = np.random.default_rng(0)
    for n_unknowns in (5, 200):
        matrix, wanted = rng.standard_normal((20, n_unknowns)), rng.standard_normal(20)
        solution = non_negative_solution(matrix, wanted)
        gradient = matrix.T @ (wanted - matrix @ solution)
        assert solution.min() >= 0
        # Nothing is to gain: where it is positive the gradient is zero, elsewhere it does not point inwards.
        assert np.abs(gradient[solution > 0]).max() < 1e-9
        assert gradient.max() < 1e-9


def test_a_sparse_solution_is_found():
    rng = np.random.default_rng(1)
    matrix = np.abs(rng.standard_normal((30, 500)))
    truth = np.zeros(500)
    truth[[3, 77, 412]] = 1, 2, 0.5
    solution = non_negative_solution(matrix, matrix @ truth)
    np.testing.assert_allclose(matrix @ solution, matrix @ truth, rtol=1e-8)
    assert not non_negative_solution(matrix, -matrix.sum(axis=1)).any()
