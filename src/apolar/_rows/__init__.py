"""Rows of data from whatever holds them: opening them, reading chunks, and summing."""

from apolar._rows.opening import open_rows
from apolar._rows.rows import (
    CHUNK_SIZE,
    Job,
    Rows,
    Scratch,
    Sum,
    added_up,
    from_arrays,
    gathered,
    mapped,
    own_scratch,
    summed,
)

__all__ = [
    "CHUNK_SIZE",
    "Job",
    "Rows",
    "Scratch",
    "Sum",
    "added_up",
    "from_arrays",
    "gathered",
    "mapped",
    "open_rows",
    "own_scratch",
    "summed",
]
