"""The bundled data: shapes, classes, known differences, principal components, files and their description."""

from importlib import resources

import numpy as np
import pytest

from apolar.datasets import Dataset, load_diabetes, load_iris, load_mnist01, load_olive

DATA = resources.files("apolar.datasets").joinpath("data")
README = DATA.joinpath("README.md").read_text(encoding="utf-8")
FILES = sorted(path.name for path in DATA.iterdir() if path.name != "README.md")

# Absolute values in the first rows, and variances, of an independent computation of the same components.
FIRST_ROWS = [
    [8.313958803476293, 6.098147161892806, 1.3753022870745406, 1.2274755449417025, 3.692570288525676],
    [8.71312276474812, 1.182179501212889, 9.69584553057207, 3.4160171490145332, 2.7150088164078108],
    [7.6891301035247555, 2.7342444155888783, 8.357073991140119, 2.526343871355598, 2.5761842644158217],
]
VARIANCES = [100.1159625390776, 40.11806692464651, 26.363497781569848, 23.501010835664406, 16.38382797944784]


@pytest.fixture(scope="module")
def mnist01():
    return load_mnist01()


@pytest.fixture(scope="module")
def images():
    return load_mnist01(n_components=None)


@pytest.mark.parametrize(
    ("load", "name", "shape", "counts"),
    [
        (load_iris, "iris", (150, 4), {"setosa": 50, "versicolor": 50, "virginica": 50}),
        (lambda: load_iris("uci"), "iris_uci", (150, 4), {"setosa": 50, "versicolor": 50, "virginica": 50}),
        (load_diabetes, "diabetes", (145, 3), {"Normal": 76, "Chemical": 36, "Overt": 33}),
        (load_olive, "olive", (572, 8), {"Southern Italy": 323, "Sardinia": 98, "Northern Italy": 151}),
        (
            lambda: load_olive("region"),
            "olive",
            (572, 8),
            {
                "North-Apulia": 25,
                "Calabria": 56,
                "South-Apulia": 206,
                "Sicily": 36,
                "Inland-Sardinia": 65,
                "Coast-Sardinia": 33,
                "Umbria": 51,
                "East-Liguria": 50,
                "West-Liguria": 50,
            },
        ),
        (load_mnist01, "mnist01", (12665, 5), {"0": 5923, "1": 6742}),
    ],
)
def test_shapes_and_classes(load, name, shape, counts):
    dataset = load()
    assert isinstance(dataset, Dataset)
    assert dataset.name == name
    assert repr(dataset) == f"Dataset({name}: {shape[0]} rows, {shape[1]} columns, {len(counts)} classes)"
    assert dataset.data.shape == shape
    assert len(dataset.feature_names) == shape[1]
    assert dataset.target.shape == shape[:1]
    assert (dataset.data.dtype, dataset.target.dtype) == (np.float64, np.int64)
    assert np.all(np.isfinite(dataset.data))
    assert dataset.target_names == tuple(counts)
    assert np.bincount(dataset.target).tolist() == list(counts.values())
    assert "Licence" in dataset.description


def test_feature_names(mnist01, images):
    assert load_iris().feature_names == ("sepal_length", "sepal_width", "petal_length", "petal_width")
    assert load_diabetes().feature_names == ("glucose", "insulin", "sspg")
    assert load_olive().feature_names == (
        "palmitic",
        "palmitoleic",
        "stearic",
        "oleic",
        "linoleic",
        "linolenic",
        "arachidic",
        "eicosenoic",
    )
    assert mnist01.feature_names == ("pc1", "pc2", "pc3", "pc4", "pc5")
    assert images.feature_names[0] == "pixel0"
    assert images.feature_names[-1] == "pixel783"


def test_rows_are_those_of_the_files():
    for dataset in (load_iris(), load_iris("uci"), load_diabetes(), load_olive(), load_olive("region")):
        table = np.genfromtxt(
            DATA.joinpath(f"{dataset.name}.csv").read_text().splitlines(),
            delimiter=",",
            names=True,
            dtype=None,
            encoding="utf-8",
        )
        for column, name in enumerate(dataset.feature_names):
            assert np.array_equal(dataset.data[:, column], table[name])
        classes = np.array(dataset.target_names)[dataset.target]
        assert any(np.array_equal(classes, table[name]) for name in table.dtype.names)


def test_iris_versions_differ_where_the_readme_says():
    corrected, uci = load_iris(), load_iris("uci")
    differences = {
        (row + 1, corrected.feature_names[column], corrected.data[row, column], uci.data[row, column])
        for row, column in np.argwhere(corrected.data != uci.data)
    }
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in README.splitlines()]
    documented = {
        (int(row[0]), row[1], float(row[2]), float(row[3]))
        for row in cells
        if len(row) == 4 and row[0].isdigit()
    }
    assert differences == documented
    assert len(differences) == 3
    assert uci.data[34].tolist() == uci.data[37].tolist() == [4.9, 3.1, 1.5, 0.1]
    assert np.array_equal(corrected.target, uci.target)


