"""Sums of powers of rows about a centre, and moments about the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core import compiled
from apolar._core.arrays import Array
from apolar._core.gpu import MAX_LAUNCH_ROWS, reads_dtype_of
from apolar._core.namespaces import (
    DeviceCopies,
    is_device_array,
    namespace,
    thread_scratch,
    to_host,
    total,
)
from apolar.data import Chunk, Rows, on_checked
from apolar.data.chunks import check_weights, row_squares
from apolar.data.rows import DENSE_COLUMNS, add_up
from apolar.moments import device_sums
from apolar.tensor import SymmetricTensor, n_monomials
from apolar.tensor.monomials import dense_positions, power_sums

# The most columns for which the compiled extension is faster than BLAS.
KERNEL_COLUMNS = 128
# The largest variance of rows whose fourth powers do not overflow; the smallest is its reciprocal.
MAX_VARIANCE = 1e140


class ScaleError(ValueError):
    """The third or fourth powers of the rows overflow or underflow."""


def check_total_variance(variance: float) -> None:
    """Raise ScaleError if powers of the rows overflow or underflow; zero variance is refused elsewhere."""
    if variance == 0 or 1 / MAX_VARIANCE < variance < MAX_VARIANCE:
        return
    raise ScaleError(
        f"The columns have a total variance of {variance:.3g}: third and fourth powers of the rows overflow "
        "or underflow. Divide all columns by one number, their scale, first."
    )


def block_mean(block: Any, weights: Any) -> Array:
    """Return the weighted mean of a block, on the host."""
    weight = block.shape[0] if weights is None else to_host(total(weights))
    return np.asarray(to_host(weighted_sums(block, weights)) / float(weight))


# --- the one statistic of rows ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PowerSums:
    """Weighted sums over rows of powers of z = x - centre, and of y, the coordinates of z in some directions.

    They are computed by the compiled extension, by kernels of a GPU, or by any array library. Called with a
    block and its weights, it returns a tuple; a half that is not asked for is left out:

    - the sum of the weights, the number of rows, and the sums of z, and of z z^t or the squares of z;
    - the sums of |z|^2 z, and of y y y and higher powers (compact).

    Attributes
    ----------
    centre : DeviceCopies, shape (n_features,)
    second : {"full", "diag"} or None
        Which second powers to sum; None leaves out the first half. For sparse rows of many columns they are
        those about zero, which has to be the centre.
    order : int, default=2
        The highest power; 2 leaves out the second half.
    directions : DeviceCopies, shape (n_directions, n_features), or None
        Orthonormal; None for all coordinates.
    """

    centre: DeviceCopies
    second: str | None
    order: int = 2
    directions: DeviceCopies | None = None

    def of_rows(self, rows: Rows, n_threads: int = 1, **checks: bool) -> list[Any]:
        """Return the sums over rows: as they are stored where a kernel reads them, or in checked blocks.

        Parameters
        ----------
        rows : Rows
        n_threads : int, default=1
        **checks : bool
            Options of `Chunk.check`.
        """
        if rows.is_one_array and self._is_compiled(rows.n_features):

            def of_array(chunk: Chunk) -> Any:
                weights = check_weights(chunk.weights, chunk.values, chunk.first_row)
                return self._by_extension(chunk.values, weights, n_threads)

            sums = rows.reduce(of_array, chunk_rows=rows.n_rows)
            # Where they are not finite, a value is searched for that is not: that of a row of weight zero
            # does not matter.
            if are_finite(sums):
                return sums
        of_checked, template = on_checked(self, **checks), rows.device_template
        n_directions = 0 if self.directions is None else len(self.directions.values)
        if not device_sums.is_fused(template, rows.n_features, n_directions) or not reads_dtype_of(template):
            return rows.reduce(of_checked, n_threads, self.chunk_rows)
        part_rows = self.chunk_rows(rows)

        def of_stored(chunk: Chunk) -> Any:
            if chunk.values.shape[1] != chunk.n_features or not reads_dtype_of(chunk.values):
                return of_checked(chunk)
            weights = check_weights(chunk.weights, chunk.values, chunk.first_row)
            if weights is not None and not bool(namespace(weights).any(weights > 0)):
                return None
            sums = self._on_gpu(chunk.values, weights)
            return sums if are_finite(sums) else add_up(map(of_checked, chunk.parts(part_rows)))

        return rows.reduce(of_stored, n_threads, MAX_LAUNCH_ROWS)

    def chunk_rows(self, rows: Rows) -> int:
        """Return the number of rows of a chunk."""
        dim = rows.n_features if self.directions is None else len(self.directions.values)
        products = sum(n_monomials(dim, degree) for degree in range(2, (self.order + 3) // 2))
        return rows.chunk_rows(products if rows.is_wide else max(products, rows.n_features))

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(self, block: Any, weights: Any) -> tuple[Any, ...]:
        """Return the sums over a block of checked rows."""
        is_compiled = self._is_compiled(block.shape[1]) and compiled.can_read(block)
        known = self._by_extension(block, weights, 1) if is_compiled else ()
        if is_compiled and self.order <= 3:
            return known
        x, offset = centre_rows(block, self.centre)
        if self.second is not None and not is_compiled:
            products = _products(x, weights) if self.second == "full" else weighted_sums(_squares(x), weights)
            weight = x.shape[0] if weights is None else total(weights)
            known = weight, x.shape[0], weighted_sums(x, weights), products
        if self.order < 3:
            return known
        y = x if self.directions is None else x @ self.directions.to_device_of(x).T
        if self.directions is not None and offset is not None:
            y = y - self.directions.values @ offset
        if is_compiled:
            return (*known, *power_sums(y, weights, range(4, self.order + 1)))
        square_times = _square_times(x, offset, weights)
        return (*known, square_times, *power_sums(y, weights, range(3, self.order + 1)))

    def _is_compiled(self, n_columns: int) -> bool:
        """Return whether the compiled extension computes these sums up to order three, and is fast."""
        is_small = n_columns <= KERNEL_COLUMNS or (self.second == "diag" and self.order < 3)
        return compiled.kernels is not None and is_small

    @np.errstate(over="ignore", invalid="ignore")
    def _by_extension(self, values: Array, weights: Any, n_threads: int) -> tuple[Any, ...]:
        n_columns, centre = values.shape[1], self.centre.values
        sums: tuple[Any, ...] = ()
        if self.second is not None:
            kind = compiled.FULL if self.second == "full" else compiled.DIAGONAL
            row_map = compiled.RowMap.of(centre)
            (stats,) = compiled.stats_under(values, weights, row_map, None, kind, n_threads)
            weight, first, second = np.split(stats, [1, 1 + n_columns])
            second = second[dense_positions(n_columns, 2)] if self.second == "full" else second
            n_rows = len(values) if weights is None else int(np.count_nonzero(weights))
            sums = float(weight[0]), n_rows, first, second
        if self.order < 3:
            return sums
        row_map = compiled.RowMap.of(centre, 1.0 if self.directions is None else self.directions.values.T)
        return (*sums, *compiled.third_sums(values, weights, row_map, n_threads))

    def _on_gpu(self, values: Any, weights: Any) -> tuple[Any, ...]:
        """Return one of the halves, as kernels compute it."""
        if self.directions is None:
            is_full = self.second == "full"
            return device_sums.second_sums(values, weights, self.centre.values, is_full=is_full)
        basis = self.directions.values.T
        square_times, third = device_sums.third_sums(values, weights, self.centre.values, basis)
        # The kernel sums the part in the directions.
        return basis @ square_times, third


def centre_rows(block: Any, centre: DeviceCopies) -> tuple[Any, Any]:
    """Return rows and an offset, None for zero; the rows less the offset are those of a block less a centre.

    Only sparse rows of many columns have an offset: they are not made dense.
    """
    if sparse.issparse(block) and block.shape[1] > DENSE_COLUMNS:
        return block, centre.values
    dense = block.toarray() if sparse.issparse(block) else block
    return thread_scratch().compute("subtract", "centred", dense, centre.to_device_of(dense)), None


def are_finite(sums: Sequence[Any]) -> bool:
    """Return whether all sums are finite."""
    return all(bool(np.all(np.isfinite(value))) for value in map(to_host, sums))


def _square_times(x: Any, offset: Any, weights: Any) -> Any:
    """Return the weighted sum of |z|^2 z, with z the rows less an offset."""
    squares = row_squares(x)
    if offset is not None:
        squares = squares - 2 * (x @ offset) + offset @ offset
    squares = squares if weights is None else squares * weights
    sums = weighted_sums(x, squares)
    return sums if offset is None else sums - squares.sum() * offset


def _products(x: Any, weights: Any) -> Any:
    """Return the weighted sum of x x^t."""
    weighted = x
    if weights is not None:
        weighted = sparse.diags_array(weights) @ x if sparse.issparse(x) else weights[:, None] * x
    products = weighted.T @ x
    return products.toarray() if sparse.issparse(products) else products


def _squares(block: Any) -> Any:
    if sparse.issparse(block):
        return block.multiply(block)
    return thread_scratch().compute("multiply", "squares", block, block)


def weighted_sums(block: Any, weights: Any = None) -> Any:
    """Return the weighted sums of the columns."""
    if is_device_array(block):
        return namespace(block).sum(block, axis=0) if weights is None else weights @ block
    # A product with ones is faster than a sum if the columns are few.
    return np.asarray((np.ones(block.shape[0]) if weights is None else weights) @ block).ravel()


# --- moments about the mean -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CentralMoments:
    """Moments about the mean.

    Attributes
    ----------
    n_rows : float
        The number of rows, where a row of weight two counts as two rows.
    mean : ndarray, shape (n_features,)
    covariance : ndarray, shape (n_features, n_features)
    tensors : tuple of SymmetricTensor
        Of order 3 and above, as far as they are known, in the coordinates of the frame.
    square_times : ndarray, shape (n_features,)
        The mean of |x - mean|^2 (x - mean).
    frame : ndarray, shape (n_features, n_frame), or None
        None if the third moments are in all coordinates.
    """

    n_rows: float
    mean: Array
    covariance: Array
    tensors: tuple[SymmetricTensor, ...]
    square_times: Array
    frame: Array | None = None

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.mean)

    @property
    def order(self) -> int:
        """The highest order of the moments."""
        return 2 + len(self.tensors)

    @property
    def deviations(self) -> Array:
        """The deviation of each column, shape (n_features,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def third(self) -> SymmetricTensor:
        """The third moments, in the coordinates of the frame."""
        return self.tensors[0]

    def mapped(self, matrix: Array) -> CentralMoments:
        """Return the moments of the rows times a matrix, shape (n_features, n_new)."""
        if self.frame is not None:
            raise ValueError(
                "Columns cannot be changed in a sketch with a frame: it has third moments in few directions."
            )
        tensors = tuple(tensor.change_variables(matrix) for tensor in self.tensors)
        # The sum over i of the moments x_i x_i x_j.
        square_times = np.einsum("iij->j", tensors[0].to_dense())
        # One side after the other: products of the factors of both may underflow.
        covariance = matrix.T @ (self.covariance @ matrix)
        return CentralMoments(self.n_rows, self.mean @ matrix, covariance, tensors, square_times)

    def divided(self, units: Array) -> CentralMoments:
        """Return the moments of the rows with each column divided by its positive unit."""
        return self.mapped(np.diag(1 / units))

    def of_columns(self, columns: Sequence[int]) -> CentralMoments:
        """Return the moments of some columns, given by their numbers."""
        return self.mapped(np.eye(len(self.mean))[:, columns])

    def up_to(self, order: int) -> Array:
        """Return the moments of the centred columns up to an order as one array, shape (n_monomials,).

        Those of all monomials, of degree 0 first: 1, zeros, the covariance, and so on. They must be in all
        coordinates.
        """
        n_features = len(self.mean)
        covariance = self.covariance[np.triu_indices(n_features)]
        powers = [tensor.coefficients for tensor in self.tensors]
        return np.concatenate([np.ones(1), np.zeros(n_features), covariance, *powers[: order - 2]])
