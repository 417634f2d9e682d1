"""Rows with missing values in patterns of few rows each: a linear system for each pattern and component.

The density of what is observed follows from the row that is completed, for each component, by the expected
values of what is missing: no part of a matrix has to be taken for each pattern, and patterns of all kinds are
worked on together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.data import Scratch
from apolar.em.blocks import weighted_posteriors
from apolar.mixture.conditioning import NaturalComponents, inverses_of
from apolar.mixture.families.base import LOG_2PI

__all__ = ["SmallPatterns", "SmallSums"]

# The numbers of an array over patterns, components, and pairs of columns: 8 MB.
MAX_NUMBERS = 2**20


@dataclass(frozen=True, eq=False)
class SmallSums:
    """The sums of an E-step.

    Attributes
    ----------
    counts : ndarray, shape (n,)
    first : ndarray, shape (n, n_features)
    second : ndarray, shape (n, n_features, n_features)
    log_likelihood : ndarray, shape (n_mixtures,)
    """

    counts: Array
    first: Array
    second: Array
    log_likelihood: Array


@dataclass(frozen=True, eq=False)
class SmallPatterns:
    """Rows in patterns of few rows each.

    Attributes
    ----------
    missing : ndarray of bool, shape (n_patterns, n_features)
    starts : ndarray of int, shape (n_patterns + 1,)
        The first row of each pattern, and the number of rows.
    values : ndarray, shape (n_rows, n_features)
        In the order of patterns, zero where a value is missing.
    positions : ndarray of int, shape (n_rows,)
        Which of all rows these are.
    """

    missing: Array
    starts: IndexArray
    values: Array
    positions: IndexArray

    def parts(self, n_components: int) -> Iterator[SmallPatterns]:
        """Yield parts of the patterns, few enough for arrays over them."""
        n_patterns, n_features = self.missing.shape
        size = max(1, MAX_NUMBERS // (n_components * n_features**2))
        for first in range(0, n_patterns, size):
            last = min(first + size, n_patterns)
            begin, end = self.starts[first], self.starts[last]
            yield SmallPatterns(
                self.missing[first:last],
                self.starts[first : last + 1] - begin,
                self.values[begin:end],
                self.positions[begin:end],
            )

    def given(self, components: NaturalComponents, log_units: Array, noise: Array) -> _Given:
        """Return the components given what is observed in each pattern.

        Parameters
        ----------
        components : NaturalComponents
            Of n components.
        log_units : ndarray, shape (n_features,)
            Added to the log-density for each column that is missing.
        noise : ndarray, shape (n_features,)
            The variance of the noise of each column.
        """
        missing, precisions = self.missing[:, None], components.precisions[None]
        both = missing[..., :, None] & missing[..., None, :]
        identity = np.eye(self.missing.shape[1])
        # The precisions among missing columns; among observed ones the identity, which changes nothing.
        among = np.where(both, precisions, identity)
        inverses, log_dets = inverses_of(among)
        covariances = inverses * both
        constants = components.constants + 0.5 * (self.missing.sum(axis=1)[:, None] * LOG_2PI - log_dets)
        constants += (self.missing @ log_units)[:, None]
        # Missing columns as a function of the observed ones, whose own rows are those of the identity.
        gains = -covariances @ (precisions * ~missing[..., None, :])
        columns = np.arange(self.missing.shape[1])
        gains[..., columns, columns] += ~missing
        offsets = np.einsum("pkij,kj->pki", covariances, components.linear)
        spread = covariances
        if np.any(noise):
            observed = np.where(self.missing, 0.0, noise)[:, None, None, :]
            of_noise = (gains * observed) @ np.swapaxes(gains, -1, -2)
            constants -= 0.5 * np.einsum("pkij,kij->pk", of_noise, components.precisions)
            spread = covariances + of_noise
        return _Given(constants, gains, offsets, spread)

    def patterns_of_rows(self) -> IndexArray:
        """Return the pattern of each row."""
        return np.repeat(np.arange(len(self.missing)), np.diff(self.starts))

    def logits(self, components: NaturalComponents, given: _Given) -> tuple[Array, Array]:
        """Return the logits of each row, (n, n_rows), and its completions, (n, n_rows, n_features)."""
        of_row = self.patterns_of_rows()
        completed = np.einsum("rkij,rj->kri", given.gains[of_row], self.values)
        completed += np.moveaxis(given.offsets[of_row], 1, 0)
        images = completed @ components.precisions
        slopes = components.linear[:, None] - 0.5 * images
        return given.constants[of_row].T + np.einsum("kri,kri->kr", slopes, completed), completed

    def sums(
        self, components: NaturalComponents, given: _Given, n_mixtures: int, weights: Array | None
    ) -> SmallSums:
        """Return the sums of the E-step of a batch of mixtures."""
        logits, completed = self.logits(components, given)
        shaped = np.ascontiguousarray(logits).reshape(n_mixtures, -1, len(self.values))
        responsibilities, log_likelihood = weighted_posteriors(shaped, weights, Scratch())
        flat = responsibilities.reshape(len(logits), -1)
        weighted = flat[..., None] * completed
        counts = np.add.reduceat(flat, self.starts[:-1], axis=1)
        second = np.swapaxes(weighted, 1, 2) @ completed
        second += np.einsum("kp,pkij->kij", counts, given.spread)
        return SmallSums(counts.sum(axis=1), weighted.sum(axis=1), second, log_likelihood)


@dataclass(frozen=True, eq=False)
class _Given:
    """Components given what is observed in each pattern.

    Attributes
    ----------
    constants : ndarray, shape (n_patterns, n)
        Of the logits of completed rows.
    gains : ndarray, shape (n_patterns, n, n_features, n_features)
    offsets : ndarray, shape (n_patterns, n, n_features)
        A completed row is gains x + offsets.
    spread : ndarray, shape (n_patterns, n, n_features, n_features)
        The covariance of a row about its completion.
    """

    constants: Array
    gains: Array
    offsets: Array
    spread: Array
