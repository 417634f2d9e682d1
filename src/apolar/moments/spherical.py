"""The moment tensors M1, M2, M3 of a spherical mixture, as in the paper's theorem."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array, frozen
from apolar.moments.sketch import central_moments
from apolar.moments.sums import check_total_variance
from apolar.tensor import SymmetricTensor


@dataclass(frozen=True, eq=False)
class Moments:
    """The tensors of [khouja2022moments, section 3.1], after [hsu2013].

    For a mixture with weights w_i, means mu_i and variances s_i:

    Attributes
    ----------
    first : ndarray, shape (n_features,)
        M1 = sum_i w_i s_i mu_i.
    second : ndarray, shape (n_features, n_features)
        M2 = sum_i w_i mu_i mu_i^t.
    third : SymmetricTensor
        M3 = sum_i w_i (mu_i . x)^3.
    mean_variance : float
        sum_i w_i s_i, the smallest eigenvalue of the covariance.
    noise_direction : ndarray, shape (n_features,)
        The eigenvector of that eigenvalue.
    total_variance : float
        The trace of the covariance.
    n_rows : float
        The number of rows, where a row of weight two counts as two rows.
    """

    first: Array
    second: Array
    third: SymmetricTensor
    mean_variance: float
    noise_direction: Array
    total_variance: float
    n_rows: float


def spherical_moments(X: Any, sample_weight: Any = None) -> Moments:
    """Return the paper's moment tensors, for data from a spherical mixture.

    Parameters
    ----------
    X : array_like, dataframe, iterable of chunks, or MomentSketch
        Rows of shape (n_samples, n_features), or a sketch of them.
    sample_weight : array_like, shape (n_samples,), optional

    Returns
    -------
    moments : Moments

    Examples
    --------
    >>> import apolar
    >>> X, _ = apolar.datasets.make_example(1, 100_000, random_state=0)
    >>> M = apolar.spherical_moments(X)
    >>> M.third
    SymmetricTensor(order=3, dim=6): ...
    >>> truth = apolar.datasets.example_mixture(1)
    >>> bool(abs(M.mean_variance - truth.weights @ truth.variances) < 0.2)
    True
    """
    central = central_moments(X, sample_weight)
    if central.frame is not None:
        raise ValueError(
            "The paper's tensors need third moments of all columns: make the sketch without a frame."
        )
    mean, covariance, dim = central.mean, central.covariance, len(central.mean)
    with np.errstate(over="ignore"):
        check_total_variance(float(np.trace(covariance) + mean @ mean))
    values, vectors = np.linalg.eigh(covariance)
    mean_variance, direction = float(values[0]), vectors[:, 0]
    # E[x (v . z)^2] and E[x x x], with z = x - mean and v the noise direction, from the central moments.
    first = mean_variance * mean + central.third.gradient(direction) / 3
    linear = SymmetricTensor(1, dim, mean)
    quadratic = SymmetricTensor(2, dim, covariance[np.triu_indices(dim)])
    raw_third = central.third + 3 * linear * quadratic + linear * linear * linear
    sphere = SymmetricTensor.from_dense(np.eye(dim))
    third = raw_third - 3 * sphere * SymmetricTensor(1, dim, first)
    second = covariance + np.outer(mean, mean) - mean_variance * np.eye(dim)
    total_variance = float(np.trace(covariance))
    return Moments(
        frozen(first), frozen(second), third, mean_variance, frozen(direction), total_variance, central.n_rows
    )
