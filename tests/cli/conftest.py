"""A table of flowers, and a model of it."""

import csv

import pytest

import apolar
from cli.commands import run


@pytest.fixture
def flowers(tmp_path):
    """Iris as a CSV file, in a folder of its own."""
    iris = apolar.datasets.load_iris()
    path = tmp_path / "flowers.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*iris.feature_names, "species"])
        writer.writerows(
            [*row, iris.target_names[target]]
            for row, target in zip(iris.data.tolist(), iris.target, strict=True)
        )
    return path


@pytest.fixture
def model(flowers, tmp_path):
    """A model of the flowers."""
    assert run("fit", flowers, "-k", 2, "--no-report", "-o", tmp_path / "m").exit_code == 0
    return tmp_path / "m" / "model.npz"
