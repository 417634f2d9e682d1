"""Polynomials as people write them: strings, dicts and SymPy expressions.

Strings are read by recursive descent: nothing is evaluated as code.
"""

from __future__ import annotations

import cmath
import functools
import numbers
import operator
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import comb
from typing import Any

from apolar.tensor.coefficients import MAX_BITS, MAX_PRODUCTS, as_fraction, is_short, to_float

Terms = dict[tuple[int, ...], complex]
"""Exponents to coefficients as written (binom(d, a) T_a); real ones are floats."""
WrittenTerms = dict[tuple[int, ...], Any]
"""The same before rounding: rational coefficients are integers and fractions, others floats or complex."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<imaginary>[ij](?![0-9_A-Za-z]))?"
    r"|(?P<variable>[^\W\d_](?:_?\d+)?)|(?P<operator>\*\*|[-+*/^()])|\S)"
)

_STRENGTHS = {"+": 1, "-": 1, "*": 2, "/": 2}

MAX_DEGREE = 1000
# Coefficients of a form times its degree, at most: the table of its monomials takes some seconds and 160 MB.
MAX_ENTRIES = 20_000_000
# Characters of what the user passed that a message repeats.
MAX_QUOTED = 60


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
    terms, names = _parse_exactly(text, variables)
    return {key: to_float(value) for key, value in terms.items()}, names


def homogeneous_terms(polynomial: Any, variables: Sequence[str] | None) -> WrittenTerms:
    """Return a polynomial as a dict, after checking that it is homogeneous.

    Parameters
    ----------
    polynomial : dict, str or SymPy expression
    variables : sequence of str or None

    Returns
    -------
    terms : dict from exponents to coefficients
        Integers and fractions where they were given, else floats or complex.
        Not empty; all exponents have the same length and the same sum.
    """
    if isinstance(polynomial, str):
        terms = _parse_exactly(polynomial, variables)[0]
    elif isinstance(polynomial, Mapping):
        if variables is not None:
            raise ValueError("variables is for strings; a dict of exponents has its own order.")
        terms = _dict_terms(polynomial)
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


def shorten(text: str) -> str:
    """Return the beginning of a string, for a message of one line."""
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."


# --- strings ----------------------------------------------------------------------------------


def _parse_exactly(text: str, variables: Sequence[str] | None) -> tuple[WrittenTerms, list[str]]:
    """Read a polynomial as `parse_polynomial` does, with rational coefficients as integers and fractions."""
    tokens = list(_tokens(text))
    occurring = sorted({value for kind, value, _ in tokens if kind == "variable"}, key=_letter_and_number)
    names = list(occurring if variables is None else variables)
    if not tokens:
        raise ValueError("The polynomial is empty. Write it as x^3 - 3*x*y^2.")
    if function := re.search(r"\b(sin|cos|tan|exp|log|ln|sqrt)\s*\(", text):
        raise ValueError(f"The polynomial has the function {function[1]}: write it with +, -, * and powers.")
    unknown = [name for name in occurring if name not in names]
    if unknown:
        raise ValueError(f"The polynomial has variables that were not listed: {shorten(', '.join(unknown))}.")
    if not all(names):
        raise ValueError("variables has an empty name.")
    if len(set(names)) != len(names):
        raise ValueError(f"variables repeats a name: {shorten(', '.join(names))}.")
    terms = {key: _simplest(value) for key, value in _Parser(text, tokens, names).polynomial().items()}
    if variables is None and not {"i", "j"}.isdisjoint(occurring):
        raise ValueError(
            "i and j mean the imaginary unit: write 1i for it, rename the variable, or list the variables."
        )
    if not names:
        raise ValueError(f"{shorten(text)!r} has no variable.")
    zero: float = 0
    if any(isinstance(value, float) for value in terms.values()):
        zero = 0.0
        # A number too long for exact arithmetic was rounded, perhaps to zero: no coefficient counts as exact.
        terms = {key: to_float(value) for key, value in terms.items()}
    nonzero = {key: value for key, value in terms.items() if value != 0}
    # All terms cancelled: the zero form, of the degree that was written.
    return nonzero or dict.fromkeys(terms, zero), names


def _letter_and_number(name: str) -> tuple[str, int, str]:
    """Return the key that sorts x2 before x10."""
    digits = name[1:].lstrip("_")
    return name[0], len(digits), digits


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the kind of each token, its characters, and their place."""
    for match in _TOKEN.finditer(text):
        kind, value = match.lastgroup, match["number"] or match["variable"] or match["operator"]
        place = match.end() - len(match[0].lstrip())
        if kind is None or (kind == "variable" and not value[0].isalpha()):
            raise _error(text, "cannot read", place)
        yield kind, "^" if value == "**" else value, place


