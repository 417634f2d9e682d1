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
    # Rows times parameters of a search, and of its continuation on a sample that is larger by `growth`.
    work: int = 1_000_000
    max_work: int = 4_000_000
    growth: int = 5
    # Rows per parameter: of any search, and of the samples on the way to all rows.
    rows_per_parameter: int = 10
    approach_rows: int = 200
    # Rows of a merge tree that many candidates share, and of the start "mbhc": time grows with their square.
    tree_rows: int = 1000
    max_tree_rows: int = 5000
    # Rows on which proposals are compared, and those that are tried as means of an added component.
    merge_rows: int = 1000
    split_rows: int = 2000
    tried_rows: int = 128

    # --- search: starts and races (benchmarks/small_clusters, benchmarks/generalise) ---
    overseeded_starts: int = 4
    seeds_per_component: int = 4
    # Steps of EM: before and after a merger, from a start, and after a split, since the split of a large
    # component has a low likelihood for some steps, even if it finds a cluster.
    merge_steps: int = 5
    short_steps: int = 10
    split_steps: int = 15
    # How many of a race are run to their optima, pairs are merged, rounds of split and merge are run, and
    # contenders are run on all rows.
    kept: int = 3
    # If at least this many starts reach the same optimum, there is no split and merge.
    agreeing: int = 4
    # Log-likelihood: the least gain for which another round is run, the distance of mixtures that lead to the
    # same optimum, and the standard errors within which a difference may be chance.
    min_gain: float = 0.05
    same_optimum: float = 0.5
    chance_errors: float = 4.0
    # Tolerances of EM on all rows and on a sample, and its most passes there.
    tolerance: float = 1e-3
    sample_tolerance: float = 0.1
    sample_passes: int = 300
    # The start "emem", and how many of its runs share a pass: with more, a pass is no faster.
    emem_runs: int = 50
    runs_per_batch: int = 10
    # With more columns than this, full covariances start from diagonal ones.
    max_columns: int = 32

    # --- search: proposals ---
    # Halves of a component are placed so many deviations from its mean, along the principal axis.
    half_step: float = 0.8
    # Bounds on the share of the variance that is between the parts of a skewed component.
    min_between: float = 0.1
    max_between: float = 0.8
    # With fewer rows per parameter, the likelihood does not tell which components to merge.
    merge_rows_per_parameter: int = 5

    # --- select (benchmarks/selection) ---
    # Differences of the criterion from the lowest: of candidates that are fitted again from their neighbours,
    # and of those that can still be the best.
    reach: float = 30.0
    final_reach: float = 10.0
    # Steps before starts are ranked, the tolerance of plain runs, relative to the objective, and the mergers
    # that are tried of a neighbour.
    ranking_steps: int = 8
    relative_tolerance: float = 1e-7
    merged_pairs: int = 5
    # Values of the rows for each parameter; the likelihood of fewer follows single values.
    values_per_parameter: int = 3
    # Without a prior, a component with a variance below this fraction of that of all rows has collapsed.
    min_variance: float = 1e-5


SETTINGS = Settings()
