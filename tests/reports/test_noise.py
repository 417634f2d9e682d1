"""Noise in an analysis: counts, classes, and words."""

import numpy as np
import pytest

from apolar.reports.analysis import analyse
from apolar.reports.text import findings, headline


@pytest.fixture(scope="module")
def analysis():
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0], [12, 3]], 100, axis=0) + rng.standard_normal((200, 2))
    X = np.vstack([X, rng.uniform(-20, 30, (20, 2))])
    kinds = np.array(["b", "a"])[(np.arange(220) // 100) % 2]
    kinds[200:] = "z"
    return analyse(X, ("x", "y"), 2, labels=kinds, noise=True, seed=0)


def test_noise_is_in_no_cluster(analysis):
    assert analysis.has_noise
    assert analysis.counts.sum() + analysis.n_noise == 220
    assert analysis.n_noise == pytest.approx(20, abs=4)
    truth = analysis.truth
    assert truth.names == ("a", "b", "z")
    np.testing.assert_array_equal(truth.counts.sum(axis=1), [100, 100, 20])
    assert truth.counts[2, -1] >= 16
    # Noise is one more cluster, which matches the class of the rows around.
    assert truth.ari > 0.9
    assert truth.error_rate < 0.05
    assert analysis.uncertainty.max() < 2 / 3


def test_noise_is_named(analysis):
    assert f"; {analysis.n_noise} rows (" in headline(analysis)
    assert not any("Cluster" in finding.text for finding in findings(analysis))
    assert not any("outlier" in finding.text for finding in findings(analysis))
    assert analysis.errors is not None
    assert analysis.errors.noise_weight > 0
