"""Algorithm 1 of the paper, and the pipeline that it ends."""

from dataclasses import replace

import numpy as np

from apolar.decomposition import Waring, decompose, refine
from apolar.mixture import MomentMixture
from apolar.moments import Moments
from apolar.recovery.equivariant import (
    MAX_MEAN_NORM,
    projected_mixture,
    valid_means,
    valid_variances,
    valid_weights,
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
