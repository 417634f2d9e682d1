"""Sums over rows by the compiled extension, where it was built; without it, NumPy computes the same.

The environment variable APOLAR_KERNELS, if it is set before apolar is imported, names what is used in place
of the best: `numpy`, to do without the extension, or an instruction set, `baseline`, `avx2` or `avx512`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.threads import default_threads, run_in_threads

VARIABLE = "APOLAR_KERNELS"
NUMPY = "numpy"
# The kinds of quadratics of a row: |z|^2, the squares of its columns, or all products of two columns. A kind
# is the number of axes of a covariance.
SPHERICAL, DIAGONAL, FULL = 0, 1, 2
# Rows are summed in parts, whose sums are added in order: results do not depend on the number of threads. A
# part has at least this many rows; there are at most so many parts, or so many that their sums take this many
# numbers, but not fewer than the least.
PART_ROWS = 1024
MAX_PARTS, MIN_PARTS = 256, 16
PART_NUMBERS = 2**17
# The multiplications that make another thread worth its start: some tenths of a millisecond.
WORK_PER_THREAD = 2 * 10**6


def _load_extension() -> ModuleType | None:
    """Return the extension, or None if there is none or it is not wanted."""
    wanted = os.environ.get(VARIABLE, "").strip().lower()
    if wanted == NUMPY:
        return None
    try:
        extension = import_module("apolar._kernels")
    except ImportError:
        return None
    if wanted:
        try:
            extension.use(wanted)
        except ValueError as error:
            names = ", ".join([NUMPY, *extension.targets()])
            raise ImportError(f"The environment variable {VARIABLE} must be one of {names}.") from error
    return extension


_extension = _load_extension()


def extension() -> Any:
    """Return the extension, or None if it is not used."""
    return _extension


def is_available() -> bool:
    """Return whether the extension is used."""
    return _extension is not None


def kernels_in_use() -> str:
    """Return the instruction set of the extension that is used, or "numpy"."""
    return NUMPY if _extension is None else str(_extension.target())


def kernel_threads() -> int:
    """Return the number of threads for sums by the extension; one without it, as BLAS has its own."""
    return default_threads() if is_available() else 1


def can_read(values: Any) -> bool:
    """Return whether the extension reads an array as it is: float32 or float64, of any strides."""
    return (
        isinstance(values, np.ndarray)
        and values.ndim == 2
        and values.dtype in (np.float64, np.float32)
        and values.flags.aligned
    )


@dataclass(frozen=True, eq=False)
class RowMap:
    """The affine map of rows before they are summed: z = (x - centre) scale, or (x - centre) matrix.

    Attributes
    ----------
    centre, scale : ndarray, shape (n_columns,)
    matrix : ndarray, shape (n_columns, n_outputs), or None
    """

    centre: Array
    scale: Array
    matrix: Array | None = None

    @classmethod
    def of(cls, centre: Array, matrix: Array) -> RowMap:
        """Return the map to (x - centre) A, with A a number, a diagonal, or a matrix."""
        centre = np.ascontiguousarray(centre, np.float64)
        if matrix.ndim == 2:
            return cls(centre, np.ones(len(centre)), np.ascontiguousarray(matrix, np.float64))
        return cls(centre, np.ascontiguousarray(np.broadcast_to(matrix, len(centre)), np.float64))

    @classmethod
    def identity(cls, n_columns: int) -> RowMap:
        """Return the map that leaves rows unchanged."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    @property
    def n_outputs(self) -> int:
        """The length of z."""
        return len(self.centre) if self.matrix is None else int(self.matrix.shape[1])


