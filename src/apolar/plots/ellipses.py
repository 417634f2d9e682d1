"""The components of a mixture, as ellipses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.plots.mixtures import MixtureView

__all__ = ["CAPTION", "MarginalComponents", "draw_ellipses", "marginal_components"]

# The size of the ellipses, in standard deviations.
N_DEVIATIONS = 2

CAPTION = "Ellipses at 2 standard deviations hold 86% of a Gaussian."
"""What the ellipses are, in words."""


@dataclass(frozen=True, eq=False)
class MarginalComponents:
    """The components of a mixture in k columns: means (r, k) and covariances (r, k, k)."""

    means: Array
    covariances: Array


def marginal_components(model: Any, positions: list[int], n_features: int) -> MarginalComponents:
    """Return the components of a model in some columns.

    Parameters
    ----------
    model : GaussianMixture or SphericalMixture
        Fitted.
    positions : list of int, length k
        The numbers of the columns.
    n_features : int
        How many columns X has, and the model must have.
    """
    mixture = MixtureView.of(model).checked(n_features)
    family, means = mixture.family, mixture.means[:, positions]
    covariances = family.marginal(mixture.covariances, positions)
    return MarginalComponents(means, family.matrices(covariances, len(means), len(positions)))


def draw_ellipses(
    panel: Any, components: MarginalComponents, axes: tuple[int, int], colours: Sequence[str]
) -> None:
    """Draw the outlines of all components into a panel.

    Parameters
    ----------
    panel : matplotlib Axes
    components : MarginalComponents
    axes : pair of int
        The column to the right, and that upwards.
    colours : sequence of str, length r
    """
    from matplotlib.patches import Ellipse
    from matplotlib.patheffects import withStroke

    # A white rim, so that an ellipse shows among points of its own colour.
    rim = withStroke(linewidth=2.4, foreground="white")
    pair = list(axes)
    means, covariances = components.means[:, pair], components.covariances[:, pair][:, :, pair]
    for mean, covariance, colour in zip(means, covariances, colours, strict=True):
        # Largest axis first.
        spread, directions = np.linalg.eigh(covariance)
        width, height = 2 * N_DEVIATIONS * np.sqrt(np.maximum(spread[::-1], 0.0))
        angle = np.degrees(np.arctan2(directions[1, 1], directions[0, 1]))
        ellipse = Ellipse(tuple(mean), width, height, angle=angle, fill=False, edgecolor=colour)
        ellipse.set(linewidth=1.2, path_effects=[rim], zorder=3)
        panel.add_patch(ellipse)
