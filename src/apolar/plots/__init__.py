"""Pictures of data, clusters and fits; they need matplotlib."""

# All plots: a new one is a file, and a line here.
from apolar.plots.convergence import convergence as convergence
from apolar.plots.profiles import profiles as profiles
from apolar.plots.scatter import scatter_matrix as scatter_matrix
from apolar.plots.selection import bic_curves as bic_curves
from apolar.plots.spectrum import spectrum as spectrum
from apolar.plots.uncertainty import uncertainty as uncertainty
