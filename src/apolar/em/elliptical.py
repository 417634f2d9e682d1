"""How likely rows are where components are elliptical, and of any form that falls from the centre.

Where clusters have long tails, an optimum with a narrow component for the core of a cluster and a wide one
for its tail is likelier than the optimum that separates two clusters; and where they end abruptly, as disks
do, thin components along their edges are. For this comparison each component becomes a mixture of laws of its
mean and shape: Gaussians of several sizes, for tails, and uniform ellipsoids, for edges. Every law whose
density falls from the centre is a mixture of such ellipsoids. The shares of the laws are those that fit best,
the same for all components. A core and its tail then count as one cluster, and the places and shapes of the
components decide.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from apolar._core.arrays import Array
from apolar._core.constants import MIN_LOGIT
from apolar._core.namespaces import to_numpy
from apolar._core.settings import SETTINGS
from apolar.em.blocks import Block, posteriors
from apolar.em.problem import Problem
from apolar.mixture.parameters import WhitenedParameters

__all__ = ["elliptical_gains"]

# The sizes: logarithms of factors of the covariances, from the first to the last, or further if rows are; the
# largest step between two, and that in deviations of the logarithm of a Gaussian squared distance. Ellipsoids
# are larger and smaller than the one with the same covariance by up to the latter, and there are this many
# (benchmarks/suite).
FIRST_SIZE, LAST_SIZE, SIZE_STEP, DEVIATIONS_STEP, N_ELLIPSOIDS = -4.0, 8.0, 0.7, 2.0, 21
# Steps of EM for the shares, and distances at which the density of a component is computed.
N_STEPS, N_DISTANCES = 30, 400


def elliptical_gains(problem: Problem, parameters: WhitenedParameters, *, has_edges: bool = True) -> Array:
    """Return by how much the log-density of each row rises if components have any form that falls.

    Parameters
    ----------
    problem : Problem
        A sample of the rows.
    parameters : WhitenedParameters
        One mixture.
    has_edges : bool, default=True
        Whether components may end abruptly; if not, only their tails are free.

    Returns
    -------
    gains : ndarray, shape (n_rows,)
    """
    exact = problem.exact
    natural = exact.natural(parameters)
    tails, peaks = exact.family.tails(parameters, natural), exact.family.peaks(parameters, natural)
    n, weights = parameters.n_components, problem.row_weights()

    def known(block: Block) -> tuple[Array, ...]:
        logits = np.array(to_numpy(block.logits(natural)))
        largest, n_observed = block.peaks(natural, peaks) or (peaks[:, None], np.full(1, problem.n_features))
        seen = logits if tails is None else tails.terms(logits, largest, n_observed).logits
        density = posteriors(np.array(seen)[None])[1][0]
        shape = n, block.n_rows
        of_rows = np.broadcast_to(largest[:n], shape), np.broadcast_to(n_observed, shape[1:])
        return logits, *of_rows, density

    parts = zip(*problem.exact.map_blocks(known, 4 * len(natural)), strict=True)
    logits, largest, n_observed, density = (np.concatenate(part, axis=-1) for part in parts)
    # Rows of weight zero are not read.
    n_rows = logits.shape[-1]
    distances = np.maximum(2 * (largest - logits[:n]), np.finfo(float).tiny)
    laws = _Laws(problem.n_features, float(distances.min(axis=0).max()), N_ELLIPSOIDS if has_edges else 0)
    of_noise = logits[n] if len(logits) > n else np.full(n_rows, -np.inf)
    every = slice(None, None, max(1, n_rows // SETTINGS.merge_rows))
    logs = largest[:, every] + laws.log_densities(distances[:, every], n_observed[every])
    top = np.maximum(logs.max(axis=(0, 1)), of_noise[every])
    each = np.exp(np.maximum(logs - top, MIN_LOGIT)).sum(axis=1)
    beside = np.exp(of_noise[every] - top)
    counted = np.ones(n_rows) if weights is None else weights
    counted = counted[every] / counted[every].sum()
    shares = np.full(len(each), 1 / len(each))
    for _ in range(N_STEPS):
        shares = shares * (each @ (counted / (shares @ each + beside)))
        shares /= shares.sum()
    found = largest + laws.log_profile(shares, distances, n_observed)
    return posteriors(np.concatenate([found, of_noise[None]])[None])[1][0] - density


class _Laws:
    """The laws of a component, relative to its covariance.

    Parameters
    ----------
    n_features : int
    furthest : float
        The largest squared distance of a row from its nearest component.
    n_ellipsoids : int
    """

    def __init__(self, n_features: int, furthest: float, n_ellipsoids: int) -> None:
        last = np.log(max(furthest / n_features, np.exp(LAST_SIZE)))
        deviation = np.sqrt(2 / n_features)
        self.sizes = np.arange(FIRST_SIZE, last + SIZE_STEP, min(SIZE_STEP, DEVIATIONS_STEP * deviation))
        self.radii = DEVIATIONS_STEP * deviation * np.linspace(-1.0, 1.0, n_ellipsoids)

    def log_densities(self, distances: Array, n_observed: Array) -> Array:
        """Return log-densities at squared distances, relative to that of the Gaussian at its mean.

        The shape is that of the distances, after the number of laws.
        """
        sizes, radii = (
            np.expand_dims(each, tuple(range(1, 1 + distances.ndim))) for each in (self.sizes, self.radii)
        )
        gaussian = -0.5 * (n_observed * sizes + distances * np.exp(-sizes))
        # A uniform ellipsoid of this covariance reaches up to n_observed + 2.
        reach = n_observed + 2
        flat = 0.5 * n_observed * (np.log(2 / reach) - radii) + gammaln(n_observed / 2 + 1)
        uniform = np.where(distances <= reach * np.exp(radii), flat, -np.inf)
        return np.concatenate([gaussian, uniform])

    def log_profile(self, shares: Array, distances: Array, n_observed: Array) -> Array:
        """Return the log-density of the mixture of all laws, interpolated, shape (n_components, n_rows)."""
        logs = np.log(distances)
        table = np.linspace(logs.min(), logs.max(), N_DISTANCES)
        found = np.empty_like(logs)
        with np.errstate(divide="ignore"):
            log_shares = np.log(shares)[:, None]
        for number in np.unique(n_observed):
            rows = n_observed == number
            values = posteriors((log_shares + self.log_densities(np.exp(table), number))[None])[1][0]
            found[:, rows] = np.interp(logs[:, rows], table, values)
        return found
