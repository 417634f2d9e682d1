"""Mixtures of every family from central moments: which method, from which order on."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array
from apolar.exceptions import ColumnError
from apolar.mixture import MixtureStatus
from apolar.mixture.parameters import canonical_order
from apolar.moments import CentralMoments, signal_moments
from apolar.moments.covariance import is_constant
from apolar.recovery.diagonal import diagonal_mixture, is_identified
from apolar.recovery.dictionary import dictionary_start, fits_from_starts, random_start
from apolar.recovery.equivariant import equivariant_mixture, weighted_mixture
from apolar.recovery.gaussian_moments import Mixture, Parametrisation, monomial_table
from apolar.recovery.moment_fit import EXACT, MomentFit, fit_moments, goodness_of
from apolar.recovery.moment_mixture import MomentMixture
from apolar.recovery.tied import Cumulants, tied_mixture
from apolar.tensor.monomials import dense_positions

__all__ = ["COVARIANCE_TYPES", "family_mixture", "needed_order"]

COVARIANCE_TYPES = ("spherical", "diag", "tied", "full")
"""The families that moments can determine."""
HIGHEST_ORDER = 6
# More columns make too many moments for mixtures that need all of order four and above.
MAX_COLUMNS = 6
# Moments per parameter from which samples determine a mixture in practice.
MIN_RATIO = 1.2
# The most moments of diagonal mixtures that are weighted by the covariance of their sampling errors.
MAX_WEIGHTED = 560
# Random starts beside those that the moments suggest; fewer of more columns, where fits take longer.
N_RANDOM, N_RANDOM_IF_WIDE, WIDE = 8, 3, 4
# Smaller eigenvalues of correlations, in units of the largest, are rounding errors.
MIN_EIGENVALUE = 1e-10
# Standard errors of means above this, in deviations of the component, are those of too small a sample.
MAX_ERROR = 1.0


def needed_order(covariance_type: str, n_components: int, n_features: int) -> int:
    """Return the order of the moments that a mixture needs; refuse what no order determines.

    Parameters
    ----------
    covariance_type : {"spherical", "diag", "tied", "full"}
    n_components, n_features : int
    """
    columns = "1 column" if n_features == 1 else f"{n_features} columns"
    what = f"{n_components} {covariance_type!r} components in {columns}"
    if n_components == 1:
        return 3
    if covariance_type == "tied":
        if n_components > n_features + 1:
            raise ValueError(f"{what}: moments determine at most {n_features + 1}, one more than columns.")
        return 4
    if covariance_type == "spherical" and n_components <= n_features:
        return 3
    if covariance_type == "diag" and is_identified(n_components, n_features):
        return 3
    if n_features > MAX_COLUMNS:
        most = _most_by_third_moments(covariance_type, n_features)
        instead = f"at most {most} components" if most > 1 else 'covariance_type="tied" or "diag"'
        raise ValueError(
            f"{what} need moments of order four or more, which are for {MAX_COLUMNS} columns or fewer: ask "
            f"for {instead}, or choose {MAX_COLUMNS} columns."
        )
    n_parameters = Parametrisation(covariance_type, n_components, n_features).n_free
    for order in range(4, HIGHEST_ORDER + 1):
        if len(monomial_table(n_features, order)) - 1 >= MIN_RATIO * n_parameters:
            return order
    raise ValueError(
        f"{what} have {n_parameters} parameters, too many for moments up to order {HIGHEST_ORDER}: ask for "
        "fewer components, or take more columns."
    )


def _most_by_third_moments(covariance_type: str, n_features: int) -> int:
    """Return the largest number of components that third moments determine."""
    if covariance_type == "spherical":
        return n_features
    if covariance_type == "diag":
        return max(r for r in range(1, n_features + 1) if is_identified(r, n_features))
    return 1


def family_mixture(
    central: CentralMoments,
    n_components: int,
    covariance_type: str,
    rng: np.random.Generator,
    *,
    refine: bool = True,
) -> MomentMixture:
    """Return the mixture of a family whose moments are these.

    Parameters
    ----------
    central : CentralMoments
        Of an order that `needed_order` asks for, or higher.
    n_components : int
    covariance_type : {"spherical", "diag", "tied", "full"}
    rng : Generator
    refine : bool, default=True
        Fit all moments, weighted by their sampling errors, and not only those that determine the mixture.

    Returns
    -------
    mixture : MomentMixture
    """
    n_features = len(central.mean)
    if central.frame is not None:
        raise ValueError("A sketch with a frame has moments in some directions only: make it without frame=.")
    order = needed_order(covariance_type, n_components, n_features)
    if central.order < order:
        raise ValueError(
            f"{n_components} {covariance_type!r} components in {n_features} columns need "
            f"moments of order {order}, and these are of order {central.order}: make the sketch with "
            f"order {order}."
        )
    if central.n_rows < n_components:
        raise ValueError(
            f"{n_components} components need at least as many rows; there are {central.n_rows:g}."
        )
    constant = np.flatnonzero(is_constant(central.mean, np.diag(central.covariance)))
    if len(constant):
        raise ColumnError(int(constant[0]), "is constant: nothing separates components in it. Leave it out.")
    units = central.deviations
    if covariance_type in ("tied", "full"):
        _check_not_singular(central.covariance / np.outer(units, units))
    if covariance_type == "spherical":
        units = np.full(n_features, np.sqrt(np.mean(units**2)))
    n_rows = np.inf if central.n_rows >= EXACT else central.n_rows
    corrections: list[str] = []
    if n_components == 1:
        mixture, error = _single(central, covariance_type, units), 0.0
    elif covariance_type == "tied":
        mixture, error = _tied_components(central, n_components, units, n_rows, rng, refine)
    elif covariance_type == "spherical" and order == 3:
        mixture, error = _spherical(central, n_components, units)
    elif covariance_type == "diag" and order == 3:
        mixture, error = _diagonal(central, n_components, units, n_rows, refine)
    else:
        # More moments than are needed help where there are few columns.
        mixture, error = _by_starts(central, n_components, covariance_type, units, n_rows, rng, corrections)
    return _result(central, mixture, covariance_type, units, error, corrections)


def _is_singular(covariance: Array) -> bool:
    """Return whether a column is a function of others, as always where rows are fewer than columns."""
    values = np.linalg.eigvalsh(covariance)
    return bool(values[0] <= MIN_EIGENVALUE * values[-1])


def _check_not_singular(correlations: Array) -> None:
    """Refuse columns of which one is a function of others."""
    if _is_singular(correlations):
        column = int(np.argmax(np.abs(np.linalg.eigh(correlations)[1][:, 0])))
        raise ColumnError(column, "is a linear function of others: leave one of them out, or take more rows.")


def _single(central: CentralMoments, covariance_type: str, units: Array) -> Mixture:
    """Return one component: the mean and the covariance, in units of the columns."""
    scaled = central.covariance / np.outer(units, units)
    if covariance_type in ("tied", "full"):
        covariances = scaled[None]
    else:
        variances = np.diag(scaled)
        covariances = (variances if covariance_type == "diag" else np.full(len(units), variances.mean()))[
            None
        ]
    return Mixture(np.ones(1), np.zeros((1, len(units))), covariances)


def _spherical(central: CentralMoments, n_components: int, units: Array) -> tuple[Mixture, float]:
    signal = signal_moments(central, n_components - 1, None, np.random.default_rng(0))
    found = equivariant_mixture(signal)
    if central.n_rows < EXACT:
        found = weighted_mixture(signal, found)
    variances = found.variances[:, None] / units**2
    is_weak = found.status is MixtureStatus.WEAK_SIGNAL
    return Mixture(found.weights, (found.means - central.mean) / units, variances), np.inf if is_weak else 0.0


def _tied_components(
    central: CentralMoments,
    n_components: int,
    units: Array,
    n_rows: float,
    rng: np.random.Generator,
    refine: bool,
) -> tuple[Mixture, float]:
    scaled = central.covariance / np.outer(units, units)
    values, vectors = np.linalg.eigh(scaled)
    whitening, back = vectors / np.sqrt(values), vectors * np.sqrt(values)
    third, fourth = (tensor.to_dense() for tensor in (central.third, central.higher[0]))
    scale = np.diag(1 / units) @ whitening
    for _ in range(3):
        third = np.tensordot(third, scale, (0, 0))
    for _ in range(4):
        fourth = np.tensordot(fourth, scale, (0, 0))
    found, error = tied_mixture(Cumulants.of_moments(third, fourth), n_components, n_rows, rng, refine=refine)
    matrices = back @ found.covariances @ back.T
    return Mixture(found.weights, found.means @ back.T, matrices), error


def _diagonal(
    central: CentralMoments, n_components: int, units: Array, n_rows: float, refine: bool
) -> tuple[Mixture, float]:
    n_features, is_exact = len(units), not np.isfinite(n_rows)
    observed = central.divided(units).up_to(3)
    second = central.covariance / np.outer(units, units)
    third = observed[monomial_table(n_features, 3).degree(3)][dense_positions(n_features, 3)]
    mixture = diagonal_mixture(second, third, n_components, is_exact=is_exact)
    if not refine or len(observed) > MAX_WEIGHTED:
        return mixture, 0.0
    fit = fit_moments("diag", mixture, observed[1:], 3, n_rows)
    return fit.mixture, fit.mean_error


def _by_starts(
    central: CentralMoments,
    n_components: int,
    covariance_type: str,
    units: Array,
    n_rows: float,
    rng: np.random.Generator,
    corrections: list[str],
) -> tuple[Mixture, float]:
    order = min(central.order, HIGHEST_ORDER)
    observed = central.divided(units).up_to(order)
    covariance = central.covariance / np.outer(units, units)
    starts = []
    suggested = dictionary_start(observed, covariance, n_components, order)
    if suggested is not None:
        starts.append(suggested)
    if n_components <= len(units) + 1 and central.order >= 4 and not _is_singular(covariance):
        starts.append(_tied_components(central, n_components, units, n_rows, rng, refine=False)[0])
    n_random = N_RANDOM if len(units) < WIDE else N_RANDOM_IF_WIDE
    starts += [random_start(covariance, n_components, rng) for _ in range(n_random)]
    fits: list[MomentFit] = fits_from_starts(covariance_type, starts, observed, order, n_rows)
    if fits:
        return fits[0].mixture, fits[0].mean_error
    corrections.append("no mixture that fits the moments has components of some weight and width")
    start = starts[0]
    parametrisation = Parametrisation(covariance_type, n_components, len(units))
    return parametrisation.mixture(parametrisation.vector(start)), np.inf


def _result(
    central: CentralMoments,
    mixture: Mixture,
    covariance_type: str,
    units: Array,
    error: float,
    corrections: list[str],
) -> MomentMixture:
    """Return the mixture in the units of the data, with its status."""
    least = 1 / max(central.n_rows, 2)
    weights = mixture.weights
    if np.any(weights < least):
        corrections.append(f"{np.count_nonzero(weights < least)} of the weights were less than one row")
        weights = np.maximum(weights, least)
        weights = weights / weights.sum()
    means = central.mean + mixture.means * units
    covariances = mixture.covariances * (units**2 if mixture.is_aligned else np.outer(units, units))
    order = canonical_order(weights, means)
    status = MixtureStatus.VALID
    if corrections:
        status = MixtureStatus.PROJECTED
    elif error > MAX_ERROR:
        status = MixtureStatus.WEAK_SIGNAL
    found = Mixture(weights[order], means[order], covariances[order])
    goodness = goodness_of(central, found, covariance_type)
    return MomentMixture.of(found, covariance_type, status, tuple(corrections), goodness)
