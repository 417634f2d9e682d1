"""Generalised additive decompositions: powers of linear forms times other forms, at multiple points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.linalg import qr, schur
from scipy.sparse.csgraph import connected_components

from apolar._core.arrays import Array, IndexArray, frozen, svd, unit_rows
from apolar._core.checks import random_generator
from apolar.decomposition.pencil import image_of_zeros, pencil_slices, rotate_to_real, solutions
from apolar.decomposition.ranks import HankelSVD, coprime_points
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, as_tensor, n_monomials
from apolar.tensor.monomials import dense_positions, multinomials, product_positions


@dataclass(frozen=True, eq=False)
class GeneralizedDecomposition:
    """A form as a sum of powers of linear forms times other forms, T = sum_i (xi_i . x)^(d - k_i) q_i.

    Terms of degree ``k_i = 1`` with q_i a multiple of the linear form are those of a Waring decomposition.
    Others belong to a multiple point: x^2 y is a limit of sums of two cubes whose points meet there.

    Attributes
    ----------
    points : ndarray, shape (n_points, dim)
        Of unit norm, real or complex: those of highest length first.
    forms : tuple of SymmetricTensor
        The q_i, of degree 1 or higher.
    lengths : tuple of int
        Of the part of the scheme at each point: one for a simple point.
    order : int
    residual : float
        ``|T - sum| / |T|`` in the apolar norm.
    """

    points: Array
    forms: tuple[SymmetricTensor, ...]
    lengths: tuple[int, ...]
    order: int
    residual: float

    @property
    def cactus_rank(self) -> int:
        """The length of the scheme.

        It is the rank of a Hankel matrix of the form, so that no scheme of a smaller length has the form.
        """
        return sum(self.lengths)

    @property
    def is_simple(self) -> bool:
        """Whether all points are simple: the terms are powers, and the cactus rank is the rank."""
        return max(self.lengths, default=1) == 1

    def terms(self) -> tuple[SymmetricTensor, ...]:
        """Return the terms, as forms of the order of the tensor."""
        return tuple(
            _times_power(form, point, self.order) for point, form in zip(self.points, self.forms, strict=True)
        )

    def to_tensor(self) -> SymmetricTensor:
        """Return the sum of the terms."""
        return reduce(add, self.terms())

    def to_string(self, variables: Sequence[str] | None = None, *, precision: int = 6) -> str:
        """Return the sum as a string, such as ``(x + y)^2*(x - z)``."""
        parts = []
        for point, form in zip(self.points, self.forms, strict=True):
            # The largest coefficient of the linear form is one.
            largest = point[np.argmax(np.abs(point) > (1 - 1e-9) * np.abs(point).max())]
            power = self.order - form.order
            scaled = _without_rounding(form * largest**power)
            linear = _without_rounding(SymmetricTensor(1, len(point), point / largest))
            words = [f"({tensor.to_string(variables, precision=precision)})" for tensor in (linear, scaled)]
            exponent = f"^{power}" if power > 1 else ""
            parts.append(f"{words[0]}{exponent}*{words[1]}" if power else words[1])
        return " + ".join(parts)

    def __repr__(self) -> str:
        return (
            f"GeneralizedDecomposition(cactus_rank={self.cactus_rank}, lengths={self.lengths}, "
            f"order={self.order}, residual={self.residual:.3g})"
        )


def _without_rounding(tensor: SymmetricTensor) -> SymmetricTensor:
    """Return a form without coefficients that are rounding of the largest."""
    sizes = np.abs(tensor.coefficients)
    kept = np.where(sizes > TUNING.exact_residual * sizes.max(initial=0.0), tensor.coefficients, 0)
    return SymmetricTensor(tensor.order, tensor.dim, kept).real_if_close(1e-9)


def _times_power(form: SymmetricTensor, point: Array, order: int) -> SymmetricTensor:
    """Return a form times the power of a linear form that makes it one of an order."""
    power = order - form.order
    return form if power == 0 else SymmetricTensor.from_waring([1.0], point[None], power) * form


def gad(tensor: Any, *, random_state: Any = None) -> GeneralizedDecomposition:
    """Return the generalised additive decomposition of a form, with its cactus rank.

    Where the kernel of a Hankel matrix has finitely many common zeros, they are the points of the smallest
    scheme that has the form, with multiplicity [iarrobino1999] [bernardi2014]. Points come from joint Schur
    forms of the multiplication matrices, their forms from linear least squares.

    Parameters
    ----------
    tensor : SymmetricTensor
        Or what makes one, as for `decompose`. Of order at least 3.
    random_state : int, Generator or None, default=None
        Of the combination of variables that tells points apart.

    Returns
    -------
    decomposition : GeneralizedDecomposition

    Raises
    ------
    ValueError
        If the Hankel matrices do not determine the scheme: their kernel is empty, or vanishes on a curve.

    Examples
    --------
    >>> import apolar
    >>> G = apolar.gad("x^2*y + z^3")
    >>> G.lengths, G.cactus_rank, apolar.decompose("x^2*y + z^3").rank
    ((2, 1), 3, 4)
    >>> print(apolar.gad("(x + y)^3*(x - z) + (y + 2*z)^4").to_string())
    (x + y)^3*(x - z) + (0.5*y + z)^3*(8*y + 16*z)
    """
    given = as_tensor(tensor).real_if_close(1e-15)
    if given.order < 3 or given.dim < 2 or not np.any(given.coefficients):
        raise ValueError(
            "gad takes forms of order 3 or more, not zero, in two variables or more: use decompose here."
        )
    unit = np.abs(given.coefficients).max()
    form = SymmetricTensor(given.order, given.dim, given.coefficients / unit)
    found = local_forms(form, HankelSVD(form, form.order - form.order // 2), random_generator(random_state))
    if found is None:
        raise ValueError(
            "The Hankel matrices of this form do not determine a scheme: their kernel is empty, or vanishes "
            "on a curve, so that there may be infinitely many. Use decompose for a sum of powers."
        )
    longest_first = np.argsort(-np.array(found.lengths), kind="stable")
    return GeneralizedDecomposition(
        frozen(found.points[longest_first]),
        tuple(found.forms[i] * float(unit) for i in longest_first),
        tuple(found.lengths[i] for i in longest_first),
        form.order,
        found.residual,
    )


@dataclass(frozen=True, eq=False)
class LocalForms:
    """Points and forms q_i with T = sum_i (xi_i . x)^(d - k_i) q_i, as in `GeneralizedDecomposition`."""

    points: Array
    forms: list[SymmetricTensor]
    lengths: list[int]
    residual: float


def local_forms(
    tensor: SymmetricTensor, flattening: HankelSVD, rng: np.random.Generator
) -> LocalForms | None:
    """Return the terms at the zeros of the kernel of a Hankel matrix, or None where these do not give any."""
    left, dim = flattening.left, tensor.dim
    if left.shape[1] == len(left):
        return None
    try:
        image, degree = image_of_zeros(left, dim, flattening.row_degree, left.shape[1])
        slices = pencil_slices(image, dim, degree)
        multiplications = np.linalg.solve(np.tensordot(rng.standard_normal(dim), slices, 1)[None], slices)
    except np.linalg.LinAlgError:
        return None
    separating = np.tensordot(rng.standard_normal(dim), multiplications, 1)
    values = np.linalg.eigvals(separating)
    distances = np.abs(values[:, None] - values) / np.abs(values).max()
    # Rounding spreads a zero of multiplicity n by its n-th root.
    for spread in TUNING.spreads:
        cluster_of = connected_components(distances <= spread, directed=False)[1]
        located = _points_of_clusters(multiplications, separating, values, cluster_of)
        if located is None:
            continue
        points, degrees = located
        if not tensor.is_complex and np.abs(points.imag).max() < TUNING.exact_residual:
            points = points.real
        points, forms, residual = _fit_forms(tensor, points, degrees)
        lengths = [_length(form, point, tensor.order) for form, point in zip(forms, points, strict=True)]
        # A multiple point that is split in several has a larger scheme, and large terms that cancel.
        if residual <= TUNING.exact_residual and sum(lengths) == left.shape[1]:
            return LocalForms(points, forms, lengths, residual)
    return None


def _length(form: SymmetricTensor, point: Array, order: int) -> int:
    """Return the length of the scheme of one term: the rank of its Hankel matrix."""
    return HankelSVD(_times_power(form, point, order), order - order // 2).left.shape[1]


def _points_of_clusters(
    multiplications: Array, separating: Array, values: Array, cluster_of: IndexArray
) -> tuple[Array, list[int]] | None:
    """Return the mean joint eigenvalue of each cluster as a point, and the degree of what is at it."""
    points, degrees = [], []
    bases = _invariant_bases(separating, values, cluster_of)
    for k, basis in enumerate(bases or []):
        size = basis.shape[1]
        restricted = basis.conj().T @ multiplications @ basis
        point = restricted.trace(axis1=1, axis2=2) / size
        # The largest coordinate is turned to the positive axis.
        largest = point[np.argmax(np.abs(point))]
        points.append(point * np.conj(largest) / np.abs(largest))
        nilpotent = basis.conj().T @ separating @ basis - np.mean(values[cluster_of == k]) * np.eye(size)
        power, degree = nilpotent, 0
        while degree < size - 1 and np.linalg.norm(power) > TUNING.nearly_exact * np.abs(values).max() ** (
            degree + 1
        ):
            power, degree = power @ nilpotent, degree + 1
        degrees.append(max(degree, 1))
    return (unit_rows(np.array(points)), degrees) if bases else None


def _invariant_bases(matrix: Array, values: Array, cluster_of: IndexArray) -> list[Array] | None:
    """Return orthonormal bases of the invariant spaces of clusters of eigenvalues, in columns.

    None where rounding moves eigenvalues from one cluster to another: they are one.
    """
    bases = []
    for k in range(cluster_of.max() + 1):

        def is_in(value: complex, k: int = k) -> bool:
            return bool(cluster_of[np.argmin(np.abs(values - value))] == k)

        _, vectors, size = schur(matrix, output="complex", sort=is_in)
        if size != np.count_nonzero(cluster_of == k):
            return None
        bases.append(vectors[:, :size])
    return bases


def _fit_forms(
    tensor: SymmetricTensor, points: Array, degrees: list[int]
) -> tuple[Array, list[SymmetricTensor], float]:
    """Return the points that are needed, with forms of some degrees that fit best, and the residual."""
    roots, columns = np.sqrt(tensor.multinomials), []
    for point, degree in zip(points, degrees, strict=True):
        for unit in np.eye(n_monomials(tensor.dim, degree)):
            monomial = SymmetricTensor(degree, tensor.dim, unit)
            columns.append(roots * _times_power(monomial, point, tensor.order).coefficients)
    matrix, target = np.array(columns).T, roots * tensor.coefficients
    solution = np.linalg.lstsq(matrix, target, rcond=TUNING.exact_residual)[0]
    residual = float(np.linalg.norm(matrix @ solution - target) / np.linalg.norm(target))
    sizes = [n_monomials(tensor.dim, degree) for degree in degrees]
    parts = np.split(solution, np.cumsum(sizes)[:-1])
    largest = np.abs(solution).max()
    kept = [i for i, part in enumerate(parts) if np.abs(part).max() > TUNING.exact_residual * largest]
    forms = [SymmetricTensor(degrees[i], tensor.dim, parts[i]) for i in kept]
    return points[kept], forms, residual


def rank_beyond(scheme: LocalForms, order: int, *, is_real: bool) -> int:
    """Return a lower bound of the rank of a form, larger than the length of its smallest scheme.

    Where that scheme, of length z, is not one of simple points, and real ones if these are wanted, a
    decomposition differs from it. If both together have length 2 d + 1 at most, then they differ only on a
    line, in d + 2 points [bernardi2011] [ballico2012].

    Parameters
    ----------
    scheme : LocalForms
    order : int
    is_real : bool
        Whether only real decompositions count.

    Returns
    -------
    bound : int
        The length itself if the points are those of a decomposition.
    """
    terms = [
        _times_power(form, point, order) for point, form in zip(scheme.points, scheme.forms, strict=True)
    ]
    variables = [own_variables(term) for term in terms]
    differs = [n > 1 for n in scheme.lengths]
    if is_real:
        unreal = np.abs(rotate_to_real(scheme.points).imag).max(axis=1) > TUNING.nearly_exact
        differs = [is_multiple or bool(other) for is_multiple, other in zip(differs, unreal, strict=True)]
    length = sum(scheme.lengths)
    if not any(differs):
        return length
    line, values, _ = svd(
        np.hstack([basis for basis, differ in zip(variables, differs, strict=True) if differ])
    )
    if np.count_nonzero(values > TUNING.nearly_exact) > 2:
        return max(2 * order + 2 - length, length + 1)
    line = line[:, :2]
    on_line = [
        np.linalg.norm(basis - line @ (line.conj().T @ basis)) < TUNING.nearly_exact for basis in variables
    ]
    n_on_line = sum(n for n, is_on in zip(scheme.lengths, on_line, strict=True) if is_on)
    return max(min(order + 2 + length - 2 * n_on_line, 2 * order + 2 - length), length + 1)


def own_variables(tensor: SymmetricTensor) -> Array:
    """Return an orthonormal basis of the variables of a form that was fitted, shape (dim, n_variables)."""
    flattening = HankelSVD(tensor, 1)
    values = flattening.singular_values
    return flattening.left[:, : np.count_nonzero(values > TUNING.nearly_exact * values[0])]


def direct_summands(
    tensor: SymmetricTensor, rng: np.random.Generator, *, is_real: bool
) -> list[tuple[SymmetricTensor, Array]]:
    """Return forms in independent variables whose sum is a form, and these variables.

    The matrices X with T(X u, v, ...) = T(u, X v, ...) for all vectors are an algebra, the centre of the form
    [harrison1975]. A form is a sum in independent variables where a matrix of its centre has several
    eigenvalues, and each summand is the form on one invariant space.

    Parameters
    ----------
    tensor : SymmetricTensor
        Of order at least 3, not zero.
    rng : numpy.random.Generator
    is_real : bool
        Whether the summands have to be real.

    Returns
    -------
    summands : list of (SymmetricTensor, ndarray)
        Each in the variables of the rows of a matrix, shape (n_variables, dim), whose columns include those
        of the identity: summands with rational coefficients have rational variables. Only the tensor itself,
        in its own variables, where it is not a sum.
    """
    basis = HankelSVD(tensor, 1).left  # all variables but those that are rounding
    form = tensor.change_variables(basis.conj())
    n = form.dim
    whole = [_in_own_variables(form, basis.T)]
    second = HankelSVD(form, 2)
    if second.left.size * n**5 > TUNING.rank_work:
        return whole
    quadrics = (second.left / np.sqrt(multinomials(n, 2))[:, None])[dense_positions(n, 2)]
    products = np.einsum("ilk,jc->kijlc", quadrics, np.eye(n))
    differences = (products - products.swapaxes(1, 2))[:, *np.triu_indices(n, 1)]
    centre, images = solutions(differences.reshape(-1, n * n)), _substitute_once(form)
    element = (centre @ rng.standard_normal(centre.shape[1])).reshape(n, n)
    values = np.linalg.eigvals(element)
    distances = np.abs(values[:, None] - values)
    if is_real:  # conjugates belong together
        distances = np.minimum(distances, np.abs(values[:, None] - values.conj()))
    for spread in TUNING.spreads:
        cluster_of = connected_components(distances <= spread * np.abs(values).max(), directed=False)[1]
        bases = _invariant_bases(element, values, cluster_of)
        if bases is None or cluster_of.max() == 0:
            continue
        joined = np.hstack(bases)
        # Rounding splits a multiple eigenvalue in several, whose spaces nearly coincide.
        if np.linalg.cond(joined) > 1 / TUNING.nearly_exact:
            continue
        inverses = np.split(np.linalg.inv(joined), np.cumsum([columns.shape[1] for columns in bases])[:-1])
        parts, summands = [], []
        for columns, inverse in zip(bases, inverses, strict=True):
            projection = _nearest_projection(columns @ inverse, centre)
            # T(E u, u, ...) for a projection E, with no powers of its entries.
            part = SymmetricTensor(form.order, n, np.tensordot(images, projection, 2) / form.multinomials)
            rows = svd(projection)[2][: len(inverse)]
            summand = part.change_variables(rows.conj().T)
            parts.append(summand.change_variables(rows))
            summands.append(_in_own_variables(summand, rows @ basis.T))
        if (reduce(add, parts) - form).norm() <= TUNING.exact_residual * form.norm():
            return summands
    return whole


def _nearest_projection(projection: Array, algebra: Array) -> Array:
    """Return the projection in an algebra, of orthonormal columns, that a matrix has come near to."""
    for _ in range(TUNING.last_steps):
        near = (algebra @ (algebra.conj().T @ projection.ravel())).reshape(projection.shape)
        projection = 3 * near @ near - 2 * near @ near @ near
    is_real = np.isrealobj(algebra) and np.abs(projection.imag).max() <= TUNING.nearly_exact
    return projection.real if is_real else projection


def _substitute_once(tensor: SymmetricTensor) -> Array:
    """Return the coefficients of T(X u, u, ...), as written, for each entry of X equal to one.

    Returns
    -------
    images : ndarray, shape (n_monomials, dim, dim)
    """
    n, lower = tensor.dim, tensor.order - 1
    products = product_positions(n, 1, lower)
    images = np.zeros((len(tensor.coefficients), n, n), dtype=tensor.coefficients.dtype)
    for j in range(n):
        images[products[j], :, j] = (multinomials(n, lower) * tensor.coefficients[products]).T
    return images


def _in_own_variables(form: SymmetricTensor, variables: Array) -> tuple[SymmetricTensor, Array]:
    """Return a form in other variables, in rows whose columns include those of the identity."""
    own = qr(variables, mode="r", pivoting=True)[1][: len(variables)]
    change = variables[:, own]
    return form.change_variables(change), np.linalg.solve(change, variables)


def points_of_monomial(tensor: SymmetricTensor, rng: np.random.Generator, *, is_real: bool) -> Array | None:
    """Return the points of a least decomposition of a form that is a monomial in other variables.

    Some scalings of its variables leave a monomial as it is. To first order they are the matrices X with
    T(X u, u, ...) = 0 for all vectors u, and the variables are their eigenvectors.

    Parameters
    ----------
    tensor : SymmetricTensor
        Not zero.
    rng : numpy.random.Generator
    is_real : bool
        Whether the points have to be real.

    Returns
    -------
    points : ndarray, shape (rank, dim), or None
        In variables with a largest coefficient of one, real for a real tensor.
    """
    n, order, coefficients = tensor.dim, tensor.order, tensor.coefficients
    if len(coefficients) * n**4 > TUNING.rank_work:
        return None
    weights = np.sqrt(tensor.multinomials)
    scalings = solutions(_substitute_once(tensor).reshape(-1, n * n) / weights[:, None])
    if scalings.shape[1] == 0:
        return None
    element = (scalings @ rng.standard_normal(scalings.shape[1])).reshape(n, n)
    columns = np.linalg.eig(element)[1]
    if np.iscomplexobj(columns) and not tensor.is_complex:
        return None
    if np.linalg.cond(columns) > 1 / TUNING.nearly_exact:
        return None
    variables = np.linalg.inv(columns)
    scales = variables[range(n), np.argmax(np.abs(variables), axis=1)]
    form = tensor.change_variables(columns * scales)
    is_seen = np.abs(form.coefficients) * weights > TUNING.nearly_exact * form.norm()
    monomials = SymmetricTensor(order, n, np.where(is_seen, form.coefficients, 0.0))
    points = coprime_points(monomials, allow_complex=not is_real)
    return None if points is None else unit_rows(points @ (variables / scales[:, None]))
