"""The likelihood of rows left out: against fits without each row, in every computation, what it chooses."""

from dataclasses import replace

import numpy as np
import pytest

from apolar._core import compiled
from apolar.data import open_rows
from apolar.em.left_out import left_out
from apolar.em.low_density import with_noise_component
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.run import Stop, run
from apolar.estimator.fitted import FittedState
from apolar.mixture.families import FAMILIES
from apolar.mixture.parameters import MixtureParameters, batch
from apolar.mixture.prior import AdaptivePrior, AddedRows, Strengths
from em_steps import problem_of
from kernel_sums import needs_kernels
from mixtures import FAMILY_NAMES, pairs

# Of every family, and with axes that are far from equal.
ALIKE = np.stack([np.diag([1.0, 0.5, 2.0])] * 3)
# Rows of weight 1 or more stand for several, of which one is left out.
W = np.random.default_rng(1).choice([0.4, 1.0, 2.5], 40)


def clusters(spread, n_rows, roots=ALIKE):
    """Return rows of clusters at the corners of a triangle, and their labels."""
    rng, labels = np.random.default_rng(0), np.arange(n_rows) % 3
    corners = spread * np.array([[0.0, 0, 0], [3, 0, 1], [0, 3, -1]])
    means = np.pad(corners, ((0, 0), (0, roots.shape[-1] - 3)))
    rows = rng.standard_normal((n_rows, roots.shape[-1]))
    return means[labels] + np.einsum("nij,nj->ni", roots[labels], rows), labels


def fitted(X, labels, name, prior, weights=None, gain=1e-9, dof=None):
    """Return a problem, and the optimum near the clusters of some labels."""
    data = Problem(open_rows(X, weights), replace(FAMILIES[name], dof=dof))
    start = data.m_step(data.hard_stats(labels, labels.max() + 1), None)
    return data, run(data, [Fit(start, "")], prior, Stop(2000, gain=gain))[0]


def refitted(data, fit, prior, i):
    """Return the log-density of a row after plain EM, from a fit, without it or without one of its copies."""
    rows, weights = data.fetch()
    weights = np.ones(len(rows)) if weights is None else weights.copy()
    weights[i] -= min(weights[i], 1.0)
    others = data.replace(rows=open_rows(rows[weights > 0], weights[weights > 0]))
    prior, now, change = prior.of_strengths(fit.strengths), fit.parameters, np.inf
    while change > 1e-6:
        stats, before = others.e_step(now[None])[0][0], now
        now = others.m_step(stats, prior, now)
        change = np.abs(now.means - before.means).max()
    return data.row_responsibilities(now)[1][i]


# The closed form knows how far a row is, not in which direction: for variances of axes, the squares of the
# row along them are those of a random one, and the two differ by a tenth. Where clusters overlap, other rows
# also change their component without the row, which makes optimism larger.
@pytest.mark.parametrize(("name", "spread"), pairs(FAMILY_NAMES, [4.0, 1.6]))
def test_the_optimism_is_that_of_fits_without_each_row(name, spread):
    prior = AdaptivePrior(strengths=Strengths(4.0, 0.5, 4.0))
    data, fit = fitted(*clusters(spread, 120), name, prior)
    seen = data.row_responsibilities(fit.parameters)[1]
    wanted = seen - [refitted(data, fit, prior, i) for i in range(120)]
    assert (seen - fit.left_out).sum() == pytest.approx(wanted.sum(), rel=0.1 if spread > 2 else 0.2)
    assert np.corrcoef(seen - fit.left_out, wanted)[0, 1] > 0.9


@pytest.mark.parametrize("name", ["full", "tied", "VEE", "spherical"])
def test_the_optimism_of_long_tails_is_that_of_fits_without_each_row(name):
    prior = AdaptivePrior(strengths=Strengths(4.0, 0.5, 4.0))
    data, fit = fitted(*clusters(4.0, 60), name, prior, dof=10.0)
    seen, chosen = data.row_responsibilities(fit.parameters)[1], np.arange(0, 60, 3)
    wanted = seen[chosen] - [refitted(data, fit, prior, i) for i in chosen]
    ours = (seen - fit.left_out)[chosen]
    # The factors of the other rows, which change without the row too, are held: some of the loss.
    assert 0.7 * wanted.sum() < ours.sum() < wanted.sum()
    assert np.corrcoef(ours, wanted)[0, 1] > 0.98


