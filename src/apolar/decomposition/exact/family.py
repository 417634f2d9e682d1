"""Terms of a continuous family, moved along it until they are isolated, with points as simple as can be."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.exact.digits import FAMILY, ScaledTerms
from apolar.tensor.monomials import sum_of_powers

# Denominators of the values at which a coefficient is held, the simplest first.
DENOMINATORS = (1, 2, 4, 8, 16, 32)
# A coefficient can be moved if it has at least this share in the directions that leave the sum as it is.
FREE = 1e-3
# Steps from one value of a coefficient to another, and Newton's steps after each.
N_STEPS, N_CORRECTIONS = 8, 12
# The residual, relative to the form, at which terms sum to it.
SMALL = 1e-12
# The terms must stay within this condition, and this size, relative to the form.
LARGEST_CONDITION, LARGEST_WEIGHT = 1e7, 1e3


def moved_terms(
    terms: ScaledTerms, target: tuple[Fraction, ...]
) -> tuple[ScaledTerms, dict[tuple[int, int], Fraction]]:
    """Return terms of the same sum that are isolated once some of their coefficients are held.

    One coefficient after the other, term by term, is moved to a simple number
    near to it and held there, if the others can follow: the first points
    become rational, and the last ones algebraic of a degree as low as the family has.

    Parameters
    ----------
    terms : ScaledTerms
        One of a continuous family.
    target : tuple of Fraction
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
    goal = np.array([float(value) for value in target])
    held: dict[tuple[int, int], Fraction] = {}
    rank, dim = terms.forms.shape
    for place in ((i, j) for i in range(rank) for j in range(dim)):
        if terms.are_isolated:
            break
        if terms.fixed[place] or _freedom(terms, place) < FREE:
            continue
        for value in _simple_numbers(float(terms.forms[place].real)):
            moved = _moved(terms, goal, place, value)
            if moved is not None:
                terms, held[place] = moved, value
                break
    if not terms.are_isolated:
        raise ValueError(
            "The terms are one of a continuous family, along which they could not be moved to simple points. "
            "Decompose the form with another random_state."
        )
    return terms, held


def _simple_numbers(near: float) -> list[Fraction]:
    """Return fractions around a number, the simplest first."""
    simple: dict[Fraction, None] = {}
    for denominator in DENOMINATORS:
        below = floor(near * denominator)
        pair = (Fraction(below, denominator), Fraction(below + 1, denominator))
        simple.update(dict.fromkeys(sorted(pair, key=lambda value: abs(value - near))))
    return list(simple)


def _freedom(terms: ScaledTerms, place: tuple[int, int]) -> float:
    """Return by how much a coefficient changes along unit directions that leave the sum as it is."""
    _, values, right = np.linalg.svd(terms.jacobian, full_matrices=True)
    n_kept = int(np.count_nonzero(values > FAMILY * values[0]))
    before = np.ravel_multi_index(place, terms.fixed.shape)
    column = len(terms.weights) + int(np.count_nonzero(~terms.fixed.ravel()[:before]))
    return float(np.linalg.norm(right[n_kept:, column]))


def _moved(terms: ScaledTerms, goal: Array, place: tuple[int, int], value: Fraction) -> ScaledTerms | None:
    """Return the terms with one coefficient moved to a value and held, or None if they cannot follow."""
    start = terms.forms[place]
    fixed = terms.fixed.copy()
    fixed[place] = True
    moved = replace(terms, fixed=fixed)
    for share in np.linspace(0, 1, N_STEPS + 1)[1:]:
        forms = moved.forms.copy()
        forms[place] = start + share * (float(value) - start)
        corrected = _corrected(replace(moved, forms=forms), goal)
        if corrected is None:
            return None
        moved = corrected
    return moved


def _corrected(terms: ScaledTerms, goal: Array) -> ScaledTerms | None:
    """Return terms that sum to the form, by Newton's steps, or None if these do not converge."""
    for _ in range(N_CORRECTIONS):
        residual = goal - sum_of_powers(terms.weights, terms.forms, terms.order)
        if np.abs(residual).max() <= SMALL * np.abs(goal).max():
            kept = terms._svd[1][terms._svd[1] > FAMILY * terms._svd[1][0]]
            too_large = np.abs(terms.weights).max() > LARGEST_WEIGHT * np.abs(goal).max()
            return None if too_large or kept[0] > LARGEST_CONDITION * kept[-1] else terms
        by_weight, by_form = terms.step(residual)
        weights = terms.weights + by_weight
        if not np.all(np.isfinite(weights)) or np.abs(weights).min() < 1e-6 * np.abs(weights).max():
            return None
        terms = replace(terms, weights=weights, forms=terms.forms + by_form / weights[:, None])
    return None
