"""The cost 1/2 |sum_i w_i (v_i . x)^d - P|^2 and its exact derivatives, real and complex."""

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.gauss_newton import Contractible
from apolar.decomposition.spheres import ManifoldPoint
from apolar.tensor.monomials import product_positions


class RealCost:
    """Weights and real unit vectors [khouja2022riemannian].

    Parameters
    ----------
    tensor : SymmetricTensor or another Contractible
        Real, of order at least 2.
    """

    def __init__(self, tensor: Contractible) -> None:
        self.tensor = tensor
        self.order = tensor.order
        self.half_square = 0.5 * tensor.norm() ** 2

    def point(self, weights: Array, points: Array) -> ManifoldPoint:
        """Return a decomposition as a point on the manifold."""
        return ManifoldPoint(weights.real.astype(float), points.real.astype(float))

    def terms(self, point: ManifoldPoint) -> tuple[Array, Array]:
        """Return the vectors a_i and signs of a point, sum_i s_i (a_i . x)^d."""
        roots = np.abs(point.weights) ** (1 / self.order)
        signs = np.where(point.weights < 0, -1.0, 1.0)
        if self.order % 2:
            return point.units * (signs * roots)[:, None], np.ones(len(signs))
        return point.units * roots[:, None], signs

    def value(self, point: ManifoldPoint) -> float:
        """Return the cost."""
        w, v = point.weights, point.units
        values = np.einsum("ij,ij->i", self.tensor.contract_all(v, 1), v)
        return float(0.5 * w @ (v @ v.T) ** self.order @ w - w @ values + self.half_square)

    def gradient(self, point: ManifoldPoint) -> tuple[Array, Array]:
        """Return the Euclidean gradient, shapes (rank,) and (rank, n)."""
        w, v, d = point.weights, point.units, self.order
        g = v @ v.T
        contracted = self.tensor.contract_all(v, 1)
        by_weight = g**d @ w - np.einsum("ij,ij->i", contracted, v)
        by_unit = d * w[:, None] * ((g ** (d - 1) * w) @ v - contracted)
        return by_weight, by_unit

    def hessian(self, point: ManifoldPoint, *, second_order: bool = True) -> Array:
        """Return the Euclidean Hessian, shape (rank + rank n, rank + rank n).

        Parameters
        ----------
        point : ManifoldPoint
        second_order : bool
            With False, Gauss-Newton's: without the terms that vanish with the residual.
        """
        w, v, d = point.weights, point.units, self.order
        rank, n = v.shape
        g = v @ v.T
        low = g ** (d - 2)
        high = low * g
        # The second derivatives by (v_i, w_j) and by (v_i, v_j), for all i and j.
        vw = d * w[:, None, None] * np.einsum("ij,jp->ipj", high, v)
        vv = np.einsum("ij,jp,iq->ipjq", d * (d - 1) * low * np.outer(w, w), v, v)
        vv[:, np.arange(n), :, np.arange(n)] += d * high * np.outer(w, w)
        if second_order:
            bracket = d * ((high * w) @ v - self.tensor.contract_all(v, 1))
            curvature = (
                d
                * (d - 1)
                * (np.einsum("jl,lp,lq->jpq", low * w, v, v, optimize=True) - _hessians(self.tensor, v))
            )
            for i in range(rank):
                vw[i, :, i] += bracket[i]
                vv[i, :, i, :] += w[i] * curvature[i]
        vw = vw.reshape(rank * n, rank)
        return np.block([[high * g, vw.T], [vw, vv.reshape(rank * n, rank * n)]])


