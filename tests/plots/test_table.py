"""Tables of all kinds, and their columns."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from apolar.plots.views import TableView, chosen_columns
from plots.reading import three_clusters


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_dataframes_are_read_by_name(kind):
    X, labels = three_clusters()
    table = TableView.of(kind({"a": X[:, 0], "species": labels.astype(str), "b": X[:, 1]}))
    shown = chosen_columns(["b", "a"], table, None)
    assert shown == ([2, 0], ["b", "a"])
    np.testing.assert_array_equal(table.numbers(shown[0]), X[:, ::-1])


@pytest.mark.parametrize(
    ("columns", "positions"),
    [(None, [0, 1, 2, 3, 4]), (2, [0, 1]), (9, [0, 1, 2, 3, 4, 5]), ([4, 0, 2], [4, 0, 2]), ("f", [5])],
)
def test_columns_are_the_first_ones_or_those_asked_for(columns, positions):
    names = list("abcdef")
    shown = chosen_columns(columns, TableView.of(np.eye(6)), names)
    assert shown == (positions, [names[i] for i in positions])
