"""Rows of the host for computation on a device: stored there if they fit, else sent a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer
from apolar._core.namespaces import free_memory
from apolar.data.chunks import RowFunction
from apolar.data.rows import ArrayRows, Rows, TransformedRows
from apolar.data.sources import open_rows

# The fraction of the free memory of a device that rows may take; the computation needs the remainder.
MEMORY_FRACTION = 0.5
# The number of values in a chunk that is sent.
CHUNK_VALUES = 2**24


def on_device(
    X: Any, device: Any = "cuda", sample_weight: Any = None, *, max_bytes: int | None = None
) -> Rows:
    """Return rows of the host such that computations with them run on a device, through torch.

    Pass the result wherever rows are accepted: `GaussianMixture.fit`, `predict`, `mixture_from_moments`,
    `MomentSketch.update`. Rows that fit into the memory of the device are copied there once; otherwise they
    are sent in chunks in each pass, while the device computes with the chunk before. Arrays of torch or CuPy
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
    return TransferredRows(rows, device_template, max_bytes).stored_if_small()


class TransferredRows(TransformedRows):
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
        super().__init__(source, self._send)
        self.device_template, self.max_bytes, self.returns_to_host = device_template, max_bytes, True

    def _send(self, values: Any, weights: Any) -> tuple[Any, Any]:
        """Return rows and their weights or None on the device."""
        return self._tensor(values), None if weights is None else self._tensor(weights)

    def _tensor(self, values: Any) -> Any:
        """Return rows or weights of the host as a tensor, in the precision in which they are stored."""
        import torch

        array: Array = np.asarray(values)
        # torch has no unsigned integers of many bits, no long double, and no other byte order.
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        # torch warns of tensors that share read-only memory.
        tensor = torch.from_numpy(np.ascontiguousarray(array) if array.flags.writeable else array.copy())
        device = self.device_template.device
        # From pinned memory they are copied while this thread goes on.
        return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)

    def results(self, function: RowFunction, n_threads: int, size: int, *, adds: bool) -> Iterator[Any]:
        """Yield what a function returns for each chunk: one is sent while another is worked on."""
        del n_threads
        return super().results(function, 2, min(size, max(1, CHUNK_VALUES // self.n_features)), adds=adds)

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions, and their weights or None, on the host."""
        return self.source.take(positions)

    def systematic_sample(self, step: int) -> Rows:
        """Return one of every `step` rows: the sample may fit on the device."""
        sample = self.source.systematic_sample(step)
        return TransferredRows(sample, self.device_template, self.max_bytes).stored_if_small()

    def stored_if_small(self) -> Rows:
        """Return the rows as one array on the device; else these rows."""
        if not self.n_rows:
            return self
        first = next(self.read(1))
        if self.n_rows * self.n_features * first[0].dtype.itemsize > self.max_bytes:
            return self
        whole = [None if part is None else part.new_empty((self.n_rows, *part.shape[1:])) for part in first]
        start = 0
        for chunk in self.read(CHUNK_VALUES):
            stop = start + chunk[0].shape[0]
            for array, part in zip(whole, chunk, strict=True):
                if array is not None:
                    array[start:stop, ...] = part
            start = stop
        stored = ArrayRows(*whole, names=self.names)
        stored.returns_to_host = True
        return stored
