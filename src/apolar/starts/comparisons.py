"""Mixtures compared on some of the rows: what a merger costs, and what an added component gains."""

from __future__ import annotations

import math

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.compiled import extension
from apolar._core.constants import MAX_LOG_RATIO, MIN_RATIO, ROWS_TOGETHER
from apolar.em.problem import Problem
from apolar.mixture.compiled_steps import MAX_COLUMNS

__all__ = ["CompiledDensities", "Densities", "added_gains", "densities"]

kernels = extension()

# The kernels take row statistics of at most this many numbers.
MAX_NUMBERS = 2**21
# The length of a cache line in bytes.
ALIGNMENT = 64
NO_WEIGHTS = np.empty(0)
# The weight of an added component before the first step of EM.
FIRST_WEIGHT = 0.02


class Densities:
    """The densities of the components of a mixture, at each of some rows relative to the largest.

    Single precision is enough to compare mergers.

    Parameters
    ----------
    data : Problem
    compared : slice
        The rows.
    natural : ndarray, shape (n_components, n_stats)
        The natural parameters of the mixture.
    """

    dtype: type = np.float32

    def __init__(self, data: Problem, compared: slice, natural: Array) -> None:
        self.data, self.compared = data, compared
        weights = data.row_weights()
        self.weights = None if weights is None else self._padded(weights[compared])
        self.n_compared = len(range(*compared.indices(data.n_rows)))
        # The weight of all rows, relative to that of those that are compared.
        self.scale = data.weight / float(self.n_compared if self.weights is None else self.weights.sum())
        logits = self._logits(natural)
        self.largest = logits.max(axis=0)
        self.parts = self._relative(logits)
        self.total = self.parts.sum(axis=0)

    def merge(self, first: int, second: int, natural: Array) -> None:
        """Replace a component by a merger, of natural parameters (1, n_stats), and remove another."""
        self.parts[first], self.parts[second] = self._relative(self._logits(natural))[0], 0.0
        self.parts.sum(axis=0, out=self.total)

    def costs(self, first: IndexArray, second: IndexArray, natural: Array) -> Array:
        """Return the log-likelihood that is lost by each merger of two components.

        Parameters
        ----------
        first, second : ndarray of int, shape (n_pairs,)
        natural : ndarray, shape (n_pairs, n_stats)
            The natural parameters of the mergers.
        """
        densities = self.total - self.parts[first]
        densities -= self.parts[second]
        # Rounding may leave a negative difference.
        np.maximum(densities, 0.0, out=densities)
        densities += self._relative(self._logits(natural))
        np.maximum(densities, MIN_RATIO, out=densities)
        np.log(densities, out=densities)
        densities -= np.log(np.maximum(self.total, MIN_RATIO))
        sums = densities.sum(axis=1) if self.weights is None else densities @ self.weights
        return np.asarray(-self.scale * sums)

    def _logits(self, natural: Array) -> Array:
        return self.data.row_logits(natural, self.compared)

    def _relative(self, logits: Array) -> Array:
        """Return densities relative to the largest one of each row. Changes the logits."""
        logits -= self.largest
        # A merged component may be far denser than the densest one before; exp must not overflow.
        np.clip(logits, -MAX_LOG_RATIO, MAX_LOG_RATIO, out=logits)
        return np.exp(logits.astype(self.dtype, copy=False))

    def _padded(self, weights: Array) -> Array:
        """Return the weights of the rows."""
        return weights.astype(self.dtype)


class CompiledDensities(Densities):
    """The same in double precision, with the costs of mergers by the compiled kernels.

    Rows are added up to a multiple of `ROWS_TOGETHER`: they have the density of the mixture alone, which no
    merger changes.

    Parameters
    ----------
    data, compared, natural
        As for `Densities`.
    row_stats : ndarray, shape (n_stats, n)
        Of the rows, with those that are added.
    """

    dtype = np.float64

    def __init__(self, data: Problem, compared: slice, natural: Array, row_stats: Array) -> None:
        self.row_stats = row_stats
        super().__init__(data, compared, natural)
        lines = _aligned(len(natural) + 2, row_stats.shape[1])
        lines[0], lines[1], lines[2:] = self.largest, self.total, self.parts
        # Of no component, in a mixture of density one.
        lines[0, self.n_compared :], lines[1, self.n_compared :] = 20 * MAX_LOG_RATIO, 1.0
        lines[2:, self.n_compared :] = 0.0
        self.largest, self.total, self.parts = lines[0], lines[1], lines[2:]

    def merge(self, first: int, second: int, natural: Array) -> None:
        """Replace a component by a merger, and remove another."""
        super().merge(first, second, natural)
        self.total[self.n_compared :] = 1.0

    def costs(self, first: IndexArray, second: IndexArray, natural: Array) -> Array:
        """Return the log-likelihood that is lost by each merger of two components."""
        sums = np.empty(len(first))
        kernels.merge_costs(
            *(self.row_stats, NO_WEIGHTS if self.weights is None else self.weights, natural),
            *(first.astype(np.int64, copy=False), second.astype(np.int64, copy=False)),
            *(self.largest, self.total, self.parts, sums, len(self.row_stats)),
        )
        logs = np.log(np.maximum(self.total, MIN_RATIO))
        before = float(logs.sum() if self.weights is None else logs @ self.weights)
        return self.scale * (before - sums)

    def merged_stats(
        self, stats: Array, costs: Array, n_components: int, weight: float, least: float
    ) -> Array | None:
        """Return the statistics of components of full covariances after greedy merging.

        Parameters
        ----------
        stats : ndarray, shape (n, n_stats)
        costs : ndarray, shape (n, n)
            Of the mergers of first and second component, first < second; infinite elsewhere.
        n_components : int
        weight : float
            Of all rows.
        least : float
            The floor of variances.

        Returns
        -------
        stats : ndarray or None
            None if a variance is below the floor.
        """
        n_features = int(self.data.n_features)
        if n_features > MAX_COLUMNS:
            return None
        stats, is_active = stats.copy(), np.empty(len(stats))
        lines = _aligned(len(self.parts) + 1, len(self.total))
        lines[0], lines[1:] = self.total, self.parts
        changed = (stats, costs.copy(), lines[0], lines[1:], is_active)
        weights = NO_WEIGHTS if self.weights is None else self.weights
        numbers = (n_features, n_components, self.n_compared, weight, self.scale, least)
        is_positive = kernels.merge_by_costs(self.row_stats, weights, self.largest, *changed, *numbers)
        return stats[is_active > 0] if is_positive else None

    def _logits(self, natural: Array) -> Array:
        return natural @ self.row_stats

    def _padded(self, weights: Array) -> Array:
        return np.pad(weights, (0, self.row_stats.shape[1] - len(weights)))


