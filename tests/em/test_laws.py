"""Laws of EM, for every family and kind of problem: gradients, objectives that rise, sums over chunks."""

import numpy as np
import pytest

from apolar._core import compiled
from apolar.data import open_rows
from apolar.em.result import Fit, FitStatus
from apolar.em.run import Stop, run
from apolar.mixture import Prior
from em_steps import objective_of, plain_em, problem_of
from mixtures import FAMILY_NAMES, pairs

KINDS = ("plain", "weights", "noise", "rounding", "missing", "missing, rounding")
KINDS += ("own tails, weights", "common tails, missing", "given tails, noise")

# Three kinds for each family.
PROBLEMS = pairs(3 * FAMILY_NAMES, KINDS)


@pytest.mark.parametrize(("name", "kind"), PROBLEMS)
def test_the_gradient_is_that_of_the_objective(name, kind):
    data, start = problem_of(name, kind)
    prior, coordinates = data.prior_for(Prior()), data.coordinates(start)
    rng = np.random.default_rng(0)
    point, direction = rng.standard_normal((2, len(coordinates.origin)))

    def objective(length):
        return objective_of(data, coordinates.retract(0.3 * point + length * direction)[None], prior)

    moved = coordinates.retract(0.3 * point)
    gradient = coordinates.gradient(0.3 * point, moved, data.e_step(moved[None])[0][0], prior)
    # Central differences: their error is of the order of the square of the step, and of rounding over it.
    slope = (objective(1e-4) - objective(-1e-4)) / 2e-4
    assert gradient @ direction == pytest.approx(slope, rel=1e-5, abs=1e-4)
    along = coordinates.retract(0.3 * point + 0.7 * coordinates.null_direction)
    np.testing.assert_allclose(along.weights, moved.weights, rtol=1e-12)


@pytest.mark.parametrize(("problem", "has_prior"), pairs(PROBLEMS, [False, True, False, True, True]))
def test_the_objective_never_falls_and_runs_end_at_its_maximum(problem, has_prior):
    name, kind = problem
    data, start = problem_of(name, kind)
    prior = data.prior_for(Prior()) if has_prior else None
    plain = plain_em(data, Fit(start, ""), prior, relative_tol=0.0, max_iter=30)
    # Rounding of a sum over the rows.
    assert np.all(np.diff(plain.history) >= -1e-10 * abs(plain.objective))
    fit = run(data, [Fit(start, "")], prior, Stop(500, gain=1e-6))[0]
    assert np.all(np.diff(fit.history) >= 0)
    assert fit.status is FitStatus.CONVERGED
    assert fit.objective >= plain.objective - 1e-6
    if "missing" not in kind:
        # Plain EM from there gains nothing more. Missing values make it too slow to tell.
        assert plain_em(data, fit, prior, relative_tol=0.0, max_iter=50).objective < fit.objective + 0.01


@pytest.mark.parametrize(("name", "kind"), pairs(FAMILY_NAMES, [k for k in KINDS if "noise" not in k]))
def test_chunks_and_threads_change_nothing(name, kind, monkeypatch):
    data, start = problem_of(name, kind)
    (stats, likelihood), posteriors = data.e_step(start[None]), data.row_responsibilities(start)
    monkeypatch.setattr(compiled, "PART_ROWS", 64)
    monkeypatch.setattr(compiled, "WORK_PER_THREAD", 1)
    monkeypatch.setattr("apolar.em.problem.KEPT_NUMBERS", 0)
    monkeypatch.setattr("apolar.em.row_blocks.STATS_CHUNK_SIZE", 2**8)

    def in_chunks(X, weights):
        return open_rows(X, weights) if weights is not None else open_rows([X[:20], X[20:90], X[90:]])

    for opened in (in_chunks, open_rows):
        others = [problem_of(name, kind, opened, threads=threads)[0] for threads in (1, 3)]
        sums = [other.e_step(start[None]) for other in others]
        np.testing.assert_allclose(sums[0][0].array, stats.array, rtol=1e-9, atol=1e-9 * data.weight)
        assert sums[0][1] == pytest.approx(likelihood, rel=1e-11)
        for ours, expected in zip(others[0].row_responsibilities(start), posteriors, strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-11)
        # The order of the sums does not depend on the number of threads.
        np.testing.assert_array_equal(sums[0][0].array, sums[1][0].array)
