"""Pieces of arrays of any library and of sparse matrices: some of their rows, stacked rows, samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.namespaces import namespace, positions_to_device_of


def take_rows(values: Any, positions: Any) -> Any:
    """Return some rows of an array, by their numbers or a slice."""
    if isinstance(values, np.ndarray) or sparse.issparse(values):
        return values[positions]
    if isinstance(positions, slice):
        return values[positions, ...]
    return namespace(values).take(values, positions_to_device_of(positions, values), axis=0)


def take_both(values: Any, weights: Any, positions: Any) -> tuple[Any, Any]:
    """Return some rows of an array, and their weights or None."""
    return take_rows(values, positions), None if weights is None else take_rows(weights, positions)


def row_slice(values: Any, part: slice) -> Any:
    """Return consecutive rows of an array or a CSR matrix that share its memory."""
    if not sparse.issparse(values):
        # With all its axes: the array API asks for that.
        return values[part, :]
    # SciPy would copy them.
    starts = values.indptr[part.start : part.stop + 1]
    inside = slice(int(starts[0]), int(starts[-1]))
    shape = (part.stop - part.start, values.shape[1])
    return sparse.csr_matrix((values.data[inside], values.indices[inside], starts - starts[0]), shape=shape)


def stacked(parts: list[Any]) -> Any:
    """Return chunks of rows in one piece: arrays, or CSR matrices."""
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def sample_positions(start: int, stop: int, step: int, device_template: Any = None) -> Any:
    """Return the rows from `start` to `stop`, counted from there, of a sample of one of each `step` rows.

    The place among each `step` rows follows the golden ratio: spread evenly, and without a period. The
    numbers are an array like the one given, or one of NumPy.
    """
    xp = np if device_template is None else namespace(device_template)
    where = {} if device_template is None else {"device": device_template.device}
    group = xp.arange(start // step, -(-stop // step), dtype=xp.int64, **where)
    place = (((group * 2654435769) & 0xFFFFFFFF) * step) >> 32
    positions = group * step + place
    return positions[(positions >= start) & (positions < stop)] - start


def sample_size(n_rows: int, step: int) -> int:
    """Return how many rows a sample of one of each `step` has."""
    last = n_rows // step * step
    return n_rows // step + len(sample_positions(last, n_rows, step))
