"""The E-step and predictions as one kernel each. To be imported only if Triton is installed.

Logits are in base 2: powers of two need fewer operations than exponentials, and in double precision these are
what a kernel spends most of its time on.
"""

import triton
import triton.language as tl

# Adding this number rounds to an integer, which is then in the lowest bits.
TO_INTEGER = tl.constexpr(6755399441055744.0)
# Powers of two below this do not count when added to one.
MIN_EXPONENT = tl.constexpr(-1000.0)
# The bits of the fraction of a double, the exponent of one, and the bits of one.
FRACTION_BITS = tl.constexpr(52)
FRACTION = tl.constexpr(0x000FFFFFFFFFFFFF)
EXPONENT_OF_ONE = tl.constexpr(1023)
ONE = tl.constexpr(0x3FF0000000000000)
# What the kernel writes.
LABELS = tl.constexpr(0)
PROBABILITIES = tl.constexpr(1)
DENSITIES = tl.constexpr(2)
SUMS = tl.constexpr(3)
LOG_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def power_of_two(exponents):
    """Return 2^t for t from 0 down; the relative error of the polynomial is 2e-17."""
    t = tl.maximum(exponents, MIN_EXPONENT)
    shifted = t + TO_INTEGER
    f = t - (shifted - TO_INTEGER)
    p = f * 4.4558179083360645e-10 + 7.074194297288521e-09
    p = p * f + 1.0178057087733941e-07
    p = p * f + 1.3215432535912375e-06
    p = p * f + 1.5252733841556773e-05
    p = p * f + 0.00015403530463724353
    p = p * f + 0.001333355814640647
    p = p * f + 0.009618129107587256
    p = p * f + 0.055504108664821625
    p = p * f + 0.24022650695910158
    p = p * f + 0.6931471805599453
    p = p * f + 1.0
    scale = shifted.to(tl.int64, bitcast=True) << FRACTION_BITS
    return (p.to(tl.int64, bitcast=True) + scale).to(tl.float64, bitcast=True)


@triton.jit
def reciprocal(x):
    """Return 1 / x in double precision, for x in the range of single precision."""
    y = (1.0 / x.to(tl.float32)).to(tl.float64)
    # Each step of Newton's method doubles the number of digits.
    y = y + y * (1.0 - x * y)
    return y + y * (1.0 - x * y)


@triton.jit
def renormalise(product, exponents):
    """Return numbers divided by powers of two, so that they are from 1 to 2, and the sums of exponents.

    The logarithm of a product of many numbers is cheaper than their logarithms.
    """
    bits = product.to(tl.int64, bitcast=True)
    exponents += (bits >> FRACTION_BITS).to(tl.int32) - EXPONENT_OF_ONE
    return ((bits & FRACTION) | ONE).to(tl.float64, bitcast=True), exponents


@triton.jit
def stored_rows(x, rows, n_rows, row_stride, column_stride, N_COLUMNS: tl.constexpr, PADDED: tl.constexpr):
    """Return rows as they are stored, shape (len(rows), PADDED), zero beyond the last row and column."""
    columns = tl.arange(0, PADDED)
    return tl.load(
        x + rows[:, None] * row_stride + columns[None, :].to(tl.int64) * column_stride,
        mask=(rows < n_rows)[:, None] & (columns < N_COLUMNS)[None, :],
        other=0.0,
    )


@triton.jit
def load_mixture(
    parameters, PADDED: tl.constexpr, N_COMPONENTS: tl.constexpr, WIDTH: tl.constexpr, IS_FULL: tl.constexpr
):
    """Return centre, whitening, and the parameters of the components: see `e_step_kernel`.

    The whitening is that for full covariances; for others, which have none, the centre stands for it.
    """
    components, columns, wide = tl.arange(0, N_COMPONENTS), tl.arange(0, PADDED), tl.arange(0, WIDTH)
    entries = columns[:, None] * WIDTH + wide[None, :]
    centre = tl.load(parameters + columns)
    parameters += PADDED
    whitening = centre
    last = entries
    if IS_FULL:
        last = wide
        whitening = tl.load(parameters + columns[:, None] * PADDED + columns[None, :])
        parameters += PADDED * PADDED
    constants = tl.load(parameters + components)
    linear = tl.load(parameters + N_COMPONENTS + entries)
    parameters += N_COMPONENTS + PADDED * WIDTH
    quadratic = tl.load(parameters + last)
    return centre, whitening, constants, linear, quadratic


