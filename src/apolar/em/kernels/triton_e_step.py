"""The E-step as one kernel, in Triton's language. To be imported only if Triton is installed.

Rows may be stored in single or double precision; sums are in double. One row of `stats` belongs to each
program, which adds its blocks in their order: results are reproducible. It begins with the log-likelihood, in
base 2, and the sums of responsibilities, shape (N_COMPONENTS,).
"""

import triton
import triton.language as tl

from apolar.em.kernels.triton_math import (
    aligned_logits,
    full_logits,
    power_of_two,
    reciprocal,
    renormalised,
    stored_rows,
)


@triton.jit
def weighted_responsibilities(
    logits, total, product, exponents, weights, rows, n_rows, WEIGHTED: tl.constexpr
):
    """Return responsibilities times the weights of rows, and the sums of log-densities with theirs added.

    Without weights, the normalisers are multiplied, and their logarithm is taken once, at the end.
    """
    is_row = rows < n_rows
    largest = tl.max(logits, axis=1)
    responsibilities = power_of_two(logits - largest[:, None])
    normaliser = tl.sum(responsibilities, axis=1)
    factor = reciprocal(normaliser)
    if WEIGHTED:
        weight = tl.load(weights + rows, mask=is_row, other=0.0).to(tl.float64)
        factor *= weight
        total += weight * (largest + tl.log2(normaliser))
    else:
        factor = tl.where(is_row, factor, 0.0)
        total += tl.where(is_row, largest, 0.0)
        product *= tl.where(is_row, normaliser, 1.0)
        product, exponents = renormalised(product, exponents)
    return responsibilities * factor[:, None], total, product, exponents


