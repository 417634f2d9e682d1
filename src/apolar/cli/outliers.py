"""Outliers as a sentence, and as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from apolar.cli.labels import cluster_numbers, quoted_cell

if TYPE_CHECKING:
    from apolar import GaussianMixture
    from apolar._core.arrays import Array

# Rows that a sentence names.
MAX_NAMED = 10


def row_numbers_of(chosen: Array, row_numbers: Array | None) -> list[int]:
    """Return the numbers of some rows as they are counted in their table, from 1.

    Parameters
    ----------
    chosen : ndarray of bool, shape (n_samples,)
    row_numbers : ndarray of int, shape (n_samples,), or None
        The numbers of all rows in the table, from zero.
    """
    import numpy as np

    positions = np.flatnonzero(chosen)
    return ((positions if row_numbers is None else np.asarray(row_numbers)[positions]) + 1).tolist()


def outliers_sentence(rows: Sequence[int], level: float) -> str:
    """Return how many rows are outliers, by which rule, and which they are."""
    often = f"one table in {round(1 / level)}" if level <= 0.5 else f"{level:.3g} of all tables"
    rule = f"further from every cluster than rows of this mixture are, but for {often} (--outliers={level:g})"
    if not rows:
        return f"No row is an outlier: {rule}."
    named = ", ".join(f"{row}" for row in rows[:MAX_NAMED])
    more = f" and {len(rows) - MAX_NAMED:,} more" if len(rows) > MAX_NAMED else ""
    if len(rows) == 1:
        return f"1 row is an outlier: {rule}: row {named}."
    return f"{len(rows):,} rows are outliers: {rule}: rows {named}{more}."


def outlier_lines(
    model: GaussianMixture,
    X: Array,
    names: Sequence[str],
    predicted: Array,
    outliers: Array,
    row_numbers: Array | None,
) -> Iterator[str]:
    """Yield a header, then for each outlier its row, the cluster, the distance and its values.

    The distance is that of Mahalanobis from the nearest cluster, in deviations; empty if it overflows.
    """
    import numpy as np

    from apolar.estimator.outliers import OutlierRule
    from apolar.mixture.conditional import min_distances

    yield ",".join(["row", "cluster", "distance", *map(quoted_cell, names)]) + "\n"
    rule = OutlierRule.of(model, 0.05)  # for its means and covariances, which do not depend on the level
    means, covariances = rule.means[rule.is_cluster], rule.covariances[rule.is_cluster]
    positions = np.flatnonzero(outliers)
    for number, position in zip(row_numbers_of(outliers, row_numbers), positions.tolist(), strict=True):
        row = np.asarray(X[position : position + 1], dtype=np.float64)
        square = float(min_distances(means, covariances, row)[0][0])
        distance = f"{square**0.5:.6g}" if np.isfinite(square) else ""
        cells: list[Any] = ["" if np.isnan(value) else repr(value) for value in row[0].tolist()]
        cluster = cluster_numbers(predicted[position : position + 1])[0]
        yield ",".join([str(number), str(cluster), distance, *cells]) + "\n"
