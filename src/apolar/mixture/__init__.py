"""Mixtures of Gaussians: their parameters, covariance families and prior."""

from apolar.mixture.parameters import MixtureStatus, SphericalMixture
from apolar.mixture.prior import Prior

__all__ = ["MixtureStatus", "Prior", "SphericalMixture"]
