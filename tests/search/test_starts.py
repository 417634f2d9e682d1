"""Every start gives a mixture for every family, with noise and without; merging, splitting, comparing."""

from dataclasses import replace

import numpy as np
import pytest

import apolar
from apolar.data import open_rows
from apolar.em.low_density import with_noise_component
from apolar.em.problem import Problem
from apolar.mixture import Prior
from apolar.mixture.families import family
from apolar.mixture.parameters import SufficientStats
from apolar.search.candidates import start_candidates
from apolar.search.merging import (
    greedily_merged_stats,
    merging_costs,
    untied_stats,
)
from apolar.search.proposals import dropped_stats, exchanges, extend_mixture, extensions
from apolar.search.starts import (
    STARTS,
    spread_rows,
)
from em_steps import objective_of
from mixtures import each_family


def data(name, n=300, seed=0, **kwargs):
    X, labels = apolar.datasets.make_example(1, n, random_state=seed)
    return Problem(open_rows(X, **kwargs), family(name)), labels


def with_one_more(rows, parameters):
    """Return the mixtures of one component more that are proposed from one."""
    stats = untied_stats(rows, parameters)
    found = extensions(rows, parameters, Prior())
    return [rows.family.m_step(extend_mixture(stats, [each]), Prior()) for each in found]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(("n_components", "n_features"), [(1, 1), (1, 3), (3, 1), (5, 2)])
def test_one_component_one_column_more_components_than_columns_and_few_rows(start, n_components, n_features):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, n_features)) + 4 * rng.integers(0, 3, (120, 1))
    # Also where there are fewer different rows than components.
    repeated = np.repeat(np.arange(3.0)[:, None], 20, axis=0) @ np.ones((1, n_features))
    for name, rows in (("spherical", X), ("full", X), ("full", repeated)):
        problem = Problem(open_rows(rows), family(name))
        (first, *_) = start_candidates(start, problem, n_components, Prior(), rng)
        assert first.parameters.is_finite
        assert first.parameters.n_components == n_components


@each_family
def test_merging_adds_statistics_and_puts_the_parts_of_a_cluster_together(name):
    rng = np.random.default_rng(0)
    centres = np.repeat(np.array([[0.0, 0], [20, 0], [0, 20]]), 3, axis=0)
    labels = np.repeat(np.arange(9), 40)
    rows = Problem(open_rows(centres[labels] + rng.standard_normal((360, 2))), family(name))
    stats = rows.hard_stats(labels, 9)
    merged = greedily_merged_stats(rows.family.untied, stats, 3)
    np.testing.assert_allclose(merged.counts, 120)
    expected = rows.hard_stats(labels // 3, 3)
    # Components may be in any order: they are compared by a number that differs between them.
    numbers = [sorted(each.array @ np.arange(rows.n_stats)) for each in (merged, expected)]
    np.testing.assert_allclose(*numbers, atol=1e-6)
    np.testing.assert_array_equal(greedily_merged_stats(rows.family, stats[:3], 3).array, stats[:3].array)


def test_splitting_finds_the_component_that_is_two():
    # Three components for four clusters: the best proposal must separate the two that share a component.
    X, labels = apolar.datasets.make_example(1, 2000, random_state=1)
    rows = Problem(open_rows(X), family("spherical"))
    heavy = np.argsort(-np.bincount(labels))
    joined = np.unique(np.where(labels == heavy[1], heavy[0], labels), return_inverse=True)[1]
    components = rows.family.m_step(rows.hard_stats(joined, 3), Prior())
    truth = rows.family.m_step(rows.hard_stats(labels, 4), Prior())
    proposals = with_one_more(rows, components)
    before, top, *values = (
        objective_of(rows, each[None], Prior()) for each in (components, truth, *proposals)
    )
    assert max(values) > before + 0.5 * (top - before)


def test_components_move_to_where_they_are_missing():
    # Of eight clusters in a row two pairs have one component each, and two have two.
    rng = np.random.default_rng(0)
    labels = rng.integers(8, size=1600)
    X = np.column_stack([20 * labels, np.zeros(1600)]) + rng.standard_normal((1600, 2))
    rows = Problem(open_rows(X), family("full"))
    wrong = np.array([0, 0, 1, 1, 2, 4, 6, 7])[labels] + (rng.random(1600) < 0.5) * np.isin(labels, [4, 5])
    now = rows.family.m_step(rows.hard_stats(wrong, 8), Prior())
    stats = untied_stats(rows, now)
    array = exchanges(stats, extensions(rows, now, Prior()), *merging_costs(rows, now))
    moved = rows.family.m_step(SufficientStats(array, 2), Prior())
    places = np.sort(rows.whitening.inverse_transform(moved.means)[:, 0])
    np.testing.assert_allclose(places, 20 * np.arange(8), atol=1)
    # Nothing is left to be exchanged.
    stats = untied_stats(rows, moved)
    assert exchanges(stats, extensions(rows, moved, Prior()), *merging_costs(rows, moved)) is None


@each_family
def test_a_small_cluster_beside_the_longest_axis_is_found(name):
    # The rows are longest in the first column; five in a hundred are apart in the second.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3)) * ([1, 1, 1] if family(name).is_spherical else [4, 1, 1])
    X[:100, 1] += 8
    small = apolar.GaussianMixture(2, covariance_type=name, random_state=0).fit(X)
    assert small.weights_.min() == pytest.approx(0.05, abs=0.01)
    np.testing.assert_allclose(small.means_[small.weights_.argmin()], [0, 8, 0], atol=1.5)


def test_every_start_is_documented():
    documented = apolar.GaussianMixture.__doc__
    assert all(f'"{name}"' in documented for name in STARTS)


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


@each_family
def test_the_costs_of_mergers_count_the_noise(name):
    data, labels = data_of(name)
    parameters = truth(data, labels)
    costs, merged_pairs = merging_costs(data, parameters)
    likelihood = data.e_step(parameters[None])[1][0]
    array = untied_stats(data, parameters).array
    union = SufficientStats(array[:1] + array[1:2], data.n_features)
    merged = replace(data.family.merged(union, parameters.covariances), weights=union.counts / data.weight)
    natural = np.concatenate([data.family.natural(merged), data.natural(parameters)[2:]])
    rows = data.row_logits(natural, slice(None))
    expected = likelihood - np.logaddexp.reduce(rows, axis=0).sum()
    # Rows that neither component owns would gain a little.
    cost = costs[merged_pairs.index((0, 1))]
    assert expected - 0.05 < cost < 1.05 * expected + 0.05


def test_seeds_are_rows_far_apart_and_weights_are_counts():
    rng = np.random.default_rng(0)
    far = 100 * np.eye(4)[np.arange(400) % 4] + rng.standard_normal((400, 4))
    seeds = spread_rows(Problem(open_rows(far), family("spherical")), 4, rng)[0]
    assert {int(seed) % 4 for seed in seeds} == {0, 1, 2, 3}
    # A row of weight two counts twice: as the first seed, and as one after the row in the middle.
    weighted = Problem(open_rows(np.array([[-1.0], [0], [1]]), np.array([1.0, 1, 2])), family("full"))
    seeds = spread_rows(weighted, 2, rng, 4000)
    # Four standard errors of a frequency.
    np.testing.assert_allclose(np.bincount(seeds[:, 0]) / 4000, [0.25, 0.25, 0.5], atol=0.032)
    after = seeds[seeds[:, 0] == 1, 1]
    np.testing.assert_allclose(np.bincount(after) / len(after), [1 / 3, 0, 2 / 3], atol=0.06)
