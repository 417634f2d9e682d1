"""The paper's method for spherical mixtures: the moment tensors of its theorem, algorithm 1, the pipeline."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array, frozen
from apolar.decomposition import Waring, decompose, refine
from apolar.mixture import MomentMixture
from apolar.moments.sketch import central_moments
from apolar.moments.sums import check_total_variance
from apolar.recovery.equivariant import (
    MAX_MEAN_NORM,
    projected_mixture,
    valid_means,
    valid_variances,
    valid_weights,
)
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


def paper_mixture(
    moments: Moments, n_components: int, rng: np.random.Generator, n_iter: int
) -> MomentMixture:
    """Run the paper's pipeline: algorithm 2, at most `n_iter` Newton iterations, algorithm 1.

    The moments are scaled such that the means have a norm of about ten, as in the examples of the paper: the
    steps of Newton's method in its trust region depend on the scale.
    """
    unit = 0.1 * float(np.sqrt(max(np.trace(moments.second), 0.0) + moments.mean_variance))
    moments = replace(
        moments,
        first=moments.first / unit**3,
        second=moments.second / unit**2,
        third=moments.third / unit**3,
        mean_variance=moments.mean_variance / unit**2,
    )
    try:
        waring = decompose(
            moments.third, n_components, "pencil", refine=False, random_state=rng, field="real"
        )
    except ValueError:
        # The pencil is singular: the means are linearly dependent, as those of centred data.
        waring = decompose(moments.third, n_components, random_state=rng, field="real")
    if n_iter:
        waring = refine(moments.third, waring, method="newton", max_iter=n_iter)
    recovered = recover(moments, waring)
    return replace(recovered, means=recovered.means * unit, covariances=recovered.covariances * unit**2)


def recover(moments: Moments, waring: Waring) -> MomentMixture:
    """Return the mixture of the paper's algorithm 1.

    Given M3 = sum_i v_i (m_i . x)^3, least squares give the scales l_i in M2 = sum_i v_i l_i (m_i . x)^2. The
    weights are w_i = v_i l_i^3 and the means mu_i = m_i / l_i; least squares give the variances s_i in
    M1 = sum_i w_i s_i mu_i. The weights are divided by their sum, which is one except for sampling errors.

    Parameters
    ----------
    moments : Moments
    waring : Waring
        A decomposition of `moments.third`.

    Returns
    -------
    mixture : MomentMixture
        Projected to a valid mixture where necessary; `status` and `projected` then say so.
    """
    if not isinstance(moments, Moments) or not isinstance(waring, Waring):
        raise TypeError("recover takes the Moments of spherical_moments, and a Waring decomposition of M3.")
    if waring.order != 3 or waring.dim != len(moments.first) or waring.rank == 0:
        raise ValueError(
            f"The decomposition must be of order 3 in {len(moments.first)} variables, of rank 1 or more; "
            f"got order {waring.order}, {waring.dim} variables, rank {waring.rank}."
        )
    corrections: list[str] = []
    points, tensor_weights = waring.points, waring.weights
    if waring.is_complex:
        corrections.append("complex points were replaced by their real parts")
        points, tensor_weights = points.real, tensor_weights.real
    upper = np.triu_indices(waring.dim)
    # Entries off the diagonal occur twice in the squared Frobenius norm.
    factors = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    squares = tensor_weights[:, None] * points[:, upper[0]] * points[:, upper[1]] * factors
    scales = np.linalg.lstsq(squares.T, moments.second[upper] * factors, rcond=None)[0]
    weights = valid_weights(tensor_weights * scales**3, moments.n_rows, corrections)
    size = float(np.sqrt(max(np.trace(moments.second), 0.0) + moments.mean_variance))
    # A scale of zero would give an infinite mean: the smallest scale gives one that is shortened below.
    min_scale = np.linalg.norm(points, axis=1) / (2 * MAX_MEAN_NORM * size)
    scales = np.where(np.abs(scales) < min_scale, np.copysign(min_scale, scales), scales)
    means = valid_means(points / scales[:, None], size, corrections)
    if abs(weights.sum() - 1) > 0.1:
        corrections.append(f"the weights added up to {weights.sum():.2g}")
    weights = weights / weights.sum()
    variances = np.linalg.lstsq((weights[:, None] * means).T, moments.first, rcond=None)[0]
    variances = valid_variances(variances, moments.mean_variance, corrections)
    return projected_mixture(weights, means, variances, corrections=corrections)
