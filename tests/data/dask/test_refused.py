"""Bad rows, shapes and weights: the error is the same wherever the rows are."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import apolar
from data.dask.blocks import COLUMNS, model, rows_of_block


@pytest.mark.usefixtures("scheduler")
def test_errors_reach_the_user_as_themselves():
    X = rows_of_block(1000, 15)
    X[777, 2] = np.inf
    lazy = da.from_array(X, chunks=(300, 4))
    with pytest.raises(ValueError, match="NaN or infinity.*row 777, column 2"):
        model().fit(lazy)
    with pytest.raises(ValueError, match="NaN or infinity.*row 777, column 2"):
        model().fit(rows_of_block(900, 0)).predict(lazy).compute()
    with pytest.raises(ValueError, match="NaN or infinity"):
        model().fit(rows_of_block(900, 0)).score(lazy)
    with pytest.raises(ValueError, match="row 177, column 2.*counted from the first of partition 2"):
        model().fit(lazy[da.from_array(np.ones(1000, dtype=bool), chunks=300)])
    frame = pd.DataFrame({"a": np.arange(6.0), "b": list("abcdef")})
    with pytest.raises(TypeError, match="Column 'b' holds .*, not numbers: drop it"):
        model(2).fit(dd.from_pandas(frame, npartitions=2))
    frame["b"] = [1, 2, 3, 4, np.nan, 5]
    with pytest.raises(ValueError, match="NaN or infinity.*column"):
        apolar.spherical_moments(dd.from_pandas(frame, npartitions=2))


@pytest.mark.usefixtures("synchronous")
def test_shapes_that_are_no_table():
    wrong = da.map_blocks(lambda block: block[:, :1], da.zeros((4, 3), chunks=(2, 3)), dtype=float)
    for rows, message in (
        (da.zeros(10), "two-dimensional table; got shape \\(10,\\)"),
        (dd.from_pandas(pd.Series([1.0, 2.0]), npartitions=1), "two-dimensional table; got a series"),
        (dd.from_pandas(pd.DataFrame(index=[0, 1]), npartitions=1), "no columns"),
        (da.zeros((0, 3)), "X has no rows"),
        (wrong, "Partition 0 of X has 1 columns, not 3"),
    ):
        with pytest.raises(ValueError, match=message):
            model().fit(rows)
    with pytest.raises(TypeError, match="got Delayed"):
        model().fit(dask.delayed(1))
    for call in (apolar.spherical_moments, apolar.n_components_from_spectrum):
        with pytest.raises(ValueError, match="X has no rows"):
            call(da.zeros((4, 3), chunks=2)[da.zeros(4, chunks=2) > 0])
    with pytest.raises(ValueError, match="n_features_in_|features, but"):
        model().fit(rows_of_block(99, 0)).predict(da.zeros((4, 3)))


@pytest.mark.usefixtures("synchronous")
@pytest.mark.parametrize("n_rows", [0, 299, 301])
def test_blocks_of_another_length_than_their_chunks(n_rows):
    X = rows_of_block(1000, 15)
    blocks = [dask.delayed(X[:300]), dask.delayed(X[300 : 300 + n_rows]), dask.delayed(X[:300])]
    lazy = da.concatenate([da.from_delayed(block, (300, X.shape[1]), dtype=float) for block in blocks])
    fitted = model().fit(X)
    for use in (model().fit, apolar.MomentSketch(4).update, lambda rows: fitted.predict(rows).compute()):
        with pytest.raises(ValueError, match=f"Partition 1 of X has {n_rows} rows where its chunks say 300"):
            use(lazy)


@pytest.mark.usefixtures("scheduler")
def test_partitions_with_columns_in_another_order():
    frame = pd.DataFrame(rows_of_block(900, 0) + np.array([0, 10, 20, 30]), columns=COLUMNS)
    parts = [frame[:450], frame[450:][COLUMNS[::-1]]]
    mixed = dd.from_map(lambda i: parts[i], [0, 1], meta=frame[:0], enforce_metadata=False)
    for lazy in (mixed, mixed.persist()):
        with pytest.raises(ValueError, match="other columns than X, or in another order: d, c, b, a; a, b"):
            model().fit(lazy)
        with pytest.raises(ValueError, match="in another order.*by name in each part"):
            model().fit(frame).predict(lazy).compute()
    names = list(mixed.columns)
    sorted_again = mixed.map_partitions(lambda part: part[names])
    assert apolar.MomentSketch(4).update(sorted_again).central().mean == pytest.approx(frame.mean())


@pytest.mark.usefixtures("synchronous")
def test_weights_that_do_not_fit():
    X = da.from_array(rows_of_block(900, 16), chunks=(300, 4))
    for weights, message in (
        (np.ones(899), "sample_weight must have shape \\(900,\\)"),
        (da.ones(899, chunks=100), "sample_weight must have shape \\(900,\\)"),
        (dd.from_pandas(pd.DataFrame({"w": np.ones(900)}), npartitions=3), "one-dimensional"),
        (da.zeros(900), "weights of the rows are all zero"),
        (np.where(np.arange(900) == 500, -1.0, 1.0), "negative or not finite, from row 300"),
    ):
        with pytest.raises(ValueError, match=message):
            model().fit(X, sample_weight=weights)
    with pytest.raises(ValueError, match="negative or not finite"):
        model().fit(rows_of_block(900, 0)).score(X, sample_weight=np.full(900, np.nan))
    frame = dd.from_pandas(pd.DataFrame(rows_of_block(90, 0), columns=COLUMNS), npartitions=3)
    other = dd.from_pandas(pd.Series(np.ones(100)), npartitions=3)
    with pytest.raises(ValueError, match="Partition 0 has 30 rows"):
        model().fit(frame, sample_weight=other)


@pytest.mark.usefixtures("synchronous")
def test_streams_take_partitions_one_by_one():
    lazy = da.from_array(rows_of_block(900, 18), chunks=(300, 4))
    with pytest.raises(ValueError, match="X.partitions\\[i\\].compute"):
        model().partial_fit(lazy)
    assert model().partial_fit(lazy.partitions[0].compute()).n_samples_seen_ == 300
