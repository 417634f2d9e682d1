"""Labels, probabilities and densities of rows as one kernel. To be imported only if Triton is installed."""

import triton
import triton.language as tl

from apolar.em.kernels.triton_math import (
    aligned_logits,
    full_logits,
    power_of_two,
    reciprocal,
    stored_rows,
)

# What the kernel writes.
LABELS = tl.constexpr(0)
PROBABILITIES = tl.constexpr(1)
DENSITIES = tl.constexpr(2)
SUMS = tl.constexpr(3)
LOG_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def predict_kernel(
    x,
    weights,
    parameters,
    out,
    checks,
    n_rows,
    row_stride,
    column_stride,
    n_written,
    N_COLUMNS: tl.constexpr,
    PADDED: tl.constexpr,
    N_COMPONENTS: tl.constexpr,
    IS_FULL: tl.constexpr,
    WEIGHTED: tl.constexpr,
    WHAT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write something about each row, or the sums of log-densities and of logarithms of certainties.

    `parameters` are those of the E-step. The kernel writes labels, probabilities, shape (n_rows, n_written),
    or log-densities; or each program writes its two sums. Its entry of `checks` is zero, or NaN if a value or
    a density is not finite.
    """
    program, n_programs = tl.program_id(0), tl.num_programs(0)
    components, columns = tl.arange(0, N_COMPONENTS), tl.arange(0, PADDED)
    centre = tl.load(parameters + columns)
    parameters += PADDED
    if IS_FULL:
        WIDTH: tl.constexpr = N_COMPONENTS * PADDED
        wide = tl.arange(0, WIDTH)
        whitening = tl.load(parameters + columns[:, None] * PADDED + columns[None, :])
        parameters += PADDED * PADDED
        roots = tl.load(parameters + N_COMPONENTS + columns[:, None] * WIDTH + wide[None, :])
        offsets = tl.load(parameters + N_COMPONENTS + PADDED * WIDTH + wide)
    else:
        entries = columns[:, None] * N_COMPONENTS + components[None, :]
        linear = tl.load(parameters + N_COMPONENTS + entries)
        quadratic = tl.load(parameters + N_COMPONENTS + PADDED * N_COMPONENTS + entries)
    constants = tl.load(parameters + components)
    total = tl.zeros([BLOCK], tl.float64)
    certainty = tl.zeros([BLOCK], tl.float64)
    value_checks = tl.zeros([BLOCK, PADDED], x.dtype.element_ty)
    density_checks = tl.zeros([BLOCK], tl.float64)
    for block in range(program, tl.cdiv(n_rows, BLOCK), n_programs):
        rows = (block * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        is_row = rows < n_rows
        values = stored_rows(x, rows, n_rows, row_stride, column_stride, N_COLUMNS, PADDED)
        # Zero times infinity, or NaN, is NaN.
        value_checks += values * 0.0
        z = values.to(tl.float64) - centre[None, :]
        if IS_FULL:
            z = tl.dot(z, whitening, out_dtype=tl.float64)
            logits = full_logits(z, constants, roots, offsets, BLOCK, PADDED, N_COMPONENTS)
        else:
            logits = aligned_logits(z, z * z, constants, linear, quadratic)
        largest = tl.max(logits, axis=1)
        density_checks += largest * 0.0
        if WHAT == LABELS:
            tl.store(out + rows, tl.argmax(logits, axis=1).to(tl.int64), mask=is_row)
        else:
            responsibilities = power_of_two(logits - largest[:, None])
            normaliser = tl.sum(responsibilities, axis=1)
            if WHAT == PROBABILITIES:
                responsibilities *= reciprocal(normaliser)[:, None]
                tl.store(
                    out + rows[:, None] * n_written + components[None, :],
                    responsibilities,
                    mask=is_row[:, None] & (components < n_written)[None, :],
                )
            else:
                logarithm = tl.log2(normaliser)
                if WHAT == DENSITIES:
                    tl.store(out + rows, (largest + logarithm) * LOG_2, mask=is_row)
                else:
                    if WEIGHTED:
                        weight = tl.load(weights + rows, mask=is_row, other=0.0).to(tl.float64)
                    else:
                        weight = tl.where(is_row, 1.0, 0.0).to(tl.float64)
                    total += weight * (largest + logarithm)
                    certainty -= weight * logarithm
    if WHAT == SUMS:
        tl.store(out + 2 * program, tl.sum(total, axis=0) * LOG_2)
        tl.store(out + 2 * program + 1, tl.sum(certainty, axis=0) * LOG_2)
    check = tl.sum(tl.sum(value_checks, axis=1), axis=0).to(tl.float64) + tl.sum(density_checks, axis=0)
    tl.store(checks + program, check)