def n_stats(kind: int, n_columns: int) -> int:
    """Return the number of row statistics: 1, z and the quadratics of z."""
    quadratics = {SPHERICAL: 1, DIAGONAL: n_columns, FULL: n_columns * (n_columns + 1) // 2}
    return 1 + n_columns + quadratics[kind]


def e_step(
    values: Array,
    weights: Array | None,
    row_map: RowMap,
    natural: Array,
    kind: int,
    n_threads: int = 1,
    *,
    is_hard: bool = False,
    is_linear: bool = False,
) -> tuple[Array, Array]:
    """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods.

    Parameters
    ----------
    values : ndarray of float32 or float64, shape (n_rows, n_columns)
    weights : ndarray of float64, shape (n_rows,), or None
    row_map : RowMap
    natural : ndarray, shape (n_mixtures, n_components, n_stats)
        Natural parameters, of which the logits are the product with (1, z, quadratics of z).
    kind : int
    n_threads : int, default=1
    is_hard : bool, default=False
        Whether each row counts for the component of its largest logit alone.
    is_linear : bool, default=False
        Whether the natural parameters of the quadratics are all zero.

    Returns
    -------
    stats : ndarray, shape (n_mixtures * n_components, n_stats)
    log_likelihood : ndarray, shape (n_mixtures,)
    """
    n_mixtures, n_components, width = natural.shape
    n = n_mixtures * n_components
    parts = _Parts.of(len(values), n * width)
    stats = np.zeros((parts.n_parts, n, width))
    log_likelihood = np.zeros((parts.n_parts, n_mixtures))
    call = functools.partial(
        _module().e_step,
        *(values, weights, row_map.centre, row_map.scale, row_map.matrix),
        *(np.ascontiguousarray(natural.reshape(n, width)), kind, is_linear, is_hard, n_mixtures),
        *(parts.part_rows, parts.counter, stats, log_likelihood),
    )
    parts.run(call, n_threads)
    return _sum_of_parts(stats), _sum_of_parts(log_likelihood)


def stats_under(
    values: Array,
    weights: Array | None,
    row_map: RowMap,
    responsibilities: Array | None,
    kind: int,
    n_threads: int = 1,
) -> Array:
    """Return the row statistics, summed under responsibilities.

    Parameters
    ----------
    values, weights, row_map, kind, n_threads
        As for `e_step`.
    responsibilities : ndarray, shape (n_components, n_rows), or None
        None for one component of all rows.

    Returns
    -------
    stats : ndarray, shape (n_components, n_stats)
    """
    n_components = 1 if responsibilities is None else len(responsibilities)
    width = n_stats(kind, row_map.n_outputs)
    parts = _Parts.of(len(values), n_components * width)
    stats = np.zeros((parts.n_parts, n_components, width))
    call = functools.partial(
        _module().stats,
        *(values, weights, row_map.centre, row_map.scale, row_map.matrix, responsibilities, kind),
        *(parts.part_rows, parts.counter, stats),
    )
    parts.run(call, n_threads)
    return _sum_of_parts(stats)


def part_rows(n_rows: int, n_numbers: int) -> int:
    """Return the rows of a part, of so many rows that are summed to so many numbers."""
    return _Parts.of(n_rows, n_numbers).part_rows


@dataclass(eq=False)
class RowResults:
    """What is asked for of each row of one mixture: arrays that are written, or None.

    Attributes
    ----------
    logits : ndarray, shape (n_components, n_rows), or None
        Asked for alone.
    responsibilities : ndarray, shape (n_rows, n_components), or None
    labels : ndarray of int64, shape (n_rows,), or None
    density : ndarray, shape (n_rows,), or None
    """

    logits: Array | None = None
    responsibilities: Array | None = None
    labels: Array | None = None
    density: Array | None = None


def write_rows(
    values: Array,
    weights: Array | None,
    row_map: RowMap,
    natural: Array,
    kind: int,
    results: RowResults,
    n_threads: int = 1,
    *,
    is_linear: bool = False,
) -> Array:
    """Write results for each row under one mixture.

    Parameters
    ----------
    values, weights, row_map, kind, n_threads, is_linear
        As for `e_step`.
    natural : ndarray, shape (n_components, n_stats)
    results : RowResults

    Returns
    -------
    sums : ndarray, shape (3,)
        Of log-densities, of logarithms of the largest responsibilities, and of weights.
    """
    parts = _Parts.of(len(values), natural.size)
    sums = np.zeros((parts.n_parts, 3))
    call = functools.partial(
        _module().rows,
        *(values, weights, row_map.centre, row_map.scale, row_map.matrix),
        *(np.ascontiguousarray(natural), kind, is_linear, parts.part_rows, parts.counter),
        *(results.logits, results.responsibilities, results.labels, results.density, sums),
    )
    parts.run(call, n_threads)
    return _sum_of_parts(sums)


def third_sums(
    values: Array, weights: Array | None, row_map: RowMap, n_threads: int = 1
) -> tuple[Array, Array]:
    """Return the weighted sums of |x|^2 x and of z_i z_j z_k, with x = (x - centre) scale and z = x matrix.

    Parameters
    ----------
    values, weights, row_map, n_threads
        As for `e_step`.

    Returns
    -------
    square_times : ndarray, shape (n_columns,)
    third : ndarray, shape (n_outputs (n_outputs + 1) (n_outputs + 2) / 6,)
        For i <= j <= k, ordered by i, then j, then k.
    """
    n_columns, dim = len(row_map.centre), row_map.n_outputs
    n_sums = n_columns + dim * (dim + 1) * (dim + 2) // 6
    parts = _Parts.of(len(values), n_sums)
    sums = np.zeros((parts.n_parts, n_sums))
    call = functools.partial(
        _module().third,
        *(values, weights, row_map.centre, row_map.scale, row_map.matrix),
        *(parts.part_rows, parts.counter, sums),
    )
    parts.run(call, n_threads)
    added = _sum_of_parts(sums)
    return added[:n_columns], added[n_columns:]


@dataclass(frozen=True, eq=False)
class _Parts:
    """Rows in parts, which threads take from a counter."""

    n_parts: int
    part_rows: int
    n_useful: int
    counter: Array

    @classmethod
    def of(cls, n_rows: int, n_numbers: int) -> _Parts:
        """Return the parts of so many rows, each of which has sums of so many numbers."""
        most = max(MIN_PARTS, min(MAX_PARTS, PART_NUMBERS // n_numbers))
        part_rows = max(1, -(-n_rows // most))
        part_rows = -(-part_rows // PART_ROWS) * PART_ROWS
        n_useful = 1 + int(n_rows * n_numbers // WORK_PER_THREAD)
        return cls(-(-n_rows // part_rows), part_rows, n_useful, np.zeros(1, np.int64))

    def run(self, call: Callable[[], None], n_threads: int) -> None:
        """Run a call in threads until all parts are taken."""
        run_in_threads(call, min(n_threads, self.n_parts, self.n_useful))


def _sum_of_parts(parts: Array) -> Array:
    """Return the sums of all parts, added in order."""
    return parts[0] if len(parts) == 1 else np.add.reduce(parts, axis=0)


def _module() -> Any:
    if _extension is None:
        raise RuntimeError("The compiled kernels are not in use.")
    return _extension
