"""Labels, responsibilities and densities of rows under a fitted mixture, and the likelihood of all rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.namespaces import namespace, to_numpy
from apolar._core.threads import one_blas_thread
from apolar.data import ArrayRows, Rows
from apolar.em.blocks import Block
from apolar.em.row_blocks import RowBlocks
from apolar.em.whitening import Whitening, mixture_around
from apolar.estimator.fitted import fitted_parameters
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import MixtureParameters
from apolar.scores import CRITERIA, FitSummary

NOISE = -1
"""The label of rows of noise, as in HDBSCAN."""


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

    def each(self, rows: Rows, what: str, threads: int = 1, keep: Callable[[Any], Any] | None = None) -> Any:
        """Return an answer for each row, as one array of the library and on the device of the rows.

        Parameters
        ----------
        rows : Rows
        what : {"labels", "probabilities", "densities"}
        threads : int, default=1
        keep : callable, optional
            What to keep of the answers for a block.

        Returns
        -------
        answers : array
            Lazy for distributed rows.
        """
        dtype = np.int64 if what == "labels" else np.float64
        n_columns = self.n_components if what == "probabilities" else None
        if rows.is_distributed:
            of_partition = functools.partial(self._of_partition, what=what)
            return rows.map_lazily(of_partition, n_columns, dtype)

        def answers(block: Block) -> Any:
            answer = block.posteriors(self.natural, what)
            answer = answer + self.whitening.log_det if what == "densities" else answer
            answer = answer if keep is None else keep(answer)
            return to_numpy(answer) if rows.returns_to_host else answer

        with one_blas_thread():
            parts = list(self._blocks(2).map(rows, answers, threads))
        if rows.device_template is not None and not rows.returns_to_host:
            # Those for rows with missing values are on the host.
            xp, device = namespace(rows.device_template), rows.device_template.device
            parts = [xp.asarray(p, device=device) if isinstance(p, np.ndarray) else p for p in parts]
        values = parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts)
        if not self.whitening.has_noise_component:
            return values
        if what == "labels":
            return namespace(values).where(values == self.n_components, NOISE, values)
        return values[:, : self.n_components] if what == "probabilities" else values

    def _of_partition(self, values: Any, what: str) -> Any:
        """Return an answer for each row of a partition, which may be empty."""
        if not values.shape[0]:
            shape = (0, self.n_components) if what == "probabilities" else (0,)
            return np.zeros(shape, dtype=np.int64 if what == "labels" else np.float64)
        return self.each(ArrayRows(values), what)

    def likelihood(self, rows: Rows, threads: int = 1) -> Likelihood:
        """Return the likelihood of all rows together, by one pass in bounded memory."""
        natural = self.natural
        with one_blas_thread():
            sums = self._blocks(3).reduce(rows, lambda block: block.posteriors(natural, "sums"), threads)
        density, certainty, weight = (float(value) for value in sums)
        if not weight > 0:
            raise ValueError("The weights of the rows are all zero.")
        return Likelihood(density + weight * self.whitening.log_det, weight, certainty)

    def _blocks(self, n_per_component: int) -> RowBlocks:
        """Return how blocks are made of rows; new rows have not been checked yet."""
        n = len(self.natural)
        n_working = n_per_component * n
        return RowBlocks(self.family, self.whitening, is_checked=False, n_working=n_working, n_fused=n)


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
