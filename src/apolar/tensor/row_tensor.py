"""A sum of powers of data rows, sum_n w_n x_n^d, that is never formed."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, fits_in_memory, numeric_array
from apolar._core.namespaces import is_dask, is_device_array, to_numpy
from apolar._core.threads import default_threads, one_blas_thread
from apolar.data import Rows, fetch_rows, on_checked, open_rows
from apolar.tensor import monomials, row_sums
from apolar.tensor.row_sums import device_copies
from apolar.tensor.symmetric import SymmetricTensor

# Up to this many multiplications an exact norm is worth its time: seconds on one processor.
NORM_WORK = 5e10
# The number of points that are contracted together where there are many: what a block takes of memory.
POINTS = 1024
# Sizes |w| |x|^d beyond these bounds: their squares, as in norms, overflow or lose digits.
LARGEST, SMALLEST = 1e140, 1e-140


class RowSizes(NamedTuple):
    """Sums over rows that say how many and how large they are.

    Attributes
    ----------
    n_rows : int
    weight : float
        The sum of the weights.
    size : float
        The sum of ``|w_n| |x_n|^d``.
    squares : float
        The sum of ``|x_n|^2``.
    """

    n_rows: int
    weight: float
    size: float
    squares: float


Parts = tuple[tuple[float, Rows], ...]
"""Rows and their sign: those of positive weight, and those of negative weight."""


@dataclass(frozen=True, eq=False, repr=False)
class RowTensor:
    """The symmetric tensor sum_n w_n x_n^d of rows x_n of data, never formed [sherman2020].

    Made by `SymmetricTensor.from_rows`. It holds the rows, not the
    binom(m + d - 1, d) coefficients, and every operation is a sum over the
    rows: to contract it with r points takes two matrix products, O(n m r).

    Attributes
    ----------
    order : int
        The order d of the tensor, the degree of the form.
    parts : tuple of (float, Rows)
        The rows of positive weight, and those of negative weight.
    factor : float
        A factor of all weights.
    filled : tuple of (ndarray, int)
        The vectors that fill slots, and how many each.
    sizes : RowSizes

    Examples
    --------
    >>> import apolar
    >>> T = apolar.SymmetricTensor.from_rows([[1.0, 1.0], [1.0, -1.0]], [1.0, -1.0], order=3)
    >>> T
    RowTensor(order=3, dim=2): 2 rows
    >>> T.to_tensor()
    SymmetricTensor(order=3, dim=2): 6*x^2*y + 2*y^3
    >>> float(T([2.0, 1.0]))
    26.0
    """

    order: int
    parts: Parts
    factor: float
    filled: tuple[tuple[Array, int], ...]
    sizes: RowSizes

    @classmethod
    def from_rows(cls, rows: Any, weights: Any, order: int) -> RowTensor:
        """Return the tensor sum_n w_n x_n^d, the same as `SymmetricTensor.from_rows`.

        Parameters
        ----------
        rows : array_like, sparse matrix, dataframe or array of another library, shape (n_rows, dim)
            Any table that `GaussianMixture.fit` takes, in memory, on disk or on a
            GPU, without missing values. An array is not copied.
        weights : array_like, shape (n_rows,), or None
            Of any sign; None for ``1 / n_rows`` each, which makes the moment.
        order : int

        Returns
        -------
        tensor : RowTensor
        """
        order = check_integer(order, "order", least=1)
        parts = _signed_parts(rows, weights)
        if not all(part.rereadable for _, part in parts):
            raise ValueError(
                "The rows can be read only once: pass an array, or an iterable that can restart."
            )
        sizes = _measure_rows(parts, row_sums.Sizes(order), is_finite=False)
        if sizes.size < SMALLEST and sizes.squares > 0:
            raise ValueError(f"Powers of order {order} of the rows vanish: multiply the rows first.")
        return cls(order, parts, 1.0 if weights is not None else 1.0 / sizes.weight, (), sizes)

    # --- what it is ---------------------------------------------------------------

    @property
    def dim(self) -> int:
        """The number of variables, which is that of the columns."""
        return self.parts[0][1].n_features

    @property
    def n_rows(self) -> int:
        """The number of rows with a weight."""
        return self.sizes.n_rows

    def __repr__(self) -> str:
        return f"RowTensor(order={self.order}, dim={self.dim}): {self.n_rows} rows"

    # --- values and derivatives ---------------------------------------------------

    def __call__(self, x: Any) -> Array:
        """Return the form at points, sum_n w_n (x_n . x)^d.

        Parameters
        ----------
        x : array_like, shape (..., dim)

        Returns
        -------
        values : ndarray, shape (...)
        """
        points = self._points(x)
        values = self.contract_all(points.reshape(-1, self.dim), 0)
        return values.reshape(points.shape[:-1])[()]

    def gradient(self, x: Any) -> Array:
        """Return the gradient of the form at points, d T(x, ..., x, .).

        Parameters
        ----------
        x : array_like, shape (..., dim)

        Returns
        -------
        gradient : ndarray, shape (..., dim)
        """
        points = self._points(x)
        return self.order * self.contract_all(points.reshape(-1, self.dim), 1).reshape(points.shape)

    def contract(self, x: Any, times: int = 1) -> RowTensor:
        """Return the tensor T(x, ..., x, ., ...) of lower order, of the same rows.

        Parameters
        ----------
        x : array_like, shape (dim,)
        times : int, default=1
            How many slots to fill with x, less than the order.

        Returns
        -------
        tensor : RowTensor
            Of order ``order - times``.
        """
        times = check_integer(times, "times", least=1)
        point = self._points(x)
        if point.ndim != 1 or times >= self.order or np.iscomplexobj(point):
            raise ValueError(
                f"contract takes one real point of shape ({self.dim},) and times < {self.order}; got shape "
                f"{point.shape} and times={times}. To fill every slot call the tensor: T(x)."
            )
        filled = (*self.filled, (point, times))
        statistic = row_sums.Sizes(self.order - times, row_sums.filled_slots(filled))
        sizes = _measure_rows(self.parts, statistic)
        return RowTensor(self.order - times, self.parts, self.factor, filled, sizes)

    def contract_all(self, points: Array, left: int) -> Array:
        """Return T(v, ..., v, .) with `left` slots open, for many points at once.

        Parameters
        ----------
        points : ndarray, shape (n_points, dim)
        left : int

        Returns
        -------
        contracted : ndarray, shape (n_points, n_monomials(dim, left))
            Compact coefficients of the tensors that are left.
        """
        n_entries = len(points) * monomials.n_monomials(self.dim, left)
        fits_in_memory(n_entries, "The contraction", "contract fewer points at a time")
        batches = [points[start : start + POINTS] for start in range(0, len(points), POINTS)] or [points]
        statistic = row_sums.Contraction
        return np.concatenate([
            self._sum(statistic(device_copies(batch.T), self.order - left, left, self._slots))[0]
            for batch in batches
        ])  # fmt: skip

    # --- other forms of the same tensor -------------------------------------------

    def to_tensor(self) -> SymmetricTensor:
        """Return the tensor with all its coefficients; refused where they do not fit in memory."""
        return self._formed(None, self.dim)

    def change_variables(self, matrix: Any) -> SymmetricTensor:
        """Return the form after the substitution x = A y, with all its coefficients.

        Parameters
        ----------
        matrix : array_like, shape (dim, new_dim)
            The A; with few columns, so that the tensor is small.

        Returns
        -------
        tensor : SymmetricTensor
            Of dimension ``new_dim``.
        """
        matrix = numeric_array(matrix, "matrix")
        if matrix.ndim != 2 or matrix.shape[0] != self.dim or matrix.shape[1] == 0 or np.iscomplexobj(matrix):
            raise ValueError(f"matrix must be real, of shape ({self.dim}, new_dim); got {matrix.shape}.")
        return self._formed(matrix, matrix.shape[1])

    def norm(self) -> float:
        """Return the apolar norm, the Frobenius norm of the full array.

        Exact: by the coefficients, or by all pairs of rows. Refused where both
        take too long; `decompose` estimates the residual then.
        """
        if not self.norm_is_affordable:
            raise ValueError(
                f"The norm of a tensor of {self.n_rows} rows and {self.dim} columns takes all pairs of rows, "
                f"{self._pair_work:.2g} multiplications: take a sample of the rows, or fewer columns."
            )
        return self._norm

    @property
    def norm_is_affordable(self) -> bool:
        """Whether `norm` computes it."""
        return min(self._pair_work, self._coefficient_work) <= NORM_WORK

    @functools.cached_property
    def _norm(self) -> float:
        if self._coefficient_work <= self._pair_work:
            return self.to_tensor().norm()
        square = 0.0
        for sign, part in self.parts:
            n_rows = len(self._row_sizes(part))
            for start in range(0, n_rows, POINTS):
                stop = min(start + POINTS, n_rows)
                values, weights = fetch_rows(part, np.arange(start, stop))
                # The rows of this part, as a statistic sees them: with filled slots, their weights too.
                if self._slots is not None:
                    weights = self._slots(values, weights)
                points = values.toarray() if hasattr(values, "toarray") else values
                at_rows = self.contract_all(points, 0)[:, 0]
                square += sign * self.factor * float(at_rows.sum() if weights is None else weights @ at_rows)
        return float(np.sqrt(max(square, 0.0)))

    @property
    def _pair_work(self) -> float:
        return float(self.n_rows) ** 2 * (self.dim + self.order)

    @property
    def _coefficient_work(self) -> float:
        n_coefficients = float(monomials.n_monomials(self.dim, self.order))
        return np.inf if n_coefficients > 1e8 else self.n_rows * n_coefficients

    # --- directions and rows that matter ------------------------------------------

    @property
    def total_size(self) -> float:
        """The sum of the norms of the terms, ``sum_n |w_n| |x_n|^d``, a bound of the norm."""
        return self.factor * self.sizes.size

    @property
    def can_cancel(self) -> bool:
        """Whether powers of rows can cancel each other: not those of even order and positive weight."""
        return bool(self.order % 2 or self.filled or len(self.parts) > 1)

    def sampled_rows(self, n_samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return unit vectors of rows that are drawn, with replacement, in proportion to ``|w_n| |x_n|^d``.

        The mean of ``total_size * sign * P(unit)`` over the sample is an
        unbiased estimate of the apolar product <T, P> for every form P.

        Returns
        -------
        units : ndarray, shape (n_samples, dim)
        signs : ndarray, shape (n_samples,)
            Of the weights of the rows.
        """
        sizes = [self._row_sizes(part) for _, part in self.parts]
        ends = np.cumsum(np.concatenate(sizes))
        drawn = np.sort(np.searchsorted(ends, rng.uniform(0, ends[-1], n_samples), side="right"))
        drawn = np.minimum(drawn, len(ends) - 1)
        units, signs = [], []
        first = 0
        for (sign, part), part_sizes in zip(self.parts, sizes, strict=True):
            own = drawn[(drawn >= first) & (drawn < first + len(part_sizes))] - first
            first += len(part_sizes)
            if not len(own):
                continue
            values, weights = fetch_rows(part, own)
            signs.append(np.full(len(own), sign))
            if self._slots is not None:
                signs[-1] *= np.sign(self._slots(values, weights))
            dense = values.toarray() if hasattr(values, "toarray") else values
            units.append(dense / np.linalg.norm(dense, axis=1, keepdims=True))
        order = rng.permutation(n_samples)
        return np.concatenate(units)[order], np.concatenate(signs)[order]

    def second_moment(self, basis: Array) -> Array:
        """Return ``sum_n |w_n| |x_n|^(d-2) x_n x_n^t`` times a basis, shape (dim, n_directions); d >= 2."""
        statistic = row_sums.SecondMoment(self.order, device_copies(basis), self._slots)
        sums = [_sums(part, statistic)[0] for _, part in self.parts]
        return np.asarray(self.factor * sum(sums))

    def share_outside(self, basis: Array) -> float:
        """Return the root of the share of ``sum_n |x_n|^2`` outside the span of orthonormal columns."""
        statistic = row_sums.Outside(device_copies(basis))
        outside = sum(_sums(part, statistic)[0] for _, part in self.parts)
        return float(np.sqrt(outside / self.sizes.squares)) if self.sizes.squares else 0.0

    # --- sums over rows -----------------------------------------------------------

    @property
    def _slots(self) -> row_sums.FilledSlots | None:
        return row_sums.filled_slots(self.filled)

    def _sum(self, statistic: Any) -> list[Array]:
        """Return a statistic of the rows, those of negative weight with a minus."""
        totals: list[Array] | None = None
        with one_blas_thread():
            for sign, part in self.parts:
                sums = _sums(part, statistic)
                scaled = [sign * self.factor * np.asarray(value) for value in sums]
                totals = scaled if totals is None else [a + b for a, b in zip(totals, scaled, strict=True)]
        assert totals is not None
        return totals

    def _row_sizes(self, part: Rows) -> Array:
        statistic = row_sums.Sizes(self.order, self._slots)
        of_rows = on_checked(statistic.of_rows, is_finite=True)
        return np.concatenate(list(part.map(of_rows, default_threads())))

    def _formed(self, matrix: Array | None, dim: int) -> SymmetricTensor:
        n_entries = dim * monomials.n_monomials(dim, self.order - 1)
        fits_in_memory(n_entries, f"A tensor of order {self.order} in {dim} variables")
        copies = None if matrix is None else device_copies(matrix)
        (coefficients,) = self._sum(row_sums.Coefficients(self.order, copies, dim, self._slots))
        return SymmetricTensor(self.order, dim, coefficients)

    def _points(self, x: Any) -> Array:
        points = numeric_array(x, "x")
        if points.ndim == 0 or points.shape[-1] != self.dim:
            raise ValueError(f"The form has {self.dim} variables; got points of shape {points.shape}.")
        return points


