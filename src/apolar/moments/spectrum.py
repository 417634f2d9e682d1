"""The number of components, from the eigenvalues of the covariance that exceed the noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array, frozen
from apolar.data import open_rows
from apolar.data.weights import as_counts, counted_rows
from apolar.moments.covariance import row_covariance
from apolar.moments.sketch import summary_moments
from apolar.moments.sums import check_scale

# With components of different variances, the eigenvalues of the noise spread as if there were this many times
# fewer rows.
ROWS_DIVISOR = 3.0


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
        if self.n_components > len(self.spectrum):
            return (
                "Every direction stands out: the data show no level of noise. There may be more components "
                "than columns, or clusters that are not spherical. Compare BIC over several numbers."
            )
        certainty = (
            "the thresholds agree" if self.least == self.most else f"{self.least} to {self.most} are possible"
        )
        return (
            f"{self.n_components} components ({certainty}), if the means are in general position and the "
            "clusters spherical. The estimate is too low for means on a line or plane, and too high for "
            "elongated clusters. Compare BIC over neighbouring numbers."
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
        weight, n_weighted, _, covariance = row_covariance(open_rows(X, as_counts(sample_weight)))
        n_rows = counted_rows(weight, n_weighted)
    check_scale(float(np.trace(covariance)))
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
        edge = level * (1 + np.sqrt((n_features - count) / n_rows)) ** 2
        if spectrum[count] <= edge:
            return count, level, float(edge)
    return n_features, 0.0, float(spectrum[-1])
