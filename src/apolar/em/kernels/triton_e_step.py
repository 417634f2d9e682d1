"""Kernels in Triton's language. To be imported only if Triton is installed."""

import triton
import triton.language as tl

# The loop over columns is unrolled up to this many.
UNROLLED = tl.constexpr(16)


@triton.jit
def with_column(
    logits,
    square,
    x,
    parameters,
    rows,
    is_row,
    j,
    row_stride,
    column_stride,
    N_COLUMNS: tl.constexpr,
    N_COMPONENTS: tl.constexpr,
    BY_COLUMN: tl.constexpr,
):
    """Return the logits and the sum of squares with the terms of one column added."""
    components = tl.arange(0, N_COMPONENTS)
    linear = parameters + 2 * N_COLUMNS + N_COMPONENTS
    quadratic = linear + N_COLUMNS * N_COMPONENTS
    value = tl.load(x + rows * row_stride + j * column_stride, mask=is_row, other=0.0).to(tl.float64)
    z = (value - tl.load(parameters + j)) * tl.load(parameters + N_COLUMNS + j)
    logits += z[:, None] * tl.load(linear + j * N_COMPONENTS + components)[None, :]
    if BY_COLUMN:
        logits += (z * z)[:, None] * tl.load(quadratic + j * N_COMPONENTS + components)[None, :]
    else:
        square += z * z
    return logits, square


@triton.jit
def e_step_kernel(
    x,
    weights,
    parameters,
    stats,
    likelihood,
    n_rows,
    row_stride,
    column_stride,
    N_COLUMNS: tl.constexpr,
    PADDED: tl.constexpr,
    N_COMPONENTS: tl.constexpr,
    BY_COLUMN: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum 1, z and squares of z under the responsibilities of rows, and the log-densities.

    Rows may be stored in single or double precision; sums are in double.
    """
    program, n_programs = tl.program_id(0), tl.num_programs(0)
    components, columns = tl.arange(0, N_COMPONENTS), tl.arange(0, PADDED)
    scale = parameters + N_COLUMNS
    constant = scale + N_COLUMNS
    quadratic = constant + N_COMPONENTS + N_COLUMNS * N_COMPONENTS
    constants = tl.load(constant + components)
    centres = tl.load(parameters + columns, mask=columns < N_COLUMNS, other=0.0)
    scales = tl.load(scale + columns, mask=columns < N_COLUMNS, other=0.0)
    weight = tl.zeros([N_COMPONENTS], tl.float64)
    first = tl.zeros([N_COMPONENTS, PADDED], tl.float64)
    second = tl.zeros([N_COMPONENTS, PADDED], tl.float64)
    square_sums = tl.zeros([N_COMPONENTS], tl.float64)
    total = tl.zeros([BLOCK], tl.float64)
    if not BY_COLUMN:
        curvature = tl.load(quadratic + components)
    for block in range(program, tl.cdiv(n_rows, BLOCK), n_programs):
        rows = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        is_row = rows < n_rows
        logits = tl.zeros([BLOCK, N_COMPONENTS], tl.float64) + constants[None, :]
        square = tl.zeros([BLOCK], tl.float64)
        if N_COLUMNS <= UNROLLED:
            for j in tl.static_range(N_COLUMNS):
                logits, square = with_column(
                    logits,
                    square,
                    x,
                    parameters,
                    rows,
                    is_row,
                    j,
                    row_stride,
                    column_stride,
                    N_COLUMNS,
                    N_COMPONENTS,
                    BY_COLUMN,
                )
        else:
            # Unrolled, longer loops take long to compile and are no faster.
            for j in range(N_COLUMNS):
                logits, square = with_column(
                    logits,
                    square,
                    x,
                    parameters,
                    rows,
                    is_row,
                    j,
                    row_stride,
                    column_stride,
                    N_COLUMNS,
                    N_COMPONENTS,
                    BY_COLUMN,
                )
        if not BY_COLUMN:
            logits += square[:, None] * curvature[None, :]
        largest = tl.max(logits, axis=1)
        responsibilities = tl.exp(logits - largest[:, None])
        normaliser = tl.sum(responsibilities, axis=1)
        row_weight = tl.where(is_row, 1.0, 0.0).to(tl.float64)
        if WEIGHTED:
            row_weight *= tl.load(weights + rows, mask=is_row, other=0.0).to(tl.float64)
        total += row_weight * (largest + tl.log(normaliser))
        responsibilities *= (row_weight / normaliser)[:, None]
        weight += tl.sum(responsibilities, axis=0)
        values = tl.load(
            x + rows[:, None] * row_stride + columns[None, :].to(tl.int64) * column_stride,
            mask=is_row[:, None] & (columns < N_COLUMNS)[None, :],
            other=0.0,
        ).to(tl.float64)
        z_all = (values - centres[None, :]) * scales[None, :]
        transposed = tl.trans(responsibilities)
        first = tl.dot(transposed, z_all, first, out_dtype=tl.float64)
        if BY_COLUMN:
            second = tl.dot(transposed, z_all * z_all, second, out_dtype=tl.float64)
        else:
            square_sums += tl.sum(responsibilities * square[:, None], axis=0)
    n_stats = 1 + PADDED + (PADDED if BY_COLUMN else 1)
    out = stats + (program * N_COMPONENTS + components) * n_stats
    tl.store(out, weight)
    tl.store(out[:, None] + 1 + columns[None, :], first)
    if BY_COLUMN:
        tl.store(out[:, None] + 1 + PADDED + columns[None, :], second)
    else:
        tl.store(out + 1 + PADDED, square_sums)
    tl.store(likelihood + program, tl.sum(total, axis=0))
