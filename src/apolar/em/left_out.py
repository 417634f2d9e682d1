"""The likelihood of rows left out, in closed form, and the strengths of the prior that are chosen by it.

Without a row, the covariance of its component changes by a factor and a matrix of rank one. So the density of
the row under what is left of the component is a function of its distance, which the E-step has. The component
of a row is not known: the change is the expected one. Responsibilities of other rows stay as they are.
A component of few rows needs no rule of its own: a row that is left out is far from the rest of it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core import compiled
from apolar._core.arrays import Array
from apolar._core.constants import MIN_LEFT, MIN_WEIGHT
from apolar._core.namespaces import namespace, to_device_of, to_numpy
from apolar._core.settings import SETTINGS
from apolar.em.blocks import Block, posteriors
from apolar.em.problem import Problem
from apolar.mixture.families import Family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, batch
from apolar.mixture.prior import AdaptivePrior, AddedRows, Strengths, has_volumes, used_strengths
from apolar.mixture.tails import Tails

__all__ = ["WORKING", "LeftOut", "best_strengths", "left_out"]

# How far sums of weights may be from each other by rounding.
WEIGHT_ROUNDING = 1e-9
# The strengths that are compared (benchmarks/left_out): numbers of rows, and fractions of the diagonal. The
# likelihood of rows left out is flat between neighbours; the last number of rows stands for infinity.
ROWS = (0.0, 0.5, 4.0, 32.0, 256.0, 2048.0, 1e5)
DIAGONALS = (0.0, 0.03, 0.2, 0.5, 0.9, 1.0)
# The arrays of one number per row and component that are in memory at the same time.
WORKING = 20


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
    tails : Tails or None
        Of the same components.
    added : AddedRows
        By the prior.
    weight : float
        Of all rows that the mixtures were fitted to.
    """

    family: Family
    mixtures: WhitenedParameters
    natural: Array
    tails: Tails | None
    added: AddedRows
    weight: float

    def densities(self, block: Block) -> tuple[Any, Any]:
        """Return the log-densities of the rows of a block under mixtures without them, and with them.

        Both of shape (n_mixtures, n_rows).
        """
        n_mixtures, n_components = self.mixtures.weights.shape
        natural = self.natural.reshape(-1, self.natural.shape[-1])
        peaks = self.family.peaks(self.mixtures, self.natural)
        logits, known_peaks = block.logits(natural), block.peaks(natural, peaks.ravel())
        xp = namespace(logits)
        logits = xp.reshape(logits, (n_mixtures, -1, block.n_rows))
        if known_peaks is None:
            peaks = peaks[:, :n_components, None]
            n_observed = np.full(1, float(self.mixtures.n_features))
        else:
            peaks = np.reshape(known_peaks[0], (n_mixtures, -1, block.n_rows))[:, :n_components]
            n_observed = known_peaks[1]
        # A row of weight 2 stands for two rows, and one of them is left out.
        removed = None if block.weights is None else xp.clip(block.weights, None, 1.0)[None, None, :]
        is_whole = removed is None or float(xp.min(removed)) == 1
        if (
            is_whole
            and block.known is None
            and known_peaks is None
            and self.tails is None
            and not self.family.has_factors
            and isinstance(logits, np.ndarray)
            and compiled.kernels is not None
        ):
            return self._compiled(logits, peaks, n_observed)
        logits = xp.asarray(logits, copy=True)
        distances = 2 * (to_device_of(np.ascontiguousarray(peaks), logits) - logits[:, :n_components, :])
        distances, factors, dof = xp.clip(distances, 0.0, None), 1.0, None
        if self.tails is not None:
            flat = xp.reshape(logits, (-1, block.n_rows))
            logits, factors, _ = (
                xp.reshape(each, logits.shape) for each in self.tails.flat.terms(flat, *(known_peaks or ()))
            )
            factors = factors[:, :n_components, :]
            dof = to_device_of(np.array(self.tails.dof[:, :n_components, None]), logits)
        logits = logits if block.known is None else block.known.mask(logits)
        known = xp.asarray(logits, copy=True)
        responsibilities, densities = posteriors(logits)
        shares = responsibilities[:, :n_components, :]
        ones = xp.ones_like(shares[:1, :1, :1])
        n_observed = to_device_of(n_observed, shares)
        constant, slope, pull, pieces, of_all, stretch = self._deletion(
            ones if removed is None else removed, n_observed, factors
        )
        law = dof, n_observed
        if self.family.has_factors:
            signals = xp.reshape(block.signals(natural), logits.shape)[:, :n_components, :]
            whole = ones if removed is None else removed
            gains = constant - self._loss_of_factors(distances, signals, whole, factors, *law)
        else:
            gains = constant - _loss(slope, pull, pieces, distances, *law)
        # Without the component altogether, the others are left, with what they lose of a common covariance.
        is_first = shares > 0.5
        others = xp.where(is_first, xp.full_like(shares, -np.inf), known[:, :n_components, :])
        others = xp.concat([others, known[:, n_components:, :]], axis=1)
        largest = xp.clip(xp.max(others, axis=1), float(np.finfo(float).min), None)
        with np.errstate(divide="ignore"):  # a single component
            others = xp.log(xp.sum(xp.exp(others - largest[:, None, :]), axis=1)) + (largest - densities)
        others = others[:, None, :] - _loss(of_all, 1.0, pieces, stretch * distances, *law)
        gains = xp.maximum(gains, xp.where(is_first, others, xp.log1p(-xp.clip(shares, None, 0.5))))
        return densities + xp.sum(shares * gains, axis=1), densities

    def _compiled(self, logits: Array, peaks: Array, n_features: Array) -> tuple[Array, Array]:
        """Return the densities of whole rows, by the extension."""
        coefficients = np.empty((*self.mixtures.weights.shape, 6))
        for i, each in enumerate(self._deletion(np.ones((1, 1, 1)), n_features)):
            coefficients[..., i] = each[..., 0]
        shapes = ((len(logits), logits.shape[2]),) * 2
        numbers = peaks.shape[1], logits.shape[1]
        known = compiled.take_step("left_out", (logits, peaks, coefficients), shapes, *numbers)
        assert known is not None
        return known[0], known[1]

    @functools.cached_property
    def _log_dets(self) -> Array:
        """The log-determinants, shape (n_mixtures, n_components), or one column if covariances are shared."""
        covariances = self.family.per_component(self.mixtures.covariances)
        return np.asarray(self.family.log_det(covariances, self.mixtures.n_features))

    @property
    def _volumes(self) -> Array:
        """The volumes of the components, relative to their geometric mean over the rows."""
        weights = self.mixtures.weights / self.mixtures.weights.sum(axis=1, keepdims=True)
        if not has_volumes(self.family, self.mixtures.n_features):
            return np.ones_like(weights)
        mean = (weights * self._log_dets).sum(axis=1, keepdims=True)
        volumes = np.exp((self._log_dets - mean) / self.mixtures.n_features)
        return np.broadcast_to(volumes, weights.shape)

    def _deletion(self, removed: Any, n_observed: Any, factors: Any = 1.0) -> tuple[Any, ...]:
        """Return what a row that is left out changes, as a function of its distance D from a component.

        With t = 1 - slope D, the logarithm of the weighted density of the component changes there by
        constant - 1/2 (pieces log t + D (pull / t - 1)).

        Parameters
        ----------
        removed : array
            The weight that is left out.
        n_observed : array
            The number of values of each row, or of all rows.
        factors : array or float, default=1.0
            By how much each row counts in means and scatters, where tails are long.

        Returns
        -------
        constant, slope, pull : array
            Of shapes that broadcast with (n_mixtures, n_components, n).
        pieces : array
            How many pieces a covariance has that rows estimate by themselves.
        of_all, stretch : array
            The slope of what all components lose, as their covariances have a part in common, and the most by
            which the distance is longer under that part.
        """
        xp, family, n_features = namespace(removed), self.family, self.mixtures.n_features
        n_components, total = self.mixtures.n_components, self.weight

        def each(values: Any) -> Any:
            return to_device_of(np.array(values, dtype=float).reshape(-1, 1, 1), removed)

        weights = to_device_of(np.array(self.mixtures.weights)[..., None], removed)
        # With noise, the components have a part of the rows.
        of_components = total * xp.sum(weights, axis=1, keepdims=True)
        of_weights = each(self.added.weights)
        all_rows = of_components + n_components * of_weights
        counts = weights * total * all_rows / of_components - of_weights
        # By position: the first versions of NumPy have other names for the ends.
        counts = xp.clip(counts, 2 * MIN_WEIGHT, None)
        removed = xp.minimum(removed, counts * (1 - MIN_LEFT))
        kept, pulled = counts - removed, xp.minimum(removed * factors, counts * (1 - MIN_LEFT))
        is_one = family.shares_covariance or n_components == 1
        rows, common = each(self.added.rows), each(self.added.common)
        held = rows + (total if is_one else counts)
        if family.shares_part and not is_one:
            # As if the components had rows in common, as many as leave each its part of the parameters.
            one, many, all_own = (
                kind.n_covariance_parameters(n_components, n_features)
                for kind in (family.tied, family, family.untied)
            )
            shared = counts * (all_own - many) / max(many - one, MIN_LEFT)
            held, common = held + shared, common + shared
        moved = common * to_device_of(np.array(self._volumes)[..., None], removed) * removed / total
        widened = 1 + moved / held
        moved = moved * (pulled / removed)
        factor = held / (held - removed) * widened
        # One over how many pieces a covariance has that rows estimate by themselves.
        by_diagonal = 3 / (n_observed + 2)
        by_own = by_all = (1 / xp.clip(n_observed, 1.0, None), by_diagonal, 1.0)[family.n_axes]
        if family.n_axes == 2:
            by_all = 1 + each(self.added.diagonal) * (by_diagonal - 1)
        own = pulled * (counts / (counts - pulled))
        of_common = (own if is_one else moved) * by_all
        of_slope = of_common if is_one else of_common + own * by_own
        # A weight may vanish compared with that of all rows.
        pieces = (own + moved) / xp.clip(of_slope, MIN_WEIGHT, None)
        common_slope, slope = of_common / (held * widened), of_slope / (held * widened)
        constant = xp.log((kept + of_weights) * all_rows / ((counts + of_weights) * (all_rows - removed)))
        # With noise, all components together may hold less than the row.
        share = xp.clip(removed / of_components, None, 1 - MIN_LEFT)
        constant = constant + xp.log((1 - share) / (1 - removed / total))
        constant = constant - 0.5 * n_observed * xp.log(factor)
        in_common = held if is_one else common
        stretch = held / xp.where(in_common > 0, in_common, held)
        pull = (counts / (counts - pulled)) ** 2 / factor
        return constant, slope, pull, pieces, common_slope, stretch

    def _loss_of_factors(
        self, distances: Any, signals: Any, removed: Any, factors: Any, dof: Any, n_observed: Any
    ) -> Any:
        """Return what a row loses where covariances are those of factors, as `_loss` does.

        Without the row the factors have another covariance, as one of q columns changes, and the columns
        another regression on the factors: what that leaves of the row is larger by its leverage, and it is
        left out of the variances of the noise.
        """
        xp, noise, q = namespace(distances), self.family.noise, self.mixtures.covariances.shape[-1] - 1
        assert noise is not None
        weights = to_device_of(np.array(self.mixtures.weights)[..., None], distances)
        counts = xp.clip(self.weight * weights, 2 * MIN_WEIGHT, None)
        removed = xp.minimum(removed * xp.ones_like(counts), counts * (1 - MIN_LEFT))
        pulled = xp.minimum(removed * factors, counts * (1 - MIN_LEFT))
        signals = xp.minimum(signals, distances)
        grown = counts / (counts - pulled)
        ratio = xp.clip(1 - pulled / (counts - pulled) * signals, MIN_LEFT, None)
        longer = signals * grown**2 * (1 - removed / counts) / ratio
        left = xp.clip(1 - pulled * (1 + signals) / counts, MIN_LEFT, None)
        rows = self.weight if noise.shares_covariance else counts
        kept = 1 - removed / rows
        n_left = xp.clip(n_observed - q, 1.0, None)
        pieces = (n_left + 2) / 3 if noise.n_axes else n_left
        of_noise = xp.clip(1 - pulled * (distances - signals) / (left * rows * pieces), MIN_LEFT, None)
        longer = longer + (distances - signals) * kept / (left**2 * of_noise)
        log_dets = xp.log(ratio) + pieces * xp.log(of_noise)
        log_dets = log_dets - n_left * xp.log(kept / (1 - removed / counts))
        if dof is None:
            return 0.5 * (log_dets + longer - distances)
        farther = xp.log1p(longer / dof) - xp.log1p(distances / dof)
        return 0.5 * (log_dets + (dof + n_observed) * farther)

    def sums(self, block: Block) -> tuple[float, float, float, float]:
        """Return weighted sums over the rows of a block, under one mixture.

        They are sums of log-densities under the mixture with and without the row, of squares of the latter,
        and of ones.
        """
        without, seen = (part[0, :] for part in self.densities(block))
        xp = namespace(seen)
        weights = xp.ones_like(seen) if block.weights is None else block.weights
        parts = weights * seen, weights * without, weights * without**2, weights
        of_seen, of_without, of_squares, weight = (float(xp.sum(part)) for part in parts)
        return of_seen, of_without, of_squares, weight


