"""From moments and their decomposition to the mixture: algorithm 1, and the equivariant form."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from apolar._arrays import Array
from apolar._checks import one_of, random_generator, whole_number
from apolar.decomposition import Waring, decompose, refine
from apolar.decomposition.jacobi import joint_rotation
from apolar.mixture import MixtureStatus, SphericalMixture
from apolar.mixture.parameters import by_weight
from apolar.moments import Moments, SignalMoments, signal_moments, spherical_moments
from apolar.moments.signal import check_components, check_spread
from apolar.tensor.monomials import dense_positions

FORMS = ("equivariant", "paper")

# The least variance of a projected mixture, relative to the mean variance. The least weight is one row.
LEAST_VARIANCE = 1e-2
# The longest mean of a projected mixture, relative to the root mean square of the data.
LONGEST_MEAN = 5.0
# Signal variances are no smaller than this much of the largest: below is rounding.
LEAST_SIGNAL = 1e-6


def mixture_from_moments(
    X: Any,
    n_components: int,
    form: str = "equivariant",
    *,
    sample_weight: Any = None,
    random_state: Any = None,
) -> SphericalMixture:
    """Return the spherical mixture whose moments are those of the data.

    Parameters
    ----------
    X : array_like, sparse matrix, dataframe, iterable of chunks, or MomentSketch
        Rows of shape (n_samples, n_features), or a sketch of them.
    n_components : int
        At most n_features.
    form : {"equivariant", "paper"}, default="equivariant"
        "equivariant" works about the mean, so that shifts, rotations and
        uniform scalings of the data do the same to the result, and averages
        over all noise directions. "paper" is the pipeline of
        [khouja2022moments]: moments, algorithm 2, at most five Riemannian
        Newton iterations, algorithm 1; it needs linearly independent means,
        and fails on centred data.
    sample_weight : array_like, shape (n_samples,), optional
    random_state : int, Generator or None, default=None

    Returns
    -------
    mixture : SphericalMixture
        Always valid; its `status` says whether it had to be made so.

    Examples
    --------
    >>> import apolar
    >>> X, _ = apolar.datasets.make_example(1, 100_000, random_state=0)
    >>> mixture = apolar.mixture_from_moments(X, 4)
    >>> mixture.weights.round(2)
    array([0.37, 0.33, 0.28, 0.01])
    >>> mixture.status.name
    'VALID'
    """
    one_of(form, "form", FORMS)
    n_components = whole_number(n_components, "n_components", least=1)
    # What chance decides here is below the sampling error: the same every time, unless asked otherwise.
    rng = random_generator(0 if random_state is None else random_state)
    if form == "paper":
        moments = spherical_moments(X, sample_weight)
        check_components(n_components, len(moments.first))
        size = float(np.trace(moments.second)) + moments.total_variance
        check_spread(n_components, moments.n_rows, moments.total_variance, moments.mean_variance, size)
        return _paper_mixture(moments, n_components, rng)
    signal = signal_moments(X, n_components - 1, sample_weight, rng)
    return _equivariant_mixture(signal)


# --- the equivariant form -------------------------------------------------------------


def _equivariant_mixture(signal: SignalMoments) -> SphericalMixture:
    """Return the mixture of the homogenised tensor sum_i w_i (1, nu_i)^3, by whitening and rotation.

    The slice G = sum_i w_i (1, nu_i)(1, nu_i)^t is known and positive: G^(-1/2) makes the terms
    sqrt(w_i) G^(-1/2) (1, nu_i) orthonormal.
    """
    notes: list[str] = []
    rank = len(signal.second) + 1
    slice_ = np.concatenate([[1.0], signal.second])
    least = LEAST_SIGNAL * max(signal.second.max(initial=0.0), signal.mean_variance)
    slice_[1:] = np.maximum(signal.second, least)
    roots = np.sqrt(slice_)
    tensor = np.zeros((rank, rank, rank))
    tensor[0] = tensor[:, 0] = tensor[:, :, 0] = np.diag(slice_)
    if signal.third is not None:
        tensor[1:, 1:, 1:] = signal.third.coefficients[dense_positions(rank - 1, 3)]
    whitened = tensor / (roots[:, None, None] * roots[:, None] * roots)
    terms = joint_rotation(whitened).T
    terms = terms * np.where(terms[:, :1] < 0, -1.0, 1.0)
    # Row i is sqrt(w_i) G^(-1/2) (1, nu_i): its first entry is sqrt(w_i), and these squares add up to one.
    heads = terms[:, 0]
    heads = np.sqrt(_valid_weights(heads**2, signal.n_rows, notes))
    weights = heads**2 / np.sum(heads**2)
    size = float(np.sqrt(signal.second.clip(min=0).sum() + signal.mean_variance))
    offsets = _within_reach(terms[:, 1:] * roots[1:] / heads[:, None], size, notes)
    noise = np.concatenate([[signal.mean_variance], signal.noise_times]) / roots
    variances = terms @ noise / heads
    variances = _valid_variances(variances, signal.mean_variance, notes)
    means = signal.mean + offsets @ signal.basis.T
    return _mixture(weights, means, variances, notes, _is_weak(signal), signal.spectrum)


def _is_weak(signal: SignalMoments) -> bool:
    """Return whether the weakest signal direction is below the edge of the noise of the others."""
    if not len(signal.second):
        return False
    spare = len(signal.mean) - len(signal.second) + 1
    weakest = float(signal.spectrum[len(signal.second) - 1])
    level = (signal.mean_variance * (spare - 1) + weakest) / spare
    return weakest <= level * (1 + np.sqrt(spare / signal.n_rows)) ** 2


def _valid_weights(weights: Array, n_rows: int, notes: list[str]) -> Array:
    least = min(1 / n_rows, 0.5 / len(weights))
    low = weights < least
    if np.any(low):
        notes.append(f"{np.count_nonzero(low)} of the weights were less than one row")
    return np.maximum(weights, least)


def _within_reach(means: Array, size: float, notes: list[str]) -> Array:
    """Return the means, those that are longer than any data shortened."""
    lengths = np.linalg.norm(means, axis=1)
    longest = LONGEST_MEAN * size
    far = lengths > longest
    if np.any(far):
        notes.append(f"{np.count_nonzero(far)} of the means were out of reach")
    return means * np.where(far, longest / np.where(far, lengths, 1), 1)[:, None]


def _valid_variances(variances: Array, mean_variance: float, notes: list[str]) -> Array:
    least = LEAST_VARIANCE * mean_variance
    low = variances < least
    if np.any(low):
        notes.append(f"{np.count_nonzero(low)} of the variances were below {LEAST_VARIANCE:g} of their mean")
    return np.maximum(variances, least)


def _mixture(
    weights: Array, means: Array, variances: Array, notes: list[str], weak: bool, spectrum: Array
) -> SphericalMixture:
    status = MixtureStatus.PROJECTED if notes else MixtureStatus.VALID
    if weak:
        status = MixtureStatus.WEAK_SIGNAL
    return SphericalMixture(*by_weight(weights, means, variances), status, tuple(notes), spectrum)


# --- the paper's form -------------------------------------------------------------------


def _paper_mixture(moments: Moments, n_components: int, rng: np.random.Generator) -> SphericalMixture:
    """Run the paper's pipeline: algorithm 2, at most five Newton iterations, algorithm 1.

    In units of a tenth of the size of the means: Newton's trust region sees the units, and this is what
    the paper's own examples have.
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
        found = decompose(moments.third, n_components, "pencil", refine=False, random_state=rng, field="real")
    except ValueError:
        # The pencil is singular: the means are dependent, as those of centred data are.
        found = decompose(moments.third, n_components, random_state=rng, field="real")
    mixture = recover(moments, refine(moments.third, found, method="newton", max_iter=5))
    return replace(mixture, means=mixture.means * unit, variances=mixture.variances * unit**2)


