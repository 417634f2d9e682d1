"""Known classes beside the clusters of the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import is_missing
from apolar.estimator.predict import NOISE
from apolar.scores import adjusted_rand_index, error_rate


@dataclass(frozen=True, eq=False)
class KnownClasses:
    """Known classes, compared with the clusters.

    Attributes
    ----------
    names : tuple of str
        Of the classes, in the order of the codes.
    codes : ndarray of int, shape (n_samples,)
        -1 where the class is not known.
    ari, error_rate : float
    counts : ndarray of int, shape (n_classes, n_components)
    noise_counts : ndarray of int, shape (n_classes,)
        Rows of each class that are noise, which counts as one more cluster.
    n_unknown : int
        Rows without a class; they do not count.
    """

    names: tuple[str, ...]
    codes: Array
    ari: float
    error_rate: float
    counts: Array
    noise_counts: Array
    n_unknown: int


def known_classes(labels: Any, predicted: Array, n_components: int) -> KnownClasses:
    """Return known classes beside the clusters of the same rows; a missing label is no class."""
    strings = np.asarray(labels).astype(str)
    known = np.array([not is_missing(string) for string in strings.tolist()])
    if not known.any():
        raise ValueError("All labels are missing: leave them out.")
    names, known_codes = np.unique(strings[known], return_inverse=True)
    codes = np.full(len(strings), -1)
    codes[known] = known_codes
    counts = np.zeros((len(names), n_components), dtype=np.int64)
    in_cluster = predicted[known] != NOISE
    np.add.at(counts, (known_codes[in_cluster], predicted[known][in_cluster]), 1)
    return KnownClasses(
        tuple(names.tolist()),
        codes,
        adjusted_rand_index(known_codes, predicted[known]),
        error_rate(known_codes, predicted[known]),
        counts,
        np.bincount(known_codes[~in_cluster], minlength=len(names)),
        int(np.count_nonzero(~known)),
    )
