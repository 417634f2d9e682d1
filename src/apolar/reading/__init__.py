"""Tables of numbers from files of text, Parquet, Feather and .npy, with errors of one line."""

from apolar.reading.errors import TableError
from apolar.reading.read import FORMATS, read_table
from apolar.reading.table import TableFile

__all__ = ["FORMATS", "TableError", "TableFile", "read_table"]
