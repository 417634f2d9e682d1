"""The threads of the process: one pool for all calls, and one BLAS thread while they run."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from importlib import import_module
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = [
    "default_threads",
    "map_in_threads",
    "one_blas_thread",
    "run_in_threads",
    "submit",
]

# The most threads of the pool. It starts one only when a call finds none idle.
MAX_THREADS = 256

# How many threads run is up to the caller, by what it submits.
_POOL = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="apolar")
# Guards the settings of BLAS.
_LOCK = threading.Lock()
# How many contexts of one BLAS thread each thread is in, and the settings before the first of them entered.
_THREADS: Counter[int] = Counter()
_SETTINGS: dict[Any, int] = {}


def _forget_threads() -> None:
    """Forget the threads of the parent, in a forked child, where none of them runs, or releases the lock."""
    global _LOCK, _POOL
    _LOCK, _POOL = threading.Lock(), ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="apolar")
    for thread in set(_THREADS) - {threading.get_ident()}:
        del _THREADS[thread]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def submit(call: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Return a call by a thread of the pool, or by this thread, at once, if no other can be started."""
    try:
        return _POOL.submit(call, *arguments)
    except RuntimeError:  # by the limits of the system: fewer threads do the work
        future: Future[Any] = Future()
    # The pool has the call too, and may run it later, which does no harm: what it does has been done.
    try:
        future.set_result(call(*arguments))
    except BaseException as error:
        future.set_exception(error)
    return future


def run_in_threads(call: Callable[[], None], n_threads: int) -> None:
    """Run a call in this thread and in up to `n_threads - 1` others, and wait for all of them.

    The call takes work until none is left. So calls that have not begun when the one of this thread ends are
    left out: no thread waits for a thread, even if the calls of this function take up the whole pool.
    """
    if n_threads <= 1:
        call()
        return
    others = [submit(call) for _ in range(n_threads - 1)]
    try:
        call()
    finally:
        # What a call writes to must not go away while another still runs.
        errors = [None if other.cancel() else other.exception() for other in others]
    for error in errors:
        if error is not None:
            raise error


def map_in_threads(
    function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], n_threads: int
) -> Iterator[Any]:
    """Yield a function of each tuple of arguments, in their order, computed by `n_threads` threads."""
    if n_threads == 1:
        for call_arguments in arguments:
            yield function(*call_arguments)
        return
    pending: deque[Future[Any]] = deque()
    try:
        for call_arguments in arguments:
            # NumPy keeps np.errstate in the context: without the context of the caller, threads would warn.
            pending.append(submit(contextvars.copy_context().run, function, *call_arguments))
            # Never more calls than threads at a time.
            if len(pending) >= n_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for call in pending:
            call.cancel()
        wait(pending)


def default_threads() -> int:
    """Return one thread per processor, or fewer if BLAS is limited to fewer.

    It is limited by threadpoolctl, by its environment variables, and by joblib and Dask in their workers.
    """
    is_linux = hasattr(os, "sched_getaffinity")
    n_processors = len(os.sched_getaffinity(0)) if is_linux else os.cpu_count() or 1
    with _LOCK:
        # From before `one_blas_thread`.
        settings = _SETTINGS if _THREADS else {each: each.num_threads for each in _blas_libraries()}
    return max(1, min([n_processors, *filter(None, settings.values())]))


@functools.cache
def _blas_libraries() -> list[Any]:
    """Return the BLAS libraries that are loaded; SciPy is imported first, as it loads its own."""
    import_module("scipy.linalg")
    return [each for each in ThreadpoolController().lib_controllers if each.user_api == "blas"]


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Use one BLAS thread inside this context.

    Blocks of rows are processed in parallel, and their matrix products are too small for BLAS threads to pay
    off. Depending on the library, the number of threads is a setting of the process or of each thread, or
    only the main thread can change it. So each thread sets it when it enters. When it leaves, it restores the
    number from before the first thread entered: the one from before itself may be the limit of another.
    """
    me = threading.get_ident()
    with _LOCK:
        if not _THREADS:
            _SETTINGS.update((library, library.num_threads) for library in _blas_libraries())
        _THREADS[me] += 1
        if _THREADS[me] == 1:
            for library in _SETTINGS:
                library.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            _THREADS[me] -= 1
            if not _THREADS[me]:
                del _THREADS[me]
                for library, n_threads in _SETTINGS.items():
                    library.set_num_threads(n_threads)
