"""Terms to more digits: refined by Newton's method, or moved along their family to simple points first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.exact.numbers import load_flint, to_fmpq
from apolar.decomposition.terms import power_jacobian
from apolar.decomposition.tuning import TUNING
from apolar.tensor.monomials import (
    monomial_values,
    monomial_variables,
    multinomials,
    n_monomials,
    positions,
    sum_of_powers,
)


@dataclass(frozen=True)
class ScaledTerms:
    """Terms w_i (c_i . x)^d, with coefficients of the linear forms that stay as they are.

    Attributes
    ----------
    weights : ndarray, shape (rank,)
    forms : ndarray, shape (rank, dim)
        Each has a largest coefficient, which is one and stays so.
    fixed : ndarray of bool, shape (rank, dim)
        What stays as it is.
    order : int
    """

    weights: Array
    forms: Array
    fixed: Array
    order: int

    @classmethod
    def of(cls, weights: Array, points: Array, order: int) -> ScaledTerms:
        """Return the terms of a decomposition that are not zero."""
        kept = (weights != 0) & np.any(points != 0, axis=1)
        weights, points = weights[kept], points[kept]
        pivots = np.argmax(np.abs(points), axis=1)
        largest = points[np.arange(len(points)), pivots]
        fixed = np.arange(points.shape[1]) == pivots[:, None]
        return cls(weights * largest**order, points / largest[:, None], fixed, order)

    @cached_property
    def roots(self) -> Array:
        """What the coefficients are weighted with: the apolar norm is then the Euclidean one."""
        return np.sqrt(multinomials(self.forms.shape[1], self.order))

    @cached_property
    def jacobian(self) -> Array:
        """The derivatives by the weights, and by the forms that are free, as if the weights were one."""
        rank, dim = self.forms.shape
        if n_monomials(dim, self.order) * (rank * dim) ** 2 > TUNING.condition_work:
            raise ValueError(
                f"{rank} terms of order {self.order} in {dim} variables are too many for exact numbers: "
                "the linear equations would take minutes."
            )
        powers = self.roots[:, None] * monomial_values(self.forms, self.order).T
        if self.order == 1:
            by_form = np.repeat(np.eye(dim)[:, None], rank, axis=1)
        else:
            by_form = power_jacobian(self.forms, np.ones(rank), self.order)
        return np.hstack([powers, by_form[:, ~self.fixed]])

    @cached_property
    def _svd(self) -> tuple[Array, Array, Array]:
        return np.linalg.svd(self.jacobian, full_matrices=False)

    @property
    def are_isolated(self) -> bool:
        """Whether no other terms near by have the same sum."""
        values = self._svd[1]
        return self.jacobian.shape[1] <= len(self.roots) and bool(
            values[-1] > TUNING.exact_residual * values[0]
        )

    @property
    def lost_bits(self) -> int:
        """Bits of the terms that their condition takes."""
        values, sizes = self._svd[1], np.abs(self.weights)
        return int(np.ceil(np.log2(values[0] / values[-1]) + np.log2(sizes.max()) - np.log2(sizes.min())))

    def step(self, residual: Array) -> tuple[Array, Array]:
        """Return by how much the weights, and the forms times their weights, change the sum by a residual.

        Parameters
        ----------
        residual : ndarray, shape (n_monomials,)

        Returns
        -------
        weights : ndarray, shape (rank,)
        forms : ndarray, shape (rank, dim)
        """
        left, values, right = self._svd
        kept = values > TUNING.exact_residual * values[0]
        within = (left[:, kept].conj().T @ (self.roots * residual)) / values[kept]
        change = right[kept].conj().T @ within
        forms = np.zeros(self.forms.shape, dtype=change.dtype)
        forms[~self.fixed] = change[len(self.weights) :]
        return change[: len(self.weights)], forms


def refine_digits(
    terms: ScaledTerms, target: Sequence[Any], bits: int, held: dict[tuple[int, int], Fraction]
) -> Any:
    """Return linear forms with this many bits after the binary point that are right.

    A step solves the linearised equations with the Jacobian of the terms in
    floating point, for a residual that is computed with
    many digits: each one gains about as many digits as floating point has.

    Parameters
    ----------
    terms : ScaledTerms
        Isolated.
    target : sequence of fmpq
        The coefficients T_a, of size near one.
    bits : int
    held : dict
        The exact values of forms that are fixed, by term and variable, except those that are one.

    Returns
    -------
    forms : ndarray of acb, shape (rank, dim)
    """
    flint = load_flint()
    guard = TUNING.guard_bits
    working = bits + terms.lost_bits + guard
    with flint.ctx.workprec(working + guard):
        weights, forms = as_balls(terms.weights), as_balls(terms.forms)
        for place in zip(*np.nonzero(terms.fixed), strict=True):
            forms[place] = flint.acb(to_fmpq(held.get(place, 1)))
        wanted = np.array([flint.acb(value) for value in target], dtype=object)
        best, n_failures = working, 0
        while True:
            residual = wanted - weights @ powers_of_balls(forms, terms.order)
            size = max(map(_exponent, residual))
            # Rounding leaves a few of the last bits, more for longer sums.
            if size <= guard // 2 - working:
                return forms
            n_failures = 0 if size < best else n_failures + 1
            if n_failures > 3:
                raise ValueError(
                    "The terms do not sum to the form: they come no nearer than "
                    f"{2.0 ** max(best, -1000):.1e} of its size. If the form is exact, raise the "
                    "rank, or decompose it again with another seed."
                )
            best, unit = min(best, size), flint.arb(2) ** size
            by_weight, by_form = terms.step((residual / unit).astype(complex))
            weights = midpoints(weights + as_balls(by_weight) * unit)
            forms = midpoints(forms + as_balls(by_form) * unit / weights[:, None])
            # Terms that were known to a few digits only need another Jacobian.
            rounded = forms.astype(complex)
            terms = replace(terms, forms=rounded if np.iscomplexobj(terms.forms) else rounded.real)


def as_balls(values: Array) -> Any:
    """Return an array of floating-point numbers as exact complex balls."""
    flint = load_flint()
    return np.frompyfunc(lambda value: flint.acb(value.real, value.imag), 1, 1)(values.astype(complex))


def powers_of_balls(forms: Any, order: int) -> Any:
    """Return the coefficients of the powers (c_i . x)^d, for an array of balls."""
    dim, values = forms.shape[1], forms
    # Monomials of one degree after the other: each is one of the degree before times its last variable.
    for degree in range(2, order + 1):
        variables = monomial_variables(dim, degree)
        values = values[:, positions(variables[:, :-1], dim)] * forms[:, variables[:, -1]]
    return values


def _exponent(value: Any) -> int:
    """Return the binary exponent of the size of a ball's midpoint; a very small one of zero."""
    mantissa, exponent = value.mid().abs_upper().mid().man_exp()
    return int(exponent) + int(mantissa).bit_length() if mantissa else -(2**30)


