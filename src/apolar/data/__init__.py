"""Rows of data, wherever they are stored: opened, read in chunks, and summed over."""

from apolar.data.chunks import Chunk, on_checked
from apolar.data.rows import CHUNK_SIZE, ArrayRows, Rows, fetch_rows
from apolar.data.sources import open_rows

__all__ = [
    "CHUNK_SIZE",
    "ArrayRows",
    "Chunk",
    "Rows",
    "fetch_rows",
    "on_checked",
    "open_rows",
]
