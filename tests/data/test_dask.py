"""Dask: every scheduler gives what NumPy gives, lazily, with little traffic, and survives a lost worker."""

import gc
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, wait
from distributed.comm import tcp
from scipy import sparse

import apolar
from apolar import GaussianMixture
from apolar.data import open_rows
from apolar.data.dask.rows import DaskRows
from apolar.selection import select

# The same arithmetic in another order: sums differ by rounding. EM ends a few hundredths of a standard error,
# here 1e-4, from the maximum, and where in there depends on the rounding of all sums before: its last steps
# take differences of gradients over 1e-4. A block that is lost, or counted twice, moves parameters by 1e-3.
CLOSE = 1e-6
COLUMNS = ["a", "b", "c", "d"]


def rows_of_block(n_rows, seed, n_features=4):
    rng = np.random.default_rng(seed)
    means = 4 * np.random.default_rng(17).standard_normal((3, n_features))
    labels = rng.choice(3, n_rows, p=[0.5, 0.3, 0.2])
    spreads = np.array([0.8, 1.0, 1.3])[labels, None]
    return means[labels] + spreads * rng.standard_normal((n_rows, n_features))


def _generated(block_id=None, n_rows=0, n_features=4):
    return rows_of_block(n_rows, block_id[0], n_features)


def generated(n_rows, n_blocks, n_features=4):
    """Return an array whose blocks can be made again wherever they are lost."""
    size = n_rows // n_blocks
    return da.map_blocks(
        _generated,
        chunks=((size,) * n_blocks, (n_features,)),
        n_rows=size,
        n_features=n_features,
        dtype=float,
        meta=np.empty((0, n_features)),
    )


def a_cluster():
    return LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=None,
        silence_logs=logging.CRITICAL,
    )


@pytest.fixture(scope="module")
def client():
    with a_cluster() as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(params=["sync", "threads", "cluster"])
def engine(request):
    if request.param != "cluster":
        with dask.config.set(scheduler=request.param):
            yield request.param
        return
    with request.getfixturevalue("client").as_current():
        yield request.param


@pytest.fixture
def here():
    with dask.config.set(scheduler="sync"):
        yield


def model(n_components=3, **parameters):
    return GaussianMixture(n_components, random_state=0, **parameters)


def assert_same_mixture(one, two):
    for name in ("weights_", "means_", "covariances_", "lower_bound_"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=CLOSE, atol=CLOSE)
    assert (one.n_iter_, one.start_) == (two.n_iter_, two.start_)
    assert one.n_samples_seen_ == pytest.approx(two.n_samples_seen_)


# --- the same as in memory ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["spherical", "full"])
@pytest.mark.usefixtures("engine")
def test_a_fit_is_that_of_the_rows_in_memory(kind):
    X = rows_of_block(7000, 0)
    lazy = da.from_array(X, chunks=(1500, 3))
    ours, theirs = model(covariance_type=kind).fit(lazy), model(covariance_type=kind).fit(X)
    assert_same_mixture(ours, theirs)
    np.testing.assert_array_equal(ours.predict(lazy).compute(), theirs.predict(X))
    np.testing.assert_allclose(ours.predict_proba(lazy).compute(), theirs.predict_proba(X), atol=CLOSE)
    np.testing.assert_allclose(ours.score_samples(lazy).compute(), theirs.score_samples(X), atol=1e-6)
    for name in ("score", "bic", "aic", "icl"):
        assert getattr(ours, name)(lazy) == pytest.approx(getattr(theirs, name)(X), rel=1e-9)


@pytest.mark.parametrize("kind", ["diag", "tied", "tied_spherical"])
@pytest.mark.parametrize("n_rows", [900, 6000])
@pytest.mark.usefixtures("here")
def test_few_rows_and_other_families(kind, n_rows):
    X = rows_of_block(n_rows, 1)
    ours = model(covariance_type=kind).fit(da.from_array(X, chunks=(400, 4)))
    assert_same_mixture(ours, model(covariance_type=kind).fit(X))


