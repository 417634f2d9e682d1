"""One thread for linear algebra while rows are shared out among threads."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


@functools.cache
def _libraries() -> ThreadpoolController:
    """Return the linear algebra libraries that are loaded, looked up once."""
    return ThreadpoolController()


class _Limit:
    """The limit on BLAS threads, which belongs to the process: held while anyone needs it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n_holders = 0
        self.limiter: Any = None

    def acquire(self) -> None:
        """Set the limit, if nobody has yet."""
        with self.lock:
            if self.n_holders == 0:
                self.limiter = _libraries().limit(limits=1, user_api="blas")
            self.n_holders += 1

    def release(self) -> None:
        """Take the limit away, if nobody else needs it."""
        with self.lock:
            self.n_holders -= 1
            if self.n_holders == 0:
                self.limiter.restore_original_limits()
                self.limiter = None


_LIMIT = _Limit()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Use one BLAS thread inside this context.

    Work is shared out by chunks of rows; for products of this size, threads of their own only wait. Fits that
    run in several threads at once share one limit: were each to restore what it found, the last would
    restore the limit of another.
    """
    _LIMIT.acquire()
    try:
        yield
    finally:
        _LIMIT.release()
