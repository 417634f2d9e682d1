"""Clusters, true and found: their numbers and names, and the rows that are shown of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar.estimator import GaussianMixture
from apolar.estimator.fitted import NOISE_LABEL, FittedState
from apolar.mixture import SphericalMixture
from apolar.mixture.families import family
from apolar.mixture.parameters import MixtureParameters
from apolar.plots.chart import GREY, INK, WRONG, Look, Points, cluster_kind, style
from apolar.scores import match_labels

# A small cluster keeps this many points where rows are left out.
MIN_POINTS = 50
# The area of the mark of a row of noise, or in a wrong cluster, for that of one in its cluster.
NOISE_AREA, WRONG_AREA = 0.6, 1.6


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which cluster each row is in: by a number, that is a colour and a marker.

    Attributes
    ----------
    true, found : ndarray of int, shape (n_rows,), or None
        -1 for noise; None where it is not known.
    names : list of str
        One for each number; none if nothing is known.
    component_numbers : dict
        The number of each found label that can be that of a component.
    groups : pair of ndarray of int, shape (n_rows,)
        The clusters, true and found as far as both are known; all 0 if none is.

    Notes
    -----
    Numbers begin with 0, as components do; names count from 1.
    """

    true: Array | None
    found: Array | None
    names: list[str]
    component_numbers: dict[int, int]
    groups: tuple[Array, Array]

    @property
    def wrong(self) -> Array:
        """Rows whose found cluster is not that of their class; rows that are called noise are in none."""
        if self.true is None or self.found is None:
            return np.zeros(len(self.groups[0]), dtype=bool)
        return (self.true != self.found) & (self.found != NOISE_LABEL)

    def legend(self) -> list[tuple[str, Look]]:
        """Return name, count and mark of each cluster, of noise, and of rows in a wrong cluster."""
        entries: list[tuple[str, Look]] = []
        are_both_known = self.true is not None and self.found is not None
        for number in [*range(len(self.names)), NOISE_LABEL]:
            is_noise = number == NOISE_LABEL
            n_true, n_found = (int(np.count_nonzero(codes == number)) for codes in self.groups)
            if is_noise and not n_true + n_found:
                continue
            look = style(number)
            counts = f"{n_true}, found {n_found}" if are_both_known else f"{n_true}"
            if are_both_known and not n_true:
                # A found cluster without a class: all its rows are in a wrong one.
                counts = f"found {n_found}"
                look = look if is_noise else look | {"marker": WRONG, "markeredgecolor": INK}
            entries.append((f"{'noise' if is_noise else self.names[number]} ({counts})", look))
        n_wrong = np.count_nonzero(self.wrong)
        if n_wrong:
            look = {"color": "white", "marker": WRONG, "markeredgecolor": INK}
            entries.append((f"in a wrong cluster ({n_wrong})", look))
        return entries


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
    true = found = None
    names: list[str] = []
    component_numbers: dict[int, int] = {}
    if labels is not None:
        values, true = _encode(labels, "labels", n_rows)
        names = _label_names(values, class_names, "class")
    if predicted is not None:
        if n_components is None:
            values, found = _encode(predicted, "predicted", n_rows)
        else:
            values, found = np.arange(n_components), label_column(predicted, "predicted", n_rows)
        numbers = np.arange(len(values))
        if true is None:
            names = _label_names(values, class_names, "cluster")
        elif n_components is None:
            found, numbers = _renumber(found, true, len(values), len(names))
            others = _label_names(values[numbers >= len(names)], None, "cluster")
            names += [f"extra {name}" for name in others]
        else:
            classes, names = names, _label_names(values, None, "cluster")
            true, matched = _renumber(true, found, len(classes), n_components)
            names += [name for number, name in zip(matched, classes, strict=True) if number >= n_components]
            for number, name in zip(matched.tolist(), classes, strict=True):
                names[number] += f": {name}" if number < n_components else ""
        if values.dtype.kind in "biuf":
            pairs = zip(values.tolist(), numbers.tolist(), strict=True)
            component_numbers = {int(value): number for value, number in pairs if value == value // 1}
    known = [codes for codes in (true, found) if codes is not None] or [np.zeros(n_rows, dtype=np.intp)]
    return Clusters(true, found, names, component_numbers, (known[0], known[-1]))


def _renumber(codes: Array, others: Array, n_codes: int, n_others: int) -> tuple[Array, Array]:
    """Return labels with the numbers of the other ones that match them best; without a match, new numbers."""
    both = (codes != NOISE_LABEL) & (others != NOISE_LABEL)
    counts = np.zeros((n_codes, n_others), dtype=np.intp)
    np.add.at(counts, (codes[both], others[both]), 1)
    numbers = match_labels(counts)
    is_extra = numbers < 0
    numbers[is_extra] = n_others + np.arange(np.count_nonzero(is_extra))
    return np.where(codes == NOISE_LABEL, NOISE_LABEL, numbers[codes]), numbers


def label_column(labels: Any, name: str, n_rows: int) -> Array:
    """Return labels as an array, one a row."""
    array = np.asarray(labels)
    if array.shape != (n_rows,):
        raise ValueError(
            f"{name} must have one entry for each of the {n_rows} rows of X; got shape {array.shape}."
        )
    return array


def _encode(labels: Any, name: str, n_rows: int) -> tuple[Array, Array]:
    """Return the different labels in sorted order, and the number of that of each row; -1 for noise."""
    array = label_column(labels, name, n_rows)
    try:
        values, codes = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise TypeError(
            f"{name} mixes kinds that have no order: turn them into strings, [str(x) for x in {name}]."
        ) from error
    if array.dtype.kind == "i" and len(values) > 1 and values[0] == NOISE_LABEL and values[1] == 0:
        # Labels that count from 0, as those of HDBSCAN: other negative ones are classes.
        return values[1:], codes - 1
    return values, codes


def _label_names(values: Array, class_names: Any, kind: str) -> list[str]:
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
    groups: Sequence[Array],
    max_points: int,
    rng: np.random.Generator,
    before: IndexArray | None = None,
) -> IndexArray:
    """Return the numbers of the rows that are shown, in ascending order.

    Parameters
    ----------
    values : ndarray, shape (n_rows, n_columns)
        The shown columns; their outermost rows are kept.
    groups : sequence of ndarray of int, shape (n_rows,)
        Clusters. At least 50 rows of each are kept, as far as there are that many and `max_points` allows it.
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
    members = [(codes, code) for codes in groups for code in np.unique(codes)]
    left = max_points - 2 * n_columns
    if before is not None:
        wanted.append(before[: max_points // 2])
        left -= len(wanted[-1])
    least = min(MIN_POINTS, max(left, 0) // len(members))
    wanted += [order[codes[order] == code][:least] for codes, code in members]
    candidates = np.concatenate([*wanted, order])
    _, first = np.unique(candidates, return_index=True)
    return np.sort(candidates[np.sort(first)][:max_points])


def cluster_points(
    values: Array,
    numbers: Array,
    wrong: Array,
    areas: Array,
    rows: IndexArray,
    *,
    is_grey: bool = False,
    edge: str | None = None,
) -> list[Points]:
    """Return the marks of rows in a plane: noise, clusters from the largest to the smallest, wrong rows.

    Parameters
    ----------
    values : ndarray, shape (n_rows, 2)
    numbers : ndarray of int, shape (n_rows,)
        Their clusters.
    wrong : ndarray of bool, shape (n_rows,)
        Rows in a wrong cluster.
    areas : ndarray, shape (n_rows,)
        Of the marks, in square points.
    rows : ndarray of int
        The rows to draw; later ones lie on top.
    """
    found, counts = np.unique(numbers[rows], return_counts=True)
    # Small clusters lie on top of large ones, and noise below all.
    found = found[np.argsort(-counts, kind="stable")]
    ordered = sorted(found.tolist(), key=lambda number: number != NOISE_LABEL)
    rim: Look = {"alpha": 0.75} if edge is None else {"alpha": 1.0, "markeredgecolor": edge}
    layers = []
    for is_wrong, number in [(is_wrong, number) for is_wrong in (False, True) for number in ordered]:
        chosen = rows[(numbers[rows] == number) & (wrong[rows] == is_wrong)]
        if not len(chosen):
            continue
        look = ({"color": GREY, "marker": "o"} if is_grey else style(number)) | rim
        scale = NOISE_AREA if number == NOISE_LABEL else 1.0
        if is_wrong:
            look, scale = look | {"marker": WRONG, "markeredgecolor": INK}, WRONG_AREA
        x, y = values[chosen].T
        layers.append(Points(x, y, scale * areas[chosen], look, cluster_kind(number), chosen))
    return layers


def posteriors_of(model: Any, X: Any) -> Array:
    """Return the probability of each component for each row, shape (n_rows, n_components).

    Noise is one more that a row may belong to, in the last column.
    """
    if isinstance(model, SphericalMixture):
        kind, parameters = (
            model.covariance_type,
            MixtureParameters(model.weights, model.means, model.covariances),
        )
        model = GaussianMixture(model.n_components, covariance_type=kind)
        FittedState(family(kind), parameters).set_on(model)
    posteriors = np.asarray(model.predict_proba(X))
    if getattr(model, "noise_box_", None) is None:
        return posteriors
    return np.column_stack([posteriors, np.maximum(1 - posteriors.sum(axis=1), 0)])


def most_probable(probabilities: Array, n_components: int) -> Array:
    """Return the most probable component of each row, -1 where that is noise."""
    labels = probabilities.argmax(axis=1)
    return np.where(labels < n_components, labels, NOISE_LABEL)
