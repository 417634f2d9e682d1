"""Tensors and decompositions as they are shown: their largest terms, as text and in LaTeX for notebooks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar.tensor import coefficients as compact
from apolar.tensor.formatting import format_number, format_polynomial, variable_names

if TYPE_CHECKING:
    from apolar.tensor.parser import Terms
    from apolar.tensor.written import WrittenForm

__all__ = ["in_latex", "in_text", "latex_names", "latex_number", "latex_polynomial", "latex_sum"]

# Terms that the representation of a tensor shows.
SHOWN_TERMS = 8
# Significant digits in LaTeX.
PRECISION = 4


def in_text(tensor: WrittenForm) -> str:
    """Return what `repr` shows of a tensor."""
    terms, hidden = _largest_terms(tensor)
    kind = ", complex" if tensor.is_complex else ""
    shown = format_polynomial(terms, tensor.dim, None, precision=6)
    ellipsis = f" + ... ({hidden} smaller terms)" if hidden else ""
    return f"SymmetricTensor(order={tensor.order}, dim={tensor.dim}{kind}): {shown}{ellipsis}"


def in_latex(tensor: WrittenForm) -> str:
    """Return a tensor as a polynomial in LaTeX, with dots in place of its smaller terms."""
    terms, hidden = _largest_terms(tensor)
    return f"${latex_polynomial(terms, tensor.dim, None, PRECISION, hidden)}$"


def latex_polynomial(
    terms: Mapping[tuple[int, ...], Any],
    dim: int,
    variables: Sequence[str] | None,
    precision: int,
    hidden: int = 0,
) -> str:
    """Return a polynomial in LaTeX, with dots for terms that are hidden."""
    names = latex_names(dim, variables)
    written = []
    for key, coefficient in terms.items():
        powers = (name if e == 1 else f"{name}^{{{e}}}" for name, e in zip(names, key, strict=True) if e)
        written.append((coefficient, " ".join(powers)))
    return latex_sum(written, hidden, precision)


def latex_names(dim: int, variables: Sequence[str] | None = None) -> list[str]:
    """Return the names of the variables: x, y, z up to three, and x_{1}, x_{2}, ... beyond."""
    return [re.sub(r"_?(\d+)", r"_{\1}", name) for name in variable_names(dim, variables)]


def latex_number(value: complex | Fraction, precision: int = PRECISION) -> str:
    r"""Return a number in LaTeX, with powers of ten as such.

    >>> latex_number(2.5e-9), latex_number(-0.33333)
    ('2.5 \\cdot 10^{-9}', '-0.3333')
    """
    if isinstance(value, int | Fraction):
        if value.denominator == 1:
            return str(value.numerator)
        return f"{'-' if value < 0 else ''}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
    text = re.sub(r"\b1i", "i", format_number(value, precision))
    return re.sub(r"e([+-]?)0*(\d+)", _power, text)


def _power(match: re.Match[str]) -> str:
    sign = "-" if match[1] == "-" else ""
    return rf" \cdot 10^{{{sign}{match[2]}}}"


def latex_sum(
    terms: Sequence[tuple[complex | Fraction, str]], hidden: int = 0, precision: int = PRECISION
) -> str:
    """Return a sum in LaTeX, signs between the terms, and dots for those that are hidden."""
    text = ""
    for coefficient, factor in terms:
        number = latex_number(coefficient, precision)
        sign, number = ("-", number[1:]) if number.startswith("-") else ("+", number)
        body = factor if factor and number == "1" else r" \, ".join(filter(None, (number, factor)))
        if text:
            text += f" {sign} {body}"
        else:
            text = f"-{body}" if sign == "-" else body
    return (text or "0") + (r" + \dots" if hidden > 0 else "")


def _largest_terms(tensor: WrittenForm) -> tuple[Terms, int]:
    """Return the largest terms of a form, in their order, and how many are left out."""
    written = compact.as_written(tensor)
    with np.errstate(over="ignore"):
        largest = np.argsort(-np.abs(written), kind="stable")[:SHOWN_TERMS]
    terms = {
        tuple(map(int, tensor.exponents[i])): complex(written[i])
        for i in np.sort(largest)
        if tensor.coefficients[i] != 0
    }
    return terms, int(np.count_nonzero(tensor.coefficients)) - len(terms)
