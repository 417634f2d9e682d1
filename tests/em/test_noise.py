"""The noise component in EM, for every family; and rows of low density, from which it starts."""

import json

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from apolar.data import open_rows
from apolar.em import kernel_block
from apolar.em.low_density import with_noise_component, with_noise_share, without_low_density
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.run import Stop, evidence_of, run
from apolar.mixture import Prior
from apolar.mixture.families import family
from apolar.mixture.parameters import N_NOISE_PARAMETERS, NoiseBox, WhitenedParameters, noise_weights
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


def test_kernels_of_a_device_take_a_component_without_precisions():
    data, parameters = problem_of("full", "noise")
    natural = data.natural(parameters)
    ours = kernel_block.parameters_of(data.whitening.centre, data.whitening.matrix, natural)
    assert ours is not None
    assert ours.n_components == 3
    natural[2, 1] = 1.0
    assert kernel_block.parameters_of(data.whitening.centre, data.whitening.matrix, natural) is None


def with_noise(share, n_features=4, n=600, scale=1.0, seed=0):
    """Return three clusters and noise, of a share of the rows, around them; and which rows are noise."""
    rng = np.random.default_rng(seed)
    means = 8 * rng.standard_normal((3, n_features))
    X = means[np.arange(n) % 3] + rng.standard_normal((n, n_features))
    n_noise = round(share / (1 - share) * n)
    middle, reach = X.mean(axis=0), 0.55 * scale * np.ptp(X, axis=0)
    noise = rng.uniform(middle - reach, middle + reach, (n_noise, n_features))
    return np.vstack([X, noise]), np.arange(n + n_noise) >= n


def opened(X, name="full", weights=None):
    return Problem(open_rows(X, weights), family(name))


@pytest.mark.parametrize("n_features", [3, 8])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.2])
def test_the_share_of_noise_is_found(n_features, share):
    X, _ = with_noise(share, n_features)
    found = with_noise_component(opened(X), True).noise_share
    # Noise within a cluster cannot be told from it, and the outermost rows of a cluster are like noise.
    assert found == pytest.approx(share, abs=0.02 + 0.3 * share)


def test_far_rows_do_not_lead_the_whitening():
    X, is_noise = with_noise(0.05, scale=300.0)
    far = with_noise_component(opened(X, "diag"), True)
    clean = opened(X[~is_noise], "diag")
    np.testing.assert_allclose(far.whitening.deviations, clean.whitening.deviations, rtol=0.05)
    assert np.all(opened(X, "diag").whitening.deviations > 10 * clean.whitening.deviations)
    assert far.weight == len(X)
    kept = without_low_density(far)
    assert kept.n_rows == pytest.approx(len(X) - is_noise.sum(), abs=2)
    assert not kept.has_noise
    np.testing.assert_array_equal(kept.whitening.matrix, far.whitening.matrix)


def test_a_given_share_is_set_aside():
    X, _ = with_noise(0.1)
    data = with_noise_component(opened(X), 0.25)
    assert data.noise_share == 0.25
    for share in (0.25, 0.0):
        assert without_low_density(data.replace(noise_share=share)).n_rows == len(X) - int(share * len(X))


def test_a_row_of_weight_two_is_two_rows():
    X, _ = with_noise(0.1, n_features=2)
    weights = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    ours = with_noise_component(opened(X, weights=weights), True)
    theirs = with_noise_component(opened(repeated), True)
    # Quartiles, by which columns are scaled, are those of the rows without weights.
    assert ours.noise_share == pytest.approx(theirs.noise_share, abs=0.02)
    assert ours.weight == theirs.weight


def test_the_box_is_the_smaller_of_two():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(500, 2)) * [4.0, 0.25]
    box = with_noise_component(opened(X), 0.1).noise
    assert box.log_volume == pytest.approx(np.log(np.ptp(X, axis=0)).sum(), abs=0.05)
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    turned = with_noise_component(opened(X @ turn), 0.1).noise
    # As mclust's hypvol, but of standardised columns, whose axes are not quite those of the rectangle.
    assert turned.log_volume < np.log(np.ptp(X @ turn, axis=0)).sum() - 0.5
    drawn = turned.sample(2000, rng)
    inside = (drawn - turned.origin) @ np.linalg.inv(turned.edges)
    assert inside.min() >= -1e-12
    assert inside.max() <= 1 + 1e-12
    for seen in (X, X @ turn):
        of = with_noise_component(opened(seen, "spherical"), 0.1).noise
        other = with_noise_component(opened(seen, "full"), 0.1).noise
        assert of.log_volume == other.log_volume


def test_a_constant_column_has_a_width_and_keeps_its_unit():
    X, is_noise = with_noise(0.1)
    for column in (3.0, X[:, 0], np.where(is_noise, X[:, 1], 0.0)):
        X[:, 1] = column
        data = opened(X, "diag")
        noisy = with_noise_component(data, True)
        assert np.isfinite(noisy.noise.log_volume)
    # The last one varies among the far rows only.
    np.testing.assert_array_equal(noisy.whitening.matrix, data.whitening.matrix)


def test_units_of_the_columns_do_not_matter():
    X, _ = with_noise(0.1)
    units = np.array([1e-6, 1.0, 1e5, 3.0])
    ours = with_noise_component(opened(X * units), True)
    theirs = with_noise_component(opened(X), True)
    assert ours.noise_share == pytest.approx(theirs.noise_share, rel=1e-9)
    for box in (ours.noise, theirs.noise.rescaled(units)):
        expected = theirs.noise.log_volume + np.log(units).sum()
        assert box.log_volume == pytest.approx(expected, rel=1e-9)
    drawn = [box.sample(5, np.random.default_rng(0)) for box in (theirs.noise, theirs.noise.rescaled(units))]
    np.testing.assert_allclose(drawn[0] * units, drawn[1])


@pytest.mark.parametrize("n_distinct", [1, 3])
def test_equal_rows_have_densities(n_distinct):
    X = np.repeat(np.eye(3)[:n_distinct], 40, axis=0)
    data = with_noise_component(opened(X, "spherical"), True)
    assert np.isfinite(data.noise.log_volume)
    distinct = data.distinct()
    assert distinct.n_rows == n_distinct
    assert without_low_density(distinct.replace(noise_share=0.2)).n_rows >= 1


def test_wide_sparse_rows_are_refused_with_the_remedy():
    X = sparse.eye_array(50, 20_000, format="csr")
    with pytest.raises(ValueError, match="project them on fewer columns"):
        with_noise_component(opened(X, "spherical"), True)


def test_shares_of_starts_are_neither_zero_nor_one():
    parameters = WhitenedParameters(np.array([0.5, 0.5]), np.zeros((2, 1)), np.ones(2))
    for share, expected in ((0.0, 0.99), (0.3, 0.7), (1.0, 0.1)):
        assert with_noise_share(parameters, share).weights.sum() == pytest.approx(expected)
