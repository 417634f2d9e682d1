"""The fitted state of an estimator: its attributes, and what it says about rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from apolar._core.arrays import Array
from apolar._core.namespaces import namespace, to_numpy
from apolar._core.threads import default_threads, one_blas_thread
from apolar.data import CHUNK_SIZE, ArrayRows, Chunk, Rows
from apolar.em.blocks import Block
from apolar.em.completion import Completion
from apolar.em.left_out import WORKING, LeftOut
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus, SearchCost
from apolar.em.row_blocks import RowBlocks
from apolar.em.run import evidence_of
from apolar.em.whitening import Whitening, mixture_around
from apolar.estimator.inputs import family_of
from apolar.mixture.families import Family
from apolar.mixture.low_rank import split
from apolar.mixture.parameters import (
    N_NOISE_PARAMETERS,
    MixtureParameters,
    WhitenedParameters,
    append_noise,
    noise_weights,
)
from apolar.mixture.prior import AddedRows, Prior, Strengths
from apolar.mixture.tails import Tails
from apolar.scores import FitSummary

__all__ = ["NOISE_LABEL", "FittedState"]

NOISE_LABEL = -1
"""The label of rows of noise, as in HDBSCAN."""
# Up to which the mean log-likelihoods of the same rows agree: they may have been rounded to single precision.
SAME_LIKELIHOOD = 1e-6
# What shows the covariances of few factors in parts.
_OF_FACTORS = ("n_factors_", "loadings_", "noise_variances_")
_ARRAYS = ("weights", "means", "covariances", "dof")


@contextmanager
def _singular_in_words() -> Iterator[None]:
    """Turn the error of a covariance that is not positive definite into what the user can do."""
    try:
        yield
    except np.linalg.LinAlgError:
        raise ValueError(
            "In the units of the data, a covariance is singular up to rounding: leave out columns that "
            "hardly vary or nearly repeat others, or regularise the covariances more."
        ) from None


@dataclass(frozen=True, eq=False)
class FittedState:
    """A mixture and how it was found: what `fit`, a stream, a file or moments leave on an estimator.

    Each field after the first three is the attribute of the same name with an underscore; None if it is not
    known: the estimator then lacks the attribute. What predictions need is computed once.

    Attributes
    ----------
    family : Family
    parameters : MixtureParameters
        In the units of the data and in double precision.
    dtype : dtype
        The floating type of the attributes: float32 or float64.
    rounding_variances : ndarray, shape (n_features,), or None
        None for zeros.
    clusters : tuple of tuple of int, or None
        The components of each cluster, where some were combined.
    """

    family: Family
    parameters: MixtureParameters
    dtype: Any = np.float64
    n_samples_seen: float | None = None
    converged: bool | None = None
    n_iter: int | None = None
    lower_bound: float | None = None
    lower_bounds: list[float] | None = None
    evidence: float | None = None
    loo: float | None = None
    loo_standard_error: float | None = None
    shrinkage: Strengths | None = None
    rounding_variances: Array | None = None
    start: str | None = None
    start_notes: list[str] | None = None
    message: str | None = None
    search: SearchCost | None = None
    clusters: tuple[tuple[int, ...], ...] | None = None

    @classmethod
    def of(cls, estimator: Any) -> FittedState:
        """Return the state of a fitted estimator as it was set, with all that predictions need.

        If attributes of the mixture were set since, it is made of all attributes. Attributes in single
        precision are rounded: predictions are made from the mixture before rounding.

        Raises
        ------
        NotFittedError
            If it has not been fitted.
        ValueError
            If `covariance_type` has been changed since the fit.
        """
        check_is_fitted(estimator, "weights_")
        known = vars(estimator)
        kind = family_of(estimator).of_stored(np.shape(known["covariances_"]))
        noise, kept = known.get("noise_box_"), known.get("_state")
        if kept is not None and kept.family == kind and kept._is_shown_in(known):
            return kept
        is_changed = kept is not None and kept.family != kind
        shape, dtype = np.shape(known["means_"]), np.asarray(known["means_"]).dtype
        if is_changed or np.shape(known["covariances_"]) != kind.covariance_shape(*shape):
            raise ValueError(
                f"The mixture was not fitted with covariance_type={estimator.covariance_type!r}"
                f"{'' if kind.dof is None else f' and dof={kind.dof!r}'}: fit it again."
            )
        arrays = {name: np.array(known[f"{name}_"], np.float64) for name in _ARRAYS if f"{name}_" in known}
        made = estimator._state_type
        others = {one.name: known[f"{one.name}_"] for one in fields(made) if f"{one.name}_" in known}
        state: FittedState = made(kind, MixtureParameters(**arrays, noise=noise), dtype, **others)
        return state

    def _is_shown_in(self, attributes: dict[str, Any]) -> bool:
        """Return whether attributes are those of this mixture, up to their precision."""
        with np.errstate(over="ignore", under="ignore"):
            for name in _ARRAYS:
                value, shown = getattr(self.parameters, name), np.asarray(attributes.get(f"{name}_", np.nan))
                if value is not None and not np.array_equal(np.asarray(value).astype(shown.dtype), shown):
                    return False
        return attributes.get("noise_box_") is self.parameters.noise

    @classmethod
    def of_fit(cls, fit: Fit, problem: Problem, dtype: Any) -> FittedState:
        """Return the state of a result of EM."""
        whitening, weight = problem.whitening, problem.weight
        # The density of a row in the units of the data is that in whitened coordinates times |det A|.
        offset = whitening.log_det
        return cls(
            problem.family,
            whitening.inverse_transform_parameters(fit.parameters, problem.noise),
            dtype,
            n_samples_seen=weight,
            converged=fit.status is FitStatus.CONVERGED,
            n_iter=fit.n_iter,
            lower_bound=fit.log_likelihood / weight + offset,
            lower_bounds=[value / weight + offset for value in fit.history],
            evidence=None if problem.family.has_factors else evidence_of(problem, fit) + offset * weight,
            shrinkage=fit.strengths,
            rounding_variances=np.asarray(problem.measurement) if problem.is_rounded else None,
            start=fit.start,
            start_notes=list(fit.skipped),
            message=fit.status.value,
            search=fit.search,
        )

    @property
    def is_rounded(self) -> bool:
        """Whether the rows were taken to be known up to their rounding errors."""
        return self.rounding_variances is not None and bool(np.any(self.rounding_variances))

    @property
    def n_parameters(self) -> int:
        """The number of free parameters; a noise component has two, its weight and its volume."""
        n_parameters = self.family.n_parameters(*self.parameters.means.shape)
        return n_parameters + (0 if self.parameters.noise is None else N_NOISE_PARAMETERS)

    @staticmethod
    def stored_shapes(kind: Family, n_components: int, n_features: int) -> dict[str, tuple[int, ...]]:  # noqa: ARG004
        """Return the fields that files hold besides those of a mixture, and their shapes."""
        return {}

    @property
    def log_factors(self) -> Array | float:
        """What is added to the logarithm of the weighted density of each component."""
        return 0.0

    # --- attributes -----------------------------------------------------------------------------

    def set_on(self, estimator: Any) -> None:
        """Set the attributes of an estimator, whose `covariance_type` is the family."""
        attributes = self.attributes()
        # Computed here, once, for all predictions.
        _ = self.blocks
        for one in fields(self):
            vars(estimator).pop(f"{one.name}_", None)
        for name in ("dof_", "_labels", "precisions_cholesky_", *_OF_FACTORS):
            vars(estimator).pop(name, None)
        vars(estimator).update(attributes, _state=self)

    @_singular_in_words()
    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes by name.

        If a value of the mixture leaves the range of single precision, all are in double precision.
        """
        kind, parameters, noise = self.family, self.parameters, self.parameters.noise
        if not parameters.is_finite:
            raise ValueError(
                "EM ended in parameters that are not finite: components vary by less than rounding errors. "
                "Ask for fewer components, or use the default prior."
            )
        shown = {
            "weights_": parameters.weights,
            "means_": parameters.means,
            "covariances_": parameters.covariances,
            "precisions_": kind.precisions(parameters.covariances),
        }
        if not kind.has_factors:
            shown["precisions_cholesky_"] = kind.whiteners(parameters.covariances)
        if parameters.dof is not None:
            shown["dof_"] = parameters.dof
        if np.dtype(self.dtype) == np.float32:
            with np.errstate(over="ignore", under="ignore"):
                single = {name: np.asarray(value).astype(np.float32) for name, value in shown.items()}
            in_range = all(np.all(np.isfinite(value)) for value in single.values())
            if in_range and np.all(kind.diagonals(single["covariances_"]) > 0):
                shown = single
        # Copies: an attribute may be changed in place. The single variance of "tied_spherical" is a NumPy
        # scalar, not an array of no dimensions.
        of_mixture: dict[str, Any] = {name: np.array(value)[()] for name, value in shown.items()}
        if kind.has_factors:
            of_noise, loadings = split(of_mixture["covariances_"])
            known = loadings.shape[-1], loadings, of_noise
            of_mixture.update(zip(_OF_FACTORS, known, strict=True))
        others = {f"{one.name}_": getattr(self, one.name) for one in fields(self)[3:]}
        return {
            **of_mixture,
            "noise_weight_": 0.0 if noise is None else float(noise_weights(parameters.weights)),
            "noise_box_": noise,
            "rounding_variances_": np.zeros(parameters.n_features),
            "shrinkage_": Strengths(),
            **{name: value for name, value in others.items() if value is not None},
            "n_features_in_": parameters.n_features,
        }

    # --- rows -----------------------------------------------------------------------------------

    @functools.cached_property
    @_singular_in_words()
    def whitened(self) -> tuple[Whitening, WhitenedParameters]:
        """The whitening around the mixture, and the mixture in its coordinates."""
        return mixture_around(self.parameters, self.family)

    @functools.cached_property
    def natural(self) -> Array:
        """Natural parameters in whitened coordinates, shape (n_components, n_stats); the noise is last."""
        whitening, inside = self.whitened
        natural, noise = self.family.natural(inside), self.parameters.noise
        natural[..., 0] += self.log_factors
        return append_noise(natural, self.parameters.weights, noise, whitening.log_det)

    @functools.cached_property
    def tails(self) -> Tails | None:
        """The tails of the same components; None if they are Gaussian."""
        return self.family.tails(self.whitened[1], self.natural)

    @functools.cached_property
    def completion(self) -> Completion:
        """What the mixture says about missing values."""
        return Completion.by_mixture(self.family, *self.whitened)

    @functools.cached_property
    def blocks(self) -> RowBlocks:
        """How blocks are made of rows, which have not been checked yet."""
        n = len(self.natural)
        return RowBlocks(
            self.family,
            self.whitened[0],
            has_noise=self.parameters.noise is not None,
            is_checked=False,
            n_working=3 * n,
            n_fused=n,
        )

    @one_blas_thread()
    def answer(
        self,
        rows: Rows,
        what: str,
        n_threads: int | None = 1,
        keep: Callable[[Any], Any] | None = None,
        left_out: LeftOut | None = None,
    ) -> Any:
        """Return an answer for each row, as one array of the library and on the device of the rows.

        Parameters
        ----------
        rows : Rows
        what : {"labels", "probabilities", "densities"}
        n_threads : int or None, default=1
            None: one per processor.
        keep : callable, optional
            What to keep of the answers for a block, on the host, unless the rows are distributed.
        left_out : LeftOut, optional
            For densities of the rows of the fit, each under the mixture without it.

        Returns
        -------
        answers : array
            Lazy for distributed rows.
        """
        n_components = len(self.parameters.weights)
        if rows.is_distributed:
            n_columns = n_components if what == "probabilities" else None
            dtype = np.int64 if what == "labels" else np.float64
            return rows.map_lazily(
                lambda chunk: self.answer(ArrayRows(chunk.values, chunk.weights), what, left_out=left_out),
                n_columns,
                dtype,
            )
        blocks, natural, tails = self.blocks, self.natural, self.tails
        blocks = blocks if left_out is None else replace(blocks, n_fused=0)

        def answers(block: Block) -> Any:
            if left_out is None:
                answer = block.posteriors(natural, what, tails)
            else:
                answer = left_out.densities(block)[0][0, :]
            answer = answer + blocks.whitening.log_det if what == "densities" else answer
            # Those for rows with missing values are on the host.
            return rows.send_back(answer) if keep is None else keep(to_numpy(answer))

        block, most = None, CHUNK_SIZE // (natural.shape[1] + self.blocks.n_working)
        if isinstance(rows, ArrayRows) and rows.in_memory and rows.values.shape[0] <= most:
            # All rows are one chunk.
            block = blocks(Chunk(rows.values, rows.weights, rows.first_row, rows.n_features, rows.names))
        if block is not None:
            parts = [answers(block)]
        else:
            parts = list(blocks.map(rows, answers, n_threads or default_threads()))
        values = parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts)
        if self.parameters.noise is None or what == "densities":
            return values
        if what == "labels":
            xp = namespace(values)
            return xp.where(values == n_components, xp.full_like(values, NOISE_LABEL), values)
        return values[:, :n_components]

    @one_blas_thread()
    def likelihood(self, rows: Rows, n_threads: int | None = 1) -> FitSummary:
        """Return what criteria are computed from, but the evidence, by one pass in bounded memory."""
        natural, tails = self.natural, self.tails
        n_threads = n_threads or default_threads()
        sums = self.blocks.reduce(rows, lambda block: block.posteriors(natural, "sums", tails), n_threads)
        density, certainty, weight = (float(value) for value in sums)
        if not weight > 0:
            raise ValueError("The weights of the rows are all zero.")
        density += weight * self.whitened[0].log_det
        return FitSummary(density, self.n_parameters, weight, certainty)

    def is_of_fit(self, rows: Rows) -> bool:
        """Return whether rows are those of the fit."""
        is_counted = not rows.is_distributed and rows.n_rows is not None
        if not is_counted or rows.n_rows != self.n_samples_seen:
            return False
        with np.errstate(all="ignore"):
            return self.is_as_likely(self.likelihood(rows))

    def is_as_likely(self, summary: FitSummary) -> bool:
        """Return whether rows are those of the fit: the same number, equally likely."""
        mean = summary.log_likelihood / summary.n_samples
        gap = np.inf if self.lower_bound is None else abs(mean - self.lower_bound)
        return summary.n_samples == self.n_samples_seen and bool(gap <= SAME_LIKELIHOOD * max(1.0, abs(mean)))

    def left_out(self, prior: Prior | None) -> LeftOut:
        """Return the mixture as one that is fitted, under a prior, to all rows of the fit but one."""
        assert self.n_samples_seen is not None
        mixture, added, weight = self.whitened[1][None], AddedRows(), self.n_samples_seen
        natural = self.natural[None]
        if prior is not None:
            known = prior.of_strengths(self.shrinkage)
            added = known.added_rows(self.family, self.parameters)
        return LeftOut(self.family, mixture, natural, self.family.tails(mixture, natural), added, weight)

    @one_blas_thread()
    def with_likelihood(self, rows: Rows, prior: Prior | None, n_threads: int) -> FittedState:
        """Return the state with the likelihood of the rows of the fit, and that of rows left out."""
        each = self.left_out(prior)
        blocks = replace(self.blocks, n_fused=0, n_working=WORKING * len(self.natural))
        seen, without, squares, weight = map(float, blocks.reduce(rows, each.sums, n_threads))
        offset = self.whitened[0].log_det
        known = replace(self, lower_bound=seen / weight + offset)
        if not (self.n_samples_seen or 0.0) > 1:
            return known
        spread = max(squares / weight - (without / weight) ** 2, 0.0)
        return replace(
            known,
            loo=without + weight * offset,
            loo_standard_error=float(np.sqrt(weight * spread)),
        )

    def logits(self, rows: Rows) -> Array:
        """Return the logarithms of weighted densities, up to a constant, shape (n_components, n_rows)."""
        natural, tails = self.natural, self.tails
        parts = self.blocks.map(rows, lambda block: block.posteriors(natural, "logits", tails), 1)
        return np.concatenate(list(parts), axis=1)[: self.parameters.n_components]
