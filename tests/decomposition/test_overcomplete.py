"""More terms than structured methods find: penalised starts, and what they say of an unknown rank."""

import numpy as np
import pytest

import apolar
from apolar.decomposition.least_squares import Objective, TermsModel


def sum_of_powers(dim, order, rank, seed):
    rng = np.random.default_rng([dim, order, rank, seed])
    points = rng.standard_normal((rank, dim)) / np.sqrt(dim)
    return apolar.SymmetricTensor.from_waring(np.ones(rank), points, order), points


@pytest.mark.parametrize(("dim", "rank"), [(7, 11), (8, 14), (10, 20)])
def test_overcomplete_cubics_are_exact(dim, rank):
    tensor, points = sum_of_powers(dim, 3, rank, 0)
    waring = apolar.decompose(tensor, rank=rank, random_state=0)
    assert waring.status.name == "EXACT"
    truth = apolar.Waring(np.ones(rank), points, 3)
    # The terms are unique; a residual of 1e-10 times a condition in the thousands.
    assert apolar.decomposition.component_errors(truth, waring).max() < 1e-5


@pytest.mark.parametrize(("order", "penalty"), [(3, 0.0), (3, 0.1), (4, 0.1)])
def test_the_gradient_and_the_matrix_are_those_of_the_cost(order, penalty):
    tensor, points = sum_of_powers(4, order, 5, 1)
    rng = np.random.default_rng(2)
    vectors, direction = points + 0.3 * rng.standard_normal((2, 5, 4))
    signs = np.array([1.0, -1.0, 1.0, 1.0, -1.0]) if order == 4 else np.ones(5)

    def model(step):
        objective = Objective(tensor, signs, tensor.norm(), penalty)
        return TermsModel(objective, vectors + step * direction)

    slope = (model(1e-5).cost - model(-1e-5).cost) / 2e-5
    # Central differences: an error of step^2 times a third derivative.
    assert np.isclose(np.sum(model(0).gradient * direction), slope, rtol=1e-6)
    step = model(0).step(1e-3).ravel()
    ridge = 1e-3 * np.repeat(model(0).scales, 4)
    np.testing.assert_allclose(model(0).matrix @ step + ridge * step, -model(0).gradient.ravel(), atol=1e-10)


@pytest.mark.parametrize(("dim", "order", "rank"), [(5, 3, 6), (4, 5, 12)])
def test_a_rank_below_the_generic_one_is_not_taken_for_noise(dim, order, rank):
    rng = np.random.default_rng([dim, order, rank])
    points = rng.standard_normal((rank, dim))
    tensor = apolar.SymmetricTensor.from_waring(rng.choice([-1.0, 1.0], rank), points, order)
    waring = apolar.decompose(tensor, random_state=1)
    assert (waring.rank, waring.status.name) == (rank, "EXACT")


def test_what_is_taken_for_noise_is_said():
    tensor = apolar.SymmetricTensor.from_waring([1.0, 1.0], [[1.0, 0.2, 0.0], [0.0, 1.0, 0.3]], 5)
    rng = np.random.default_rng(4)
    noise = 1e-4 * rng.standard_normal(len(tensor.coefficients))
    noisy = apolar.SymmetricTensor(5, 3, tensor.coefficients + noise)
    waring = apolar.decompose(noisy, random_state=0)
    assert waring.rank == 2
    assert "taken for noise" in waring.rank_source
