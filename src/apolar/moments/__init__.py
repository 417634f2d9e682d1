"""Moments of rows: additive sums, central moments, and those in the signal directions of a mixture."""

from apolar.moments.signal import (
    ComponentCount,
    SignalMoments,
    n_components_from_spectrum,
    signal_moments,
)
from apolar.moments.sketch import MomentSketch, central_moments
from apolar.moments.sums import CentralMoments

__all__ = [
    "CentralMoments",
    "ComponentCount",
    "MomentSketch",
    "SignalMoments",
    "central_moments",
    "n_components_from_spectrum",
    "signal_moments",
]
