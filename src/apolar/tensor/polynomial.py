"""Homogeneous polynomials as people write them: dicts, texts and SymPy."""

from __future__ import annotations

import cmath
import numbers
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import comb
from typing import Any

Terms = dict[tuple[int, ...], complex]
"""Exponents to coefficients as written (binom(d, a) T_a); real ones are floats."""

# A factor of a monomial: each variable of the text and its power.
_Monomial = tuple[tuple[str, int], ...]
_Sum = dict[_Monomial, complex]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<imaginary>[ij](?![0-9_A-Za-z]))?"
    r"|(?P<variable>[^\W\d_](?:_?\d+)?)|(?P<operator>\*\*|[-+*/^()]))"
)

MAX_DEGREE = 1000
# Terms of a product that is written out, multiplications on the way there, and brackets within brackets:
# beyond is a slip or an attack, and takes more than a few seconds.
MAX_TERMS = 200_000
MAX_PRODUCTS = 500_000
MAX_DEPTH = 100
# Coefficients of a form times its degree, at most: the table of its monomials, some seconds and 160 MB.
MAX_ENTRIES = 20_000_000
# Characters of a variable: x and a number.
LONGEST_NAME = 12
# Characters of the text that a message repeats.
SHOWN = 60
TOO_LARGE = (
    "A coefficient of the polynomial is too large for a number: divide the polynomial by a power of ten."
)


def homogeneous_terms(polynomial: Any, variables: Sequence[str] | None) -> Terms:
    """Return a polynomial as a dict, after checking that it is homogeneous.

    Parameters
    ----------
    polynomial : dict, str or SymPy expression
    variables : sequence of str or None

    Returns
    -------
    terms : dict from exponents to coefficients
        Not empty; all exponents of one length and one sum.
    """
    if isinstance(polynomial, str):
        terms = parse_polynomial(polynomial, variables)[0]
    elif isinstance(polynomial, Mapping):
        if variables is not None:
            raise ValueError("variables is for texts; a dict of exponents has its own order.")
        terms = _checked_terms(polynomial)
    else:
        terms = _sympy_terms(polynomial, variables)
    degrees = sorted({sum(key) for key in terms})
    if degrees[-1] > MAX_DEGREE:
        raise ValueError(f"The polynomial has degree {degrees[-1]}; the largest is {MAX_DEGREE}.")
    if len(degrees) > 1:
        listed = ", ".join(map(str, degrees[:5])) + (", ..." if len(degrees) > 5 else "")
        raise ValueError(
            f"The polynomial is not homogeneous: it has terms of degree {listed}. "
            "Multiply the lower terms by powers of a new variable."
        )
    dim = len(next(iter(terms)))
    n_coefficients = comb(dim + degrees[0] - 1, degrees[0])
    if n_coefficients * degrees[0] > MAX_ENTRIES:
        raise ValueError(
            f"A form of degree {degrees[0]} in {dim} variables has {float(min(n_coefficients, 10**300)):.3g} "
            f"coefficients; of that degree the most is {MAX_ENTRIES // degrees[0]:,}. Lower the degree "
            "or the number of variables."
        )
    return terms


def _checked_terms(polynomial: Mapping[Any, Any]) -> Terms:
    if not polynomial:
        raise ValueError("An empty dict has no degree: use SymmetricTensor.zeros(order, dim).")
    terms: Terms = {}
    for key, value in polynomial.items():
        exponents = tuple(key) if isinstance(key, Sequence) and not isinstance(key, str) else None
        if exponents is None or not all(isinstance(e, numbers.Integral) and int(e) >= 0 for e in exponents):
            raise TypeError(f"Keys must be tuples of exponents such as (1, 2); got {_shortened(repr(key))}.")
        if not isinstance(value, numbers.Complex):
            raise TypeError(
                f"The coefficient of {_shortened(repr(key))} must be a number; got {_shortened(repr(value))}."
            )
        try:
            terms[tuple(map(int, exponents))] = _simplest(complex(value))
        except OverflowError as error:
            raise ValueError(
                f"The coefficient of {_shortened(repr(key))} is too large for a number."
            ) from error
    lengths = sorted({len(key) for key in terms})
    if len(lengths) > 1 or lengths[0] == 0:
        raise ValueError(f"Every key needs one exponent a variable; got keys of lengths {lengths}.")
    # Terms that are not there have no degree; if none is, the zero form has that of the first.
    first = next(iter(terms))
    return {key: value for key, value in terms.items() if value != 0} or {first: 0.0}


