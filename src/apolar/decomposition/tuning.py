"""Every tuned number of the decomposition, in one place."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """What the search, the refinement and the proofs are tuned with.

    Work is counted in multiplications: about 1e9 take a second. The values were set on the
    benchmarks `rank_search`, `noise` and `tensor_peers`.
    """

    # --- residuals, relative to the norm of the tensor
    # A search ends here: numbers that are right to ten digits.
    exact_residual: float = 1e-10
    # Terms that leave less are polished.
    nearly_exact: float = 1e-6
    # What rounding leaves, relative to the sizes of all terms together; smaller parts are zero.
    rounding: float = 1e-14
    # Terms that leave less and still move are on a slow way to exact ones.
    promising: float = 1e-3
    # Terms of a detected rank that leave more are not the tensor's own; what is less may be noise.
    far: float = 0.01
    # What terms leave is noise if it is at most this times what the singular values show.
    same_noise: float = 1.5
    # Terms with more numbers than this share of the tensor's come near to any tensor.
    max_share: float = 0.9

    # --- points that lie close together
    # Terms with a larger cosine are nearly parallel: they can be exchanged for others.
    parallel_cosine: float = 0.9
    # Zeros whose cosine is nearer to one than this may be one multiple zero, which rounding splits.
    same_point: float = 1e-8
    # By how much eigenvalues of one multiple zero may differ, relative to the largest.
    spreads: tuple[float, ...] = (1e-10, 1e-6, 1e-4, 1e-3, 1e-2)
    # Terms that may be off by this share of their size are not determined: those near a limit that has no
    # such terms are off by 0.7 times their size, to first order, and by 0.01 in the worst of 400 forms.
    undetermined: float = 1e-3

    # --- steps and starts
    # Refinement steps before starts are compared, and of exact terms to rounding.
    short_run: int = 60
    # Full steps at the end: two mostly lead to rounding, and the first may lead uphill.
    last_steps: int = 3
    # The steps of a long run, as a multiple of max_iter.
    long_run: int = 5
    # Random starts that are made in any case.
    few_starts: int = 3
    # Constrained starts that lead to the best terms before the search ends.
    enough_hits: int = 5
    # A round of random runs: a start, then hops from the best so far.
    round_of_starts: int = 20

    # --- paths of solutions
    # The first step, of a parameter from 0 to 1; what Newton's method may correct of a step, relatively; and
    # paths at most.
    path_step: float = 0.02
    path_tolerance: float = 1e-5
    max_paths: int = 5000
    # Loops without a new decomposition that end a search for all: if one of two is missing, each loop finds
    # it with a chance of a half.
    empty_loops: int = 10

    # --- work
    # A least-squares solution with the Jacobian.
    dense_work: float = 2e6
    # Variables are put in other units if those that suit the coefficients differ by this power of two.
    unit_bits: int = 4
    # Coefficients for each variable that tell its unit.
    enough_coefficients: int = 10
    # Common zeros of a kernel, as a multiple of the rank, among which terms are searched for.
    max_zeros: int = 3
    # Unknowns up to which Newton's dense Hessian pays, and those of a factorised step.
    newton_unknowns: int = 150
    max_unknowns: int = 900
    # All random runs at one rank together; those at all ranks that are tried, and a singular value
    # decomposition of Terracini's matrix.
    search_work: float = 5e10
    rank_work: float = 3e9

    # --- sizes
    # Coefficients up to which complex terms are tried at all ranks, and those up to which any rank is tried.
    few_coefficients: int = 40
    many_coefficients: int = 200
    # Coefficients up to which BLAS is faster with one thread.
    one_thread_coefficients: int = 50_000
    # Coefficients up to which a sum over rows is formed, and those with a constraint.
    formed_coefficients: int = 10_000
    max_formed: int = 1_000_000
    # Directions beyond those that are needed, and passes over the rows, of a range finder.
    oversampling: int = 10
    row_rounds: int = 4

    # --- exact numbers
    # Common zeros of the kernel of a Hankel matrix, and multiplications of an elimination that finds them.
    kernel_terms: int = 20
    kernel_work: float = 1e7
    # Powers of two that bound the denominators of the values at which a coefficient of a family is held.
    family_denominators: int = 6
    # The terms of a family must stay within this condition, and this size, relative to the form.
    max_family_condition: float = 1e7
    max_family_weight: float = 1e3

    # Bits of a number in floating point that are right: at best, mostly, and at least; of the first attempt
    # with more, each further one having three times as many; those that rounding may take in sums, and in a
    # number.
    float_bits: tuple[int, int, int] = (48, 42, 34)
    first_bits: int = 128
    guard_bits: int = 40
    margin_bits: int = 4
    # A relation between numbers counts if it needs this share of their digits: one by chance needs all.
    relation_share: float = 0.7
    # The largest denominator of a coefficient of a form in floating point.
    max_denominator: int = 10**5
    # Square factors of a radicand are searched for among this number of primes.
    trial_primes: int = 1000

    # --- proofs
    # Multiplications of one matrix decomposition, and of the minors for a Kruskal rank.
    proof_work: float = 3e8
    kruskal_work: float = 5e6
    # Terms for which uniqueness is examined, and coefficients of all of them whose sum is computed in balls.
    max_proof_terms: int = 500
    ball_products: float = 1e6
    # Entries of a Koszul flattening.
    koszul_entries: float = 3e5
    # Tensors as near as this, relative to the norm, are the same to rounding.
    min_margin: float = 2.0**-46


TUNING = Tuning()
