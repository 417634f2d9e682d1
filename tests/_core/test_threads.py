"""Calls in threads of one pool: their number, their errors, their end, and forks."""

import multiprocessing
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from apolar import GaussianMixture
from apolar._core import threads
from apolar._core.threads import map_in_threads, one_blas_thread, run_in_threads, submit

# Only a hang waits so long.
DEADLINE = 60


@pytest.mark.parametrize("is_in_this_thread", [True, False])
def test_an_error_is_raised_when_all_threads_have_ended(is_in_this_thread):
    here, barrier, ended = threading.get_ident(), threading.Barrier(3), []

    def call():
        barrier.wait(DEADLINE)
        if (threading.get_ident() == here) == is_in_this_thread:
            raise LookupError("bad")
        ended.append(1)

    with pytest.raises(LookupError, match="bad"):
        run_in_threads(call, 3)
    assert len(ended) == (2 if is_in_this_thread else 1)


def test_calls_that_take_up_the_whole_pool_may_use_threads(monkeypatch):
    pool, barrier = ThreadPoolExecutor(2), threading.Barrier(2)
    monkeypatch.setattr(threads, "_POOL", pool)

    def call(number):
        counts = []
        # Both threads of the pool are here, and none is left for what they ask for.
        barrier.wait(DEADLINE)
        run_in_threads(lambda: counts.append(number), 3)
        barrier.wait(DEADLINE)
        return counts

    assert list(map_in_threads(call, [(i,) for i in range(6)], 2)) == [[i] for i in range(6)]
    pool.shutdown()


@pytest.mark.parametrize("n_started", [0, 1])
def test_fewer_threads_do_the_work_where_no_more_can_be_started(monkeypatch, n_started):
    monkeypatch.setattr(threads, "_POOL", ThreadPoolExecutor(4))
    start, left = threading.Thread.start, list(range(n_started))

    def limited(thread):
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    assert list(map_in_threads(lambda number: number, ((i,) for i in range(40)), 4)) == list(range(40))
    X = np.random.default_rng(0).standard_normal((60_000, 2)) + 9 * (np.arange(60_000)[:, None] % 2)
    fits = [GaussianMixture(2, n_threads=n, random_state=0).fit(X).lower_bound_ for n in (1, 4)]
    # Results do not depend on the number of threads.
    assert fits[0] == pytest.approx(fits[1], rel=1e-12)
    threads._POOL.shutdown()


def _child(results):
    """Use all that threads of the parent may hold."""
    counts = []
    with one_blas_thread():
        run_in_threads(lambda: counts.append(1), 2)
    results.put((len(counts), len(threads._THREADS)))


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="no safe fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_threads_of_its_parent():
    submit(int).result()
    is_held, may_end = threading.Event(), threading.Event()

    def hold():
        with one_blas_thread(), threads._LOCK:
            is_held.set()
            may_end.wait(DEADLINE)

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    assert is_held.wait(DEADLINE)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=_child, args=(results,), daemon=True)
    try:
        process.start()
        assert results.get(timeout=DEADLINE) == (2, 0)
        process.join(DEADLINE)
        assert process.exitcode == 0
    finally:
        may_end.set()
        process.kill()
        holder.join(DEADLINE)
