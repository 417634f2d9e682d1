"""The start from model-based hierarchical clustering: the clusters of the merge tree."""

import numpy as np

from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.starts.mbhc import mbhc_labels
from apolar.starts.merging import resized_stats


def from_hierarchical_clusters(
    data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    """Return the mixture of the clusters of `mbhc_labels` on standardised columns: a `Start`."""
    n_clusters = min(n_components, data.n_rows)
    labels = mbhc_labels(
        data.standardised,
        n_clusters,
        rng,
        criterion=data.family.as_spherical.code,
        sizes=data.row_weights(),
    )
    stats = data.hard_stats(labels, n_clusters)
    return data.family.m_step(resized_stats(data, stats, n_components), prior)