@triton.jit
def aligned_e_step(
    x,
    weights,
    parameters,
    stats,
    n_rows,
    row_stride,
    column_stride,
    N_COLUMNS: tl.constexpr,
    PADDED: tl.constexpr,
    N_COMPONENTS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum 1, z and the squares of z under the responsibilities of spherical or diagonal components.

    `parameters` are the centre, shape (PADDED,), constants, shape (N_COMPONENTS,), linear and quadratic
    parameters, shape (PADDED, N_COMPONENTS). The sums of z and of its squares have shape (PADDED,
    N_COMPONENTS).
    """
    program, n_programs = tl.program_id(0), tl.num_programs(0)
    components, columns = tl.arange(0, N_COMPONENTS), tl.arange(0, PADDED)
    entries = columns[:, None] * N_COMPONENTS + components[None, :]
    centre = tl.load(parameters + columns)
    constants = tl.load(parameters + PADDED + components)
    linear = tl.load(parameters + PADDED + N_COMPONENTS + entries)
    quadratic = tl.load(parameters + PADDED + N_COMPONENTS + PADDED * N_COMPONENTS + entries)
    counts = tl.zeros([BLOCK, N_COMPONENTS], tl.float64)
    first = tl.zeros([PADDED, N_COMPONENTS], tl.float64)
    second = tl.zeros([PADDED, N_COMPONENTS], tl.float64)
    total = tl.zeros([BLOCK], tl.float64)
    product = tl.full([BLOCK], 1.0, tl.float64)
    exponents = tl.zeros([BLOCK], tl.int32)
    for block in range(program, tl.cdiv(n_rows, BLOCK), n_programs):
        rows = (block * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        values = stored_rows(x, rows, n_rows, row_stride, column_stride, N_COLUMNS, PADDED)
        z = values.to(tl.float64) - centre[None, :]
        squares = z * z
        logits = aligned_logits(z, squares, constants, linear, quadratic)
        responsibilities, total, product, exponents = weighted_responsibilities(
            logits, total, product, exponents, weights, rows, n_rows, WEIGHTED
        )
        counts += responsibilities
        first = tl.dot(tl.trans(z), responsibilities, first, out_dtype=tl.float64)
        second = tl.dot(tl.trans(squares), responsibilities, second, out_dtype=tl.float64)
    total += exponents.to(tl.float64) + tl.log2(product)
    out = stats + program * (1 + N_COMPONENTS * (1 + 2 * PADDED))
    tl.store(out, tl.sum(total, axis=0))
    out += 1
    tl.store(out + components, tl.sum(counts, axis=0))
    tl.store(out + N_COMPONENTS + entries, first)
    tl.store(out + N_COMPONENTS * (1 + PADDED) + entries, second)


@triton.jit
def full_e_step(
    x,
    weights,
    parameters,
    stats,
    n_rows,
    row_stride,
    column_stride,
    N_COLUMNS: tl.constexpr,
    PADDED: tl.constexpr,
    N_COMPONENTS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum 1, z and z z^t under the responsibilities of components of any covariance.

    `parameters` are the centre, shape (PADDED,), the whitening of all rows, shape (PADDED, PADDED),
    constants, shape (N_COMPONENTS,), the whitenings of the components, shape (PADDED, N_COMPONENTS * PADDED),
    and their offsets, shape (N_COMPONENTS * PADDED,). The sums of z have shape (PADDED, N_COMPONENTS), and
    those of z z^t shape (PADDED, N_COMPONENTS * PADDED).
    """
    program, n_programs = tl.program_id(0), tl.num_programs(0)
    WIDTH: tl.constexpr = N_COMPONENTS * PADDED
    components, columns = tl.arange(0, N_COMPONENTS), tl.arange(0, PADDED)
    wide = tl.arange(0, WIDTH)
    entries = columns[:, None] * WIDTH + wide[None, :]
    centre = tl.load(parameters + columns)
    parameters += PADDED
    whitening = tl.load(parameters + columns[:, None] * PADDED + columns[None, :])
    parameters += PADDED * PADDED
    constants = tl.load(parameters + components)
    roots = tl.load(parameters + N_COMPONENTS + entries)
    offsets = tl.load(parameters + N_COMPONENTS + PADDED * WIDTH + wide)
    counts = tl.zeros([BLOCK, N_COMPONENTS], tl.float64)
    first = tl.zeros([PADDED, N_COMPONENTS], tl.float64)
    second = tl.zeros([PADDED, WIDTH], tl.float64)
    total = tl.zeros([BLOCK], tl.float64)
    product = tl.full([BLOCK], 1.0, tl.float64)
    exponents = tl.zeros([BLOCK], tl.int32)
    for block in range(program, tl.cdiv(n_rows, BLOCK), n_programs):
        rows = (block * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        values = stored_rows(x, rows, n_rows, row_stride, column_stride, N_COLUMNS, PADDED)
        z = tl.dot(values.to(tl.float64) - centre[None, :], whitening, out_dtype=tl.float64)
        logits = full_logits(z, constants, roots, offsets, BLOCK, PADDED, N_COMPONENTS)
        responsibilities, total, product, exponents = weighted_responsibilities(
            logits, total, product, exponents, weights, rows, n_rows, WEIGHTED
        )
        counts += responsibilities
        first = tl.dot(tl.trans(z), responsibilities, first, out_dtype=tl.float64)
        weighted = tl.reshape(responsibilities[:, :, None] * z[:, None, :], [BLOCK, WIDTH])
        second = tl.dot(tl.trans(z), weighted, second, out_dtype=tl.float64)
    total += exponents.to(tl.float64) + tl.log2(product)
    out = stats + program * (1 + N_COMPONENTS + PADDED * (N_COMPONENTS + WIDTH))
    tl.store(out, tl.sum(total, axis=0))
    out += 1
    tl.store(out + components, tl.sum(counts, axis=0))
    tl.store(out + N_COMPONENTS + columns[:, None] * N_COMPONENTS + components[None, :], first)
    tl.store(out + N_COMPONENTS * (1 + PADDED) + entries, second)
