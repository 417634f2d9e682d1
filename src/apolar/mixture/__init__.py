"""Mixtures of Gaussians: their parameters, covariance families and prior."""

from apolar.mixture import factors  # noqa: F401 (adds its families to the table)
from apolar.mixture.prior import Prior
from apolar.mixture.recovered import MixtureStatus, MomentMixture, SphericalMixture

__all__ = ["MixtureStatus", "MomentMixture", "Prior", "SphericalMixture"]
