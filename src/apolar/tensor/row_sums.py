"""Sums over rows of data that stand for operations on the tensor sum_n w_n x_n^d."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.namespaces import DeviceCopies, namespace, positions_to_device_of, to_device_of, to_numpy
from apolar.data import CHUNK_SIZE
from apolar.tensor import monomials


def device_copies(values: Array) -> DeviceCopies:
    """Return real or complex values of the host that are copied to a device once."""
    return DeviceCopies(values, _to_device_of)


@dataclass(frozen=True, eq=False)
class FilledSlots:
    """The factors (x_n . v)^k that slots filled with vectors v leave at each row.

    Attributes
    ----------
    vectors : DeviceCopies, shape (dim, n_vectors)
    times : tuple of int
        The k of each vector.
    """

    vectors: DeviceCopies
    times: tuple[int, ...]

    def __call__(self, block: Any, weights: Any) -> Any:
        """Return the weights of a block times the factors."""
        values = _product(block, self.vectors.to_device_of(block))
        for i, times in enumerate(self.times):
            factor = integer_power(values[:, i], times)
            weights = factor if weights is None else weights * factor
        return weights


def filled_slots(filled: tuple[tuple[Array, int], ...]) -> FilledSlots | None:
    """Return the factors of vectors that fill slots, and how many each; None without any."""
    if not filled:
        return None
    vectors = np.array([vector for vector, _ in filled]).T
    return FilledSlots(device_copies(vectors), tuple(times for _, times in filled))


@dataclass(frozen=True, eq=False)
class Contraction:
    """The sum of w_n (x_n . v)^k x_n^l for some points v, in compact form: two matrix products.

    Attributes
    ----------
    points : DeviceCopies, shape (dim, n_points)
    power, left : int
        The k and l.
    filled : FilledSlots or None
    """

    points: DeviceCopies
    power: int
    left: int
    filled: FilledSlots | None = None

    @property
    def n_working(self) -> int:
        """The values of the points at a row, and the monomials of a row, where these are needed."""
        dim, n_points = self.points.values.shape
        return 2 * n_points + (monomials.n_monomials(dim, self.left) if self.left > 1 else 0)

    def __call__(self, block: Any, weights: Any) -> tuple[Any]:
        """Return the sum over a block, shape (n_points, n_monomials(dim, left))."""
        if self.filled is not None:
            weights = self.filled(block, weights)
        values = integer_power(_product(block, self.points.to_device_of(block)), self.power)
        if weights is not None:
            values = values * weights[:, None]
        if self.left == 0:
            return (namespace(values).sum(values, axis=0)[:, None],)
        return (_product(_monomials(block, self.left).T, values).T,)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The compact coefficients of sum_n w_n (A^t x_n)^d.

    Attributes
    ----------
    order : int
    matrix : DeviceCopies, shape (dim, new_dim), or None
        The A; None for the identity.
    dim : int
        Of the result.
    filled : FilledSlots or None
    """

    order: int
    matrix: DeviceCopies | None
    dim: int
    filled: FilledSlots | None = None

    @property
    def n_working(self) -> int:
        """The monomials of a row, of one degree less than the order."""
        return 2 * monomials.n_monomials(self.dim, self.order - 1) + self.dim

    def __call__(self, block: Any, weights: Any) -> tuple[Array]:
        """Return the sum over a block, shape (n_monomials(dim, order),)."""
        if self.filled is not None:
            weights = self.filled(block, weights)
        if self.matrix is not None:
            block = _product(block, self.matrix.to_device_of(block))
        points = block.toarray() if sparse.issparse(block) else to_numpy(block)
        counts = np.ones(len(points)) if weights is None else to_numpy(weights)
        # A block of a GPU is larger than what its monomials may take of the host.
        n_rows = max(1, CHUNK_SIZE // self.n_working)
        total: Array = np.zeros(monomials.n_monomials(self.dim, self.order))
        for start in range(0, len(points), n_rows):
            part = slice(start, start + n_rows)
            total += monomials.sum_of_powers(counts[part], points[part], self.order)
        return (total,)


@dataclass(frozen=True, eq=False)
class Sizes:
    """The number of rows, the sums of their weights, of |w_n| |x_n|^d and of |x_n|^2."""

    order: int
    filled: FilledSlots | None = None
    n_working: int = 0

    def __call__(self, block: Any, weights: Any) -> tuple[Any, ...]:
        """Return the sums over a block."""
        sizes = self.of_rows(block, weights)
        total = float(len(sizes)) if weights is None else float(to_numpy(weights).sum())
        return len(sizes), total, float(sizes.sum()), float(_squared_norms(block).sum())

    def of_rows(self, block: Any, weights: Any) -> Array:
        """Return |w_n| |x_n|^d of each row of a block, on the host."""
        if self.filled is not None:
            weights = self.filled(block, weights)
        with np.errstate(over="ignore"):
            sizes: Array = _squared_norms(block) ** (self.order / 2)
            return sizes if weights is None else sizes * np.abs(to_numpy(weights))


@dataclass(frozen=True, eq=False)
class SecondMoment:
    """The sum of |w_n| |x_n|^(d-2) x_n (x_n . b) for the columns b of a basis.

    For positive weights and even orders this is the tensor contracted with identity matrices.
    """

    order: int
    basis: DeviceCopies
    filled: FilledSlots | None = None

    @property
    def n_working(self) -> int:
        """The coordinates of a row in the basis."""
        return 2 * int(self.basis.values.shape[1])

    def __call__(self, block: Any, weights: Any) -> tuple[Any]:
        """Return the sum over a block, shape (dim, n_directions)."""
        sizes = Sizes(self.order - 2, self.filled).of_rows(block, weights)
        coordinates = _product(block, self.basis.to_device_of(block))
        return (_product(block.T, coordinates * _to_device_of(sizes, block)[:, None]),)


@dataclass(frozen=True, eq=False)
class Outside:
    """The sum of |x_n - Q Q^t x_n|^2 for a matrix Q with orthonormal columns."""

    basis: DeviceCopies
    n_working: int = 0

    def __call__(self, block: Any, weights: Any) -> tuple[float]:  # noqa: ARG002 (a zero weight has no row)
        """Return the sum over a block."""
        basis = self.basis.to_device_of(block)
        difference = block - _product(_product(block, basis), basis.T)
        return (
            float(_squared_norms(np.asarray(difference) if sparse.issparse(block) else difference).sum()),
        )


def integer_power(values: Any, power: int) -> Any:
    """Return a power by multiplications, several times as fast as the power of floating-point numbers."""
    if power == 0:
        return namespace(values).ones_like(values)
    result = None
    square = values
    while True:
        if power & 1:
            result = square if result is None else result * square
        power >>= 1
        if not power:
            return result
        square = square * square


def _product(block: Any, matrix: Any) -> Any:
    """Return the product of a block of rows, or of its transpose, with a matrix that may be complex."""
    if isinstance(block, np.ndarray) or sparse.issparse(block):
        return block @ matrix
    xp = namespace(block)
    return xp.astype(block, matrix.dtype, copy=False) @ matrix


def _monomials(block: Any, degree: int) -> Any:
    """Return the monomials of the rows of a block, shape (n_rows, n_monomials(dim, degree))."""
    if degree == 1:
        return block
    if sparse.issparse(block):
        block = block.toarray()
    if isinstance(block, np.ndarray):
        return monomials.monomial_values(block, degree)
    xp = namespace(block)
    variables = positions_to_device_of(monomials.monomial_variables(block.shape[1], degree), block)
    values = xp.take(block, variables[:, 0], axis=1)
    for slot in range(1, degree):
        values = values * xp.take(block, variables[:, slot], axis=1)
    return values


def _squared_norms(block: Any) -> Array:
    """Return the squared norms of the rows of a block, on the host."""
    if sparse.issparse(block):
        return np.asarray(block.multiply(block).sum(axis=1)).ravel()
    if isinstance(block, np.ndarray):
        return np.einsum("ij,ij->i", block, block)
    return to_numpy(namespace(block).sum(block * block, axis=1))


def _to_device_of(values: Any, array: Any) -> Any:
    """Return real or complex values of the host on the device of an array."""
    if isinstance(array, np.ndarray) or sparse.issparse(array) or not np.iscomplexobj(values):
        return to_device_of(values, array)
    xp = namespace(array)
    return xp.asarray(np.array(values), dtype=xp.complex128, device=array_api_compat.device(array))