@pytest.mark.usefixtures("engine")
def test_a_dataframe_with_weights_of_its_own():
    X = rows_of_block(5500, 2)
    frame = pd.DataFrame(X, columns=COLUMNS)
    frame["w"] = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
    lazy = dd.from_pandas(frame, npartitions=4)
    ours = model(covariance_type="spherical").fit(lazy[COLUMNS], sample_weight=lazy["w"])
    theirs = model(covariance_type="spherical").fit(frame[COLUMNS], sample_weight=frame["w"])
    assert_same_mixture(ours, theirs)
    assert list(ours.feature_names_in_) == COLUMNS
    labels = ours.predict(lazy[COLUMNS])
    assert isinstance(labels, da.Array)
    np.testing.assert_array_equal(labels.compute(), theirs.predict(frame[COLUMNS]))
    assert ours.score(lazy[COLUMNS], sample_weight=lazy["w"]) == pytest.approx(
        theirs.score(frame[COLUMNS], sample_weight=frame["w"])
    )
    with pytest.raises(ValueError, match="feature names should match"):
        ours.predict(lazy[COLUMNS[::-1]])


@pytest.mark.parametrize(
    "form", ["array in memory", "same chunks", "other chunks", "unknown chunks", "series"]
)
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.usefixtures("here")
def test_weights_of_every_form(form, unknown):
    X = rows_of_block(1200, 3)
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    lazy = da.from_array(X, chunks=(500, 4))
    lazy = lazy[da.from_array(np.ones(len(X), dtype=bool), chunks=500)] if unknown else lazy
    given = {
        "array in memory": weights,
        "same chunks": da.from_array(weights, chunks=500),
        "other chunks": da.from_array(weights, chunks=350),
        "unknown chunks": da.from_array(weights, chunks=350)[da.from_array(weights, chunks=350) > -1],
        "series": dd.from_pandas(pd.Series(weights), npartitions=2),
    }[form]
    ours = model(covariance_type="diag").fit(lazy, sample_weight=given)
    assert_same_mixture(ours, model(covariance_type="diag").fit(X, sample_weight=weights))


@pytest.mark.usefixtures("engine")
def test_unknown_chunk_sizes_and_empty_partitions():
    X = rows_of_block(6000, 4)
    kept = (np.arange(len(X)) < 2000) | (np.arange(len(X)) >= 4500)
    kept[0:1000] = False
    lazy = da.from_array(X, chunks=(1000, 4))[da.from_array(kept, chunks=1000)]
    assert np.isnan(lazy.shape[0])
    ours, theirs = model().fit(lazy), model().fit(X[kept])
    assert_same_mixture(ours, theirs)
    np.testing.assert_array_equal(ours.predict(lazy).compute(), theirs.predict(X[kept]))
    assert ours.predict_proba(lazy).compute().shape == (kept.sum(), 3)
    assert ours.bic(lazy) == pytest.approx(theirs.bic(X[kept]))


def test_processes():
    X = rows_of_block(1500, 5)
    lazy = da.from_array(X, chunks=(500, 4))
    pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    with pool, dask.config.set(scheduler="processes", pool=pool):
        ours = model(covariance_type="spherical").fit(lazy)
    assert_same_mixture(ours, model(covariance_type="spherical").fit(X))


@pytest.mark.usefixtures("engine")
def test_moments():
    X = rows_of_block(4000, 6) + 1e3
    weights = np.random.default_rng(2).random(len(X))
    lazy, lazy_weights = da.from_array(X, chunks=(1100, 4)), da.from_array(weights, chunks=700)
    ours = apolar.mixture_from_moments(lazy, 3, sample_weight=lazy_weights)
    theirs = apolar.mixture_from_moments(X, 3, sample_weight=weights)
    np.testing.assert_allclose(ours.means, theirs.means, rtol=1e-7)
    ours, theirs = apolar.spherical_moments(lazy), apolar.spherical_moments(X)
    np.testing.assert_allclose(ours.third.coefficients, theirs.third.coefficients, rtol=1e-9)
    ours, theirs = apolar.n_components_from_spectrum(lazy), apolar.n_components_from_spectrum(X)
    np.testing.assert_allclose(ours.spectrum, theirs.spectrum, rtol=1e-9)
    assert ours.n_components == theirs.n_components
    sketch = apolar.MomentSketch(4).update(X[:100]).update(lazy[100:], lazy_weights[100:])
    both = apolar.MomentSketch(4).update(X[:100]).update(X[100:], weights[100:])
    assert (sketch.n_rows, len(X)) == (both.n_rows, len(X))
    np.testing.assert_allclose(sketch.central().covariance, both.central().covariance, rtol=1e-9)