@pytest.mark.parametrize("weights", [None, W])
@pytest.mark.parametrize(("name", "columns"), [("full", 3), ("tied", 3), ("spherical", 1), ("diag", 1)])
@pytest.mark.parametrize("n_components", [1, 3])
def test_it_is_exactly_that_where_components_are_certain(name, columns, n_components, weights):
    # Far apart, and with a covariance of which one row shows all that it knows.
    X, labels = clusters(100.0, 40)
    prior, labels = AdaptivePrior(strengths=Strengths()), labels % n_components
    data, fit = fitted(
        X[:, :columns] if columns > 1 else X.sum(axis=1)[:, None], labels, name, prior, weights
    )
    chosen = np.arange(0, 40, 3)
    wanted = [refitted(data, fit, prior, i) for i in chosen]
    added = prior.added_rows(data.family, fit.parameters)
    (values,), _ = left_out(data, fit.parameters[None], added)
    # The prior adds a thousandth of a row.
    np.testing.assert_allclose(values[chosen], wanted, atol=2e-3)
    np.testing.assert_allclose(fit.left_out, values if weights is None else values * weights, rtol=1e-12)


def test_beside_noise_weights_are_relative_to_those_of_all_components():
    X, labels = clusters(100.0, 42)
    X = np.concatenate([X, np.random.default_rng(0).uniform(-50, 350, (14, 3))])
    data = with_noise_component(Problem(open_rows(X), FAMILIES["full"]), 0.25)
    labels = np.append(labels, np.full(14, -1))
    start = data.m_step(data.soft_stats(labels[None] == np.arange(3)[:, None]), None)
    prior = AdaptivePrior(strengths=Strengths(0.0, 0.0, 30.0))
    fit = run(data, [Fit(start, "")], prior, Stop(2000, gain=1e-9))[0]
    wanted = [refitted(data, fit, prior, i) for i in range(0, 42, 4)]
    np.testing.assert_allclose(fit.left_out[:42:4], wanted, atol=2e-3)
    # Neither does the share of the noise change the prior.
    other = replace(fit.parameters, weights=0.5 * fit.parameters.weights)
    values = [data.family.log_prior(each[None], fit.prior)[0] for each in (fit.parameters, other)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    # All components together may hold less than a row.
    few = replace(fit.parameters, weights=np.array([8e-4, 1e-4, 1e-4]))
    without, _ = left_out(data, few[None], prior.added_rows(data.family, few))
    assert np.all(np.isfinite(without))


def test_a_component_of_two_rows_and_a_far_row_are_punished():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((80, 2)), [[2.5, 2.5], [2.5, 2.6], [0.0, 40.0]]])
    prior, labels = AdaptivePrior(strengths=Strengths()), np.repeat([0, 1, 2], [80, 2, 1])
    data, fit = fitted(X, labels, "full", prior)
    _, of_two = fitted(X, np.where(labels == 1, 0, labels), "full", prior)
    assert fit.log_likelihood > of_two.log_likelihood + 5
    assert fit.score < of_two.score
    # What is left of their component is a row, far from each of the two; the far one has none left, and has
    # its density under the others.
    shares, seen = data.row_responsibilities(fit.parameters)
    assert np.all(fit.left_out[80:82] < seen[80:82] - 3)
    assert shares.argmax(axis=0)[-1] not in shares.argmax(axis=0)[:-1]
    (values,) = data.exact.map_blocks(lambda block: block.logits(data.natural(fit.parameters)).copy())
    assert fit.left_out[-1] == pytest.approx(np.sort(values[:, -1])[-2], rel=1e-6)


def strengths_of(X, labels, name="full"):
    return fitted(X, labels, name, AdaptivePrior(), gain=1e-3)[1].strengths


def test_strengths_are_those_that_the_rows_need():
    rng = np.random.default_rng(0)
    turned = np.stack([np.linalg.qr(rng.standard_normal((3, 3)))[0] * [3.0, 1.0, 0.05] for _ in range(3)])
    assert strengths_of(*clusters(4.0, 1500, turned)).common == 0
    balls = strengths_of(*clusters(2.0, 150, np.stack([np.eye(3)] * 3)))
    assert balls.common >= 256
    assert balls.weights >= 256
    # Two thirds, a quarter and a twelfth of the rows.
    X, labels = clusters(4.0, 450, np.stack([np.eye(3)] * 3))
    kept = np.isin(np.arange(450) % 24, [0, 1, 3, 4, 6, 7, 9, 10, 12, 15, 18, 21, 2])
    assert strengths_of(X[kept], labels[kept]).weights < 256
    for kind in ("full", "tied"):
        wide = strengths_of(*clusters(2.0, 20, np.stack([np.eye(25)] * 3)), kind)
        assert wide.diagonal >= 0.5


