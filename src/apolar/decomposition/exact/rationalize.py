"""From terms in floating point to exact ones: more digits, numbers that are recognised, and the proof."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import gcd, lcm, log2
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer
from apolar.decomposition.exact.digits import ScaledTerms, refined_terms
from apolar.decomposition.exact.exact_waring import ExactWaring, exact_sum
from apolar.decomposition.exact.family import moved_terms
from apolar.decomposition.exact.fixed_point import FixedPoint
from apolar.decomposition.exact.number_field import Coefficients, NumberField, exact_number
from apolar.decomposition.exact.terms import ConjugateForms, exact_forms
from apolar.decomposition.exact.weights import exact_weights
from apolar.tensor import SymmetricTensor
from apolar.tensor.conversion import as_tensor
from apolar.tensor.exact import Polynomial, coefficients
from apolar.tensor.monomials import sum_of_powers

# Bits of a number in floating point that a decomposition has right: at best, mostly, and at least.
FLOAT_BITS = (48, 42, 34)
# Bits of the first attempt with more; each further one has three times as many.
FIRST_BITS = 128
# For a form without exact coefficients: how near the sum of recognised terms has to be, relative to its size,
# and the largest denominator of a weight.
NEAR = 1e-10
# Terms that leave more than this of the form, in floating point, are those of another one.
LARGEST_RESIDUAL = 1e-6
LARGEST_DENOMINATOR = 10**5


def rationalized(
    weights: Array,
    points: Array,
    order: int,
    tensor: Any,
    *,
    max_degree: int,
    max_digits: int,
    move: bool,
) -> ExactWaring:
    """Return the terms of a decomposition in exact numbers.

    Parameters
    ----------
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
    order : int
    tensor : SymmetricTensor, what makes one, or None
        What the terms are to sum to. With exact coefficients the terms are
        refined to many digits, and proved to sum to it.
    max_degree : int
        The largest degree of a number field.
    max_digits : int
        The most digits to which the terms are refined.
    move : bool
        Whether terms of a continuous family may be moved along it.

    Returns
    -------
    exact : ExactWaring

    Raises
    ------
    ValueError
        If numbers are not recognised, or the terms do not sum to the form.
    """
    max_degree = check_integer(max_degree, "max_degree", least=1)
    max_digits = check_integer(max_digits, "max_digits", least=10)
    dim = points.shape[1]
    form = None if tensor is None else as_tensor(tensor)
    if form is not None and (form.order, form.dim) != (order, dim):
        raise ValueError(
            f"The terms are of order {order} in {dim} variables; the tensor is of order {form.order} in "
            f"{form.dim}."
        )
    terms = ScaledTerms.of(weights, points, order)
    polynomial = None if form is None else form._exact
    if len(terms.weights) == 0:
        if polynomial or (form is not None and np.any(form.coefficients)):
            raise ValueError("The decomposition has no terms, and the tensor is not zero.")
        return ExactWaring((), (), order, dim, proved=polynomial is not None)
    if form is None:
        form = SymmetricTensor.from_waring(weights, points, order).real_if_close()
    if form.is_complex:
        raise ValueError(
            "The form has complex coefficients, and exact terms are for real ones: decompose its real and "
            "its imaginary part, each by itself."
        )
    if polynomial is None:
        return _as_they_look(terms, form, max_degree)
    if not polynomial:
        raise ValueError("The tensor is zero and has no terms; these sum to something else.")
    # The form is a multiple of one with integer coefficients, and this of one of size near one.
    content = Fraction(
        gcd(*(value.numerator for value in polynomial.values())),
        lcm(*(value.denominator for value in polynomial.values())),
    )
    exact_target = coefficients(polynomial, order, dim)
    exponent = max(int(abs(value / content)) for value in exact_target).bit_length()
    unit = content * 2**exponent
    target = tuple(value / unit for value in exact_target)
    start = replace(terms, weights=np.array([_quotient(w, unit) for w in terms.weights.tolist()]))
    held: dict[tuple[int, int], Fraction] = {}
    left = _relative_residual(start, target)
    if left > LARGEST_RESIDUAL:
        raise ValueError(
            f"The terms do not sum to the form: they leave {left:.1e} of it. Raise the rank, or decompose "
            "the form again with another random_state."
        )
    if not start.are_isolated:
        for bits in FLOAT_BITS:
            forms = FixedPoint.of(start.forms, 4 * FLOAT_BITS[0])
            exact = _recognised(forms, bits, max_degree, polynomial, order)[0]
            if exact is not None:
                return exact
        if not move:
            raise ValueError(
                "The terms are one of a continuous family, or too near to one to tell, and their numbers are "
                "not simple ones: a point of a family may be any number. Pass move=True for other terms of "
                "the family, with rational points as far as it allows; or a rank at which terms are isolated."
            )
        start, held = moved_terms(start, target)
    return _proved(start, held, target, polynomial, max_degree, int(max_digits * log2(10)))


def _proved(
    terms: ScaledTerms,
    held: dict[tuple[int, int], Fraction],
    target: tuple[Fraction, ...],
    polynomial: Polynomial,
    max_degree: int,
    most: int,
) -> ExactWaring:
    """Return isolated terms, to as many digits as their numbers need."""
    bits = min(FIRST_BITS, most)
    while True:
        forms = refined_terms(terms, target, bits, held)[1]
        exact, unknown = _recognised(forms, bits, max_degree, polynomial, terms.order)
        if exact is not None:
            return exact
        if bits == most and not unknown:
            raise ValueError(
                f"To {round(bits / log2(10))} digits the terms have simple numbers, but in exact arithmetic "
                "these do not sum to the form. Raise max_digits, or the rank: a part of the form may be too "
                "small to be seen in floating point."
            )
        if bits == most:
            raise ValueError(
                f"The coordinates of {_listed(unknown, len(terms.weights))} are not recognised: to "
                f"{round(bits / log2(10))} digits they are neither rational, nor in number fields of degree "
                f"up to {max_degree}, nor together those of all roots of a rational polynomial. Raise "
                "max_digits if the numbers are long."
            )
        bits = min(3 * bits, most)


def _recognised(
    forms: FixedPoint, bits: int, max_degree: int, polynomial: Polynomial, order: int
) -> tuple[ExactWaring | None, list[int]]:
    """Return exact terms whose sum is the form, or None, and which forms are not recognised."""
    groups, unknown = exact_forms(forms, bits, max_degree)
    if unknown:
        return None, unknown
    weights = exact_weights(groups, coefficients(polynomial, order, len(groups[0].form)), order)
    if weights is None:
        return None, []
    exact = _assembled(groups, weights, order)
    try:
        # From the terms alone, as they are given out, and not from the equations for the weights.
        proved = exact_sum(exact) == polynomial
    except ValueError:
        proved = False
    return (replace(exact, proved=True) if proved else None), []


def _as_they_look(terms: ScaledTerms, tensor: SymmetricTensor, max_degree: int) -> ExactWaring:
    """Return what the numbers look like to their last digit, where there is no exact form to compare with."""
    unknown: list[int] = []
    for bits in FLOAT_BITS:
        groups, unknown = exact_forms(FixedPoint.of(terms.forms, 4 * FLOAT_BITS[0]), bits, max_degree)
        if unknown:
            continue
        # The weights that rational coefficients near those of the tensor would have.
        near = [
            Fraction(value).limit_denominator(LARGEST_DENOMINATOR) for value in tensor.coefficients.tolist()
        ]
        weights = exact_weights(groups, near, terms.order)
        if weights is None:
            continue
        exact = _assembled(groups, weights, terms.order)
        try:
            difference = exact.to_tensor() - tensor
        except ValueError:
            continue
        if difference.norm() <= NEAR * tensor.norm():
            return exact
    raise ValueError(
        f"The numbers of {_listed(unknown, len(terms.weights))} are not recognised in floating point, and "
        "the form has no exact coefficients from which more digits could be computed: pass it as a string, "
        "or with integers and fractions."
    )


def _assembled(groups: list[ConjugateForms], weights: list[Coefficients], order: int) -> ExactWaring:
    """Return the terms in their order, without those that have weight zero."""
    terms: dict[int, Any] = {}
    for group, weight in zip(groups, weights, strict=True):
        for i, root in group.members.items():
            field, own_weight, form = NumberField(group.polynomial, root), weight, group.form
            if field.radicand is not None and (root.real if field.radicand > 0 else root.imag) < 0:
                # Both square roots are in one field: the sign is better in the numbers.
                field = NumberField(group.polynomial, -root)
                own_weight, form = (weight[0], -weight[1]), tuple((a, -b) for a, b in form)
            terms[i] = exact_number(field, own_weight), tuple(exact_number(field, c) for c in form)
    ordered = [terms[i] for i in sorted(terms) if terms[i][0] != 0]
    dim = len(groups[0].form)
    return ExactWaring(tuple(w for w, _ in ordered), tuple(p for _, p in ordered), order, dim)


def _relative_residual(terms: ScaledTerms, target: tuple[Fraction, ...]) -> float:
    """Return how much of the form the terms leave, in floating point."""
    goal = np.array([float(value) for value in target])
    left = terms.roots * (goal - sum_of_powers(terms.weights, terms.forms, terms.order))
    return float(np.linalg.norm(left) / np.linalg.norm(terms.roots * goal))


def _quotient(weight: Any, divisor: Fraction) -> complex:
    """Return a number in floating point divided by a fraction that may be too large or small for one."""
    real, imaginary = Fraction(weight.real) / divisor, Fraction(weight.imag) / divisor
    return complex(float(real), float(imaginary)) if imaginary else float(real)


def _listed(unknown: list[int], rank: int) -> str:
    """Return which terms, counted from 1, in words."""
    if not unknown or len(unknown) == rank:
        return "the terms"
    if len(unknown) == 1:
        return f"term {unknown[0] + 1}"
    shown = ", ".join(str(i + 1) for i in unknown[:6])
    return f"terms {shown}" + (", ..." if len(unknown) > 6 else "")
