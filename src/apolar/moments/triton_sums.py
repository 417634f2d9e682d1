"""Sums of powers of rows, in Triton's language. To be imported only if Triton is installed.

Rows may be stored in single or double precision; sums are in double. One row of `sums` belongs to each
program, which adds its blocks in their order: results are reproducible.
"""

import triton
import triton.language as tl


@triton.jit
def centred_rows(
    x, centre, rows, n_rows, row_stride, column_stride, N_COLUMNS: tl.constexpr, PADDED: tl.constexpr
):
    """Return rows minus the centre, zero beyond the last row and column."""
    columns = tl.arange(0, PADDED)
    is_value = (rows < n_rows)[:, None] & (columns < N_COLUMNS)[None, :]
    values = tl.load(
        x + rows[:, None] * row_stride + columns[None, :].to(tl.int64) * column_stride,
        mask=is_value,
        other=0.0,
    )
    return tl.where(is_value, values.to(tl.float64) - centre[None, :], 0.0)


@triton.jit
def second_kernel(
    x,
    weights,
    parameters,
    sums,
    n_rows,
    row_stride,
    column_stride,
    N_COLUMNS: tl.constexpr,
    PADDED: tl.constexpr,
    IS_FULL: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum z, shape (PADDED,), and z z^t, shape (PADDED, PADDED), or the squares of z, shape (PADDED,).

    Here z are rows minus `parameters`, shape (PADDED,).
    """
    program, n_programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.arange(0, PADDED)
    centre = tl.load(parameters + columns)
    first = tl.zeros([BLOCK, PADDED], tl.float64)
    if IS_FULL:
        second = tl.zeros([PADDED, PADDED], tl.float64)
    else:
        squares = tl.zeros([BLOCK, PADDED], tl.float64)
    for block in range(program, tl.cdiv(n_rows, BLOCK), n_programs):
        rows = (block * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        z = centred_rows(x, centre, rows, n_rows, row_stride, column_stride, N_COLUMNS, PADDED)
        weighted = z
        if WEIGHTED:
            weighted *= tl.load(weights + rows, mask=rows < n_rows, other=0.0).to(tl.float64)[:, None]
        first += weighted
        if IS_FULL:
            second = tl.dot(tl.trans(z), weighted, second, out_dtype=tl.float64)
        else:
            squares += weighted * z
    out = sums + program * (PADDED + (PADDED * PADDED if IS_FULL else PADDED))
    tl.store(out + columns, tl.sum(first, axis=0))
    if IS_FULL:
        tl.store(out + PADDED + columns[:, None] * PADDED + columns[None, :], second)
    else:
        tl.store(out + PADDED + columns, tl.sum(squares, axis=0))


@triton.jit
def third_kernel(
    x,
    weights,
    parameters,
    sums,
    n_rows,
    row_stride,
    column_stride,
    N_COLUMNS: tl.constexpr,
    PADDED: tl.constexpr,
    N_DIRECTIONS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum |z|^2 y, shape (N_DIRECTIONS,), and y y y, shape (N_DIRECTIONS^2, N_DIRECTIONS).

    Here z are rows minus a centre, and y their coordinates in some directions. `parameters` are the centre,
    shape (PADDED,), and the directions, shape (PADDED, N_DIRECTIONS).
    """
    program, n_programs = tl.program_id(0), tl.num_programs(0)
    N_PAIRS: tl.constexpr = N_DIRECTIONS * N_DIRECTIONS
    columns, directions, pairs = tl.arange(0, PADDED), tl.arange(0, N_DIRECTIONS), tl.arange(0, N_PAIRS)
    centre = tl.load(parameters + columns)
    basis = tl.load(parameters + PADDED + columns[:, None] * N_DIRECTIONS + directions[None, :])
    square_times = tl.zeros([BLOCK, N_DIRECTIONS], tl.float64)
    third = tl.zeros([N_PAIRS, N_DIRECTIONS], tl.float64)
    for block in range(program, tl.cdiv(n_rows, BLOCK), n_programs):
        rows = (block * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        z = centred_rows(x, centre, rows, n_rows, row_stride, column_stride, N_COLUMNS, PADDED)
        y = tl.dot(z, basis, out_dtype=tl.float64)
        weighted = y
        if WEIGHTED:
            weighted *= tl.load(weights + rows, mask=rows < n_rows, other=0.0).to(tl.float64)[:, None]
        square_times += tl.sum(z * z, axis=1)[:, None] * weighted
        products = tl.reshape(y[:, :, None] * y[:, None, :], [BLOCK, N_PAIRS])
        third = tl.dot(tl.trans(products), weighted, third, out_dtype=tl.float64)
    out = sums + program * (N_DIRECTIONS + N_PAIRS * N_DIRECTIONS)
    tl.store(out + directions, tl.sum(square_times, axis=0))
    tl.store(out + N_DIRECTIONS + pairs[:, None] * N_DIRECTIONS + directions[None, :], third)
