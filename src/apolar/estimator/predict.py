"""Labels, responsibilities and densities of rows under a fitted mixture, and the likelihood of all rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.namespaces import namespace, to_device_of
from apolar._core.threads import one_blas_thread
from apolar.data import ArrayRows, Rows
from apolar.data.checks import MissingValueError
from apolar.em.blocks import Block
from apolar.em.e_step import LogDensity, RowAnswers
from apolar.em.row_stats import RowStats
from apolar.em.whitening import Whitening, mixture_around
from apolar.estimator.fitted import fitted_parameters
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import MixtureParameters
from apolar.scores import CRITERIA, FitSummary

NOISE = -1
"""The label of rows of noise, as in HDBSCAN."""
Answer = Callable[[Block, Array, float], Any]
"""A function of a block of rows, natural parameters, and what to add to log-densities."""


def labels(block: Block, natural: Array, _: float) -> Any:
    """Return the most probable component of each row."""
    return block.labels(natural)


def probabilities(block: Block, natural: Array, _: float) -> Any:
    """Return the responsibilities, shape (n, n_components)."""
    return block.probabilities(natural)


def densities(block: Block, natural: Array, offset: float) -> Any:
    """Return the log-densities."""
    return block.log_densities(natural) + offset


@dataclass(frozen=True, eq=False)
class Predictor:
    """A mixture, ready to predict.

    Attributes
    ----------
    family : Family
    whitening : Whitening
        Around the mixture.
    natural : ndarray, shape (n_components, n_stats)
        Its natural parameters, in whitened coordinates; those of the noise, if there is any, are last.
    n_components : int
        The number of Gaussian components.
    """

    family: Family
    whitening: Whitening
    natural: Array
    n_components: int

    @classmethod
    def of(cls, kind: Family, parameters: MixtureParameters) -> Predictor:
        """Return the predictor of a mixture in the units of the data."""
        whitening, inside = mixture_around(parameters, kind)
        natural = whitening.append_noise_component(kind.natural(inside), parameters.weights)
        return cls(kind, whitening, natural, parameters.n_components)

    @property
    def _prepare(self) -> RowStats:
        """How blocks are made of rows; new rows have not been checked yet."""
        return RowStats(self.family, self.whitening, is_checked=False)

    def each(self, rows: Rows, answer: Answer, threads: int = 1) -> Any:
        """Return an answer for each row, as one array of the library and on the device of the rows."""
        if rows.is_distributed:
            columns = self.n_components if answer is probabilities else None
            dtype = np.int64 if answer is labels else np.float64
            return rows.map_lazily(functools.partial(self._of_partition, answer=answer), columns, dtype)

        answers = RowAnswers(self.natural, answer, self.whitening.log_det, rows.returns_to_host)
        try:
            with one_blas_thread():
                parts = list(rows.map_blocks(answers, self._prepare, threads))
        except MissingValueError:
            if rows.device_template is None or not rows.rereadable:
                raise
            # Rows with missing values are for the host.
            on_host = self.each(rows.on_host(), answer, threads)
            return on_host if rows.returns_to_host else to_device_of(on_host, rows.device_template)
        values = parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts)
        return self._without_noise(values, answer) if self.whitening.has_noise_component else values

    def _without_noise(self, values: Any, answer: Answer) -> Any:
        """Return labels with -1 for noise, and probabilities without that of the noise."""
        if answer is labels:
            return namespace(values).where(values == self.n_components, NOISE, values)
        return values[:, : self.n_components] if answer is probabilities else values

    def _of_partition(self, values: Any, answer: Answer) -> Any:
        """Return an answer for each row of a partition, which may be empty."""
        if not values.shape[0]:
            shape = (0, self.n_components) if answer is probabilities else (0,)
            return np.zeros(shape, dtype=np.int64 if answer is labels else np.float64)
        return self.each(ArrayRows(values), answer)

    def likelihood(self, rows: Rows, threads: int = 1) -> Likelihood:
        """Return the likelihood of all rows together, by one pass in bounded memory."""
        try:
            with one_blas_thread():
                sums = rows.reduce(LogDensity(self.natural), self._prepare, threads)
        except MissingValueError:
            if rows.device_template is None or not rows.rereadable:
                raise
            return self.likelihood(rows.on_host(), threads)
        density, certainty, weight = (float(value) for value in sums)
        if not weight > 0:
            raise ValueError("The weights of the rows are all zero.")
        return Likelihood(density + weight * self.whitening.log_det, weight, certainty)


def predictor_of(estimator: Any) -> Predictor:
    """Return the predictor of a fitted estimator."""
    return Predictor.of(family(estimator.covariance_type), fitted_parameters(estimator))


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of rows under a mixture.

    Attributes
    ----------
    log_likelihood : float
    weight : float
        The sum of the weights of the rows.
    log_certainty : float
        The weighted sum over rows of the log of the largest responsibility: zero if no components overlap.
    """

    log_likelihood: float
    weight: float
    log_certainty: float

    def criteria(self, n_parameters: int, log_evidence: float = np.nan) -> dict[str, float]:
        """Return the criteria of `apolar.scores.CRITERIA` for a mixture.

        Parameters
        ----------
        n_parameters : int
            Free ones.
        log_evidence : float, default=nan
            The `evidence_` of the mixture, if these are the rows that it was fitted to.
        """
        fit = FitSummary(self.log_likelihood, n_parameters, self.weight, self.log_certainty, log_evidence)
        return {name: criterion(fit) for name, criterion in CRITERIA.items()}
