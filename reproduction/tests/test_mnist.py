"""The zeros and ones of MNIST: rows, principal components, their description."""

from importlib import resources

import numpy as np
import pytest

from apolar.datasets import load_mnist01

# Absolute values in the first rows, and variances, of an independent computation of the same components.
FIRST_ROWS = [
    [8.313958803476293, 6.098147161892806, 1.3753022870745406, 1.2274755449417025, 3.692570288525676],
    [8.71312276474812, 1.182179501212889, 9.69584553057207, 3.4160171490145332, 2.7150088164078108],
    [7.6891301035247555, 2.7342444155888783, 8.357073991140119, 2.526343871355598, 2.5761842644158217],
]
VARIANCES = [100.1159625390776, 40.11806692464651, 26.363497781569848, 23.501010835664406, 16.38382797944784]
DATA = resources.files("apolar_reproduction").joinpath("data")


@pytest.fixture(scope="module")
def mnist01():
    return load_mnist01()


@pytest.fixture(scope="module")
def images():
    return load_mnist01(n_components=None)


def test_shapes_and_classes(mnist01, images):
    assert repr(mnist01) == "Dataset(mnist01: 12665 rows, 5 columns, 2 classes)"
    assert mnist01.data.shape == (12665, 5)
    assert images.data.shape == (12665, 784)
    assert mnist01.target_names == ("0", "1")
    assert np.bincount(mnist01.target).tolist() == [5923, 6742]
    assert mnist01.feature_names == ("pc1", "pc2", "pc3", "pc4", "pc5")
    assert (images.feature_names[0], images.feature_names[-1]) == ("pixel0", "pixel783")


def test_principal_components(mnist01):
    # The two computations differ by rounding, of 1e-12 in components of size 10.
    assert np.abs(mnist01.data[:3]) == pytest.approx(np.array(FIRST_ROWS), rel=1e-10)
    assert mnist01.data.var(axis=0) == pytest.approx(VARIANCES, rel=1e-10)
    assert mnist01.data.mean(axis=0) == pytest.approx(np.zeros(5), abs=1e-10)


def test_fewer_components_are_the_first_ones(mnist01):
    # The solver takes other steps for other numbers of components: equal up to rounding.
    assert load_mnist01(n_components=2).data == pytest.approx(mnist01.data[:, :2], abs=1e-9)


@pytest.mark.parametrize(
    ("n_components", "error", "message"),
    [
        (0, ValueError, "n_components must be at least 1"),
        (618, ValueError, "at most 617, .* not 618; pass None for the images"),
        (2.5, TypeError, "n_components must be an integer"),
        (True, TypeError, "n_components must be an integer"),
    ],
)
def test_bad_numbers_of_components(n_components, error, message):
    with pytest.raises(error, match=message):
        load_mnist01(n_components)


def test_origin_and_licence_are_stated():
    text = DATA.joinpath("README.md").read_text(encoding="utf-8")
    assert "- Origin:" in text
    assert "CC BY-SA 3.0" in text
    assert "CC BY-SA 3.0" in load_mnist01(1).description
