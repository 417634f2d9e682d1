"""Rows of data from whatever holds them: opening them, reading chunks, and summing."""

from apolar._rows.opening import open_rows
from apolar._rows.rows import (
    CHUNK_SIZE,
    Job,
    Rows,
    Sum,
    added_up,
    from_arrays,
    gathered,
    mapped,
    summed,
)
from apolar._rows.scratch import Scratch, own_scratch

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
