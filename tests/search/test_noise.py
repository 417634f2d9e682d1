"""Starts beside noise: components that are left to it, mergers, and the candidates of every start."""

import numpy as np
import pytest

from apolar.data import open_rows
from apolar.em.low_density import with_noise_component
from apolar.em.problem import Problem
from apolar.mixture import Prior
from apolar.mixture.families import family
from apolar.mixture.parameters import noise_weights
from apolar.search.candidates import start_candidates
from apolar.search.merging import MergeCosts
from apolar.search.proposals import dropped_stats
from apolar.search.starts import STARTS
from mixtures import FAMILY_NAMES, pairs

each_family = pytest.mark.parametrize("name", FAMILY_NAMES)


def data_of(name, n_noise=30):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [120, 90, 30])
    means = np.array([[0.0, 0, 0], [9, 0, 1], [0, 9, 3]])
    X = means[labels] + rng.standard_normal((240, 3))
    X = np.vstack([X, rng.uniform(X.min(axis=0) - 2, X.max(axis=0) + 2, (n_noise, 3))])
    data = with_noise_component(Problem(open_rows(X), family(name)), True)
    return data, np.append(labels, np.full(n_noise, -1))


def truth(data, labels):
    return data.m_step(data.soft_stats(labels[None] == np.arange(3)[:, None]), Prior())


@pytest.mark.parametrize(("name", "start"), pairs(FAMILY_NAMES, list(STARTS)))
def test_every_start_has_noise(name, start):
    data, _ = data_of(name)
    for candidate in start_candidates(start, data, 3, Prior(), np.random.default_rng(0)):
        assert candidate.parameters.is_finite
        assert candidate.parameters.weights.shape == (3,)
        assert noise_weights(candidate.parameters.weights) > 0.005


@each_family
def test_the_component_that_costs_least_is_left_to_the_noise(name):
    data, labels = data_of(name)
    parameters = truth(data, labels)
    smaller = dropped_stats(data, parameters, 2)
    assert len(smaller) == 2
    # The smallest cluster first: the noise gains its rows.
    assert smaller[0].counts.sum() == pytest.approx(data.weight * (parameters.weights[:2].sum()))
    likelihoods = []
    for k in range(3):
        kept = data.m_step(data.soft_stats(labels[None] == np.delete(np.arange(3), k)[:, None]), Prior())
        likelihoods.append(data.e_step(kept[None])[1][0])
    assert int(np.argmax(likelihoods)) == 2


def test_without_noise_no_component_is_left():
    data, labels = data_of("full")
    plain = Problem(data.rows, data.family)
    parameters = plain.family.m_step(plain.hard_stats(np.maximum(labels, 0), 3), Prior())
    assert dropped_stats(plain, parameters, 3) == []


@each_family
def test_the_costs_of_mergers_count_the_noise(name):
    data, labels = data_of(name)
    parameters = truth(data, labels)
    costs = MergeCosts(data, parameters)
    likelihood = data.e_step(parameters[None])[1][0]
    stats = costs._stats.copy()
    merged = costs._natural_of(stats[:1] + stats[1:2])
    natural = np.concatenate([merged, data.natural(parameters)[2:]])
    rows = data.row_logits(natural, slice(None))
    expected = likelihood - np.logaddexp.reduce(rows, axis=0).sum()
    # All of the 270 rows are compared.
    assert costs._costs[0, 1] == pytest.approx(expected, rel=1e-4, abs=0.05)
