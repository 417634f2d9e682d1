"""The fitted state of an estimator: the only place where its fitted attributes are written and read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.run import evidence_of
from apolar.estimator.predict import Predictor, predictor_of
from apolar.mixture.families import Family
from apolar.mixture.noise import noise_weights
from apolar.mixture.parameters import MixtureParameters

__all__ = ["FittedState", "fitted_parameters", "is_fitted_as"]


@dataclass(frozen=True, eq=False)
class FittedState:
    """A mixture and how it was found: what `fit`, a stream, a file or moments leave on an estimator.

    Each field after the first three is the attribute of the same name with an underscore; None if it is not
    known: the estimator then lacks the attribute.

    Attributes
    ----------
    family : Family
    parameters : MixtureParameters
        In the units of the data and in double precision.
    dtype : dtype
        The floating type of the attributes: float32 or float64.
    rounding_variances : ndarray, shape (n_features,), or None
        None for zeros.
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
    shrinkage: float = 0.0
    rounding_variances: Array | None = None
    start: str | None = None
    start_notes: list[str] | None = None
    message: str | None = None

    @classmethod
    def of(cls, estimator: Any) -> FittedState:
        """Return the state of a fitted estimator: see `predictor_of`."""
        predictor, known = predictor_of(estimator), vars(estimator)
        others = {one.name: known[f"{one.name}_"] for one in fields(cls) if f"{one.name}_" in known}
        return cls(predictor.family, predictor.parameters, np.asarray(known["means_"]).dtype, **others)

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
            evidence=evidence_of(problem, fit) + offset * weight,
            shrinkage=fit.shrinkage,
            rounding_variances=np.asarray(problem.measurement) if problem.is_rounded else None,
            start=fit.start,
            start_notes=list(fit.skipped),
            message=fit.status.value,
        )

    @property
    def is_rounded(self) -> bool:
        """Whether the rows were taken to be known up to their rounding errors."""
        return self.rounding_variances is not None and bool(np.any(self.rounding_variances))

    def set_on(self, estimator: Any) -> None:
        """Set the attributes of an estimator, whose `covariance_type` is the family."""
        for name, value in self.attributes().items():
            if value is None and name != "noise_box_":
                vars(estimator).pop(name, None)
            else:
                setattr(estimator, name, value)
        estimator._predictor = Predictor(self.family, self.parameters)

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes by name."""
        noise, n_features = self.parameters.noise, self.parameters.n_features
        known = {f"{one.name}_": getattr(self, one.name) for one in fields(self)[3:]}
        if self.rounding_variances is None:
            known["rounding_variances_"] = np.zeros(n_features)
        weight = 0.0 if noise is None else float(noise_weights(self.parameters.weights))
        noise_attributes = {"noise_weight_": weight, "noise_box_": noise}
        return self._mixture_attributes() | noise_attributes | known | {"n_features_in_": n_features}

    def _mixture_attributes(self) -> dict[str, Any]:
        """Return the attributes of the mixture itself.

        If a value leaves the range of single precision, all are in double precision.
        """
        kind, parameters = self.family, self.parameters
        if not parameters.is_finite:
            raise ValueError(
                "EM ended in parameters that are not finite: components vary by less than rounding errors. "
                "Ask for fewer components, or use the default prior."
            )
        try:
            whiteners = kind.whiteners(parameters.covariances)
        except np.linalg.LinAlgError:
            raise ValueError(
                "In the units of the data, a covariance is singular up to rounding: leave out columns that "
                "hardly vary or nearly repeat others, or regularise the covariances more."
            ) from None
        double = {
            "weights_": parameters.weights,
            "means_": parameters.means,
            "covariances_": parameters.covariances,
            "precisions_": kind.precisions(parameters.covariances),
            "precisions_cholesky_": whiteners,
        }
        if np.dtype(self.dtype) == np.float32:
            with np.errstate(over="ignore", under="ignore"):
                single = {name: np.asarray(value).astype(np.float32)[()] for name, value in double.items()}
            spreads = [kind.diagonals(np.asarray(single[name])) for name in list(single)[2:]]
            in_range = all(np.all(np.isfinite(value)) for value in single.values())
            if in_range and all(np.all(value > 0) for value in spreads):
                return single
        # Copies: an attribute may be changed in place. The single variance of "tied_spherical" is a NumPy
        # scalar, not an array of no dimensions.
        return {name: np.array(value)[()] for name, value in double.items()}


def fitted_parameters(estimator: Any) -> MixtureParameters:
    """Return the mixture of a fitted estimator, in the units of the data and in double precision."""
    return predictor_of(estimator).parameters


def is_fitted_as(estimator: Any, kind: Family, n_components: int, n_features: int) -> bool:
    """Return whether an estimator holds a fitted mixture of that family and size."""
    if not hasattr(estimator, "weights_") or estimator.means_.shape != (n_components, n_features):
        return False
    return np.shape(estimator.covariances_) == kind.covariance_shape(n_components, n_features)