@pytest.mark.parametrize("engine", ["sync", "cluster"], indirect=True)
@pytest.mark.parametrize("kind", ["spherical", "diag"])
@pytest.mark.usefixtures("engine")
def test_many_rows_are_approached_by_the_same_samples(kind, monkeypatch):
    # Overlapping clusters, so that the samples matter; several are fetched, or thinned where they are.
    monkeypatch.setattr("apolar.estimator.fit.LEAST_SAMPLE", 2000)
    X = 0.3 * rows_of_block(60_000, 7) + np.random.default_rng(3).standard_normal((60_000, 4))
    lazy = da.from_array(X, chunks=(13_000, 4))
    assert_same_mixture(model(covariance_type=kind).fit(lazy), model(covariance_type=kind).fit(X))


def test_thinned_rows_stay_where_they_are(client):
    X = rows_of_block(200_000, 8)
    weights = np.random.default_rng(4).integers(0, 3, len(X)).astype(float)
    kept = weights > 0
    theirs = open_rows(X[kept], weights[kept]).systematic_sample(5)
    with client.as_current():
        ours = open_rows(da.from_array(X, chunks=(30_000, 4)), weights).systematic_sample(5)
        assert ours.is_distributed
        parts = list(ours.read(2**30))
        assert ours.n_rows == theirs.n_rows
    whole, whole_weights = theirs.take(slice(None))
    # The same rows, by worker: sums do not ask for their order.
    found = np.column_stack([np.concatenate([part[i] for part in parts]) for i in (0, 1)])
    expected = np.column_stack([whole, whole_weights])
    np.testing.assert_array_equal(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])


@pytest.mark.usefixtures("here")
def test_rows_are_taken_by_number():
    X = rows_of_block(1000, 9)
    rows = open_rows(da.from_array(X, chunks=(300, 4)))
    positions = np.array([999, 0, 300, 299, 5])
    np.testing.assert_array_equal(rows.take(positions)[0], X[positions])
    np.testing.assert_array_equal(rows.take(slice(250, 900, 7))[0], X[250:900:7])
    assert rows.take(positions[:0])[0].shape == (0, 4)
    changed = rows.map(lambda values, weights: (values * 2, weights))
    np.testing.assert_array_equal(changed.take(positions)[0], 2 * X[positions])
    np.testing.assert_array_equal(np.concatenate([v for v, _ in changed.read(70)]), 2 * X)


@pytest.mark.usefixtures("here")
def test_sparse_blocks():
    X = rows_of_block(1500, 10)
    X[np.abs(X) < 0.5] = 0
    lazy = da.from_array(X, chunks=(400, 4)).map_blocks(sparse.csr_array)
    ours, theirs = model().fit(lazy), model().fit(sparse.csr_array(X))
    assert_same_mixture(ours, theirs)
    np.testing.assert_array_equal(ours.predict(lazy).compute(), theirs.predict(X))


@pytest.mark.usefixtures("here")
def test_numbers_of_other_kinds():
    X = np.round(rows_of_block(900, 11), 2)
    theirs = model().fit(X)
    for other in (X.astype(object), np.ma.masked_array(X)):
        assert_same_mixture(model().fit(da.from_array(other, chunks=(300, 4))), theirs)
    single = X.astype(np.float32)
    assert_same_mixture(model().fit(da.from_array(single, chunks=(300, 4))), model().fit(single))


def test_a_fit_inside_a_task_is_as_everywhere(client):
    X = rows_of_block(900, 12)
    inside = client.submit(lambda X: (apolar.__file__, model().fit(X)), X).result()
    assert inside[0] == apolar.__file__
    assert_same_mixture(inside[1], model().fit(X))