def _sums(part: Rows, statistic: Any, *, is_finite: bool = True) -> list[Any]:
    """Return a statistic of rows, which were found finite when the tensor was made."""
    chunk_rows = functools.partial(Rows.chunk_rows, n_working=statistic.n_working)
    return part.reduce(on_checked(statistic, is_finite=is_finite), default_threads(), chunk_rows)


def _measure_rows(parts: Parts, statistic: row_sums.Sizes, *, is_finite: bool = True) -> RowSizes:
    """Return the sizes of rows, and refuse powers that overflow."""
    sums = [_sums(part, statistic, is_finite=is_finite) for _, part in parts]
    n_rows, weight, size, squares = (sum(terms) for terms in zip(*sums, strict=True))
    if not size <= LARGEST:
        raise ValueError(f"Powers of order {statistic.order} of the rows overflow: divide the rows first.")
    return RowSizes(int(n_rows), float(weight), float(size), float(squares))


def _signed_parts(rows: Any, weights: Any) -> Parts:
    """Return the rows of positive and those of negative weight: sources of rows take no negative weights."""
    if weights is None or is_dask(weights):
        return ((1.0, open_rows(rows, weights)),)
    host = numeric_array(to_numpy(weights) if is_device_array(weights) else weights, "weights")
    if np.iscomplexobj(host) or host.ndim != 1:
        raise ValueError(f"weights must be real numbers, one per row; got an array of shape {host.shape}.")
    if not np.any(host < 0):
        return ((1.0, open_rows(rows, host)),)
    negative = (-1.0, open_rows(rows, np.maximum(-host, 0.0)))
    return ((1.0, open_rows(rows, np.maximum(host, 0.0))), negative) if np.any(host > 0) else (negative,)
