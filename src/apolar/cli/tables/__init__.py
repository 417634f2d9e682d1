"""Tables of numbers from files of text, Parquet, Feather and .npy, with errors of one line."""

from apolar.cli.tables.errors import TableError
from apolar.cli.tables.read import FORMATS, read_table
from apolar.cli.tables.table import TableFile

__all__ = ["FORMATS", "TableError", "TableFile", "read_table"]
