"""Tables of numbers from files of text, Parquet, Feather, .npy and workbooks, with errors of one line."""

from apolar.cli.tables.content import TableError
from apolar.cli.tables.formats import FORMATS, expand_folders
from apolar.cli.tables.read import TableFile, read_table

__all__ = ["FORMATS", "TableError", "TableFile", "expand_folders", "read_table"]
