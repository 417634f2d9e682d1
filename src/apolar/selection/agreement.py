"""Which clusters to believe: those on which the families of covariances agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apolar._core.constants import MIN_WEIGHT
from apolar._core.namespaces import to_numpy
from apolar._core.settings import SETTINGS
from apolar.estimator.cluster_merging import Combination
from apolar.scores import adjusted_rand_index
from apolar.selection.selection_table import Row, ranked_rows

__all__ = ["agreed_clusters"]


def agreed_clusters(
    table: Sequence[Row], models: Mapping[tuple[Any, ...], Any], X: Any
) -> tuple[Combination, float]:
    """Return the clusters of the family with which those of the other families agree best.

    The clusters of a family are the components of its mixture with the lowest BIC, combined where they
    overlap. Two families agree by the adjusted Rand index of their clusters, and the more a family describes,
    the more it counts: by the third power of how far its BIC is below that of one component, as a part of how
    far the lowest is.

    Returns
    -------
    clusters : Combination
    agreement : float
        The weighted mean of the index with the others; NaN where there is nothing to compare.
    """
    first: dict[str, Row] = {}
    for row in ranked_rows(table, "bic"):
        first.setdefault(row.form, row)
    rows = list(first.values())
    bics = np.array([row.bic for row in rows])
    of_one = [row.bic for row in table if row.is_fitted and row.n_components == 1]
    gains = np.maximum(min(of_one, default=bics.max()) - bics, 0.0)
    if len(rows) == 1 or not np.any(gains):
        return models[rows[0].key].combine(X, by="overlap"), np.nan
    combined = [models[row.key].combine(X, by="overlap") for row in rows]
    found = [each.predict(X) for each in combined]
    labels = [np.asarray(each if hasattr(each, "compute") else to_numpy(each)) for each in found]
    weights = np.maximum((gains / gains.max()) ** SETTINGS.agreement_power, MIN_WEIGHT)
    indices = [[adjusted_rand_index(each, other) for other in labels] for each in labels]
    others = weights * (1 - np.eye(len(rows)))
    agreement = (indices * others).sum(axis=1) / others.sum(axis=1)
    # Among families that agree as well, the one with the lowest BIC; the last digits do not decide.
    best = int(np.argmax(agreement.round(6)))
    return combined[best], float(agreement[best])
