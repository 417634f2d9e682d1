"""Algorithm 2 of the paper, joint diagonalisation, and Sylvester's theorem for binary forms."""

import numpy as np
from scipy.sparse.csgraph import connected_components

from apolar._core.arrays import Array, unit_rows
from apolar.decomposition.terms import Terms, absorb_weights
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor, hankel, n_monomials
from apolar.tensor.monomials import monomial_values, multinomials, product_positions


def pencil_slices(image: Array, dim: int, row_degree: int) -> Array:
    """Return the parts of an image that belong to each variable, as square matrices, shape (dim, rank, rank).

    For the image of a Hankel matrix their joint eigenvalues are the points of a decomposition: algorithm 2 of
    [khouja2022moments] in floating point. They are not square, and the pencil singular, if the rank is too
    high.

    Parameters
    ----------
    image : ndarray, shape (n_monomials(dim, row_degree), rank)
        An orthonormal basis, in weighted coordinates.
    dim, row_degree : int
        The row degree k must be larger than the interpolation degree of the points.
    """
    rank = image.shape[1]
    unweighted = image / np.sqrt(multinomials(dim, row_degree))[:, None]
    # U_i: the rows of U at the monomials X_i X^a, |a| = k - 1, weighted again.
    rows = product_positions(dim, 1, row_degree - 1)
    slices = unweighted[rows] * np.sqrt(multinomials(dim, row_degree - 1))[None, :, None]
    if slices.shape[1] > rank:
        side_by_side = slices.swapaxes(0, 1).reshape(slices.shape[1], -1)
        basis = np.linalg.svd(side_by_side, full_matrices=False)[0][:, :rank]
        slices = basis.conj().T @ slices
    return np.asarray(slices)


def kernel_zeros(
    image: Array,
    dim: int,
    degree: int,
    rank: int,
    rng: np.random.Generator,
    tol: float = TUNING.exact_residual,
) -> Array:
    """Return the common zeros of some forms, where they are simple and finite in number.

    Forms that vanish at the points of a decomposition are the kernel of the Hankel matrix, for one into as
    many terms as its rank [iarrobino1999]: also where the points are in special position, or more than
    algorithm 2 finds. The parameters are those of `image_of_zeros`.

    Returns
    -------
    points : ndarray, shape (n_zeros, dim)
        Of unit norm.
    """
    longer, degree = image_of_zeros(image, dim, degree, rank, tol)
    return joint_eigenvalues(pencil_slices(longer, dim, degree), rng)


def image_of_zeros(
    image: Array, dim: int, degree: int, rank: int, tol: float = TUNING.exact_residual
) -> tuple[Array, int]:
    """Return what vanishes on all multiples of some forms, in a degree where that is as many as their zeros.

    Parameters
    ----------
    image : ndarray, shape (n_monomials(dim, degree), n)
        What vanishes on the forms: an orthonormal basis in weighted coordinates, as that of the image of the
        Hankel matrix.
    dim, degree : int
    rank : int
        The number of terms, which have at least this number of zeros.
    tol : float
        To which the basis is known.

    Returns
    -------
    longer : ndarray, shape (n_monomials(dim, higher), n_zeros)
    higher : int

    Raises
    ------
    numpy.linalg.LinAlgError
        If the zeros are infinitely many, fewer than the rank, or too many to be found.
    """
    while rank <= image.shape[1] <= TUNING.max_zeros * rank:
        longer, degree = prolongation(image, dim, degree, tol), degree + 1
        if longer.shape[1] == image.shape[1]:
            return longer, degree
        image = longer
    raise np.linalg.LinAlgError("The forms do not have enough zeros.")


def prolongation(image: Array, dim: int, degree: int, tol: float) -> Array:
    """Return an orthonormal basis of the forms of one degree more whose derivatives are in the span of some.

    They vanish, by apolarity, on the multiples of what vanishes on these forms. Powers of points whose powers
    are in the span are among them.

    Parameters
    ----------
    image : ndarray, shape (n_monomials(dim, degree), n)
        An orthonormal basis, in weighted coordinates.
    dim, degree : int
    tol : float

    Returns
    -------
    longer : ndarray, shape (n_monomials(dim, degree + 1), n_longer)

    Raises
    ------
    numpy.linalg.LinAlgError
        If the equations are too many.
    """
    n_longer = n_monomials(dim, degree + 1)
    n_outside = len(image) - image.shape[1]
    if dim * n_outside * n_longer**2 > TUNING.rank_work:
        raise np.linalg.LinAlgError("The forms of one degree more are too many.")
    outside = np.linalg.qr(image, mode="complete")[0][:, image.shape[1] :].conj().T
    weighted = outside * np.sqrt(multinomials(dim, degree))
    places = product_positions(dim, degree, 1)
    equations = np.zeros((dim, n_outside, n_longer), dtype=image.dtype)
    for j in range(dim):
        equations[j][:, places[:, j]] = weighted
    return solutions(equations.reshape(-1, n_longer) / np.sqrt(multinomials(dim, degree + 1)), tol)


