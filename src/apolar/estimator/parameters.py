"""The parameters of the estimator: how each is checked, and how it is stored in a file."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from apolar._core.checks import check_integer, numeric_array, one_of, positive_number
from apolar._core.threads import default_threads
from apolar.mixture.families import UNIVARIATE, Family, family
from apolar.mixture.prior import AdaptivePrior, Prior
from apolar.search.starts import STARTS

__all__ = [
    "PARAMETERS",
    "allows_rounding",
    "check_columns",
    "check_parameters",
    "is_path",
    "n_threads_of",
    "storable_parameter",
]

Check = Callable[[Any, str], Any]
"""Takes a value and the name of a parameter; raises TypeError or ValueError, with a message for the user."""
BOOLEANS = (bool, np.bool_)
GENERATORS = (np.random.Generator, np.random.RandomState)


def is_path(value: Any) -> bool:
    """Return whether the value of a parameter is a path."""
    return isinstance(value, str | os.PathLike)


def _integer(least: int) -> Check:
    return lambda value, name: check_integer(value, name, least=least)


def _unless(is_accepted: Callable[[Any], bool], check: Check) -> Check:
    """Return a check for values that are not accepted already."""
    return lambda value, name: None if is_accepted(value) else check(value, name)


def _optional(check: Check) -> Check:
    return _unless(lambda value: value is None, check)


def _check_prior(value: Any, name: str) -> None:
    is_default = isinstance(value, str) and value in ("default", "conjugate")
    if value is not None and not is_default and not isinstance(value, Prior):
        raise ValueError(f"{name} must be 'default', 'conjugate', an apolar.Prior, or None; got {value!r}.")


def _check_noise(value: Any, name: str) -> None:
    if not isinstance(value, numbers.Real) or not 0 < float(value) < 1:
        raise ValueError(
            f"{name} must be True, False, or the share of the rows that is expected to be noise, above 0 and "
            f"below 1, such as 0.05; got {value!r}."
        )


def _check_path(value: Any, name: str) -> None:
    if not is_path(value):
        raise TypeError(f"{name} must be the path of a file, or None; got {value!r}.")


_zero_or_positive = _unless(lambda value: bool(np.isscalar(value) and value == 0), positive_number)

PARAMETERS: dict[str, Check] = {
    "n_components": _integer(1),
    "covariance_type": lambda value, _: family(value),
    # Labels and responsibilities are checked later, against the rows.
    "init_params": _unless(
        lambda value: not isinstance(value, str), lambda value, name: one_of(value, name, tuple(STARTS))
    ),
    "n_init": _integer(1),
    "max_iter": _integer(0),
    "tol": _zero_or_positive,
    "reg_covar": _optional(_zero_or_positive),
    "prior": _check_prior,
    "random_state": _optional(_unless(lambda value: isinstance(value, GENERATORS), _integer(0))),
    "warm_start": _unless(is_path, lambda value, name: one_of(value, name, (True, False))),
    "verbose": _unless(lambda value: isinstance(value, BOOLEANS), _integer(0)),
    "verbose_interval": _integer(1),
    "weights_init": _optional(numeric_array),
    "means_init": _optional(numeric_array),
    "precisions_init": _optional(numeric_array),
    "noise": _unless(lambda value: isinstance(value, BOOLEANS), _check_noise),
    "n_threads": _optional(_integer(1)),
    "checkpoint": _optional(_check_path),
    "checkpoint_every": _integer(1),
}
"""The check of each parameter."""


def storable_parameter(name: str, value: Any) -> Any:
    """Return the value of a parameter as it is written to a file.

    Files hold no code, and no paths, so that a loaded model reads and writes no file unless the user gives it
    a path.
    """
    if name == "checkpoint" or (name == "random_state" and isinstance(value, GENERATORS)):
        return None
    if name == "init_params" and callable(value):
        return "auto"
    if name == "warm_start" and is_path(value):
        return False
    return {type(value).__name__: asdict(value)} if isinstance(value, Prior) else value


def check_parameters(settings: Any) -> tuple[Family, Prior | None]:
    """Return the family and the prior of an estimator, after checking all of its parameters.

    If `reg_covar` is given, it takes the place of the default prior, and there is none.
    """
    for name, check in PARAMETERS.items():
        check(getattr(settings, name), name)
    prior = settings.prior
    if isinstance(prior, str):
        prior = (Prior() if prior == "conjugate" else AdaptivePrior()) if settings.reg_covar is None else None
    return family(settings.covariance_type), prior


def check_columns(settings: Any, n_features: int) -> None:
    """Refuse mclust's codes for data of one column if there are several."""
    kind = settings.covariance_type
    if n_features > 1 and kind in UNIVARIATE:
        raise ValueError(
            f"Covariance type {kind!r} is for data of one column, and there are {n_features}: use "
            f"{UNIVARIATE[kind].name!r} ({UNIVARIATE[kind].code}) for spherical components, or 'full'."
        )


def n_threads_of(settings: Any) -> int:
    """Return the number of threads of an estimator."""
    return default_threads() if settings.n_threads is None else int(settings.n_threads)


def allows_rounding(settings: Any) -> bool:
    """Return whether a fit may take rows to be known up to their rounding errors: with the default prior."""
    is_default = isinstance(settings.prior, str) and settings.prior == "default"
    return is_default and settings.reg_covar is None
