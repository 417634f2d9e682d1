"""Rows of data, wherever they are stored: opened, read in chunks, and summed over."""

from apolar.data.opening import open_rows
from apolar.data.reduce import AsStored, BlockFunction, BlockTransform, Checked, Preparation, Statistic
from apolar.data.rows import CHUNK_SIZE, ArrayRows, Rows, fetch_rows
from apolar.data.scratch import Scratch, thread_scratch

__all__ = [
    "CHUNK_SIZE",
    "ArrayRows",
    "AsStored",
    "BlockFunction",
    "BlockTransform",
    "Checked",
    "Preparation",
    "Rows",
    "Scratch",
    "Statistic",
    "fetch_rows",
    "open_rows",
    "thread_scratch",
]
