"""A cluster: fits inside tasks, what stays and what travels, and a worker that is killed."""

import gc
import os
import signal
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, wait
from distributed.comm import tcp

import apolar
from apolar.data import open_rows
from apolar.data.dask.rows import DaskRows
from data.dask.blocks import assert_same_mixture, generated, local_cluster, model, rows_of_block


def test_systematic_samples_stay_where_they_are(client):
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
    # The same rows, worker by worker: sufficient statistics do not depend on their order.
    sampled = np.column_stack([np.concatenate([part[i] for part in parts]) for i in (0, 1)])
    expected = np.column_stack([whole, whole_weights])
    np.testing.assert_array_equal(sampled[np.lexsort(sampled.T)], expected[np.lexsort(expected.T)])


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
    for means in client.gather(futures):
        np.testing.assert_allclose(means, expected, atol=1e-6)


def test_nothing_stays_on_the_cluster(client):
    def n_keys():
        return sum(len(keys) for keys in client.has_what().values())

    before = n_keys()
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
    while n_keys() > before:
        assert time.monotonic() < deadline
        gc.collect()
        time.sleep(0.05)


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
    n_bytes = {}
    with client.as_current():
        for n_rows, kinds in ((100_000, ["spherical"]), (200_000, ["spherical", "full"])):
            X = generated(n_rows, 8, n_features=8).persist()
            wait(X)
            for kind in kinds:
                traffic.update(sent=0, received=0)
                model(covariance_type=kind).fit(X)
                n_bytes[kind, n_rows] = sum(traffic.values())
    assert 1e5 < n_bytes["full", 200_000] < 10e6
    # What travels are samples of a fixed size and sufficient statistics: no more for more rows.
    assert n_bytes["spherical", 200_000] < 1.1 * n_bytes["spherical", 100_000] < 8e6


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
    tasks = source._delayed([(len, b"a payload", i) for i in range(8)], "test", "token")
    keys = {key for task in tasks for key in task.dask if str(key).startswith("apolar-job")}
    assert len(keys) == 1


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
    with local_cluster() as cluster, Client(cluster) as client:
        victim = next(iter(client.run(os.getpid).values()))
        for nanny in cluster.workers.values():
            # No worker takes its place: the other has all the work.
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
