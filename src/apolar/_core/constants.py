"""Numbers that the compiled kernels and NumPy share: `setup.py` defines them for the C compiler.

Each line is a name and a literal.
"""

# The least weight of a component in logarithms and divisors: an empty component must not give NaN.
MIN_WEIGHT = 1e-300
# Logits are raised to this much below the largest of a row: exp(-100) is 4e-44.
MIN_LOGIT = -100.0
# A component of less than this fraction of the weight of the rows is empty.
MIN_PART = 1e-10
# The least fraction of a variance, or of a weight, that a row leaves when it is left out.
MIN_LEFT = 1e-12
# How far the objective may fall in a step of EM, relative to one plus its size: by rounding, with a margin.
MAX_FALL = 1e-6

# The rounding error of a scatter, relative to the sum of squares that it is a difference of. It is added, so
# that a component far from the centre is no narrower than can be computed.
SCATTER_ROUNDING = 4e-15
# The rounding error of a matrix product, relative to its largest eigenvalue, with a margin.
PRODUCT_ROUNDING = 1e-15
# The least scatter of a component, relative to the largest, in logarithms and divisors; and the least volume.
MIN_SCATTER = 1e-30
MIN_VOLUME = 1e-10
# Rounds of alternating estimates of volumes and a shape, and the relative change at which they end; and the
# rounds from volumes that are near, where EM goes on from any improvement.
VOLUME_ROUNDS = 500
VOLUME_TOLERANCE = 1e-13
NEAR_ROUNDS = 5

# Sweeps of rotations to common axes; those from each of two starts, before the better one goes on; and those
# from axes that are near.
SWEEPS = 200
FIRST_SWEEPS = 10
NEAR_SWEEPS = 2
# The sine of an angle that counts as zero, and the contrast of the variances in a plane, relative to the
# scatter: without any, a rotation would gain nothing, and never end.
MIN_SINE = 1e-12
MIN_CONTRAST = 1e-24

# Ratios of densities are clipped to exp(+-MAX_LOG_RATIO).
MAX_LOG_RATIO = 50.0
# Mixtures are compared on a multiple of this many rows.
ROWS_TOGETHER = 32
