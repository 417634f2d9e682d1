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
from apolar.data import ArrayRows, Rows, on_checked
from apolar.em.blocks import Block
from apolar.em.completion import Completion
from apolar.em.row_blocks import RowBlocks
from apolar.em.whitening import Whitening, mixture_around
from apolar.mixture.families import Family, family
from apolar.mixture.noise import append_noise
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters
from apolar.scores import CRITERIA, FitSummary

__all__ = ["NOISE_LABEL", "Likelihood", "Predictor", "map_rows", "predictor_of"]

NOISE_LABEL = -1
"""The label of rows of noise, as in HDBSCAN."""


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
        natural, noise = self.family.natural(inside), self.parameters.noise
        return append_noise(natural, self.parameters.weights, noise, whitening.log_det)

    @functools.cached_property
    def completion(self) -> Completion:
        """What the mixture says of missing values."""
        return Completion.by_mixture(self.family, *self.whitened)

    def answer(
        self, rows: Rows, what: str, threads: int = 1, keep: Callable[[Any], Any] | None = None
    ) -> Any:
        """Return an answer for each row, as one array of the library and on the device of the rows.

        Parameters
        ----------
        rows : Rows
        what : {"labels", "probabilities", "densities"}
        threads : int, default=1
        keep : callable, optional
            What to keep of the answers for a block, unless the rows are distributed.

        Returns
        -------
        answers : array
            Lazy for distributed rows.
        """
        n_components, offset = self.parameters.n_components, self.whitened[0].log_det
        if rows.is_distributed:
            n_columns = n_components if what == "probabilities" else None
            dtype = np.int64 if what == "labels" else np.float64
            return rows.map_lazily(functools.partial(self._answer_partition, what=what), n_columns, dtype)
        natural = self.natural

        def answers(block: Block) -> Any:
            answer = block.posteriors(natural, what)
            answer = answer + offset if what == "densities" else answer
            answer = answer if keep is None else keep(answer)
            return to_numpy(answer) if rows.returns_to_host else answer

        with one_blas_thread():
            parts = list(self._blocks(2).map(rows, answers, threads))
        if rows.device_template is not None and not rows.returns_to_host:
            # Those for rows with missing values are on the host.
            xp, device = namespace(rows.device_template), rows.device_template.device
            parts = [xp.asarray(p, device=device) if isinstance(p, np.ndarray) else p for p in parts]
        values = parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts)
        if self.parameters.noise is None or what == "densities":
            return values
        if what == "labels":
            return namespace(values).where(values == n_components, NOISE_LABEL, values)
        return values[:, :n_components]

    def likelihood(self, rows: Rows, threads: int = 1) -> Likelihood:
        """Return the likelihood of all rows together, by one pass in bounded memory."""
        natural = self.natural
        with one_blas_thread():
            sums = self._blocks(3).reduce(rows, lambda block: block.posteriors(natural, "sums"), threads)
        density, certainty, weight = (float(value) for value in sums)
        if not weight > 0:
            raise ValueError("The weights of the rows are all zero.")
        return Likelihood(density + weight * self.whitened[0].log_det, weight, certainty)

    def logits(self, rows: Rows) -> Array:
        """Return the logarithms of weighted densities, up to a constant, shape (n_components, n_rows)."""
        natural = self.natural
        parts = self._blocks(2).map(rows, lambda block: block.posteriors(natural, "logits"), 1)
        return np.concatenate(list(parts), axis=1)[: self.parameters.n_components]

    def _blocks(self, n_per_component: int) -> RowBlocks:
        """Return how blocks are made of rows; new rows have not been checked yet."""
        n = len(self.natural)
        return RowBlocks(
            self.family,
            self.whitened[0],
            has_noise=self.parameters.noise is not None,
            is_checked=False,
            n_working=n_per_component * n,
            n_fused=n,
        )

    def _answer_partition(self, values: Any, what: str) -> Any:
        """Return an answer for each row of a partition, which may be empty."""
        if not values.shape[0]:
            shape = (0, self.parameters.n_components) if what == "probabilities" else (0,)
            return np.zeros(shape, dtype=np.int64 if what == "labels" else np.float64)
        return self.answer(ArrayRows(values), what)


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
    weights, means, covariances = (np.asarray(known[name]) for name in ("weights_", "means_", "covariances_"))
    noise, kept = known.get("noise_box_"), known.get("_predictor")
    if isinstance(kept, Predictor) and kept.family == kind and kept.parameters.noise is noise:
        own = kept.parameters
        pairs = (own.weights, weights), (own.means, means), (own.covariances, covariances)
        with np.errstate(over="ignore", under="ignore"):
            if all(np.array_equal(np.asarray(mine).astype(shown.dtype), shown) for mine, shown in pairs):
                return kept
    if covariances.shape != kind.covariance_shape(*means.shape):
        raise ValueError(
            f"The mixture was not fitted with covariance_type={estimator.covariance_type!r}: fit it again."
        )
    weights, means, covariances = (np.array(part, np.float64) for part in (weights, means, covariances))
    return Predictor(kind, MixtureParameters(weights, means, covariances, noise))


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
    of_chunk = on_checked(lambda block, _: function(block), allows_missing=True)
    chunk_rows = functools.partial(Rows.chunk_rows, n_working=n_working)
    with one_blas_thread():
        parts = list(rows.on_host().map(of_chunk, chunk_rows=chunk_rows))
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
