"""Large tables of spherical clusters, written or made a chunk at a time."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np


def clusters(n_columns: int, n_components: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weights, means and deviations of clusters that overlap somewhat."""
    rng = np.random.default_rng(seed)
    means = 1.5 * rng.standard_normal((n_components, n_columns))
    return rng.dirichlet(np.full(n_components, 3.0)), means, rng.uniform(0.6, 1.3, n_components)


def chunk(n_rows: int, n_columns: int, n_components: int, seed: int, dtype: type = np.float32) -> np.ndarray:
    """Return rows of these clusters; each chunk has another seed."""
    weights, means, deviations = clusters(n_columns, n_components)
    rng = np.random.default_rng([1, seed])
    labels = rng.choice(n_components, n_rows, p=weights)
    noise = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    return (means[labels] + deviations[labels, None] * noise).astype(dtype)


def chunks(n_rows: int, n_columns: int, n_components: int, size: int = 500_000) -> Iterator[np.ndarray]:
    """Yield the rows of a table, a chunk at a time."""
    for seed, start in enumerate(range(0, n_rows, size)):
        yield chunk(min(size, n_rows - start), n_columns, n_components, seed)


def write(path: Path, n_rows: int, n_columns: int, n_components: int) -> None:
    """Write a table of float32 to a file."""
    with path.open("wb") as file:
        for part in chunks(n_rows, n_columns, n_components):
            file.write(part.tobytes())
