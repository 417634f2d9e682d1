"""How likely rows are where components are elliptical, with tails of any form.

Where clusters have long tails, an optimum with a narrow component for the core of a cluster and a wide one
for its tail is likelier than the optimum that separates two clusters. For this comparison each component
becomes a mixture of Gaussians of its mean and shape but of several sizes. The shares of the sizes are those
that fit best, the same for all components. A core and its tail then count as one cluster, and the places and
shapes of the components decide.
"""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar._core.constants import MIN_LOGIT
from apolar._core.namespaces import to_numpy
from apolar._core.settings import SETTINGS
from apolar.em.blocks import Block, posteriors
from apolar.em.problem import Problem
from apolar.mixture.parameters import WhitenedParameters

__all__ = ["elliptical_gains"]

# The sizes: logarithms of factors of the covariances, from the first to the last, or further if rows are; the
# largest step between two, and that in deviations of the logarithm of a squared distance.
FIRST_SIZE, LAST_SIZE, SIZE_STEP, DEVIATIONS_STEP = -4.0, 8.0, 0.7, 2.0
# Steps of EM for the shares.
N_STEPS = 30


def elliptical_gains(problem: Problem, parameters: WhitenedParameters) -> Array:
    """Return by how much the log-density of each row rises if the tails of the components are of any form.

    Parameters
    ----------
    problem : Problem
        A sample of the rows.
    parameters : WhitenedParameters
        One mixture.

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
        largest, n_observed = block.peaks(natural) or (peaks[:, None], np.full(1, problem.n_features))
        seen = logits if tails is None else tails.terms(logits, largest, n_observed).logits
        density = posteriors(np.array(seen)[None])[1][0]
        shape = n, block.n_rows
        of_rows = np.broadcast_to(largest[:n], shape), np.broadcast_to(n_observed, shape[1:])
        return logits, *of_rows, density

    parts = zip(*problem.exact.map_blocks(known, 4 * len(natural)), strict=True)
    logits, largest, n_observed, density = (np.concatenate(part, axis=-1) for part in parts)
    distances = np.maximum(2 * (largest - logits[:n]), 0.0)
    last = np.log(max(float(distances.min(axis=0).max()) / problem.n_features, np.exp(LAST_SIZE)))
    step = min(SIZE_STEP, DEVIATIONS_STEP * np.sqrt(2 / problem.n_features))
    sizes = np.arange(FIRST_SIZE, last + step, step)

    def densities(rows: slice) -> tuple[Array, Array]:
        """Return the densities of mixtures of each size, then of the noise, relative to the largest one.

        The logarithm of that comes second, per row.
        """
        of_sizes = n_observed[rows] * sizes[:, None] + distances[:, None, rows] * np.exp(-sizes)[:, None]
        logs = largest[:, None, rows] - 0.5 * of_sizes
        top = logs.max(axis=(0, 1))
        of_noise = np.zeros((1, len(top)))
        if len(logits) > n:
            top = np.maximum(top, logits[n, rows])
            of_noise[:] = np.exp(logits[n, rows] - top)
        return np.concatenate([np.exp(np.maximum(logs - top, MIN_LOGIT)).sum(axis=0), of_noise]), top

    every = slice(None, None, max(1, problem.n_rows // SETTINGS.merge_rows))
    of_rows = np.ones(problem.n_rows) if weights is None else weights
    each, _ = densities(every)
    counted = of_rows[every] / of_rows[every].sum()
    shares = np.full(len(sizes), 1 / len(sizes))
    for _ in range(N_STEPS):
        shares = shares * (each[:-1] @ (counted / (shares @ each[:-1] + each[-1])))
        shares /= shares.sum()
    chunks = [slice(i, i + SETTINGS.merge_rows) for i in range(0, problem.n_rows, SETTINGS.merge_rows)]
    sums = [np.log(shares @ part[:-1] + part[-1]) + top for part, top in map(densities, chunks)]
    return np.concatenate(sums) - density
