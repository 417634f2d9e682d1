"""The likelihood of rows left out, in closed form, and the strengths of the prior that are chosen by it.

Without a row, the covariance of its component changes by a factor and a matrix of rank one. So the density of
the row under what is left of the component is a function of its distance, which the E-step has. The component
of a row is not known: the change is the expected one. Responsibilities of other rows stay as they are.
A component of few rows needs no rule of its own: a row that is left out is far from the rest of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.constants import MIN_WEIGHT
from apolar._core.namespaces import namespace, to_device_of, to_numpy
from apolar.em.blocks import Block, posteriors
from apolar.em.problem import Problem
from apolar.mixture.families import Family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, batch
from apolar.mixture.prior import AdaptivePrior, AddedRows, Strengths
from apolar.mixture.storage import LOG_2PI

__all__ = ["LeftOut", "best_strengths", "left_out"]

# The least fraction of a variance, or of a weight, that is left without a row.
MIN_LEFT = 1e-12
# What is compared: numbers of rows, and fractions of the diagonal.
ROWS = (0.0, 0.5, 4.0, 32.0, 256.0, 2048.0, 1e5)
DIAGONALS = (0.0, 0.03, 0.2, 0.5, 0.9, 1.0)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Mixtures that are fitted to some rows, and to all of them but one.

    Attributes
    ----------
    family : Family
    mixtures : WhitenedParameters
        A batch.
    natural : ndarray, shape (n_mixtures, n_components or one more, n_stats)
        Natural parameters; those of the noise are last.
    added : AddedRows
        By the prior.
    weight : float
        Of all rows that the mixtures were fitted to.
    """

    family: Family
    mixtures: WhitenedParameters
    natural: Array
    added: AddedRows
    weight: float

    def densities(self, block: Block) -> tuple[Any, Any]:
        """Return the log-densities of the rows of a block under mixtures without them, and with them.

        Both of shape (n_mixtures, n_rows).
        """
        n_mixtures, n_components = self.mixtures.weights.shape
        natural = self.natural.reshape(-1, self.natural.shape[-1])
        logits = block.logits(natural)
        xp = namespace(logits)
        logits = xp.reshape(xp.asarray(logits, copy=True), (n_mixtures, -1, block.n_rows))
        of_components = logits[:, :n_components, :]
        peaks = block.peaks(natural)
        if peaks is None:
            log_dets = self._log_dets()
            log_weights = np.log(np.maximum(self.mixtures.weights, MIN_WEIGHT))
            peaks = (log_weights - 0.5 * (self.mixtures.n_features * LOG_2PI + log_dets))[..., None]
        else:
            peaks = np.reshape(peaks, (n_mixtures, -1, block.n_rows))[:, :n_components]
        distances = 2 * (to_device_of(np.ascontiguousarray(peaks), logits) - of_components)
        distances = xp.maximum(distances, xp.zeros_like(distances))
        # The largest of the other components: their density is what is left without the most probable one.
        places = to_device_of(np.arange(logits.shape[1], dtype=float)[None, :, None], logits)
        first = xp.astype(xp.argmax(logits, axis=1), logits.dtype)[:, None, :]
        others = xp.max(xp.where(places == first, xp.full_like(logits, -np.inf), logits), axis=1)
        responsibilities, densities = posteriors(logits)
        shares = responsibilities[:, :n_components, :]
        least = xp.log1p(-xp.minimum(shares, xp.full_like(shares, 0.5)))
        is_first = places[:, :n_components, :] == first
        least = xp.where(is_first, (others - densities)[:, None, :], least)
        gains = xp.maximum(self._gains(distances, block.weights), least)
        return densities + xp.sum(shares * gains, axis=1), densities

    def sums(self, block: Block) -> tuple[float, float, float, float]:
        """Return weighted sums over the rows of a block, under one mixture.

        Of log-densities under the mixture with and without the row, of squares of the latter, and of ones.
        """
        without, seen = (part[0, :] for part in self.densities(block))
        xp = namespace(seen)
        weights = xp.ones_like(seen) if block.weights is None else block.weights
        parts = weights * seen, weights * without, weights * without**2, weights
        of_seen, of_without, of_squares, weight = (float(xp.sum(part)) for part in parts)
        return of_seen, of_without, of_squares, weight

    def _log_dets(self) -> Array:
        covariances = self.family.per_component(self.mixtures.covariances)
        return self.family.log_det(covariances, self.mixtures.n_features)

    def _gains(self, distances: Any, weights: Any) -> Any:
        """Return the changes of logarithms of weighted densities, (n_mixtures, n_components, n_rows).

        Each is that of a component without the row, at the row: negative near the mean, where the row has
        drawn the component to it.
        """
        xp, family, n_features = namespace(distances), self.family, self.mixtures.n_features
        n_components, total = self.mixtures.n_components, self.weight
        # A row of weight 2 stands for two rows, and one of them is left out.
        ones = xp.ones_like(distances[:1, :1, :1])
        removed = ones if weights is None else xp.minimum(weights[None, None, :], ones)

        def each(values: Any) -> Any:
            array = np.broadcast_to(np.reshape(values, (-1, 1)), self.mixtures.weights.shape)
            return to_device_of(np.array(array, dtype=float)[..., None], distances)

        of_weights = each(self.added.weights)
        all_rows = total + n_components * of_weights
        counts = to_device_of(np.array(self.mixtures.weights)[..., None], distances) * all_rows - of_weights
        counts = xp.maximum(counts, xp.full_like(counts, 2 * MIN_WEIGHT))
        removed = xp.minimum(removed, counts * (1 - MIN_LEFT))
        kept = counts - removed
        held = each(self.added.rows) + (total if family.shares_covariance else counts)
        moved = each(self.added.common) * removed / total
        widened = 1 + moved / held
        factor = held / (held - removed) * widened
        # How many pieces a covariance has that rows estimate by themselves.
        pieces = (n_features, (n_features + 2) / 3, 1)[family.n_axes]
        slope = (removed * counts / kept + moved) / (held * widened * pieces)
        pull = (counts / kept) ** 2 / factor
        constant = xp.log((kept + of_weights) * all_rows / ((counts + of_weights) * (all_rows - 1)))
        constant = constant - 0.5 * n_features * xp.log(factor)
        ratio = 1 - slope * distances
        ratio = xp.maximum(ratio, xp.full_like(ratio, MIN_LEFT))
        return constant - 0.5 * (pieces * xp.log(ratio) + distances * (pull / ratio - 1))


