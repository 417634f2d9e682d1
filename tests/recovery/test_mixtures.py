"""Mixtures from moments: exact recovery, equivariance, the paper's form, invalid input."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_wine

import apolar
from apolar import MixtureStatus
from apolar._core import compiled
from apolar._core.compiled import joint_rotation
from mixtures import distance, random_mixture
from recovery import moment_problems

laws = settings(max_examples=40, deadline=None, derandomize=True)
shapes = st.sampled_from([(1, 1), (1, 3), (2, 2), (2, 5), (3, 3), (3, 6), (4, 6), (5, 12)])
seeds = st.integers(0, 2**31)


def population(mixture):
    """Return the third moments of a mixture itself, with the sampling errors of a million rows."""
    return moment_problems.population(moment_problems.as_mixture(mixture), 3, 1e6)


def well_spread(mixture):
    """Return whether the means are far from affinely dependent: near that, rounding errors dominate."""
    homogeneous = np.column_stack([np.ones(mixture.n_components), mixture.means - mixture.means.mean(axis=0)])
    singular = np.linalg.svd(homogeneous, compute_uv=False)
    return singular[-1] > 0.05 and mixture.weights.min() > 0.02


@laws
@given(shapes, seeds)
def test_population_moments_give_the_mixture(shape, seed):
    mixture = random_mixture(*shape, seed)
    assume(well_spread(mixture))
    estimate = apolar.mixture_from_moments(population(mixture), shape[0], refine=False)
    assert distance(mixture, estimate) < 1e-8
    assert estimate.status is MixtureStatus.VALID
    # The prior of the refinement has about the weight of one row.
    refined = apolar.mixture_from_moments(population(mixture), shape[0])
    assert distance(mixture, refined) < 100 / 1e6


@laws
@given(st.sampled_from([(2, 2), (2, 5), (3, 4), (4, 6)]), seeds)
def test_population_moments_give_the_mixture_by_algorithm_1(shape, seed):
    mixture = random_mixture(*shape, seed)
    # Algorithm 1 needs linearly independent means, and a noise direction.
    assume(np.linalg.svd(mixture.means, compute_uv=False)[-1] > 0.5 and mixture.weights.min() > 0.02)
    assume(shape[0] < shape[1])
    estimate = apolar.mixture_from_moments(population(mixture), shape[0], form="paper", random_state=0)
    assert distance(mixture, estimate) < 1e-8


def test_the_paper_tensors_are_those_of_its_theorem():
    mixture = apolar.datasets.example_mixture(1)
    moments = apolar.spherical_moments(population(mixture))
    w, mu, s = mixture.weights, mixture.means, mixture.variances
    np.testing.assert_allclose(moments.first, (w * s) @ mu, atol=1e-10)
    np.testing.assert_allclose(moments.second, (w[:, None] * mu).T @ mu, atol=1e-10)
    expected = apolar.SymmetricTensor.from_waring(w, mu, 3)
    np.testing.assert_allclose(moments.third.coefficients, expected.coefficients, atol=1e-9)
    assert moments.mean_variance == pytest.approx(w @ s)
    # Of rows, they are as the paper writes them.
    X, _ = apolar.datasets.make_example(2, 500, random_state=0)
    X = X + 1
    moments = apolar.spherical_moments(X)
    z = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(z.T @ z / len(X))
    v = vectors[:, 0]
    first = np.mean(X * ((z @ v) ** 2)[:, None], axis=0)
    np.testing.assert_allclose(moments.first, first, rtol=1e-9)
    np.testing.assert_allclose(moments.second, X.T @ X / len(X) - values[0] * np.eye(5), rtol=1e-9)
    dense = np.einsum("ni,nj,nk->ijk", X, X, X) / len(X)
    for indices in ("i,jk", "j,ik", "k,ij"):
        dense -= np.einsum(f"{indices}->ijk", first, np.eye(5))
    np.testing.assert_allclose(moments.third.to_dense(), dense, atol=1e-9 * np.abs(dense).max())


# --- laws ---------------------------------------------------------------------------


@laws
@given(seeds, st.sampled_from([0.0, 1.0, 1e5]), st.sampled_from([1.0, 1e-4, 1e4]))
def test_shift_rotation_and_scale_do_the_same_to_the_mixture(seed, shift, scale):
    rng = np.random.default_rng(seed)
    X, _ = apolar.datasets.make_example(1, 2000, random_state=rng)
    rotation = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    offset = shift * rng.standard_normal(6)
    estimate = apolar.mixture_from_moments(X, 4)
    found = apolar.mixture_from_moments(scale * (X @ rotation + offset), 4)
    means = (found.means / scale - offset) @ rotation.T
    back = apolar.SphericalMixture(found.weights, means, found.variances / scale**2)
    assert distance(estimate, back) < 1e-6


@pytest.mark.parametrize(("example", "n_components"), [(1, 4), (2, 3)])
def test_weights_and_rows_bring_the_mixture_nearer_to_the_truth(example, n_components):
    truth = apolar.datasets.example_mixture(example)

    def error(n_rows, seed, *, refine):
        X, _ = apolar.datasets.make_example(example, n_rows, random_state=seed)
        return distance(truth, apolar.mixture_from_moments(X, n_components, refine=refine))

    plain, refined = (np.median([error(10_000, s, refine=r) for s in range(20)]) for r in (False, True))
    assert refined < 0.95 * plain
    # n^(-1/2) over two decades is a tenth.
    few, many = (np.median([error(n, s, refine=True) for s in range(5)]) for n in (2000, 200_000))
    assert many < 0.25 * few


def test_what_cannot_be_weighted_keeps_the_exact_solution():
    # One component, more signal directions than are weighted, and data of no spherical mixture.
    X, _ = random_mixture(10, 14, seed=0).sample(2000, 0)
    iris = apolar.datasets.load_iris().data
    for rows, n_components in ((X, 1), (X, 10), (iris / iris.std(axis=0), 3)):
        plain = apolar.mixture_from_moments(rows, n_components, refine=False)
        assert distance(plain, apolar.mixture_from_moments(rows, n_components)) == 0


def test_a_sketch_tells_whether_the_mixture_has_its_covariance():
    X = load_wine().data
    few, _ = apolar.datasets.make_example(1, 300, random_state=1)
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((60, 25)) + 6 * rng.standard_normal((2, 25))[rng.integers(0, 2, 60)]
    cases = (X, 3, "POOR_FIT"), (X / X.std(axis=0), 3, "VALID"), (few, 4, "VALID"), (wide, 2, "VALID")
    for rows, n_components, status in cases:
        sketch = apolar.MomentSketch(rows.shape[1]).update(rows)
        assert apolar.mixture_from_moments(sketch, n_components).status.name == status


def test_a_mixture_that_is_far_from_its_rows_is_a_poor_fit():
    # Flowers are neither round nor aligned with the columns: these mixtures are 1 to 50,000 nats a row less
    # likely than one component. With a deviation in each column's unit three round groups are what wines are.
    iris, wine = apolar.datasets.load_iris().data, load_wine().data
    cases = (
        (iris, "spherical", "POOR_FIT"),
        (iris / iris.std(axis=0), "spherical", "POOR_FIT"),
        (iris, "tied", "POOR_FIT"),
        (wine, "diag", "POOR_FIT"),
        (wine / wine.std(axis=0), "spherical", "VALID"),
        (wine, "tied", "VALID"),
    )
    for rows, covariance_type, status in cases:
        mixture = apolar.mixture_from_moments(rows, 3, covariance_type=covariance_type)
        assert mixture.status.name == status
        assert mixture.p_value < 1e-6  # no table is exactly such a mixture
        order = 4 if covariance_type == "tied" else 3
        sketch = apolar.MomentSketch(rows.shape[1], order=order).update(rows)
        from_sketch = apolar.mixture_from_moments(sketch, 3, covariance_type=covariance_type)
        assert (from_sketch.status.name, from_sketch.p_value) == (status, pytest.approx(mixture.p_value))


# --- many columns ----------------------------------------------------------------------


def test_many_columns_by_the_range_finder(monkeypatch):
    mixture = random_mixture(4, 300, seed=0, spread=1.0)
    X, _ = mixture.sample(4000, 1)
    estimate = apolar.mixture_from_moments(X, 4, random_state=0)
    by_sparse = apolar.mixture_from_moments(sparse.csr_array(X), 4, random_state=0)
    monkeypatch.setattr("apolar.moments.signal.DENSE_COLUMNS", 400)
    direct = apolar.mixture_from_moments(X, 4)
    # The subspaces differ by the error of the range finder, far below the sampling error.
    assert distance(direct, estimate) < 1e-4
    assert distance(estimate, by_sparse) < 1e-8
    assert distance(mixture, estimate) < 0.1
    np.testing.assert_allclose(estimate.spectrum[:3], direct.spectrum[:3], rtol=1e-3)


def test_sparse_rows_far_from_zero_and_the_paper_form_in_other_units():
    rows, _ = apolar.datasets.make_example(1, 2000, random_state=0)
    for offset in (np.array([1e5, 0, 0, 0, 0, 0]), np.full(6, 1e6)):
        dense = apolar.mixture_from_moments(rows + offset, 4)
        assert distance(dense, apolar.mixture_from_moments(sparse.csr_array(rows + offset), 4)) < 1e-6
    estimate = apolar.mixture_from_moments(rows, 4, "paper", random_state=0)
    for scale in (1e-60, 1e-4, 1e40):
        scaled = apolar.mixture_from_moments(scale * rows, 4, "paper", random_state=0)
        back = apolar.SphericalMixture(scaled.weights, scaled.means / scale, scaled.variances / scale**2)
        assert distance(estimate, back) < 1e-6


# --- how many ---------------------------------------------------------------------------


@pytest.mark.parametrize(("example", "expected"), [(1, 4), (2, 3)])
def test_the_spectrum_shows_the_number_of_components(example, expected):
    X, _ = apolar.datasets.make_example(example, 20_000, random_state=0)
    count = apolar.n_components_from_spectrum(X)
    assert count.least <= count.n_components == expected <= count.most
    assert len(count.spectrum) == X.shape[1]
    assert count.noise_level < count.threshold
    assert "BIC" in count.message
    same = apolar.n_components_from_spectrum(apolar.MomentSketch(X.shape[1]).update(X))
    assert same.threshold == pytest.approx(count.threshold)
    counts = np.arange(20_000) % 4
    weighted = apolar.n_components_from_spectrum(X, counts)
    repeated = apolar.n_components_from_spectrum(np.repeat(X, counts, axis=0))
    assert weighted.threshold == pytest.approx(repeated.threshold)


def test_the_spectrum_of_noise_shows_one_component():
    noise = np.random.default_rng(0).standard_normal((5000, 8))
    few, constant = (np.arange(5000) < 50).astype(float), np.column_stack([noise, np.zeros(5000)])
    for rows, weights in ((noise, None), (constant, None), (noise[:, :1], None), (noise, few)):
        count = apolar.n_components_from_spectrum(rows, weights)
        assert (count.n_components, "general position" in count.message) == (1, True)
    with pytest.raises(ValueError, match="has its weights"):
        apolar.n_components_from_spectrum(apolar.MomentSketch(8).update(noise), few)
    with pytest.raises(ValueError, match="All rows are equal"):
        apolar.n_components_from_spectrum(np.ones((10, 3)))


# --- projections -------------------------------------------------------------------------


def test_recover_reports_its_corrections():
    moments = apolar.spherical_moments(population(apolar.datasets.example_mixture(2)))
    waring = apolar.decompose(moments.third, 3, random_state=0)
    assert apolar.recover(moments, waring).status is MixtureStatus.VALID
    for changed, terms, what in (
        (replace(moments, first=-moments.first), waring, "variances"),
        (replace(moments, second=-moments.second), waring, "weights"),
        (moments, apolar.Waring(waring.weights, waring.points + 0.01j, 3), "complex"),
    ):
        projected = apolar.recover(changed, terms)
        assert projected.status is MixtureStatus.PROJECTED
        assert any(what in correction for correction in projected.projected)
        assert (projected.variances > 0).all()


def test_too_many_components_or_too_few_rows_are_said_and_do_not_fail():
    for seed, form in itertools.product(range(5), ("equivariant", "paper")):
        rows, _ = apolar.datasets.make_example(1, 60, random_state=seed)
        mixture = apolar.mixture_from_moments(rows, 4, form=form, random_state=0)
        assert mixture.status is not MixtureStatus.VALID or not mixture.projected
    rng = np.random.default_rng(0)
    noise = [apolar.mixture_from_moments(rng.standard_normal((2000, 6)), 4).status for _ in range(20)]
    assert noise.count(MixtureStatus.WEAK_SIGNAL) >= 15
    X, _ = apolar.datasets.make_example(1, 10_000, random_state=0)
    assert apolar.mixture_from_moments(X, 4).status is MixtureStatus.VALID
    exact = population(apolar.SphericalMixture([1.0], np.zeros((1, 5)), [1.0]))
    estimate = apolar.mixture_from_moments(exact, 3)
    assert estimate.status is MixtureStatus.WEAK_SIGNAL
    assert "fewer components" in estimate.message


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_joint_rotation_diagonalises(noise, monkeypatch):
    # Matrices that are diagonal in a common basis, and nearly so, as moments with sampling errors are.
    rng = np.random.default_rng(0)
    basis, errors = np.linalg.qr(rng.standard_normal((5, 5)))[0], noise * rng.standard_normal((6, 5, 5))
    matrices = (basis * rng.standard_normal((6, 1, 5))) @ basis.T + errors + np.swapaxes(errors, 1, 2)
    computed = joint_rotation(matrices)
    np.testing.assert_allclose(np.abs(computed.T @ basis).max(axis=0), 1, atol=1e-10 + noise)
    np.testing.assert_allclose(computed.T @ computed, np.eye(5), atol=1e-12)
    monkeypatch.setattr(compiled, "kernels", None)
    # Sweeps end at sines of 1e-9.
    np.testing.assert_allclose(computed, joint_rotation(matrices), rtol=0, atol=1e-8)


# --- bad input ---------------------------------------------------------------------------

X = np.random.default_rng(0).standard_normal((50, 3))


@pytest.mark.parametrize(
    ("rows", "n_components", "options", "error", "message"),
    [
        (X[:, :1], 4, {}, ValueError, "too many for moments up to order 6"),
        (X, 4, {"form": "paper"}, ValueError, "at most as many components as there are columns"),
        (X[:2], 3, {}, ValueError, "at least as many rows"),
        (X, 0, {}, ValueError, "n_components must be at least 1"),
        (X, 2, {"form": "cumulants"}, ValueError, "form must be one of"),
        (np.ones((20, 3)), 2, {}, ValueError, "All rows are equal"),
        (np.full((20, 3), 0.1), 2, {"form": "paper"}, ValueError, "All rows are equal"),
        (np.full((20, 300), 0.1), 2, {}, ValueError, "All rows are equal"),
        (X[:, :2] @ np.ones((2, 300)), 5, {}, ValueError, "no noise"),
        (X[:2], 2, {}, ValueError, "too few"),
        (np.outer(np.arange(20.0), [1, 2, 3]), 2, {}, ValueError, "no noise"),
        (apolar.MomentSketch(3).update(X), 2, {"sample_weight": np.ones(50)}, ValueError, "has its weights"),
        (iter([1e120 * X]), 2, {}, ValueError, "overflow"),
        (iter([np.ones((10, 500))]), 2, {}, ValueError, "frame="),
    ],
)  # fmt: skip
def test_bad_input_is_refused(rows, n_components, options, error, message):
    with pytest.raises(error, match=message):
        apolar.mixture_from_moments(rows, n_components, **options)


def test_bad_moments_and_mixtures_are_refused():
    moments, framed = apolar.spherical_moments(X), apolar.MomentSketch(3, frame=np.eye(3)[:, :2]).update(X)
    terms, means = apolar.decompose("x^3 + y^3"), np.zeros((2, 2))
    for call, message in (
        (lambda: apolar.recover(X, terms), "Moments"),
        (lambda: apolar.recover(moments, terms), "order 3 in 3 variables"),
        (lambda: apolar.spherical_moments(framed), "without a frame"),
        (lambda: apolar.datasets.make_example(3), "number must be one of"),
        (lambda: apolar.SphericalMixture([0.5, 0.6], means, [1, 1]), "add up to one"),
        (lambda: apolar.SphericalMixture([0.5, 0.5], means, [1, 0]), "positive"),
        (lambda: apolar.SphericalMixture([0.5, 0.5], means, [1, 1, 1]), "got"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


@pytest.mark.parametrize(("family", "form", "is_sketch"), [
    ("spherical", "paper", True), ("tied", "equivariant", False), ("full", "equivariant", True),
])  # fmt: skip
def test_a_row_of_weight_two_is_the_row_given_twice(family, form, is_sketch):
    rng = np.random.default_rng(0)
    X = 0.8 * rng.standard_normal((600, 3)) + 3 * rng.standard_normal((3, 3))[rng.integers(3, size=600)]
    counts = rng.integers(5, size=600)
    tables = (X, counts), (np.repeat(X, counts, axis=0), None)
    if is_sketch:
        tables = [(apolar.MomentSketch(3, order=5).update(*table), None) for table in tables]
    weighted, repeated = (
        apolar.mixture_from_moments(rows, 3, form, covariance_type=family, sample_weight=weights)
        for rows, weights in tables
    )
    # Moments are equal to rounding, and iterations stop within 1e-3 of a standard error or less.
    for name in ("weights", "means"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-6, atol=1e-6)
    assert weighted.status is repeated.status
    assert weighted.p_value == pytest.approx(repeated.p_value, rel=1e-6, nan_ok=True)
