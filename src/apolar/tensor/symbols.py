"""SymPy, where it is installed: numbers and sums as its expressions."""

from __future__ import annotations

import importlib
from fractions import Fraction
from typing import Any


def sympy_module() -> Any:
    """Return SymPy; where it is missing, the error says how to install it."""
    try:
        return importlib.import_module("sympy")
    except ImportError as error:
        raise ImportError("to_sympy needs SymPy, which is not installed: pip install sympy.") from error


def sympy_number(value: complex | Fraction) -> Any:
    """Return a number as SymPy's: fractions as rationals, others as floats."""
    sympy = sympy_module()
    if isinstance(value, int | Fraction):
        return sympy.Rational(value.numerator, value.denominator)
    if isinstance(value, complex) and value.imag != 0:
        return sympy.Float(value.real) + sympy.I * sympy.Float(value.imag)
    return sympy.Float(value.real)