def test_fits_in_all_threads_of_a_cluster_at_once(client):
    """Each waits for tasks of its own: threads that wait must not be in the way."""
    X = rows_of_block(4000, 12)

    def nested():
        return model().fit(da.from_array(X, chunks=(1000, 4))).means_

    futures = [client.submit(nested, key=f"nested-{i}") for i in range(4)]
    expected = model().fit(X).means_
    for found in client.gather(futures):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_nothing_stays_on_the_cluster(client):
    def n_held():
        return sum(len(keys) for keys in client.has_what().values())

    before = n_held()
    X = rows_of_block(40_000, 3)
    bad = X.copy()
    bad[-1, 0] = np.nan
    with client.as_current():
        lazy = da.from_array(X, chunks=(5000, 4)).persist()
        model().fit(lazy)
        del lazy
        lazy = da.from_array(bad, chunks=(5000, 4)).persist()
        with pytest.raises(ValueError, match="row 39999, column 0"):
            model().fit(lazy)
        del lazy
    deadline = time.monotonic() + 20
    while n_held() > before:
        assert time.monotonic() < deadline
        gc.collect()
        time.sleep(0.05)


# --- lazily -----------------------------------------------------------------------------------


def counted_source():
    loaded = []

    def load(i):
        loaded.append(i)
        return rows_of_block(200, i)

    return loaded, [dask.delayed(load)(i) for i in range(4)]


@pytest.mark.parametrize("form", ["array", "unknown", "frame"])
@pytest.mark.usefixtures("here")
def test_predictions_are_lazy(form):
    fitted = model().fit(rows_of_block(900, 13))
    loaded, parts = counted_source()
    if form == "frame":
        meta = pd.DataFrame(np.empty((0, 4)), columns=COLUMNS)
        frames = [dask.delayed(pd.DataFrame)(part, columns=COLUMNS) for part in parts]
        lazy = dd.from_delayed(frames, meta=meta)
    else:
        size = 200 if form == "array" else np.nan
        lazy = da.concatenate([da.from_delayed(part, (size, 4), dtype=float) for part in parts])
    answers = [fitted.predict(lazy), fitted.predict_proba(lazy), fitted.score_samples(lazy)]
    assert not loaded
    assert all(isinstance(answer, da.Array) and answer.numblocks[0] == 4 for answer in answers)
    assert [answer.ndim for answer in answers] == [1, 2, 1]
    if form == "array":
        assert answers[1].chunks == ((200,) * 4, (3,))
    part = answers[0].blocks[1].compute()
    assert loaded == [1]
    np.testing.assert_array_equal(part, fitted.predict(rows_of_block(200, 1)))
    assert answers[0].dtype == part.dtype == np.int64


@pytest.mark.usefixtures("here")
def test_rows_are_counted_once_and_only_for_a_fit():
    loaded, parts = counted_source()
    lazy = da.concatenate([da.from_delayed(part, (np.nan, 4), dtype=float) for part in parts])
    apolar.spherical_moments(lazy)
    assert len(loaded) == 4
    repr(open_rows(lazy))
    assert len(loaded) == 4


def test_importing_the_package_leaves_dask_alone():
    code = "import sys, apolar; sys.exit('dask' in sys.modules or 'distributed' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- what travels -------------------------------------------------------------------------------


@pytest.fixture
def traffic(monkeypatch):
    """Return bytes that client and scheduler, both in this process, have sent and received since the start.

    What they say to each other is in both.
    """
    counts = {"sent": 0, "received": 0}
    write, read = tcp.TCP.write, tcp.read_bytes_rw

    async def counting_write(self, *args, **kwargs):
        n_bytes = await write(self, *args, **kwargs)
        counts["sent"] += n_bytes
        return n_bytes

    async def counting_read(stream, n_bytes):
        counts["received"] += n_bytes
        return await read(stream, n_bytes)

    monkeypatch.setattr(tcp.TCP, "write", counting_write)
    monkeypatch.setattr(tcp, "read_bytes_rw", counting_read)
    return counts


