"""A form as it is written: exact coefficients, a dict, text, LaTeX and SymPy."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.tensor import coefficients as compact
from apolar.tensor import display, exact
from apolar.tensor.formatting import format_polynomial, variable_names
from apolar.tensor.parser import Terms
from apolar.tensor.symbols import sympy_module, sympy_number

if TYPE_CHECKING:
    from typing import Self


class WrittenForm:
    """What a symmetric tensor is written as; `SymmetricTensor` inherits it."""

    order: int
    dim: int
    coefficients: Array
    _exact: exact.Polynomial | None

    if TYPE_CHECKING:

        @property
        def exponents(self) -> IndexArray:
            """The exponents of each coefficient, shape (n_monomials, dim)."""

        @property
        def is_complex(self) -> bool:
            """Whether the coefficients are complex."""

    @property
    def exact_coefficients(self) -> tuple[Fraction, ...] | None:
        """The coefficients as fractions, where they are known exactly, or None.

        Known are those of polynomials with rational numbers: strings, where
        0.1 is one tenth, dicts of integers and fractions, SymPy's rationals. A
        float counts if it is an integer; others were rounded before. Sums,
        products and multiples by integers and fractions keep them; all else is
        floating point.

        Examples
        --------
        >>> import apolar
        >>> T = apolar.SymmetricTensor.from_polynomial("x^2/3 + 0.1*x*y") * 2
        >>> [str(number) for number in T.exact_coefficients]
        ['2/3', '1/10', '0']
        """
        return None if self._exact is None else exact.coefficients(self._exact, self.order, self.dim)

    def _with_exact(self, polynomial: exact.Polynomial | None) -> Self:
        """Return this tensor, just made, with what its coefficients are exactly."""
        object.__setattr__(self, "_exact", polynomial)
        return self

    def to_polynomial(self) -> Terms:
        """Return the form as a dict from exponents to coefficients as written.

        Zero coefficients are left out.
        """
        written = compact.representable(compact.as_written(self))
        return {
            tuple(map(int, self.exponents[i])): complex(written[i]) if self.is_complex else float(written[i])
            for i in np.flatnonzero(written)
        }

    def to_string(self, variables: Sequence[str] | None = None, *, precision: int = 6) -> str:
        """Return the form as a string, such as ``x^3 - 3*x*y^2``."""
        return format_polynomial(self.to_polynomial(), self.dim, variables, precision=precision)

    def to_latex(self, variables: Sequence[str] | None = None, *, precision: int = 6) -> str:
        r"""Return the whole form in LaTeX, with fractions where its coefficients are exact.

        Examples
        --------
        >>> import apolar
        >>> print(apolar.SymmetricTensor.from_polynomial("x^3 - x*y^2/3").to_latex())
        x^{3} - \frac{1}{3} \, x y^{2}
        """
        terms = self.to_polynomial() if self._exact is None else self._exact
        return display.latex_polynomial(terms, self.dim, variables, precision)

    def to_sympy(self, variables: Sequence[str] | None = None) -> Any:
        """Return the form as a SymPy expression, with rational numbers where its coefficients are exact."""
        sympy = sympy_module()
        symbols = [sympy.Symbol(name) for name in variable_names(self.dim, variables)]
        terms: Any = self.to_polynomial() if self._exact is None else self._exact
        return sympy.Add(*(
            sympy_number(value) * sympy.Mul(*(s**e for s, e in zip(symbols, key, strict=True)))
            for key, value in terms.items()
        ))  # fmt: skip

    def __repr__(self) -> str:
        return display.in_text(self)

    def _repr_latex_(self) -> str:
        """Return the form for notebooks."""
        return display.in_latex(self)
