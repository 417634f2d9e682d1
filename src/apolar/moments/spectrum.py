"""How many components: the eigenvalues of the covariance against the level of the noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array, frozen
from apolar.data import open_rows
from apolar.data.weights import as_counts
from apolar.moments.covariance import row_covariance
from apolar.moments.sketch import summarised
from apolar.moments.sums import check_scale

# Components of different variances make the noise fluctuate as that of fewer rows would.
FEWER_ROWS = 3.0


@dataclass(frozen=True, eq=False)
class ComponentCount:
    """A guess at the number of components, and the spectrum it rests on.

    Attributes
    ----------
    n_components : int
        One more than the eigenvalues that stand out of the noise.
    least, most : int
        The same with a stricter and a laxer threshold.
    spectrum : ndarray
        Eigenvalues of the covariance, largest first, without those that are zero.
    noise_level : float
        The mean of the eigenvalues that do not stand out.
    threshold : float
        What an eigenvalue must exceed to stand out.
    """

    n_components: int
    least: int
    most: int
    spectrum: Array
    noise_level: float
    threshold: float

    @property
    def message(self) -> str:
        """What the guess is worth, in words."""
        if self.n_components > len(self.spectrum):
            return (
                "Every direction stands out: the data show no level of noise. There may be more components "
                "than columns, or clusters that are not spherical. Compare BIC over several numbers."
            )
        sure = (
            "the thresholds agree" if self.least == self.most else f"{self.least} to {self.most} are possible"
        )
        return (
            f"{self.n_components} components ({sure}), if the means are in general position and the clusters "
            "spherical. Means on a line or plane count less than there are; elongated clusters count more. "
            "Compare BIC over neighbouring numbers."
        )


def n_components_from_spectrum(X: Any, sample_weight: Any = None) -> ComponentCount:
    """Return how many components the covariance shows.

    A spherical mixture of r components with means in general position has r - 1 eigenvalues above the
    noise, which is flat but for the fluctuation of a sample: those above the edge of Marchenko and Pastur
    are counted.

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
    central = summarised(X, sample_weight)
    if central is not None:
        n_rows, covariance = central.n_rows, central.covariance
    else:
        _, n_rows, _, covariance = row_covariance(open_rows(X, as_counts(sample_weight)))
    check_scale(float(np.trace(covariance)))
    spectrum = np.linalg.eigvalsh(covariance)[::-1]
    if not spectrum[0] > 0:
        raise ValueError("All rows are equal: there is nothing to tell components apart.")
    # Columns that are constant, or sums of others, say nothing of the noise.
    spectrum = spectrum[spectrum > 1e-12 * spectrum[0]]
    count, noise_level, threshold = _standing_out(spectrum, n_rows / FEWER_ROWS)
    strict = _standing_out(spectrum, n_rows / FEWER_ROWS**3)[0]
    lax = _standing_out(spectrum, n_rows)[0]
    return ComponentCount(count + 1, strict + 1, lax + 1, frozen(spectrum.copy()), noise_level, threshold)


def _standing_out(spectrum: Array, n_rows: float) -> tuple[int, float, float]:
    """Return how many eigenvalues exceed the edge of the noise of the others, its level, and the edge."""
    n_features = len(spectrum)
    for count in range(n_features):
        level = float(spectrum[count:].mean())
        edge = level * (1 + np.sqrt((n_features - count) / n_rows)) ** 2
        if spectrum[count] <= edge:
            return count, level, float(edge)
    return n_features, 0.0, float(spectrum[-1])
