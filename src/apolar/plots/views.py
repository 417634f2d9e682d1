"""What pictures read: tables of all kinds and their columns, mixtures of every family."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.checks import as_array, check_integer, numeric_array
from apolar.data.chunks import require_numbers, require_table
from apolar.data.sources import column_labels, is_dataframe, read_dataframe
from apolar.mixture import SphericalMixture
from apolar.mixture.directions import Directions, discriminating_directions
from apolar.mixture.families import Family, family

# Columns that are shown unless the user says otherwise.
N_COLUMNS = 5
# A plane is made of the columns that separate the components best, this many at most.
MAX_PLANE_COLUMNS = 200
# Columns that the name of an axis lists, and the least of them, in parts of the first.
N_LOADINGS, LEAST_LOADING = 3, 0.3
# The size of the ellipses, in standard deviations.
N_DEVIATIONS = 2
ELLIPSES = "Ellipses at 2 standard deviations hold 86% of a Gaussian."


# --- tables -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TableView:
    """X, whose columns are read by number.

    Attributes
    ----------
    X : ndarray, sparse matrix or dataframe, shape (n_rows, n_features)
    names : list of str or None
        Those of the columns, if X has them.
    """

    X: Any
    names: list[str] | None

    @classmethod
    def of(cls, X: Any) -> TableView:
        """Return the table of an array, a sparse matrix or a dataframe."""
        names = None
        if is_dataframe(X):
            names = [str(label) for label in column_labels(X)]
        elif not sparse.issparse(X):
            X = as_array(X)
        require_table(X.shape)
        if X.shape[0] == 0:
            raise ValueError(f"X has no rows: its shape is {X.shape}.")
        return cls(X, names)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        n_rows, n_features = self.X.shape
        return n_rows, n_features

    def read(self, positions: Sequence[int]) -> Array:
        """Return some columns, shape (n_rows, len(positions)), NaN where a value is missing."""
        if self.names is not None:
            return read_dataframe(self.X, positions)[0]
        if sparse.issparse(self.X):
            return np.asarray(self.X.tocsc()[:, positions].toarray())
        return np.asarray(require_numbers(self.X[:, positions]))

    def numbers(self, positions: Sequence[int]) -> Array:
        """Return some columns, shape (n_rows, len(positions)), refused if values are missing."""
        try:
            return numeric_array(self.read(positions), "X")
        except TypeError as error:
            raise TypeError(f"{error} Choose columns of numbers with columns=.") from None


def check_names(names: Iterable[Any], number: int, parameter: str, things: str) -> list[str]:
    """Return names as strings, one for each of `number` things."""
    strings = [str(name) for name in names]
    if len(strings) != number:
        raise ValueError(f"{parameter} must name all {number} {things}; got {len(strings)} names.")
    return strings


def column_names(n_features: int, *sources: Iterable[Any] | None, things: str = "columns of X") -> list[str]:
    """Return the names of all columns: the first of the sources that is given, or their numbers."""
    for names in sources:
        if names is not None:
            return check_names(names, n_features, "feature_names", things)
    return [f"column {i}" for i in range(n_features)]


def chosen_columns(
    columns: Any, table: TableView, feature_names: Iterable[Any] | None
) -> tuple[list[int], list[str]]:
    """Return the columns that the user asks for: their numbers, and their names.

    Parameters
    ----------
    columns : int, list of int or str, or None
        How many of the first columns, or which ones; the first five by default.
    table : TableView
    feature_names : list of str or None
        The names of all columns; by default those of the table.
    """
    m = table.shape[1]
    names = column_names(m, feature_names, table.names)
    if columns is None or (np.ndim(columns) == 0 and not isinstance(columns, str)):
        count = N_COLUMNS if columns is None else check_integer(columns, "columns", least=1)
        columns = range(min(count, m))
    positions = []
    for column in [columns] if isinstance(columns, str) else columns:
        if isinstance(column, str) and column not in names:
            listed = ", ".join(map(repr, names[:10])) + (", ..." if m > 10 else "")
            raise ValueError(f"X has no column {column!r}: choose among {listed}.")
        position = names.index(column) if isinstance(column, str) else column
        positions.append(check_integer(position, "A column", least=0))
        if positions[-1] >= m:
            raise ValueError(f"X has no column {position}: choose among 0 to {m - 1}.")
    if not positions:
        raise ValueError("columns is empty: name at least one column.")
    return positions, [names[i] for i in positions]


# --- planes -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Plane:
    """Two directions, each a sum of columns, and a mixture in them.

    Attributes
    ----------
    columns : list of int
    directions : Directions
    mixture : MixtureView
        In the plane, with full covariances.
    """

    columns: list[int]
    directions: Directions
    mixture: MixtureView

    def places(self, X: Array) -> Array:
        """Return where rows are, shape (n_rows, 2)."""
        return self.directions.transform(X[:, self.columns])

    def axis_names(self, names: Sequence[str]) -> tuple[str, str]:
        """Return what the axes are, by the columns that weigh most; `names` are those of all columns."""
        words = []
        for j, loadings in enumerate(self.directions.loadings.T):
            order = np.argsort(-np.abs(loadings), kind="stable")[:N_LOADINGS].tolist()
            parts = [i for i in order if abs(loadings[i]) > LEAST_LOADING * abs(loadings[order[0]])]
            signs = ["" if loadings[i] > 0 else "\N{MINUS SIGN}" for i in parts]
            listed = [f"{sign}{names[self.columns[i]]}" for sign, i in zip(signs, parts, strict=True)]
            words.append(f"direction {j + 1}: mostly {', '.join(listed)}")
        first, second = words
        return first, second


# --- mixtures -----------------------------------------------------------------------------


def check_fitted(model: Any, kinds: str) -> None:
    """Refuse what is not a mixture of these kinds, and one that is not fitted."""
    if not hasattr(model, "covariance_type"):
        raise TypeError(f"model must be a {kinds}, not {type(model).__name__}.")
    if not hasattr(model, "means_"):
        raise ValueError("The model is not fitted: call model.fit(X) first.")


@dataclass(frozen=True, eq=False)
class MixtureView:
    """The parameters of a mixture.

    Attributes
    ----------
    weights : ndarray, shape (n_components,)
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray
        In the shape of the family.
    family : Family
    """

    weights: Array
    means: Array
    covariances: Array
    family: Family

    @classmethod
    def of(cls, model: Any, n_features: int | None = None) -> MixtureView:
        """Return the parameters of a SphericalMixture, or of a GaussianMixture that is fitted.

        `n_features` is the number of columns of X; a mixture of other columns is refused.
        """
        if isinstance(model, SphericalMixture):
            parameters = model.weights, model.means, model.covariances
        else:
            check_fitted(model, "GaussianMixture or SphericalMixture")
            parameters = model.weights_, model.means_, model.covariances_
        weights, means, covariances = map(np.asarray, parameters)
        if n_features not in (None, means.shape[1]):
            raise ValueError(
                f"The model has {means.shape[1]} columns and X {n_features}: pass the X of the fit, and "
                "choose what is shown with columns=."
            )
        return cls(weights, means, covariances, family(model.covariance_type))

    def of_components(self, components: Sequence[int]) -> MixtureView:
        """Return some of the components."""
        chosen = np.asarray(components)
        covariances = self.family.taken(self.covariances, chosen)
        return MixtureView(self.weights[chosen], self.means[chosen], covariances, self.family)

    def combined(self, groups: Sequence[Sequence[int]]) -> MixtureView:
        """Return one Gaussian for each group of components, with its mean and its covariance."""
        parts = [self.of_components(group) for group in groups]
        # Means that differ in several columns correlate these, also where components are aligned to them.
        is_wide = self.family.is_axis_aligned and self.means.shape[1] > MAX_PLANE_COLUMNS
        covariances = [part.total if is_wide else part.covariance for part in parts]
        return MixtureView(
            np.array([part.weights.sum() for part in parts]),
            np.stack([part.mean for part in parts]),
            np.stack(covariances),
            family("diag" if is_wide else "full"),
        )

    @property
    def shares(self) -> Array:
        """The weights of the components among themselves, without that of noise."""
        return self.weights / self.weights.sum()

    @property
    def mean(self) -> Array:
        """The mean of the rows that are not noise, shape (n_features,)."""
        return self.shares @ self.means

    @property
    def variances(self) -> Array:
        """The variance of each column within each component, shape (n_components, n_features)."""
        variances = self.family.diagonals(self.family.per_component(self.covariances))
        return np.broadcast_to(variances.reshape(len(variances), -1), self.means.shape)

    @property
    def total(self) -> Array:
        """The variance of all rows, column by column, shape (n_features,)."""
        return self.shares @ ((self.means - self.mean) ** 2 + self.variances)

    @property
    def separation(self) -> Array:
        """The part of the variance of each column that is between the components, shape (n_features,)."""
        total, between = self.total, self.shares @ (self.means - self.mean) ** 2
        return np.divide(between, total, out=np.zeros_like(total), where=total > 0)

    def separating_columns(self, most: int) -> list[int]:
        """Return the columns in which the means differ most, for the spread of the column, in their order."""
        return sorted(np.argsort(-self.separation, kind="stable")[:most].tolist())

    def discriminating_plane(self) -> Plane:
        """Return the two directions that separate the components best, by position, else by shape."""
        columns = self.separating_columns(MAX_PLANE_COLUMNS)
        marginal = self.family.marginal(self.covariances, columns)
        covariances = self.family.matrices(marginal, len(self.means), len(columns))
        known = discriminating_directions(self.shares, self.means[:, columns], covariances, 2)
        inside = known.transform(self.means[:, columns]), known.axes.T @ covariances @ known.axes
        mixture = MixtureView(self.weights, *inside, family("full"))
        return Plane(columns, known, mixture)

    @property
    def covariance(self) -> Array:
        """The covariance of all rows, shape (n_features, n_features)."""
        weights, n_features = self.shares, self.means.shape[1]
        within = self.family.repeated(self.family.average(self.covariances, weights), 1)
        offsets = np.sqrt(weights)[:, None] * (self.means - self.mean)
        return offsets.T @ offsets + self.family.matrices(within, 1, n_features)[0]

    def outlines(self, columns: tuple[int, int], n_points: int = 73) -> Array:
        """Return the outline of each component in two columns, shape (n_components, n_points, 2)."""
        marginal = self.family.marginal(self.covariances, list(columns))
        covariances = self.family.matrices(marginal, len(self.means), 2)
        spreads, directions = np.linalg.eigh(covariances)
        angles = np.linspace(0.0, 2 * np.pi, n_points)
        circle = N_DEVIATIONS * np.column_stack([np.cos(angles), np.sin(angles)])
        roots = directions * np.sqrt(np.maximum(spreads, 0.0))[:, None, :]
        return self.means[:, None, list(columns)] + circle @ roots.swapaxes(1, 2)
