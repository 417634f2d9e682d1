"""Nothing is computed before it is asked for, and Dask is imported only for rows of Dask."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import apolar
from data.dask.blocks import COLUMNS, model, rows_of_block


def counted_source():
    loaded = []

    def load(i):
        loaded.append(i)
        return rows_of_block(200, i)

    return loaded, [dask.delayed(load)(i) for i in range(4)]


@pytest.mark.parametrize("form", ["array", "unknown", "dataframe"])
@pytest.mark.usefixtures("synchronous")
def test_predictions_are_lazy(form):
    fitted = model().fit(rows_of_block(900, 13))
    loaded, parts = counted_source()
    if form == "dataframe":
        meta = pd.DataFrame(np.empty((0, 4)), columns=COLUMNS)
        frames = [dask.delayed(pd.DataFrame)(part, columns=COLUMNS) for part in parts]
        lazy = dd.from_delayed(frames, meta=meta)
    else:
        size = 200 if form == "array" else np.nan
        lazy = da.concatenate([da.from_delayed(part, (size, 4), dtype=float) for part in parts])
    methods = "predict", "predict_proba", "score_samples", "outliers"
    results = [getattr(fitted, method)(lazy) for method in methods]
    assert not loaded
    assert all(isinstance(result, da.Array) and result.numblocks[0] == 4 for result in results)
    assert [result.ndim for result in results] == [1, 2, 1, 1]
    if form == "array":
        assert results[1].chunks == ((200,) * 4, (3,))
    labels = results[0].blocks[1].compute()
    assert loaded == [1]
    np.testing.assert_array_equal(labels, fitted.predict(rows_of_block(200, 1)))
    assert results[0].dtype == labels.dtype == np.int64


@pytest.mark.usefixtures("synchronous")
def test_rows_are_counted_once():
    loaded, parts = counted_source()
    lazy = da.concatenate([da.from_delayed(part, (np.nan, 4), dtype=float) for part in parts])
    apolar.spherical_moments(lazy)
    assert len(loaded) == 4
