"""Terms to as many digits as wanted: Newton's method with exact residuals and a rounded Jacobian."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.exact.fixed_point import FixedPoint
from apolar.decomposition.terms import power_jacobian
from apolar.tensor.monomials import monomial_values, monomial_variables, multinomials, n_monomials, positions

# Multiplications of a singular value decomposition that takes a few seconds.
MAX_WORK = 2e9
# The least singular value relative to the largest below which the terms are taken for one of a family.
FAMILY = 1e-10
# Bits that rounding in fixed point may take, of those that are carried along.
GUARD = 40
# Bits by which a step must make the residual smaller, how many steps may fail to, and the bits below which
# the Jacobian is computed anew.
PROGRESS, MAX_FAILURES, GOOD_PROGRESS = 2, 3, 16


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
        if n_monomials(dim, self.order) * (rank * dim) ** 2 > MAX_WORK:
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
        """Whether no other terms as near as wanted have the same sum."""
        values = self._svd[1]
        return self.jacobian.shape[1] <= len(self.roots) and bool(values[-1] > FAMILY * values[0])

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
        kept = values > FAMILY * values[0]
        within = (left[:, kept].conj().T @ (self.roots * residual)) / values[kept]
        change = right[kept].conj().T @ within
        forms = np.zeros(self.forms.shape, dtype=change.dtype)
        forms[~self.fixed] = change[len(self.weights) :]
        return change[: len(self.weights)], forms


def refined_terms(
    terms: ScaledTerms, target: tuple[Fraction, ...], bits: int, held: dict[tuple[int, int], Fraction]
) -> tuple[FixedPoint, FixedPoint]:
    """Return weights and linear forms with this many bits after the binary point that are right.

    A step solves the linearised equations with the Jacobian of the terms as
    they were given, in floating point, for a residual that is computed in
    fixed point: each one gains about as many digits as these terms have.

    Parameters
    ----------
    terms : ScaledTerms
        Isolated.
    target : tuple of Fraction
        The coefficients T_a, of size near one.
    bits : int
    held : dict
        The exact values of forms that are fixed, by term and variable, but for those that are one.

    Returns
    -------
    weights : FixedPoint, shape (rank,)
    forms : FixedPoint, shape (rank, dim)
    """
    working = bits + terms.lost_bits + GUARD
    weights, forms = FixedPoint.of(terms.weights, working), FixedPoint.of(terms.forms, working)
    for place in zip(*np.nonzero(terms.fixed), strict=True):
        value = held.get((int(place[0]), int(place[1])), Fraction(1))
        forms.real[place] = (value.numerator << working) // value.denominator
        forms.imaginary[place] = 0
    wanted = FixedPoint.of_fractions(target, working)
    before, failures = None, 0
    while True:
        residual = wanted - _sum_of_powers(weights, forms, terms.order)
        size = residual.magnitude_bits
        # Rounding leaves a few of the last bits, more for longer sums.
        if size <= GUARD // 2:
            return weights, forms
        if before is not None and size > before - GOOD_PROGRESS:
            # The Jacobian of terms that were known to a few digits only, or far from those of the form.
            rounded = forms.to_complex() if np.iscomplexobj(terms.forms) else forms.to_complex().real
            terms = replace(terms, forms=rounded)
            failures = failures + 1 if size > before - PROGRESS else 0
        if failures > MAX_FAILURES or size > 2 * working:
            raise ValueError(
                "The terms do not sum to the form: they come no nearer than "
                f"{2.0 ** max(size - working, -1000):.1e} of its size. If the form is exact, raise the "
                "rank, or decompose it again with another random_state."
            )
        before = size
        # The residual as numbers near one, times 2^(size - working).
        by_weight, by_form = terms.step(replace(residual, bits=size).to_complex())
        weights = weights + replace(FixedPoint.of(by_weight, size), bits=working)
        forms = forms + replace(FixedPoint.of(by_form, size), bits=working) / weights[:, None]


def _sum_of_powers(weights: FixedPoint, forms: FixedPoint, order: int) -> FixedPoint:
    """Return the coefficients of sum_i w_i (c_i . x)^d."""
    dim = np.shape(forms.real)[1]
    # Monomials of one degree after the other: each is one of the degree before times its last variable.
    values = weights[:, None] * forms
    for degree in range(2, order + 1):
        variables = monomial_variables(dim, degree)
        values = values[:, positions(variables[:, :-1], dim)] * forms[:, variables[:, -1]]
    return values.sum(axis=0)