def densities(data: Problem, compared: slice, natural: Array) -> Densities:
    """Return the densities of a mixture at some rows, by the compiled kernels if there are any."""
    row_stats = _row_stats(data, compared)
    if row_stats is None:
        return Densities(data, compared, natural)
    return CompiledDensities(data, compared, natural, row_stats)


def added_gains(
    data: Problem, compared: slice, natural: Array, density: Array, n_steps: int
) -> tuple[Array, Array]:
    """Return the mean log-likelihood that each of some components gains if it is added, and its weight.

    Parameters
    ----------
    data : Problem
    compared : slice
        The rows.
    natural : ndarray, shape (n_candidates, n_stats)
        Natural parameters of the components as mixtures of one.
    density : ndarray, shape (n_compared,)
        The log-density of the mixture at the rows.
    n_steps : int
        Steps of EM for the weight of the component.

    Returns
    -------
    gains, weights : ndarray, shape (n_candidates,)
    """
    row_stats, all_weights = _row_stats(data, compared), data.row_weights()
    weights = None if all_weights is None else all_weights[compared]
    total_weight = float(len(density) if weights is None else weights.sum())
    if row_stats is not None:
        n_more = row_stats.shape[1] - len(density)
        padded = NO_WEIGHTS if weights is None else np.pad(weights, (0, n_more))
        of_components, gains = np.empty(len(natural)), np.empty(len(natural))
        kernels.added_gains(
            *(row_stats, padded, natural, np.pad(density, (0, n_more)), of_components, gains),
            *(len(row_stats), total_weight, FIRST_WEIGHT, n_steps),
        )
        return gains, of_components
    weights = (np.ones(len(density)) if weights is None else weights) / total_weight
    # The density of each component relative to that of the mixture, less one.
    ratio = data.row_logits(natural, compared)
    ratio -= density
    np.minimum(ratio, MAX_LOG_RATIO, out=ratio)
    np.exp(ratio, out=ratio)
    ratio -= 1
    of_component = np.full((len(natural), 1), FIRST_WEIGHT)
    work = np.empty_like(ratio)
    # weight <- mean of weight (1 + ratio) / (1 + weight ratio).
    for _ in range(n_steps):
        np.multiply(ratio, of_component, out=work)
        work += 1
        np.divide(ratio, work, out=work)
        of_component = of_component * (1 + (1 - of_component) * (work @ weights)[:, None])
    np.multiply(ratio, of_component, out=work)
    work += 1
    np.maximum(work, MIN_RATIO, out=work)
    return np.log(work, out=work) @ weights, of_component[:, 0]


def _row_stats(data: Problem, compared: slice) -> Array | None:
    """Return the statistics of some rows, and zeros up to a multiple of rows; None if NumPy is used."""
    if kernels is None or data.is_wide or data.n_rows * data.n_stats > MAX_NUMBERS:
        return None
    whitened = data.whitened_rows()[:, compared]
    n_features, n_compared = whitened.shape
    out = _aligned(data.n_stats, -(-n_compared // ROWS_TOGETHER) * ROWS_TOGETHER)
    out[0, :n_compared] = 1.0
    out[1 : 1 + n_features, :n_compared] = whitened
    data.family.write_quadratics(out[1 : 1 + n_features], out[1 + n_features :])
    return out


def _aligned(*shape: int) -> Array:
    """Return zeros that begin at the start of a cache line: vectors of the kernels are then within lines."""
    size = math.prod(shape)
    memory = np.zeros(size + ALIGNMENT // 8)
    first = -memory.ctypes.data % ALIGNMENT // 8
    return memory[first : first + size].reshape(shape)
