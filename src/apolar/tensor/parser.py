"""Polynomials read from strings, by recursive descent: nothing is evaluated as code."""

from __future__ import annotations

import cmath
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import comb
from typing import Any

from apolar.tensor.exact import is_short

Terms = dict[tuple[int, ...], complex]
"""Exponents to coefficients as written (binom(d, a) T_a); real ones are floats."""
WrittenTerms = dict[tuple[int, ...], Any]
"""The same before rounding: rational coefficients are integers and fractions, others floats or complex."""

# The variables of a monomial, each with its power.
_Monomial = tuple[tuple[str, int], ...]
_Sum = dict[_Monomial, Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<imaginary>[ij](?![0-9_A-Za-z]))?"
    r"|(?P<variable>[^\W\d_](?:_?\d+)?)|(?P<operator>\*\*|[-+*/^()]))"
)

MAX_DEGREE = 1000
# Terms of a product that is written out, multiplications on the way there, and brackets within brackets:
# a polynomial beyond these limits is a slip or an attack, and would take more than a few seconds.
MAX_TERMS = 200_000
MAX_PRODUCTS = 500_000
MAX_DEPTH = 100
# Characters of the name of a variable: a letter and a number.
MAX_NAME = 12
# Characters of a number, and powers of ten in it, up to which it is kept as a fraction: a float has fewer.
MAX_NUMBER = 350
# Characters of what the user passed that a message repeats.
MAX_QUOTED = 60
TOO_LARGE = (
    "A coefficient of the polynomial is too large for a number: divide the polynomial by a power of ten."
)


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
    terms, names = parse_exactly(text, variables)
    return {key: to_float(value) for key, value in terms.items()}, names


def parse_exactly(text: str, variables: Sequence[str] | None = None) -> tuple[WrittenTerms, list[str]]:
    """Read a polynomial as `parse_polynomial` does, with rational coefficients as integers and fractions."""
    parser = _Parser(text)
    total = parser.polynomial()
    occurring = sorted(parser.names, key=_by_letter_and_number)
    names = list(occurring if variables is None else variables)
    if variables is None and not {"i", "j"}.isdisjoint(occurring):
        raise ValueError(
            "i and j are kept for the imaginary unit: write 1i for it, name the variable otherwise, "
            "or list the variables."
        )
    if not all(names):
        raise ValueError("variables has an empty name.")
    if len(set(names)) != len(names):
        raise ValueError(f"variables repeats a name: {shorten(', '.join(names))}.")
    unknown = [name for name in occurring if name not in names]
    if unknown:
        raise ValueError(f"The polynomial has variables that were not listed: {shorten(', '.join(unknown))}.")
    if not names:
        raise ValueError(f"{shorten(text)!r} has no variable.")
    terms: WrittenTerms = {}
    for monomial, value in total.items():
        powers = dict(monomial)
        terms[tuple(powers.get(name, 0) for name in names)] = simplest(value)
    zero: float = 0
    if any(isinstance(value, float) for value in terms.values()):
        zero = 0.0
        # A number too long for exact arithmetic was rounded, perhaps to zero: no coefficient counts as exact.
        terms = {key: to_float(value) for key, value in terms.items()}
    nonzero = {key: value for key, value in terms.items() if value != 0}
    # All terms cancelled: the zero form, of the degree that was written.
    return nonzero or dict.fromkeys(terms, zero), names


def _by_letter_and_number(name: str) -> tuple[str, int]:
    """Return the key that sorts x2 before x10."""
    return name[0], int(name[1:].lstrip("_") or -1)