def test_only_small_things_travel(client, traffic):
    found = {}
    with client.as_current():
        for n_rows, kinds in ((100_000, ["spherical"]), (200_000, ["spherical", "full"])):
            X = generated(n_rows, 8, n_features=8).persist()
            wait(X)
            for kind in kinds:
                traffic.update(sent=0, received=0)
                model(covariance_type=kind).fit(X)
                found[kind, n_rows] = sum(traffic.values())
    assert 1e5 < found["full", 200_000] < 10e6
    # What travels are samples of so many rows, and sums: not more for more rows.
    assert found["spherical", 200_000] < 1.1 * found["spherical", 100_000] < 8e6


def test_data_in_the_graph_are_sent_once(client, traffic):
    X = rows_of_block(60_000, 14, n_features=8)
    with client.as_current():
        before = traffic["sent"]
        model(covariance_type="spherical").fit(
            da.from_array(X, chunks=(15_000, 8)), sample_weight=np.ones(60_000)
        )
    # To the scheduler and from there to the workers; and the samples back.
    assert traffic["sent"] - before < 2 * (X.nbytes + 8 * len(X)) + 5e6


def test_the_job_of_a_pass_is_one_key():
    rows = open_rows(generated(800, 8))
    source = rows._open_partitions()
    tasks = source._delayed([(len, b"a parcel", i) for i in range(8)], "test", "token")
    keys = {key for task in tasks for key in task.dask if str(key).startswith("apolar-job")}
    assert len(keys) == 1


# --- a worker that is killed --------------------------------------------------------------------


def test_a_fit_survives_a_killed_worker(monkeypatch):
    lazy = generated(60_000, 6)
    with dask.config.set(scheduler="sync"):
        expected = model(covariance_type="spherical").fit(lazy.compute())
    n_passes, now, reduce = [], threading.Event(), DaskRows.reduce

    def counting_reduce(self, statistic, *arguments):
        n_passes.append(statistic)
        if len(n_passes) == 3:
            now.set()
        return reduce(self, statistic, *arguments)

    monkeypatch.setattr(DaskRows, "reduce", counting_reduce)
    with a_cluster() as cluster, Client(cluster) as client:
        victim = next(iter(client.run(os.getpid).values()))
        for nanny in cluster.workers.values():
            # None takes its place: the other one has it all to do.
            nanny.auto_restart = False

        def kill():
            now.wait(60)
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        X = lazy.persist()
        wait(X)
        ours = model(covariance_type="spherical").fit(X)
        killer.join(60)
        assert not killer.is_alive()
        assert victim not in client.run(os.getpid).values()
    assert len(n_passes) > 5
    assert_same_mixture(ours, expected)


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
def test_errors_reach_the_user_as_themselves():
    X = rows_of_block(1000, 15)
    X[777, 2] = np.nan
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
    with pytest.raises(ValueError, match="Column 'b' has missing values"):
        apolar.spherical_moments(dd.from_pandas(frame, npartitions=2))


@pytest.mark.usefixtures("here")
def test_shapes_that_are_no_table():
    with pytest.raises(ValueError, match="two dimensions; got shape \\(10,\\)"):
        model().fit(da.zeros(10))
    with pytest.raises(ValueError, match="two dimensions; got shape \\(2, 2, 2\\)"):
        model().fit(da.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="two dimensions; got a series"):
        model().fit(dd.from_pandas(pd.Series([1.0, 2.0]), npartitions=1))
    with pytest.raises(ValueError, match="no columns"):
        model().fit(dd.from_pandas(pd.DataFrame(index=[0, 1]), npartitions=1))
    with pytest.raises(TypeError, match="got Delayed"):
        open_rows(dask.delayed(1))
    with pytest.raises(ValueError, match="X has no rows"):
        model().fit(da.zeros((0, 3)))
    for call in (apolar.spherical_moments, apolar.n_components_from_spectrum):
        with pytest.raises(ValueError, match="X has no rows"):
            call(da.zeros((4, 3), chunks=2)[da.zeros(4, chunks=2) > 0])
    wrong = da.map_blocks(lambda block: block[:, :1], da.zeros((4, 3), chunks=(2, 3)), dtype=float)
    with pytest.raises(ValueError, match="Partition 0 of X has shape"):
        model().fit(wrong)
    with pytest.raises(ValueError, match="n_features_in_|features, but"):
        model().fit(rows_of_block(99, 0)).predict(da.zeros((4, 3)))


