"""From terms in floating point to exact ones, by the kernel of the Hankel matrix or by more digits."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations
from math import log2
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer
from apolar.decomposition.exact.arithmetic import evaluate, flint, load_flint, roots_of, to_balls, to_fmpq
from apolar.decomposition.exact.digits import MovingTerms, move_terms, refine_digits
from apolar.decomposition.exact.exact_waring import (
    ConjugateForms,
    ExactWaring,
    exact_sum,
    groups_at_roots,
    in_square_root,
    integer_coefficients,
    simplify,
    solve_weights,
)
from apolar.decomposition.exact.hankel_kernel import linear_functions, prove_by_kernel
from apolar.decomposition.terms import check_same_space
from apolar.decomposition.tuning import TUNING
from apolar.exceptions import join_names
from apolar.tensor import SymmetricTensor, as_tensor


def rationalize(
    weights: Array,
    points: Array,
    order: int,
    tensor: Any,
    *,
    max_degree: int,
    max_digits: int,
    move: bool,
) -> ExactWaring:
    """Return the terms of a decomposition in exact numbers; see `Waring.rationalize`.

    Parameters
    ----------
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
    order : int
    tensor : SymmetricTensor, what makes one, or None
        What the terms are to sum to.
    max_degree : int
        The largest degree of a field that holds several terms without all their conjugates.
    max_digits : int
        The most digits to which the terms are refined.
    move : bool
        Whether terms of a continuous family may be moved along it.

    Returns
    -------
    exact : ExactWaring
    """
    max_degree = check_integer(max_degree, "max_degree", least=1)
    max_digits = check_integer(max_digits, "max_digits", least=10)
    dim = points.shape[1]
    if tensor is None:
        # Terms of ones own: what they are exactly is not known.
        form = SymmetricTensor.from_waring(weights, points, order).real_if_close()
        exact_form = None
    else:
        form = as_tensor(tensor)
        exact_form = form.exact_coefficients
        check_same_space(order, dim, form)
    load_flint()
    terms = MovingTerms.of(weights, points, order)
    if len(terms.weights) == 0:
        if np.any(form.coefficients):
            raise ValueError("The decomposition has no terms, and the tensor is not zero.")
        return ExactWaring((), (), order, dim, proved=exact_form is not None)
    if form.is_complex:
        raise ValueError(
            "The form has complex coefficients, and exact terms are for real ones: decompose its real and "
            "its imaginary part, each by itself."
        )
    if exact_form is None:
        return _as_they_look(terms, form, max_degree)
    if not any(exact_form):
        raise ValueError("The tensor is zero and has no terms; these sum to something else.")
    return _prove(terms, form, max_degree, int(max_digits * log2(10)), move)


def _prove(
    terms: MovingTerms, form: SymmetricTensor, max_degree: int, max_bits: int, move: bool
) -> ExactWaring:
    """Return exact terms that are proved to sum to a form."""
    order, rank = form.order, len(terms.weights)
    target = [to_fmpq(value) for value in form.exact_coefficients or ()]
    residual = (SymmetricTensor.from_waring(terms.weights, terms.points, order) - form).norm() / form.norm()
    proof = prove_by_kernel(target, form.dim, order)
    if proof.exact is not None and proof.exact.rank == rank and residual <= TUNING.far:
        return replace(proof.exact, proved=True).in_order_of(terms.points)
    if residual > TUNING.nearly_exact:
        known = f" It has rank {proof.rank_bound} or more." if proof.rank_bound > rank else ""
        raise ValueError(
            f"The terms do not sum to the form: they leave {residual:.1e} of it.{known} Raise the rank, or "
            "decompose the form again with another seed."
        )
    if not terms.are_isolated:
        floats = [(to_balls(terms.points), bits) for bits in TUNING.float_bits]
        exact, _ = _recognise(floats, max_degree, target, order)
        if exact is not None:
            return exact
        if not move:
            raise ValueError(
                "The terms belong to a continuous family, up to rounding, and their numbers are not simple "
                "ones. Use the option `move` for terms with as many rational points as the family has, or a "
                "rank at which terms are isolated."
            )
        terms = move_terms(terms, form.coefficients)
    n_bits = [min(TUNING.first_bits, max_bits)]
    while n_bits[-1] < max_bits:
        n_bits.append(min(3 * n_bits[-1], max_bits))
    refined = ((refine_digits(terms, target, bits), bits) for bits in n_bits)
    exact, unknown = _recognise(refined, max_degree, target, order)
    if exact is not None:
        return exact
    n_digits = round(max_bits / log2(10))
    if not unknown:
        raise ValueError(
            f"To {n_digits} digits the terms have simple numbers, but in exact arithmetic these do not sum "
            "to the form. Allow more digits, or raise the rank: a part of the form may be too small to be "
            "seen in floating point."
        )
    raise ValueError(
        f"The coordinates of {_name_terms(unknown, rank)} are not recognised: to {n_digits} digits they are "
        f"neither rational, nor in a number field of degree up to {max_degree}, nor together those of all "
        "roots of a rational polynomial. Allow more digits if the numbers are long."
    )


def _as_they_look(terms: MovingTerms, tensor: SymmetricTensor, max_degree: int) -> ExactWaring:
    """Return what the numbers look like to their last digit, where there is no exact form to compare with."""
    # The weights that rational coefficients near those of the tensor would have.
    fractions = (Fraction(value) for value in tensor.coefficients.tolist())
    near = [to_fmpq(value.limit_denominator(TUNING.max_denominator)) for value in fractions]

    def is_sum(exact: ExactWaring) -> bool:
        return (exact.to_tensor() - tensor).norm() <= TUNING.exact_residual * tensor.norm()

    floats = [(to_balls(terms.points), bits) for bits in TUNING.float_bits]
    exact, unknown = _recognise(floats, max_degree, near, terms.order, is_sum)
    if exact is not None:
        return exact
    who = _name_terms(unknown, len(terms.weights))
    raise ValueError(
        f"The numbers of {who} are not recognised in floating point, "
        "and the form has no exact coefficients from which more digits could be computed: pass it as a "
        "string, or with integers and fractions."
    )


def _recognise(
    attempts: Iterable[tuple[Any, int]],
    max_degree: int,
    target: list[Any],
    order: int,
    is_sum: Callable[[ExactWaring], bool] | None = None,
) -> tuple[ExactWaring | None, list[int]]:
    """Return exact terms with the sum that is wanted, or None, and which forms are not recognised.

    The attempts are linear forms, each with the number of bits that are right.
    """
    unknown: list[int] = []
    for forms, bits in attempts:
        groups, unknown = _exact_forms(forms, bits, max_degree)
        exact = None if unknown else solve_weights(groups, target, order)
        # From the terms alone, as they are given out, and not from the equations for the weights.
        with suppress(ValueError):
            if exact and (exact_sum(exact) == target if is_sum is None else is_sum(exact)):
                return replace(exact, proved=is_sum is None).in_order_of(forms.astype(complex)), []
    return None, unknown


# --- numbers of many digits as exact ones ---------------------------------------------------


def _exact_forms(forms: Any, bits: int, max_degree: int) -> tuple[list[ConjugateForms], list[int]]:
    """Return linear forms as exact ones with their conjugates, and which are not recognised.

    Those that are not rational are taken together as all conjugates of some, at the roots of a polynomial;
    or, where conjugates are missing, in one number field of low degree.

    Parameters
    ----------
    forms : ndarray of balls, shape (rank, dim)
        With a largest coefficient near one each.
    bits : int
        After the binary point, that are right.
    max_degree : int
        Of the number field.

    Returns
    -------
    groups : list of ConjugateForms
    unknown : list of int
        The forms that are not recognised.
    """
    groups, left, certain = [], [], bits
    with flint.ctx.workprec(2 * bits):
        forms = forms + flint.acb(0)
        scaled = np.empty_like(forms)
        for i, form in enumerate(forms):
            # By the first coefficient, which is zero for all conjugates or for none.
            sizes = np.abs(form.astype(complex))
            first = int(np.argmax(sizes > 2.0 ** (-3 * bits // 4)))
            scaled[i] = np.where(sizes > 2.0 ** (-3 * bits // 4), form / form[first], flint.acb(0))
            own = bits + 2 * min(0, int(np.floor(np.log2(sizes[first]))))
            # One point is all conjugates of its own if it is rational.
            alone = _at_roots(scaled[i : i + 1], own)
            if alone is not None:
                groups += alone
            else:
                left.append(i)
                certain = min(certain, own)
        if not left:
            return groups, []
        found = _at_roots(scaled[left], certain)
        if found is None:
            found = _in_common_field(scaled[left], certain, max_degree)
    return groups + (found or []), left if found is None else []


def _at_roots(points: Any, bits: int) -> list[ConjugateForms] | None:
    """Return points that are together all conjugates of theirs, by their rational univariate representation.

    With a linear function that has the values a_i at the points y_i, the
    polynomials F(t) = prod_i (t - a_i) and N(t) = sum_i y_i F(t) / (t - a_i)
    do not change if the points are permuted: their coefficients are rational,
    and the points are N(a_i) / F'(a_i), up to scale N(a_i) [rouillier1999].
    """
    values = _separate(points)
    if values is None:
        return None
    # The coefficients are sums of products of the roots, whose errors grow with their size.
    bits -= int(np.log2(1 + np.abs(values.astype(complex))).sum()) + 2 * len(values)
    polynomials = [flint.acb_poly.from_roots(list(values))]
    others = [flint.acb_poly.from_roots(list(np.delete(values, i))) for i in range(len(values))]
    polynomials += [
        sum((a * b for a, b in zip(column, others, strict=True)), others[0] * 0) for column in points.T
    ]
    rational = []
    for polynomial in polynomials:
        coefficients = _in_terms_of(flint.acb(0), 1, polynomial.coeffs(), bits)
        if None in coefficients:
            return None
        rational.append(flint.fmpq_poly([value for (value,) in coefficients]))
    if rational[0].gcd(rational[0].derivative()).degree() > 0:
        return None
    return groups_at_roots(rational[0], rational[1:])


def _separate(points: Any) -> Any:
    """Return the values at the points of a linear function that are all different, or None."""
    for multiples in linear_functions(points.shape[1]):
        values = points @ np.array(multiples, dtype=object)
        near = values.astype(complex)
        distances = np.abs(near[:, None] - near) + np.diag(np.full(len(near), np.inf))
        if len(near) == 1 or distances.min() > TUNING.promising * np.abs(near).max():
            return values
    return None


def _in_common_field(points: Any, bits: int, max_degree: int) -> list[ConjugateForms] | None:
    """Return points in a number field of low degree that holds all of them, or None if it is not found."""
    numbers = points.ravel()
    known = _in_terms_of(flint.acb(0), 1, numbers, bits)
    others = [value for value, fraction in zip(numbers, known, strict=True) if fraction is None]
    # A sum of two numbers generates both fields, mostly.
    for generator in chain(others, (a + b for a, b in combinations(others, 2))):
        polynomial = _least_polynomial(generator, bits, max_degree)
        if polynomial is None:
            continue
        coefficients = _in_terms_of(generator, len(polynomial) - 1, numbers, bits)
        if all(value is not None for value in coefficients):
            break
    else:
        return None
    modulus = flint.fmpq_poly(list(polynomial))
    form = [*map(flint.fmpq_poly, coefficients), flint.fmpq_poly([0, 1])]
    if modulus.degree() == 2:
        modulus, form = in_square_root(modulus, form)
        polynomial = integer_coefficients(modulus)
    # The generator in terms of the root that is meant.
    old = form.pop()
    roots = roots_of(polynomial, 64)
    root = complex(min(roots, key=lambda root: abs(complex(evaluate(old, root, 64) - generator))))
    dim = points.shape[1]
    own = [form[i : i + dim] for i in range(0, len(form), dim)]
    return [ConjugateForms(polynomial, simplify(point, (root,)), (root,)) for point in own]


def _integer(value: Any, bits: int) -> int:
    """Return a real ball times 2^bits, rounded."""
    mantissa, exponent = value.mid().man_exp()
    shift = int(exponent) + bits
    return int(mantissa) << shift if shift >= 0 else int(mantissa) >> -shift


def _integer_relation(values: Sequence[Any], bits: int) -> list[int] | None:
    """Return small integers whose sum with these numbers is zero, by lattices [lenstra1982], or None.

    None where what is found is as long as for numbers without a relation.
    """
    n = len(values)
    basis = [
        [int(i == k) for i in range(n)] + [_integer(value.real, bits), _integer(value.imag, bits)]
        for k, value in enumerate(values)
    ]
    rows = [[int(a) for a in row] for row in flint.fmpz_mat(basis).lll().tolist()]
    shortest = min(rows, key=lambda row: sum(a * a for a in row))
    relation, rest = shortest[:n], shortest[n:]
    # A relation by chance has as many digits as the numbers themselves.
    n_bits = n * max(map(abs, shortest)).bit_length()
    if bits < TUNING.margin_bits or n_bits > TUNING.relation_share * bits or not any(relation):
        return None
    return relation if max(map(abs, rest)) <= 4 * n * max(map(abs, relation)) else None


def _least_polynomial(value: Any, bits: int, max_degree: int) -> tuple[int, ...] | None:
    """Return the integer polynomial of least degree that has a number as a root, or None."""
    for degree in range(1, max_degree + 1):
        powers = [value**k for k in range(degree + 1)]
        relation = _integer_relation(powers, _certain_bits(value, degree, bits))
        if relation is not None and relation[-1]:
            factors = flint.fmpz_poly(relation).factor()[1]
            if len(factors) == 1 and factors[0][1] == 1:
                return integer_coefficients(flint.fmpq_poly(relation))
    return None


def _in_terms_of(generator: Any, degree: int, numbers: Any, bits: int) -> list[Any]:
    """Return numbers as the coefficients of polynomials in the generator of a field, or None for each."""
    powers, certain = [generator**k for k in range(degree)], _certain_bits(generator, degree - 1, bits)
    relations = [_integer_relation([*powers, value], certain) for value in numbers]
    return [
        [flint.fmpq(-a, relation[-1]) for a in relation[:-1]] if relation and relation[-1] else None
        for relation in relations
    ]


def _certain_bits(value: Any, degree: int, bits: int) -> int:
    """Return how many bits of a power are right: errors grow with the size of the number."""
    size = max(abs(complex(value)), 1.0)
    return bits - TUNING.margin_bits - int((degree - 1) * log2(size) + degree)


def _name_terms(unknown: list[int], rank: int) -> str:
    """Return which terms are unknown, counted from 1."""
    if not unknown or len(unknown) == rank:
        return "the terms"
    return f"term{'s' * (len(unknown) > 1)} {join_names([str(i + 1) for i in unknown])}"
