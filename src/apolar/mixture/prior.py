"""The conjugate prior that keeps components from collapsing on a few rows."""

from dataclasses import dataclass

from apolar._core.checks import positive_number


@dataclass(frozen=True)
class Prior:
    """A weak conjugate prior on means and covariances, in the manner of [fraley2007].

    It is relative to the data: means are shrunk towards the mean of all rows, and
    covariances towards a fraction of the covariance of all rows. It has the weight
    of a few rows, so that it hardly changes large components, and keeps the
    covariance of a component of one or two rows from vanishing.

    Attributes
    ----------
    shrinkage : float, default=0.01
        The number of rows that the prior mean counts as.
    dof : float or None, default=None
        Degrees of freedom of the inverse Wishart (or inverse gamma) prior.
        None: n_features + 2 for spherical covariances, as in mclust, 3 per
        column for diagonal ones; for full ones the prior counts as one row.
    scale : float or None, default=None
        The prior scale as a fraction of the variance of all rows. None:
        n_components^(-2 / n_features), and n_components^(-2) for diagonal
        covariances: the variance of one of as many equal parts of the data; a
        hundredth of that for full covariances, where more would widen thin
        clusters.
    """

    shrinkage: float = 0.01
    dof: float | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        for name in ("shrinkage", "dof", "scale"):
            value = getattr(self, name)
            if value is not None:
                positive_number(value, name)

    def scaled(self, n_components: int, n_features: int) -> tuple[float, float, float]:
        """Return shrinkage, degrees of freedom and scale, with the defaults for `n_features` columns."""
        dof = n_features + 2.0 if self.dof is None else float(self.dof)
        scale = n_components ** (-2.0 / n_features) if self.scale is None else float(self.scale)
        return float(self.shrinkage), dof, scale
