"""Clusters, true and found: their numbers and names, and the rows that are shown of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.special import softmax

from apolar._core.arrays import Array, IndexArray
from apolar.mixture import SphericalMixture
from apolar.plots.palette import GREY, NOISE, style
from apolar.plots.table import TableView

__all__ = ["Clusters", "kept_rows", "most_probable", "numbered_clusters", "posteriors"]

# A small cluster keeps as many points as this where rows are left out.
MIN_POINTS = 50


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which cluster each row is in: by a number, that is a colour and a marker.

    Attributes
    ----------
    above, below : ndarray of int, shape (n_rows,)
        The clusters of the panels above and below the diagonal; -1 for noise.
    wrong : ndarray of bool, shape (n_rows,)
        Rows whose found cluster is not that of their class; rows that are called noise are in none.
    names : list of str
        One for each number; none if nothing is known.
    has_true, has_predicted : bool
    component_numbers : dict
        The number of each predicted label that can be that of a component.

    Notes
    -----
    Numbers begin with 0, as components do; names count from 1.
    """

    above: Array
    below: Array
    wrong: Array
    names: list[str]
    has_true: bool
    has_predicted: bool
    component_numbers: dict[int, int]

    def of_rows(self, rows: IndexArray) -> Clusters:
        """Return the clusters of some rows."""
        return replace(self, above=self.above[rows], below=self.below[rows], wrong=self.wrong[rows])

    def style(self, number: int) -> tuple[str, str]:
        """Return the colour and the marker of a cluster."""
        return style(number) if self.names else (GREY, "o")

    @property
    def has_noise(self) -> bool:
        """Whether some of the rows are noise."""
        return bool(np.any(self.above == NOISE) or np.any(self.below == NOISE))

    def component_colour(self, component: int) -> str:
        """Return the colour of the predicted label that is the number of a component, or grey."""
        return (
            self.style(self.component_numbers[component])[0] if component in self.component_numbers else GREY
        )


def numbered_clusters(
    labels: Any, predicted: Any, class_names: Any, n_rows: int, n_components: int | None = None
) -> Clusters:
    """Return the clusters of all rows, found ones with the numbers of the classes that match them best.

    Parameters
    ----------
    labels, predicted : array_like, shape (n_rows,), or None
        The true and the found clusters: numbers or strings. Among numbers from 0 on, -1 is noise.
    class_names : list of str, dict or None
        The names of the classes, in sorted order of the labels, or by label.
    n_rows : int
    n_components : int, optional
        That of the mixture whose components are predicted. Clusters then have the numbers of the components,
        in this picture as in all others of the mixture, and classes those of the clusters that match them.
    """
    if n_components is not None and predicted is not None:
        return _component_clusters(labels, np.asarray(predicted), class_names, n_rows, n_components)
    right = np.zeros(n_rows, dtype=bool)
    if labels is None and predicted is None:
        same = np.zeros(n_rows, dtype=np.intp)
        return Clusters(same, same, right, [], False, False, {})
    if predicted is None:
        values, codes = _coded(labels, "labels", n_rows)
        return Clusters(codes, codes, right, _named(values, class_names, "class"), True, False, {})
    predicted_values, predicted_codes = _coded(predicted, "predicted", n_rows)
    if labels is None:
        names = _named(predicted_values, class_names, "cluster")
        numbers = np.arange(len(predicted_values))
        return Clusters(
            predicted_codes,
            predicted_codes,
            right,
            names,
            False,
            True,
            _component_numbers(predicted_values, numbers),
        )
    values, codes = _coded(labels, "labels", n_rows)
    names = _named(values, class_names, "class")
    in_both = (codes != NOISE) & (predicted_codes != NOISE)
    counts = np.zeros((len(values), len(predicted_values)), dtype=np.intp)
    np.add.at(counts, (codes[in_both], predicted_codes[in_both]), 1)
    numbers = _matched(counts)
    extra = [value for value, number in zip(predicted_values, numbers, strict=True) if number >= len(values)]
    names += [f"extra {name}" for name in _named(np.asarray(extra), None, "cluster")]
    below = np.where(predicted_codes == NOISE, NOISE, numbers[predicted_codes])
    wrong = (below != codes) & (below != NOISE)
    return Clusters(codes, below, wrong, names, True, True, _component_numbers(predicted_values, numbers))


def _component_clusters(
    labels: Any, predicted: Array, class_names: Any, n_rows: int, n_components: int
) -> Clusters:
    """Return clusters with the numbers of the components of a mixture."""
    if predicted.shape != (n_rows,):
        raise ValueError(
            f"predicted must have one entry for each of the {n_rows} rows of X; got shape {predicted.shape}."
        )
    components = np.arange(n_components)
    numbers = {component: component for component in components.tolist()}
    right = np.zeros(n_rows, dtype=bool)
    if labels is None:
        names = _named(components, class_names, "cluster")
        return Clusters(predicted, predicted, right, names, False, True, numbers)
    values, codes = _coded(labels, "labels", n_rows)
    names, classes = _named(components, None, "cluster"), _named(values, class_names, "class")
    in_both = (codes != NOISE) & (predicted != NOISE)
    counts = np.zeros((n_components, len(values)), dtype=np.intp)
    np.add.at(counts, (predicted[in_both], codes[in_both]), 1)
    of_classes = _matched(counts)
    for number, name in zip(of_classes.tolist(), classes, strict=True):
        if number < n_components:
            names[number] += f": {name}"
    names += [classes[k] for k in np.argsort(of_classes) if of_classes[k] >= n_components]
    above = np.where(codes == NOISE, NOISE, of_classes[codes])
    wrong = (above != predicted) & (predicted != NOISE)
    return Clusters(above, predicted, wrong, names, True, True, numbers)