def _sympy_terms(polynomial: Any, variables: Sequence[str] | None) -> Terms:
    sympy = sys.modules.get("sympy")
    if sympy is None or not isinstance(polynomial, sympy.Poly | sympy.Expr):
        raise TypeError(
            "A polynomial is a dict of exponents, a text such as 'x^3 - 3*x*y^2', "
            f"or a SymPy expression; got {type(polynomial).__name__}."
        )
    if isinstance(polynomial, sympy.Poly) and variables is None:
        symbols = list(polynomial.gens)
    else:
        # By name: symbols with assumptions differ from those without. All else is a coefficient.
        found = {symbol.name: symbol for symbol in polynomial.free_symbols}
        names = sorted(found) if variables is None else list(variables)
        symbols = [found.get(name, sympy.Symbol(name)) for name in names]
    if not symbols:
        raise ValueError(f"{_shortened(str(polynomial))} has no variable.")
    try:
        poly = sympy.Poly(polynomial, *symbols)
        if not all(generator.is_Symbol for generator in poly.gens):
            raise TypeError("a function of the variables")
        terms = {tuple(map(int, key)): _simplest(complex(value)) for key, value in poly.as_dict().items()}
    except (sympy.polys.polyerrors.BasePolynomialError, TypeError) as error:
        raise ValueError(
            f"{_shortened(str(polynomial))} is not a polynomial with numbers as coefficients."
        ) from error
    if not terms:
        raise ValueError("The polynomial is zero and has no degree: use SymmetricTensor.zeros(order, dim).")
    return terms


def _simplest(value: complex) -> complex:
    return value.real if value.imag == 0 else value


