"""Tables of numbers from files of text, Parquet, Feather and .npy, with errors of one line."""

from apolar.cli.tables.read import read_table
from apolar.cli.tables.source import FORMATS
from apolar.cli.tables.table import TableError, TableFile

__all__ = ["FORMATS", "TableError", "TableFile", "read_table"]