def test_diabetes_has_the_flaw_of_mclust():
    # Row 104 of mclust's copy; the references computed by mclust rest on it.
    assert load_diabetes().data[103].tolist() == [75, 45, 392]


def test_olive_shares_add_up():
    total = load_olive().data.sum(axis=1)
    assert total.min() > 98.1
    assert total.max() < 101.1


def test_olive_regions_lie_within_areas():
    pairs = {*zip(load_olive("area").target.tolist(), load_olive("region").target.tolist(), strict=True)}
    assert len(pairs) == 9


def test_principal_components(mnist01):
    # The two computations differ by rounding, of 1e-12 in components of size 10.
    assert np.abs(mnist01.data[:3]) == pytest.approx(np.array(FIRST_ROWS), rel=1e-10)
    assert mnist01.data.var(axis=0) == pytest.approx(VARIANCES, rel=1e-10)
    assert mnist01.data.mean(axis=0) == pytest.approx(np.zeros(5), abs=1e-10)


def test_principal_axes(mnist01, images):
    pixels = images.data[:, images.data.std(axis=0) > 0]
    assert pixels.shape[1] == 617
    standardised = (pixels - pixels.mean(axis=0)) / pixels.std(axis=0)
    # Components over their variance are the axes: unit vectors, the largest entry of each above zero.
    axes = standardised.T @ mnist01.data / (len(pixels) * mnist01.data.var(axis=0))
    assert axes.T @ axes == pytest.approx(np.eye(5), abs=1e-10)
    assert np.all(axes.max(axis=0) == np.abs(axes).max(axis=0))
    assert standardised @ axes == pytest.approx(mnist01.data, abs=1e-9)


def test_fewer_components_are_the_first_ones(mnist01):
    # The solver takes other steps for other numbers of components: equal up to rounding.
    assert load_mnist01(n_components=2).data == pytest.approx(mnist01.data[:, :2], abs=1e-9)


def test_images_are_grey_levels(images):
    assert images.data.shape == (12665, 784)
    assert images.data.dtype == np.float64
    assert (images.data.min(), images.data.max()) == (0, 255)
    assert np.array_equal(images.data, np.round(images.data))


@pytest.mark.parametrize(
    ("load", "error", "message"),
    [
        (lambda: load_iris("fisher"), ValueError, "version must be one of 'corrected', 'uci'"),
        (lambda: load_olive("country"), ValueError, "target must be one of 'area', 'region'"),
        (lambda: load_mnist01(0), ValueError, "n_components must be at least 1"),
        (lambda: load_mnist01(618), ValueError, "at most 617, .* not 618; pass None for the images"),
        (lambda: load_mnist01(2.5), TypeError, "n_components must be an integer"),
        (lambda: load_mnist01(True), TypeError, "n_components must be an integer"),
    ],
)
def test_bad_arguments(load, error, message):
    with pytest.raises(error, match=message):
        load()


@pytest.mark.parametrize(
    "load", [load_iris, load_diabetes, load_olive, lambda: load_mnist01(1), lambda: load_mnist01(None)]
)
def test_changes_stay_with_the_caller(load):
    dataset = load()
    data, target = dataset.data.copy(), dataset.target.copy()
    dataset.data[:] = -1
    dataset.target[:] = -1
    again = load()
    assert np.array_equal(again.data, data)
    assert np.array_equal(again.target, target)


def test_dataset_is_frozen_and_compared_by_identity():
    dataset = load_iris()
    with pytest.raises(AttributeError):
        dataset.name = "other"
    assert dataset in {dataset}
    assert dataset != load_iris()


def test_no_pickle_is_needed():
    with (
        DATA.joinpath("mnist01.npz").open("rb") as stream,
        np.load(stream, allow_pickle=False) as arrays,
    ):
        kinds = {name: (arrays[name].dtype, arrays[name].shape) for name in arrays.files}
        index = arrays["index"]
    assert kinds == {
        "images": (np.uint8, (12665, 784)),
        "labels": (np.uint8, (12665,)),
        "index": (np.int32, (12665,)),
    }
    assert np.all(np.diff(index) > 0)
    assert index[-1] < 60_000


def test_every_file_is_described():
    assert FILES == ["diabetes.csv", "iris.csv", "iris_uci.csv", "mnist01.npz", "olive.csv"]
    sections = README.split("\n## ")[1:]
    assert sorted(section.split("\n")[0].strip("`") for section in sections) == FILES
    for section in sections:
        assert "- Origin:" in section
        assert "- Licence as known:" in section


def test_mnist_with_its_mean_is_the_same_shifted():
    centred, shifted = load_mnist01(3).data, load_mnist01(3, centred=False).data
    offsets = shifted - centred
    np.testing.assert_allclose(offsets, np.broadcast_to(offsets[0], offsets.shape), atol=1e-9)
    assert np.abs(shifted.mean(axis=0)).min() > 0.5
