"""Results of other programs, and the data they are of."""

import json
from importlib import resources
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "reference"
BUNDLED = resources.files("apolar.datasets").joinpath("data")
COLUMNS = {
    "iris.csv": range(4),
    "iris_uci.csv": range(4),
    "diabetes.csv": range(1, 4),
    "ex1_seed1.csv": range(6),
}
EM_CASES = sorted(path.stem for path in (FOLDER / "mclust").glob("em_*.json"))


def table(name):
    """Return the numbers of a table of the package, or of one that only the tests have."""
    path = BUNDLED.joinpath(name) if BUNDLED.joinpath(name).is_file() else FOLDER / name
    with path.open(encoding="utf-8") as stream:
        return np.loadtxt(stream, delimiter=",", skiprows=1, usecols=COLUMNS[name])


def mclust_case(name):
    """Return a reference of mclust, and its data, prepared as it says."""
    reference = json.loads((FOLDER / "mclust" / f"{name}.json").read_text())
    X = table(reference["data"])
    if reference["preprocessing"].startswith("R scale"):
        X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    return reference, X
