"""The parameters of the estimator: how each is checked, and how it is stored in a file."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from apolar._core.checks import check_integer, numeric_array, one_of, positive_number
from apolar.mixture.families import UNIVARIATE, Family, family
from apolar.mixture.prior import Prior
from apolar.mixture.shrinkage import AdaptivePrior
from apolar.search.starts import STARTS

__all__ = ["PARAMETERS", "Parameter", "allows_rounding", "check_columns", "checked_parameters", "is_path"]


def _unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Parameter:
    """A parameter of the estimator.

    Attributes
    ----------
    check : callable
        Takes a value and the name; raises TypeError or ValueError, with a message for the user.
    stored : callable
        Returns the value that is written to a file. Files hold no code, and no paths, so that a loaded model
        reads and writes no file unless the user gives it a path.
    """

    check: Callable[[Any, str], Any]
    stored: Callable[[Any], Any] = _unchanged


def is_path(value: Any) -> bool:
    """Return whether the value of a parameter is a path."""
    return isinstance(value, str | os.PathLike)


def _integer(least: int) -> Callable[[Any, str], Any]:
    return lambda value, name: check_integer(value, name, least=least)


def _optional(check: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    return lambda value, name: None if value is None else check(value, name)


def _zero_or_positive(value: Any, name: str) -> None:
    if value != 0:
        positive_number(value, name)


def _family(value: Any, _: str) -> Family:
    return family(value)


def _start(value: Any, name: str) -> None:
    # Labels and responsibilities are checked later, against the rows.
    if isinstance(value, str):
        one_of(value, name, tuple(STARTS))


def _prior(value: Any, name: str) -> None:
    is_default = isinstance(value, str) and value in ("default", "conjugate")
    if value is not None and not is_default and not isinstance(value, Prior):
        raise ValueError(f"{name} must be 'default', 'conjugate', an apolar.Prior, or None; got {value!r}.")


def _random_state(value: Any, name: str) -> None:
    if not isinstance(value, np.random.Generator | np.random.RandomState):
        check_integer(value, name, least=0)


def _warm_start(value: Any, name: str) -> None:
    if not is_path(value):
        one_of(value, name, (True, False))


def _verbosity(value: Any, name: str) -> None:
    if not isinstance(value, bool | np.bool_):
        check_integer(value, name, least=0)


def _noise(value: Any, name: str) -> None:
    if isinstance(value, bool | np.bool_):
        return
    if not isinstance(value, numbers.Real) or not 0 < float(value) < 1:
        raise ValueError(
            f"{name} must be True, False, or the share of the rows that is expected to be noise, above 0 and "
            f"below 1, such as 0.05; got {value!r}."
        )


def _path(value: Any, name: str) -> None:
    if not is_path(value):
        raise TypeError(f"{name} must be the path of a file, or None; got {value!r}.")


def _stored_start(value: Any) -> Any:
    return "auto" if callable(value) else value


def _stored_prior(value: Any) -> Any:
    return {type(value).__name__: asdict(value)} if isinstance(value, Prior) else value


def _stored_random_state(value: Any) -> Any:
    return None if isinstance(value, np.random.Generator | np.random.RandomState) else value


PARAMETERS: dict[str, Parameter] = {
    "n_components": Parameter(_integer(1)),
    "covariance_type": Parameter(_family),
    "init_params": Parameter(_start, _stored_start),
    "n_init": Parameter(_integer(1)),
    "max_iter": Parameter(_integer(0)),
    "tol": Parameter(_zero_or_positive),
    "reg_covar": Parameter(_optional(_zero_or_positive)),
    "prior": Parameter(_prior, _stored_prior),
    "random_state": Parameter(_optional(_random_state), _stored_random_state),
    "warm_start": Parameter(_warm_start, lambda value: False if is_path(value) else value),
    "verbose": Parameter(_verbosity),
    "verbose_interval": Parameter(_integer(1)),
    "weights_init": Parameter(_optional(numeric_array)),
    "means_init": Parameter(_optional(numeric_array)),
    "precisions_init": Parameter(_optional(numeric_array)),
    "noise": Parameter(_noise),
    "n_threads": Parameter(_optional(_integer(1))),
    "checkpoint": Parameter(_optional(_path), lambda _: None),
    "checkpoint_every": Parameter(_integer(1)),
}


def checked_parameters(settings: Any) -> tuple[Family, Prior | None]:
    """Return the family and the prior of an estimator, after checking all of its parameters.

    If `reg_covar` is given, it takes the place of the default prior, and there is none.
    """
    for name, parameter in PARAMETERS.items():
        parameter.check(getattr(settings, name), name)
    prior = settings.prior
    if isinstance(prior, str):
        prior = (Prior() if prior == "conjugate" else AdaptivePrior()) if settings.reg_covar is None else None
    return family(settings.covariance_type), prior


def check_columns(settings: Any, n_features: int) -> None:
    """Refuse mclust's codes for data of one column if there are several."""
    kind = settings.covariance_type
    if n_features > 1 and kind in UNIVARIATE:
        raise ValueError(
            f"covariance_type={kind!r} is for data of one column, and X has {n_features}: use "
            f"{UNIVARIATE[kind].name!r} ({UNIVARIATE[kind].code}) for spherical components, or 'full'."
        )


def allows_rounding(settings: Any) -> bool:
    """Return whether a fit may take rows to be known up to their rounding errors: with the default prior."""
    is_default = isinstance(settings.prior, str) and settings.prior == "default"
    return is_default and settings.reg_covar is None
