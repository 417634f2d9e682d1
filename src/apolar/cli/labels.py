"""Labels as lines of text."""

from collections.abc import Iterator
from typing import Any


def label_lines(predicted: Any, uncertainty: Any, row_numbers: Any) -> Iterator[str]:
    """Yield a header, then for each row its number in the table, its cluster, and the probability of that.

    Rows and clusters are counted from 1.
    """
    import numpy as np

    rows = np.arange(len(predicted)) if row_numbers is None else np.asarray(row_numbers)
    yield "row,cluster,probability\n"
    for start in range(0, len(predicted), 100_000):
        cut = slice(start, start + 100_000)
        columns = ((rows[cut] + 1).tolist(), (predicted[cut] + 1).tolist(), (1 - uncertainty[cut]).tolist())
        for row, cluster, probability in zip(*columns, strict=True):
            yield f"{row},{cluster},{probability:.6g}\n"
