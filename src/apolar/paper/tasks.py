"""The data of the paper's tables, prepared as the printed values show that the paper prepared them."""

from __future__ import annotations

import numpy as np

from apolar.datasets import (
    Dataset,
    example_mixture,
    load_diabetes,
    load_iris,
    load_mnist01,
    load_olive,
    make_example,
)
from apolar.paper.methods import Task

N_ROWS = 1000
"""Rows of a simulated data set."""

_DRAWN = "1000 rows drawn from Example {}; the paper's draw is not published, its values are of another one"
PREPARATION = {
    "table1": _DRAWN.format(1),
    "table2": _DRAWN.format(2),
    "table7": "the UCI copy, columns divided by their sample deviations",
    "table8": "as it is",
    "table9": "three areas; columns divided by their sample deviations",
    "table10": "617 pixels that vary, divided by their population deviations; five principal components",
}
"""How the data of each table are prepared.

A shift of the data changes nothing for EM, k-means and hierarchical clustering: for them this is the
standardisation that the paper's values show. It does change the paper's moments, which need an origin other
than the mean: with the columns divided but not centred `em_mom` gives the values printed for olive oil and
MNIST.
"""


def task_of(label: str, seed: int) -> Task:
    """Return the data of a table.

    Parameters
    ----------
    label : str
        Of a table of one data set.
    seed : int
        Of the simulated data.

    Returns
    -------
    task : Task
    """
    if label in ("table1", "table2"):
        number = int(label.removeprefix("table"))
        return simulated(number, np.random.default_rng([number, seed]))
    if label == "table7":
        return _task(load_iris("uci"), divide=True)
    if label == "table8":
        return _task(load_diabetes())
    if label == "table9":
        return _task(load_olive("area"), divide=True)
    return _task(load_mnist01(5, centred=False))


def simulated(example: int, rng: np.random.Generator) -> Task:
    """Return rows drawn from one of the paper's examples."""
    truth = example_mixture(example)
    X, labels = make_example(example, N_ROWS, random_state=rng)
    return Task(X, labels, truth.n_components, tuple(f"x{i + 1}" for i in range(X.shape[1])), truth=truth)


def _task(dataset: Dataset, *, divide: bool = False) -> Task:
    X = dataset.data / dataset.data.std(axis=0, ddof=1) if divide else dataset.data
    return Task(X, dataset.target, len(dataset.target_names), dataset.feature_names, dataset.target_names)