def _coded(labels: Any, name: str, n_rows: int) -> tuple[Array, Array]:
    """Return the different labels in sorted order, and the number of that of each row; -1 for noise."""
    array = np.asarray(labels)
    if array.shape != (n_rows,):
        raise ValueError(
            f"{name} must have one entry for each of the {n_rows} rows of X; got shape {array.shape}."
        )
    try:
        values, codes = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise TypeError(
            f"{name} mixes kinds that have no order: turn them into strings, [str(x) for x in {name}]."
        ) from error
    if array.dtype.kind == "i" and len(values) > 1 and values[0] == NOISE and values[1] == 0:
        # Labels that count from 0, as those of HDBSCAN: other negative ones are classes.
        return values[1:], codes - 1
    return values, codes


def _matched(counts: Array) -> Array:
    """Return the class of each found cluster under the best matching; numbers above those for the others.

    Parameters
    ----------
    counts : ndarray of int, shape (n_true, n_predicted)

    Returns
    -------
    numbers : ndarray of int, shape (n_predicted,)
    """
    n_true, n_predicted = counts.shape
    numbers = np.full(n_predicted, -1)
    classes, clusters = linear_sum_assignment(-counts)
    # A pair without a common row is left over from the others, and no match.
    common = counts[classes, clusters] > 0
    numbers[clusters[common]] = classes[common]
    numbers[numbers < 0] = n_true + np.arange(np.count_nonzero(numbers < 0))
    return numbers


def _component_numbers(values: Array, numbers: Array) -> dict[int, int]:
    if values.dtype.kind not in "biuf":
        return {}
    pairs = zip(values.tolist(), numbers.tolist(), strict=True)
    return {int(value): number for value, number in pairs if value == value // 1}


def _named(values: Array, class_names: Any, kind: str) -> list[str]:
    if isinstance(class_names, Mapping):
        missing = [value for value in values.tolist() if value not in class_names]
        if missing:
            raise ValueError(f"class_names has no name for {missing[0]!r}: add one.")
        return [str(class_names[value]) for value in values.tolist()]
    if class_names is not None:
        names = [str(name) for name in class_names]
        if len(names) != len(values):
            listed = ", ".join(str(value) for value in values[:10]) + (", ..." if len(values) > 10 else "")
            raise ValueError(
                f"class_names must have {len(values)} names, for the labels {listed}, or be a dict by label; "
                f"got {len(names)} names."
            )
        return names
    if kind == "cluster" and values.dtype.kind in "iuf" and len(values) and values[0] == 0:
        # Clusters count from 1, in pictures as on pages; classes are called as the user calls them.
        values = values + 1
    # A number alone says little; a string is a name already.
    prefix = f"{kind} " if values.dtype.kind in "iuf" else ""
    return [prefix + str(value).removesuffix(".0") for value in values.tolist()]


def kept_rows(
    values: Array,
    clusters: Clusters,
    max_points: int,
    rng: np.random.Generator,
    before: IndexArray | None = None,
) -> IndexArray:
    """Return the numbers of the rows that are shown, in ascending order.

    Parameters
    ----------
    values : ndarray, shape (n_rows, n_columns)
        The shown columns, of which the outermost rows are kept.
    clusters : Clusters
        At least 50 rows of each are kept, as far as there are so many and `max_points` allows it.
    max_points : int
    rng : Generator
        Which of the other rows are left out.
    before : ndarray of int, optional
        Rows that come before others, the first ones first; half of `max_points` at most.
    """
    n_rows, n_columns = values.shape
    if n_rows <= max_points:
        return np.arange(n_rows)
    order = rng.permutation(n_rows)
    # First the outermost rows, so that the axes end where points are, then some of each cluster, then any.
    wanted = [values.argmin(axis=0), values.argmax(axis=0)]
    groups = [(codes, code) for codes in (clusters.above, clusters.below) for code in np.unique(codes)]
    left = max_points - 2 * n_columns
    if before is not None:
        wanted.append(before[: max_points // 2])
        left -= len(wanted[-1])
    least = min(MIN_POINTS, max(left, 0) // len(groups))
    wanted += [order[codes[order] == code][:least] for codes, code in groups]
    candidates = np.concatenate([*wanted, order])
    _, first = np.unique(candidates, return_index=True)
    return np.sort(candidates[np.sort(first)][:max_points])


def most_probable(model: Any, X: Any, table: TableView) -> Any:
    """Return the component of each row, or None if the model does not say."""
    if not isinstance(model, SphericalMixture):
        return model.predict(X) if hasattr(model, "predict") else None
    return np.argmax(_log_densities(model, table), axis=1)


def posteriors(model: Any, X: Any, table: TableView) -> Array:
    """Return the probability of each component for each row, shape (n_rows, n_components).

    Beside noise, those of a row add up to less than one.
    """
    if not isinstance(model, SphericalMixture):
        return np.asarray(model.predict_proba(X))
    return np.asarray(softmax(_log_densities(model, table), axis=1))


def _log_densities(model: SphericalMixture, table: TableView) -> Array:
    """Return the weighted log-density of each component at each row, but for a constant."""
    distances = cdist(table.numbers(list(range(table.n_features))), model.means, "sqeuclidean")
    offsets = np.log(model.weights) - 0.5 * model.n_features * np.log(model.variances)
    return offsets - 0.5 * distances / model.variances