def solutions(equations: Array, tol: float = TUNING.exact_residual) -> Array:
    """Return an orthonormal basis of the vectors that a matrix sends to zero, up to rounding, in columns."""
    _, values, right = np.linalg.svd(equations, full_matrices=equations.shape[1] > len(equations))
    n_bound = int(np.count_nonzero(values > tol * values.max(initial=0.0)))
    return np.asarray(right[n_bound:].conj().T)


def merge_points(points: Array) -> Array:
    """Return unit vectors with those that are nearly parallel replaced by their mean."""
    inner = points.conj() @ points.T
    n_clusters, cluster_of = connected_components(np.abs(inner) > 1 - TUNING.same_point, directed=False)
    means = []
    for k in range(n_clusters):
        where = np.flatnonzero(cluster_of == k)
        means.append(np.exp(-1j * np.angle(inner[where[0], where])) @ points[where])
    return unit_rows(np.array(means))


def rotate_to_real(points: Array) -> Array:
    """Return complex points turned by a phase so that their real part is largest."""
    squares = np.einsum("ij,ij->i", points, points)
    return points * np.exp(-0.5j * np.angle(squares))[:, None]


def real_starts(points: Array) -> Array:
    """Return real points near complex ones: a pair of conjugates becomes its real and imaginary part."""
    turned = rotate_to_real(points)
    real = turned.real.copy()
    for i in np.flatnonzero(np.linalg.norm(turned.imag, axis=1) > 0.1):
        if np.any(np.abs(turned[:i] @ turned[i]) > 1 - 1e-6):
            real[i] = turned[i].imag
    return unit_rows(real)


def fit_terms(tensor: SymmetricTensor, points: Array, method: str = "given") -> Terms:
    """Return the terms of some points with the best weights.

    Solves T = sum_i w_i (xi_i . x)^d by least squares: through the inner products g_ij^d, or on the
    coefficients of small tensors where these have a large condition number.

    Parameters
    ----------
    tensor : SymmetricTensor
    points : ndarray, shape (rank, dim)
        Of unit norm.
    method : str
        Where they come from.

    Returns
    -------
    terms : Terms
    """
    conjugate = points.conj()
    gram, target = (conjugate @ points.T) ** tensor.order, tensor.contract_all(conjugate, 0)[:, 0]
    weights, _, _, values = np.linalg.lstsq(gram, target, rcond=TUNING.rounding)
    is_small = len(tensor.coefficients) * len(points) ** 2 <= TUNING.dense_work
    if is_small and not values[-1] > TUNING.promising * values[0]:
        roots = np.sqrt(tensor.multinomials)
        powers = monomial_values(points, tensor.order) * roots
        weights = np.linalg.lstsq(powers.T, tensor.coefficients * roots, rcond=None)[0]
    return Terms(*absorb_weights(weights, points, tensor.order), method)


