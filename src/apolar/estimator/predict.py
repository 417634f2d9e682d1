"""Labels, responsibilities and densities of rows under a fitted mixture, and the likelihood of all rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from apolar._core.arrays import Array
from apolar._core.namespaces import namespace, to_device_of
from apolar._core.threads import one_blas_thread
from apolar.data import ArrayRows, BlockFunction, Checked, Rows
from apolar.data.checks import MissingValueError
from apolar.em.blocks import Block
from apolar.em.completion import Completion
from apolar.em.e_step import LogDensity, RowAnswers
from apolar.em.row_stats import RowStats
from apolar.em.whitening import Whitening, mixture_around
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters
from apolar.scores import CRITERIA, FitSummary

__all__ = ["NOISE", "Likelihood", "Predictor", "is_fitted_as", "map_rows", "predictor_of"]

NOISE = -1
"""The label of rows of noise, as in HDBSCAN."""
Answer = Callable[[Block, Array, float], Any]
"""A function of a block of rows, natural parameters, and what to add to log-densities."""
Result = TypeVar("Result")


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
    """A mixture, ready to predict: what predictions need is computed once.

    Attributes
    ----------
    family : Family
    parameters : MixtureParameters
        In the units of the data.
    """

    family: Family
    parameters: MixtureParameters

    @functools.cached_property
    def whitened(self) -> tuple[Whitening, WhitenedParameters]:
        """The whitening around the mixture, and the mixture in its coordinates."""
        return mixture_around(self.parameters, self.family)

    @functools.cached_property
    def natural(self) -> Array:
        """Natural parameters in whitened coordinates, shape (n_components, n_stats); the noise is last."""
        whitening, inside = self.whitened
        return whitening.append_noise_component(self.family.natural(inside), self.parameters.weights)

    @functools.cached_property
    def completion(self) -> Completion:
        """What the mixture says of missing values."""
        return Completion.by_mixture(self.family, *self.whitened)

    def is_shown_by(self, estimator: Any) -> bool:
        """Return whether an estimator has this mixture, rounded to the precision of its attributes."""
        with np.errstate(over="ignore", under="ignore"):
            return self.family == family(estimator.covariance_type) and all(
                np.array_equal(np.asarray(getattr(self.parameters, name)).astype(shown.dtype), shown)
                for name, shown in _public_arrays(estimator).items()
            )

    def answer(self, rows: Rows, answer: Answer, threads: int = 1) -> Any:
        """Return an answer for each row, as one array of the library and on the device of the rows."""
        if rows.is_distributed:
            n_columns = self.parameters.n_components if answer is probabilities else None
            dtype = np.int64 if answer is labels else np.float64
            return rows.map_lazily(functools.partial(self._answer_partition, answer=answer), n_columns, dtype)
        answers = RowAnswers(self.natural, answer, self.whitened[0].log_det, rows.returns_to_host)
        parts = self._on_rows(rows, lambda there: list(there.map_blocks(answers, self._prepare, threads)))
        values = parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts)
        if rows.device_template is not None and not rows.returns_to_host:
            values = to_device_of(values, rows.device_template)
        if self.parameters.noise is None or answer is densities:
            return values
        if answer is labels:
            return namespace(values).where(values == self.parameters.n_components, NOISE, values)
        return values[:, : self.parameters.n_components]

    def likelihood(self, rows: Rows, threads: int = 1) -> Likelihood:
        """Return the likelihood of all rows together, by one pass in bounded memory."""
        sums = self._on_rows(
            rows, lambda there: there.reduce(LogDensity(self.natural), self._prepare, threads)
        )
        density, certainty, weight = (float(value) for value in sums)
        if not weight > 0:
            raise ValueError("The weights of the rows are all zero.")
        return Likelihood(density + weight * self.whitened[0].log_det, weight, certainty)

    @property
    def _prepare(self) -> RowStats:
        """How blocks are made of rows; new rows have not been checked yet."""
        return RowStats(self.family, self.whitened[0], is_checked=False)

    def _on_rows(self, rows: Rows, compute: Callable[[Rows], Result]) -> Result:
        """Return a function of the rows: of those on a device, on the host if values are missing."""
        try:
            with one_blas_thread():
                return compute(rows)
        except MissingValueError:
            if rows.device_template is None or not rows.rereadable:
                raise
            return self._on_rows(rows.on_host(), compute)

    def _answer_partition(self, values: Any, answer: Answer) -> Any:
        """Return an answer for each row of a partition, which may be empty."""
        if not values.shape[0]:
            shape = (0, self.parameters.n_components) if answer is probabilities else (0,)
            return np.zeros(shape, dtype=np.int64 if answer is labels else np.float64)
        return self.answer(ArrayRows(values), answer)


def predictor_of(estimator: Any) -> Predictor:
    """Return the predictor of a fitted estimator.

    It is kept by the estimator, and made again if its attributes were set since. Attributes in single
    precision are rounded: predictions are made from the mixture before rounding.

    Raises
    ------
    ValueError
        If `covariance_type` has been changed since the fit.
    """
    kind, known = family(estimator.covariance_type), vars(estimator)
    if not is_fitted_as(estimator, kind, *estimator.means_.shape):
        raise ValueError(
            f"The mixture was not fitted with covariance_type={estimator.covariance_type!r}: fit it again."
        )
    kept: Predictor | None = known.get("_predictor")
    if kept is not None and kept.is_shown_by(estimator):
        return kept
    weights, means, covariances = (
        np.array(value, dtype=np.float64) for value in _public_arrays(estimator).values()
    )
    return Predictor(kind, MixtureParameters(weights, means, covariances, known.get("noise_box_")))


def is_fitted_as(estimator: Any, kind: Family, n_components: int, n_features: int) -> bool:
    """Return whether an estimator holds a fitted mixture of that family and size."""
    if not hasattr(estimator, "weights_") or estimator.means_.shape != (n_components, n_features):
        return False
    return np.shape(estimator.covariances_) == kind.covariance_shape(n_components, n_features)


def _public_arrays(estimator: Any) -> dict[str, Array]:
    """Return the mixture as the attributes of an estimator show it."""
    return {name: np.asarray(vars(estimator)[f"{name}_"]) for name in ("weights", "means", "covariances")}


def map_rows(rows: Rows, function: Callable[[Array], Any], *, n_working: int = 0, axis: int = 0) -> Any:
    """Return a function of the values of rows, some of which may be missing, computed on the host in chunks.

    Parameters
    ----------
    rows : Rows
        Not distributed.
    function : callable
        Takes values, shape (n, n_features), and returns an array with n entries along `axis`.
    n_working : int, default=0
        The working memory of the function per row, in numbers.
    axis : int, default=0
    """
    working = BlockFunction(lambda block, _: function(block), n_working)
    with one_blas_thread():
        parts = list(rows.on_host().map_blocks(working, Checked(allows_missing=True)))
    return np.concatenate(parts, axis=axis)


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
            The number of free parameters.
        log_evidence : float, default=nan
            The `evidence_` of the mixture, if these are the rows that it was fitted to.
        """
        fit = FitSummary(self.log_likelihood, n_parameters, self.weight, self.log_certainty, log_evidence)
        return {name: criterion(fit) for name, criterion in CRITERIA.items()}