def _shortened(text: str) -> str:
    """Return the beginning of a text, for a message of one line."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


# --- texts ------------------------------------------------------------------


def parse_polynomial(text: str, variables: Sequence[str] | None = None) -> tuple[Terms, list[str]]:
    """Read a polynomial such as ``x^3 - 3*x*y^2`` or ``(x + 2y)^3 / 4 + 1.5 x1*x2^2``.

    A variable is one letter with an optional number (``x``, ``x1``, ``x_1``);
    the sign of multiplication may be left out; ``^`` and ``**`` are powers;
    ``2i`` or ``2j`` is imaginary.

    Parameters
    ----------
    text : str
    variables : sequence of str, optional
        The variables and their order; by default those that occur, sorted.

    Returns
    -------
    terms : dict from exponents to coefficients
    variables : list of str
    """
    parser = _Parser(text)
    total = parser.whole()
    found = sorted(parser.names, key=_natural)
    names = list(found if variables is None else variables)
    if variables is None and not {"i", "j"}.isdisjoint(found):
        raise ValueError(
            "i and j are kept for the imaginary unit: write 1i for it, name the variable otherwise, "
            "or list the variables."
        )
    if not all(names):
        raise ValueError("variables has an empty name.")
    if len(set(names)) != len(names):
        raise ValueError(f"variables repeats a name: {_shortened(', '.join(names))}.")
    unknown = [name for name in found if name not in names]
    if unknown:
        raise ValueError(
            f"The polynomial has variables that were not listed: {_shortened(', '.join(unknown))}."
        )
    if not names:
        raise ValueError(f"{_shortened(text)!r} has no variable.")
    terms: Terms = {}
    for monomial, value in total.items():
        powers = dict(monomial)
        terms[tuple(powers.get(name, 0) for name in names)] = _simplest(value)
    kept = {key: value for key, value in terms.items() if value != 0}
    # All terms cancelled: the zero form, of the degree that was written.
    return kept or dict.fromkeys(terms, 0.0), names


def _natural(name: str) -> tuple[str, int]:
    return name[0], int(name[1:].lstrip("_") or -1)


class _Parser:
    """Recursive descent over sums, products and powers; nothing is evaluated as code."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: set[str] = set()
        self.tokens = list(self._split())
        self.next = 0
        self.depth = 0
        self.n_products = 0

    def _split(self) -> Iterator[tuple[str, str, int]]:
        place = 0
        end = len(self.text.rstrip())
        while place < end:
            match = _TOKEN.match(self.text, place)
            if match is None or (match["variable"] and not match["variable"][0].isalpha()):
                raise self._error("cannot read", place)
            if match["variable"] and len(match["variable"]) > LONGEST_NAME:
                raise self._error(f"a variable has at most {LONGEST_NAME} characters, not", place)
            start = match.start(match.lastgroup or 0)
            if match["number"]:
                kind = "imaginary" if match["imaginary"] else "number"
                yield kind, match["number"], match.start("number")
            elif match["variable"]:
                yield "variable", match["variable"], start
            else:
                yield "operator", "^" if match["operator"] == "**" else match["operator"], start
            place = match.end()

    def _error(self, what: str, place: int) -> ValueError:
        while place < len(self.text) and self.text[place].isspace():
            place += 1
        rest = self.text[place : place + 12] or "the end"
        start = 0 if len(self.text) <= SHOWN else max(place - SHOWN // 2, 0)
        near = self.text[start : start + SHOWN]
        shown = "..." * (start > 0) + near + "..." * (start + SHOWN < len(self.text))
        return ValueError(
            f"Cannot read the polynomial {shown!r}: {what} {rest!r} at character {place + 1}. "
            "Write it as x^3 - 3*x*y^2."
        )

    def _multiplied(self, left: _Sum, right: _Sum) -> _Sum:
        """Return the product of two sums, if there is time left to write it out."""
        self.n_products += len(left) * len(right)
        if self.n_products > MAX_PRODUCTS:
            raise ValueError(
                f"The brackets of the polynomial take more than {MAX_PRODUCTS:,} multiplications to write "
                "out: multiply them out first, or lower the degree."
            )
        if _degree(left) + _degree(right) > MAX_DEGREE:
            raise ValueError(f"The polynomial has a product of a degree above the largest, {MAX_DEGREE}.")
        return _multiplied(left, right)

    def _here(self) -> tuple[str, str, int]:
        if self.next < len(self.tokens):
            return self.tokens[self.next]
        return "end", "", len(self.text)

    def _take(self, operators: str) -> str:
        kind, value, _ = self._here()
        if kind == "operator" and value in operators:
            self.next += 1
            return value
        return ""

    def whole(self) -> _Sum:
        if not self.tokens:
            raise ValueError("The polynomial is empty. Write it as x^3 - 3*x*y^2.")
        try:
            total = self._sum()
        except OverflowError as error:
            raise ValueError(TOO_LARGE) from error
        if not all(map(cmath.isfinite, total.values())):
            raise ValueError(TOO_LARGE)
        if self.next < len(self.tokens):
            raise self._error("unexpected", self._here()[2])
        return total

    def _sum(self) -> _Sum:
        sign = -1 if self._take("+-") == "-" else 1
        total = {key: sign * value for key, value in self._product().items()}
        while operator := self._take("+-"):
            for key, value in self._product().items():
                total[key] = total.get(key, 0) + (value if operator == "+" else -value)
        return total

    def _product(self) -> _Sum:
        total = self._power()
        while True:
            if operator := self._take("*/"):
                place = self._here()[2]
                sign = -1 if self._take("-") else 1
                factor = self._power()
                if operator == "/":
                    divisor = factor.get((), 0) if set(factor) <= {()} else 0
                    if divisor == 0:
                        raise self._error("division only by a number other than zero, not by", place)
                    factor = {(): 1 / divisor}
                factor = {key: sign * value for key, value in factor.items()}
            elif self._here()[0] in ("number", "imaginary", "variable") or self._here()[1] == "(":
                factor = self._power()
            else:
                return total
            total = self._multiplied(total, factor)

    def _power(self) -> _Sum:
        base = self._atom()
        if not self._take("^"):
            return base
        kind, value, place = self._here()
        if kind != "number" or not value.isdigit() or len(value) > 9 or int(value) > MAX_DEGREE:
            raise self._error(f"a power must be a whole number up to {MAX_DEGREE}, not", place)
        self.next += 1
        exponent = int(value)
        if comb(len(base) + exponent - 1, exponent) > MAX_TERMS:
            raise ValueError(
                f"The power {exponent} of a sum of {len(base)} terms is too large to write out: it has more "
                f"than {MAX_TERMS:,} terms."
            )
        if exponent * _degree(base) > MAX_DEGREE:
            raise ValueError(
                f"The power {exponent} of a sum of degree {_degree(base)} has a degree above {MAX_DEGREE}."
            )
        if len(base) == 1:
            ((monomial, coefficient),) = base.items()
            return {
                tuple((name, power * exponent) for name, power in monomial if exponent): coefficient**exponent
            }
        total: _Sum = {(): 1}
        for _ in range(exponent):
            total = self._multiplied(total, base)
        return total

    def _atom(self) -> _Sum:
        kind, value, place = self._here()
        self.next += 1
        if kind == "number":
            return {(): float(value)}
        if kind == "imaginary":
            return {(): 1j * float(value)}
        if kind == "variable":
            self.names.add(value)
            return {((value, 1),): 1}
        if value == "(":
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise ValueError(f"The polynomial has more than {MAX_DEPTH} brackets within brackets.")
            inner = self._sum()
            self.depth -= 1
            if not self._take(")"):
                raise self._error("a bracket is not closed before", self._here()[2])
            return inner
        raise self._error("unexpected", place)


def _degree(total: _Sum) -> int:
    """Return the largest degree of a sum that is not empty."""
    return max(sum(power for _, power in monomial) for monomial in total)


def _multiplied(left: _Sum, right: _Sum) -> _Sum:
    total: _Sum = {}
    for first, a in left.items():
        for second, b in right.items():
            powers = dict(first)
            for name, power in second:
                powers[name] = powers.get(name, 0) + power
            key = tuple(sorted(powers.items()))
            total[key] = total.get(key, 0) + a * b
    return total


def variable_names(dim: int, variables: Sequence[str] | None = None) -> list[str]:
    """Return the names given, or x, y, z up to three variables and x1, x2, ... beyond."""
    if variables is None:
        return list("xyz"[:dim]) if dim <= 3 else [f"x{i + 1}" for i in range(dim)]
    if len(variables) != dim:
        raise ValueError(f"The form has {dim} variables; got {len(variables)} names.")
    return list(variables)


def format_number(value: complex, precision: int = 6) -> str:
    """Return a number as text that `parse_polynomial` reads back."""
    if isinstance(value, complex) and value.imag != 0:
        imaginary = f"{abs(value.imag):.{precision}g}i"
        if value.real == 0:
            return f"-{imaginary}" if value.imag < 0 else imaginary
        return f"({value.real:.{precision}g} {'-' if value.imag < 0 else '+'} {imaginary})"
    return f"{value.real:.{precision}g}"


def format_sum(terms: Sequence[tuple[complex, str]], precision: int = 6) -> str:
    """Return coefficients and what they multiply as text, signs between the terms.

    An empty text stands for the number one.
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
    """Return a polynomial as text, such as ``x^3 - 3*x*y^2``."""
    names = variable_names(dim, variables)
    written = []
    for key, coefficient in terms.items():
        powers = [name if e == 1 else f"{name}^{e}" for name, e in zip(names, key, strict=True) if e]
        written.append((coefficient, "*".join(powers)))
    return format_sum(written, precision)
