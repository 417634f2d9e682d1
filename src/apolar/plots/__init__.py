"""Pictures of data, clusters and fits; they need matplotlib."""

from apolar.plots.convergence import convergence
from apolar.plots.profiles import profiles
from apolar.plots.scatter import scatter_matrix
from apolar.plots.selection import bic_curves
from apolar.plots.spectrum import spectrum
from apolar.plots.uncertainty import uncertainty

__all__ = ["bic_curves", "convergence", "profiles", "scatter_matrix", "spectrum", "uncertainty"]