class _Parser:
    """Reads sums, products, powers and brackets, one method for each."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: set[str] = set()
        self.tokens = list(self._tokens())
        self.position = 0
        self.depth = 0
        self.n_products = 0

    def _tokens(self) -> Iterator[tuple[str, str, int]]:
        place = 0
        end = len(self.text.rstrip())
        while place < end:
            match = _TOKEN.match(self.text, place)
            if match is None or (match["variable"] and not match["variable"][0].isalpha()):
                raise self._error("cannot read", place)
            if match["variable"] and len(match["variable"]) > MAX_NAME:
                raise self._error(f"a variable has at most {MAX_NAME} characters, not", place)
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
        unread = self.text[place : place + 12] or "the end"
        start = 0 if len(self.text) <= MAX_QUOTED else max(place - MAX_QUOTED // 2, 0)
        nearby = self.text[start : start + MAX_QUOTED]
        quoted = "..." * (start > 0) + nearby + "..." * (start + MAX_QUOTED < len(self.text))
        return ValueError(
            f"Cannot read the polynomial {quoted!r}: {what} {unread!r} at character {place + 1}. "
            "Write it as x^3 - 3*x*y^2."
        )

    def _multiply(self, left: _Sum, right: _Sum) -> _Sum:
        """Return the product of two sums, if it is not too long to write out."""
        self.n_products += len(left) * len(right)
        if self.n_products > MAX_PRODUCTS:
            raise ValueError(
                f"The brackets of the polynomial take more than {MAX_PRODUCTS:,} multiplications to write "
                "out: multiply them out first, or lower the degree."
            )
        if _degree(left) + _degree(right) > MAX_DEGREE:
            raise ValueError(f"The polynomial has a product of a degree above the largest, {MAX_DEGREE}.")
        total: _Sum = {}
        for first, a in left.items():
            for second, b in right.items():
                powers = dict(first)
                for name, power in second:
                    powers[name] = powers.get(name, 0) + power
                key = tuple(sorted(powers.items()))
                total[key] = _limit_digits(total.get(key, 0) + a * b)
        return total

    def _current(self) -> tuple[str, str, int]:
        """Return the kind, the characters and the place of the next token."""
        if self.position < len(self.tokens):
            return self.tokens[self.position]
        return "end", "", len(self.text)

    def _take(self, operators: str) -> str:
        """Return the next token, and go past it, if it is one of these operators; else an empty string."""
        kind, value, _ = self._current()
        if kind == "operator" and value in operators:
            self.position += 1
            return value
        return ""

    def polynomial(self) -> _Sum:
        """Return the whole string as a sum of monomials."""
        if not self.tokens:
            raise ValueError("The polynomial is empty. Write it as x^3 - 3*x*y^2.")
        try:
            total = self._sum()
            finite = all(cmath.isfinite(to_float(value)) for value in total.values())
        except OverflowError as error:
            raise ValueError(TOO_LARGE) from error
        if not finite:
            raise ValueError(TOO_LARGE)
        if self.position < len(self.tokens):
            raise self._error("unexpected", self._current()[2])
        return total

    def _sum(self) -> _Sum:
        sign = -1 if self._take("+-") == "-" else 1
        total = {key: sign * value for key, value in self._product().items()}
        while operator := self._take("+-"):
            for key, value in self._product().items():
                total[key] = _limit_digits(total.get(key, 0) + (value if operator == "+" else -value))
        return total

    def _product(self) -> _Sum:
        total = self._power()
        while True:
            if operator := self._take("*/"):
                place = self._current()[2]
                sign = -1 if self._take("-") else 1
                factor = self._power()
                if operator == "/":
                    divisor = factor.get((), 0) if set(factor) <= {()} else 0
                    if divisor == 0:
                        raise self._error("division only by a number other than zero, not by", place)
                    factor = {(): Fraction(1) / divisor}
                factor = {key: sign * value for key, value in factor.items()}
            elif self._current()[0] in ("number", "imaginary", "variable") or self._current()[1] == "(":
                factor = self._power()
            else:
                return total
            total = self._multiply(total, factor)

    def _power(self) -> _Sum:
        base = self._atom()
        if not self._take("^"):
            return base
        kind, value, place = self._current()
        if kind != "number" or not value.isdigit() or len(value) > 9 or int(value) > MAX_DEGREE:
            raise self._error(f"a power must be an integer up to {MAX_DEGREE}, not", place)
        self.position += 1
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
            scale: Any = 1
            for _ in range(exponent):
                scale = _limit_digits(scale * coefficient)
            return {tuple((name, power * exponent) for name, power in monomial if exponent): scale}
        total: _Sum = {(): 1}
        for _ in range(exponent):
            total = self._multiply(total, base)
        return total

    def _atom(self) -> _Sum:
        kind, value, place = self._current()
        self.position += 1
        if kind == "number":
            return {(): _number(value)}
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
                raise self._error("a bracket is not closed before", self._current()[2])
            return inner
        raise self._error("unexpected", place)


def shorten(text: str) -> str:
    """Return the beginning of a string, for a message of one line."""
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."


def _limit_digits(value: Any) -> Any:
    """Return a number, in floating point if it is a fraction too long to calculate with."""
    return float(value) if isinstance(value, int | Fraction) and not is_short(value) else value


def simplest(value: Any) -> Any:
    """Return a complex number without imaginary part as a real one."""
    return value.real if value.imag == 0 else value


def to_float(value: Any) -> complex:
    """Return a number in floating point."""
    return value if isinstance(value, complex) else float(value)


def _number(text: str) -> Any:
    """Return a number as it is written: an integer or a fraction, a float if it is too long for that."""
    mantissa, _, power = text.lower().partition("e")
    if len(mantissa) > MAX_NUMBER or len(power) > 5 or abs(int(power or 0)) > MAX_NUMBER:
        return float(text)
    fraction = Fraction(text)
    return fraction.numerator if fraction.denominator == 1 else fraction


def _degree(total: _Sum) -> int:
    """Return the largest degree of a sum that is not empty."""
    return max(sum(power for _, power in monomial) for monomial in total)
