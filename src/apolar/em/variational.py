"""Variational inference: mixtures whose parameters have a distribution, under conjugate priors.

The weights are from a Dirichlet distribution or process, and each component is from a Gaussian-Wishart
distribution [attias2000; blei2006]. The expected log-densities of a row under the posterior are those of an
ordinary mixture, whose weights only do not add up to one: E-steps are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, digamma, gammaln

from apolar._core.arrays import Array
from apolar._core.constants import MIN_WEIGHT
from apolar.em.problem import Problem
from apolar.em.result import FitStatus
from apolar.mixture.families import Family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters

__all__ = [
    "Concentration",
    "ConjugatePrior",
    "Posterior",
    "PosteriorFit",
    "expected_log_weights",
    "log_density_shifts",
    "mean_weights",
    "run_variational",
]

Concentration = Array | tuple[Array, Array]
"""Of the weights: that of a Dirichlet distribution, or the two of each fraction of the rest of a stick."""


def mean_weights(concentration: Concentration) -> Array:
    """Return the expected weights, with sum one."""
    if not isinstance(concentration, tuple):
        return np.asarray(concentration / concentration.sum())
    taken, left = concentration
    parts = left / (taken + left)
    weights = (1 - parts) * np.concatenate([[1.0], np.cumprod(parts[:-1])])
    return np.asarray(weights / weights.sum())


def expected_log_weights(concentration: Concentration) -> Array:
    """Return the expected logarithms of the weights."""
    if not isinstance(concentration, tuple):
        return np.asarray(digamma(concentration) - digamma(concentration.sum()))
    taken, left = concentration
    total = digamma(taken + left)
    of_rest = np.cumsum(digamma(left) - total)[:-1]
    return np.asarray(digamma(taken) - total + np.concatenate([[0.0], of_rest]))


def log_density_shifts(mean_precision: Array, dof: Array, n_features: int) -> Array:
    """Return expected log-densities of the components less those at the mean precision matrices."""
    halves = (np.asarray(dof)[..., None] - np.arange(n_features)) / 2
    log_dets = (digamma(halves) - np.log(np.asarray(dof) / 2)[..., None]).sum(axis=-1)
    return np.asarray(0.5 * (log_dets - n_features / mean_precision))


@dataclass(frozen=True, eq=False)
class ConjugatePrior:
    """The prior of a mixture, in whitened coordinates.

    Attributes
    ----------
    weight_concentration : float
    mean_precision : float
        How many rows the prior mean counts as.
    mean : ndarray, shape (n_features,)
    dof : float
        Of the Wishart distribution of precision matrices.
    covariance : ndarray
        One of the family: the inverse of the scale of the Wishart distribution.
    errors : ndarray
        One of the family: added to the covariance of the rows of each component.
    is_process : bool
        Whether the weights are from a Dirichlet process.
    """

    weight_concentration: float
    mean_precision: float
    mean: Array
    dof: float
    covariance: Array
    errors: Array
    is_process: bool

    def posterior(self, family: Family, stats: SufficientStats) -> Posterior:
        """Return the posterior for rows of these sums: the M-step."""
        counts, n_features = stats.counts, stats.n_features
        concentration: Concentration = self.weight_concentration + counts
        if self.is_process:
            later = np.concatenate([np.cumsum(counts[:0:-1])[::-1], [0.0]])
            concentration = 1.0 + counts, self.weight_concentration + later
        mean_precision = self.mean_precision + counts
        offsets = stats.first / np.maximum(counts, MIN_WEIGHT)[:, None] - self.mean
        scatter = family.scatter(stats) + family.between(
            offsets, self.mean_precision * counts / mean_precision
        )
        # Where components share a covariance, it is from the rows of one of them, on average.
        shares = len(counts) if family.shares_covariance else 1
        n_rows, scatter = (family.pooled(each, axis=0) / shares for each in (counts, scatter))
        dof = self.dof + n_rows
        scatter = self.covariance + scatter / family.divisor(np.ones(()), n_features)
        covariances = (scatter + family.each(n_rows) * self.errors) / family.each(dof)
        means = self.mean + (counts / mean_precision)[:, None] * offsets
        return Posterior(concentration, mean_precision, dof, means, covariances)


@dataclass(frozen=True, eq=False)
class Posterior:
    """The distribution of the parameters of a mixture, in whitened coordinates.

    Attributes
    ----------
    concentration : ndarray, shape (n_components,), or tuple of two
    mean_precision : ndarray, shape (n_components,)
    dof : ndarray, shape (n_components,), or () where components share a covariance
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray
        Of the family: the inverses of the expected precision matrices.
    """

    concentration: Concentration
    mean_precision: Array
    dof: Array
    means: Array
    covariances: Array

    @property
    def expected(self) -> WhitenedParameters:
        """The mixture whose weighted log-densities are those expected: its weights do not add up to one."""
        shifts = log_density_shifts(self.mean_precision, self.dof, self.means.shape[1])
        weights = np.exp(expected_log_weights(self.concentration) + shifts)
        return WhitenedParameters(weights, self.means, self.covariances)

    def lower_bound(self, family: Family, entropy: float, log_det: float) -> float:
        """Return the lower bound of the log-evidence, up to a constant, as scikit-learn does.

        Parameters
        ----------
        family : Family
        entropy : float
            Of the responsibilities, summed over the rows, whose M-step this is.
        log_det : float
            Of the whitening.
        """
        n_components, n_features = self.means.shape
        log_dets = family.log_det(self.covariances, n_features)
        halves = (np.asarray(self.dof)[..., None] - np.arange(n_features)) / 2
        constants = log_det - 0.5 * log_dets - 0.5 * n_features * np.log(self.dof / 2)
        wisharts = self.dof * constants + gammaln(halves).sum(axis=-1)
        of_wisharts = float(np.sum(wisharts)) * (n_components if family.shares_covariance else 1)
        if isinstance(self.concentration, tuple):
            of_weights = float(np.sum(betaln(*self.concentration)))
        else:
            of_weights = float(gammaln(self.concentration).sum() - gammaln(self.concentration.sum()))
        return (
            entropy + of_wisharts + of_weights - 0.5 * n_features * float(np.log(self.mean_precision).sum())
        )


@dataclass(frozen=True, eq=False)
class PosteriorFit:
    """Where a run of variational inference starts, and its result.

    Attributes
    ----------
    posterior : Posterior
    start : str
        The name of the start it came from.
    status : FitStatus
    lower_bounds : tuple of float
        After each pass.
    """

    posterior: Posterior
    start: str
    status: FitStatus = FitStatus.NOT_RUN
    lower_bounds: tuple[float, ...] = ()

    @property
    def lower_bound(self) -> float:
        """The lower bound after the last pass."""
        return self.lower_bounds[-1] if self.lower_bounds else -np.inf


def run_variational(
    problem: Problem,
    prior: ConjugatePrior,
    start: PosteriorFit,
    max_iter: int,
    tol: float,
    callback: Callable[[PosteriorFit], object],
) -> PosteriorFit:
    """Return the posterior after passes over the rows: each is an E-step and the posterior of its sums.

    Parameters
    ----------
    problem : Problem
        Without missing values or noise.
    prior : ConjugatePrior
    start : PosteriorFit
        If a run is continued, with its lower bounds.
    max_iter : int
    tol : float
        The run ends where the lower bound changes by less.
    callback : callable
        Called after each pass.
    """
    family, last, known = problem.family, start.lower_bound, PosteriorFit(start.posterior, start.start)
    for _ in range(max_iter):
        expected = known.posterior.expected
        batch_of_stats, likelihood = problem.e_step(expected[None])
        stats: SufficientStats = batch_of_stats[0]
        # Minus the sum of r log r: logits are linear in the statistics of a row.
        entropy = float(likelihood[0] - np.vdot(problem.natural(expected), stats.array))
        posterior = prior.posterior(family, stats)
        bound = posterior.lower_bound(family, entropy, problem.whitening.log_det)
        if not np.isfinite(bound):
            raise ValueError(
                "Fitting the mixture model failed because some components have ill-defined empirical "
                "covariance: increase reg_covar or covariance_prior, or ask for fewer components."
            )
        is_end = abs(bound - last) < tol
        status = FitStatus.CONVERGED if is_end else FitStatus.MAX_ITER
        last, known = bound, PosteriorFit(posterior, start.start, status, (*known.lower_bounds, bound))
        callback(known)
        if is_end:
            break
    return known
