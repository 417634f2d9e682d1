"""Arguments: the names that they take, their validation, and the messages of its errors."""

import math
import numbers
import os
from typing import Any, Literal

import numpy as np

from apolar._core.arrays import Array

# The names that arguments take, as types: editors complete them. Arguments are of these types or str, as a
# name in a variable is a str to a checker of types. They are checked against the tables of families, starts,
# criteria and methods, which a test compares with these.
CovarianceType = Literal[
    "full", "tied", "diag", "tied_diag", "spherical", "tied_spherical",
    "VVV", "EEE", "VVI", "EEI", "VII", "EII",
    "VEI", "EVI", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "E", "V",
    "factor", "ppca", "factor_tied_noise", "ppca_tied_noise", "UUU", "UUC", "UCU", "UCC",
]  # fmt: skip
"""scikit-learn's names of covariance families, and mclust's codes."""

StartName = Literal[
    "auto", "moments", "overseed", "kmeans", "mbhc", "emem", "k-means++", "random_from_data", "random",
]  # fmt: skip
"""Starts of EM."""

Criterion = Literal["bic", "aic", "icl", "evidence", "loo"]
"""What `select` compares candidates by."""

PriorName = Literal["default", "conjugate"]
"""Priors of the estimator."""

Method = Literal["auto", "pencil", "spm"]
"""Methods of decomposition."""

Field = Literal["auto", "real", "complex"]
"""Where the points of a decomposition are searched for."""

Constraint = Literal["nonnegative", "orthogonal"]
"""What the terms of a decomposition have to keep to."""

# Strings that stand for a missing value, in lower case and without surrounding spaces.
MISSING_WORDS = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "?", "-", "."})


def is_missing(text: str) -> bool:
    """Return whether a string stands for a missing value."""
    return text.strip().lower() in MISSING_WORDS


def as_array(value: Any, name: str = "X") -> Array:
    """Return an array of NumPy; raise an error for one with masked entries, or rows of different lengths."""
    if np.ma.is_masked(value):
        remedy = f"drop those rows, or fill them with {name}.filled(value)"
        raise ValueError(f"{name} has masked entries: {remedy}.")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is ragged: its rows have different lengths.") from error


def numeric_array(value: Any, name: str) -> Array:
    """Return `value` as a finite float64 or complex128 array.

    Parameters
    ----------
    value : array_like
        The argument.
    name : str
        Its name, for messages.

    Returns
    -------
    array : ndarray
    """
    array = as_array(value, name)
    if array.dtype == object:
        try:
            array = array.astype(np.complex128)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must hold numbers; it holds other objects.") from error
        except OverflowError as error:
            raise ValueError(f"{name} holds a number too large for float64: divide it first.") from error
        if not np.any(array.imag):
            array = array.real
    if array.dtype.kind not in "buifc":
        raise TypeError(f"{name} must hold numbers, not {array.dtype}.")
    with np.errstate(over="ignore"):  # a long double may overflow to infinity, which is refused below
        array = array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} contains NaN or infinity: remove or replace those entries.")
    return array


def check_integer(value: Any, name: str, *, least: int) -> int:
    """Return `value` as an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, not {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}.")
    return int(value)


def positive_number(value: Any, name: str) -> float:
    """Return `value` as a finite float above zero."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {value!r}.")
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be finite and above zero, not {value}.")
    return number


def check_fraction(value: Any, name: str) -> float:
    """Return `value` as a float above 0 and below 1."""
    if isinstance(value, numbers.Real) and not 0 < float(value) < 1:
        raise ValueError(f"{name} must be between 0 and 1, such as 0.95 for 95%, not {value}.")
    return positive_number(value, name)


def one_of(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Raise ValueError for a value that is not one of the choices."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.")


def fits_in_memory(
    n_entries: int, what: str, remedy: str = "lower the order or the number of variables"
) -> None:
    """Raise MemoryError if an array of `n_entries` float64 values exceeds the memory of this machine."""
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        available = 2**36
    needed = 8 * n_entries
    if needed > available:
        raise MemoryError(
            f"{what} needs {needed / 2**30:.3g} GiB and this machine has {available / 2**30:.3g}: {remedy}."
        )


def random_generator(random_state: Any) -> np.random.Generator:
    """Return a generator for None, a seed, a Generator or a RandomState.

    For None, the seed is drawn from NumPy's global state, as in scikit-learn: `np.random.seed` makes it
    reproducible.
    """
    if random_state is None:
        return np.random.default_rng(np.random.randint(2**31, dtype=np.int64))  # noqa: NPY002 (np.random.seed counts)
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(check_integer(random_state, "random_state", least=0))
