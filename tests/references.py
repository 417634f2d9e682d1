"""Results of other programs, and the data they are of."""

import json
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "reference"
COLUMNS = {
    "iris.csv": range(4),
    "iris_uci.csv": range(4),
    "diabetes.csv": range(1, 4),
    "ex1_seed1.csv": range(6),
}
EM_CASES = sorted(path.stem for path in (FOLDER / "mclust").glob("em_*.json"))


def table(name):
    """Return the numbers of a bundled table."""
    return np.loadtxt(FOLDER / name, delimiter=",", skiprows=1, usecols=COLUMNS[name])


def mclust_case(name):
    """Return a reference of mclust, and its data, prepared as it says."""
    reference = json.loads((FOLDER / "mclust" / f"{name}.json").read_text())
    X = table(reference["data"])
    if reference["preprocessing"].startswith("R scale"):
        X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    return reference, X
