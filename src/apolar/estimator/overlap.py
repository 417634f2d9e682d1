"""How much the components of a mixture overlap, from its parameters alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from apolar._core.arrays import Array
from apolar._core.constants import MIN_WEIGHT
from apolar._core.tables import html_table, text_table
from apolar.em.whitening import mixture_around
from apolar.mixture.conditional import FULL
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters

__all__ = ["Overlap", "overlap"]

# Covariances that agree to this are the same: what is left of the quadratic terms is rounding.
SAME = 1e-11
# The number of quasi-random points of an estimate, and the most numbers that they hold (128 MB).
N_POINTS, MAX_NUMBERS = 2**14, 2**24
# Of more components than this, a display shows the pairs that overlap most.
MAX_SHOWN = 12
PAIRS_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class Overlap:
    """How much the components of a mixture overlap, pair by pair.

    Attributes
    ----------
    bhattacharyya : ndarray, shape (n_components, n_components)
        The Bhattacharyya coefficients, int sqrt(f_i f_j), of the densities of two components: 1 if they are
        the same, as on the diagonal, 0 if they have no place in common. Weights play no part.
    misclassification : ndarray, shape (n_components, n_components)
        Entry (i, j) is the probability that a row that is drawn from component i is put into j if there are
        only these two: that w_j f_j(x) > w_i f_i(x). Zero on the diagonal. Off it these are the overlaps
        omega_{j|i} of [maitra2010]: in closed form where covariances are equal, else estimated.
    standard_error : ndarray, shape (n_components, n_components)
        Of `misclassification`, as if its points were random draws, which they are better than. Zero where it
        is a closed form.
    """

    bhattacharyya: Array
    misclassification: Array
    standard_error: Array

    @property
    def n_components(self) -> int:
        """The number of components."""
        return len(self.bhattacharyya)

    @property
    def pairwise(self) -> Array:
        """The overlap of each pair [maitra2010], omega_{i|j} + omega_{j|i}; zero on the diagonal."""
        return self.misclassification + self.misclassification.T

    def pair(self) -> tuple[int, int] | None:
        """Return the two components that overlap most, by `pairwise`; None of one component."""
        if self.n_components < 2:
            return None
        first, second = np.unravel_index(np.argmax(np.triu(self.pairwise, 1)), self.pairwise.shape)
        # Where no two overlap at all, the first is the largest, and is on the diagonal.
        return (int(first), int(second)) if first != second else (0, 1)

    def __repr__(self) -> str:
        return f"Overlap(n_components={self.n_components}, {self._words()})"

    def __str__(self) -> str:
        return "\n".join([*text_table(*self._table()), "", f"{self._title()}: {self._words()}."])

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return html_table(*self._table(), caption=f"{self._title()}: {self._words()}.")

    def _title(self) -> str:
        if self.n_components > MAX_SHOWN:
            return "The pairs of clusters with the largest overlap"
        return "Percentage of the rows of a cluster (line) that would be assigned to another (column)"

    def _words(self) -> str:
        pair = self.pair()
        if pair is None:
            return "a single cluster has no overlap"
        return f"clusters {pair[0] + 1} and {pair[1] + 1} overlap most ({_share(self.pairwise[pair])})"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        n = self.n_components
        if n <= MAX_SHOWN:
            rows = [
                [str(i + 1), *("" if i == j else _share(self.misclassification[i, j]) for j in range(n))]
                for i in range(n)
            ]
            return ["cluster", *(str(j + 1) for j in range(n))], rows
        i, j = np.triu_indices(n, 1)
        most = np.argsort(-self.pairwise[i, j], kind="stable")[:PAIRS_SHOWN]
        rows = [
            [
                f"{i[p] + 1}, {j[p] + 1}",
                _share(self.pairwise[i[p], j[p]]),
                f"{self.bhattacharyya[i[p], j[p]]:.3f}",
            ]
            for p in most
        ]
        return ["clusters", "overlap", "Bhattacharyya"], rows


def _share(probability: float) -> str:
    """Return a probability in per cent; one that is small is not shown to be zero."""
    percentage = 100 * float(probability)
    return "<0.1%" if percentage < 0.05 else f"{percentage:.1f}%"


def overlap(kind: Family, parameters: MixtureParameters) -> Overlap:
    """Return how much the components of a mixture overlap.

    In the coordinates in which component i is standard normal and j has the precisions d_l along the axes, at
    an offset e, the difference of the logarithms of the weighted densities is a quadratic form in independent
    standard normals, sum_l (1 - d_l) u_l^2 - 2 d_l e_l u_l - d_l e_l^2, plus a constant. Where covariances
    are equal it is a Gaussian; else its sign is averaged over Sobol points.

    Parameters
    ----------
    kind : Family
    parameters : MixtureParameters
        In the units of the data.
    """
    n = parameters.n_components
    log_weights = np.log(np.maximum(parameters.weights, MIN_WEIGHT))
    coefficients, shares, errors = np.eye(n), np.zeros((n, n)), np.zeros((n, n))
    for i, (precisions, offsets) in enumerate(_relative(kind, parameters)):
        others = np.flatnonzero(np.arange(n) != i)
        d, e = precisions[others], offsets[others]
        distances = np.sum(e**2 / (4 * (1 + 1 / d)) + 0.5 * np.log((np.sqrt(d) + 1 / np.sqrt(d)) / 2), axis=1)
        coefficients[i, others] = np.exp(-distances)
        squares = np.where(np.abs(1 - d) < SAME, 0.0, 1 - d)
        constants = np.sum(np.log(d) - d * e**2, axis=1) + 2 * (log_weights[others] - log_weights[i])
        shares[i, others], errors[i, others] = _shares_above_zero(squares, -2 * d * e, constants)
    # The two halves are computed from opposite sides, and differ by rounding.
    return Overlap(np.minimum((coefficients + coefficients.T) / 2, 1.0), shares, errors)


def _shares_above_zero(squares: Array, linear: Array, constants: Array) -> tuple[Array, Array]:
    """Return how often forms a u^2 + b u + c in standard normals are above zero, and the standard errors.

    Parameters
    ----------
    squares, linear : ndarray, shape (n, m)
        The coefficients a and b of each form.
    constants : ndarray, shape (n,)

    Returns
    -------
    shares, errors : ndarray, shape (n,)
        A form that is constant at zero is above it half of the time.
    """
    lengths = np.linalg.norm(linear, axis=1)
    constant = np.where(constants > 0, 1.0, np.where(constants < 0, 0.0, 0.5))
    shares = np.where(lengths > 0, ndtr(constants / np.where(lengths > 0, lengths, 1.0)), constant)
    errors = np.zeros(len(shares))
    curved = np.flatnonzero(np.any(squares != 0, axis=1))
    if len(curved):
        m = squares.shape[1]
        n_points = 2 ** int(np.log2(min(N_POINTS, max(MAX_NUMBERS // m, 2))))
        # Moved off zero, the first of these points.
        points = ndtri(qmc.Sobol(m, scramble=False).random(n_points) + 0.5 / n_points)
        forms = points**2 @ squares[curved].T + points @ linear[curved].T + constants[curved]
        share = np.mean(forms > 0, axis=0)
        shares[curved], errors[curved] = share, np.sqrt(share * (1 - share) / n_points)
    return shares, errors


def _relative(kind: Family, parameters: MixtureParameters) -> list[tuple[Array, Array]]:
    """Return all components where one is standard normal, for each: precisions along axes, and offsets.

    Both have shape (n_components, n_features).
    """
    n, m = parameters.means.shape
    if kind.is_axis_aligned:
        stored = kind.diagonals(parameters.covariances)
        variances = np.broadcast_to(stored if kind.n_axes else stored[..., None], (n, m))
        return [
            (variances[i] / variances, (parameters.means[i] - parameters.means) / np.sqrt(variances[i]))
            for i in range(n)
        ]
    # The same in any coordinates.
    inside = mixture_around(parameters, kind)[1]
    means, roots = inside.means, FULL.root(kind.matrices(inside.covariances, n, m))
    out = []
    for i in range(n):
        # The singular values of L_j^-1 L_i: their squares are exact where eigenvalues of the product are not.
        _, values, axes = np.linalg.svd(np.linalg.solve(roots, roots[i]))
        offsets = np.linalg.solve(roots[i], (means[i] - means).T).T
        out.append((values**2, np.einsum("jlm,jm->jl", axes, offsets)))
    return out
