"""What is known before a fit: the components of some rows, rows that belong together, and parameters.

A row of a known component has the weighted density of that component instead of that of the mixture. The
rows of a group are in one component: their density is the sum, over the components, of the products of their
weighted densities [shental2004]. EM then maximises the joint likelihood of the rows and of what is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from apolar._core.arrays import Array, IndexArray
from apolar.em.blocks import posteriors
from apolar.mixture.parameters import SufficientStats, WhitenedParameters

__all__ = ["UNKNOWN", "HeldParameters", "Known", "nearest_order"]

UNKNOWN = -1
"""The label of rows whose component is not known, and the group of those that are in none."""


@dataclass(frozen=True, eq=False)
class HeldParameters:
    """Parameters that the M-step keeps at given values, in whitened coordinates.

    Attributes
    ----------
    weights : ndarray, shape (n_components,), or None
        None where they are estimated, as are means and covariances that are NaN.
    means : ndarray, shape (n_components, n_features), or None
    covariances : ndarray or None
        In the shape of the family.
    n_components : int
    shares_covariance : bool
        Whether components share one covariance.
    """

    weights: Array | None = None
    means: Array | None = None
    covariances: Array | None = None
    n_components: int = 0
    shares_covariance: bool = False

    @property
    def is_any(self) -> bool:
        """Whether any parameter is kept."""
        return not (self.weights is None and self.means is None and self.covariances is None)

    def of_components(self, n_components: int) -> HeldParameters:
        """Return what is kept in a mixture with more components: nothing of those that it has more."""
        n_more = n_components - self.n_components
        if n_more <= 0:
            return self

        def pad(given: Array | None) -> Array | None:
            if given is None:
                return None
            return np.concatenate([given, np.full((n_more, *given.shape[1:]), np.nan)])

        covariances = self.covariances if self.shares_covariance else pad(self.covariances)
        return replace(self, n_components=n_components, means=pad(self.means), covariances=covariances)

    def put_into(self, parameters: WhitenedParameters) -> WhitenedParameters:
        """Return mixtures, one or a batch, with these values."""
        known = self.of_components(parameters.n_components)

        def held(name: str) -> Array:
            given, estimated = getattr(known, name), getattr(parameters, name)
            return estimated if given is None else np.where(np.isnan(given), estimated, given)

        # Weights are those of all components together.
        kept = ("weights", "means", "covariances")[int(parameters.n_components > self.n_components) :]
        return replace(parameters, **{name: held(name) for name in kept})


@dataclass(frozen=True, eq=False)
class Known:
    """What is known about the rows of a fit, and of its parameters.

    Attributes
    ----------
    labels : ndarray of int, shape (n_rows,)
        The component of each row, or UNKNOWN.
    groups : ndarray of int, shape (n_rows,)
        The group of each row, or UNKNOWN. The rows of a group have the same label.
    held : HeldParameters
    """

    labels: IndexArray
    groups: IndexArray
    held: HeldParameters = field(default_factory=HeldParameters)

    @property
    def names_components(self) -> bool:
        """Whether something is known about certain components, which then keep their order."""
        return self.held.is_any or bool(np.any(self.labels != UNKNOWN))

    @property
    def rows(self) -> IndexArray:
        """The positions of the rows about which something is known."""
        return np.flatnonzero((self.labels != UNKNOWN) | (self.groups != UNKNOWN))

    def taken(self, positions: IndexArray) -> Known:
        """Return what is known about some of the rows."""
        return replace(self, labels=self.labels[positions], groups=self.groups[positions])

    def mask(self, logits: Array) -> Array:
        """Return logits, shape (n_mixtures, n, n_rows), with only its own for a row of known component.

        A component that these mixtures do not have, as those of some starts, says nothing about its rows.
        """
        is_other = self.labels != np.arange(logits.shape[1])[:, None]
        is_known = (self.labels != UNKNOWN) & (self.labels < logits.shape[1])
        return np.where(is_other & is_known, -np.inf, logits)

    def posteriors(self, logits: Array, weights: Array | None) -> tuple[Array, Array]:
        """Return responsibilities and log-densities of rows with weights, as `apolar.em.blocks.posteriors`.

        The log-density of a group is divided among its rows.
        """
        responsibilities, densities = posteriors(self.mask(logits))
        # Those of a group with a label have it.
        members = np.flatnonzero((self.groups != UNKNOWN) & (self.labels == UNKNOWN))
        if len(members):
            members = members[np.argsort(self.groups[members], kind="stable")]
            _, starts, of_group = np.unique(self.groups[members], return_index=True, return_inverse=True)
            of_rows = np.ones(len(members)) if weights is None else weights[members]
            together = np.add.reduceat(logits[:, :, members] * of_rows, starts, axis=2)
            shared, joint = posteriors(together)
            responsibilities[:, :, members] = shared[:, :, of_group]
            densities[:, members] = (joint / np.add.reduceat(of_rows, starts))[:, of_group]
        return responsibilities, densities

    def targets(self, stats: SufficientStats) -> Array:
        """Return where components are known to be, shape (n_components, n_features), NaN if it is not known.

        That is the mean that is kept, or else that of the rows of known component, whose statistics these
        are.
        """
        counts = stats.counts[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            of_rows = np.where(counts > 0, stats.first / counts, np.nan)
        given = self.held.of_components(len(of_rows)).means
        return of_rows if given is None else np.where(np.isnan(given), of_rows, given)


def nearest_order(means: Array, targets: Array) -> IndexArray:
    """Return the order in which components, of at least as many means as targets, are nearest to these."""
    squares = ((means - targets[:, None]) ** 2).sum(axis=2)
    # Those without a target may be anywhere.
    order = linear_sum_assignment(np.nan_to_num(squares))[1]
    return np.concatenate([order, np.setdiff1d(np.arange(len(means)), order)])
