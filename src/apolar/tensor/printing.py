"""Forms and decompositions as text that `parse_polynomial` reads back, in LaTeX, and as SymPy expressions."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

# Significant digits in notebooks.
NOTEBOOK_DIGITS = 4


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
    """Prints polynomials and sums of powers as text; the subclasses print the same in LaTeX and for SymPy.

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
    dots = " + ..."
    where = "; {roots}: roots of {polynomial}"

    def __init__(self, dim: int, variables: Sequence[str] | None = None, precision: int = 6) -> None:
        self.names = self.variables(variable_names(dim, variables))
        self.precision = precision
        # What the generators of number fields are called, in the order in which they occur.
        self.generators: dict[Any, Any] = {}

    # --- the two sums that are printed ------------------------------------------------------

    def polynomial(self, terms: Mapping[tuple[int, ...], Any], n_hidden: int = 0) -> Any:
        """Return a polynomial, from exponents to coefficients, with dots for terms that are hidden."""
        return self.sum([self.product(c, self.monomial(key)) for key, c in terms.items()], n_hidden)

    def powers(
        self,
        terms: Sequence[tuple[Any, Sequence[Any]]],
        order: int,
        max_terms: int | None = None,
        max_variables: int | None = None,
    ) -> Any:
        """Return a sum of powers of linear forms, with dots beyond these numbers of terms and variables.

        Parameters
        ----------
        terms : sequence of (weight, coefficients of the linear form)
        order : int
        max_terms, max_variables : int, optional

        Returns
        -------
        printed : str or SymPy expression
        """
        written = []
        for weight, form in terms[:max_terms]:
            parts = [self.product(c, name) for c, name in zip(form, self.names, strict=True) if c != 0]
            n_hidden = len(parts) - len(parts[:max_variables])
            linear = self.sum(parts[:max_variables], n_hidden)
            is_variable = len(parts) == 1 and 1 in form
            base = linear if is_variable else self.bracket(linear)
            written.append(self.product(weight, self.power(base, order)))
        return self.with_roots(self.sum(written, len(terms) - len(written)))

    # --- what they are made of ----------------------------------------------------------------

    def variables(self, names: list[str]) -> list[Any]:
        """Return the names of the variables."""
        return names

    def monomial(self, exponents: Sequence[int]) -> Any:
        """Return a product of powers of the variables."""
        used = zip(self.names, exponents, strict=True)
        return self.juxtaposed.join(self.power(name, e) for name, e in used if e)

    def power(self, base: Any, exponent: int) -> Any:
        """Return a power."""
        return base if exponent == 1 else f"{base}^{exponent}"

    def bracket(self, text: Any) -> Any:
        """Return a sum in brackets."""
        return f"({text})"

    def product(self, coefficient: Any, factor: Any) -> Any:
        """Return a number times something; an empty string stands for one."""
        text = self.number(coefficient)
        if factor and text in ("1", "-1"):
            return text[:-1] + factor
        return self.times.join(filter(None, (text, factor)))

    def sum(self, parts: Sequence[Any], n_hidden: int = 0) -> Any:
        """Return a sum with the signs of its parts between them, and dots for those that are hidden."""
        text = parts[0] if parts else "0"
        for part in parts[1:]:
            text += f" - {part[1:]}" if part.startswith("-") else f" + {part}"
        return text + (self.dots if n_hidden > 0 else "")

    def number(self, value: Any) -> Any:
        """Return a number; sums are in brackets."""
        if isinstance(value, int | Fraction):
            return self.fraction(Fraction(value))
        if isinstance(value, float | complex):
            return self.approximate(value)
        if value.field.radicand is not None:
            constant, factor = value.coefficients
            parts = [self.fraction(constant)] if constant else []
            parts.append(self.root_multiple(factor, value.field.radicand))
        else:
            n_known = len(self.generators)
            name = self.generators.setdefault(value.field, self.generator(n_known + 1))
            powers = reversed(list(enumerate(value.coefficients)))
            parts = [self.product(c, self.power(name, k) if k else "") for k, c in powers if c]
        return parts[0] if len(parts) == 1 else self.bracket(self.sum(parts))

    def fraction(self, value: Fraction) -> Any:
        """Return a fraction."""
        return str(value)

    def approximate(self, value: complex) -> Any:
        """Return a number in floating point."""
        return format_number(value, self.precision)

    def root_multiple(self, factor: Fraction, radicand: int) -> str:
        """Return a fraction times the square root of an integer, such as 3*sqrt(2)/4 or 1i/2."""
        top, bottom = factor.numerator, factor.denominator
        sign, top = "-" if top < 0 else "", abs(top)
        over = f"/{bottom}" if bottom != 1 else ""
        if radicand == -1:
            return f"{sign}{top}i{over}"
        root = f"sqrt({abs(radicand)})" + ("*1i" if radicand < 0 else "")
        return f"{sign}{'' if top == 1 else f'{top}*'}{root}{over}"

    def generator(self, index: int) -> str:
        """Return the name of a root."""
        return f"a{index}"

    def with_roots(self, text: Any) -> Any:
        """Return a sum, and after it what roots occur in it."""
        for polynomial in dict.fromkeys(field.polynomial for field in self.generators):
            named = [item for item in self.generators.items() if item[0].polynomial == polynomial]
            roots = [(name, field.root) for field, name in named]
            is_real = [abs(root.imag) <= 1e-12 * abs(root) for _, root in roots]
            shown = ", ".join(
                f"{name} = {self.approximate(root.real if real else root)}"
                for (name, root), real in zip(roots, is_real, strict=True)
            )
            powers = reversed(list(enumerate(polynomial)))
            parts = [self.product(c, self.power("t", k) if k else "") for k, c in powers if c]
            text += self.where.format(roots=shown, polynomial=self.sum(parts))
        return text


