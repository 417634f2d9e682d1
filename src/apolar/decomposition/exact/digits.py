"""Terms to more digits: refined by Newton's method, or moved along their family to simple points first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray, svd
from apolar.decomposition.exact.arithmetic import flint, midpoints, to_balls
from apolar.decomposition.terms import power_jacobian
from apolar.decomposition.tuning import TUNING
from apolar.tensor.monomials import monomial_values, multinomials, n_monomials


@dataclass(frozen=True)
class MovingTerms:
    """Terms w_i (v_i . x)^d whose points move, at fixed weights.

    Attributes
    ----------
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
        The largest coordinate of each is near one.
    order : int
    pivots : ndarray of int, shape (rank,)
        The largest coordinate of each point.
    held : dict
        The ratios of coordinates, by term and variable, to that of the pivot, that are to stay as they are.
    """

    weights: Array
    points: Array
    order: int
    pivots: IndexArray
    held: Mapping[tuple[int, int], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, weights: Array, points: Array, order: int) -> MovingTerms:
        """Return the terms of a decomposition that are not zero."""
        kept = (weights != 0) & np.any(points != 0, axis=1)
        weights, points = weights[kept], points[kept]
        pivots = np.argmax(np.abs(points), axis=1)
        scales = points[np.arange(len(points)), pivots]
        return cls(weights * scales**order, points / scales[:, None], order, pivots)

    @cached_property
    def _svd(self) -> tuple[Array, Array, Array]:
        """The singular vectors and values of the derivatives by the points, as if the weights were one."""
        rank, dim = self.points.shape
        if n_monomials(dim, self.order) * (rank * dim) ** 2 > TUNING.rank_work:
            raise ValueError(
                f"{rank} terms of order {self.order} in {dim} variables are too many for exact numbers: "
                "the linear equations would take minutes."
            )
        jacobian = power_jacobian(self.points, np.ones(rank), self.order)
        held = np.zeros((len(self.held), rank, dim), dtype=jacobian.dtype)
        for row, ((i, j), ratio) in zip(held, self.held.items(), strict=True):
            row[i, j], row[i, self.pivots[i]] = 1, -ratio
        return svd(np.concatenate([jacobian, held]).reshape(-1, rank * dim))

    @property
    def n_determined(self) -> int:
        """How many directions change the sum, or a ratio that is held."""
        values = self._svd[1]
        return int(np.count_nonzero(values > TUNING.exact_residual * values[0]))

    @property
    def are_isolated(self) -> bool:
        """Whether no other terms nearby have the same sum."""
        return self.n_determined == self.points.size

    @property
    def lost_bits(self) -> int:
        """Bits of the terms that their condition takes."""
        values, sizes = self._svd[1], np.abs(self.weights)
        least = values[self.n_determined - 1]
        return int(np.ceil(np.log2(values[0] / least) + np.log2(sizes.max()) - np.log2(sizes.min())))

    def residual(self, target: Any) -> Any:
        """Return what the sum of the terms, and the ratios that are held, lack: in floats or in balls."""
        rest = target - self.weights @ monomial_values(self.points, self.order)
        ratios = [
            self.weights[i] * (ratio * self.points[i, self.pivots[i]] - self.points[i, j])
            for (i, j), ratio in self.held.items()
        ]
        return np.concatenate([rest, np.array(ratios, dtype=rest.dtype)])

    def step(self, residual: Array) -> Array:
        """Return by how much the points change, times their weights, to change the sum by a residual."""
        left, values, right = self._svd
        n = self.n_determined
        # The apolar norm of weighted coefficients is the Euclidean one.
        roots = np.sqrt(multinomials(self.points.shape[1], self.order))
        weighted = np.concatenate([roots, np.ones(len(self.held))]) * residual
        change = right[:n].conj().T @ ((left[:, :n].conj().T @ weighted) / values[:n])
        return np.asarray(change.reshape(self.points.shape))

    def moved(self, change: Array) -> MovingTerms:
        """Return the terms after a step, with the weights changed instead of the largest coordinates."""
        lengths = change[np.arange(len(change)), self.pivots]
        weights = self.weights + self.order * lengths
        return replace(
            self,
            weights=weights,
            points=self.points + (change - lengths[:, None] * self.points) / weights[:, None],
        )


def refine_digits(terms: MovingTerms, target: Any, bits: int) -> Any:
    """Return points with this many bits after the binary point that are right.

    A step solves the linearised equations with the Jacobian of the terms in
    floating point, for a residual that is computed with
    many digits: each one gains about as many digits as floating point has.

    Parameters
    ----------
    terms : MovingTerms
    target : sequence, shape (n_monomials,)
        The coefficients T_a, exact numbers, that the terms nearly sum to.
    bits : int

    Returns
    -------
    points : ndarray of acb, shape (rank, dim)
    """
    guard = TUNING.guard_bits
    working = bits + terms.lost_bits + guard
    with flint.ctx.workprec(working + guard):
        zero = flint.acb(0)
        wanted = to_balls(target) + zero
        scale = max(map(_exponent, wanted))
        held = dict(zip(terms.held, to_balls(list(terms.held.values())), strict=True))
        weights, points = to_balls(terms.weights) + zero, to_balls(terms.points) + zero
        best, n_failures = working, 0
        while True:
            residual = replace(terms, weights=weights, points=points, held=held).residual(wanted)
            size = max(map(_exponent, residual)) - scale
            # Rounding leaves a few of the last bits, more for longer sums.
            if size <= guard // 2 - working:
                return points
            n_failures = 0 if size < best else n_failures + 1
            if n_failures > 3:
                raise ValueError(
                    "The terms do not sum to the form: they come no nearer than "
                    f"{2.0 ** max(best, -1000):.1e} of its size. If the form is exact, raise the "
                    "rank, or decompose it again with another seed."
                )
            best, unit = min(best, size), flint.arb(2) ** (size + scale)
            change = to_balls(terms.step((residual / unit).astype(complex)))
            points = midpoints(points + change * unit / weights[:, None])
            # Terms that were known to a few digits only need another Jacobian.
            rounded = points.astype(complex)
            terms = replace(terms, points=rounded if np.iscomplexobj(terms.points) else rounded.real)


def _exponent(value: Any) -> int:
    """Return the binary exponent of the size of a ball's midpoint; a very small one of zero."""
    mantissa, exponent = value.mid().abs_upper().mid().man_exp()
    return int(exponent) + int(mantissa).bit_length() if mantissa else -(2**30)


