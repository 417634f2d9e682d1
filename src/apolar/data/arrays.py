"""Rows of arrays of any library and of sparse matrices: selected, sliced, stacked, and sampled."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.namespaces import namespace, positions_to_device_of


def take_rows(values: Any, positions: Any) -> Any:
    """Return the rows of an array at some positions, given as indices or a slice."""
    if isinstance(values, np.ndarray) or sparse.issparse(values):
        return values[positions]
    if isinstance(positions, slice):
        return values[positions, ...]
    return namespace(values).take(values, positions_to_device_of(positions, values), axis=0)


def take_both(values: Any, weights: Any, positions: Any) -> tuple[Any, Any]:
    """Return the rows of an array at some positions, and their weights or None."""
    return take_rows(values, positions), None if weights is None else take_rows(weights, positions)


def row_slice(values: Any, part: slice) -> Any:
    """Return consecutive rows of an array or a CSR matrix that share its memory."""
    if not sparse.issparse(values):
        # The array API standard requires an index for every axis.
        return values[part, :]
    # Indexing a SciPy matrix would copy the rows.
    row_ends = values.indptr[part.start : part.stop + 1]
    stored = slice(int(row_ends[0]), int(row_ends[-1]))
    shape = (part.stop - part.start, values.shape[1])
    return sparse.csr_matrix(
        (values.data[stored], values.indices[stored], row_ends - row_ends[0]), shape=shape
    )


def stack_rows(blocks: list[Any]) -> Any:
    """Return blocks of rows, NumPy arrays or CSR matrices, as one."""
    return sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)


def sample_positions(start: int, stop: int, step: int, device_template: Any = None) -> Any:
    """Return the positions of a systematic sample: one row of every `step` consecutive rows.

    The position within each group of `step` rows follows multiples of the golden ratio: evenly spread, but
    without a period that the data could share.

    Parameters
    ----------
    start, stop : int
        Only the rows from `start` to `stop` are considered; they may begin and end within a group.
    step : int
    device_template : array, optional
        An array whose library and device the positions have; by default, they are a NumPy array.

    Returns
    -------
    positions : array of int64, shape (n_sampled,)
        Counted from `start`, ascending.
    """
    xp = np if device_template is None else namespace(device_template)
    device = {} if device_template is None else {"device": device_template.device}
    group = xp.arange(start // step, -(-stop // step), dtype=xp.int64, **device)
    # The fractional part of group times the golden ratio, in fixed point with 32 bits, times step.
    within_group = (((group * 2654435769) & 0xFFFFFFFF) * step) >> 32
    positions = group * step + within_group
    return positions[(positions >= start) & (positions < stop)] - start


def sample_size(n_rows: int, step: int) -> int:
    """Return the number of rows of a systematic sample of one row of every `step`."""
    n_groups = n_rows // step
    return n_groups + len(sample_positions(n_groups * step, n_rows, step))
