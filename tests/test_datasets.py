"""The bundled data: shapes, classes, known differences, files and their description."""

from importlib import resources

import numpy as np
import pytest

from apolar.datasets import Dataset, load_diabetes, load_iris, load_olive

DATA = resources.files("apolar.datasets").joinpath("data")
README = DATA.joinpath("README.md").read_text(encoding="utf-8")
FILES = sorted(path.name for path in DATA.iterdir() if path.name != "README.md")


REGIONS = {"North-Apulia": 25, "Calabria": 56, "South-Apulia": 206, "Sicily": 36, "Inland-Sardinia": 65,
           "Coast-Sardinia": 33, "Umbria": 51, "East-Liguria": 50, "West-Liguria": 50}  # fmt: skip


@pytest.mark.parametrize(
    ("load", "name", "shape", "counts"),
    [
        (load_iris, "iris", (150, 4), {"setosa": 50, "versicolor": 50, "virginica": 50}),
        (lambda: load_iris("uci"), "iris_uci", (150, 4), {"setosa": 50, "versicolor": 50, "virginica": 50}),
        (load_diabetes, "diabetes", (145, 3), {"Normal": 76, "Chemical": 36, "Overt": 33}),
        (load_olive, "olive", (572, 8), {"Southern Italy": 323, "Sardinia": 98, "Northern Italy": 151}),
        (lambda: load_olive("region"), "olive", (572, 8), REGIONS),
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


def test_rows_are_those_of_the_files():
    settings = {"delimiter": ",", "names": True, "dtype": None, "encoding": "utf-8"}
    for dataset in (load_iris(), load_iris("uci"), load_diabetes(), load_olive(), load_olive("region")):
        table = np.genfromtxt(DATA.joinpath(f"{dataset.name}.csv").read_text().splitlines(), **settings)
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


def test_every_file_is_described():
    assert FILES == ["diabetes.csv", "iris.csv", "iris_uci.csv", "olive.csv"]
    sections = README.split("\n## ")[1:]
    assert sorted(section.split("\n")[0].strip("`") for section in sections) == FILES
    for section in sections:
        assert "- Origin:" in section
        assert "- Licence as known:" in section
    # Row 104 of mclust's copy is wrong; the references computed by mclust rest on it.
    assert load_diabetes().data[103].tolist() == [75, 45, 392]
    assert len({*zip(load_olive("area").target, load_olive("region").target, strict=True)}) == 9
    with pytest.raises(ValueError, match="version must be one of 'corrected', 'uci'"):
        load_iris("fisher")
    with pytest.raises(ValueError, match="target must be one of 'area', 'region'"):
        load_olive("country")
