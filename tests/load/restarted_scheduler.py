"""A scheduler of Dask that is killed during a fit: the fit ends, and one on a new scheduler is right."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import dask.array as da
import numpy as np
from distributed import Client

import apolar
from apolar.data.dask import DaskRows

# Only a hang waits so long.
DEADLINE = 120


def free_port():
    """Return a port that no program listens at."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def start(port):
    """Start a scheduler and a worker; return both processes."""
    address = f"tcp://127.0.0.1:{port}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "2", "--no-nanny"]
    return [
        subprocess.Popen([*scheduler, "--port", str(port), "--no-dashboard", "--no-show"], **quiet),
        subprocess.Popen([*worker, "--no-dashboard", "--death-timeout", "20"], **quiet),
    ]


def stop(processes):
    """Kill processes that are still there."""
    for process in processes:
        process.kill()
        process.wait()


def rows():
    """Return clusters as an array of Dask."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40_000, 4)) + 5 * rng.integers(0, 3, (40_000, 1))
    return X, da.from_array(X, chunks=(5000, 4))


def fitted(lazy):
    """Fit without any search in memory: every pass is one over the cluster."""
    return apolar.GaussianMixture(3, covariance_type="diag", random_state=0).fit(lazy)


def fit_until_killed(lazy, kill):
    """Fit in a thread, and kill the scheduler in its third pass; return the error that the fit ends with."""
    passes, reduce = threading.Semaphore(0), DaskRows.reduce

    def counting_reduce(self, *arguments, **keywords):
        passes.release()
        return reduce(self, *arguments, **keywords)

    ended = []

    def fit():
        try:
            ended.append(fitted(lazy))
        except BaseException as error:
            ended.append(error)

    DaskRows.reduce = counting_reduce
    try:
        thread = threading.Thread(target=fit, daemon=True)
        thread.start()
        for _ in range(3):
            assert passes.acquire(timeout=DEADLINE), "the fit does not begin"
        kill()
        thread.join(DEADLINE)
        assert not thread.is_alive(), "the fit hangs without its scheduler"
    finally:
        DaskRows.reduce = reduce
    return ended[0]


def main():
    """Kill a scheduler, start another at its port, and fit again."""
    X, lazy = rows()
    expected, port = fitted(X), free_port()
    first = start(port)
    try:
        with Client(f"tcp://127.0.0.1:{port}", timeout=DEADLINE) as client:
            client.wait_for_workers(1, timeout=DEADLINE)
            ended = fit_until_killed(lazy, lambda: os.kill(first[0].pid, signal.SIGKILL))
    finally:
        stop(first)
    assert isinstance(ended, Exception), f"the fit ended as if it had seen all rows: {ended!r}"
    second = start(port)
    try:
        began = time.monotonic()
        with Client(f"tcp://127.0.0.1:{port}", timeout=DEADLINE) as client:
            client.wait_for_workers(1, timeout=DEADLINE)
            again = fitted(lazy)
        np.testing.assert_allclose(again.means_, expected.means_, atol=1e-6)
    finally:
        stop(second)
    print(f"ended with {type(ended).__name__}: {str(ended)[:200]}")
    print(f"after the restart: the same mixture, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
