"""The signal directions of a mixture, the subspace of its centred means: how many, and the moments there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from apolar._core.arrays import Array, frozen
from apolar._core.display import count_noun
from apolar._core.namespaces import DeviceCopies
from apolar.data import Rows, open_rows
from apolar.data.chunks import as_counts, counted_rows
from apolar.data.rows import DENSE_COLUMNS
from apolar.moments.covariance import RowMoments, leading_directions, row_moments
from apolar.moments.sketch import summary_moments
from apolar.moments.sums import CentralMoments, PowerSums, check_total_variance
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import exponents

# With components of different variances, the eigenvalues of the noise spread as if there were this many times
# fewer rows.
ROWS_DIVISOR = 3.0

NO_NOISE = (
    "The data have no noise: they lie in a subspace with one dimension per component, or fewer. "
    "Remove columns that depend on others, or ask for fewer components."
)


@dataclass(frozen=True, eq=False)
class SignalMoments:
    """Moments in the signal directions, and the noise in the others.

    For a mixture with weights w_i, means mu_i and variances s_i, nu_i denotes the coordinates of mu_i - mean
    in the signal basis.

    Attributes
    ----------
    n_rows : float
        The number of rows, where a row of weight two counts as two rows.
    mean : ndarray, shape (n_features,)
    basis : ndarray, shape (n_features, n_signal)
        Orthonormal columns: the directions of largest variance.
    spectrum : ndarray
        Eigenvalues of the covariance, largest first; not all if there are many columns.
    mean_variance : float
        sum_i w_i s_i, averaged over all noise directions.
    second : ndarray, shape (n_signal,)
        Variances in the signal directions, minus the mean variance.
    noise_times : ndarray, shape (n_signal,)
        sum_i w_i s_i nu_i.
    third : SymmetricTensor or None
        sum_i w_i (nu_i . x)^3; None if there is no signal direction.
    """

    n_rows: float
    mean: Array
    basis: Array
    spectrum: Array
    mean_variance: float
    second: Array
    noise_times: Array
    third: SymmetricTensor | None


def signal_moments(
    source: Rows | CentralMoments,
    n_signal: int,
    rng: np.random.Generator,
    known: RowMoments | None = None,
    n_threads: int = 1,
) -> SignalMoments:
    """Return the moments of rows, or of their central moments, in the leading directions.

    Rows are read twice, or once if their covariance is known; for many columns, several times more by the
    range finder.

    Parameters
    ----------
    source : Rows, rereadable, or CentralMoments
    n_signal : int
        The number of components minus one; below the number of columns.
    rng : numpy.random.Generator
        For the range finder.
    known : RowMoments, optional
        The first two moments of these rows, if they have been computed.
    n_threads : int, default=1

    Returns
    -------
    moments : SignalMoments
    """
    check_components(n_signal + 1, source.n_features)
    if isinstance(source, CentralMoments):
        return _from_central(source, n_signal)
    return _from_rows(source, n_signal, rng, known, n_threads)


def check_spread(
    n_components: int, n_rows: float, mean: Array, total_variance: float, mean_variance: float
) -> None:
    """Raise ValueError for rows that are all equal, too few, or without noise."""
    with np.errstate(over="ignore"):
        size = total_variance + float(mean @ mean)
    if n_rows < n_components:
        raise ValueError(f"{n_components} components need at least as many rows; there are {n_rows:g}.")
    # A variance far below the mean squared norm of the rows is rounding.
    if not total_variance > 1e-29 * size:
        raise ValueError("All rows are equal: there is nothing to tell components apart.")
    if not mean_variance > 1e-14 * total_variance:
        if n_rows <= n_components:
            raise ValueError(
                f"{n_rows:g} rows are too few for {n_components} components: they leave no noise."
            )
        raise ValueError(NO_NOISE)


def check_components(n_components: int, n_features: int) -> None:
    """Raise ValueError for more components than columns."""
    if n_components > n_features:
        raise ValueError(
            f"The moment method finds at most as many components as there are columns: {n_components} were "
            f"asked for, with {n_features} columns. Ask for fewer, add columns, or start EM another way."
        )


def _from_central(central: CentralMoments, n_signal: int) -> SignalMoments:
    """Return the signal moments of central moments."""
    frame = np.eye(len(central.mean)) if central.frame is None else central.frame
    if n_signal > frame.shape[1]:
        raise ValueError(f"The frame has {frame.shape[1]} directions; {n_signal} are needed.")
    variance = float(np.trace(central.covariance))
    check_total_variance(variance)
    values, vectors = np.linalg.eigh(frame.T @ central.covariance @ frame)
    inner = vectors[:, ::-1][:, :n_signal]
    basis = frame @ inner
    return _without_noise(
        *(central.n_rows, central.mean, variance, values[::-1], basis),
        lambda: (basis.T @ central.square_times, central.third.change_variables(inner)),
    )


def _without_noise(
    n_rows: float,
    mean: Array,
    variance: float,
    spectrum: Array,
    basis: Array,
    third_moments: Callable[[], tuple[Array, SymmetricTensor]],
) -> SignalMoments:
    """Return the signal moments from the total variance, the leading directions, and the moments there.

    `third_moments` returns E[|z|^2 y] and E[y y y], for the offsets z from the mean and their signal
    coordinates y. It is called if there are any, after the checks.
    """
    n_signal = basis.shape[1]
    n_noise = len(mean) - n_signal
    mean_variance = (variance - float(spectrum[:n_signal].sum())) / n_noise
    check_spread(n_signal + 1, n_rows, mean, variance, mean_variance)
    noise_times, third = np.zeros(n_signal), None
    if n_signal:
        square_times, raw = third_moments()
        # E[|y|^2 y] is the trace of E[y y y] over two of its indices.
        noise_times = (square_times - raw.hessian(np.eye(n_signal)).trace(axis1=1, axis2=2) / 6) / n_noise
        # The variances of the components contribute to the third moments of the rows.
        third = SymmetricTensor(3, n_signal, raw.coefficients - spread_in_third(n_signal) @ noise_times)
    second = spectrum[:n_signal] - mean_variance
    return SignalMoments(n_rows, mean, basis, spectrum, mean_variance, second, noise_times, third)


@lru_cache(maxsize=64)
def spread_in_third(dim: int) -> Array:
    """Return the contribution of the variances of components to third moments, shape (n_monomials, dim).

    This matrix times g = sum_i w_i s_i nu_i gives the coefficients of 3 |x|^2 (g . x), that is of the tensor
    T_abc = g_a d_bc + g_b d_ac + g_c d_ab.
    """
    powers = exponents(dim, 3)
    # The coefficient of x_a^3 is 3 g_a, and that of x_a x_b^2 is g_a.
    return frozen(
        np.where(powers == 3, 3.0, np.where((powers == 1) & (powers.max(axis=1) == 2)[:, None], 1.0, 0.0))
    )


def _from_rows(
    rows: Rows, n_signal: int, rng: np.random.Generator, known: RowMoments | None, n_threads: int
) -> SignalMoments:
    """Return the signal moments of rereadable rows."""
    # With more columns, a randomised range finder computes the leading eigenvectors of the covariance.
    has_covariance = rows.n_features <= DENSE_COLUMNS
    if known is None or (has_covariance and known.covariance is None):
        known = row_moments(rows, n_threads, has_covariance=has_covariance)
    mean, weight, variance = known.mean, known.weight, float(known.variances.sum())
    n_rows = counted_rows(weight, known.n_rows)
    check_total_variance(variance)
    if known.covariance is not None and has_covariance:
        values, vectors = np.linalg.eigh(known.covariance)
        spectrum, basis = values[::-1], np.ascontiguousarray(vectors[:, ::-1][:, :n_signal])
    else:
        check_spread(n_signal + 1, known.n_rows, mean, variance, variance)
        spectrum, basis = leading_directions(rows, mean, weight, n_signal, rng)
        if basis.shape[1] < n_signal:
            raise ValueError(NO_NOISE)

    def third_moments() -> tuple[Array, SymmetricTensor]:
        sums = PowerSums(DeviceCopies(mean), None, 3, DeviceCopies(basis.T))
        # The pass for the covariance has checked that they are finite.
        square_times, third = sums.of_rows(rows, n_threads, is_finite=True)
        return square_times @ basis / weight, SymmetricTensor(3, n_signal, third / weight)

    return _without_noise(n_rows, mean, variance, spectrum, basis, third_moments)


# --- the number of components -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ComponentCount:
    """An estimate of the number of components, and the spectrum it is based on.

    Attributes
    ----------
    n_components : int
        One more than the number of eigenvalues above the noise.
    least, most : int
        The same with a stricter and a more lenient threshold.
    spectrum : ndarray
        Eigenvalues of the covariance, largest first, without those that are zero.
    noise_level : float
        The mean of the eigenvalues of the noise.
    threshold : float
        Eigenvalues above it are not noise.
    """

    n_components: int
    least: int
    most: int
    spectrum: Array
    noise_level: float
    threshold: float

    @property
    def message(self) -> str:
        """An explanation of the estimate, with its assumptions."""
        if 1 < self.n_components == len(self.spectrum):
            return (
                "All eigenvalues except the last are above the noise, so the number may be wrong: there may "
                "be more components than columns, or clusters that are not spherical. Compare BIC over "
                "several numbers."
            )
        certainty = (
            "the thresholds agree" if self.least == self.most else f"{self.least} to {self.most} are possible"
        )
        return (
            f"{count_noun(self.n_components, 'component')} ({certainty}), if the means are in general "
            "position and the clusters spherical. The estimate is too low for means on a line or plane, and "
            "too high for elongated clusters. Compare BIC over neighbouring numbers."
        )


def n_components_from_spectrum(X: Any, sample_weight: Any = None) -> ComponentCount:
    """Return an estimate of the number of components from the spectrum of the covariance.

    The covariance of a spherical mixture of r components with means in general position has r - 1 eigenvalues
    above the noise; the others are equal. In a sample, the eigenvalues of the noise lie below the upper edge
    of the Marchenko-Pastur distribution: those above it are counted.

    Parameters
    ----------
    X : array_like, dataframe, iterable of chunks, or MomentSketch
        Rows of shape (n_samples, n_features), or a sketch of them.
    sample_weight : array_like, shape (n_samples,), optional

    Returns
    -------
    count : ComponentCount

    Examples
    --------
    >>> import apolar
    >>> X, _ = apolar.datasets.make_example(1, 10_000, random_state=0)
    >>> apolar.n_components_from_spectrum(X).n_components
    4
    """
    central = summary_moments(X, sample_weight)
    if central is not None:
        n_rows, covariance = central.n_rows, central.covariance
    else:
        known = row_moments(open_rows(X, as_counts(sample_weight)), has_covariance=True)
        assert known.covariance is not None
        n_rows, covariance = counted_rows(known.weight, known.n_rows), known.covariance
    check_total_variance(float(np.trace(covariance)))
    spectrum = np.linalg.eigvalsh(covariance)[::-1]
    if not spectrum[0] > 0:
        raise ValueError("All rows are equal: there is nothing to tell components apart.")
    # Columns that are constant, or linear combinations of others, have no noise.
    spectrum = spectrum[spectrum > 1e-12 * spectrum[0]]
    count, noise_level, threshold = _above_noise(spectrum, n_rows / ROWS_DIVISOR)
    strict = _above_noise(spectrum, n_rows / ROWS_DIVISOR**3)[0]
    lax = _above_noise(spectrum, n_rows)[0]
    return ComponentCount(count + 1, strict + 1, lax + 1, frozen(spectrum.copy()), noise_level, threshold)


def _above_noise(spectrum: Array, n_rows: float) -> tuple[int, float, float]:
    """Return the number of eigenvalues above the noise, the level of the noise, and its upper edge."""
    n_features = len(spectrum)
    for count in range(n_features):
        level = float(spectrum[count:].mean())
        edge = noise_edge(level, n_features - count, n_rows)
        if spectrum[count] <= edge:
            return count, level, edge
    return n_features, 0.0, float(spectrum[-1])


def noise_edge(level: float, n_directions: int, n_rows: float) -> float:
    """Return the largest eigenvalue of noise of some level in a sample, by the Marchenko-Pastur law."""
    return float(level * (1 + np.sqrt(n_directions / n_rows)) ** 2)
