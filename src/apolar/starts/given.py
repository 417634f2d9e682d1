"""Starts that the user gives: labels, responsibilities, or parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar._arrays import Array
from apolar._checks import numeric_array
from apolar.em.table import Table
from apolar.mixture.components import Components
from apolar.mixture.families import Family
from apolar.mixture.prior import Prior


def from_assignment(
    table: Table, n_components: int, prior: Prior | None, given: Any, name: str, kept: Array | None = None
) -> Components:
    """Return the M-step from labels or responsibilities.

    Parameters
    ----------
    table : Table
    n_components : int
    prior : Prior or None
    given : array_like, shape (n_rows,) or (n_rows, n_components)
        Labels of any kind, or responsibilities.
    name : str
        How messages call it.
    kept : ndarray of bool, optional
        The rows of the user that are in the table, if not all are.

    Returns
    -------
    components : Components
        In the order of the sorted labels, or of the columns.
    """
    if table.rows.is_distributed:
        raise ValueError(
            f"{name}: labels and responsibilities are for rows in memory, and those of Dask stay where they "
            "are. Give means_init, or the name of a start."
        )
    array = np.asarray(given)
    n_rows = table.n_rows if kept is None else len(kept)
    if array.ndim not in (1, 2) or len(array) != n_rows:
        got = f"shape {array.shape}" if array.ndim else type(given).__name__
        raise ValueError(
            f"{name} must be labels of shape ({n_rows},), responsibilities of shape "
            f"({n_rows}, {n_components}), or the name of a start; got {got}."
        )
    if kept is not None:
        array = array[kept]
    if array.ndim == 1:
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            raise ValueError(f"{name} has labels that are NaN or infinite: give every row one.")
        kinds, labels = np.unique(array, return_inverse=True)
        if len(kinds) != n_components:
            raise ValueError(f"{name} has {len(kinds)} different labels; n_components is {n_components}.")
        return table.family.maximised(table.hard_sums(labels, n_components), prior)
    responsibilities = numeric_array(array, name)
    if array.shape[1] != n_components or np.iscomplexobj(responsibilities) or np.any(responsibilities < 0):
        raise ValueError(
            f"{name} must hold {n_components} responsibilities a row, none negative; got shape {array.shape}."
        )
    if not np.allclose(responsibilities.sum(axis=1), 1, atol=1e-6):
        raise ValueError(f"The responsibilities of {name} must add up to one a row.")
    sums = table.soft_sums(responsibilities.T)
    if np.any(sums[:, 0] <= 0):
        raise ValueError(f"{name} leaves components without rows: give each one some.")
    return table.family.maximised(sums, prior)


def checked_weights(weights: Any, n_components: int) -> Array:
    """Return weights of sum one."""
    array = numeric_array(weights, "weights_init")
    if array.shape != (n_components,) or np.any(array < 0) or not np.isclose(array.sum(), 1, atol=1e-6):
        raise ValueError(
            f"weights_init must be {n_components} numbers from 0 to 1 that add up to one; got {weights!r}."
        )
    return np.maximum(array, 1e-12) / np.maximum(array, 1e-12).sum()


def checked_means(means: Any, n_components: int, n_features: int) -> Array:
    """Return means, checked."""
    array = numeric_array(means, "means_init")
    if array.shape != (n_components, n_features):
        raise ValueError(f"means_init must have shape ({n_components}, {n_features}); got {array.shape}.")
    return array


def checked_precisions(precisions: Any, family: Family, n_components: int, n_features: int) -> Array:
    """Return the covariances that precisions in the shape of a family stand for."""
    array = numeric_array(precisions, "precisions_init")
    shape = covariance_shape(family, n_components, n_features)
    if array.shape != shape:
        raise ValueError(
            f"precisions_init for {family.name!r} covariances must have shape {shape}; got {array.shape}."
        )
    if family.frame_kind != "matrix":
        if np.any(array <= 0):
            raise ValueError("precisions_init must be positive: they are one over the variances.")
        return 1 / array
    if not np.allclose(array, np.swapaxes(array, -1, -2)) or np.any(np.linalg.eigvalsh(array) <= 0):
        raise ValueError("precisions_init must be symmetric, positive definite matrices.")
    return np.linalg.inv(array)


def covariance_shape(family: Family, n_components: int, n_features: int) -> tuple[int, ...]:
    """Return the shape of the covariances of a family."""
    ones = np.ones(n_components)
    return family.from_spherical(ones, _identity(family, n_features), ones).shape


def _identity(family: Family, n_features: int) -> Array:
    if family.frame_kind == "matrix":
        return np.eye(n_features)
    return np.ones(n_features) if family.frame_kind == "columns" else np.ones(())
