"""The noise component in EM, for every family; and rows of low density, from which it starts."""

import json

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from apolar.data import open_rows
from apolar.em.low_density import with_noise_component
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.run import Stop, evidence_of, run
from apolar.mixture import Prior
from apolar.mixture.families import family
from apolar.mixture.parameters import N_NOISE_PARAMETERS, NoiseBox, noise_weights
from em_steps import plain_em, problem_of, rows_of
from mixtures import each_family
from references import FOLDER, table

REFERENCE = json.loads((FOLDER / "mclust" / "noise_iris.json").read_text())


def moved_iris():
    """Return iris with every tenth row moved away, and the classes, -1 for those rows."""
    X, number = table("iris.csv"), np.arange(150)
    moved = number % 10 == 3
    X[moved, 0] += np.where(number[moved] % 20 == 3, -4, 4)
    X[moved, 2] += np.where(number[moved] % 30 == 3, 3, -3)
    return X, np.where(moved, -1, number // 50)


@each_family
def test_the_e_step_is_that_of_the_textbook(name):
    data, parameters = problem_of(name, "noise")
    in_units = data.whitening.inverse_transform_parameters(parameters, data.noise)
    X, _, _ = rows_of("noise")
    matrices = data.family.matrices(in_units.covariances, 2, 3)
    logits = [
        np.log(w) + multivariate_normal(mean, S).logpdf(X)
        for w, mean, S in zip(in_units.weights, in_units.means, matrices, strict=True)
    ]
    logits.append(np.full(len(X), np.log(1 - in_units.weights.sum()) - in_units.noise.log_volume))
    density = logsumexp(logits, axis=0)
    responsibilities = np.exp(np.array(logits) - density)
    stats, likelihood = data.e_step(parameters[None])
    offset = data.whitening.log_det
    assert likelihood[0] + offset * data.weight == pytest.approx(density.sum(), rel=1e-10)
    np.testing.assert_allclose(stats[0].counts, responsibilities[:2].sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(
        data.whitening.inverse_transform(stats[0].first / stats[0].counts[:, None]),
        responsibilities[:2] @ X / responsibilities[:2].sum(axis=1)[:, None],
        rtol=1e-8,
    )
    ours, log_densities = data.row_responsibilities(parameters)
    np.testing.assert_allclose(ours, responsibilities[:2], atol=1e-10)
    np.testing.assert_allclose(log_densities + offset, density, rtol=1e-9)
    # The M-step gives the noise the rows that the components leave.
    updated = data.m_step(stats[0], None)
    assert noise_weights(updated.weights) == pytest.approx(responsibilities[2].mean(), rel=1e-9)


@each_family
def test_evidence_is_below_the_likelihood_and_prefers_noise_where_there_is_some(name):
    data, start = problem_of(name, "noise")
    with_noise = run(data, [Fit(start, "")], Prior(), Stop(300, gain=1e-3))[0]
    evidence = evidence_of(data, with_noise)
    assert evidence < with_noise.log_likelihood
    X, labels, _ = rows_of("noise")
    without = Problem(open_rows(X), family(name))
    first = without.family.m_step(without.hard_stats(np.maximum(labels, 0), 2), Prior())
    other = run(without, [Fit(first, "")], Prior(), Stop(300, gain=1e-3))[0]
    offsets = [rows.whitening.log_det * rows.weight for rows in (data, without)]
    assert evidence + offsets[0] > evidence_of(without, other) + offsets[1] + 10


@pytest.mark.parametrize("code", REFERENCE["models"])
def test_iterations_are_those_of_mclust(code):
    X, labels = moved_iris()
    expected = REFERENCE["models"][code]
    data = with_noise_component(Problem(open_rows(X), family(code)), 0.1)
    # Ours is along the principal axes of standardised columns, as units must not matter.
    assert data.noise.log_volume == pytest.approx(np.log(REFERENCE["hypvol"]), abs=0.2)
    box = NoiseBox(np.zeros(4), np.full(4, REFERENCE["hypvol"] ** 0.25))
    data = data.replace(noise=box)
    start = data.m_step(data.soft_stats(labels[None] == np.arange(3)[:, None]), None)
    fit = plain_em(data, Fit(start, ""), None, relative_tol=0.0, max_iter=5)
    mixture = data.whitening.inverse_transform_parameters(fit.parameters, data.noise)
    # The file has thirteen digits.
    assert fit.log_likelihood + data.whitening.log_det * 150 == pytest.approx(expected["loglik"], rel=1e-9)
    np.testing.assert_allclose(mixture.weights, expected["pro"][:3], rtol=1e-8)
    assert noise_weights(mixture.weights) == pytest.approx(expected["pro"][3], rel=1e-8)
    np.testing.assert_allclose(mixture.means, expected["mean"], rtol=1e-8)
    matrices = data.family.matrices(mixture.covariances, 3, 4)
    np.testing.assert_allclose(matrices, expected["sigma"], rtol=1e-7, atol=1e-9)
    n_parameters = data.family.n_parameters(3, 4) + N_NOISE_PARAMETERS
    assert n_parameters == expected["n_parameters"]
