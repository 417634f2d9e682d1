"""Polynomials, sums and numbers as strings that `parse_polynomial` reads back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Characters of what the user passed that a message repeats.
MAX_QUOTED = 60


def shortened(text: str) -> str:
    """Return the beginning of a string, for a message of one line."""
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."


def variable_names(dim: int, variables: Sequence[str] | None = None) -> list[str]:
    """Return the names given, or x, y, z up to three variables and x1, x2, ... beyond."""
    if variables is None:
        return list("xyz"[:dim]) if dim <= 3 else [f"x{i + 1}" for i in range(dim)]
    if len(variables) != dim:
        raise ValueError(f"The form has {dim} variables; got {len(variables)} names.")
    return list(variables)


def format_number(value: complex, precision: int = 6) -> str:
    """Return a number as a string that `parse_polynomial` reads back."""
    if isinstance(value, complex) and value.imag != 0:
        imaginary = f"{abs(value.imag):.{precision}g}i"
        if value.real == 0:
            return f"-{imaginary}" if value.imag < 0 else imaginary
        return f"({value.real:.{precision}g} {'-' if value.imag < 0 else '+'} {imaginary})"
    return f"{value.real:.{precision}g}"


def format_sum(terms: Sequence[tuple[complex, str]], precision: int = 6) -> str:
    """Return a sum as a string, signs between the terms.

    Parameters
    ----------
    terms : sequence of (complex, str)
        Coefficients and what they multiply; an empty string stands for the number one.
    precision : int, default=6
        Significant digits.

    Returns
    -------
    text : str
    """
    text = ""
    for coefficient, factor in terms:
        number = format_number(coefficient, precision)
        sign, number = ("-", number[1:]) if number.startswith("-") else ("+", number)
        body = factor if factor and number == "1" else "*".join(filter(None, (number, factor)))
        if text:
            text += f" {sign} {body}"
        else:
            text = f"-{body}" if sign == "-" else body
    return text or "0"


def format_polynomial(
    terms: Mapping[tuple[int, ...], complex],
    dim: int,
    variables: Sequence[str] | None,
    *,
    precision: int,
) -> str:
    """Return a polynomial as a string, such as ``x^3 - 3*x*y^2``."""
    names = variable_names(dim, variables)
    written = []
    for key, coefficient in terms.items():
        powers = [name if e == 1 else f"{name}^{e}" for name, e in zip(names, key, strict=True) if e]
        written.append((coefficient, "*".join(powers)))
    return format_sum(written, precision)
