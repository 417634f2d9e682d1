"""The noise component in the E-step: one more row of natural parameters, with a constant alone."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar.em.whitening import Whitening
from apolar.mixture.noise import noise_weights

__all__ = ["with_noise_row"]


def with_noise_row(natural: Array, weights: Array, whitening: Whitening) -> Array:
    """Return natural parameters with those of the noise component appended, if there is one.

    The logit of the noise is the same for all rows, so that blocks and kernels treat it as a component like
    any other.

    Parameters
    ----------
    natural : ndarray, shape (..., n_components, n_stats)
    weights : ndarray, shape (..., n_components)
        Of the components; that of the noise is one less their sum.
    whitening : Whitening

    Returns
    -------
    natural : ndarray, shape (..., n_components + 1, n_stats)
        As given without a noise component.
    """
    if not whitening.has_noise_component:
        return natural
    n_components, n_stats = natural.shape[-2:]
    extended = np.zeros((*natural.shape[:-2], n_components + 1, n_stats))
    extended[..., :-1, :] = natural
    extended[..., -1, 0] = np.log(noise_weights(weights)) + whitening.noise_log_density
    return extended
