"""Mixtures of every family, as pictures read them, and their components as ellipses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.mixture import SphericalMixture
from apolar.mixture.families import Family, family

__all__ = ["ELLIPSES", "MixtureView"]

# The size of the ellipses, in standard deviations.
N_DEVIATIONS = 2
ELLIPSES = "Ellipses at 2 standard deviations hold 86% of a Gaussian."


@dataclass(frozen=True, eq=False)
class MixtureView:
    """The parameters of a mixture.

    Attributes
    ----------
    weights : ndarray, shape (n_components,)
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray
        In the shape of the family.
    family : Family
    """

    weights: Array
    means: Array
    covariances: Array
    family: Family

    @classmethod
    def of(cls, model: Any) -> MixtureView:
        """Return the parameters of a GaussianMixture, fitted, or of a SphericalMixture."""
        if isinstance(model, SphericalMixture):
            return cls(model.weights, model.means, model.covariances, family(model.covariance_type))
        if not hasattr(model, "covariance_type"):
            raise TypeError(
                f"model must be a GaussianMixture or SphericalMixture, not {type(model).__name__}."
            )
        if not hasattr(model, "means_"):
            raise ValueError("The model is not fitted: call model.fit(X) first.")
        covariances = np.asarray(model.covariances_)
        return cls(
            np.asarray(model.weights_), np.asarray(model.means_), covariances, family(model.covariance_type)
        )

    def check_columns(self, n_features: int) -> MixtureView:
        """Return the mixture, if it has as many columns as X."""
        if self.means.shape[1] != n_features:
            raise ValueError(
                f"The model has {self.means.shape[1]} columns and X {n_features}: pass the X of the fit, and "
                "choose what is shown with columns=."
            )
        return self

    @property
    def shares(self) -> Array:
        """The weights of the components among themselves, without that of noise."""
        return self.weights / self.weights.sum()

    @property
    def mean(self) -> Array:
        """The mean of the rows that are no noise, shape (n_features,)."""
        return self.shares @ self.means

    @property
    def variances(self) -> Array:
        """The variance of each column within each component, shape (n_components, n_features)."""
        variances = self.family.diagonals(self.family.per_component(self.covariances))
        return np.broadcast_to(variances.reshape(len(variances), -1), self.means.shape)

    @property
    def between(self) -> Array:
        """The variance of the means, column by column, shape (n_features,)."""
        return self.shares @ (self.means - self.mean) ** 2

    @property
    def total(self) -> Array:
        """The variance of all rows, column by column, shape (n_features,)."""
        return self.between + self.shares @ self.variances

    @property
    def share_between(self) -> Array:
        """Which part of the variance of each column the means account for, shape (n_features,)."""
        total = self.total
        return np.divide(self.between, total, out=np.zeros_like(total), where=total > 0)

    def separating_columns(self, most: int) -> list[int]:
        """Return the columns in which the means differ most, for the spread of the column, in their order."""
        return sorted(np.argsort(-self.share_between, kind="stable")[:most].tolist())

    @property
    def covariance(self) -> Array:
        """The covariance of all rows, shape (n_features, n_features)."""
        weights, n_features = self.shares, self.means.shape[1]
        within = self.family.repeated(self.family.average(self.covariances, weights), 1)
        offsets = np.sqrt(weights)[:, None] * (self.means - self.mean)
        return offsets.T @ offsets + self.family.matrices(within, 1, n_features)[0]

    def outlines(self, columns: tuple[int, int], n_points: int = 73) -> Array:
        """Return the outline of each component in two columns, shape (n_components, n_points, 2)."""
        marginal = self.family.marginal(self.covariances, list(columns))
        covariances = self.family.matrices(marginal, len(self.means), 2)
        spreads, directions = np.linalg.eigh(covariances)
        angles = np.linspace(0.0, 2 * np.pi, n_points)
        circle = N_DEVIATIONS * np.column_stack([np.cos(angles), np.sin(angles)])
        roots = directions * np.sqrt(np.maximum(spreads, 0.0))[:, None, :]
        return self.means[:, None, list(columns)] + circle @ roots.swapaxes(1, 2)
