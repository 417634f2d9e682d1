"""Labels as lines of text."""

from collections.abc import Iterator
from typing import Any


def cluster_numbers(predicted: Any) -> list[int]:
    """Return the number of the cluster of each row, from 1, and -1 for noise."""
    return [label + 1 if label >= 0 else label for label in predicted.tolist()]


def label_lines(predicted: Any, uncertainty: Any, row_numbers: Any) -> Iterator[str]:
    """Yield a header, then for each row its number in the table, its cluster, and the probability of that.

    Rows and clusters are counted from 1; noise is -1.
    """
    import numpy as np

    rows = np.arange(len(predicted)) if row_numbers is None else np.asarray(row_numbers)
    yield "row,cluster,probability\n"
    for start in range(0, len(predicted), 100_000):
        cut = slice(start, start + 100_000)
        clusters = cluster_numbers(predicted[cut])
        columns = ((rows[cut] + 1).tolist(), clusters, (1 - uncertainty[cut]).tolist())
        for row, cluster, probability in zip(*columns, strict=True):
            yield f"{row},{cluster},{probability:.6g}\n"
