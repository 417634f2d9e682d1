"""Rows of data from whatever holds them: opening them, reading chunks, and summing."""

from apolar.data.opening import open_rows
from apolar.data.rows import (
    CHUNK_SIZE,
    Job,
    Rows,
    Sum,
    added_up,
    fetch_rows,
    from_arrays,
    mapped,
    summed,
)
from apolar.data.scratch import Scratch, own_scratch

__all__ = [
    "CHUNK_SIZE",
    "Job",
    "Rows",
    "Scratch",
    "Sum",
    "added_up",
    "fetch_rows",
    "from_arrays",
    "mapped",
    "open_rows",
    "own_scratch",
    "summed",
]
