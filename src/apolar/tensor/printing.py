"""Forms and decompositions as text that `parse_polynomial` reads back, in LaTeX, and as SymPy expressions."""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any


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


class InText:
    """Prints polynomials and sums of powers as text, and the subclass in LaTeX.

    Numbers are in floating point, fractions, or numbers of a number field, with a `field` and `coefficients`.

    Parameters
    ----------
    dim : int
    variables : sequence of str, optional
        Their names; by default x, y, z, or x1, x2, ...
    precision : int, default=6
        Significant digits of numbers in floating point.
    """

    times = "*"
    juxtaposed = "*"
    raised = "{}^{}"
    bracketed = "({})"
    generator = "a{}"
    index = r"\g<0>"
    ratio = "{}/{}"
    root = "sqrt({})"
    imaginary = "1i"
    dots = " + ..."
    where = "; {roots}: roots of {polynomial}"

    def __init__(self, dim: int, variables: Sequence[str] | None = None, precision: int = 6) -> None:
        self.names = [re.sub(r"_?(\d+)", self.index, name) for name in variable_names(dim, variables)]
        self.precision = precision
        # What the generators of number fields are called, in the order in which they occur.
        self.generators: dict[Any, Any] = {}

    # --- the two sums that are printed ------------------------------------------------------

    def polynomial(self, terms: Mapping[tuple[int, ...], Any], n_hidden: int = 0) -> str:
        """Return a polynomial, from exponents to coefficients, with dots for terms that are hidden."""
        written = []
        for key, coefficient in terms.items():
            used = [self.power(name, e) for name, e in zip(self.names, key, strict=True) if e]
            written.append(self.product(coefficient, self.juxtaposed.join(used)))
        return self.sum(written, n_hidden)

    def powers(
        self,
        terms: Sequence[tuple[Any, Sequence[Any]]],
        order: int,
        max_terms: int | None = None,
        max_variables: int | None = None,
    ) -> str:
        """Return a sum of powers of linear forms, with dots beyond these numbers of terms and variables.

        Parameters
        ----------
        terms : sequence of (weight, coefficients of the linear form)
        order : int
        max_terms, max_variables : int, optional

        Returns
        -------
        printed : str
        """
        written = []
        for weight, form in terms[:max_terms]:
            parts = [self.product(c, name) for c, name in zip(form, self.names, strict=True) if c != 0]
            n_hidden = len(parts) - len(parts[:max_variables])
            linear = self.sum(parts[:max_variables], n_hidden)
            is_variable = len(parts) == 1 and 1 in form
            base = linear if is_variable else self.bracketed.format(linear)
            written.append(self.product(weight, self.power(base, order)))
        return self.with_roots(self.sum(written, len(terms) - len(written)))

    # --- what they are made of ----------------------------------------------------------------

    def power(self, base: str, exponent: int) -> str:
        """Return a power."""
        return base if exponent == 1 else self.raised.format(base, exponent)

    def product(self, coefficient: Any, factor: str) -> str:
        """Return a number times something; an empty string stands for one."""
        text = self.number(coefficient)
        if factor and text in ("1", "-1"):
            return text[:-1] + factor
        return self.times.join(filter(None, (text, factor)))

    def sum(self, parts: Sequence[str], n_hidden: int = 0) -> str:
        """Return a sum with the signs of its parts between them, and dots for those that are hidden."""
        text = parts[0] if parts else "0"
        for part in parts[1:]:
            text += f" - {part[1:]}" if part.startswith("-") else f" + {part}"
        return text + (self.dots if n_hidden > 0 else "")

    def number(self, value: Any) -> str:
        """Return a number; sums are in brackets."""
        if isinstance(value, int | Fraction):
            return self.fraction(Fraction(value))
        if isinstance(value, float | complex):
            return self.approximate(value)
        if value.field.radicand is not None:
            factors = ("", self._root(value.field))
            parts = [self.product(c, root) for c, root in zip(value.coefficients, factors, strict=True) if c]
        else:
            n_known = len(self.generators)
            name = self.generators.setdefault(value.field, self.generator.format(n_known + 1))
            parts = self._in_powers(value.coefficients, name)
        return parts[0] if len(parts) == 1 else self.bracketed.format(self.sum(parts))

    def _root(self, field: Any) -> str:
        """Return the square root of an integer."""
        root = self.root.format(abs(field.radicand)) if field.radicand != -1 else ""
        return self.juxtaposed.join(filter(None, (root, self.imaginary if field.radicand < 0 else "")))

    def _in_powers(self, coefficients: Sequence[Any], name: str) -> list[str]:
        """Return the terms of a polynomial in one variable, the highest power first."""
        powers = reversed(list(enumerate(coefficients)))
        return [self.product(c, self.power(name, k) if k else "") for k, c in powers if c]

    def fraction(self, value: Fraction) -> str:
        """Return a fraction."""
        if value.denominator == 1:
            return str(value.numerator)
        return "-" * (value < 0) + self.ratio.format(abs(value.numerator), value.denominator)

    def approximate(self, value: complex) -> str:
        """Return a number in floating point."""
        return format_number(value, self.precision)

    def with_roots(self, text: str) -> str:
        """Return a sum, and after it what roots occur in it."""
        for polynomial in dict.fromkeys(field.polynomial for field in self.generators):
            shown = []
            for field, name in self.generators.items():
                if field.polynomial == polynomial:
                    is_real = abs(field.root.imag) <= 1e-12 * abs(field.root)
                    shown.append(f"{name} = {self.approximate(field.root.real if is_real else field.root)}")
            equation = self.sum(self._in_powers(polynomial, "t"))
            text += self.where.format(roots=", ".join(shown), polynomial=equation)
        return text


