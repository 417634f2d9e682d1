"""The fitted state of an estimator: the only place where its fitted attributes are written and read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.run import evidence_of
from apolar.mixture.families import Family, family
from apolar.mixture.noise import noise_weights
from apolar.mixture.parameters import MixtureParameters

__all__ = ["FittedState", "fitted_parameters", "is_fitted_as"]


@dataclass(frozen=True, eq=False)
class FittedState:
    """A mixture and how it was found: what `fit`, a stream, a file or moments leave on an estimator.

    Each field after the first three is the attribute of the same name with an underscore; None if it is not
    known, and then there is no such attribute.

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
        """Return the state of a fitted estimator.

        Attributes in single precision are rounded: the mixture before rounding is returned, unless they were
        set since.

        Raises
        ------
        ValueError
            If `covariance_type` has been changed since the fit.
        """
        kind, known = family(estimator.covariance_type), vars(estimator)
        if not is_fitted_as(estimator, kind, *estimator.means_.shape):
            raise ValueError(
                f"The mixture was not fitted with covariance_type={estimator.covariance_type!r}: fit it "
                "again."
            )
        weights, means, covariances = (
            np.asarray(known[name], dtype=np.float64) for name in ("weights_", "means_", "covariances_")
        )
        parameters, exact = (
            MixtureParameters(weights, means, covariances, known.get("noise_box_")),
            known.get("_exact"),
        )
        if exact is not None and _rounds_to(exact, parameters):
            parameters = exact
        others = {one.name: known[f"{one.name}_"] for one in fields(cls) if f"{one.name}_" in known}
        return cls(kind, parameters, np.asarray(known["means_"]).dtype, **others)

    @classmethod
    def of_fit(cls, fit: Fit, problem: Problem, dtype: Any) -> FittedState:
        """Return the state of a result of EM."""
        whitening, weight = problem.whitening, problem.weight
        # The density of a row in the units of the data is that in whitened coordinates times |det A|.
        offset = whitening.log_det
        return cls(
            problem.family,
            whitening.inverse_transform_parameters(fit.parameters),
            dtype,
            n_samples_seen=weight,
            converged=fit.status is FitStatus.CONVERGED,
            n_iter=fit.n_iter,
            lower_bound=fit.log_likelihood / weight + offset,
            lower_bounds=[value / weight + offset for value in fit.history],
            evidence=evidence_of(problem, fit) + offset * weight,
            shrinkage=fit.shrinkage,
            rounding_variances=whitening.noise if isinstance(whitening.noise, np.ndarray) else None,
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
            if value is None and name not in ("noise_box_", "_exact"):
                vars(estimator).pop(name, None)
            else:
                setattr(estimator, name, value)

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes by name."""
        n_features = self.parameters.n_features
        return (
            self._mixture_attributes()
            | {f"{one.name}_": getattr(self, one.name) for one in fields(self)[3:]}
            | {"n_features_in_": n_features}
            | ({"rounding_variances_": np.zeros(n_features)} if self.rounding_variances is None else {})
        )

    def _mixture_attributes(self) -> dict[str, Any]:
        """Return the attributes of the mixture itself.

        With attributes in single precision, `_exact` holds the mixture before rounding: predictions from
        nearly singular covariances need it. If a value leaves the range of single precision, all attributes
        are in double precision.
        """
        kind, parameters = self.family, self.parameters
        if not parameters.is_finite:
            raise ValueError(
                "EM ended in parameters that are not finite: components vary by less than rounding errors. "
                "Ask for fewer components, or use the default prior in place of prior=None."
            )
        try:
            whiteners = kind.whiteners(parameters.covariances)
        except np.linalg.LinAlgError:
            raise ValueError(
                "In the units of X, a covariance is singular up to rounding: leave out columns that "
                "hardly vary or nearly repeat others, or give a larger reg_covar."
            ) from None
        double = {
            "weights_": parameters.weights,
            "means_": parameters.means,
            "covariances_": parameters.covariances,
            "precisions_": kind.precisions(parameters.covariances),
            "precisions_cholesky_": whiteners,
        }
        noise = {
            "noise_weight_": 0.0 if parameters.noise is None else float(noise_weights(parameters.weights)),
            "noise_box_": parameters.noise,
        }
        if np.dtype(self.dtype) == np.float32:
            with np.errstate(over="ignore", under="ignore"):
                single = {name: np.asarray(value).astype(np.float32)[()] for name, value in double.items()}
            spreads = [kind.diagonals(np.asarray(single[name])) for name in list(single)[2:]]
            in_range = all(np.all(np.isfinite(value)) for value in single.values())
            if in_range and all(np.all(value > 0) for value in spreads):
                return single | noise | {"_exact": parameters}
        # The single variance of "tied_spherical" is a NumPy scalar, not an array of no dimensions.
        return {name: np.asarray(value)[()] for name, value in double.items()} | noise | {"_exact": None}


def fitted_parameters(estimator: Any) -> MixtureParameters:
    """Return the mixture of a fitted estimator, in the units of the data and in double precision."""
    return FittedState.of(estimator).parameters


def is_fitted_as(estimator: Any, kind: Family, n_components: int, n_features: int) -> bool:
    """Return whether an estimator holds a fitted mixture of that family and size."""
    if not hasattr(estimator, "weights_") or estimator.means_.shape != (n_components, n_features):
        return False
    return np.shape(estimator.covariances_) == kind.covariance_shape(n_components, n_features)


def _rounds_to(exact: MixtureParameters, public: MixtureParameters) -> bool:
    """Return whether a mixture, rounded to single precision, equals another one."""
    with np.errstate(over="ignore", under="ignore"):
        return all(
            np.array_equal(np.asarray(getattr(exact, name), dtype=np.float32), getattr(public, name))
            for name in ("weights", "means", "covariances")
        )
