"""Pictures of data, clusters and fits; they need matplotlib."""

from apolar.plots.scatter import scatter_matrix

__all__ = ["scatter_matrix"]
