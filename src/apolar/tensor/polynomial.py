"""Homogeneous polynomials as people write them: dicts, strings and SymPy expressions."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Mapping, Sequence
from math import comb
from typing import Any

from apolar.tensor.exact import as_fraction
from apolar.tensor.parser import MAX_DEGREE, Terms, WrittenTerms, parse_exactly, shorten, simplest, to_float

__all__ = ["Terms", "homogeneous_terms"]

# Coefficients of a form times its degree, at most: the table of its monomials takes some seconds and 160 MB.
MAX_ENTRIES = 20_000_000


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
        terms = parse_exactly(polynomial, variables)[0]
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
            raise ValueError(f"The coefficient of {shorten(repr(key))} is too large for a number.") from error
    lengths = sorted({len(key) for key in terms})
    if len(lengths) > 1 or lengths[0] == 0:
        raise ValueError(f"Every key needs one exponent per variable; got keys of lengths {lengths}.")
    # Terms of coefficient zero have no say in the degree; if there are no others, the first one sets it.
    first = next(iter(terms))
    return {key: value for key, value in terms.items() if value != 0} or {first: 0}


def _checked_number(value: Any) -> Any:
    """Return a coefficient as a fraction if it is known exactly, else to_float; too large, it is refused."""
    fraction = as_fraction(value)
    exact = simplest(complex(value)) if fraction is None else fraction
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