def _error(text: str, what: str, place: int) -> ValueError:
    """Return an error that quotes the text around a place in one line."""
    place = len(text) - len(text[place:].lstrip())
    unread = text[place : place + 12] or "the end"
    start = 0 if len(text) <= MAX_QUOTED else max(place - MAX_QUOTED // 2, 0)
    nearby = text[start : start + MAX_QUOTED]
    quoted = "..." * (start > 0) + nearby + "..." * (start + MAX_QUOTED < len(text))
    return ValueError(
        f"Cannot read the polynomial {quoted!r}: {what} {unread!r} at character {place + 1}. "
        "Write it as x^3 - 3*x*y^2."
    )


class _Parser:
    """Reads an expression as a sum of monomials, by the strength of its operators."""

    def __init__(self, text: str, tokens: list[tuple[str, str, int]], names: list[str]) -> None:
        self.text, self.tokens = text, [*tokens, ("end", "", len(text))]
        self.constant = (0,) * len(names)
        self.units = {name: (*self.constant[:i], 1, *self.constant[i + 1 :]) for i, name in enumerate(names)}
        self.position = 0
        self.n_products = 0

    def polynomial(self) -> WrittenTerms:
        """Return the whole string as a sum of monomials."""
        try:
            total = self._expression(0)
            is_finite = all(cmath.isfinite(to_float(value)) for value in total.values())
        except OverflowError:
            is_finite = False
        except RecursionError as error:
            raise ValueError("The polynomial has too many brackets within brackets.") from error
        if not is_finite:
            raise ValueError(
                "A coefficient of the polynomial overflows: divide the polynomial by a power of ten."
            )
        if self.position < len(self.tokens) - 1:
            raise self._unexpected()
        return total

    def _unexpected(self, what: str = "unexpected") -> ValueError:
        return _error(self.text, what, self.tokens[self.position][2])

    def _take(self, *operators: str) -> bool:
        """Return whether the next token is one of these operators, and go past it."""
        kind, value, _ = self.tokens[self.position]
        is_taken = kind == "operator" and value in operators
        self.position += is_taken
        return is_taken

    def _expression(self, strength: int) -> WrittenTerms:
        """Return operands joined by stronger operators; without one between them, they are multiplied."""
        total = self._operand()
        while True:
            kind, value, _ = self.tokens[self.position]
            is_implied = kind in ("number", "imaginary", "variable") or value == "("
            sign = "*" if is_implied else value
            if _STRENGTHS.get(sign, 0) <= strength:
                return total
            self.position += not is_implied
            start = self.position
            right = self._expression(_STRENGTHS[sign])
            if sign in "+-":
                for key, value in right.items():
                    total[key] = _limit_digits(total.get(key, 0) + (value if sign == "+" else -value))
                continue
            if sign == "/":
                divisor = right.get(self.constant, 0) if set(right) <= {self.constant} else 0
                if divisor == 0:
                    self.position = start
                    raise self._unexpected("division only by a number other than zero, not by")
                right = {self.constant: Fraction(1) / divisor}
            total = self._multiply(total, right)

    def _operand(self) -> WrittenTerms:
        """Return a number, a variable or a bracket, and its power; or what follows a sign, with this sign."""
        if self._take("-"):
            return {key: -value for key, value in self._expression(_STRENGTHS["*"]).items()}
        self._take("+")
        kind, value, _ = self.tokens[self.position]
        if self._take("("):
            operand = self._expression(0)
            if not self._take(")"):
                raise self._unexpected("a bracket is not closed before")
            return self._power(operand)
        if kind not in ("number", "imaginary", "variable"):
            raise self._unexpected()
        self.position += 1
        if kind == "variable":
            return self._power({self.units[value]: 1})
        return self._power({self.constant: _number(value) if kind == "number" else 1j * float(value)})

    def _power(self, base: WrittenTerms) -> WrittenTerms:
        if not self._take("^"):
            return base
        kind, value, _ = self.tokens[self.position]
        is_integer = kind == "number" and value.isdigit() and len(value) <= 2 * len(str(MAX_DEGREE))
        if not is_integer or int(value) > MAX_DEGREE:
            raise self._unexpected(f"a power must be an integer up to {MAX_DEGREE}, not")
        self.position += 1
        exponent = int(value)
        _check_degree(exponent * max(map(sum, base)))
        if len(base) == 1:
            ((key, coefficient),) = base.items()
            scale: Any = 1
            for _ in range(exponent):
                scale = _limit_digits(scale * coefficient)
            return {tuple(e * exponent for e in key): scale}
        one: WrittenTerms = {self.constant: 1}
        return functools.reduce(self._multiply, [base] * exponent, one)

    def _multiply(self, left: WrittenTerms, right: WrittenTerms) -> WrittenTerms:
        """Return the product of two sums, if it is not too long to write out."""
        self.n_products += len(left) * len(right)
        if self.n_products > MAX_PRODUCTS:
            raise ValueError(
                f"The brackets of the polynomial take more than {MAX_PRODUCTS:,} multiplications to write "
                "out: multiply them out first, or lower the degree."
            )
        _check_degree(max(map(sum, left)) + max(map(sum, right)))
        total: WrittenTerms = {}
        for first, a in left.items():
            for second, b in right.items():
                key = tuple(map(operator.add, first, second))
                total[key] = _limit_digits(total.get(key, 0) + a * b)
        return total


def _check_degree(degree: int) -> None:
    if degree > MAX_DEGREE:
        raise ValueError(f"The polynomial has a product of degree {degree}; the largest is {MAX_DEGREE}.")


def _number(text: str) -> Any:
    """Return a number as it is written: an integer or a fraction, a float if it is too long for that."""
    mantissa, _, power = text.lower().partition("e")
    # A digit takes less than four bits.
    if 4 * (len(mantissa) + abs(float(power or 0))) > MAX_BITS:
        return float(text)
    fraction = Fraction(text)
    return fraction.numerator if fraction.denominator == 1 else fraction


def _limit_digits(value: Any) -> Any:
    """Return a number, in floating point if it is a fraction too long to calculate with."""
    return float(value) if isinstance(value, int | Fraction) and not is_short(value) else value


def _simplest(value: Any) -> Any:
    """Return a complex number without imaginary part as a real one."""
    return value.real if value.imag == 0 else value


# --- dicts, and SymPy ---------------------------------------------------------------------------


def _dict_terms(polynomial: Mapping[Any, Any]) -> WrittenTerms:
    if not polynomial:
        raise ValueError("An empty dict has no degree: use SymmetricTensor.zeros(order, dim).")
    terms: WrittenTerms = {}
    for key, value in polynomial.items():
        exponents = tuple(key) if isinstance(key, Sequence) and not isinstance(key, str) else None
        if exponents is None or not all(isinstance(e, numbers.Integral) and int(e) >= 0 for e in exponents):
            raise TypeError(f"Keys must be tuples of exponents such as (1, 2); got {shorten(repr(key))}.")
        if not isinstance(value, numbers.Complex):
            raise TypeError(
                f"The coefficient of {shorten(repr(key))} must be a number; got {shorten(repr(value))}."
            )
        try:
            terms[tuple(map(int, exponents))] = _checked_number(value)
        except OverflowError as error:
            raise ValueError(f"The coefficient of {shorten(repr(key))} overflows.") from error
    lengths = sorted({len(key) for key in terms})
    if len(lengths) > 1 or lengths[0] == 0:
        raise ValueError(f"Every key needs one exponent per variable; got keys of lengths {lengths}.")
    # Terms of coefficient zero have no say in the degree; if there are no others, the first one sets it.
    first = next(iter(terms))
    return {key: value for key, value in terms.items() if value != 0} or {first: 0}


def _checked_number(value: Any) -> Any:
    """Return a coefficient as a fraction if it is known exactly, else to_float; too large, it is refused."""
    fraction = as_fraction(value)
    exact = _simplest(complex(value)) if fraction is None else fraction
    to_float(exact)
    return exact


def _sympy_terms(polynomial: Any, variables: Sequence[str] | None) -> WrittenTerms:
    sympy = sys.modules.get("sympy")
    if sympy is None or not isinstance(polynomial, sympy.Poly | sympy.Expr):
        raise TypeError(
            "A polynomial is a dict of exponents, a string such as 'x^3 - 3*x*y^2', "
            f"or a SymPy expression; got {type(polynomial).__name__}."
        )
    if isinstance(polynomial, sympy.Poly) and variables is None:
        symbols = list(polynomial.gens)
    else:
        # By name: SymPy tells symbols with assumptions from those without. All else is a coefficient.
        by_name = {symbol.name: symbol for symbol in polynomial.free_symbols}
        names = sorted(by_name) if variables is None else list(variables)
        symbols = [by_name.get(name, sympy.Symbol(name)) for name in names]
    if not symbols:
        raise ValueError(f"{shorten(str(polynomial))} has no variable.")
    try:
        poly = sympy.Poly(polynomial, *symbols)
        if not all(generator.is_Symbol for generator in poly.gens):
            raise TypeError("a function of the variables")
        terms = {tuple(map(int, key)): _checked_number(value) for key, value in poly.as_dict().items()}
    except (sympy.polys.polyerrors.BasePolynomialError, TypeError) as error:
        raise ValueError(
            f"{shorten(str(polynomial))} is not a polynomial with numbers as coefficients."
        ) from error
    if not terms:
        raise ValueError("The polynomial is zero and has no degree: use SymmetricTensor.zeros(order, dim).")
    return terms
