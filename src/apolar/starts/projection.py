"""Sparse rows of many columns in the few directions where their means can be, dense."""

import numpy as np
from scipy import sparse

from apolar.data import open_rows
from apolar.em.whitened import WhitenedData
from apolar.moments.covariance import column_moments
from apolar.moments.signal import leading_directions

# Directions beyond those in which the means of a spherical mixture lie.
MORE_DIRECTIONS = 10


def narrowed(data: WhitenedData, n_components: int, rng: np.random.Generator) -> WhitenedData:
    """Return sparse rows in their leading directions, as spherical components see them.

    A spherical mixture of r components has its means in r - 1 directions, those of largest variance; in any
    of them its components have the same variance as in all columns.

    Parameters
    ----------
    data : WhitenedData
        Of sparse rows.
    n_components : int
    rng : numpy.random.Generator

    Returns
    -------
    narrow : WhitenedData
        Of the same rows, dense.
    """
    rows = data.rows
    weight, _, mean, variances = column_moments(rows)
    n_directions = min(n_components + MORE_DIRECTIONS, rows.n_features, max(data.n_rows - 1, 1))
    directions = leading_directions(
        rows, mean, float(variances.sum()), weight, n_directions, rng, or_fewer=True
    )[1]
    offset = mean @ directions
    parts = [
        np.asarray((block if sparse.issparse(block) else np.asarray(block)) @ directions) - offset
        for block, _ in rows.read(rows.chunk_rows(n_directions))
    ]
    narrow_rows = open_rows(np.concatenate(parts), data.row_weights())
    return WhitenedData(narrow_rows, data.family.as_spherical, threads=data.threads)
