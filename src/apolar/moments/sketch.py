"""Additive moment sums that can be updated, merged and saved, in memory that does not grow with the rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, numeric_array, one_of
from apolar._core.compiled import kernel_threads
from apolar._core.files import load_arrays, save_arrays, stored_numbers, stored_strings, stored_value
from apolar._core.namespaces import DeviceCopies, to_host
from apolar.data import Rows, on_checked, open_rows
from apolar.data.chunks import as_counts, check_total_weight, counted_rows
from apolar.moments.sums import CentralMoments, PowerSums, ScaleError, are_finite, block_mean
from apolar.tensor import SymmetricTensor, n_monomials

FORMAT = "apolar moment sketch"
# One more with powers above the third: sketches without are written as before, and old ones read.
VERSION = 3

ORDERS = (3, 4, 5, 6)
"""The highest powers that a sketch can keep."""
ORDER_FOR = {"spherical": 3, "diag": 3, "tied": 4, "full": 4}
"""The order with which a mixture of a family can be fitted, where its components are few enough."""
# Third moments of this many columns take a few megabytes; more of any order need a frame.
MAX_SKETCH_COLUMNS = 150


class MomentSketch:
    """Sums of powers of rows up to an order, about a provisional centre.

    It can be updated with chunks of rows, added to the sketches of other
    rows, saved and loaded; a mixture can be fitted from it without the rows.

    Parameters
    ----------
    n_features : int
        The number of columns.
    frame : array_like, shape (n_features, n_frame), optional
        Orthonormal columns: third and higher moments are stored in these
        directions only, which makes many columns affordable. Sketches can be
        added only if they have the same frame.
    feature_names : sequence of str, optional
        The names of the columns; by default those of the first dataframe.
        Dataframes and sketches with other names, or in another order, are
        refused.
    order : int, optional
        The highest power of the rows, from 3 to 6; by default what the
        family needs. The sketch holds about m^order / order! numbers for m
        columns. Only sketches of the same order can be added.
    covariance_type : {"spherical", "diag", "tied", "full"}, default="spherical"
        The family to fit: three powers suffice for spherical
        and diagonal covariances, and four for tied ones; components with
        covariances of their own, or more of them than columns, need four
        powers or more.

    Attributes
    ----------
    order : int
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
        self,
        n_features: int,
        *,
        frame: Any = None,
        feature_names: Sequence[str] | None = None,
        order: int | None = None,
        covariance_type: str = "spherical",
    ) -> None:
        one_of(covariance_type, "covariance_type", tuple(ORDER_FOR))
        self.order = ORDER_FOR[covariance_type] if order is None else check_integer(order, "order", least=1)
        one_of(self.order, "order", ORDERS)
        if self.order < ORDER_FOR[covariance_type]:
            raise ValueError(
                f"{covariance_type!r} covariances need moments of order {ORDER_FOR[covariance_type]}: "
                f"raise order from {self.order}, or leave it out."
            )
        self.n_features = check_integer(n_features, "n_features", least=1)
        self.feature_names = None if feature_names is None else tuple(str(name) for name in feature_names)
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise ValueError(
                f"feature_names must name all {self.n_features} columns; got {len(self.feature_names)} names."
            )
        self.frame = None if frame is None else _checked_frame(frame, self.n_features)
        n_frame = self.n_features if self.frame is None else self.frame.shape[1]
        n_numbers = n_monomials(n_frame, self.order)
        if n_numbers > n_monomials(MAX_SKETCH_COLUMNS, 3):
            lower = "a lower order, or " if self.order > 3 else ""
            raise ValueError(
                f"The moments of order {self.order} of {n_frame} columns are {n_numbers:,} numbers. Make a "
                f"MomentSketch with {lower}frame=, orthonormal columns such as the leading principal "
                "directions of a sample. Rows that can be read again, and form='equivariant', need no sketch."
            )
        zero, square = np.zeros(self.n_features), np.zeros((self.n_features, self.n_features))
        powers = [np.zeros(n_monomials(n_frame, degree)) for degree in range(3, self.order + 1)]
        # Of z = x - centre: the weight, the number of rows, and the sums of z, z z^t, |z|^2 z, and, compact
        # and in the frame, of z z z and higher powers.
        self._centre = zero
        self._sums: list[Any] = [0.0, 0, zero, square, zero, *powers]

    @property
    def n_rows(self) -> int:
        """The number of rows that the sketch was updated with."""
        return int(self._sums[1])

    @property
    def total_weight(self) -> float:
        """The sum of the weights of the rows."""
        return float(self._sums[0])

    def update(self, X: Any, sample_weight: Any = None) -> MomentSketch:
        """Add rows. If they are invalid, an error is raised and the sketch stays as it was.

        Parameters
        ----------
        X : array_like, sparse matrix, dataframe, or iterable of chunks
            Of shape (n_samples, n_features).
        sample_weight : array_like, shape (n_samples,), optional
            How many rows each row stands for.

        Returns
        -------
        self : MomentSketch
        """
        rows = open_rows(X, sample_weight)
        if rows.n_features != self.n_features:
            raise ValueError(f"X has {rows.n_features} columns; this sketch is of {self.n_features}.")
        self._check_names(rows.names, "X")
        with np.errstate(over="ignore", invalid="ignore"):  # sums that are not finite are refused
            added = self._of_rows(rows)
            check_total_weight(self.total_weight + added.total_weight)
            total = self + added
        self._centre, self._sums = total._centre, total._sums
        self.feature_names = self.feature_names or rows.names
        return self

    def _of_rows(self, rows: Rows) -> MomentSketch:
        """Return the sketch of rows about the centre of this one, or the mean of their first chunk.

        Chunks of distributed rows are summed about their own means: a partition is not computed twice.
        """
        centre, has_own_centres = self._centre, rows.is_distributed and not self.n_rows
        if not self.n_rows and not has_own_centres:
            centre = rows.first(on_checked(block_mean))
        directions = None if self.frame is None else DeviceCopies(self.frame.T)
        common, empty = PowerSums(DeviceCopies(centre), "full", self.order, directions), self._with_sums()

        def dense(block: Any) -> Any:
            return block.toarray() if sparse.issparse(block) else block

        def sketch_of(block: Any, weights: Any) -> tuple[MomentSketch]:
            mean = block_mean(block, weights)
            sums = replace(common, centre=DeviceCopies(mean))(dense(block), weights)
            return (empty._with_sums(mean, list(map(to_host, sums))),)

        if has_own_centres:
            return rows.reduce(on_checked(sketch_of), kernel_threads(), common.chunk_rows)[0]
        sums_of = on_checked(lambda block, weights: common(dense(block), weights))
        return self._with_sums(centre, rows.reduce(sums_of, kernel_threads(), common.chunk_rows))

    def _with_sums(self, centre: Array | None = None, sums: list[Any] | None = None) -> MomentSketch:
        """Return a sketch of the same kind with sums about a centre; by default of no rows."""
        sketch = MomentSketch(self.n_features, frame=self.frame, order=self.order)
        if centre is not None and sums is not None:
            sketch._centre, sketch._sums = centre, sums
        return sketch

    def _about(self, centre: Array) -> list[Any]:
        """Return the sums about another centre."""
        if centre is self._centre:
            return self._sums
        # The new sums are those of z + d.
        d = self._centre - centre
        weight, n_rows, old_first, old_second, square_times, *powers = self._sums
        first = old_first + weight * d
        second = old_second + np.outer(first, d) + np.outer(d, old_first)
        square_times = square_times + 2 * old_second @ d + (d @ d) * old_first + np.trace(second) * d
        frame = np.eye(len(d)) if self.frame is None else self.frame
        dim = frame.shape[1]
        products = (frame.T @ old_second @ frame)[np.triu_indices(dim)]
        # All sums together are those of powers of (1, y), and (1, y + shift) is a linear map of (1, y).
        compact = np.concatenate([[weight], frame.T @ old_first, products, *powers])
        matrix = np.eye(dim + 1)
        matrix[0, 1:] = frame.T @ d
        shifted = SymmetricTensor(self.order, dim + 1, compact).change_variables(matrix).coefficients
        powers = np.split(shifted, [n_monomials(dim + 1, degree) for degree in range(2, self.order)])[1:]
        return [weight, n_rows, first, second, square_times, *powers]

    def _check_names(self, names: tuple[str, ...] | None, what: str) -> None:
        """Refuse names other than those of this sketch; those of an array are not known."""
        if names and self.feature_names and names != self.feature_names:
            ours, theirs = (", ".join(listed)[:200] for listed in (self.feature_names, names))
            raise ValueError(
                f"This sketch and {what} have different columns, or a different order of columns: {ours}; "
                f"{theirs}. Select them by name: X[list(sketch.feature_names)]."
            )

    def __add__(self, other: object) -> MomentSketch:
        if not isinstance(other, MomentSketch):
            return NotImplemented
        if self.n_features != other.n_features:
            raise ValueError(
                f"The sketches are of {self.n_features} and {other.n_features} columns: they cannot be added."
            )
        if self.order != other.order:
            raise ValueError(
                f"The sketches are of order {self.order} and {other.order}: make them with the same order."
            )
        if not _same_frame(self.frame, other.frame):
            raise ValueError("The sketches use different frames: make them with the same frame.")
        self._check_names(other.feature_names, "the other")
        first, second = (self, other) if self.n_rows else (other, self)
        total = self._with_sums(first._centre, first._sums)
        total.feature_names = self.feature_names or other.feature_names
        with np.errstate(over="ignore", invalid="ignore"):
            if second.n_rows:
                others = second._about(first._centre)
                total._sums = [mine + theirs for mine, theirs in zip(first._sums, others, strict=True)]
        if not are_finite(total._sums):
            powers = "third powers" if self.order == 3 else f"powers of order {self.order}"
            raise ScaleError(
                f"The {powers} of these rows, about one centre, overflow: divide the columns by their scale "
                "first."
            )
        return total

    def __radd__(self, other: object) -> MomentSketch:
        # sum() starts from zero; its result must not share its state with the first sketch.
        if isinstance(other, int) and other == 0:
            return self._with_sums() + self
        return NotImplemented

    def central(self) -> CentralMoments:
        """Return the mean, the covariance and the higher moments about the mean."""
        if not self.n_rows:
            raise ValueError("The sketch has seen no rows: call update first.")
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self._centre + self._sums[2] / self.total_weight
            weight, n_rows, _, second, square_times, *powers = sums = self._about(mean)
        if not are_finite(sums):
            raise ScaleError(
                "Powers of the rows, about their mean, overflow: divide the columns by their scale first."
            )
        n_frame = self.n_features if self.frame is None else self.frame.shape[1]
        tensors = tuple(
            SymmetricTensor(order, n_frame, power / weight) for order, power in enumerate(powers, 3)
        )
        n_counted, covariance = counted_rows(weight, n_rows), second / weight
        return CentralMoments(n_counted, mean, covariance, tensors, square_times / weight, self.frame)

    # --- files --------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sketch to a file of arrays, with a version and a checksum; it contains no code.

        The write is atomic: if it fails, no file appears, and an existing file stays as it was.
        """
        save_arrays(path, FORMAT, VERSION + (self.order > 3), self._arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MomentSketch:
        """Read a sketch from a file that `save` wrote."""
        versions = VERSION, VERSION + 1
        arrays = load_arrays(path, FORMAT, versions, "a moment sketch", names=cls(1)._arrays())
        try:
            return cls._from_arrays(arrays)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is not a valid moment sketch: {error} Make the sketch again."
            ) from error

    @classmethod
    def _from_arrays(cls, arrays: dict[str, Array]) -> MomentSketch:
        n_features = check_integer(stored_value(arrays, "n_features", int), "n_features", least=1)
        n_rows, frame, shape = stored_value(arrays, "n_rows", int), arrays["frame"], (n_features,)
        n_frame = frame.shape[1] if frame.ndim == 2 and frame.size else n_features
        # The sizes of the sums are checked before a sketch is made: a file can claim any number of columns.
        order = stored_value(arrays, "order", int) if "order" in arrays else 3
        one_of(order, "order", ORDERS)
        weight = stored_value(arrays, "weight", float)
        shapes = {"first": shape, "second": shape * 2, "square_times": shape}
        shapes |= {_power_name(degree): (n_monomials(n_frame, degree),) for degree in range(3, order + 1)}
        missing = [name for name in shapes if name not in arrays]
        if missing:
            raise ValueError(f"Its sums {missing[0]!r} are missing.")
        sums = [stored_numbers(arrays, name, expected) for name, expected in shapes.items()]
        names = stored_strings(arrays, "feature_names") or None
        sketch = cls(n_features, frame=frame if frame.size else None, feature_names=names, order=order)
        if n_rows < 0 or weight < 0 or not (n_rows > 0) == (weight > 0) == (arrays["centre"].size > 0):
            raise ValueError("Its rows, their weight and their centre do not fit together.")
        if n_rows:
            sketch._centre, sketch._sums = stored_numbers(arrays, "centre", shape), [weight, n_rows, *sums]
        return sketch

    def _arrays(self) -> dict[str, Array]:
        weight, n_rows, first, second, square_times, *powers = self._sums
        arrays = {_power_name(degree): power for degree, power in enumerate(powers, 3)}
        if self.order > 3:
            arrays["order"] = np.array(self.order)
        return {
            **arrays,
            "n_features": np.array(self.n_features),
            "n_rows": np.array(n_rows),
            "feature_names": np.array(self.feature_names or [], dtype=np.str_),
            "frame": np.zeros((0, 0)) if self.frame is None else self.frame,
            "centre": self._centre if n_rows else np.zeros(0),
            "weight": np.array(weight),
            "first": first,
            "second": second,
            "square_times": square_times,
        }

    def __repr__(self) -> str:
        order = f", order={self.order}" if self.order > 3 else ""
        return f"MomentSketch(n_features={self.n_features}{order}, n_rows={self.n_rows})"


def summary_moments(X: Any, sample_weight: Any) -> CentralMoments | None:
    """Return the central moments of a sketch, or X itself if it is central moments; None if X is rows."""
    if not isinstance(X, CentralMoments | MomentSketch):
        return None
    if sample_weight is not None:
        raise ValueError("sample_weight belongs to rows; a sketch has its weights already.")
    return X if isinstance(X, CentralMoments) else X.central()


def central_moments(X: Any, sample_weight: Any = None, *, order: int = 3) -> CentralMoments:
    """Return the central moments of rows, up to an order, or of a sketch; of central moments, themselves."""
    central = summary_moments(X, sample_weight)
    if central is not None:
        return central
    rows = open_rows(X, as_counts(sample_weight))
    return MomentSketch(rows.n_features, order=order).update(rows).central()


def _power_name(degree: int) -> str:
    """Return the name of the sums of powers of a degree in files."""
    return "third" if degree == 3 else f"power{degree}"


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
