"""Rows of the host for computation on a device: stored there if they fit, else sent a chunk at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.checks import check_integer
from apolar._core.namespaces import free_memory, is_device_array
from apolar.data.checks import check_values
from apolar.data.derived import DerivedRows
from apolar.data.rows import ArrayRows, Rows
from apolar.data.sources import open_rows

# The fraction of the free memory of a device that rows may take; the computation needs the remainder.
MEMORY_FRACTION = 0.5
# The number of values in a chunk that is sent, and how many chunks are sent ahead of the computation.
CHUNK_VALUES = 2**24
PREFETCHED_CHUNKS = 2


def on_device(
    X: Any, device: Any = "cuda", sample_weight: Any = None, *, max_bytes: int | None = None
) -> Rows:
    """Return rows of the host such that computations with them run on a device, through torch.

    Pass the result wherever rows are accepted: `GaussianMixture.fit`, `predict`, `mixture_from_moments`,
    `MomentSketch.update`. Rows that fit into the memory of the device are copied there once; otherwise they
    are sent in chunks in each pass, while the device computes with the chunks before. Arrays of torch or CuPy
    that are on a device already do not need this function.

    Parameters
    ----------
    X : array_like, memory map, dataframe, data set of files, or rereadable iterable of chunks
        Of shape (n_samples, n_features).
    device : str or torch.device, default="cuda"
    sample_weight : array_like, shape (n_samples,), optional
    max_bytes : int, optional
        The memory of the device that rows may take; by default half of what is free.

    Returns
    -------
    rows : Rows
        `predict` and similar methods return their results for these rows on the host.

    Examples
    --------
    >>> import apolar
    >>> X, _ = apolar.datasets.make_example(1, random_state=0)
    >>> rows = apolar.on_device(X, "cuda")  # doctest: +SKIP
    >>> gm = apolar.GaussianMixture(4, random_state=0).fit(rows)  # doctest: +SKIP
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("on_device computes through torch: install torch for your device.") from error
    if max_bytes is not None:
        check_integer(max_bytes, "max_bytes", least=0)
    rows = open_rows(X, sample_weight)
    if rows.is_distributed or rows.device_template is not None or rows.is_sparse:
        raise TypeError(
            f"{type(X).__name__} cannot be moved: on_device takes dense rows of the host. Arrays of torch, "
            "CuPy and Dask are worked on where they are; sparse ones on the host."
        )
    try:
        device_template = torch.empty((0, rows.n_features), dtype=torch.float64, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(
            f"There is no device {device!r} with double precision for torch here: {error}"
        ) from error
    free = free_memory(device_template)
    if max_bytes is None:
        max_bytes = 2**62 if free is None else int(MEMORY_FRACTION * free)
    return _rows_on_device(rows, device_template, max_bytes)


def _rows_on_device(rows: Rows, device_template: Any, max_bytes: int) -> Rows:
    """Return rows of the host on a device: stored there if they take at most `max_bytes`, else sent."""
    stored = _stored_on_device(rows, device_template, max_bytes)
    return TransferredRows(rows, device_template, max_bytes) if stored is None else stored


class TransferredRows(DerivedRows):
    """Rows of the host that are sent to a device in chunks, in each pass.

    Parameters
    ----------
    source : Rows
        On the host.
    device_template : torch.Tensor
        A tensor of no rows, on the device.
    max_bytes : int
        The memory of the device that rows may take.
    """

    def __init__(self, source: Rows, device_template: Any, max_bytes: int) -> None:
        super().__init__(source)
        self.device_template, self.max_bytes = device_template, max_bytes
        self.returns_to_host = True

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks on the device, and their weights or None; the next chunks are sent meanwhile."""
        return _sent_chunks(self.source.read(min(size, _chunk_rows(self.source))), self.device_template)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions, and their weights or None, on the host."""
        return self.source.take(positions)

    def systematic_sample(self, step: int) -> Rows:
        """Return one of every `step` rows: the sample may fit on the device."""
        return _rows_on_device(self.source.systematic_sample(step), self.device_template, self.max_bytes)


def _stored_on_device(rows: Rows, device_template: Any, max_bytes: int) -> Rows | None:
    """Return the rows as one array on the device; None if they do not fit, or their number is not known."""
    import torch

    if not rows.n_rows:
        return None
    first_values, first_weights = next(rows.read(1))
    dtype = _tensor(first_values).dtype
    if rows.n_rows * rows.n_features * dtype.itemsize > max_bytes:
        return None
    values = torch.empty((rows.n_rows, rows.n_features), dtype=dtype, device=device_template.device)
    weights = None
    if first_weights is not None:
        weights = torch.empty((rows.n_rows,), dtype=torch.float64, device=device_template.device)
    start = 0
    for block, block_weights in _sent_chunks(rows.read(_chunk_rows(rows)), device_template):
        stop = start + block.shape[0]
        values[start:stop] = block
        if weights is not None:
            weights[start:stop] = block_weights
        start = stop
    stored = ArrayRows(values, weights, device_template=device_template, names=rows.names)
    stored.returns_to_host = True
    return stored


def _chunk_rows(rows: Rows) -> int:
    """Return the number of rows of a chunk that is sent to a device."""
    return max(1, CHUNK_VALUES // rows.n_features)


def _sent_chunks(chunks: Iterator[tuple[Any, Any]], device_template: Any) -> Iterator[tuple[Any, Any]]:
    """Yield chunks and their weights on a device, in order; the next are copied while one is in use."""
    import torch

    device = device_template.device
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def send(*arrays: Any) -> tuple[list[Any], Any]:
        """Return rows and weights on the device, and the event that their copy is complete, or None."""
        tensors = [None if array is None else _tensor(array) for array in arrays]
        if stream is None:
            return [None if tensor is None else tensor.to(device) for tensor in tensors], None
        with torch.cuda.stream(stream):
            # Only copies from pinned memory run at the same time as computations.
            sent = [
                None if tensor is None else tensor.pin_memory().to(device, non_blocking=True)
                for tensor in tensors
            ]
            copied = torch.cuda.Event()
            copied.record(stream)
        return sent, copied

    def receive(sent: list[Any], copied: Any) -> tuple[Any, Any]:
        """Return rows and weights that the current stream may use: it waits for their copy."""
        if copied is not None:
            current_stream = torch.cuda.current_stream(device)
            current_stream.wait_event(copied)
            for tensor in sent:
                if tensor is not None:
                    # torch would otherwise reuse its memory while this stream still computes with it.
                    tensor.record_stream(current_stream)
        values, weights = sent
        return values, weights

    with ThreadPoolExecutor(1) as pool:
        pending: deque[Future[tuple[list[Any], Any]]] = deque()
        for values, weights in chunks:
            pending.append(pool.submit(send, values, weights))
            if len(pending) > PREFETCHED_CHUNKS:
                yield receive(*pending.popleft().result())
        while pending:
            yield receive(*pending.popleft().result())


def _tensor(values: Any) -> Any:
    """Return rows or weights of the host as a tensor, in the precision in which they are stored."""
    import torch

    if is_device_array(values):
        return values
    array: Array = values.toarray() if sparse.issparse(values) else np.asarray(values)
    if array.dtype.kind not in "buif":
        # Complex values and strings are refused before they are converted.
        array, _ = check_values(array, array.shape[1], 0, is_finite=True)
    # torch has no unsigned integers of many bits, no long double, and no other byte order.
    if array.dtype.kind != "f" or array.dtype.itemsize > 8 or not array.dtype.isnative:
        array = array.astype(np.float64)
    # torch warns of tensors that share read-only memory.
    return torch.from_numpy(array.copy() if not array.flags.writeable else np.ascontiguousarray(array))