def left_out(
    problem: Problem, mixtures: WhitenedParameters, added: AddedRows, weight: float | None = None
) -> Array:
    """Return the log-density of each row under mixtures that are fitted to all rows but that one.

    Parameters
    ----------
    problem : Problem
        The rows of the fits, or a sample of them.
    mixtures : WhitenedParameters
        A batch.
    added : AddedRows
        By the prior of the fits.
    weight : float, optional
        Of all rows that the mixtures were fitted to; by default that of the problem.

    Returns
    -------
    densities : ndarray, shape (n_mixtures, n_rows)
        In whitened coordinates.
    """
    exact = problem.exact
    total = problem.weight if weight is None else weight
    each = LeftOut(problem.family, mixtures, exact.natural(mixtures), added, total)
    n_working = 8 * each.natural.shape[0] * each.natural.shape[1]
    parts = exact.map_blocks(lambda block: to_numpy(each.densities(block)[0]), n_working)
    return np.concatenate(list(parts), axis=1)


def best_strengths(
    problem: Problem,
    stats: SufficientStats,
    prior: AdaptivePrior,
    first: Strengths,
    near: WhitenedParameters,
    weight: float,
) -> tuple[Strengths, float]:
    """Return the strengths under which rows left out are likeliest, with the responsibilities as they are.

    Parameters
    ----------
    problem : Problem
        The rows, or a sample of them.
    stats : SufficientStats
        Of all rows, from the E-step at the mixture.
    prior : AdaptivePrior
    first : Strengths
        Those to start from.
    near : WhitenedParameters
        The mixture.
    weight : float
        Of all rows.

    Returns
    -------
    strengths : Strengths
    log_likelihood : float
        Of rows left out, under the first strengths.
    """
    family, row_weights, n_components = problem.family, problem.row_weights(), near.n_components
    grids, known = _grids(family, n_components), dict[Strengths, float]()

    def rate(candidates: list[Strengths]) -> None:
        several = SufficientStats(np.repeat(stats.array[None], len(candidates), axis=0), stats.n_features)
        batched = prior.of_strengths(Strengths(*map(np.array, zip(*candidates, strict=True))))
        start = batch([near] * len(candidates))
        mixtures = problem.m_step(several, batched.adapted_to(family, several), start)
        added = batched.added_rows(family, near, weight)
        values = left_out(problem, mixtures, added, weight)
        sums = values.sum(axis=1) if row_weights is None else values @ row_weights
        known.update(zip(candidates, sums.tolist(), strict=True))

    best, before = first, None
    while best != before:
        before = best
        others = [best._replace(**{name: value}) for name, grid in grids.items() for value in grid]
        new = [each for each in (best, *others) if each not in known]
        if new:
            rate(list(dict.fromkeys(new)))
        best = max(known, key=lambda each: known[each])
    return best, known[first]


def _grids(family: Family, n_components: int) -> dict[str, tuple[float, ...]]:
    """Return the values of each strength that are compared."""
    grids: dict[str, tuple[float, ...]] = {}
    if not family.shared and n_components > 1:
        grids["common"] = ROWS
    if family.n_axes == 2:
        grids["diagonal"] = DIAGONALS
    if n_components > 1:
        grids["weights"] = ROWS
    return grids