class InLatex(InText):
    """Prints polynomials and sums of powers in LaTeX."""

    times = r" \, "
    juxtaposed = " "
    dots = r" + \dots"
    where = r", \quad {roots} \text{{ roots of }} {polynomial}"

    def variables(self, names: list[str]) -> list[Any]:
        """Return the names, with indices such as x_{1}."""
        return [re.sub(r"_?(\d+)", r"_{\1}", name) for name in names]

    def power(self, base: str, exponent: int) -> str:
        """Return a power."""
        return base if exponent == 1 else f"{base}^{{{exponent}}}"

    def bracket(self, text: str) -> str:
        """Return a sum in brackets."""
        return rf"\left({text}\right)"

    def fraction(self, value: Fraction) -> str:
        """Return a fraction."""
        if value.denominator == 1:
            return str(value.numerator)
        return f"{'-' if value < 0 else ''}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"

    def approximate(self, value: complex) -> str:
        """Return a number in floating point, with powers of ten as such."""
        text = re.sub(r"\b1i", "i", format_number(value, self.precision))
        return re.sub(r"e([+-]?)0*(\d+)", _power_of_ten, text)

    def root_multiple(self, factor: Fraction, radicand: int) -> str:
        """Return a fraction times the square root of an integer."""
        root = "" if radicand == -1 else rf"\sqrt{{{abs(radicand)}}}"
        return str(self.product(factor, " ".join(filter(None, (root, "i" if radicand < 0 else "")))))

    def generator(self, index: int) -> str:
        """Return the name of a root."""
        return rf"\alpha_{{{index}}}"


def _power_of_ten(match: re.Match[str]) -> str:
    sign = "-" if match[1] == "-" else ""
    return rf" \cdot 10^{{{sign}{match[2]}}}"


class InSympy(InText):
    """Makes SymPy expressions: `CRootOf` for generators of number fields of higher degree than two."""

    def variables(self, names: list[str]) -> list[Any]:
        """Return the variables as symbols."""
        try:
            self.sympy = importlib.import_module("sympy")
        except ImportError as error:
            raise ImportError("to_sympy needs SymPy, which is not installed: pip install sympy.") from error
        return [self.sympy.Symbol(name) for name in names]

    def monomial(self, exponents: Sequence[int]) -> Any:
        """Return a product of powers of the variables."""
        return self.sympy.Mul(*(name**e for name, e in zip(self.names, exponents, strict=True)))

    def power(self, base: Any, exponent: int) -> Any:
        """Return a power that is not expanded."""
        return base**exponent

    def bracket(self, text: Any) -> Any:
        """Return a sum as it is."""
        return text

    def product(self, coefficient: Any, factor: Any) -> Any:
        """Return a number times something."""
        return self.number(coefficient) * factor

    def sum(self, parts: Sequence[Any], n_hidden: int = 0) -> Any:
        """Return a sum; nothing is hidden."""
        del n_hidden
        return self.sympy.Add(*parts)

    def number(self, value: Any) -> Any:
        """Return a number: fractions as rationals, others as floats."""
        if isinstance(value, int | Fraction):
            return self.sympy.Rational(value.numerator, value.denominator)
        if isinstance(value, complex) and value.imag != 0:
            return self.sympy.Float(value.real) + self.sympy.I * self.sympy.Float(value.imag)
        if isinstance(value, float | complex):
            return self.sympy.Float(value.real)
        if value.field not in self.generators:
            self.generators[value.field] = self._root(value.field)
        root = self.generators[value.field]
        return self.sympy.Add(*(self.number(c) * root**k for k, c in enumerate(value.coefficients)))

    def _root(self, field: Any) -> Any:
        """Return the generator of a number field."""
        if field.radicand is not None:
            return self.sympy.sqrt(field.radicand)
        polynomial = self.sympy.Poly(list(field.polynomial[::-1]), self.sympy.Symbol("t"))
        candidates = polynomial.all_roots(radicals=False)
        return min(candidates, key=lambda root: abs(complex(root.evalf(20)) - field.root))

    def with_roots(self, text: Any) -> Any:
        """Return a sum as it is."""
        return text


class Printed:
    """A form or a decomposition with its texts and expressions; subclasses have `dim` and `_print_on`."""

    if TYPE_CHECKING:

        @property
        def dim(self) -> int:
            """The number of variables."""

    def _print_on(self, printer: InText, *, is_short: bool = False) -> Any:
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
        return self._print_on(InSympy(self.dim, variables, 15))

    def _repr_latex_(self) -> str:
        """Return the largest terms for notebooks."""
        return f"${self._print_on(InLatex(self.dim, None, NOTEBOOK_DIGITS), is_short=True)}$"
