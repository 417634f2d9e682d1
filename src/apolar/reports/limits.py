"""The numbers that say what a report shows, and from when on it says something."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a report shows, and from when on it says something.

    They bound the size of the page and the time it takes, or are conventions that the page states; none
    changes a fit.
    """

    # --- rows under a mixture ---
    # A row with a log-density below this is too far from every cluster for its probabilities to be numbers.
    min_density: float = -1e270
    # The largest mean of a column whose square does not overflow.
    max_mean: float = 1e150
    # Standard errors cost about a pass over the rows per parameter: above this many numbers there are none.
    max_numbers: float = 2e9

    # --- findings ---
    # The cluster of a row is in doubt if its probability is below this.
    doubt: float = 0.9
    # Above this fraction of the rows in doubt, clusters are hardly apart.
    much_doubt: float = 0.1
    # A cluster of fewer rows may be due to chance.
    few_rows: int = 5
    # With a larger condition number of the information, the rows hardly determine some parameters.
    ill_conditioned: float = 1e4
    # What tells clusters apart: up to this many columns, whose means are this many standard deviations apart
    # or more; above the second number they are no clearer.
    n_traits: int = 3
    min_difference: float = 1.0
    clear_difference: float = 4.0
    # A column whose clusters make up less of its variance hardly tells them apart.
    least_share: float = 0.02
    # A column has a long tail if its median is this much nearer to the tenth percentile than to the
    # ninetieth, and if deviations of clusters grow with their means: the correlation of the logarithms.
    long_tail: float = 0.3
    widening: float = 0.7
    # Sizes that the headline lists, and columns that a command names.
    listed_counts: int = 12
    named_columns: int = 12
    # Rows that a card shows.
    typical_rows: int = 3
    # A value of a category is frequent in a cluster above this many standard errors more than elsewhere.
    surprise: float = 3.0

    # --- tables of the page ---
    listed_rows: int = 15
    # Rows whose labels the page holds: about 20 bytes each.
    labelled_rows: int = 50_000
    listed_columns: int = 30
    listed_candidates: int = 60
    # Candidates that show at once.
    first_candidates: int = 12

    # --- pictures ---
    # Larger tables are randomly subsampled to this many rows first.
    sampled_rows: int = 20_000
    # Rows with a ring; more would hide the others.
    n_rings: int = 100
    # How far outside of the other rows an outlier is still shown, in their range.
    far: float = 1.0
    profile_columns: int = 16
    # Points of a panel, of all panels of the matrix, and of a matrix that says which row each is.
    panel_points: int = 1200
    matrix_points: int = 10_000
    named_points: int = 3600
    # Rows at one place that are named.
    named_together: int = 4


LIMITS = Limits()