class InLatex(InText):
    """Prints polynomials and sums of powers in LaTeX."""

    times = r" \, "
    juxtaposed = " "
    raised = "{}^{{{}}}"
    bracketed = r"\left({}\right)"
    generator = r"\alpha_{{{}}}"
    index = r"_{\1}"
    ratio = r"\frac{{{}}}{{{}}}"
    root = r"\sqrt{{{}}}"
    imaginary = "i"
    dots = r" + \dots"
    where = r", \quad {roots} \text{{ roots of }} {polynomial}"

    def approximate(self, value: complex) -> str:
        """Return a number in floating point, with powers of ten as such."""
        text = re.sub(r"\b1i", "i", format_number(value, self.precision))
        return re.sub(r"e\+?(-?)0*(\d+)", r" \\cdot 10^{\1\2}", text)


class InSympy:
    """Makes SymPy expressions: `CRootOf` for generators of number fields of higher degree than two.

    Parameters
    ----------
    dim : int
    variables : sequence of str, optional
        Their names, as in text.
    """

    def __init__(self, dim: int, variables: Sequence[str] | None = None) -> None:
        try:
            self.sympy = importlib.import_module("sympy")
        except ImportError as error:
            raise ImportError("to_sympy needs SymPy, which is not installed: pip install sympy.") from error
        self.symbols = [self.sympy.Symbol(name) for name in variable_names(dim, variables)]
        self.precision = 15

    def polynomial(self, terms: Mapping[tuple[int, ...], Any]) -> Any:
        """Return a polynomial, from exponents to coefficients."""
        return self._sum(terms.values(), (prod(map(operator.pow, self.symbols, key)) for key in terms))

    def powers(self, terms: Sequence[tuple[Any, Sequence[Any]]], order: int, *_: Any) -> Any:
        """Return a sum of powers of linear forms, given as weights and coefficients; all are shown."""
        forms = (self._sum(form, self.symbols) for _, form in terms)
        return self._sum((weight for weight, _ in terms), (form**order for form in forms))

    def _sum(self, coefficients: Iterable[Any], factors: Iterable[Any]) -> Any:
        """Return a sum of numbers times expressions."""
        return self.sympy.Add(*map(operator.mul, map(self.number, coefficients), factors))

    def number(self, value: Any) -> Any:
        """Return a number: fractions as rationals, others as floats."""
        if isinstance(value, int | Fraction):
            return self.sympy.Rational(value.numerator, value.denominator)
        if isinstance(value, complex) and value.imag != 0:
            return self.sympy.Float(value.real) + self.sympy.I * self.sympy.Float(value.imag)
        if isinstance(value, float | complex):
            return self.sympy.Float(value.real)
        root = self._root(value.field)
        return self._sum(value.coefficients, (root**k for k in range(len(value.coefficients))))

    def _root(self, field: Any) -> Any:
        """Return the generator of a number field."""
        if field.radicand is not None:
            return self.sympy.sqrt(field.radicand)
        polynomial = self.sympy.Poly(list(field.polynomial[::-1]), self.sympy.Symbol("t"))
        candidates = polynomial.all_roots(radicals=False)
        return min(candidates, key=lambda root: abs(complex(root.evalf(20)) - field.root))


class Printed:
    """A form or a decomposition with its texts and expressions; subclasses have `dim` and `_print_on`."""

    if TYPE_CHECKING:

        @property
        def dim(self) -> int:
            """The number of variables."""

    def _print_on(self, printer: Any, *, is_short: bool = False) -> Any:
        """Return what a printer makes of the whole, or of its largest terms with dots for the others."""
        raise NotImplementedError

    def to_string(self, variables: Sequence[str] | None = None, *, precision: int = 6) -> str:
        """Return the whole as a string, such as ``x^3 - 3*x*y^2`` or ``2*(x + y)^3 - 0.5*(x - 3*y)^3``.

        Linear forms in floating point are scaled so that the largest coefficient is one.
        """
        return str(self._print_on(InText(self.dim, variables, precision)))

    def to_latex(self, variables: Sequence[str] | None = None, *, precision: int = 6) -> str:
        r"""Return the whole in LaTeX, with fractions where its numbers are exact.

        Examples
        --------
        >>> import apolar
        >>> print(apolar.SymmetricTensor.from_polynomial("x^3 - x*y^2/3").to_latex())
        x^{3} - \frac{1}{3} \, x y^{2}
        """
        return str(self._print_on(InLatex(self.dim, variables, precision)))

    def to_sympy(self, variables: Sequence[str] | None = None) -> Any:
        """Return a SymPy expression, with rational numbers where they are exact; powers are not expanded."""
        return self._print_on(InSympy(self.dim, variables))

    def _repr_latex_(self) -> str:
        """Return the largest terms for notebooks."""
        return f"${self._print_on(InLatex(self.dim), is_short=True)}$"