@triton.jit
def load_tails(
    parameters, PADDED: tl.constexpr, N_COMPONENTS: tl.constexpr, WIDTH: tl.constexpr, IS_FULL: tl.constexpr
):
    """Return the numbers of long tails, after the parameters of the mixture: see `Tails.numbers`."""
    components = tl.arange(0, N_COMPONENTS)
    parameters += PADDED + N_COMPONENTS + PADDED * WIDTH
    if IS_FULL:
        parameters += PADDED * PADDED + WIDTH
    else:
        parameters += PADDED * WIDTH
    peaks = tl.load(parameters + components)
    tops = tl.load(parameters + N_COMPONENTS + components)
    dof = tl.load(parameters + 2 * N_COMPONENTS + components)
    return peaks, tops, dof, tl.load(parameters + 3 * N_COMPONENTS + components)


@triton.jit
def with_tails(logits, peaks, tops, dof, exponents):
    """Return logits with long tails, the factors of rows, and logarithms of 1 + D / dof, in base 2."""
    distances = tl.maximum(peaks[None, :] - logits, 0.0) * (2 * LOG_2)
    base = 1.0 + distances / dof[None, :]
    logs = tl.log2(base)
    return tops[None, :] - exponents[None, :] * logs, (2 * exponents / dof)[None, :] / base, logs


@triton.jit
def logits_of(
    values,
    centre,
    whitening,
    constants,
    linear,
    quadratic,
    BLOCK: tl.constexpr,
    PADDED: tl.constexpr,
    N_COMPONENTS: tl.constexpr,
    IS_FULL: tl.constexpr,
):
    """Return centred rows, whitened for full covariances, and logits, shape (n_rows, n_components).

    For full covariances `linear` are roots, shape (PADDED, n_components * PADDED), which whiten rows for each
    component, and `quadratic` minus the whitened means; for others both have shape (PADDED, n_components).
    """
    z = values.to(tl.float64) - centre[None, :]
    if IS_FULL:
        z = tl.dot(z, whitening, out_dtype=tl.float64)
        whitened = tl.zeros([BLOCK, N_COMPONENTS * PADDED], tl.float64) + quadratic[None, :]
        whitened = tl.dot(z, linear, whitened, out_dtype=tl.float64)
        squares = tl.reshape(whitened * whitened, [BLOCK, N_COMPONENTS, PADDED])
        logits = constants[None, :] - tl.sum(squares, axis=2)
    else:
        logits = tl.dot(z, linear, out_dtype=tl.float64)
        logits = tl.dot(z * z, quadratic, logits, out_dtype=tl.float64)
        logits = logits + constants[None, :]
    return z, logits


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
        product, exponents = renormalise(product, exponents)
    return responsibilities * factor[:, None], total, product, exponents