@pytest.mark.usefixtures("here")
def test_weights_that_do_not_fit():
    X = da.from_array(rows_of_block(900, 16), chunks=(300, 4))
    for weights in (np.ones(899), da.ones(899, chunks=100)):
        with pytest.raises(ValueError, match="sample_weight must have shape \\(900,\\)"):
            model().fit(X, sample_weight=weights)
    with pytest.raises(ValueError, match="one dimension"):
        model().fit(X, sample_weight=da.ones((900, 1)))
    with pytest.raises(ValueError, match="weights of the rows are all zero"):
        model().fit(X, sample_weight=da.zeros(900))
    with pytest.raises(ValueError, match="negative or not finite, from row 300"):
        model().fit(X, sample_weight=np.where(np.arange(900) == 500, -1.0, 1.0))
    with pytest.raises(ValueError, match="negative or not finite"):
        model().fit(rows_of_block(900, 0)).score(X, sample_weight=np.full(900, np.nan))
    frame = dd.from_pandas(pd.DataFrame(rows_of_block(90, 0), columns=COLUMNS), npartitions=3)
    other = dd.from_pandas(pd.Series(np.ones(100)), npartitions=3)
    with pytest.raises(ValueError, match="Partition 0 has 30 rows"):
        model().fit(frame, sample_weight=other)


@pytest.mark.usefixtures("here")
def test_starts_that_are_given():
    X = rows_of_block(900, 17)
    lazy = da.from_array(X, chunks=(300, 4))
    labels = np.arange(900) % 3
    for given in (labels, da.from_array(labels, chunks=300), lambda X, n, state: labels):
        with pytest.raises(ValueError, match="Give means_init, or the name of a start"):
            model(init_params=given).fit(lazy)
    means = X[:3]
    # As above, of differences of gradients.
    assert_same_mixture(model(means_init=means).fit(lazy), model(means_init=means).fit(X))
    for start in ("kmeans", "moments", "random", "mbhc"):
        assert_same_mixture(model(init_params=start).fit(lazy), model(init_params=start).fit(X))

    def start(X, n_components, _):
        return apolar.mixture_from_moments(X, n_components)

    assert_same_mixture(model(init_params=start).fit(lazy), model(init_params=start).fit(X))


@pytest.mark.usefixtures("here")
def test_streams_take_partitions_one_by_one():
    lazy = da.from_array(rows_of_block(900, 18), chunks=(300, 4))
    with pytest.raises(ValueError, match="X.partitions\\[i\\].compute"):
        model().partial_fit(lazy)
    assert model().partial_fit(lazy.partitions[0].compute()).n_samples_seen_ == 300


# --- what is built on fits ------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
def test_selection():
    X = rows_of_block(900, 19)
    lazy = da.from_array(X, chunks=(300, 4))
    ours, theirs = (select(one, (2, 3), ("spherical", "diag"), random_state=0) for one in (lazy, X))
    for one, two in zip(ours.table, theirs.table, strict=True):
        assert (one.n_components, one.start) == (two.n_components, two.start)
        np.testing.assert_allclose([one.bic, one.icl], [two.bic, two.icl], rtol=1e-9)
    with pytest.raises(ValueError, match="leave n_jobs out"):
        select(lazy, (2, 3), n_jobs=2)


@pytest.mark.usefixtures("here")
def test_standard_errors():
    X = rows_of_block(900, 20)
    lazy, fitted = da.from_array(X, chunks=(300, 4)), model().fit(X)
    ours, theirs = fitted.standard_errors(lazy), fitted.standard_errors(X)
    np.testing.assert_allclose(ours.means, theirs.means, rtol=1e-6)
    ours, theirs = (fitted.bootstrap(one, n_resamples=2) for one in (lazy, X))
    np.testing.assert_allclose(ours.means, theirs.means, rtol=1e-6)


@pytest.mark.usefixtures("here")
def test_fitted_mixtures_hold_nothing_of_the_data():
    fitted = model().fit(generated(900, 3))
    assert len(pickle.dumps(fitted)) < 20_000
