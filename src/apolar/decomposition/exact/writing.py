"""Exact decompositions as text, in LaTeX and for SymPy."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from apolar.decomposition.exact.number_field import ExactNumber, NumberField
from apolar.tensor.display import latex_names, latex_number
from apolar.tensor.formatting import format_number, variable_names
from apolar.tensor.symbols import sympy_module, sympy_number

if TYPE_CHECKING:
    from apolar.decomposition.exact.exact_waring import ExactWaring

# Significant digits of a root of which only the polynomial is known.
DIGITS = 6


class InText:
    """Writes a decomposition as text; rational and Gaussian ones are read back by `parse_polynomial`."""

    times = "*"
    where = "; {roots}: roots of {polynomial}"

    def __init__(self, fields: Sequence[NumberField], variables: Sequence[str] | None, dim: int) -> None:
        self.names = self.variable_names(dim, variables)
        unnamed = [field for field in fields if field.radicand is None]
        self.generators = {field: self.generator(i + 1) for i, field in enumerate(unnamed)}

    def variable_names(self, dim: int, variables: Sequence[str] | None) -> list[str]:
        """Return the names of the variables."""
        return variable_names(dim, variables)

    def generator(self, index: int) -> str:
        """Return the name of a root."""
        return f"a{index}"

    def power(self, base: str, exponent: int) -> str:
        """Return a power."""
        return base if exponent == 1 else f"{base}^{exponent}"

    def fraction(self, value: Fraction) -> str:
        """Return a fraction."""
        return str(value)

    def approximate(self, value: complex) -> str:
        """Return a number in floating point."""
        return format_number(value if abs(value.imag) > 1e-12 * abs(value) else value.real, DIGITS)

    def bracket(self, text: str) -> str:
        """Return a sum in brackets."""
        return f"({text})"

    def root_multiple(self, factor: Fraction, radicand: int) -> str:
        """Return a fraction times the square root of an integer, such as 3*sqrt(2)/4 or 1i/2."""
        top, bottom = factor.numerator, factor.denominator
        sign, top = "-" if top < 0 else "", abs(top)
        over = f"/{bottom}" if bottom != 1 else ""
        if radicand == -1:
            return f"{sign}{top}i{over}"
        root = f"sqrt({abs(radicand)})" + ("*1i" if radicand < 0 else "")
        return f"{sign}{'' if top == 1 else f'{top}*'}{root}{over}"

    def number(self, value: ExactNumber) -> str:
        """Return a number; sums are in brackets."""
        if isinstance(value, Fraction):
            return self.fraction(value)
        radicand = value.field.radicand
        if radicand is not None:
            constant, factor = value.coefficients
            parts = [self.fraction(constant)] if constant else []
            parts.append(self.root_multiple(factor, radicand))
        else:
            name = self.generators[value.field]
            parts = [
                self.product(c, self.power(name, k) if k else "")
                for k, c in reversed(list(enumerate(value.coefficients)))
                if c
            ]
        return parts[0] if len(parts) == 1 else self.bracket(joined(parts))

    def product(self, coefficient: ExactNumber, factor: str) -> str:
        """Return a number times something; an empty string stands for one."""
        text = self.number(coefficient)
        if factor and text in ("1", "-1"):
            return text[:-1] + factor
        return self.times.join(filter(None, (text, factor)))

    def polynomial(self, coefficients: Sequence[int]) -> str:
        """Return a polynomial in t."""
        powers = reversed(list(enumerate(coefficients)))
        return joined([self.product(Fraction(c), self.power("t", k) if k else "") for k, c in powers if c])

    def formula(self, waring: ExactWaring) -> str:
        """Return the decomposition."""
        terms = []
        for weight, point in zip(waring.weights, waring.points, strict=True):
            linear = [self.product(c, name) for c, name in zip(point, self.names, strict=True) if c != 0]
            bare = sum(c != 0 for c in point) == 1 and 1 in point
            form = joined(linear) if bare else self.bracket(joined(linear))
            terms.append(self.product(weight, self.power(form, waring.order)))
        text = joined(terms) if terms else "0"
        for polynomial in dict.fromkeys(field.polynomial for field in self.generators):
            roots = ", ".join(
                f"{name} = {self.approximate(field.root)}"
                for field, name in self.generators.items()
                if field.polynomial == polynomial
            )
            text += self.where.format(roots=roots, polynomial=self.polynomial(polynomial))
        return text


class InLatex(InText):
    """Writes a decomposition in LaTeX."""

    times = r" \, "
    where = r", \quad {roots} \text{{ roots of }} {polynomial}"

    def variable_names(self, dim: int, variables: Sequence[str] | None) -> list[str]:
        """Return the names of the variables."""
        return latex_names(dim, variables)

    def generator(self, index: int) -> str:
        """Return the name of a root."""
        return rf"\alpha_{{{index}}}"

    def power(self, base: str, exponent: int) -> str:
        """Return a power."""
        return base if exponent == 1 else f"{base}^{{{exponent}}}"

    def fraction(self, value: Fraction) -> str:
        """Return a fraction."""
        return latex_number(value)

    def approximate(self, value: complex) -> str:
        """Return a number in floating point."""
        return latex_number(value if abs(value.imag) > 1e-12 * abs(value) else value.real, DIGITS)

    def bracket(self, text: str) -> str:
        """Return a sum in brackets."""
        return rf"\left({text}\right)"

    def root_multiple(self, factor: Fraction, radicand: int) -> str:
        """Return a fraction times the square root of an integer."""
        root = "" if radicand == -1 else rf"\sqrt{{{abs(radicand)}}}"
        return self.product(factor, " ".join(filter(None, (root, "i" if radicand < 0 else ""))))


class InSympy:
    """Writes a decomposition as a SymPy expression: square roots, and `CRootOf` for higher degrees."""

    def __init__(self, variables: Sequence[str] | None, dim: int) -> None:
        self.sympy = sympy_module()
        self.symbols = [self.sympy.Symbol(name) for name in variable_names(dim, variables)]
        self.roots: dict[NumberField, Any] = {}

    def number(self, value: ExactNumber) -> Any:
        """Return a number."""
        if isinstance(value, Fraction):
            return sympy_number(value)
        root = self.root(value.field)
        return self.sympy.Add(*(sympy_number(c) * root**k for k, c in enumerate(value.coefficients)))

    def root(self, field: NumberField) -> Any:
        """Return the generator of a field."""
        if field.radicand is not None:
            return self.sympy.sqrt(field.radicand)
        if field not in self.roots:
            t = self.sympy.Symbol("t")
            polynomial = self.sympy.Poly(list(field.polynomial[::-1]), t)
            candidates = polynomial.all_roots(radicals=False)
            self.roots[field] = min(candidates, key=lambda root: abs(complex(root.evalf(20)) - field.root))
        return self.roots[field]

    def formula(self, waring: ExactWaring) -> Any:
        """Return the decomposition, each term as a power."""
        terms = []
        for weight, point in zip(waring.weights, waring.points, strict=True):
            form = self.sympy.Add(*(
                self.number(c) * s for c, s in zip(point, self.symbols, strict=True) if c != 0
            ))  # fmt: skip
            terms.append(self.number(weight) * form**waring.order)
        return self.sympy.Add(*terms)


def joined(parts: Sequence[str]) -> str:
    """Return a sum, with the signs of its parts between them."""
    text = parts[0]
    for part in parts[1:]:
        text += f" - {part[1:]}" if part.startswith("-") else f" + {part}"
    return text
