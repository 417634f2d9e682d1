"""Mixtures from moments: exact recovery, equivariance, the paper's form, invalid input."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import apolar
from apolar import MixtureStatus
from apolar._core import compiled
from apolar._core.compiled import joint_rotation
from mixtures import distance, population, random_mixture

laws = settings(max_examples=40, deadline=None, derandomize=True)
shapes = st.sampled_from([(1, 1), (1, 3), (2, 2), (2, 5), (3, 3), (3, 6), (4, 6), (5, 12)])
seeds = st.integers(0, 2**31)


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
    assert distance(mixture, refined) < 100 / population(mixture).n_rows


@laws
@given(st.sampled_from([(2, 2), (2, 5), (3, 4), (4, 6)]), seeds)
def test_population_moments_give_the_mixture_by_algorithm_1(shape, seed):
    mixture = random_mixture(*shape, seed)
    # Algorithm 1 needs linearly independent means, and a noise direction.
    assume(np.linalg.svd(mixture.means, compute_uv=False)[-1] > 0.5 and mixture.weights.min() > 0.02)
    assume(shape[0] < shape[1])
    estimate = apolar.mixture_from_moments(population(mixture), shape[0], form="paper", random_state=0)
    assert distance(mixture, estimate) < 1e-8


def test_the_paper_theorem():
    mixture = apolar.datasets.example_mixture(1)
    moments = apolar.spherical_moments(population(mixture))
    w, mu, s = mixture.weights, mixture.means, mixture.variances
    np.testing.assert_allclose(moments.first, (w * s) @ mu, atol=1e-10)
    np.testing.assert_allclose(moments.second, (w[:, None] * mu).T @ mu, atol=1e-10)
    expected = apolar.SymmetricTensor.from_waring(w, mu, 3)
    np.testing.assert_allclose(moments.third.coefficients, expected.coefficients, atol=1e-9)
    assert moments.mean_variance == pytest.approx(w @ s)


def test_the_paper_tensors_are_as_written():
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
    eye = np.eye(5)
    dense -= np.einsum("i,jk->ijk", first, eye) + np.einsum("j,ik->ijk", first, eye)
    dense -= np.einsum("k,ij->ijk", first, eye)
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
    transformed = apolar.mixture_from_moments(scale * (X @ rotation + offset), 4)
    back = apolar.SphericalMixture(
        transformed.weights,
        (transformed.means / scale - offset) @ rotation.T,
        transformed.variances / scale**2,
    )
    assert distance(estimate, back) < 1e-6


def test_centred_and_standardised_data_work():
    X, _ = apolar.datasets.make_example(1, 5000, random_state=0)
    estimate = apolar.mixture_from_moments(X, 4)
    centred = apolar.mixture_from_moments(X - X.mean(axis=0), 4)
    back = apolar.SphericalMixture(centred.weights, centred.means + X.mean(axis=0), centred.variances)
    assert distance(estimate, back) < 1e-6
    standardised = apolar.mixture_from_moments((X - X.mean(axis=0)) / X.std(axis=0), 4)
    assert np.isfinite(standardised.means).all()


@laws
@given(seeds)
def test_the_order_of_the_rows_does_not_matter(seed):
    X, _ = apolar.datasets.make_example(2, 800, random_state=0)
    order = np.random.default_rng(seed).permutation(len(X))
    assert distance(apolar.mixture_from_moments(X, 3), apolar.mixture_from_moments(X[order], 3)) < 1e-8


def test_the_error_falls_with_the_number_of_rows():
    truth = apolar.datasets.example_mixture(2)
    errors = []
    for n in (2_000, 200_000):
        distances = [
            distance(truth, apolar.mixture_from_moments(apolar.datasets.make_example(2, n, seed)[0], 3))
            for seed in range(5)
        ]
        errors.append(np.median(distances))
    # n^(-1/2) over two decades is a tenth.
    assert errors[1] < 0.25 * errors[0]


@pytest.mark.parametrize("form", ["equivariant", "paper"])
@pytest.mark.parametrize("example", [1, 2])
def test_small_samples_never_fail(example, form):
    n_components = {1: 4, 2: 3}[example]
    for seed in range(30):
        X, _ = apolar.datasets.make_example(example, 60, random_state=seed)
        mixture = apolar.mixture_from_moments(X, n_components, form=form, random_state=0)
        assert np.isfinite(mixture.means).all()
        assert mixture.status is not MixtureStatus.VALID or not mixture.projected


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


def test_faint_clusters_in_many_columns():
    means = np.zeros((4, 300))
    means[:, :4] = 3 * np.eye(4)
    rows, _ = apolar.SphericalMixture(np.full(4, 0.25), means, np.ones(4)).sample(5000, 0)
    estimate = apolar.mixture_from_moments(rows, 4)
    exact = np.linalg.eigvalsh(np.cov(rows.T, bias=True))[::-1]
    np.testing.assert_allclose(estimate.spectrum[:3], exact[:3], rtol=1e-3)
    np.testing.assert_array_equal(estimate.means, apolar.mixture_from_moments(rows, 4).means)


def test_sparse_rows_far_from_zero():
    rows, _ = apolar.datasets.make_example(1, 2000, random_state=0)
    for offset in (np.array([1e5, 0, 0, 0, 0, 0]), np.full(6, 1e6)):
        dense = apolar.mixture_from_moments(rows + offset, 4)
        assert distance(dense, apolar.mixture_from_moments(sparse.csr_array(rows + offset), 4)) < 1e-6


@pytest.mark.parametrize("scale", [1e-60, 1e-4, 1.0, 1e4, 1e40])
def test_the_paper_form_does_not_depend_on_units(scale):
    rows, _ = apolar.datasets.make_example(1, 2000, random_state=0)
    estimate = apolar.mixture_from_moments(rows, 4, "paper", random_state=0)
    scaled = apolar.mixture_from_moments(scale * rows, 4, "paper", random_state=0)
    back = apolar.SphericalMixture(scaled.weights, scaled.means / scale, scaled.variances / scale**2)
    assert distance(estimate, back) < 1e-6


def test_streams_that_overflow_are_refused_as_such():
    with pytest.raises(ValueError, match="overflow"):
        apolar.mixture_from_moments(iter([1e120 * X]), 2)


def test_streams_of_many_columns_name_the_remedy():
    with pytest.raises(ValueError, match="frame="):
        apolar.mixture_from_moments(iter([np.ones((10, 500))]), 2)


# --- how many ---------------------------------------------------------------------------


def test_the_spectrum_shows_the_number_of_components():
    for example, expected in ((1, 4), (2, 3)):
        X, _ = apolar.datasets.make_example(example, 20_000, random_state=0)
        count = apolar.n_components_from_spectrum(X)
        assert count.n_components == expected
        assert count.least <= expected <= count.most
        assert len(count.spectrum) == X.shape[1]
        assert count.noise_level < count.threshold
        assert "BIC" in count.message
    same = apolar.n_components_from_spectrum(apolar.MomentSketch(X.shape[1]).update(X))
    assert same.n_components == count.n_components
    noise = np.random.default_rng(0).standard_normal((5000, 8))
    assert apolar.n_components_from_spectrum(noise).n_components == 1
    constant = np.column_stack([noise, np.zeros(5000)])
    assert apolar.n_components_from_spectrum(constant).n_components == 1
    single = apolar.n_components_from_spectrum(noise[:, :1])
    assert (single.n_components, "general position" in single.message) == (1, True)
    few = np.zeros(5000)
    few[:50] = 1
    assert apolar.n_components_from_spectrum(noise, few).n_components == 1
    with pytest.raises(ValueError, match="has its weights"):
        apolar.n_components_from_spectrum(apolar.MomentSketch(8).update(noise), few)
    with pytest.raises(ValueError, match="All rows are equal"):
        apolar.n_components_from_spectrum(np.ones((10, 3)))


# --- projections -------------------------------------------------------------------------


def test_recover_reports_its_corrections():
    mixture = apolar.datasets.example_mixture(2)
    moments = apolar.spherical_moments(population(mixture))
    waring = apolar.decompose(moments.third, 3, random_state=0)
    assert apolar.recover(moments, waring).status is MixtureStatus.VALID
    projected = apolar.recover(replace(moments, first=-moments.first), waring)
    assert projected.status is MixtureStatus.PROJECTED
    assert any("variances" in correction for correction in projected.projected)
    assert (projected.variances > 0).all()
    negative = replace(moments, second=-moments.second)
    assert any("weights" in correction for correction in apolar.recover(negative, waring).projected)
    complex_waring = apolar.Waring(waring.weights, waring.points + 0.01j, 3)
    assert any("complex" in correction for correction in apolar.recover(moments, complex_waring).projected)


def test_too_many_components_are_a_weak_signal_not_a_crash():
    rng = np.random.default_rng(0)
    noise = [apolar.mixture_from_moments(rng.standard_normal((2000, 6)), 4).status for _ in range(20)]
    assert noise.count(MixtureStatus.WEAK_SIGNAL) >= 15
    X, _ = apolar.datasets.make_example(1, 10_000, random_state=0)
    assert apolar.mixture_from_moments(X, 4).status is MixtureStatus.VALID
    exact = population(apolar.SphericalMixture([1.0], np.zeros((1, 5)), [1.0]))
    estimate = apolar.mixture_from_moments(exact, 3)
    assert estimate.status is MixtureStatus.WEAK_SIGNAL
    assert "fewer components" in estimate.message


@pytest.mark.skipif(compiled.kernels is None, reason="The kernels are not compiled.")
def test_the_compiled_joint_rotation_is_that_of_numpy(monkeypatch):
    # Matrices that are nearly diagonal in a common basis, as moments with sampling errors are.
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    noise = 0.05 * rng.standard_normal((6, 5, 5))
    matrices = (basis * rng.standard_normal((6, 1, 5))) @ basis.T + noise + np.swapaxes(noise, 1, 2)
    by_kernels = joint_rotation(matrices)
    monkeypatch.setattr(compiled, "kernels", None)
    # Sweeps end at sines of 1e-9.
    np.testing.assert_allclose(by_kernels, joint_rotation(matrices), rtol=0, atol=1e-8)


def test_joint_rotation_diagonalises():
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    matrices = np.array([rotation @ np.diag(d) @ rotation.T for d in rng.standard_normal((4, 5))])
    computed = joint_rotation(matrices)
    np.testing.assert_allclose(np.abs(computed.T @ rotation).max(axis=0), 1, atol=1e-10)
    np.testing.assert_allclose(computed.T @ computed, np.eye(5), atol=1e-12)


# --- bad input ---------------------------------------------------------------------------

X = np.random.default_rng(0).standard_normal((50, 3))


@pytest.mark.parametrize(
    ("rows", "n_components", "options", "error", "message"),
    [
        (X[:, :1], 4, {}, ValueError, "too many for moments up to order 6"),
        (X, 4, {"form": "paper"}, ValueError, "at most as many components as there are columns"),
        (X[:2], 3, {}, ValueError, "at least as many rows"),
        (X, 0, {}, ValueError, "n_components must be at least 1"),
        (X, 2.5, {}, TypeError, "n_components must be an integer"),
        (X, 2, {"form": "cumulants"}, ValueError, "form must be one of"),
        (np.ones((20, 3)), 2, {}, ValueError, "All rows are equal"),
        (np.full((20, 3), 0.1), 2, {"form": "paper"}, ValueError, "All rows are equal"),
        (np.full((20, 300), 0.1), 2, {}, ValueError, "All rows are equal"),
        (X[:, :2] @ np.ones((2, 300)), 5, {}, ValueError, "no noise"),
        (X[:2], 2, {}, ValueError, "too few"),
        (np.outer(np.arange(20.0), [1, 2, 3]), 2, {}, ValueError, "no noise"),
        (X, 2, {"sample_weight": np.zeros(50)}, ValueError, "all zero"),
        (X, 2, {"sample_weight": -np.ones(50)}, ValueError, "negative"),
        (apolar.MomentSketch(3).update(X), 2, {"sample_weight": np.ones(50)}, ValueError, "has its weights"),
        (apolar.MomentSketch(3), 2, {}, ValueError, "no rows"),
        (apolar.MomentSketch(3).update(X), 4, {}, ValueError, "make the sketch with order 4"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(rows, n_components, options, error, message):
    with pytest.raises(error, match=message):
        apolar.mixture_from_moments(rows, n_components, **options)


def test_bad_moments_and_mixtures_are_refused():
    moments = apolar.spherical_moments(X)
    with pytest.raises(TypeError, match="Moments"):
        apolar.recover(X, apolar.decompose("x^3"))
    with pytest.raises(ValueError, match="order 3 in 3 variables"):
        apolar.recover(moments, apolar.decompose("x^3 + y^3"))
    with pytest.raises(ValueError, match="without a frame"):
        apolar.spherical_moments(apolar.MomentSketch(3, frame=np.eye(3)[:, :2]).update(X))
    with pytest.raises(ValueError, match="sum one"):
        apolar.SphericalMixture([0.5, 0.6], np.zeros((2, 2)), [1, 1])
    with pytest.raises(ValueError, match="positive"):
        apolar.SphericalMixture([0.5, 0.5], np.zeros((2, 2)), [1, 0])
    with pytest.raises(ValueError, match="shape"):
        apolar.SphericalMixture([0.5, 0.5], np.zeros((3, 2)), [1, 1])
    with pytest.raises(ValueError, match="number must be one of"):
        apolar.datasets.make_example(3)


@pytest.mark.parametrize(
    ("family", "form", "is_sketch"),
    [
        ("spherical", "equivariant", False),
        ("spherical", "paper", True),
        ("diag", "equivariant", True),
        ("tied", "equivariant", False),
        ("full", "equivariant", True),
    ],
)
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


def test_weights_count_rows_in_the_spectrum():
    X = random_mixture(3, 6, seed=0).sample(60, 0)[0]
    counts = np.random.default_rng(0).integers(1, 5, size=60)
    weighted = apolar.n_components_from_spectrum(X, counts)
    repeated = apolar.n_components_from_spectrum(np.repeat(X, counts, axis=0))
    assert weighted.threshold == pytest.approx(repeated.threshold)
