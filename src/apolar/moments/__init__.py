"""Moments of rows: additive sums, and the moment tensors of a mixture."""

from apolar.moments.central import CentralMoments
from apolar.moments.signal import (
    ComponentCount,
    SignalMoments,
    n_components_from_spectrum,
    signal_moments,
)
from apolar.moments.sketch import MomentSketch, central_moments
from apolar.moments.spherical import Moments, spherical_moments

__all__ = [
    "CentralMoments",
    "ComponentCount",
    "MomentSketch",
    "Moments",
    "SignalMoments",
    "central_moments",
    "n_components_from_spectrum",
    "signal_moments",
    "spherical_moments",
]