@needs_kernels
@pytest.mark.parametrize(("name", "kind"), pairs(FAMILY_NAMES, ["plain", "noise", "rounding", "own tails"]))
def test_the_extension_computes_what_numpy_does(name, kind, monkeypatch):
    added = AddedRows(np.array([0.0, 4.0]), np.array([0.0, 4.0]), np.array([0.0, 30.0]), 0.3)

    def both():
        data, start = problem_of(name, kind)
        # Of the other, rows are far from all components, and most without the one that is nearest.
        mixtures = start, replace(start, means=start.means + 3, covariances=0.03 * start.covariances)
        each = [AddedRows(*(np.ravel(part)[i % np.size(part)] for part in added)) for i in range(2)]
        alone = [left_out(data, one[None], rows)[0][0] for one, rows in zip(mixtures, each, strict=True)]
        return left_out(data, batch(mixtures), added)[0], alone

    ours, ours_alone = both()
    monkeypatch.setattr(compiled, "kernels", None)
    expected, alone = both()
    # The extension leaves out the changes of components whose share of a row is below 1e-8.
    np.testing.assert_allclose(ours, expected, rtol=1e-11, atol=1e-6)
    np.testing.assert_allclose(ours, ours_alone, rtol=1e-13)
    np.testing.assert_allclose(expected, alone, rtol=1e-11)


@pytest.mark.parametrize("name", ["full", "diag", "spherical"])
def test_a_row_with_missing_values_is_one_of_its_columns(name):
    rng, kind = np.random.default_rng(0), FAMILIES[name]
    roots = np.eye(3) + 0.3 * rng.standard_normal((3, 3, 3))
    matrices = roots @ roots.transpose(0, 2, 1)
    whole = {"full": matrices, "diag": np.diagonal(matrices, 0, 1, 2), "spherical": matrices[:, 0, 0]}[name]
    means, X = 3 * rng.standard_normal((3, 3)), clusters(1.5, 30)[0]

    def values(X, columns):
        covariances = whole
        for axis in range(kind.n_axes):
            covariances = np.take(covariances, columns, axis=1 + axis)
        mixture = MixtureParameters(np.array([0.5, 0.3, 0.2]), means[:, columns], covariances)
        state = FittedState(kind, mixture, n_samples_seen=50.0)
        return state.answer(open_rows(X), "densities", left_out=state.left_out(None))

    incomplete, seen = X.copy(), ([0, 2], [1], [0, 1, 2])
    incomplete[:10, 1] = incomplete[10:20, ::2] = np.nan
    ours = values(incomplete, seen[2])
    for columns, part in zip(seen, np.split(np.arange(30), 3), strict=True):
        np.testing.assert_allclose(ours[part], values(X[part][:, columns], columns), rtol=1e-9)
    incomplete[:] = np.nan
    # A row of which nothing is known is likely anyway, up to what it tells of weights.
    np.testing.assert_allclose(values(incomplete, seen[2]), 0, atol=1.5 * 2 / 50)


@pytest.mark.parametrize("name", ["spherical", "diag", "full"])
def test_without_a_row_the_common_covariance_changes_too(name):
    rng, labels = np.random.default_rng(0), np.repeat([0, 1], [40, 30])
    columns = 3 if name == "spherical" else 1
    data = Problem(open_rows(rng.standard_normal((70, columns)) + 14 * labels[:, None]), FAMILIES[name])
    prior = AdaptivePrior(shrinkage=0.0, strengths=Strengths(6.0))

    def mixture_of(rows):
        stats = data.soft_stats((labels == [[0], [1]]) * rows)
        return data.m_step(stats, prior.adapted_to(data.family, stats))

    whole = mixture_of(np.ones(70))
    (without,), _ = left_out(data, whole[None], prior.added_rows(data.family, whole))
    refitted = [data.row_responsibilities(mixture_of(np.arange(70) != i))[1][i] for i in range(70)]
    # The clusters have about the same covariance, as the closed form assumes. If the common one did not
    # change, the differences would be three times as large or more.
    assert np.mean(np.abs(without - refitted)) < 5e-4
