"""The tuned numbers that steer a fit, each with what set it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SETTINGS", "Settings"]


@dataclass(frozen=True)
class Settings:
    """Numbers of the search, of EM and of the model; none of them is a parameter of the estimator."""

    # --- search: samples of the rows (benchmarks/small_clusters) ---
    # Rows of a search, of comparisons and of checks. Starts that do not search see twice as many.
    sample_rows: int = 10_000
    # Rows times parameters up to which a search goes on with twice as many rows.
    work: int = 1_000_000
    # Rows per parameter: of any search, and of the samples on the way to all rows, each larger by `growth`.
    growth: int = 5
    rows_per_parameter: int = 10
    approach_rows: int = 200
    # Rows of a merge tree that many candidates share, and of the start "mbhc": time grows with their square.
    tree_rows: int = 1000
    max_tree_rows: int = 5000
    # Rows on which mergers are compared, and those that are tried as means of an added component.
    merge_rows: int = 1000
    tried_rows: int = 128

    # The budget of a search: this number of runs of EM from one start on all rows, each of about this number
    # of passes; or multiplications that take some tenths of a second.
    search_runs: int = 2
    run_passes: int = 40
    free_work: float = 2e9

    # --- search: starts and races (benchmarks/small_clusters, benchmarks/generalise) ---
    overseeded_starts: int = 4
    seeds_per_component: int = 4
    # Steps of EM in a race: of starts, of splits and of mergers, before the best of them are run on.
    short_steps: int = 12
    # Among optima that rows left out do not tell apart: what one must gain for each nat by which rows that
    # are seen are likelier than rows left out. Together that is 3/2 for each parameter, as in [bozdogan1994]
    # (benchmarks/left_out).
    price: float = 0.5
    # How many of a race are run to their optima, pairs are merged, and rounds of split and merge are run.
    kept: int = 3
    # If at least this many starts, and all but one, reach the same optimum, there are no more of them, and no
    # split and merge.
    agreeing: int = 3
    # Log-likelihood: the distance of mixtures that lead to the same optimum, and the standard errors within
    # which a difference may be chance.
    same_optimum: float = 0.5
    chance_errors: float = 4.0
    # EM in a search: its tolerance, the least gain for which another round is run, and its most passes.
    sample_tolerance: float = 0.1
    sample_passes: int = 300
    # The start "emem", and how many of its runs share a pass: with more, a pass is no faster.
    emem_runs: int = 50
    runs_per_batch: int = 10
    # How fast families count less, the less they describe, where clusters are those on which families agree
    # (benchmarks/clusters).
    agreement_power: int = 3
    # With more columns than this, full covariances start from diagonal ones.
    max_columns: int = 32

    # --- search: proposals ---
    # The least responsibility for a row of a component that is split or merged.
    owned_share: float = 1e-3
    # Mergers whose cost is computed, per component: those of the least cost by determinants alone, and
    # the same number of components that share most rows.
    pairs_per_component: int = 2
    # Halves of a component are placed this many deviations from its mean, along the principal axis.
    half_step: float = 0.8
    # With fewer rows per parameter, the likelihood does not tell which components to merge.
    merge_rows_per_parameter: int = 5

    # Principal axes are eigenvectors of the covariance up to this many columns; above, they come from this
    # many power iterations. Directions of less variance, relative to the largest, say nothing.
    dense_columns: int = 64
    power_iterations: int = 8
    min_axis_variance: float = 1e-10
    # Numbers of row statistics that comparisons keep, and entries of densities that one call computes.
    kept_numbers: int = 2**21
    chunk_numbers: int = 2**18

    # --- starts from moments (benchmarks/moment_families) ---
    # Rows per component and column, below which moments say too little.
    moment_rows: int = 10
    # The most columns: third moments are fitted by a system that grows with their third power, and sums of
    # fourth powers take the square of the number of pairs of columns for each row.
    moment_columns_diagonal: int = 24
    moment_columns_tied: int = 20
    moment_products: float = 1e11

    # --- warnings (benchmarks/generalise) ---
    # Two optima disagree if the adjusted Rand index between their partitions is below this.
    different: float = 0.5

    # --- streams ---
    # The first rows are kept, and fitted together, until there are this many, and this many per parameter of
    # the means and weights.
    stream_rows: int = 5000
    stream_rows_per_parameter: int = 20
    # Stepwise EM gives a batch its fraction of the rows so far, to this power, as its weight [cappe2009].
    forgetting: float = 0.8
    # The mixture of the moments replaces that of stepwise EM if a batch is likelier by this.
    clearly_better: float = 10.0

    # --- select (benchmarks/selection) ---
    # Differences of the criterion from the lowest: of candidates that are fitted again from their neighbours,
    # and of those that can still be the best.
    reach: float = 30.0
    final_reach: float = 10.0
    # The tolerance of plain runs, relative to the objective.
    relative_tolerance: float = 1e-7
    # Values of the rows for each parameter; the likelihood of fewer follows single values.
    values_per_parameter: int = 3
    # Without a prior, a component with a variance below this fraction of that of all rows has collapsed.
    min_variance: float = 1e-5

    # --- noise component (benchmarks/noise_component) ---
    # The density of a row is told by the distance to this neighbour, among this many rows.
    neighbour: int = 5
    neighbour_rows: int = 3000
    # Rows whose box the noise fills.
    box_rows: int = 20_000
    # The least and the most noise that a start begins with.
    min_share: float = 0.01
    max_share: float = 0.9

    # --- EM to an optimum (benchmarks/em, benchmarks/small_clusters) ---
    # The least number of plain steps before accelerated ones: far from an optimum plain EM is the better of
    # the two. Plain steps continue while each gains less than this fraction of the step before.
    first_steps: int = 3
    fast_ratio: float = 0.1
    # A gain that is smaller, relative to the objective, is within rounding errors.
    gain_rounding: float = 1e-14
    # Successive accelerated steps that must gain less than the tolerance before a run can end, and the pairs
    # of the L-BFGS history from which on its estimate of the remaining gain is trusted.
    quiet_steps: int = 2
    trusted_pairs: int = 4
    # The local coordinates are re-centred when the logarithm of a weight or a deviation has changed by more
    # than this; no single step changes one by more.
    max_log_change: float = 1.0
    # The most times that the prior is adapted to the end of a run, and the tolerance of the run before the
    # first.
    max_adaptations: int = 12
    rough_tolerance: float = 0.5
    # L-BFGS: pairs that its history holds, and the least cosine between a step and its gradient difference;
    # Wolfe's conditions: the least rise as a fraction of what the slope predicts, and the largest slope after
    # a step; the longest step of a line search, relative to the first, and its most evaluations.
    lbfgs_pairs: int = 12
    min_cosine: float = 1e-10
    min_rise: float = 1e-4
    max_slope: float = 0.9
    longest_step: float = 16.0
    max_trials: int = 12
    # Saddles: the most that a run leaves, and the least gain of leaving one; the most products with the
    # Hessian, by gradient differences of this step; the curvatures, relative to the complete information,
    # above which a direction shows a saddle, and below which the search for one ends.
    max_saddles: int = 10
    saddle_rise: float = 1e-6
    max_products: int = 20
    gradient_difference: float = 1e-4
    min_rising: float = 2e-5
    clearly_falling: float = -0.2
    # Lengths that are tried along a rising direction, and along a Newton step.
    saddle_lengths: tuple[float, ...] = (0.05, -0.05, 0.25, -0.25, 1.0, -1.0)
    newton_lengths: tuple[float, ...] = (1.0, 0.3, 0.1)
    # A component of fewer rows is almost empty.
    min_component_rows: float = 0.9
    # The largest variance of rounding errors, as a fraction of the variance of a column: that of a column of
    # two values, each in half of the rows.
    max_rounding: float = 1 / 3

    # --- the prior and the M-steps (benchmarks/left_out, benchmarks/generalise) ---
    # The scale of the default prior of matrices, relative to that of the other covariances.
    full_prior_scale: float = 0.01
    # The least strength at which the evidence is computed, in rows per component; and, before strengths are
    # chosen, the strength per parameter and column.
    min_strength: float = 1.25
    search_strength: float = 0.4
    # One row of this fraction of the variance of all rows, where rows do not vary at all.
    prior_floor: float = 1e-6
    # Next to few factors: rows of the noise of all components in that of each. One row says the least.
    noise_rows: float = 1.0
    # The least information of a row about an angle: that of axes of about the same variance is near zero.
    min_angle_information: float = 0.1


SETTINGS = Settings()
