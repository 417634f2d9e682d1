"""Rows in blocks, a cluster of two processes, and the comparison of two fitted mixtures."""

import logging

import dask.array as da
import numpy as np
import pytest
from distributed import LocalCluster

from apolar import GaussianMixture

# The order of additions differs, so sufficient statistics differ by rounding. EM stops a few hundredths of a
# standard error (here 1e-4) from the maximum; where exactly depends on the rounding in all passes, because
# its last steps use gradient differences. A block that is lost, or counted twice, changes parameters by 1e-3.
CLOSE = 1e-6
COLUMNS = ["a", "b", "c", "d"]


def rows_of_block(n_rows, seed, n_features=4):
    rng = np.random.default_rng(seed)
    means = 4 * np.random.default_rng(17).standard_normal((3, n_features))
    labels = rng.choice(3, n_rows, p=[0.5, 0.3, 0.2])
    spreads = np.array([0.8, 1.0, 1.3])[labels, None]
    return means[labels] + spreads * rng.standard_normal((n_rows, n_features))


def _generated(block_id=None, n_rows=0, n_features=4):
    return rows_of_block(n_rows, block_id[0], n_features)


def generated(n_rows, n_blocks, n_features=4):
    """Return an array whose blocks can be computed again if a worker that stores them is lost."""
    size = n_rows // n_blocks
    return da.map_blocks(
        _generated,
        chunks=((size,) * n_blocks, (n_features,)),
        n_rows=size,
        n_features=n_features,
        dtype=float,
        meta=np.empty((0, n_features)),
    )


def local_cluster():
    return LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=None,
        silence_logs=logging.CRITICAL,
    )


def model(n_components=3, **parameters):
    return GaussianMixture(n_components, random_state=0, **parameters)


def assert_same_mixture(ours, theirs):
    for name in ("weights_", "means_", "covariances_", "lower_bound_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=CLOSE, atol=CLOSE)
    # Starts may be equally good: rounding decides which of them is the first.
    assert ours.n_iter_ == theirs.n_iter_
    assert ours.n_samples_seen_ == pytest.approx(theirs.n_samples_seen_)
