"""Eigenvalues and the noise, read back from the axes."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

import apolar
from apolar.plots import spectrum
from plots.reading import FAMILIES, blank, check_texts, fitted, legend, note


@pytest.fixture(scope="module")
def X():
    return apolar.datasets.make_example(1, 10_000, random_state=0)[0]


def dots(axes):
    """Return the eigenvalues that are filled, and those that are not."""
    filled, hollow = np.zeros(0), np.zeros(0)
    for line in axes.lines:
        if line.get_marker() == "o":
            if to_hex(line.get_markerfacecolor()) == "#ffffff":
                hollow = line.get_ydata()
            else:
                filled = line.get_ydata()
    return filled, hollow


def level(axes):
    (line,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    (value,) = set(line.get_ydata())
    return value


def band(axes):
    (patch,) = axes.patches
    box = patch.get_extents().transformed(axes.transData.inverted())
    return box.y0, box.y1


def test_eigenvalues_and_noise_are_those_that_are_counted(X):
    axes, count = spectrum(X), apolar.n_components_from_spectrum(X)
    filled, hollow = dots(axes)
    np.testing.assert_array_equal(np.concatenate([filled, hollow]), count.spectrum)
    assert len(filled) == count.n_components - 1 == 3
    assert level(axes) == count.noise_level
    low, high = band(axes)
    np.testing.assert_allclose(high, count.threshold)
    # The two ends of the noise are as far from its level, in square roots, by Marchenko and Pastur.
    np.testing.assert_allclose(np.sqrt([low, high]).mean(), np.sqrt(count.noise_level))
    assert axes.get_title() == "The eigenvalues show 4 components"
    assert note(axes) == count.message
    assert legend(axes) == [
        f"noise alone: {low:.3g} to {high:.3g}",
        f"mean of noise: {count.noise_level:.3g}",
        "out of the noise (3)",
        "noise (3)",
    ]
    # A stem for each dot, from the bottom.
    stems = [line for line in axes.lines if line.get_marker() == "None" and line.get_linestyle() == "-"]
    tops = np.concatenate([line.get_ydata().reshape(-1, 3) for line in stems])
    np.testing.assert_array_equal(tops[:, 1], count.spectrum)
    assert set(tops[:, 0]) == {0.0}
    check_texts(axes)
    sketch = apolar.MomentSketch(6).update(X)
    for same in (sketch, count, pd.DataFrame(X), [X[:4000], X[4000:]]):
        np.testing.assert_allclose(np.concatenate(dots(spectrum(same, ax=blank()))), count.spectrum)


@pytest.mark.parametrize("n_components", [1, 2, 6])
def test_the_number_of_components_can_be_given(X, n_components):
    axes = spectrum(X, n_components=n_components, ax=blank())
    values = apolar.n_components_from_spectrum(X).spectrum
    filled, hollow = dots(axes)
    assert (len(filled), len(hollow)) == (n_components - 1, 7 - n_components)
    np.testing.assert_allclose(level(axes), values[n_components - 1 :].mean())
    edge = (1 + np.sqrt((7 - n_components) / (10_000 / 3))) ** 2
    np.testing.assert_allclose(band(axes)[1], level(axes) * edge)
    assert f"taken as {n_components} component" in axes.get_title()
    assert "By themselves the eigenvalues show 4 components." in note(axes)


def test_it_is_said_if_noise_is_taken_for_components():
    X = np.random.default_rng(0).normal(size=(500, 8))
    axes = spectrum(X, ax=blank())
    assert axes.get_title() == "The eigenvalues show 1 component"
    assert note(axes).startswith("1 component (")
    assert legend(axes)[-1] == "noise (8)"
    axes = spectrum(X, n_components=3, ax=blank())
    assert np.count_nonzero(dots(axes)[0] <= band(axes)[1]) == 2
    assert note(axes).startswith("2 of the 2 filled are no larger than what noise alone gives.")


def test_many_eigenvalues_are_cut_and_wide_ones_logarithmic():
    X = np.random.default_rng(0).normal(size=(5000, 60)) * np.geomspace(1000, 1, 60)
    axes = spectrum(X)
    assert sum(map(len, dots(axes))) == 40
    assert "Shown: the largest 40 of 60 eigenvalues." in note(axes)
    assert (axes.get_yscale(), axes.get_ylabel()) == ("log", "eigenvalue (logarithmic scale)")
    assert "All eigenvalues except the last are above the noise" in note(axes)
    check_texts(axes)


@pytest.mark.parametrize("kind", [*FAMILIES, None])
def test_the_eigenvalues_of_a_mixture(kind):
    mixture = apolar.datasets.example_mixture(1)
    weights, means, covariances = mixture.weights, mixture.means, mixture.covariances
    model = mixture if kind is None else fitted(kind)
    if kind is not None:
        weights, means, covariances = model.weights_, model.means_, np.asarray(model.covariances_)
    axes = spectrum(model, ax=blank())
    matrices = apolar.mixture.families.family(model.covariance_type).matrices(covariances, *means.shape)
    offsets = means - weights @ means
    covariance = np.einsum("k,kij->ij", weights, matrices + offsets[:, :, None] * offsets[:, None])
    filled, hollow = dots(axes)
    np.testing.assert_allclose(np.concatenate([filled, hollow]), np.linalg.eigvalsh(covariance)[::-1])
    np.testing.assert_allclose(level(axes), hollow.mean())
    r, m = means.shape
    assert legend(axes)[1:] == [f"span of the means ({r - 1})", f"the others ({m - r + 1})"]
    assert not axes.patches
    assert "of the mixture itself, not of rows" in note(axes)
    assert axes.get_title() == f"Eigenvalues of a mixture of {r} components"
    assert len(dots(spectrum(model, n_components=2, ax=blank()))[0]) == 1


def test_more_components_than_columns_leave_no_noise():
    mixture = apolar.SphericalMixture([0.5, 0.3, 0.2], [[0.0], [1.0], [5.0]], [1.0, 1.0, 1.0])
    axes = spectrum(mixture, ax=blank())
    assert len(dots(axes)[1]) == 0
    assert legend(axes) == ["span of the means (1)"]
    assert "more components than columns" in note(axes)