def _loss(slope: Any, pull: Any, pieces: Any, distances: Any, dof: Any, n_features: Any) -> Any:
    """Return what the log-density at a distance loses by a row that is left out: see `LeftOut._deletion`.

    With degrees of freedom, of components with long tails.
    """
    xp = namespace(distances)
    ratio = xp.clip(1 - slope * distances, MIN_LEFT, None)
    if dof is None:
        return 0.5 * (pieces * xp.log(ratio) + distances * (pull / ratio - 1))
    longer = xp.log1p(distances * pull / ratio / dof) - xp.log1p(distances / dof)
    return 0.5 * (pieces * xp.log(ratio) + (dof + n_features) * longer)


def left_out(
    problem: Problem, mixtures: WhitenedParameters, added: AddedRows, weight: float | None = None
) -> tuple[Array, Array]:
    """Return the log-density of each row under mixtures that are fitted to all rows but that one, and to all.

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
    without, seen : ndarray, shape (n_mixtures, n_rows)
        In whitened coordinates.
    """
    exact = problem.exact
    total = problem.weight if weight is None else weight
    natural = exact.natural(mixtures)
    each = LeftOut(problem.family, mixtures, natural, problem.family.tails(mixtures, natural), added, total)
    n_working = WORKING * each.natural.shape[0] * each.natural.shape[1]
    parts = exact.map_blocks(lambda block: tuple(map(to_numpy, each.densities(block))), n_working)
    without, seen = zip(*parts, strict=True)
    return np.concatenate(without, axis=1), np.concatenate(seen, axis=1)


