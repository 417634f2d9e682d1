"""A sum of powers of data rows, sum_n w_n x_n^d, that is never formed: its operations are sums over rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.checks import check_integer, fits_in_memory, numeric_array
from apolar._core.namespaces import (
    DeviceCopies,
    is_dask,
    namespace,
    to_device_of,
    to_host,
    to_numpy,
)
from apolar._core.threads import default_threads, one_blas_thread
from apolar.data import Rows, fetch_rows, on_checked, open_rows
from apolar.data.chunks import row_squares
from apolar.tensor import monomials
from apolar.tensor.coefficients import Form
from apolar.tensor.symmetric import SymmetricTensor

# Up to this many multiplications an exact norm is worth its time: seconds on one processor.
NORM_WORK = 5e10
# Sizes |w| |x|^d beyond these bounds: their squares, as in norms, overflow or lose digits.
LARGEST, SMALLEST = 1e140, 1e-140

Parts = tuple[tuple[float, Rows], ...]
"""Rows and their sign: those of positive weight, and those of negative weight."""


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


@dataclass(frozen=True, eq=False, repr=False)
class RowTensor(Form):
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
    filled : tuple of (DeviceCopies, int)
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
    filled: tuple[tuple[DeviceCopies, int], ...]
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
        sizes = _measure_rows(parts, order, (), is_finite=False)
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

    @property
    def total_size(self) -> float:
        """The sum of the norms of the terms, ``sum_n |w_n| |x_n|^d``, a bound of the norm."""
        return self.factor * self.sizes.size

    @property
    def can_cancel(self) -> bool:
        """Whether powers of rows can cancel each other: not those of even order and positive weight."""
        return bool(self.order % 2 or self.filled or len(self.parts) > 1)

    def __repr__(self) -> str:
        return f"RowTensor(order={self.order}, dim={self.dim}): {self.n_rows} rows"

    # --- contractions, and other forms of the same tensor -----------------------------

    def _fill_slots(self, point: Array, times: int) -> RowTensor:
        if np.iscomplexobj(point):
            raise ValueError("contract takes one real point: rows are real.")
        filled = (*self.filled, (DeviceCopies(point), times))
        sizes = _measure_rows(self.parts, self.order - times, filled, is_finite=True)
        return replace(self, order=self.order - times, filled=filled, sizes=sizes)

    def contract_all(self, points: Array, left: int) -> Array:
        """Return contractions with points: two products with the matrix of the rows."""
        n_monomials = monomials.n_monomials(self.dim, left)
        fits_in_memory(len(points) * n_monomials, "The contraction", "contract fewer points at a time")
        vectors, power = DeviceCopies(points.T), self.order - left

        def contract(block: Any, weights: Any) -> tuple[Any]:
            values = _integer_power(_product(block, vectors.to_device_of(block)), power)
            if weights is not None:
                values = values * weights[:, None]
            if left == 0:
                return (namespace(values).sum(values, axis=0)[:, None],)
            powers = block if left == 1 else monomials.monomial_values(_dense(block), left)
            return (_product(powers.T, values).T,)

        return self.factor * self._sum(contract, 2 * len(points) + (n_monomials if left > 1 else 0))

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
        return self._formed(DeviceCopies(matrix), matrix.shape[1])

    def _formed(self, matrix: DeviceCopies | None, dim: int) -> SymmetricTensor:
        n_working = 2 * monomials.n_monomials(dim, self.order - 1) + dim
        fits_in_memory(dim * (n_working // 2), f"A tensor of order {self.order} in {dim} variables")
        order = self.order

        def form(block: Any, weights: Any) -> tuple[Any, ...]:
            points = _dense(block) if matrix is None else _product(block, matrix.to_device_of(block))
            return tuple(monomials.power_sums(points, weights, [order]))

        return SymmetricTensor(order, dim, self.factor * self._sum(form, n_working))

    # --- the norm -----------------------------------------------------------------

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
            for points, weights in part.map(_on_rows(_copies_on_host, self.filled)):
                at_rows = self.contract_all(points, 0)[:, 0]
                square += sign * self.factor * float(at_rows.sum() if weights is None else weights @ at_rows)
        return float(np.sqrt(max(square, 0.0)))

    @property
    def _pair_work(self) -> float:
        return float(self.n_rows) ** 2 * (self.dim + self.order)

    @property
    def _coefficient_work(self) -> float:
        return float(self.n_rows) * monomials.n_monomials(self.dim, self.order)

    # --- directions and rows that matter ------------------------------------------

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
        measure = _on_rows(functools.partial(_row_sizes, self.order), self.filled)
        sizes = [np.concatenate(list(part.map(measure, default_threads()))) for _, part in self.parts]
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
            values, weights = _copies_on_host(*fetch_rows(part, own))
            filled = _filled_weights(self.filled, values, weights)
            signs.append(np.full(len(own), sign) * (1 if filled is None else np.sign(filled)))
            units.append(values / np.linalg.norm(values, axis=1, keepdims=True))
        order = rng.permutation(n_samples)
        return np.concatenate(units)[order], np.concatenate(signs)[order]

    def second_moment(self, basis: Array) -> Array:
        """Return ``sum_n |w_n| |x_n|^(d-2) x_n x_n^t`` times a basis, shape (dim, n_directions); d >= 2.

        For positive weights and even orders this is the tensor contracted with identity matrices.
        """
        directions, order = DeviceCopies(basis), self.order

        def moment(block: Any, weights: Any) -> tuple[Any]:
            sizes = _row_sizes(order - 2, block, weights)
            coordinates = _product(block, directions.to_device_of(block))
            return (_product(block.T, coordinates * to_device_of(sizes, block)[:, None]),)

        return self.factor * self._sum(moment, 2 * basis.shape[1], is_signed=False)

    def share_outside(self, basis: Array) -> float:
        """Return the root of the share of ``sum_n |x_n|^2`` outside the span of orthonormal columns."""
        directions = DeviceCopies(basis)

        def outside(block: Any, _: Any) -> tuple[float]:
            columns = directions.to_device_of(block)
            difference = block - _product(_product(block, columns), columns.T)
            return (float(to_host(row_squares(difference)).sum()),)

        squares = self._sum(outside, 0, is_signed=False)
        return float(np.sqrt(squares / self.sizes.squares)) if self.sizes.squares else 0.0

    def _sum(self, statistic: Callable[..., Any], n_working: int, *, is_signed: bool = True) -> Array:
        """Return the sum of a function of blocks and weights, which needs `n_working` numbers per row."""
        chunk_rows = functools.partial(Rows.chunk_rows, n_working=n_working)
        total: Any = 0.0
        with one_blas_thread():
            for sign, part in self.parts:
                (sums,) = part.reduce(_on_rows(statistic, self.filled), default_threads(), chunk_rows)
                total = total + (sign if is_signed else 1.0) * np.asarray(sums)
        return np.asarray(total)


def _signed_parts(rows: Any, weights: Any) -> Parts:
    """Return the rows of positive and those of negative weight: sources of rows take no negative weights."""
    if weights is None or is_dask(weights):
        return ((1.0, open_rows(rows, weights)),)
    host = numeric_array(to_host(weights), "weights")
    if np.iscomplexobj(host) or host.ndim != 1:
        raise ValueError(f"weights must be real numbers, one per row; got an array of shape {host.shape}.")
    signs = [sign for sign in (1.0, -1.0) if np.any(sign * host > 0)] or [1.0]
    return tuple((sign, open_rows(rows, np.maximum(sign * host, 0.0))) for sign in signs)


def _measure_rows(parts: Parts, order: int, filled: Any, *, is_finite: bool) -> RowSizes:
    """Return the sizes of rows, and refuse powers that overflow."""

    def measure(block: Any, weights: Any) -> tuple[Any, ...]:
        sizes = _row_sizes(order, block, weights)
        total = len(sizes) if weights is None else to_numpy(weights).sum()
        return len(sizes), total, sizes.sum(), to_host(row_squares(block)).sum()

    of_rows = _on_rows(measure, filled, is_finite=is_finite)
    sums = [part.reduce(of_rows, default_threads()) for _, part in parts]
    n_rows, weight, size, squares = (sum(terms) for terms in zip(*sums, strict=True))
    if not size <= LARGEST:
        raise ValueError(f"Powers of order {order} of the rows overflow: divide the rows first.")
    return RowSizes(int(n_rows), float(weight), float(size), float(squares))


# --- functions of a block of rows and its weights, None for ones ----------------------------


def _on_rows(statistic: Callable[..., Any], filled: Any, *, is_finite: bool = True) -> Callable[..., Any]:
    """Return a function of chunks: of rows found finite, and of weights for the slots that are filled."""

    def of_block(block: Any, weights: Any) -> Any:
        return statistic(block, _filled_weights(filled, block, weights))

    return on_checked(of_block, is_finite=is_finite)


def _filled_weights(filled: tuple[tuple[DeviceCopies, int], ...], block: Any, weights: Any) -> Any:
    """Return the weights of a block times (x_n . v)^k for each vector that fills k slots."""
    for vector, times in filled:
        factor = _integer_power(_product(block, vector.to_device_of(block)), times)
        weights = factor if weights is None else weights * factor
    return weights


def _row_sizes(order: int, block: Any, weights: Any) -> Array:
    """Return |w_n| |x_n|^d of each row, on the host."""
    with np.errstate(over="ignore"):
        sizes: Array = to_host(row_squares(block)) ** (order / 2)
        return sizes if weights is None else sizes * np.abs(to_numpy(weights))


def _integer_power(values: Any, power: int) -> Any:
    """Return a power by multiplications, several times as fast as the power of floating-point numbers."""
    return math.prod([values] * power, start=namespace(values).ones_like(values))


def _product(block: Any, matrix: Any) -> Any:
    """Return the product of a block of rows, or of its transpose, with a matrix that may be complex."""
    if isinstance(block, np.ndarray) or sparse.issparse(block):
        return block @ matrix
    xp = namespace(block)
    return xp.astype(block, matrix.dtype, copy=False) @ matrix


def _dense(block: Any) -> Any:
    return block.toarray() if sparse.issparse(block) else block


def _copies_on_host(block: Any, weights: Any) -> tuple[Array, Array | None]:
    """Return the rows of a block and their weights in new arrays of the host."""
    points = np.array(to_numpy(_dense(block)))
    return points, None if weights is None else np.array(to_numpy(weights))
