"""The compiled extension, where it was built; without it, NumPy computes the same.

No other module calls it. It sums over rows, and takes the steps of EM between two passes over them, which
factorise, invert and multiply matrices of a few columns. For these a call of NumPy takes far longer than the
arithmetic, and on small tables that is most of a fit.

The environment variable APOLAR_KERNELS, if it is set before apolar is imported, names what is used instead
of the best: `numpy`, to do without the extension, or an instruction set, `baseline`, `avx2` or `avx512`.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.threads import default_threads, run_in_threads

VARIABLE = "APOLAR_KERNELS"
NUMPY = "numpy"
# The kinds of quadratics of a row: |z|^2, the squares of its columns, or all products of two columns. A kind
# is the number of axes of a covariance.
SPHERICAL, DIAGONAL, FULL = 0, 1, 2
# Where responsibilities come from: natural parameters, whose labels may be taken, or an array.
SOFT, HARD, GIVEN = 0, 1, 2
# Rows are summed in parts, whose sums are added in order: results do not depend on the number of threads. A
# part has at least this many rows; there are at most MAX_PARTS parts, fewer if their sums take more than
# PART_NUMBERS numbers, and at least MIN_PARTS.
PART_ROWS = 1024
MAX_PARTS, MIN_PARTS = 256, 16
PART_NUMBERS = 2**17
# How plain runs say that a component collapsed.
COLLAPSED = 2
# Above this many columns LAPACK factorises matrices as fast.
MAX_COLUMNS = 32
# The multiplications that make another thread worth its start: some tenths of a millisecond.
WORK_PER_THREAD = 2 * 10**6


def _load_kernels() -> Any:
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


kernels = _load_kernels()
"""The extension, or None if it is not used."""


def kernels_in_use() -> str:
    """Return the instruction set of the extension that is used, or "numpy"."""
    return NUMPY if kernels is None else str(kernels.target())


def kernel_threads() -> int:
    """Return the number of threads for sums by the extension; one without it, as BLAS has its own."""
    return 1 if kernels is None else default_threads()


def can_read(values: Any) -> bool:
    """Return whether the extension reads an array as it is: float32 or float64, of any strides."""
    return (
        isinstance(values, np.ndarray)
        and values.ndim == 2
        and values.dtype in (np.float64, np.float32)
        and values.flags.aligned
    )


class RowMap(NamedTuple):
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
    def of(cls, centre: Array, matrix: Array | float = 1.0) -> RowMap:
        """Return the map to (x - centre) A, with A a number, a diagonal, or a matrix."""
        centre = np.ascontiguousarray(centre, np.float64)
        if np.ndim(matrix) == 2:
            return cls(centre, np.ones(len(centre)), np.ascontiguousarray(matrix, np.float64))
        return cls(centre, np.ascontiguousarray(np.broadcast_to(matrix, len(centre)), np.float64))

    @property
    def n_outputs(self) -> int:
        """The length of z."""
        return len(self.centre) if self.matrix is None else int(self.matrix.shape[1])


def n_stats(kind: int, n_columns: int) -> int:
    """Return the number of row statistics: 1, z and the quadratics of z."""
    n_quadratics = (1, n_columns, n_columns * (n_columns + 1) // 2)[kind]
    return 1 + n_columns + n_quadratics


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
    tails: Array | None = None,
) -> list[Array]:
    """Return the sufficient statistics of a batch of mixtures, and their log-likelihoods.

    Parameters
    ----------
    values : ndarray of float32 or float64, shape (n_rows, n_columns)
    weights : ndarray of float64, shape (n_rows,), or None
    row_map : RowMap
    natural : ndarray, shape (n_mixtures, n_components, n_stats)
        Natural parameters; their products with (1, z, quadratics of z) are the logits.
    kind : int
    n_threads : int, default=1
    is_hard : bool, default=False
        Whether each row counts for the component of its largest logit alone.
    is_linear : bool, default=False
        Whether the natural parameters of the quadratics are all zero.
    tails : ndarray, shape (n_mixtures * n_components, 4), optional
        See `apolar.mixture.tails.Tails.numbers`.

    Returns
    -------
    stats : ndarray, shape (n_mixtures * n_components, n_stats)
        With tails, rows count by their factors.
    log_likelihood : ndarray, shape (n_mixtures,)
    tail_sums : ndarray, shape (2, n_mixtures * n_components)
        With tails: the sums of responsibilities, and of these times log(1 + D / dof).
    """
    n_mixtures, n_components, width = natural.shape
    n = n_mixtures * n_components
    flat, source = np.ascontiguousarray(natural.reshape(n, width)), HARD if is_hard else SOFT
    of_mixtures = flat, kind, source, is_linear, n_mixtures, tails
    shapes: list[tuple[int, ...]] = [(n, width), (n_mixtures,)]
    shapes += [] if tails is None else [(2, n)]
    return _sums_of_parts("e_step", (values, weights, *row_map, *of_mixtures), shapes, n_threads)


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
    shape = n_components, n_stats(kind, row_map.n_outputs)
    of_components = responsibilities, kind, GIVEN, False, 1, None
    return _sums_of_parts("e_step", (values, weights, *row_map, *of_components), [shape], n_threads)[0]


def row_answers(
    values: Array,
    weights: Array | None,
    row_map: RowMap,
    natural: Array,
    kind: int,
    what: str,
    n_threads: int = 1,
    *,
    tails: Array | None = None,
) -> Array:
    """Return what one mixture says about each row.

    Parameters
    ----------
    values, weights, row_map, kind, n_threads, tails
        As for `e_step`.
    natural : ndarray, shape (n_components, n_stats)
    what : {"logits", "probabilities", "labels", "densities", "sums"}

    Returns
    -------
    answer : ndarray
        Logits, shape (n_components, n_rows); responsibilities, shape (n_rows, n_components); labels, of
        int64, or log-densities, shape (n_rows,); or the sums of log-densities, of logarithms of the largest
        responsibilities, and of weights.
    """
    n_rows, n_components = len(values), len(natural)
    shapes = {"logits": (n_components, n_rows), "probabilities": (n_rows, n_components)}
    answer = np.empty(shapes.get(what, n_rows), np.int64 if what == "labels" else np.float64)
    names = ["logits", "probabilities", "labels", "densities"]
    of_rows = tuple([answer if name == what else None for name in names])
    known = values, weights, *row_map, np.ascontiguousarray(natural), kind, tails
    (sums,) = _sums_of_parts("rows", known, [(3,)], n_threads, of_rows, natural.size)
    return answer if what in names else sums


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
    (sums,) = _sums_of_parts("third", (values, weights, *row_map), [(n_sums,)], n_threads)
    return sums[:n_columns], sums[n_columns:]


def part_rows(n_rows: int, n_numbers: int) -> int:
    """Return the rows of a part, for rows whose sums take `n_numbers` numbers."""
    n_parts = max(MIN_PARTS, min(MAX_PARTS, PART_NUMBERS // n_numbers))
    return max(1, -(-n_rows // (n_parts * PART_ROWS))) * PART_ROWS


def _sums_of_parts(
    name: str,
    arguments: tuple[Any, ...],
    shapes: list[tuple[int, ...]],
    n_threads: int,
    of_rows: tuple[Array | None, ...] = (),
    n_numbers: int | None = None,
) -> list[Array]:
    """Return sums by a function of the extension: threads take parts of the rows, which are added in order.

    Parameters
    ----------
    name : str
        Of the function.
    arguments : tuple
        The rows, and what else the function takes first.
    shapes : list of tuple of int
        Of the sums.
    n_threads : int
    of_rows : tuple of ndarray or None, default=()
        Where the function writes results for each row.
    n_numbers : int, optional
        The multiplications for each row; by default the numbers of the first sum.
    """
    n_rows, n_numbers = len(arguments[0]), n_numbers or math.prod(shapes[0])
    size = part_rows(n_rows, n_numbers)
    n_parts = -(-n_rows // size)
    sums = [np.zeros((n_parts, *shape)) for shape in shapes]
    counter = np.zeros(1, np.int64)
    call = functools.partial(getattr(kernels, name), *arguments, size, counter, *of_rows, *sums)
    run_in_threads(call, min(n_threads, n_parts, 1 + n_rows * n_numbers // WORK_PER_THREAD))
    return [parts[0] if len(parts) == 1 else np.add.reduce(parts, axis=0) for parts in sums]


# --- small matrices, and comparisons of mixtures ------------------------------------------------


def has_steps(kind: int, n_columns: int) -> bool:
    """Return whether the extension takes the steps between passes for covariances of a kind."""
    return kernels is not None and (kind < FULL or n_columns <= MAX_COLUMNS)


def contiguous(array: Any) -> Array:
    """Return an array as the extension takes it; None is an array that is not given."""
    return np.empty(0) if array is None else np.ascontiguousarray(array, np.float64)


def take_step(
    name: str, arrays: tuple[Any, ...], shapes: tuple[tuple[int, ...], ...], *numbers: Any
) -> tuple[Array, ...] | None:
    """Return what a function of the extension writes; None if a matrix is not safely positive definite.

    The caller then uses NumPy.

    Parameters
    ----------
    name : str
        Of the function.
    arrays : tuple of ndarray, float or None
    shapes : tuple of tuple of int
        Of the results.
    *numbers
        What else the function takes.
    """
    results = tuple(map(np.empty, shapes))
    is_known = getattr(kernels, name)(*map(contiguous, arrays), *results, *numbers)
    return results if is_known else None


def plain_run(
    rows: tuple[Any, ...], start: tuple[Any, ...], n_stats: int, *numbers: Any, n_steps: int, tol: float
) -> tuple[list[Array], Array, Array, bool]:
    """Return the end of plain steps of EM on rows in whitened coordinates.

    Parameters
    ----------
    rows : tuple of ndarray or None
        The columns, shape (n_features, n_rows), and the weights of the rows; what a prior adds to scatters
        and divisors; the map to the units of the data and its inverse.
    start : tuple of ndarray
        Weights, means and covariances.
    n_stats : int
        The number of row statistics.
    *numbers
        What else the function of the extension takes.
    n_steps : int
    tol : float
        A run has converged when a step changes the objective by less than this, relative to its size.

    Returns
    -------
    end : list of ndarray
        Weights, means and covariances of the last E-step.
    stats : ndarray, shape (n_components, n_stats)
    results : ndarray, shape (4,)
        Log-likelihood, objective, number of E-steps, and the gain of the last one.
    is_collapsed : bool
    """
    # Copies, in which the extension writes the ends; a number would not be an array.
    end = [np.array(np.atleast_1d(array), np.float64, order="C") for array in start]
    stats, results = np.zeros((len(end[0]), n_stats)), np.array([-np.inf, -np.inf, 0.0, np.inf])
    arrays = *map(contiguous, rows), *end, stats, results
    size = part_rows(rows[0].shape[1], stats.size)
    is_collapsed = kernels.plain_run(*arrays, *numbers, size, n_steps, tol) == COLLAPSED
    end[2] = end[2].reshape(np.shape(start[2]))
    return end, stats, results, is_collapsed


def merge_costs(
    rows: tuple[Array, Array],
    natural: Array,
    pairs: tuple[IndexArray, IndexArray],
    densities: tuple[Array, ...],
) -> Array:
    """Return the sums over rows of the log-density after each merger of two components.

    Parameters
    ----------
    rows : tuple of ndarray
        Their statistics, shape (n_stats, n_rows), and their weights, if there are any.
    natural : ndarray, shape (n_pairs, n_stats)
        The natural parameters of the mergers.
    pairs : tuple of ndarray
        The first and second components.
    densities : tuple of ndarray
        The logarithm of the largest density of each row; relative to it, their sum and each of them.
    """
    first, second = np.asarray(pairs, np.int64)
    sums = np.empty(len(natural))
    kernels.merge_costs(*rows, natural, first, second, *densities, sums, len(rows[0]))
    return sums


def tree_merges(X: Array, sizes: Array | None, spread: float) -> tuple[IndexArray, Array]:
    """Return the merges of a hierarchical clustering, and their costs: see `apolar.search.hierarchical`."""
    merges, costs = np.empty((len(X) - 1, 2), np.int64), np.empty(len(X) - 1)
    kernels.merge_tree(contiguous(X), contiguous(sizes), merges, costs, X.shape[1], spread)
    return merges.astype(np.intp, copy=False), costs


def joint_rotation(matrices: Array, *, tol: float = 1e-9, max_sweeps: int = 60) -> Array:
    """Return the rotation that best diagonalises symmetric matrices together [cardoso1996].

    Parameters
    ----------
    matrices : ndarray, shape (n_matrices, dim, dim)
        Real, symmetric.
    tol : float
        Stop when no rotation of a sweep has a larger sine; the error is then its square.
    max_sweeps : int

    Returns
    -------
    rotation : ndarray, shape (dim, dim)
        Orthogonal; its columns are the joint eigenvectors.
    """
    # Coordinates first: a rotation then mixes two contiguous slices.
    stack = np.ascontiguousarray(np.moveaxis(np.array(matrices, dtype=float), 0, 2))
    dim = stack.shape[0]
    if kernels is not None:
        rotation = np.eye(dim)
        kernels.joint_rotation(stack, rotation, dim, tol, max_sweeps)
        return rotation

    def angle_in(p: int, q: int) -> float:
        differences, doubles = stack[p, p] - stack[q, q], 2 * stack[p, q]
        on = float(differences @ differences - doubles @ doubles)
        off = 2 * float(differences @ doubles)
        return 0.5 * math.atan2(off, on + math.hypot(on, off))

    return rotate_planes(stack, angle_in, tol, max_sweeps)


def rotate_planes(stack: Array, angle_in: Callable[[int, int], float], tol: float, max_sweeps: int) -> Array:
    """Return a rotation, by sweeps of rotations in planes of two coordinates.

    Parameters
    ----------
    stack : ndarray, shape (dim, dim, n)
        Symmetric matrices, which are rotated in place.
    angle_in : callable
        The angle of the rotation in the plane of two coordinates.
    tol : float
        Stop when no rotation of a sweep has a larger sine.
    max_sweeps : int

    Returns
    -------
    rotation : ndarray, shape (dim, dim)
    """
    rotation = np.eye(len(stack))
    for _ in range(max_sweeps):
        largest = 0.0
        for p, q in itertools.combinations(range(len(stack)), 2):
            angle = angle_in(p, q)
            sine, cosine = math.sin(angle), math.cos(angle)
            largest = max(largest, abs(sine))
            if abs(sine) <= tol:
                continue
            for rows in (stack, stack.swapaxes(0, 1), rotation.T):
                turned = cosine * rows[p] + sine * rows[q]
                rows[q] = cosine * rows[q] - sine * rows[p]
                rows[p] = turned
        if largest <= tol:
            break
    return rotation