def joint_eigenvalues(matrices: Array, rng: np.random.Generator, *, max_sweeps: int = 30) -> Array:
    """Return the joint eigenvalues of matrices L D_i R that share the factors L and R, D_i being diagonal.

    Starts from the eigenvectors of a pencil of two random combinations, and
    improves them by Newton sweeps [khouja2022diagonalisation].

    Parameters
    ----------
    matrices : ndarray, shape (n_matrices, rank, rank)
    rng : numpy.random.Generator
    max_sweeps : int

    Returns
    -------
    eigenvalues : ndarray, shape (rank, n_matrices)
        Row j holds those of all matrices for the j-th eigenvector, of unit norm. Complex if the eigenvectors
        are.

    Raises
    ------
    numpy.linalg.LinAlgError
        If no combination of the matrices is invertible, or the eigenvectors are not a basis: the rank is not
        the tensor's own, or the points do not impose independent conditions in degree k - 1.
    """
    first, second, third = np.tensordot(rng.standard_normal((3, len(matrices))), matrices, 1)
    vectors = np.linalg.eig(np.linalg.solve(first, second))[1]
    basis = first @ vectors
    inverse = np.linalg.inv(basis)
    with np.errstate(over="ignore"):
        condition = np.linalg.norm(inverse) * np.linalg.norm(basis)
    if not condition < 1 / np.finfo(float).eps:
        raise np.linalg.LinAlgError("The pencil is singular.")
    images, check = matrices @ vectors, inverse @ third @ vectors
    # To first order the diagonals are the eigenvalues, and a third combination shows the second order.
    diagonal = np.diag(check)
    gaps = diagonal[:, None] - diagonal
    np.fill_diagonal(gaps, np.inf)
    gaps[gaps == 0] = np.finfo(float).tiny
    if np.abs(np.sum(check * check.T / gaps, axis=1)).max() <= TUNING.rounding * np.abs(diagonal).max():
        return unit_rows(np.einsum("ij,kji->ik", inverse, images))
    stack = inverse @ np.concatenate([basis[None], images])
    off_diagonal = 1 - np.eye(matrices.shape[1])
    error = np.linalg.norm(off_diagonal * stack)
    # What the rounding of a product of three matrices leaves.
    rounding = np.finfo(float).eps * matrices.shape[1] * np.linalg.norm(stack)
    for _ in range(max_sweeps):
        if error <= rounding:
            break
        left, right = _newton_sweep(stack)
        trial = left @ stack @ right
        trial_error = np.linalg.norm(off_diagonal * trial)
        if not trial_error < (1 - TUNING.promising) * error:
            break
        stack, error = trial, trial_error
    diagonals = np.einsum("kii->ik", stack)
    points = unit_rows(diagonals[:, 1:] / diagonals[:, :1])
    if not np.all(np.isfinite(points)):
        raise np.linalg.LinAlgError("The pencil is singular.")
    return points


def _newton_sweep(stack: Array) -> tuple[Array, Array]:
    """Return I + Y and I + X, the corrections that best undo the off-diagonal entries.

    For each pair, the least squares solution of
    x_ij (D_k)_ii + y_ij (D_k)_jj = -(D_k)_ij over all k.
    """
    d = np.einsum("kii->ki", stack)
    squares = np.sum(np.abs(d) ** 2, axis=0)
    cross = d.conj().T @ d
    p = np.einsum("ki,kij->ij", d.conj(), stack)
    q = np.einsum("kj,kij->ij", d.conj(), stack)
    determinant = squares[:, None] * squares - np.abs(cross) ** 2
    np.fill_diagonal(determinant, 1.0)
    # Pairs whose diagonals are proportional cannot be separated: they are left as they are.
    determinant[determinant < 1e-14 * squares[:, None] * squares] = np.inf
    x = -(squares * p - cross * q) / determinant
    y = -(squares[:, None] * q - cross.conj() * p) / determinant
    np.fill_diagonal(x, 1.0)
    np.fill_diagonal(y, 1.0)
    return y, x


# Forms of the kernel that are drawn: the zeros of some lie closer together than those of others.
N_DRAWS = 10


def sylvester_points(tensor: SymmetricTensor, rank: int, rng: np.random.Generator) -> Array:
    """Return points of a decomposition of a binary form, over C: the zeros of a form of the kernel.

    Parameters
    ----------
    tensor : SymmetricTensor
        In two variables.
    rank : int
        With 2 * rank above the order, so that there is a kernel.
    rng : numpy.random.Generator

    Returns
    -------
    points : ndarray, shape (rank, 2)
    """
    order = tensor.order
    if rank >= order:
        kernel = np.eye(rank + 1)
    else:
        matrix = hankel(tensor, row_degree=order - rank)
        _, values, right = np.linalg.svd(matrix)
        kernel = right[len(values) :].conj()
    best, least = np.zeros((rank, 2)), np.inf
    for _ in range(N_DRAWS):
        ratios = np.roots(rng.standard_normal(len(kernel)) @ kernel)
        points = unit_rows(np.stack([ratios, np.ones(len(ratios))], axis=1).astype(complex))
        closest = np.abs(np.triu(points.conj() @ points.T, 1)).max()
        if len(points) == rank and closest < least:
            best, least = points, closest
    return best
