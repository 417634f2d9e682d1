"""Pictures of data, clusters and fits; they need matplotlib."""

from apolar.plots.curves import bic_curves as bic_curves
from apolar.plots.curves import convergence as convergence
from apolar.plots.curves import entropies as entropies
from apolar.plots.curves import spectrum as spectrum
from apolar.plots.density import density as density
from apolar.plots.density import profiles as profiles
from apolar.plots.density import quantiles as quantiles
from apolar.plots.scatter import scatter_matrix as scatter_matrix
from apolar.plots.scatter import uncertainty as uncertainty
