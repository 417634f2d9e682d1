"""The conjugate prior that keeps components from collapsing on a few rows."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from apolar._core.arrays import Array, frozen
from apolar._core.checks import positive_number

if TYPE_CHECKING:
    from apolar.mixture.families import Family
    from apolar.mixture.parameters import SufficientStats


class PriorTerms(NamedTuple):
    """What a prior adds to the M-step, in whitened coordinates.

    Attributes
    ----------
    shrinkage : float
        The number of rows, at the mean of all rows, that it adds to each component.
    scatter : ndarray
        Added to the scatter of each covariance.
    divisor : float
        Added to the divisor of each covariance.
    mean_divisor : float
        Added to the divisor of each covariance for every component that has it, by the prior of the mean.
    constant : float or ndarray, default=0.0
        Added to the logarithm of the prior of a mixture.
    """

    shrinkage: float
    scatter: Array
    divisor: float | Array
    mean_divisor: float
    constant: float | Array = 0.0


@dataclass(frozen=True)
class Prior:
    """A weak conjugate prior on means and covariances, in the manner of [fraley2007].

    It is relative to the data: covariances are shrunk towards a fraction of the
    covariance of all rows. It has the weight of a few rows, so that it hardly
    changes large components, and keeps the covariance of a component of one or
    two rows from vanishing.

    Attributes
    ----------
    shrinkage : float, default=0.0
        The number of rows, at the mean of all rows, that are added to each
        component; 0.01 in mclust. Any number above zero widens a component by
        the square of its distance from the mean of all rows.
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

    shrinkage: float = 0.0
    dof: float | None = None
    scale: float | None = None

    compares_by_evidence: ClassVar[bool] = False
    """Whether optima are compared by evidence, and not by likelihood."""

    def __post_init__(self) -> None:
        if self.shrinkage != 0:
            positive_number(self.shrinkage, "shrinkage")
        for name in ("dof", "scale"):
            value = getattr(self, name)
            if value is not None:
                positive_number(value, name)

    def terms(self, family: Family, n_components: int, n_features: int) -> PriorTerms:
        """Return what the prior adds to the M-step of a family; a prior of another form has its own.

        This one asks the family, which knows the usual degrees of freedom and scale of its covariances.
        """
        return _conjugate_terms(family, self.shrinkage, self.dof, self.scale, n_components, n_features)

    def adapted_to(
        self,
        family: Family,  # noqa: ARG002
        stats: SufficientStats,  # noqa: ARG002
        *,
        by_evidence: bool = False,  # noqa: ARG002
    ) -> Prior:
        """Return the prior for components of these sufficient statistics; here it is the same for all."""
        return self

    def shrinks(self, family: Family, n_components: int) -> bool:  # noqa: ARG002 (this one never does)
        """Return whether `adapted_to` gives a prior that shrinks covariances towards a common one."""
        return False

    def of_strength(self, strength: float) -> Prior:  # noqa: ARG002
        """Return the prior of a strength that is known; this one has none."""
        return self

    @property
    def conjugate(self) -> Prior:
        """The prior to use where evidence is misleading."""
        return self

    def scaled(self, n_components: int, n_features: int) -> tuple[float, float, float]:
        """Return shrinkage, degrees of freedom and scale, with the defaults for `n_features` columns."""
        dof = n_features + 2.0 if self.dof is None else float(self.dof)
        scale = n_components ** (-2.0 / n_features) if self.scale is None else float(self.scale)
        return float(self.shrinkage), dof, scale


@functools.lru_cache(maxsize=64)
def _conjugate_terms(
    family: Family,
    shrinkage: float,
    dof: float | None,
    scale: float | None,
    n_components: int,
    n_features: int,
) -> PriorTerms:
    """Return the terms of the conjugate prior, which EM asks for in each step."""
    terms = family.prior_terms(Prior(shrinkage, dof, scale), n_components, n_features)
    return terms._replace(scatter=frozen(terms.scatter))


PRIORS: dict[str, type[Prior]] = {"Prior": Prior}
"""The priors that a file can name. A new one is a subclass with `terms` of its own, and a line here."""
