"""Mixtures of Gaussians: their parameters."""

from apolar.mixture.parameters import MixtureStatus, SphericalMixture

__all__ = ["MixtureStatus", "SphericalMixture"]