def recover(moments: Moments, waring: Waring) -> SphericalMixture:
    """Return the mixture of the paper's algorithm 1.

    From M3 = sum_i v_i (m_i . x)^3: the scales l_i from M2 = sum_i v_i l_i (m_i . x)^2, then weights
    v_i l_i^3 and means m_i / l_i, then the variances from M1 = sum_i w_i s_i mu_i, each by least squares.
    Weights are divided by their sum, which is one but for the sampling error.

    Parameters
    ----------
    moments : Moments
    waring : Waring
        A decomposition of `moments.third`.

    Returns
    -------
    mixture : SphericalMixture
        Made valid where the moments give no mixture; `status` and `projected` say so.
    """
    if not isinstance(moments, Moments) or not isinstance(waring, Waring):
        raise TypeError("recover takes the Moments of spherical_moments, and a Waring decomposition of M3.")
    if waring.order != 3 or waring.dim != len(moments.first) or waring.rank == 0:
        raise ValueError(
            f"The decomposition must be of order 3 in {len(moments.first)} variables, of rank 1 or more; "
            f"got order {waring.order}, {waring.dim} variables, rank {waring.rank}."
        )
    notes: list[str] = []
    points, tensor_weights = waring.points, waring.weights
    if waring.is_complex:
        notes.append("complex points were replaced by their real parts")
        points, tensor_weights = points.real, tensor_weights.real
    upper = np.triu_indices(waring.dim)
    counts = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    squares = tensor_weights[:, None] * points[:, upper[0]] * points[:, upper[1]] * counts
    scales = np.linalg.lstsq(squares.T, moments.second[upper] * counts, rcond=None)[0]
    weights = _valid_weights(tensor_weights * scales**3, moments.n_rows, notes)
    size = float(np.sqrt(max(np.trace(moments.second), 0.0) + moments.mean_variance))
    # A scale of zero is a mean at infinity: the least scale gives one that is out of reach.
    least_scale = np.linalg.norm(points, axis=1) / (2 * LONGEST_MEAN * size)
    scales = np.where(np.abs(scales) < least_scale, np.copysign(least_scale, scales), scales)
    means = _within_reach(points / scales[:, None], size, notes)
    if abs(weights.sum() - 1) > 0.1:
        notes.append(f"the weights added up to {weights.sum():.2g}")
    weights = weights / weights.sum()
    variances = np.linalg.lstsq((weights[:, None] * means).T, moments.first, rcond=None)[0]
    least = LEAST_VARIANCE * moments.mean_variance
    if np.any(variances < least):
        low = np.count_nonzero(variances < least)
        notes.append(f"{low} of the variances were below {LEAST_VARIANCE:g} of their mean")
        bounds = (least, np.inf)
        variances = lsq_linear((weights[:, None] * means).T, moments.first, bounds=bounds).x
        variances = np.maximum(variances, least)
    return _mixture(weights, means, variances, notes, False, np.zeros(0))
