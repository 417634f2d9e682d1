"""A decomposition as it is written: text, LaTeX and SymPy, in floating point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array
from apolar.tensor import display
from apolar.tensor.formatting import format_sum, variable_names
from apolar.tensor.symbols import sympy_module, sympy_number

# What a notebook shows of a long decomposition: terms, and variables of each.
LATEX_TERMS, LATEX_VARIABLES = 8, 6


class WrittenWaring:
    """What a decomposition is written as; `Waring` inherits it."""

    weights: Array
    points: Array
    order: int

    if TYPE_CHECKING:

        @property
        def rank(self) -> int:
            """The number of terms."""

        @property
        def dim(self) -> int:
            """The number of variables."""

    def to_string(self, variables: Sequence[str] | None = None, *, precision: int = 6) -> str:
        """Return the decomposition as a formula, such as ``2*(x + y)^3 - 0.5*(x - 3*y)^3``.

        Each linear form is scaled so that its largest coefficient is one.
        """
        names = variable_names(self.dim, variables)
        terms: list[tuple[complex, str]] = []
        for scaled, linear in self._scaled_terms(names, precision):
            linear_form = format_sum(linear, precision)
            power = f"^{self.order}" if self.order > 1 else ""
            bare = len(linear) == 1 and linear[0][0] == 1
            terms.append((scaled, f"{linear_form}{power}" if bare else f"({linear_form}){power}"))
        return format_sum(terms, precision)

    def to_latex(self, variables: Sequence[str] | None = None, *, precision: int = 6) -> str:
        """Return the whole decomposition in LaTeX, each linear form with its largest coefficient one."""
        return self._latex(display.latex_names(self.dim, variables), precision, self.rank, self.dim)

    def to_sympy(self, variables: Sequence[str] | None = None) -> Any:
        """Return the decomposition as a SymPy expression in floats, a sum of powers that is not expanded."""
        sympy = sympy_module()
        symbols = [sympy.Symbol(name) for name in variable_names(self.dim, variables)]
        return sympy.Add(*(
            sympy_number(weight) * sympy.Add(*(sympy_number(c) * s for c, s in linear)) ** self.order
            for weight, linear in self._scaled_terms(symbols, 15)
        ))  # fmt: skip

    def _scaled_terms(
        self, names: Sequence[Any], precision: int
    ) -> Iterator[tuple[complex, list[tuple[complex, Any]]]]:
        """Yield the terms, with the largest coefficient of each linear form one: a weight, and the form."""
        for weight, point in zip(self.weights, self.points, strict=True):
            if not np.any(point) or weight == 0:
                continue
            largest = point[np.argmax(np.abs(point) > (1 - 1e-9) * np.abs(point).max())]
            form = _rounded(point / largest, precision)
            linear = [(c, name) for c, name in zip(form, names, strict=True) if c != 0]
            yield _rounded(np.array([weight * largest**self.order]), precision)[0], linear

    def _repr_latex_(self) -> str:
        """Return the sum of powers of linear forms for notebooks, with dots in place of what is too long."""
        names = display.latex_names(self.dim)
        return f"${self._latex(names, display.PRECISION, LATEX_TERMS, LATEX_VARIABLES)}$"

    def _latex(self, names: Sequence[str], precision: int, max_terms: int, max_variables: int) -> str:
        """Return the sum of powers of linear forms, with dots for what is beyond these numbers."""
        terms = []
        for scaled, linear in self._scaled_terms(names, precision):
            form = display.latex_sum(linear[:max_variables], len(linear) - max_variables, precision)
            bare = len(linear) == 1 and linear[0][0] == 1
            body = form if bare else rf"\left({form}\right)"
            terms.append((scaled, body if self.order == 1 else f"{body}^{{{self.order}}}"))
        return display.latex_sum(terms[:max_terms], len(terms) - max_terms, precision)


def _rounded(values: Array, precision: int) -> list[complex]:
    """Return numbers with the parts that are rounding, relative to the largest number, set to zero."""
    cut = np.abs(values).max() * 10.0 ** (-precision)
    rounded = []
    for value in values:
        real = float(value.real) if abs(value.real) > cut else 0.0
        imaginary = float(value.imag) if abs(value.imag) > cut else 0.0
        rounded.append(complex(real, imaginary) if imaginary else real)
    return rounded