def move_terms(terms: MovingTerms, goal: Array) -> MovingTerms:
    """Return terms of the same sum that are isolated once some of their coefficients are held.

    One coefficient after the other, term by term, is moved to a simple number
    near to it and held there, if the others can follow: the first points
    become rational, and the last ones algebraic of a degree as low as the family has.

    Parameters
    ----------
    terms : MovingTerms
        Of a continuous family.
    goal : ndarray, shape (n_monomials,)
        The coefficients T_a of the form.

    Returns
    -------
    moved : MovingTerms

    Raises
    ------
    ValueError
        If the terms are not isolated when no coefficient is left to be moved.
    """
    for i, j in product(*map(range, terms.points.shape)):
        if terms.are_isolated:
            break
        ratio = terms.points[i, j] / terms.points[i, terms.pivots[i]]
        holding = replace(terms, held={**terms.held, (i, j): ratio.real})
        if j == terms.pivots[i] or holding.n_determined == terms.n_determined:
            continue
        near, denominators = Fraction(float(ratio.real)), range(TUNING.family_denominators)
        for value in dict.fromkeys(near.limit_denominator(2**k) for k in denominators):
            moved = _correct(replace(terms, held={**terms.held, (i, j): value}), goal)
            if moved is not None:
                terms = moved
                break
    if not terms.are_isolated:
        raise ValueError(
            "The terms belong to a continuous family, and could not be moved along it to simple points. "
            "Decompose the form with another seed."
        )
    return terms


def _correct(terms: MovingTerms, goal: Array) -> MovingTerms | None:
    """Return terms that sum to the form, by Newton's steps, or None if these do not converge."""
    largest = np.abs(goal).max()
    for _ in range(TUNING.short_run):
        residual = terms.residual(goal)
        sizes = np.abs(terms.weights)
        if not np.all(np.isfinite(sizes)) or sizes.min() < TUNING.nearly_exact * sizes.max():
            return None
        if np.abs(residual).max() <= TUNING.exact_residual * largest:
            values = terms._svd[1]
            is_poor = values[0] > TUNING.max_family_condition * values[terms.n_determined - 1]
            return None if is_poor or sizes.max() > TUNING.max_family_weight * largest else terms
        terms = terms.moved(terms.step(residual))
    return None
