"""A table of flowers, and a model of it."""

import shutil

import pytest

import apolar
from cli.commands import succeed


@pytest.fixture
def flowers(tmp_path):
    """Iris as a CSV file, in a folder of its own."""
    iris = apolar.datasets.load_iris()
    lines = [
        ",".join([*map(repr, row), iris.target_names[target]])
        for row, target in zip(iris.data.tolist(), iris.target, strict=True)
    ]
    path = tmp_path / "flowers.csv"
    path.write_text("\n".join([",".join([*iris.feature_names, "species"]), *lines, ""]))
    return path


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """The results of a fit to the flowers."""
    folder = tmp_path_factory.mktemp("fitted")
    succeed("example", "iris", "-o", folder / "iris.csv")
    succeed("fit", folder / "iris.csv", "-k", 2, "--no-report", "-o", folder / "m")
    return folder / "m"


@pytest.fixture
def model(fitted, tmp_path):
    """A model of the flowers."""
    shutil.copytree(fitted, tmp_path / "m")
    return tmp_path / "m" / "model.npz"
