"""Noise in rows of Dask: what NumPy gives."""

import dask.array as da
import numpy as np
import pytest

from data.dask.blocks import CLOSE, assert_same_mixture, model, rows_of_block


@pytest.mark.parametrize("kind", ["spherical", "full"])
@pytest.mark.usefixtures("synchronous")
def test_a_fit_with_noise_is_that_of_the_rows_in_memory(kind):
    X = rows_of_block(3000, 0)
    rng = np.random.default_rng(0)
    X = np.vstack([X, rng.uniform(X.min(axis=0) - 3, X.max(axis=0) + 3, (200, X.shape[1]))])
    X = X[rng.permutation(len(X))]
    lazy = da.from_array(X, chunks=(700, X.shape[1]))
    settings = {"covariance_type": kind, "noise": True}
    ours, theirs = model(**settings).fit(lazy), model(**settings).fit(X)
    assert_same_mixture(ours, theirs)
    assert ours.noise_weight_ == pytest.approx(theirs.noise_weight_, rel=1e-6)
    predicted = ours.predict(lazy).compute()
    np.testing.assert_array_equal(predicted, theirs.predict(X))
    assert -1 in predicted
    probabilities = ours.predict_proba(lazy)
    assert probabilities.shape == theirs.predict_proba(X).shape
    np.testing.assert_allclose(probabilities.compute(), theirs.predict_proba(X), atol=CLOSE)
