"""One thread for linear algebra while blocks of rows are dealt out to threads."""

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
    """Return the linear algebra libraries that are loaded, looked up once: after SciPy has loaded its own."""
    import_module("scipy.linalg")
    return ThreadpoolController()


class _Limit(threading.local):
    """How often a thread has asked for the limit: only the first time sets it, only the last time ends it."""

    depth = 0


_LIMIT = _Limit()
_LOCK = threading.Lock()
# The threads that are inside, and the settings from before the first of them.
_INSIDE: set[int] = set()
_BEFORE: list[tuple[Any, int]] = []


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Use one BLAS thread inside this context.

    Threads work on different blocks of rows; for products of that size, threads of the linear algebra library
    would only wait for each other. Depending on the library, the setting belongs to the process or to a
    thread, or can be changed by the main thread only. So each thread sets it for itself, and on leaving sets
    it to what it was before any thread came: what it was when this one came may be the setting of another.
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
        if not _INSIDE:
            _BEFORE[:] = [(library, library.num_threads) for library in libraries]
        _INSIDE.add(threading.get_ident())
        for library in libraries:
            library.set_num_threads(1)


def _leave() -> None:
    with _LOCK:
        _INSIDE.discard(threading.get_ident())
        for library, n_threads in _BEFORE:
            library.set_num_threads(n_threads)
