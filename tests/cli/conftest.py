"""A table of flowers, and a model of it."""

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


@pytest.fixture
def model(flowers, tmp_path):
    """A model of the flowers."""
    succeed("fit", flowers, "-k", 2, "--no-report", "-o", tmp_path / "m")
    return tmp_path / "m" / "model.npz"
