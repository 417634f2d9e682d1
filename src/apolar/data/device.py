"""Rows of the host, worked on by a device: kept there if they fit, else sent a chunk at a time."""

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
from apolar.data.derived import DerivedRows
from apolar.data.opening import open_rows
from apolar.data.rows import ArrayRows, Rows

# The part of the free memory of a device that rows may take; the rest is to work with.
PART = 0.5
# Numbers that are sent at a time, and how many such chunks are on their way.
SENT_NUMBERS = 2**24
AHEAD = 2


def on_device(
    X: Any, device: Any = "cuda", sample_weight: Any = None, *, max_bytes: int | None = None
) -> Rows:
    """Return rows of the host such that the work on them is done by a device, through torch.

    Pass the result wherever rows are taken: `GaussianMixture.fit`, `predict`, `mixture_from_moments`,
    `MomentSketch.update`. Rows that fit into the memory of the device are moved there once; of more, chunks
    are sent in each pass while the device works on those before. Arrays of torch or CuPy that are on a device
    need none of this.

    Parameters
    ----------
    X : array_like, memory map, dataframe, data set of files, or iterable of chunks that can be read again
        Of shape (n_samples, n_features).
    device : str or torch.device, default="cuda"
    sample_weight : array_like, shape (n_samples,), optional
    max_bytes : int, optional
        The most that rows may take of the memory of the device; by default half of what is free.

    Returns
    -------
    rows : Rows
        What `predict` returns for them comes back to the host.

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
        raise ImportError("Work on a device is done through torch: install it, for your device.") from error
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
        max_bytes = 2**62 if free is None else int(PART * free)
    return _moved(rows, device_template, max_bytes)


def _moved(rows: Rows, device_template: Any, max_bytes: int) -> Rows:
    """Return rows of the host on the device of an array, whole if they take no more than so many bytes."""
    whole = _whole(rows, device_template, max_bytes)
    return TransferredRows(rows, device_template, max_bytes) if whole is None else whole


class TransferredRows(DerivedRows):
    """Rows of the host that are sent to a device in each pass.

    Parameters
    ----------
    source : Rows
        On the host.
    device_template : torch.Tensor
        Of no rows, on the device.
    max_bytes : int
        The bytes that rows may take on the device.
    """

    returns_to_host = True

    def __init__(self, source: Rows, device_template: Any, max_bytes: int) -> None:
        super().__init__(source)
        self.device_template, self.max_bytes = device_template, max_bytes
        self.can_take = source.can_take

    @property
    def n_rows(self) -> int | None:
        """The number of rows; None if only reading to the end tells."""
        return self.source.n_rows

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks on the device; the next are on their way."""
        return _Sender(self.device_template).sent(self.source.read(min(size, _sent_rows(self.source))))

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return some rows and their weights, on the host."""
        return self.source.take(positions)

    def systematic_sample(self, step: int) -> Rows:
        """Return one of each `step` rows: they may fit where all did not."""
        return _moved(self.source.systematic_sample(step), self.device_template, self.max_bytes)


def _whole(rows: Rows, device_template: Any, max_bytes: int) -> Rows | None:
    """Return the rows in one array on the device; None if there is no room, or their number is not known."""
    import torch

    if not rows.n_rows:
        return None
    head, head_weights = next(rows.read(1))
    dtype = _tensor(head).dtype
    if rows.n_rows * rows.n_features * dtype.itemsize > max_bytes:
        return None
    values = torch.empty((rows.n_rows, rows.n_features), dtype=dtype, device=device_template.device)
    weights = None
    if head_weights is not None:
        weights = torch.empty((rows.n_rows,), dtype=torch.float64, device=device_template.device)
    first = 0
    for block, block_weights in _Sender(device_template).sent(rows.read(_sent_rows(rows))):
        last = first + block.shape[0]
        values[first:last] = block
        if weights is not None:
            weights[first:last] = block_weights
        first = last
    moved = ArrayRows(values, weights, device_template=device_template)
    moved.names, moved.returns_to_host = rows.names, True
    return moved


def _sent_rows(rows: Rows) -> int:
    return max(1, SENT_NUMBERS // rows.n_features)


class _Sender:
    """Sends chunks to a device: the next are copied while those before are worked on.

    Parameters
    ----------
    device_template : torch.Tensor
        On the device.
    """

    def __init__(self, device_template: Any) -> None:
        self.device = device_template.device
        self.is_cuda = device_template.device.type == "cuda"

    def sent(self, chunks: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """Yield chunks and their weights on the device, in order."""
        import torch

        stream = torch.cuda.Stream(self.device) if self.is_cuda else None

        def send(values: Any, weights: Any) -> tuple[Any, Any, Any]:
            block, block_weights = _tensor(values), None if weights is None else _tensor(weights)
            if stream is None:
                return (
                    block.to(self.device),
                    None if block_weights is None else block_weights.to(self.device),
                    None,
                )
            with torch.cuda.stream(stream):
                # From memory that does not move, the copy goes on beside the work.
                block = block.pin_memory().to(self.device, non_blocking=True)
                if block_weights is not None:
                    block_weights = block_weights.pin_memory().to(self.device, non_blocking=True)
                is_sent = torch.cuda.Event()
                is_sent.record(stream)
            return block, block_weights, is_sent

        def arrived(block: Any, block_weights: Any, is_sent: Any) -> tuple[Any, Any]:
            if is_sent is not None:
                current = torch.cuda.current_stream(self.device)
                current.wait_event(is_sent)
                # The memory is used by this stream too, and must not be given to others before.
                block.record_stream(current)
                if block_weights is not None:
                    block_weights.record_stream(current)
            return block, block_weights

        with ThreadPoolExecutor(1) as pool:
            waiting: deque[Future[tuple[Any, Any, Any]]] = deque()
            for values, weights in chunks:
                waiting.append(pool.submit(send, values, weights))
                if len(waiting) > AHEAD:
                    yield arrived(*waiting.popleft().result())
            while waiting:
                yield arrived(*waiting.popleft().result())


def _tensor(values: Any) -> Any:
    """Return rows of the host as a tensor, in the precision in which they are stored."""
    import torch

    if is_device_array(values):
        return values
    array: Array = values.toarray() if sparse.issparse(values) else np.asarray(values)
    if array.dtype.kind not in "f" or array.dtype.itemsize > 8 or array.dtype.byteorder == ">":
        array = array.astype(np.float64)
    # Tensors of memory that is not to be written to are warned of: a copy.
    return torch.from_numpy(array.copy() if not array.flags.writeable else np.ascontiguousarray(array))