def best_strengths(
    problem: Problem,
    stats: SufficientStats,
    prior: AdaptivePrior,
    first: Strengths,
    near: WhitenedParameters,
    weight: float,
    log_likelihood: float,
) -> tuple[Strengths, float]:
    """Return the strengths under which rows left out are likeliest, with the responsibilities as they are.

    All values of each strength are compared until none is better. A sample tells only how much less likely
    rows that are left out are; how likely the rows are follows from the sums over all rows.

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
    weight, log_likelihood : float
        Of all rows; the likelihood is that under the mixture.

    Returns
    -------
    strengths : Strengths
    log_likelihood : float
        Of rows left out, under the first strengths.
    """
    family = problem.family
    grids, known = _grids(family, stats), dict[Strengths, float]()
    n_components, of_sample = near.n_components, problem.row_weights()
    row_weights = np.ones(problem.n_rows) if of_sample is None else of_sample

    def expected(mixtures: WhitenedParameters) -> Array:
        natural = problem.natural(mixtures)[:, :n_components]
        return np.asarray((natural * stats.array).sum(axis=(-2, -1)))

    entropy = log_likelihood - float(expected(near[None])[0])

    best, before = first, None
    # A few at a time where covariances are large.
    step = max(1, SETTINGS.kept_numbers // stats.array.size)
    while best != before:
        before, candidates = best, [best]
        candidates += [best._replace(**{name: value}) for name, grid in grids.items() for value in grid]
        new = [each for each in dict.fromkeys(candidates) if each not in known]
        for begin in range(0, len(new), step):
            part = new[begin : begin + step]
            several = SufficientStats(np.repeat(stats.array[None], len(part), axis=0), stats.n_features)
            batched = prior.of_strengths(Strengths(*map(np.array, zip(*part, strict=True))))
            mixtures = problem.m_step(several, batched.adapted_to(family, several), batch([near] * len(part)))
            without, seen = left_out(problem, mixtures, batched.added_rows(family, near), weight)
            sums = without @ row_weights
            if row_weights.sum() < (1 - WEIGHT_ROUNDING) * weight:
                lost = (seen - without) @ row_weights * (weight / row_weights.sum())
                sums = expected(mixtures) + entropy - lost
            known.update(zip(part, sums.tolist(), strict=True))
        # The first strengths may be zero where that is not compared.
        best = max(known, key=lambda each: (each.common >= grids["common"][0], known[each]))
    return best, known[first]


def _grids(family: Family, stats: SufficientStats) -> dict[str, tuple[float, ...]]:
    """Return the values of each strength that are compared.

    Where rows that are repeated, or too few, leave a component without variance, it takes some of the common
    covariance: a row that has a copy would be more likely the narrower the component.
    """
    used = used_strengths(family, stats.counts.shape[-1], stats.n_features)
    is_wide = family.smallest_variance(family.scatter(stats)) > SETTINGS.prior_floor
    grids = Strengths(ROWS if is_wide else ROWS[1:], DIAGONALS, ROWS, (0.0,))
    return {
        name: grid if is_used else (0.0,)
        for name, grid, is_used in zip(Strengths._fields, grids, used, strict=True)
    }