class ComplexCost:
    """Real weights and complex unit vectors, held as (Re v, Im v).

    With z_ij = v_i^* v_j; the cost is real analytic in the real coordinates.
    """

    def __init__(self, tensor: Contractible) -> None:
        self.tensor = tensor
        self.order = tensor.order
        self.half_square = 0.5 * tensor.norm() ** 2

    def point(self, weights: Array, points: Array) -> ManifoldPoint:
        """Return a decomposition as a point on the manifold, phases moved into the vectors."""
        phases = np.exp(1j * np.angle(weights) / self.order)
        turned = points * phases[:, None]
        return ManifoldPoint(np.abs(weights), np.concatenate([turned.real, turned.imag], axis=1))

    def terms(self, point: ManifoldPoint) -> tuple[Array, Array]:
        """Return the vectors a_i and signs (all one) of a point."""
        roots = point.weights.astype(np.complex128) ** (1 / self.order)
        return _complex(point.units) * roots[:, None], np.ones(len(roots))

    def value(self, point: ManifoldPoint) -> float:
        """Return the cost."""
        w, v = point.weights, _complex(point.units)
        values = np.einsum("ij,ij->i", self.tensor.contract_all(v.conj(), 1), v.conj())
        powers = ((v.conj() @ v.T) ** self.order).real
        return float(0.5 * w @ powers @ w - w @ values.real + self.half_square)

    def gradient(self, point: ManifoldPoint) -> tuple[Array, Array]:
        """Return the Euclidean gradient, shapes (rank,) and (rank, 2 m)."""
        w, v, d = point.weights, _complex(point.units), self.order
        z = v.conj() @ v.T
        contracted = self.tensor.contract_all(v.conj(), 1)
        by_weight = (z**d).real @ w - np.einsum("ij,ij->i", contracted, v.conj()).real
        # The derivative by conj(v_i), doubled: its real and imaginary parts are the gradient.
        by_unit = d * w[:, None] * ((z ** (d - 1) * w) @ v - contracted)
        return by_weight, np.concatenate([by_unit.real, by_unit.imag], axis=1)

    def hessian(self, point: ManifoldPoint, *, second_order: bool = True) -> Array:
        """Return the Euclidean Hessian, shape (rank + 2 rank m, rank + 2 rank m).

        Along a direction x of the vectors, the derivative by conj(v_i) changes
        linearly in x and in conj(x): `linear` and `antilinear` hold the two parts.
        """
        w, v, d = point.weights, _complex(point.units), self.order
        rank, m = v.shape
        z = v.conj() @ v.T
        low = z ** (d - 2)
        high = low * z
        vw = d * w[:, None, None] * np.einsum("ij,jp->ipj", high, v)
        linear = np.einsum("ij,jp,iq->ipjq", d * (d - 1) * low * np.outer(w, w), v, v.conj())
        linear[:, np.arange(m), :, np.arange(m)] += d * high * np.outer(w, w)
        antilinear = np.zeros((rank, m, m), dtype=complex)
        if second_order:
            bracket = d * ((high * w) @ v - self.tensor.contract_all(v.conj(), 1))
            curvature = (
                d
                * (d - 1)
                * (
                    np.einsum("jl,lp,lq->jpq", low * w, v, v, optimize=True)
                    - _hessians(self.tensor, v.conj())
                )
            )
            for i in range(rank):
                vw[i, :, i] += bracket[i]
            antilinear = w[:, None, None] * curvature
        vv = np.zeros((rank, 2, m, rank, 2, m))
        vv[:, 0, :, :, 0, :] = linear.real
        vv[:, 0, :, :, 1, :] = -linear.imag
        vv[:, 1, :, :, 0, :] = linear.imag
        vv[:, 1, :, :, 1, :] = linear.real
        for i in range(rank):
            vv[i, 0, :, i, 0, :] += antilinear[i].real
            vv[i, 0, :, i, 1, :] += antilinear[i].imag
            vv[i, 1, :, i, 0, :] += antilinear[i].imag
            vv[i, 1, :, i, 1, :] -= antilinear[i].real
        vw_real = np.concatenate([vw.real, vw.imag], axis=1).reshape(2 * rank * m, rank)
        n = 2 * rank * m
        return np.block([[(high * z).real, vw_real.T], [vw_real, vv.reshape(n, n)]])


Cost = RealCost | ComplexCost


def _complex(units: Array) -> Array:
    m = units.shape[1] // 2
    return units[:, :m] + 1j * units[:, m:]


def _hessians(tensor: Contractible, points: Array) -> Array:
    """Return T(v, ..., v, ., .) as full matrices, shape (n_points, dim, dim)."""
    return tensor.contract_all(points, 2)[:, product_positions(tensor.dim, 1, 1)]