@triton.jit
def e_step_kernel(
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
    WIDTH: tl.constexpr,
    IS_FULL: tl.constexpr,
    HAS_TAILS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum 1, z, and z z^t or the squares of z under the responsibilities of components.

    `parameters` are the centre, shape (PADDED,), and those of the components, WIDTH values
    per column. For full covariances these are the whitening of all rows, shape (PADDED, PADDED), constants,
    shape (N_COMPONENTS,), the whitenings of the components, shape (PADDED, N_COMPONENTS * PADDED), and their
    offsets, shape (N_COMPONENTS * PADDED,); for others constants, linear and quadratic parameters, shape
    (PADDED, N_COMPONENTS). The sums of z have shape (PADDED, N_COMPONENTS), the second ones (PADDED, WIDTH).
    With long tails, rows count by their factors in these, and the sums of 1 and of log(1 + D / dof) under the
    responsibilities follow.
    """
    program, n_programs = tl.program_id(0), tl.num_programs(0)
    components, columns, wide = tl.arange(0, N_COMPONENTS), tl.arange(0, PADDED), tl.arange(0, WIDTH)
    entries = columns[:, None] * WIDTH + wide[None, :]
    centre, whitening, constants, linear, quadratic = load_mixture(
        parameters, PADDED, N_COMPONENTS, WIDTH, IS_FULL
    )
    if HAS_TAILS:
        peaks, tops, dof, powers = load_tails(parameters, PADDED, N_COMPONENTS, WIDTH, IS_FULL)
        plain = tl.zeros([BLOCK, N_COMPONENTS], tl.float64)
        log_sums = tl.zeros([BLOCK, N_COMPONENTS], tl.float64)
    counts = tl.zeros([BLOCK, N_COMPONENTS], tl.float64)
    first = tl.zeros([PADDED, N_COMPONENTS], tl.float64)
    second = tl.zeros([PADDED, WIDTH], tl.float64)
    total = tl.zeros([BLOCK], tl.float64)
    product = tl.full([BLOCK], 1.0, tl.float64)
    exponents = tl.zeros([BLOCK], tl.int32)
    for block in range(program, tl.cdiv(n_rows, BLOCK), n_programs):
        rows = (block * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        values = stored_rows(x, rows, n_rows, row_stride, column_stride, N_COLUMNS, PADDED)
        z, logits = logits_of(
            values, centre, whitening, constants, linear, quadratic, BLOCK, PADDED, N_COMPONENTS, IS_FULL
        )
        if HAS_TAILS:
            logits, factors, logs = with_tails(logits, peaks, tops, dof, powers)
        responsibilities, total, product, exponents = weighted_responsibilities(
            logits, total, product, exponents, weights, rows, n_rows, WEIGHTED
        )
        if HAS_TAILS:
            plain += responsibilities
            log_sums += responsibilities * logs
            responsibilities *= factors
        counts += responsibilities
        first = tl.dot(tl.trans(z), responsibilities, first, out_dtype=tl.float64)
        if IS_FULL:
            weighted = tl.reshape(responsibilities[:, :, None] * z[:, None, :], [BLOCK, WIDTH])
            second = tl.dot(tl.trans(z), weighted, second, out_dtype=tl.float64)
        else:
            second = tl.dot(tl.trans(z * z), responsibilities, second, out_dtype=tl.float64)
    total += exponents.to(tl.float64) + tl.log2(product)
    size = 1 + N_COMPONENTS + PADDED * (N_COMPONENTS + WIDTH)
    if HAS_TAILS:
        size += 2 * N_COMPONENTS
    out = stats + program * size
    tl.store(out, tl.sum(total, axis=0))
    out += 1
    tl.store(out + components, tl.sum(counts, axis=0))
    tl.store(out + N_COMPONENTS + columns[:, None] * N_COMPONENTS + components[None, :], first)
    tl.store(out + N_COMPONENTS * (1 + PADDED) + entries, second)
    if HAS_TAILS:
        out += N_COMPONENTS * (1 + PADDED) + PADDED * WIDTH
        tl.store(out + components, tl.sum(plain, axis=0))
        tl.store(out + N_COMPONENTS + components, tl.sum(log_sums, axis=0))


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
    WIDTH: tl.constexpr,
    IS_FULL: tl.constexpr,
    HAS_TAILS: tl.constexpr,
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
    components = tl.arange(0, N_COMPONENTS)
    centre, whitening, constants, linear, quadratic = load_mixture(
        parameters, PADDED, N_COMPONENTS, WIDTH, IS_FULL
    )
    if HAS_TAILS:
        peaks, tops, dof, powers = load_tails(parameters, PADDED, N_COMPONENTS, WIDTH, IS_FULL)
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
        _, logits = logits_of(
            values, centre, whitening, constants, linear, quadratic, BLOCK, PADDED, N_COMPONENTS, IS_FULL
        )
        if HAS_TAILS:
            logits, _, _ = with_tails(logits, peaks, tops, dof, powers)
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
