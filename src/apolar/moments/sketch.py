"""Additive moment sums that can be updated, merged and saved, in memory that does not grow with the rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, numeric_array
from apolar._core.compiled import kernel_threads
from apolar._core.files import load_arrays, save_arrays, stored_numbers, stored_value
from apolar.data import open_rows
from apolar.data.weights import check_total_weight
from apolar.moments.sums import Centred, MomentStatistic, MomentSums, ScaleError, effective_rows
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.monomials import dense_positions, monomial_variables

FORMAT = "apolar moment sketch"
VERSION = 3

# Third moments of this many columns take a few megabytes; above, a frame is required.
MAX_COLUMNS = 150


@dataclass(frozen=True, eq=False)
class CentralMoments:
    """Moments about the mean.

    Attributes
    ----------
    n_rows : int
    n_effective : float
        The number of equally weighted rows whose moments are as noisy: (sum of weights)^2 / sum of squares.
    mean : ndarray, shape (n_features,)
    covariance : ndarray, shape (n_features, n_features)
    third : SymmetricTensor
        Of order 3, in the coordinates of the frame.
    square_times : ndarray, shape (n_features,)
        The mean of |x - mean|^2 (x - mean).
    frame : ndarray, shape (n_features, n_frame), or None
        None if the third moments are in all coordinates.
    """

    n_rows: int
    n_effective: float
    mean: Array
    covariance: Array
    third: SymmetricTensor
    square_times: Array
    frame: Array | None

    def divided(self, units: Array) -> CentralMoments:
        """Return the moments of the rows with each column divided by its unit.

        Parameters
        ----------
        units : ndarray, shape (n_features,)
            Positive.
        """
        self._need_all_coordinates("changed")
        variables = monomial_variables(len(units), 3)
        third = self.third.coefficients / units[variables].prod(axis=1)
        return self._with(self.mean / units, self.covariance / units / units[:, None], third)

    def of_columns(self, columns: Sequence[int]) -> CentralMoments:
        """Return the moments of some columns, given by their numbers in ascending order."""
        self._need_all_coordinates("left out")
        chosen = np.asarray(columns)
        n_chosen = len(chosen)
        position = np.full(len(self.mean), -1)
        position[chosen] = np.arange(n_chosen)
        # Monomials are in lexicographic order: those of ascending columns keep theirs.
        kept = np.all(position[monomial_variables(len(self.mean), 3)] >= 0, axis=1)
        covariance = self.covariance[np.ix_(chosen, chosen)]
        return self._with(self.mean[chosen], covariance, self.third.coefficients[kept])

    def _with(self, mean: Array, covariance: Array, third: Array) -> CentralMoments:
        n_features = len(mean)
        tensor = SymmetricTensor(3, n_features, third)
        # The sum over i of the moments x_i x_i x_j.
        dense = third[dense_positions(n_features, 3)].reshape((n_features,) * 3)
        square_times = np.einsum("iij->j", dense)
        return CentralMoments(self.n_rows, self.n_effective, mean, covariance, tensor, square_times, None)

    def _need_all_coordinates(self, what: str) -> None:
        if self.frame is not None:
            raise ValueError(
                f"Columns cannot be {what} in a sketch with a frame: it has third moments in few directions."
            )


class MomentSketch:
    """Sums of powers of rows up to order three, about a provisional centre.

    It can be updated with chunks of rows, added to the sketches of other
    rows, saved and loaded; a mixture can be fitted from it without the rows.

    Parameters
    ----------
    n_features : int
        The number of columns.
    frame : array_like, shape (n_features, n_frame), optional
        Orthonormal columns: third moments are stored in these directions
        only, which makes many columns affordable. Sketches can be added only
        if they have the same frame.
    feature_names : sequence of str, optional
        The names of the columns. Sketches with other names, or in another
        order, cannot be added.

    Attributes
    ----------
    n_rows : int
        The number of rows that the sketch was updated with.
    total_weight : float
        The sum of their weights.

    Examples
    --------
    >>> import numpy as np, apolar
    >>> X = np.random.default_rng(0).standard_normal((1000, 3))
    >>> first = apolar.MomentSketch(3).update(X[:400])
    >>> second = apolar.MomentSketch(3).update(X[400:])
    >>> (first + second).n_rows
    1000
    >>> bool(np.allclose((first + second).central().mean, X.mean(axis=0)))
    True
    """

    def __init__(
        self, n_features: int, *, frame: Any = None, feature_names: Sequence[str] | None = None
    ) -> None:
        self.n_features = check_integer(n_features, "n_features", least=1)
        self.feature_names = None if feature_names is None else tuple(str(name) for name in feature_names)
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise ValueError(
                f"feature_names must name all {self.n_features} columns; got {len(self.feature_names)} names."
            )
        self.frame = None if frame is None else _checked_frame(frame, self.n_features)
        if self.frame is None and self.n_features > MAX_COLUMNS:
            raise ValueError(
                f"The third moments of {self.n_features} columns are "
                f"{n_monomials(self.n_features, 3):,} numbers. Make a MomentSketch with frame=, orthonormal "
                "columns such as the leading principal directions of a sample. Rows that can be read again, "
                "and form='equivariant', need no sketch."
            )
        # None before the first update.
        self._sums: MomentSums | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows that the sketch was updated with."""
        return 0 if self._sums is None else self._sums.n_rows

    @property
    def total_weight(self) -> float:
        """The sum of the weights of the rows."""
        return 0.0 if self._sums is None else self._sums.weight

    def update(self, X: Any, sample_weight: Any = None) -> MomentSketch:
        """Add rows. If they are invalid, an error is raised and the sketch stays as it was.

        Parameters
        ----------
        X : array_like, sparse matrix, dataframe, or iterable of chunks
            Of shape (n_samples, n_features).
        sample_weight : array_like, shape (n_samples,), optional

        Returns
        -------
        self : MomentSketch
        """
        rows = open_rows(X, sample_weight)
        if rows.n_features != self.n_features:
            raise ValueError(f"X has {rows.n_features} columns; this sketch is of {self.n_features}.")
        statistic = MomentStatistic(self.n_features, self.frame)
        with np.errstate(over="ignore", invalid="ignore"):  # sums that are not finite are refused below
            centred = Centred(None if self._sums is None else self._sums.centre)
            (sums,) = rows.reduce(statistic, centred, kernel_threads())
            sums = sums if self._sums is None else self._sums + sums
        check_total_weight(sums.weight, sums.weight_squares)
        if not sums.is_finite:
            raise ScaleError(
                "The third powers of these rows overflow: divide the columns by their scale first."
            )
        self._sums = sums
        return self

    def __add__(self, other: object) -> MomentSketch:
        if not isinstance(other, MomentSketch):
            return NotImplemented
        if self.n_features != other.n_features:
            raise ValueError(
                f"The sketches are of {self.n_features} and {other.n_features} columns: they cannot be added."
            )
        if not _same_frame(self.frame, other.frame):
            raise ValueError("The sketches use different frames: make them with one and the same.")
        if (
            None not in (self.feature_names, other.feature_names)
            and self.feature_names != other.feature_names
        ):
            raise ValueError(
                "The sketches are of other columns, or have them in another order: "
                f"{', '.join(self.feature_names or ())[:200]}; {', '.join(other.feature_names or ())[:200]}."
            )
        names = self.feature_names or other.feature_names
        result = MomentSketch(self.n_features, frame=self.frame, feature_names=names)
        if self._sums is None or other._sums is None:
            result._sums = self._sums or other._sums
            return result
        with np.errstate(over="ignore", invalid="ignore"):
            result._sums = self._sums + other._sums
        if not result._sums.is_finite:
            raise ScaleError(
                "The third powers of the rows of these sketches, about one centre, overflow: make them again "
                "of columns that are divided by one scale."
            )
        return result

    def __radd__(self, other: object) -> MomentSketch:
        # sum() starts from zero; its result must not share its state with the first sketch.
        if isinstance(other, int) and other == 0:
            return MomentSketch(self.n_features, frame=self.frame) + self
        return NotImplemented

    def central(self) -> CentralMoments:
        """Return the mean, the covariance and the third moments about the mean."""
        if self._sums is None:
            raise ValueError("The sketch has seen no rows: call update first.")
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self._sums.about(self._sums.mean)
        if not sums.is_finite:
            raise ScaleError(
                "The third powers of the rows of this sketch, about their mean, overflow: make it again of "
                "columns that are divided by their scale."
            )
        n_frame = self.n_features if self.frame is None else int(self.frame.shape[1])
        return CentralMoments(
            sums.n_rows,
            effective_rows(sums.weight, sums.weight_squares, sums.n_rows),
            sums.centre,
            sums.second / sums.weight,
            SymmetricTensor(3, n_frame, sums.third / sums.weight),
            sums.square_times / sums.weight,
            self.frame,
        )

    # --- files --------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sketch to a file of arrays, with a version and a checksum; it contains no code.

        The write is atomic: if it fails, no file appears, and an existing file stays as it was.
        """
        save_arrays(path, FORMAT, VERSION, self._arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MomentSketch:
        """Read a sketch from a file that `save` wrote."""
        arrays = load_arrays(path, FORMAT, VERSION, "a moment sketch", names=cls(1)._arrays())
        try:
            return cls._from_arrays(arrays)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is not a sound moment sketch: {error} Make the sketch again."
            ) from error

    @classmethod
    def _from_arrays(cls, arrays: dict[str, Array]) -> MomentSketch:
        n_features = check_integer(stored_value(arrays, "n_features", int), "n_features", least=1)
        n_rows, frame, shape = stored_value(arrays, "n_rows", int), arrays["frame"], (n_features,)
        n_frame = frame.shape[1] if frame.ndim == 2 and frame.size else n_features
        # The sizes of the sums are checked before a sketch is made: a file can claim any number of columns.
        weights = stored_value(arrays, "weight", float), stored_value(arrays, "weight_squares", float)
        sums = (
            stored_numbers(arrays, "first", shape),
            stored_numbers(arrays, "second", shape * 2),
            stored_numbers(arrays, "third", (n_monomials(n_frame, 3),)),
            stored_numbers(arrays, "square_times", shape),
        )
        stored_names = arrays["feature_names"]
        if stored_names.dtype.kind != "U" or stored_names.ndim != 1:
            raise ValueError("feature_names must be strings.")
        names = stored_names.tolist() if stored_names.size else None
        sketch = cls(n_features, frame=frame if frame.size else None, feature_names=names)
        if n_rows < 0 or min(weights) < 0 or (n_rows > 0) != (arrays["centre"].size > 0):
            raise ValueError("Its rows, their weight and their centre do not fit together.")
        if n_rows:
            centre = stored_numbers(arrays, "centre", shape)
            sketch._sums = MomentSums(centre, sketch.frame, n_rows, *weights, *sums)
        return sketch

    def _arrays(self) -> dict[str, Array]:
        sums = MomentSums.zeros(self.n_features, self.frame) if self._sums is None else self._sums
        return {
            "n_features": np.array(self.n_features),
            "n_rows": np.array(self.n_rows),
            "feature_names": np.array(self.feature_names or [], dtype=np.str_),
            "frame": np.zeros((0, 0)) if self.frame is None else self.frame,
            "centre": np.zeros(0) if self._sums is None else sums.centre,
            "weight": np.array(sums.weight),
            "weight_squares": np.array(sums.weight_squares),
            "first": sums.first,
            "second": sums.second,
            "third": sums.third,
            "square_times": sums.square_times,
        }

    def __repr__(self) -> str:
        return f"MomentSketch(n_features={self.n_features}, n_rows={self.n_rows})"


def summary_moments(X: Any, sample_weight: Any) -> CentralMoments | None:
    """Return the central moments of a sketch, or X itself if it is central moments; None if X is rows."""
    if not isinstance(X, CentralMoments | MomentSketch):
        return None
    if sample_weight is not None:
        raise ValueError("sample_weight belongs to rows; a sketch has its weights already.")
    return X if isinstance(X, CentralMoments) else X.central()


def _checked_frame(frame: Any, n_features: int) -> Array:
    array = numeric_array(frame, "frame")
    if np.iscomplexobj(array) or array.ndim != 2 or array.shape[0] != n_features or not array.shape[1]:
        raise ValueError(f"frame must be real, of shape ({n_features}, n_frame); got {array.shape}.")
    if not np.allclose(array.T @ array, np.eye(array.shape[1]), atol=1e-8):
        raise ValueError("The columns of frame must be orthonormal: pass numpy.linalg.qr(frame)[0].")
    return array


def _same_frame(a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool(np.allclose(a, b, atol=1e-12))