def midpoints(values: Any) -> Any:
    """Return the midpoints of an array of balls."""
    return np.frompyfunc(lambda value: value.mid(), 1, 1)(values)


def move_terms(terms: ScaledTerms, goal: Array) -> tuple[ScaledTerms, dict[tuple[int, int], Fraction]]:
    """Return terms of the same sum that are isolated once some of their coefficients are held.

    One coefficient after the other, term by term, is moved to a simple number
    near to it and held there, if the others can follow: the first points
    become rational, and the last ones algebraic of a degree as low as the family has.

    Parameters
    ----------
    terms : ScaledTerms
        One of a continuous family.
    goal : ndarray, shape (n_monomials,)
        The coefficients T_a of the form, of size near one.

    Returns
    -------
    moved : ScaledTerms
    held : dict
        The values at which coefficients are held, by term and variable.

    Raises
    ------
    ValueError
        If the terms are not isolated when no coefficient is left to be moved.
    """
    held: dict[tuple[int, int], Fraction] = {}
    rank, dim = terms.forms.shape
    for place in ((i, j) for i in range(rank) for j in range(dim)):
        if terms.are_isolated:
            break
        if terms.fixed[place] or _freedom(terms, place) < TUNING.free_share:
            continue
        for value in _simple_numbers(float(terms.forms[place].real)):
            moved = _move(terms, goal, place, value)
            if moved is not None:
                terms, held[place] = moved, value
                break
    if not terms.are_isolated:
        raise ValueError(
            "The terms are one of a continuous family, along which they could not be moved to simple points. "
            "Decompose the form with another seed."
        )
    return terms, held


def _simple_numbers(near: float) -> list[Fraction]:
    """Return fractions next to a number, the simplest first."""
    simple = (Fraction(near).limit_denominator(2**k) for k in range(TUNING.family_denominators))
    return list(dict.fromkeys(simple))


def _freedom(terms: ScaledTerms, place: tuple[int, int]) -> float:
    """Return by how much a coefficient changes along unit directions that leave the sum as it is."""
    _, values, right = np.linalg.svd(terms.jacobian, full_matrices=True)
    n_kept = int(np.count_nonzero(values > TUNING.exact_residual * values[0]))
    before = np.ravel_multi_index(place, terms.fixed.shape)
    column = len(terms.weights) + int(np.count_nonzero(~terms.fixed.ravel()[:before]))
    return float(np.linalg.norm(right[n_kept:, column]))


def _move(terms: ScaledTerms, goal: Array, place: tuple[int, int], value: Fraction) -> ScaledTerms | None:
    """Return the terms with one coefficient moved to a value and held, or None if they cannot follow."""
    start = terms.forms[place]
    fixed = terms.fixed.copy()
    fixed[place] = True
    moved = replace(terms, fixed=fixed)
    for share in np.linspace(0, 1, TUNING.family_steps + 1)[1:]:
        forms = moved.forms.copy()
        forms[place] = start + share * (float(value) - start)
        corrected = _correct(replace(moved, forms=forms), goal)
        if corrected is None:
            return None
        moved = corrected
    return moved


def _correct(terms: ScaledTerms, goal: Array) -> ScaledTerms | None:
    """Return terms that sum to the form, by Newton's steps, or None if these do not converge."""
    for _ in range(TUNING.full_steps):
        residual = goal - sum_of_powers(terms.weights, terms.forms, terms.order)
        if np.abs(residual).max() <= TUNING.exact_residual * np.abs(goal).max():
            kept = terms._svd[1][terms._svd[1] > TUNING.exact_residual * terms._svd[1][0]]
            too_large = np.abs(terms.weights).max() > TUNING.max_family_weight * np.abs(goal).max()
            return None if too_large or kept[0] > TUNING.max_family_condition * kept[-1] else terms
        by_weight, by_form = terms.step(residual)
        weights = terms.weights + by_weight
        if not np.all(np.isfinite(weights)) or np.abs(weights).min() < 1e-6 * np.abs(weights).max():
            return None
        terms = replace(terms, weights=weights, forms=terms.forms + by_form / weights[:, None])
    return None
