"""The start from random responsibilities."""

import numpy as np

from apolar._core.arrays import Array
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior


def random_responsibilities(data: WhitenedData, n_components: int, rng: np.random.Generator) -> Array:
    """Return random responsibilities, shape (n_components, n_rows), that add up to one per row."""
    responsibilities = rng.random((n_components, data.n_rows))
    return responsibilities / responsibilities.sum(axis=0)


def from_random_responsibilities(
    data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return the M-step from random responsibilities: a `Start`."""
    return data.family.m_step(data.soft_stats(random_responsibilities(data, n_components, rng)), prior)
