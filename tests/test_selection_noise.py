"""Selection among mixtures with noise."""

import numpy as np

from apolar import select


def test_the_number_of_clusters_is_found_beside_noise():
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    X = np.array([[0.0, 0, 0], [9, 0, 1], [0, 9, 3]])[labels] + rng.standard_normal((300, 3))
    X = np.vstack([X, rng.uniform(X.min(axis=0) - 2, X.max(axis=0) + 2, (40, 3))])
    selection = select(X, range(1, 6), ("spherical", "full"), noise=True, random_state=0)
    best = selection.best
    assert (best.covariance_type, best.n_components) == ("spherical", 3)
    assert np.mean(best.predict(X[300:]) == -1) > 0.85
    row = next(row for row in selection.table if (row.covariance_type, row.n_components) == ("spherical", 3))
    # Weights, means and variances, and the weight and the volume of the noise.
    assert row.n_parameters == 2 + 9 + 3 + 2
    assert row.bic == best.bic(X)
    for kind in ("spherical", "full"):
        bounds = [row.log_likelihood for row in selection.table if row.covariance_type == kind]
        # The prior costs likelihood: a little less with one component more is not a worse optimum.
        assert np.all(np.diff(bounds) > -10)
    without = select(X, range(1, 6), "spherical", random_state=0).best
    assert without.n_components > 3
    assert without.bic(X) > best.bic(X)
