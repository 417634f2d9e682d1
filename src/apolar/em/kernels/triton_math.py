"""Functions that the kernels share, in Triton's language. To be imported only if Triton is installed.

Logits are in base 2: powers of two need fewer operations than exponentials, and in double precision these are
what a kernel spends most of its time on.
"""

import triton
import triton.language as tl

# Adding this number rounds to an integer, which is then in the lowest bits.
ROUNDING = tl.constexpr(6755399441055744.0)
# Powers of two below this do not count beside one.
MIN_EXPONENT = tl.constexpr(-1000.0)
# The bits of the fraction of a double, the exponent of one, and the bits of one.
FRACTION_BITS = tl.constexpr(52)
FRACTION = tl.constexpr(0x000FFFFFFFFFFFFF)
EXPONENT_OF_ONE = tl.constexpr(1023)
ONE = tl.constexpr(0x3FF0000000000000)


@triton.jit
def power_of_two(exponents):
    """Return 2^t for t from 0 down; the relative error of the polynomial is 2e-17."""
    t = tl.maximum(exponents, MIN_EXPONENT)
    shifted = t + ROUNDING
    f = t - (shifted - ROUNDING)
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
def renormalised(product, exponents):
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
def aligned_logits(z, squares, constants, linear, quadratic):
    """Return logits of spherical and diagonal components, shape (n_rows, n_components).

    `z` are centred rows, `linear` and `quadratic` have shape (PADDED, n_components).
    """
    logits = tl.dot(z, linear, out_dtype=tl.float64)
    logits = tl.dot(squares, quadratic, logits, out_dtype=tl.float64)
    return logits + constants[None, :]


@triton.jit
def full_logits(
    z,
    constants,
    roots,
    offsets,
    BLOCK: tl.constexpr,
    PADDED: tl.constexpr,
    N_COMPONENTS: tl.constexpr,
):
    """Return logits of components of any covariance, shape (n_rows, n_components).

    `roots`, shape (PADDED, n_components * PADDED), whiten rows for each component; `offsets` are minus the
    whitened means.
    """
    whitened = tl.zeros([BLOCK, N_COMPONENTS * PADDED], tl.float64) + offsets[None, :]
    whitened = tl.dot(z, roots, whitened, out_dtype=tl.float64)
    squares = tl.reshape(whitened * whitened, [BLOCK, N_COMPONENTS, PADDED])
    return constants[None, :] - tl.sum(squares, axis=2)
