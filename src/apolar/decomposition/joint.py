"""Several symmetric tensors with common points: tensors that are symmetric in all modes but the first."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array, frozen, svd, unit_rows
from apolar._core.checks import check_integer, random_generator
from apolar._core.levenberg_marquardt import LeastSquares
from apolar.decomposition.least_squares import has_converged
from apolar.decomposition.pencil import real_starts
from apolar.decomposition.ranks import HankelSVD, numerical_rank
from apolar.decomposition.terms import unknown_size
from apolar.decomposition.tuning import TUNING
from apolar.decomposition.waring import Status
from apolar.tensor import SymmetricTensor, as_tensor
from apolar.tensor.monomials import monomial_values, multinomials, power_derivatives, product_positions


@dataclass(frozen=True, eq=False, repr=False)
class JointWaring:
    """Sums of powers of common linear forms, T_k = sum_i w_ki (xi_i . x)^d.

    Together the T_k are a tensor that is symmetric in all modes but the first,
    sum_i w_i (x) xi_i (x) ... (x) xi_i.

    Attributes
    ----------
    weights : ndarray, shape (n_tensors, rank)
    points : ndarray, shape (rank, dim)
        Of unit norm, those of the largest weights first.
    order : int
        Of each tensor.
    residual : float
        Relative to the norm of all tensors together.
    status : Status
    """

    weights: Array
    points: Array
    order: int
    residual: float
    status: Status

    @property
    def rank(self) -> int:
        """The number of terms."""
        return len(self.points)

    def to_tensors(self) -> list[SymmetricTensor]:
        """Return the sums of the terms."""
        return [SymmetricTensor.from_waring(row, self.points, self.order) for row in self.weights]

    def to_dense(self) -> Array:
        """Return them as one array, shape (n_tensors, dim, ..., dim)."""
        return np.array([tensor.to_dense() for tensor in self.to_tensors()])

    def __repr__(self) -> str:
        return (
            f"JointWaring(rank={self.rank}, {len(self.weights)} tensors, order={self.order}, "
            f"dim={self.points.shape[1]}, residual={self.residual:.3g}, status={self.status.name})"
        )


def decompose_jointly(
    tensors: Any,
    rank: int | None = None,
    *,
    random_state: Any = None,
    n_starts: int = 20,
    max_iter: int = 500,
) -> JointWaring:
    """Decompose several real symmetric tensors into powers of the same linear forms.

    Together they are a tensor that is symmetric in all modes but the first, such as a stack of covariances.
    Points are eigenvectors of a pencil of two combinations of the tensors, if the flattenings
    show that many terms, and else random; both are refined by damped Gauss-Newton steps.

    Parameters
    ----------
    tensors : array_like, shape (n_tensors, dim, ..., dim), or list of SymmetricTensor
        Or of what makes one, as for `decompose`. Each symmetric, of one order, 2 or more, and one dimension.
        Another free mode is moved to the front by `numpy.moveaxis`.
    rank : int, optional
        The number of terms; by default the largest rank of a flattening, which is the least possible.
    random_state : int, Generator or None, default=None
    n_starts : int, default=20
        Random starts at most.
    max_iter : int, default=500
        Steps from a start.

    Returns
    -------
    joint : JointWaring

    Examples
    --------
    >>> import apolar
    >>> import numpy as np
    >>> a, b = np.random.default_rng(0).standard_normal((2, 5, 4))
    >>> stack = np.einsum("ik,ip,iq->kpq", a, b, b)  # four symmetric matrices, and five terms
    >>> J = apolar.decompose_jointly(stack, 5, random_state=0)
    >>> J.status.name, bool(np.allclose(J.to_dense(), stack))
    ('EXACT', True)
    """
    forms = [as_tensor(form) for form in tensors]
    if not forms or len({(form.order, form.dim) for form in forms}) > 1:
        raise ValueError("decompose_jointly takes tensors of one order and dimension, and at least one.")
    order, dim = forms[0].order, forms[0].dim
    if order < 2 or any(form.is_complex for form in forms):
        raise ValueError("decompose_jointly takes real tensors of order 2 or more.")
    data = np.array([form.coefficients for form in forms]) * np.sqrt(multinomials(dim, order))
    norm = float(np.linalg.norm(data))
    if not (norm > 0 and np.isfinite(norm)):
        raise ValueError("The tensors are all zero, or their norm overflows.")
    least = max(
        numerical_rank(svd(data)[1]),
        *(numerical_rank(svd(_flatten_all(forms, k))[1]) for k in range(1, order)),
    )
    rank = least if rank is None else check_integer(rank, "rank", least=1)
    rng, best = random_generator(random_state), None
    problem = _Fit(data / norm, order, dim)
    starts = [_pencil_start(forms, rank, rng)] if rank <= least else []
    for turn in range(n_starts + len(starts)):
        points = starts[turn] if turn < len(starts) else rng.standard_normal((rank, dim))
        if points is None:
            continue
        fit = problem.refine(unit_rows(points), max_iter)
        best = fit if best is None or fit.cost < best.cost else best
        if 2 * best.cost <= TUNING.exact_residual**2:
            break
    assert best is not None
    weights, points, residual = problem.terms(best.point)
    sizes = np.linalg.norm(weights, axis=0)
    largest_first = np.argsort(-sizes, kind="stable")
    return JointWaring(
        frozen(weights[:, largest_first] * norm),
        frozen(points[largest_first]),
        order,
        residual,
        problem.status(best, weights, residual),
    )


def _flatten_all(forms: list[SymmetricTensor], row_degree: int) -> Array:
    """Return the Hankel matrices of all tensors side by side, weighted."""
    dim, column_degree = forms[0].dim, forms[0].order - row_degree
    where = product_positions(dim, row_degree, column_degree)
    rows, columns = np.sqrt(multinomials(dim, row_degree)), np.sqrt(multinomials(dim, column_degree))
    return np.hstack([rows[:, None] * form.coefficients[where] * columns for form in forms])


def _pencil_start(forms: list[SymmetricTensor], rank: int, rng: np.random.Generator) -> Array | None:
    """Return the points from eigenvectors of a pencil of two combinations, or None where that breaks down."""
    dim, order = forms[0].dim, forms[0].order
    degree = order - order // 2
    mixed = [
        sum((float(c) * form for c, form in zip(row, forms, strict=True)), SymmetricTensor.zeros(order, dim))
        for row in rng.standard_normal((2, len(forms)))
    ]
    left = svd(_flatten_all(mixed, degree))[0]
    if rank > min(left.shape[1], _flatten_all(mixed[:1], degree).shape[1]):
        return None
    first, second = (left[:, :rank].T @ _flatten_all([form], degree) for form in mixed)
    columns = svd(np.vstack([first, second]))[2][:rank].T
    try:
        vectors = np.linalg.eig(np.linalg.solve(second @ columns, first @ columns))[1]
    except np.linalg.LinAlgError:
        return None
    powers = left[:, :rank] @ (first @ columns @ vectors) / np.sqrt(multinomials(dim, degree))[:, None]
    if not np.all(np.isfinite(powers)):
        return None
    points = [
        HankelSVD(SymmetricTensor(degree, dim, power), 1).left[:, 0] if degree > 1 else power
        for power in powers.T
    ]
    return real_starts(unit_rows(np.array(points)))


class _Fit:
    """Least squares for points; weights are the best ones, which leaves the points free to be of any norm."""

    def __init__(self, data: Array, order: int, dim: int) -> None:
        self.data, self.order, self.dim = data, order, dim
        self.roots = np.sqrt(multinomials(dim, order))

    def refine(self, points: Array, max_iter: int) -> LeastSquares:
        """Return the fit at the end of the steps from some points."""
        weights = self.best_weights(points)
        start = np.concatenate([weights.ravel(), points.ravel()])
        return LeastSquares(self.residuals, start).minimise(max_iter=max_iter, min_relative_gain=1e-12)

    def best_weights(self, points: Array) -> Array:
        """Return the weights that fit best, shape (n_tensors, rank)."""
        powers = monomial_values(points, self.order) * self.roots
        return np.asarray(np.linalg.lstsq(powers.T, self.data.T, rcond=TUNING.rounding)[0].T)

    def split(self, point: Array) -> tuple[Array, Array]:
        """Return the weights and points of unknowns."""
        rank = len(point) // (len(self.data) + self.dim)
        weights, points = np.split(point, [len(self.data) * rank])
        return weights.reshape(len(self.data), rank), points.reshape(rank, self.dim)

    def residuals(self, point: Array) -> tuple[Array, Array]:
        """Return what is left, and its derivatives by weights and points."""
        weights, points = self.split(point)
        powers = monomial_values(points, self.order) * self.roots
        slopes = power_derivatives(monomial_values(points, self.order - 1), self.dim, self.order) * self.roots
        n, rank = weights.shape
        by_weights = np.einsum("kl,is->ksli", np.eye(n), powers).reshape(self.data.size, n * rank)
        by_points = np.einsum("ki,ips->ksip", weights, slopes).reshape(self.data.size, -1)
        return (weights @ powers - self.data).ravel(), np.hstack([by_weights, by_points])

    def terms(self, point: Array) -> tuple[Array, Array, float]:
        """Return weights, unit points with their largest coordinate positive, and the residual."""
        points = unit_rows(self.split(point)[1])
        largest = points[np.arange(len(points)), np.argmax(np.abs(points).round(9), axis=1)]
        points = points * np.where(largest < 0, -1.0, 1.0)[:, None]
        weights = self.best_weights(points)
        rest = weights @ (monomial_values(points, self.order) * self.roots) - self.data
        return weights, points, float(np.linalg.norm(rest))

    def status(self, fit: LeastSquares, weights: Array, residual: float) -> Status:
        """Return the status of terms: exact ones are determined, to a thousandth of the least of them."""
        sizes = np.linalg.norm(weights, axis=0)
        points = self.terms(fit.point)[1]
        _, jacobian = self.residuals(np.concatenate([(weights / sizes).ravel(), points.ravel()]))
        rank, n = len(points), len(self.data)
        values = np.linalg.svd(jacobian, compute_uv=False)
        # Each term has one direction that changes nothing: a longer point, and smaller weights.
        n_free = rank * (n + self.dim - 1)
        is_family = n_free > self.data.size
        condition = np.inf if is_family else 1 / max(float(values[n_free - 1]), np.finfo(float).tiny)
        if residual > TUNING.rounding * sizes.sum():
            settled = has_converged(float(np.abs(fit.gradient).max()), TUNING.exact_residual)
            return Status.APPROXIMATE if settled else Status.NOT_CONVERGED
        error = unknown_size(sizes, residual, 1.0) * (1.0 if np.isinf(condition) else condition)
        return Status.ILL_CONDITIONED if error >= TUNING.undetermined * sizes.min() else Status.EXACT
