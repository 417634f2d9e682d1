"""Components with long tails: multivariate t distributions, as Gaussian ones whose rows count less when far.

The density of a t distribution is a function of the distance of a row, which that of the Gaussian with the
same mean and scale matrix tells. In EM [peel2000] a row at the squared distance D counts by the factor
(dof + m) / (dof + D) of its responsibility.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from apolar._core.arrays import Array
from apolar._core.namespaces import namespace, to_device_of

__all__ = ["MAX_DOF", "MIN_DOF", "START_DOF", "TailTerms", "Tails", "dof_information", "dof_step"]

# The limits of degrees of freedom that are estimated: those of the Cauchy distribution, and the number from
# which on the tails count as Gaussian [andrews2011].
MIN_DOF, MAX_DOF = 1.0, 200.0
# Those that a run begins with.
START_DOF = 8.0


class TailTerms(NamedTuple):
    """What components with long tails say about rows, each of shape (n_components, n_rows).

    Attributes
    ----------
    logits : array
        The logarithms of the weighted densities.
    factors : array
        By how much each row counts in the sums, relative to its responsibility.
    slopes : array
        The derivatives of the log-densities by the degrees of freedom.
    """

    logits: Any
    factors: Any
    slopes: Any


@dataclass(frozen=True, eq=False)
class Tails:
    """The tails of some components, which are given by the logits of Gaussian ones.

    Attributes
    ----------
    dof : ndarray, shape (..., n_components)
        Degrees of freedom. Infinite for noise, which has the same density everywhere.
    peaks : ndarray, shape (..., n_components)
        The largest logit of each Gaussian component: that at its mean.
    n_features : int
    """

    dof: Array
    peaks: Array
    n_features: int

    @property
    def flat(self) -> Tails:
        """The tails of all components of a batch along one axis."""
        return Tails(self.dof.ravel(), self.peaks.ravel(), self.n_features)

    @property
    def numbers(self) -> Array:
        """What the extension computes with, shape (n_components, 4).

        The peaks of the Gaussian and of the t density, degrees of freedom and the exponent of the latter.
        """
        dof = np.where(np.isinf(self.dof), 1.0, self.dof)
        shifts = np.where(np.isinf(self.dof), 0.0, _log_shifts(dof, np.array(self.n_features)))
        return np.stack([self.peaks, self.peaks + shifts, dof, (dof + self.n_features) / 2], axis=-1)

    def terms(self, logits: Any, peaks: Array | None = None, n_observed: Array | None = None) -> TailTerms:
        """Return what the components say about rows of these Gaussian logits, shape (n_components, n_rows).

        Parameters
        ----------
        logits : array
        peaks : ndarray, shape (n_components, n_rows), optional
            The largest logit of a row with the same missing values.
        n_observed : ndarray of int, shape (n_rows,), optional
            How many values of each row are known.
        """
        xp, n_all = namespace(logits), np.arange(self.n_features + 1)
        known = [self.n_features] if n_observed is None else n_observed.astype(np.intp)
        is_noise = np.isinf(self.dof)[:, None]
        dof = np.where(is_noise, 1.0, self.dof[:, None])
        of_counts = (
            np.where(is_noise, 0.0, _log_shifts(dof, n_all))[:, known],
            (digamma((dof + n_all) / 2) - digamma(dof / 2) - n_all / dof)[:, known],
            np.broadcast_to((dof + n_all)[:, known], (len(dof), len(known))),
        )
        shifts, constants, exponents = (to_device_of(np.ascontiguousarray(a), logits) for a in of_counts)
        largest = to_device_of(np.ascontiguousarray(self.peaks[:, None] if peaks is None else peaks), logits)
        degrees = to_device_of(dof, logits)
        distances = xp.clip(2 * (largest - logits), 0.0, None)
        logs, factors = xp.log1p(distances / degrees), exponents / (degrees + distances)
        slopes = 0.5 * (constants - logs + factors * distances / degrees)
        return TailTerms(largest + shifts - 0.5 * exponents * logs, factors, slopes)

    def slope_sums(self, counts: Array, weighted: Array, logs: Array) -> Array:
        """Return the derivatives of the log-likelihood by degrees of freedom, of rows without missing values.

        Parameters
        ----------
        counts, weighted, logs : ndarray, shape (n_components,)
            The sums of responsibilities, of these times factors, and times log(1 + D / dof).
        """
        dof = np.where(np.isinf(self.dof), 1.0, self.dof)
        rates = digamma((dof + self.n_features) / 2) - digamma(dof / 2) + 1
        return np.asarray(0.5 * (counts * rates - logs - weighted))


def _log_shifts(dof: Array, n_features: Array) -> Array:
    """Return the logarithm of the density at the mean, relative to that of the Gaussian."""
    return np.asarray(gammaln((dof + n_features) / 2) - gammaln(dof / 2) - n_features / 2 * np.log(dof / 2))


def dof_information(dof: Array, n_features: int) -> Array:
    """Return the Fisher information of one row about the logarithm of degrees of freedom [lange1989]."""
    curvature = 0.25 * (polygamma(1, dof / 2) - polygamma(1, (dof + n_features) / 2))
    total = dof + n_features
    other = n_features * (total + 4) / (2 * dof * total * (total + 2))
    return np.asarray(dof**2 * np.maximum(curvature - other, 0.0))


def dof_step(dof: Array, slopes: Array, counts: Array, n_features: int, *, is_common: bool) -> Array:
    """Return degrees of freedom after one step of scoring.

    Parameters
    ----------
    dof : ndarray, shape (..., n_components)
    slopes : ndarray, shape (..., n_components)
        The derivatives of the log-likelihood.
    counts : ndarray, shape (..., n_components)
        The rows of each component.
    n_features : int
    is_common : bool
        Whether all components have the same.
    """
    gradient = slopes * dof
    # At least that of one row of a normal distribution about its mean: where tails are nearly Gaussian the
    # likelihood is flat.
    information = counts * dof_information(dof, n_features)
    if is_common:
        gradient, information = (each.sum(axis=-1, keepdims=True) for each in (gradient, information))
    change = np.clip(gradient / np.maximum(information, 1.0), -1.0, 1.0)
    return np.clip(dof * np.exp(change), MIN_DOF, MAX_DOF)
