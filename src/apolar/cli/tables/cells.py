"""Cells of text: which are numbers, which stand for a missing number."""

import re
from collections.abc import Sequence

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import is_missing

_POINT = re.compile(
    r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|[+-]?(?:inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_COMMA = re.compile(_POINT.pattern.replace(r"\.", ","), re.ASCII | re.IGNORECASE)

# A number as people write it: "1,5", "1.234,5", "12 000", "1'000.5".
_WRITTEN = re.compile(r"[+-]?(?:\d{1,3}(?:[.,'\s_]\d{3})+|\d+)(?:[.,]\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)


def is_number(cell: str, decimal: str = ".") -> bool:
    """Return whether a cell is a number, infinite ones too, with this decimal sign."""
    return (_COMMA if decimal == "," else _POINT).fullmatch(cell.strip()) is not None


def is_written_number(cell: str) -> bool:
    """Return whether a cell is a number for a reader, with any decimal sign and thousands separator."""
    return _WRITTEN.fullmatch(cell.strip()) is not None


def numbers(cells: Sequence[str], decimal: str = ".") -> tuple[Array, int | None]:
    """Return a column of cells as numbers.

    Parameters
    ----------
    cells : sequence of str
    decimal : {".", ","}, optional

    Returns
    -------
    values : ndarray of float64, shape (n,)
        NaN where a number is missing.
    bad : int or None
        The first cell that is no number; what comes after it is not read.
    """
    text = "".join(cells)
    # Python takes underscores and the digits of all scripts; a file that has them is no table of numbers.
    if text.isascii() and "_" not in text and (decimal == "." or "." not in text):
        plain = [cell.replace(",", ".") for cell in cells] if decimal == "," else cells
        try:
            return np.fromiter(map(float, plain), np.float64, len(cells)), None
        except ValueError:
            pass
    values = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        if is_number(cell, decimal):
            values[i] = float(cell.replace(",", "."))
        elif not is_missing(cell):
            return values, i
    return values, None
