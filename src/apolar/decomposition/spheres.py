"""The manifold of weights and unit vectors, R^r x (S^(n-1))^r, in real coordinates."""

from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array, unit_rows


@dataclass(frozen=True, eq=False)
class ManifoldPoint:
    """A point of the manifold.

    Attributes
    ----------
    weights : ndarray, shape (rank,)
    units : ndarray, shape (rank, n)
        Of unit norm, real: a complex vector v is held as (Re v, Im v).
    """

    weights: Array
    units: Array


def tangent_basis(point: ManifoldPoint) -> Array:
    """Return an orthonormal basis of each sphere's tangent space, shape (rank, n, n - 1).

    The columns of the Householder reflection that sends the first axis to the
    unit vector, but for the first.
    """
    units = point.units
    mirrors = units.copy()
    mirrors[:, 0] += np.where(units[:, 0] < 0, -1.0, 1.0)
    squares = np.einsum("ij,ij->i", mirrors, mirrors)
    reflections = np.eye(units.shape[1]) - 2 * np.einsum("ip,iq->ipq", mirrors / squares[:, None], mirrors)
    return reflections[:, :, 1:]


def reduced_gradient(basis: Array, weights_part: Array, units_part: Array) -> Array:
    """Return the Riemannian gradient in the basis, shape (rank + rank (n - 1),)."""
    return np.concatenate([weights_part, np.einsum("ipq,ip->iq", basis, units_part).ravel()])


def reduced_hessian(point: ManifoldPoint, basis: Array, units_part: Array, hessian: Array) -> Array:
    """Return the Riemannian Hessian in the basis.

    Parameters
    ----------
    point : ManifoldPoint
    basis : ndarray, shape (rank, n, n - 1)
    units_part : ndarray, shape (rank, n)
        The Euclidean gradient at the unit vectors, for Weingarten's term.
    hessian : ndarray, shape (rank + rank * n, rank + rank * n)
        The Euclidean Hessian.

    Returns
    -------
    hessian : ndarray, shape (rank + rank * (n - 1), rank + rank * (n - 1))
    """
    rank, n = point.units.shape
    ww = hessian[:rank, :rank]
    vw = hessian[rank:, :rank].reshape(rank, n, rank)
    vv = hessian[rank:, rank:].reshape(rank, n, rank, n).copy()
    normal = np.einsum("ij,ij->i", point.units, units_part)
    for i in range(rank):
        vv[i, :, i, :] -= normal[i] * np.eye(n)
    vw_reduced = np.einsum("ipq,ipj->iqj", basis, vw).reshape(-1, rank)
    left = np.matmul(basis.swapaxes(1, 2), vv.reshape(rank, n, rank * n)).reshape(rank, n - 1, rank, n)
    vv_reduced = np.einsum("iqjp,jps->iqjs", left, basis, optimize=True).reshape(rank * (n - 1), -1)
    return np.block([[ww, vw_reduced.T], [vw_reduced, vv_reduced]])


def retracted(point: ManifoldPoint, basis: Array, step: Array) -> ManifoldPoint:
    """Return the retraction of a tangent vector: add it, and normalise the vectors."""
    rank = len(point.weights)
    moved = point.units + np.einsum("ipq,iq->ip", basis, step[rank:].reshape(rank, -1))
    return ManifoldPoint(point.weights + step[:rank], unit_rows(moved))
