"""Gaussian components given some of the columns: marginals of these, and regressions of the others on them.

The E-step computes them from precisions: only the part of the missing columns is inverted, which is small
where few are missing. What is asked of a fitted mixture is computed from roots of its covariances, which is
accurate also where these are nearly singular.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.constants import MIN_WEIGHT
from apolar.mixture.families.base import LOG_2PI
from apolar.mixture.families.full import Full

__all__ = [
    "FULL",
    "Conditioned",
    "NaturalComponents",
    "RootedComponents",
    "inverses_of",
    "pairs",
    "square",
    "triangle",
]

FULL = Full()


@functools.lru_cache(maxsize=256)
def pairs(n_features: int) -> tuple[IndexArray, IndexArray]:
    """Return rows and columns of the upper triangle of a matrix, in the order of the quadratics of a row."""
    rows, columns = np.triu_indices(n_features)
    return rows, columns


def inverses_of(matrices: Array) -> tuple[Array, Array]:
    """Return the inverses of positive definite matrices, and the logarithms of their determinants."""
    return FULL.inverses(matrices) if matrices.size else (matrices, np.zeros(matrices.shape[:-2]))


def square(compact: Array, n_features: int) -> Array:
    """Return symmetric matrices, shape (..., n_features, n_features), from their upper triangles."""
    rows, columns = pairs(n_features)
    out = np.empty((*compact.shape[:-1], n_features, n_features))
    out[..., rows, columns] = compact
    out[..., columns, rows] = compact
    return out


def triangle(matrices: Array) -> Array:
    """Return the upper triangles of matrices, shape (..., n_features (n_features + 1) / 2)."""
    return matrices[(..., *pairs(matrices.shape[-1]))]


@dataclass(frozen=True, eq=False)
class NaturalComponents:
    """Weighted Gaussian components by constant + linear . x - x^t precision x / 2, their log-densities.

    Attributes
    ----------
    constants : ndarray, shape (..., n)
    linear : ndarray, shape (..., n, n_features)
    precisions : ndarray, shape (..., n, n_features, n_features)
    """

    constants: Array
    linear: Array
    precisions: Array

    def __len__(self) -> int:
        return len(self.constants)

    @classmethod
    def of(cls, natural: Array, n_features: int) -> NaturalComponents:
        """Return components from natural parameters of full covariances, shape (..., n, n_stats)."""
        precisions = -square(natural[..., 1 + n_features :], n_features)
        diagonal = np.arange(n_features)
        precisions[..., diagonal, diagonal] *= 2
        return cls(natural[..., 0], natural[..., 1 : 1 + n_features], precisions)

    def natural(self) -> Array:
        """Return the natural parameters, shape (..., n, n_stats)."""
        rows, columns = pairs(self.linear.shape[-1])
        quadratics = self.precisions[..., rows, columns] * np.where(rows == columns, -0.5, -1.0)
        return np.concatenate([self.constants[..., None], self.linear, quadratics], axis=-1)

    def transformed(self, matrix: Array) -> NaturalComponents:
        """Return the same functions of y, where x = y matrix."""
        linear = self.linear @ matrix.T
        return NaturalComponents(self.constants, linear, matrix @ self.precisions @ matrix.T)

    def logits(self, x: Array) -> Array:
        """Return the log-densities at points, shape (n_rows, n_features), one for each leading position.

        Constants have shape (n_rows, n): each row has components of its own.
        """
        images = np.einsum("...kij,...j->...ki", self.precisions, x)
        return self.constants + np.einsum("...ki,...i->...k", self.linear - 0.5 * images, x)

    def given(self, missing: IndexArray, observed: IndexArray) -> Conditioned:
        """Return the components of one mixture given some columns, for a batch of choices.

        Parameters
        ----------
        missing : ndarray of int, shape (n_patterns, n_missing)
        observed : ndarray of int, shape (n_patterns, n_observed)
            All other columns.
        """
        among_missing = _taken(self.precisions, missing, missing)
        across = _taken(self.precisions, missing, observed)
        linear = np.moveaxis(self.linear[:, missing], 0, 1)
        covariances, log_dets = inverses_of(among_missing)
        offsets = (covariances @ linear[..., None])[..., 0]
        gains = -covariances @ across
        transposed = np.swapaxes(across, -1, -2)
        squares = np.einsum("...i,...i->...", linear, offsets)
        marginal = NaturalComponents(
            self.constants + 0.5 * (squares + missing.shape[1] * LOG_2PI - log_dets),
            np.moveaxis(self.linear[:, observed], 0, 1) - (transposed @ offsets[..., None])[..., 0],
            _taken(self.precisions, observed, observed) + transposed @ gains,
        )
        return Conditioned(marginal, gains, offsets, covariances)


@dataclass(frozen=True, eq=False)
class RootedComponents:
    """Weighted Gaussian components by roots L of their covariances L L^t.

    Attributes
    ----------
    weights : ndarray, shape (n,)
    means : ndarray, shape (n, n_features)
    roots : ndarray, shape (n, n_features, n_features)
        Not necessarily triangular.
    """

    weights: Array
    means: Array
    roots: Array

    def __len__(self) -> int:
        return len(self.weights)

    def given(self, missing: IndexArray, observed: IndexArray) -> Conditioned:
        """Return the components given some columns: see `NaturalComponents.given`."""
        n_observed = observed.shape[1]
        rows = np.moveaxis(self.roots[:, np.concatenate([observed, missing], axis=1)], 0, 1)
        # The triangular root of the columns in this order: no covariance is multiplied out and factorised.
        root = np.swapaxes(np.linalg.qr(np.swapaxes(rows, -1, -2), mode="r"), -1, -2)
        first, across, rest = (
            root[..., :n_observed, :n_observed],
            root[..., n_observed:, :n_observed],
            root[..., n_observed:, n_observed:],
        )
        whiteners = np.linalg.inv(first)
        gains = across @ whiteners
        means = np.moveaxis(self.means[:, observed], 0, 1)
        offsets = np.moveaxis(self.means[:, missing], 0, 1) - (gains @ means[..., None])[..., 0]
        scaled = (whiteners @ means[..., None])[..., 0]
        log_dets = 2 * np.log(np.abs(np.diagonal(first, axis1=-2, axis2=-1))).sum(axis=-1)
        squares = np.einsum("...i,...i->...", scaled, scaled)
        transposed = np.swapaxes(whiteners, -1, -2)
        log_weights = np.log(np.maximum(self.weights, MIN_WEIGHT))
        marginal = NaturalComponents(
            log_weights - 0.5 * (n_observed * LOG_2PI + log_dets + squares),
            (transposed @ scaled[..., None])[..., 0],
            transposed @ whiteners,
        )
        return Conditioned(marginal, gains, offsets, rest @ np.swapaxes(rest, -1, -2))


def _taken(matrices: Array, rows: IndexArray, columns: IndexArray) -> Array:
    """Return parts of matrices, shape (n, m, m), for each choice: (n_patterns, n, n_rows, n_columns)."""
    return np.moveaxis(matrices[:, rows[:, :, None], columns[:, None, :]], 0, 1)


@dataclass(frozen=True, eq=False)
class Conditioned:
    """Components given the observed columns x: each missing column is gains x + offsets, and what is left.

    Attributes
    ----------
    marginal : NaturalComponents
        Of the observed columns, with leading shape (n_patterns, n).
    gains : ndarray, shape (n_patterns, n, n_missing, n_observed)
    offsets : ndarray, shape (n_patterns, n, n_missing)
    covariances : ndarray, shape (n_patterns, n, n_missing, n_missing)
        Of the missing columns given the observed ones.
    """

    marginal: NaturalComponents
    gains: Array
    offsets: Array
    covariances: Array

    def completed(self, counts: Array, first: Array, second: Array) -> tuple[Array, Array]:
        """Return the first and second moments of all columns, observed ones first [ghahramani1994].

        Parameters
        ----------
        counts : ndarray, shape (n_patterns, n)
            The sums of responsibilities.
        first : ndarray, shape (n_patterns, n, n_observed)
            The sums of x.
        second : ndarray, shape (n_patterns, n, n_observed, n_observed)
            The sums of x x^t.

        Returns
        -------
        first : ndarray, shape (n_patterns, n, n_features)
        second : ndarray, shape (n_patterns, n, n_features, n_features)
        """
        n_observed = first.shape[-1]
        of_missing = (self.gains @ first[..., None])[..., 0] + counts[..., None] * self.offsets
        across = self.gains @ second + self.offsets[..., :, None] * first[..., None, :]
        among = (
            across @ np.swapaxes(self.gains, -1, -2) + of_missing[..., :, None] * self.offsets[..., None, :]
        )
        among += counts[..., None, None] * self.covariances
        n_features = n_observed + of_missing.shape[-1]
        out = np.empty((*counts.shape, n_features, n_features))
        out[..., :n_observed, :n_observed] = second
        out[..., n_observed:, :n_observed] = across
        out[..., :n_observed, n_observed:] = np.swapaxes(across, -1, -2)
        out[..., n_observed:, n_observed:] = among
        return np.concatenate([first, of_missing], axis=-1), out
