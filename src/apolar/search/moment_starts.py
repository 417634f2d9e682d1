"""Starts from moments: no randomness, one or two passes over the rows."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS
from apolar.data.rows import Divided
from apolar.em.problem import Problem
from apolar.mixture import MomentMixture
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.moments import central_moments, signal_moments
from apolar.moments.sketch import ORDER_FOR
from apolar.recovery.family_mixtures import family_mixture, is_identified
from apolar.recovery.from_moments import mixture_of_signal


def from_moments(
    data: Problem, n_components: int, source: Problem | None = None, *, refine: bool = True
) -> WhitenedParameters:
    """Return the mixture of the moments of the rows, by the equivariant form.

    Columns are standardised first, unless the family has one scale for all of them.

    Parameters
    ----------
    data : Problem
    n_components : int
        At most n_features.
    source : Problem, optional
        The rows whose moments are taken; by default those of `data`.
    refine : bool, default=True
        Weight the moments by their sampling errors.

    Returns
    -------
    parameters : WhitenedParameters
        In the whitened coordinates of `data`.
    """
    source = data if source is None else source
    if data.is_incomplete:
        # Moments of pairs and triples of columns, each from other rows, need not be those of any mixture.
        data, source = data.imputed(), data.complete_cases()
        n_needed = SETTINGS.moment_rows * n_components * data.n_features
        if source.n_rows < n_needed:
            raise ValueError(
                f"{source.n_rows} rows have no missing value, and moments need {n_needed} such rows."
            )
    units = np.ones(data.n_features)
    least, most = float(np.min(data.whitening.inverse)), float(np.max(data.whitening.inverse))
    # Others have third powers that underflow or overflow.
    is_in_range = least > 1e-60 and most < 1e60
    rows, covariance = source.rows, None if len(source.far_rows) else source.scale
    if data.family.n_axes > 0 or not is_in_range:
        units = np.broadcast_to(data.whitening.deviations, data.n_features)
        rows = rows.transform(Divided(units))
        covariance = None if covariance is None else covariance.divided(units)
    signal = signal_moments(
        rows, n_components - 1, np.random.default_rng(0), covariance, n_threads=source.threads
    )
    return whitened_mixture(data, mixture_of_signal(signal, refine=refine), units)


def from_moments_of_family(
    data: Problem, n_components: int, _prior: Prior | None, _rng: np.random.Generator
) -> WhitenedParameters:
    """Return the mixture of the moments of the rows, by the method of the family: a `Start`.

    Components with the axes of the columns start from the diagonal mixture of the third moments, others from
    the mixture of one common covariance that has the fourth moments. Where these are not determined, it is
    the spherical mixture of the third moments.
    """
    is_known = not (data.is_incomplete or data.rows.is_sparse)
    method = moment_method(data.family, n_components, data.n_features, data.n_rows) if is_known else None
    if method is not None:
        # Where they fail, as for columns that are functions of others, the spherical ones may not.
        with contextlib.suppress(ValueError, np.linalg.LinAlgError):
            return _likelier(data, n_components, _mixture(data, n_components, method))
    return from_moments(data, n_components)


def _likelier(data: Problem, n_components: int, mixture: WhitenedParameters) -> WhitenedParameters:
    """Return a mixture, or the spherical one if the rows are likelier under it."""
    if n_components > data.n_features:
        return mixture
    try:
        spherical = from_moments(data, n_components, refine=False)
    except ValueError:
        return mixture
    both = [mixture, spherical]
    return both[int(np.argmax(data.e_step(batch(both))[1]))]


def moment_method(family: Family, n_components: int, n_features: int, n_rows: int) -> str | None:
    """Return the family whose moments a mixture starts from; None for the spherical one.

    Parameters
    ----------
    family : Family
        Of the mixture.
    n_components, n_features, n_rows : int
    """
    if family.is_spherical or n_components == 1 or n_rows < SETTINGS.moment_rows * n_components * n_features:
        return None
    if family.is_axis_aligned:
        is_small = n_features <= SETTINGS.moment_columns_diagonal
        return "diag" if is_small and is_identified(n_components, n_features) else None
    n_products = n_rows * (n_features * (n_features + 1) / 2) ** 2
    is_small = n_features <= SETTINGS.moment_columns_tied and n_products <= SETTINGS.moment_products
    return "tied" if is_small and n_components <= n_features + 1 else None


def _mixture(data: Problem, n_components: int, method: str) -> WhitenedParameters:
    """Return the mixture in whitened coordinates, as one of the family of the data."""
    units = np.broadcast_to(data.whitening.deviations, data.n_features)
    central = central_moments(data.rows.transform(Divided(units)), order=ORDER_FOR[method])
    found = family_mixture(central, n_components, method, np.random.default_rng(0), refine=False)
    return whitened_mixture(data, found, units)


def whitened_mixture(data: Problem, mixture: MomentMixture, units: Array) -> WhitenedParameters:
    """Return a mixture of the data divided by `units` as one of the family of the data.

    Parameters
    ----------
    data : Problem
    mixture : MomentMixture
        Spherical, diagonal or tied; of the others, tied for matrices only, spherical for all families.
    units : ndarray, shape (n_features,)
        All the same where the family is spherical.

    Returns
    -------
    parameters : WhitenedParameters
        In the whitened coordinates of the data.
    """
    family, whitening, weights = data.family, data.whitening, mixture.weights
    scale = units**2
    if mixture.covariance_type == "spherical":
        unit = scale * family.identity(len(scale)) if family.n_axes else np.mean(scale)
        stored = family.from_spherical(mixture.covariances, unit, weights)
    elif mixture.covariance_type == "diag":
        variances = mixture.covariances * scale
        stored = weights @ variances if family.shares_covariance else variances
    else:
        stored = family.repeated(mixture.covariances * np.outer(units, units), len(weights))
    parameters = MixtureParameters(weights.copy(), mixture.means * units, stored)
    inside = whitening.transform_parameters(parameters)
    covariances = family.floored(family.projected(inside.covariances, weights))
    return replace(inside, covariances=covariances)
