"""What a fitted mixture says of rows: labels, posteriors, densities, and the likelihood of all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.namespaces import namespace, to_numpy, total
from apolar._core.threads import one_blas_thread
from apolar.data import Rows, from_arrays
from apolar.em.blocks import Chunk
from apolar.em.whitened import RowResponsibilities, WhitenedData, WhitenedStatistic
from apolar.em.whitening import Whitening, whitening_around
from apolar.mixture.families import Family
from apolar.mixture.parameters import MixtureParameters

Answer = Callable[[Any, Any], Any]
"""A function of posteriors, shape (n_components, n), and log-densities, shape (n,), of a chunk."""


def labels(posteriors: Any, _: Any) -> Any:
    """Return the most probable component of each row."""
    return namespace(posteriors).argmax(posteriors, axis=0)


def probabilities(posteriors: Any, _: Any) -> Any:
    """Return the posteriors, a row each, shape (n, n_components)."""
    return np.ascontiguousarray(posteriors.T) if isinstance(posteriors, np.ndarray) else posteriors.T


def densities(_: Any, density: Any) -> Any:
    """Return the log-densities."""
    return density


@dataclass(frozen=True, eq=False)
class Reader:
    """A mixture, ready to be asked about rows.

    Attributes
    ----------
    family : Family
    frame : Frame
        Around the mixture.
    natural : ndarray, shape (n_components, width)
        Its natural parameters, in the frame.
    """

    family: Family
    whitening: Whitening
    natural: Array

    @classmethod
    def of(cls, family: Family, parameters: MixtureParameters) -> Reader:
        """Return the reader of a mixture in the units of the data."""
        whitening = whitening_around(parameters, family)
        inside = whitening.transform_parameters(parameters)
        # What rounding has made singular on the way is floored, as in the fit.
        floored = replace(inside, covariances=family.floored(inside.covariances))
        return cls(family, whitening, family.natural(floored))

    def each(self, rows: Rows, answer: Answer, threads: int = 1) -> Any:
        """Return an answer on each row, in one array: of the library, and where, the rows are."""
        if rows.is_distributed:
            columns = len(self.natural) if answer is probabilities else None
            kind = np.int64 if answer is labels else np.float64
            return rows.lazily(functools.partial(self._of_part, answer=answer), columns, kind)

        def of_chunk(chunk: Chunk) -> Any:
            shares, density = RowResponsibilities(self.natural)(chunk)
            found = answer(shares, density + self.whitening.log_det)
            return to_numpy(found) if rows.answers_to_host else found

        data = WhitenedData(rows, self.family, self.whitening, threads, for_one_pass=True, unchecked=True)
        with one_blas_thread():
            parts = list(data.chunks(of_chunk, 2 * len(self.natural)))
        if not parts:
            raise ValueError("X has no rows.")
        return namespace(parts[0]).concat(parts)

    def _of_part(self, values: Any, answer: Answer) -> Any:
        """Return an answer on each row of a part of the table."""
        if not values.shape[0]:
            wide = (0, len(self.natural)) if answer is probabilities else (0,)
            return np.zeros(wide, dtype=np.int64 if answer is labels else np.float64)
        return self.each(from_arrays(values, None), answer)

    def likelihood(self, rows: Rows, threads: int = 1) -> Likelihood:
        """Return the likelihood of all rows together, by one pass in bounded memory."""
        job = _LikelihoodJob(self.family, self.whitening, self.natural)
        with one_blas_thread():
            data = WhitenedData(rows, self.family, self.whitening, threads, for_one_pass=True, unchecked=True)
            density, certainty, weight = (float(value) for value in data.total(job))
        if not weight > 0:
            raise ValueError("The weights of the rows are all zero.")
        if np.isnan(density) and rows.is_distributed:
            # Others have been checked as they were read.
            raise ValueError("X contains NaN or infinity: remove those rows or fill the entries.")
        return Likelihood(density + weight * self.whitening.log_det, weight, certainty)


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of rows under a mixture.

    Attributes
    ----------
    log_likelihood : float
    weight : float
        The sum of the weights of the rows.
    log_certainty : float
        The sum of the logarithms of each row's largest posterior: zero where no clusters overlap.
    """

    log_likelihood: float
    weight: float
    log_certainty: float


@dataclass(frozen=True, eq=False)
class _LikelihoodJob(WhitenedStatistic):
    """Log-density, logarithm of the largest posterior, and weight, summed over rows."""

    natural: Array

    @property
    def depth(self) -> int:
        """How many numbers a row are worked on besides the features."""
        return 3 * len(self.natural)

    def of_chunk(self, chunk: Chunk) -> tuple[Any, Any, Any]:
        """Return the sums over a chunk."""
        shares, density = RowResponsibilities(self.natural)(chunk)
        xp = namespace(shares)
        certainty = xp.log(xp.max(shares, axis=0))
        if chunk.weights is None:
            return total(density), total(certainty), chunk.n
        return total(density * chunk.weights), total(certainty * chunk.weights), total(chunk.weights)
