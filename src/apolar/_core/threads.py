"""One BLAS thread while blocks of rows are processed by several threads."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


@functools.cache
def _libraries() -> ThreadpoolController:
    """Return the controller of the loaded libraries; SciPy is imported first, as it loads its own BLAS."""
    import_module("scipy.linalg")
    return ThreadpoolController()


class _Limit(threading.local):
    """How many contexts a thread is in: the outermost sets the limit, and ends it."""

    depth = 0


_LIMIT = _Limit()
_LOCK = threading.Lock()
# The threads inside the context, and the settings before the first of them entered.
_THREADS: set[int] = set()
_SETTINGS: list[tuple[Any, int]] = []


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Use one BLAS thread inside this context.

    Blocks of rows are processed in parallel, and their matrix products are too small for BLAS threads to pay
    off. Depending on the library, the number of threads is a setting of the process or of each thread, or
    only the main thread can change it. So each thread sets it when it enters. When it leaves, it restores the
    number from before the first thread entered: the one from before itself may be the limit of another.
    """
    _LIMIT.depth += 1
    if _LIMIT.depth == 1:
        _enter()
    try:
        yield
    finally:
        _LIMIT.depth -= 1
        if _LIMIT.depth == 0:
            _leave()


def _enter() -> None:
    with _LOCK:
        libraries = [library for library in _libraries().lib_controllers if library.user_api == "blas"]
        if not _THREADS:
            _SETTINGS[:] = [(library, library.num_threads) for library in libraries]
        _THREADS.add(threading.get_ident())
        for library in libraries:
            library.set_num_threads(1)


def _leave() -> None:
    with _LOCK:
        _THREADS.discard(threading.get_ident())
        for library, n_threads in _SETTINGS:
            library.set_num_threads(n_threads)
