"""Mixtures of every family from central moments: from which order on, and by which start."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from apolar._core.arrays import Array
from apolar.exceptions import ColumnError
from apolar.mixture import MixtureStatus, MomentMixture
from apolar.mixture.families import family
from apolar.mixture.parameters import MixtureParameters
from apolar.moments import CentralMoments
from apolar.moments.covariance import is_constant
from apolar.moments.sketch import ORDERS
from apolar.recovery.equivariant import (
    MIN_SIGNAL,
    MIN_VARIANCE_RATIO,
    discrete_distribution,
    has_covariance,
    projected_mixture,
    valid_weights,
)
from apolar.recovery.moment_fit import MAX_MOMENTS, MomentFit, nearest_covariances, observed_moments
from apolar.recovery.tied import tied_mixture
from apolar.tensor import n_monomials
from apolar.tensor.monomials import dense_positions

COVARIANCE_TYPES = ("spherical", "diag", "tied", "full")
"""The families that moments can determine."""
# Moments per parameter from which samples determine a mixture in practice.
MIN_MOMENTS_PER_PARAMETER = 1.2
# Random starts of a fit to moments of order four and above.
N_RANDOM_STARTS = 16
# How many of these fits, the best, are weighted by the sampling errors of the moments.
N_WEIGHTED = 4
# Moments that are this unlikely contradict a mixture, and those farther from it than this, in squared
# deviations of a row, are those of another family: in tables of four to thirteen columns they are within 0.1
# where the mixture is nearly as likely as can be, and above 0.19 where it is nats less likely.
MIN_P_VALUE, MAX_MISFIT = 1e-3, 0.15
# Smaller eigenvalues of correlations, in units of the largest, are rounding errors.
MIN_EIGENVALUE = 1e-10


def needed_order(covariance_type: str, n_components: int, n_features: int) -> int:
    """Return the order of the moments that a mixture needs; refuse what no order determines.

    Parameters
    ----------
    covariance_type : {"spherical", "diag", "tied", "full"}
    n_components, n_features : int
    """
    columns = "1 column" if n_features == 1 else f"{n_features} columns"
    what = f"{n_components} {covariance_type!r} components in {columns}"
    # The most components that the closed solution of a family finds.
    identified = [r for r in range(1, n_features + 1) if is_identified(r, n_features)]
    most = {"spherical": n_features, "diag": max(identified), "tied": n_features + 1, "full": 1}[
        covariance_type
    ]
    if n_components <= most:
        return 4 if covariance_type == "tied" and n_components > 1 else 3
    if covariance_type == "tied":
        raise ValueError(f"{what}: moments determine at most {most}, one more than columns.")
    # The most columns whose moments can all be weighted.
    few = max(m for m in range(1, MAX_MOMENTS) if n_monomials(m + 1, ORDERS[-1]) <= MAX_MOMENTS)
    if n_features > few:
        instead = f"at most {most} components" if most > 1 else 'covariance_type="tied" or "diag"'
        raise ValueError(
            f"{what} need moments of order four or more, which are for {few} columns or fewer: ask "
            f"for {instead}, or choose {few} columns."
        )
    n_parameters = family(covariance_type).n_parameters(n_components, n_features)
    for order in range(4, ORDERS[-1] + 1):
        if n_monomials(n_features + 1, order) - 1 >= MIN_MOMENTS_PER_PARAMETER * n_parameters:
            return order
    raise ValueError(
        f"{what} have {n_parameters} parameters, too many for moments up to order {ORDERS[-1]}: ask for "
        "fewer components, or take more columns."
    )


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
        Spherical components that third moments determine have a method of their own, `spherical_mixture`.
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
    if covariance_type == "spherical":
        units = np.full(n_features, np.sqrt(np.mean(units**2)))
    standard = central.divided(units)
    values, vectors = np.linalg.eigh(standard.covariance)
    is_singular = bool(values[0] <= MIN_EIGENVALUE * values[-1])
    if is_singular and covariance_type in ("tied", "full"):
        column = int(np.argmax(np.abs(vectors[:, 0])))
        raise ColumnError(column, "is a linear function of others: leave one of them out, or take more rows.")
    corrections: list[str] = []
    if n_components == 1:
        mixture = MixtureParameters(np.ones(1), np.zeros((1, n_features)), standard.covariance[None])
        error = 0.0
    elif covariance_type == "tied":
        mixture, error = tied_mixture(standard, n_components, refine=refine)
    elif covariance_type == "diag" and order == 3:
        highest = _weighted_order(standard) if refine else 0
        is_rough, start = highest < 3, diagonal_start(standard, n_components)
        fit = observed_moments(standard, max(highest, 3)).fit("diag", start, is_rough=is_rough)
        mixture, error = fit.mixture, 0.0 if is_rough else fit.mean_error
    else:
        starts = [_random_start(values, vectors, n_components, rng) for _ in range(N_RANDOM_STARTS)]
        if n_components <= n_features + 1 and not is_singular:
            starts.append(tied_mixture(standard, n_components, refine=False)[0])
        best = _best_fit(standard, covariance_type, starts)
        if best is None:
            corrections.append(
                "each mixture that fits the moments has a component of hardly any weight or width"
            )
        mixture, error = (starts[-1], np.inf) if best is None else (best.mixture, best.mean_error)
    return _in_units(central, mixture, covariance_type, units, error, corrections)


def moment_agreement(central: CentralMoments, mixture: MomentMixture) -> MomentFit | None:
    """Return how well a mixture in the units of the data agrees with all central moments.

    Moments are compared in deviations of the columns, whatever the family, and up to the highest order at
    which they are not too many; None if there is none, the moments are in some directions only, or columns
    are so different that the mixture in their deviations leaves the range of numbers.

    Parameters
    ----------
    central : CentralMoments
    mixture : MomentMixture
    """
    order, units = _weighted_order(central), central.deviations
    if order < 3 or central.frame is not None or not np.all(units > 0):
        return None
    kind, covariances = mixture.stored
    with np.errstate(over="ignore", invalid="ignore"):
        matrices = kind.matrices(covariances, *mixture.means.shape) / units / units[:, None]
        means = (mixture.means - central.mean) / units
        # Sampling errors are products of two moments of twice the order.
        highest = (np.abs(means).max() + np.sqrt(np.abs(matrices).max())) ** (4 * order)
    if not np.isfinite(highest):
        return None
    scaled = MixtureParameters(mixture.weights, means, matrices)
    return MomentFit(observed_moments(central.divided(units), order), mixture.covariance_type, scaled)


def judge_fit(central: CentralMoments, mixture: MomentMixture) -> MomentMixture:
    """Return a mixture with its agreement with the moments; one that is far from them is a poor fit."""
    agreement = moment_agreement(central, mixture)
    is_far = agreement is not None and agreement.p_value < MIN_P_VALUE and agreement.misfit > MAX_MISFIT
    if mixture.covariance_type == "spherical":
        is_far = is_far or not has_covariance(mixture, central)
    status = MixtureStatus.POOR_FIT if is_far and mixture.status is MixtureStatus.VALID else mixture.status
    return replace(mixture, agreement=agreement, status=status)


def _weighted_order(central: CentralMoments) -> int:
    """Return the highest order up to which moments are weighted by their sampling errors: 2 if none is."""
    orders = range(3, central.order + 1)
    return max((d for d in orders if n_monomials(len(central.mean) + 1, d) <= MAX_MOMENTS), default=2)


def _random_start(
    values: Array, vectors: Array, n_components: int, rng: np.random.Generator
) -> MixtureParameters:
    """Return equal components, half as wide as the rows, at random places of their covariance."""
    n_features = len(values)
    root = vectors * np.sqrt(np.maximum(values, MIN_EIGENVALUE * values[-1]) / 2)
    means = rng.standard_normal((n_components, n_features)) @ root.T
    matrices = np.repeat((root @ root.T)[None], n_components, axis=0)
    return MixtureParameters(np.full(n_components, 1 / n_components), means, matrices)


def _best_fit(
    standard: CentralMoments, covariance_type: str, starts: list[MixtureParameters]
) -> MomentFit | None:
    """Return the best fit to all moments from some starts; None if all are degenerate.

    All starts are fitted roughly, and the best of them with the sampling errors of the moments.
    """
    observed = observed_moments(standard, _weighted_order(standard))
    rough: list[MomentFit] = []
    sound: list[MomentFit] = []
    for start in starts:
        with contextlib.suppress(np.linalg.LinAlgError):
            rough.append(observed.fit(covariance_type, start, is_rough=True))
    for fit in sorted(rough, key=lambda fit: fit.cost):
        with contextlib.suppress(np.linalg.LinAlgError):
            weighted = observed.fit(covariance_type, fit.mixture, n_rounds=2)
            if _is_sound(weighted.mixture, standard.n_rows):
                sound.append(weighted)
        if len(sound) == N_WEIGHTED:
            break
    return min(sound, key=lambda fit: fit.criterion, default=None)


def _is_sound(mixture: MixtureParameters, n_rows: float) -> bool:
    """Return whether components have more rows than columns, and are not flat to within one row."""
    flattest = float(np.linalg.eigvalsh(mixture.covariances).min())
    return bool(min(mixture.weights.min() / mixture.n_features, flattest) * n_rows > 1)


def _in_units(
    central: CentralMoments,
    mixture: MixtureParameters,
    covariance_type: str,
    units: Array,
    error: float,
    corrections: list[str],
) -> MomentMixture:
    """Return the mixture in the units of the data, with its status."""
    # A mean that is not known to within a deviation of its component is that of too small a sample.
    status = MixtureStatus.WEAK_SIGNAL if error > 1 and not corrections else MixtureStatus.VALID
    weights = valid_weights(mixture.weights, central.n_rows, corrections)
    means = central.mean + mixture.means * units
    matrices = mixture.covariances * np.outer(units, units)
    stored = nearest_covariances(MixtureParameters(weights, means, matrices), covariance_type)
    found = projected_mixture(weights, means, stored, covariance_type, status=status, corrections=corrections)
    return judge_fit(central, found)


# --- diagonal components ----------------------------------------------------------------------------


def is_identified(n_components: int, n_features: int) -> bool:
    """Return whether entries of different indices determine a mixture, for almost all mixtures."""
    n_factors = n_components - 1
    return n_components == 1 or (
        n_features >= 3 and n_features > n_factors and (n_features - n_factors) ** 2 >= n_features + n_factors
    )


def diagonal_start(moments: CentralMoments, n_components: int) -> MixtureParameters:
    """Return about the mixture of moments, by the entries that determine its means; variances are pooled.

    Entries of the moments with different indices do not see the variances: with a_k the centred means,

        C_ij = sum_k w_k a_ki a_kj,    T_ijl = sum_k w_k a_ki a_kj a_kl    (i, j, l all different).

    Off its diagonal the covariance is U U^t with U of r - 1 columns, a factor analysis, which is unique up to
    a rotation if (m - p)^2 >= m + p, p = r - 1 [anderson1956]. In the coordinates of U the third moments are
    a small tensor, found by linear least squares over i < j < l; homogenised, it is orthogonal, and a joint
    rotation of its slices gives weights and means.

    Parameters
    ----------
    moments : CentralMoments
        Of columns with variance one.
    n_components : int
        At least 2, and such that the mixture `is_identified`.
    """
    factors = _factors(moments.covariance, n_components - 1)
    core = _core(moments.third.to_dense(), factors)
    weights, atoms = discrete_distribution(np.eye(n_components - 1), core)
    weights = np.maximum(weights, 1 / moments.n_rows)
    weights = weights / weights.sum()
    # A component further out would have more variance between components than a column has.
    furthest = np.sqrt(1 / weights - 1)[:, None]
    means = np.clip(atoms @ factors.T, -furthest, furthest)
    rest = np.maximum(1 - weights @ means**2, MIN_VARIANCE_RATIO)
    return MixtureParameters(weights, means, np.repeat(np.diag(rest)[None], n_components, axis=0))


def _factors(correlations: Array, n_factors: int) -> Array:
    """Return U, shape (n_features, n_factors), with U U^t near to the correlations off the diagonal."""
    # Squared multiple correlations: that of a column which is a function of others is one.
    inverse = np.linalg.pinv(correlations, hermitian=True)
    reduced = correlations.copy()
    np.fill_diagonal(reduced, np.clip(1 - 1 / np.diag(inverse), 0.0, 1.0))
    values, vectors = np.linalg.eigh(reduced)
    return vectors[:, -n_factors:] * np.sqrt(np.maximum(values[-n_factors:], MIN_SIGNAL))


def _core(third: Array, factors: Array) -> Array:
    """Return the tensor whose image under U has the third moments where indices are different."""
    n_features, n_factors = factors.shape
    i, j, k = np.ogrid[:n_features, :n_features, :n_features]
    different = np.nonzero((i < j) & (j < k))
    # Each coefficient of a symmetric tensor stands for all entries of its monomial.
    a, b, c = (factors[indices] for indices in different)
    products = np.einsum("na,nb,nc->nabc", a, b, c).reshape(len(a), -1)
    where = dense_positions(n_factors, 3)
    system = products @ (where.reshape(-1, 1) == np.arange(where.max() + 1))
    coefficients = np.linalg.lstsq(system, third[different], rcond=1e-10)[0]
    return coefficients[where]
