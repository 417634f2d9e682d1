"""A cluster: fits inside tasks, memory and traffic, and a worker that is killed."""

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
from apolar.data.dask import DaskRows
from data.dask.blocks import assert_same_mixture, generated, local_cluster, model, rows_of_block


def test_fits_in_all_threads_of_a_cluster_at_once(client):
    """Each fit waits for its own tasks: threads that wait must not block those tasks."""
    X = rows_of_block(4000, 12)

    def nested():
        return apolar.__file__, model().fit(da.from_array(X, chunks=(1000, 4))).means_

    futures = [client.submit(nested, key=f"nested-{i}") for i in range(4)]
    expected = model().fit(X).means_
    for path, means in client.gather(futures):
        assert path == apolar.__file__
        np.testing.assert_allclose(means, expected, atol=1e-6)


def test_nothing_stays_on_the_cluster(client):
    def n_keys():
        return sum(len(keys) for keys in client.has_what().values())

    before = n_keys()
    X = rows_of_block(40_000, 3)
    bad = X.copy()
    bad[-1, 0] = np.inf
    with client.as_current():
        lazy = da.from_array(X, chunks=(1000, 4)).persist()
        model().fit(lazy)
        del lazy
        lazy = da.from_array(bad, chunks=(1000, 4)).persist()
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
    """Return the bytes that client and scheduler, both in this process, have sent and received.

    Messages between the two are counted twice.
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
    # Only samples of a fixed size, 60,000 rows in all, and sufficient statistics are sent: no more for more
    # rows. A row of 8 columns is counted where it is sent and where it is received, there and on its way.
    most = 1.1 * 60_000 * 8 * 8 * 4
    assert 1e5 < n_bytes["full", 200_000] < most
    assert n_bytes["spherical", 200_000] < 1.1 * n_bytes["spherical", 100_000] < most


def test_a_fit_survives_a_killed_worker(monkeypatch):
    lazy = generated(60_000, 24)
    with dask.config.set(scheduler="sync"):
        expected = model(covariance_type="spherical").fit(lazy.compute())
    passes, third_pass, reduce = [], threading.Event(), DaskRows.reduce

    def counting_reduce(self, statistic, *arguments, **keywords):
        passes.append(statistic)
        if len(passes) == 3:
            third_pass.set()
        return reduce(self, statistic, *arguments, **keywords)

    monkeypatch.setattr(DaskRows, "reduce", counting_reduce)
    with local_cluster() as cluster, Client(cluster) as client:
        victim = next(iter(client.run(os.getpid).values()))
        for nanny in cluster.workers.values():
            # The worker is not replaced: the other one computes everything.
            nanny.auto_restart = False

        def kill():
            third_pass.wait(60)
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        X = lazy.persist()
        wait(X)
        ours = model(covariance_type="spherical").fit(X)
        killer.join(60)
        assert not killer.is_alive()
        assert victim not in client.run(os.getpid).values()
    assert len(passes) > 5
    assert_same_mixture(ours, expected)
