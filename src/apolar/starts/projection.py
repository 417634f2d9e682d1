"""Sparse rows of many columns, projected on the few directions that hold the means of a mixture."""

import numpy as np
from scipy import sparse

from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.moments.covariance import column_moments
from apolar.moments.range_finder import leading_directions

# Directions beyond those in which the means of a spherical mixture lie.
EXTRA_DIRECTIONS = 10


def projected_on_leading_directions(data: Problem, n_components: int, rng: np.random.Generator) -> Problem:
    """Return sparse rows projected on their leading directions, for spherical components.

    The means of a spherical mixture of r components lie in an affine space of r - 1 dimensions, which the
    directions of largest variance span. Projected on them, components keep their variances.

    Parameters
    ----------
    data : Problem
        Of sparse rows.
    n_components : int
    rng : numpy.random.Generator

    Returns
    -------
    projected : Problem
        Of the same rows, dense.
    """
    rows = data.rows
    weight, _, mean, variances = column_moments(rows)
    n_directions = min(n_components + EXTRA_DIRECTIONS, rows.n_features, max(data.n_rows - 1, 1))
    directions = leading_directions(
        rows, mean, float(variances.sum()), weight, n_directions, rng, or_fewer=True
    )[1]
    offset = mean @ directions
    parts = [
        np.asarray((block if sparse.issparse(block) else np.asarray(block)) @ directions) - offset
        for block, _ in rows.read(rows.chunk_rows(n_directions))
    ]
    projected_rows = open_rows(np.concatenate(parts), data.row_weights())
    return Problem(projected_rows, data.family.as_spherical, threads=data.threads)
