"""What is refused, with the remedy; and axes that are given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import apolar
from apolar.plots import bic_curves, convergence, profiles, scatter_matrix, spectrum, uncertainty
from plots.reading import check_drawn_into, fitted, three_clusters

X, LABELS = three_clusters(m=4)
EXAMPLE = apolar.datasets.example_mixture(1)
UNFITTED = apolar.GaussianMixture(2)
MIXED = np.array([0, "a", None] * 20, dtype=object)


REFUSED = {
    ValueError: [
        (convergence, [], {}, "at least one; got shape \\(0,\\).*model.lower_bounds_"),
        (convergence, np.eye(2), {}, "one per pass.*got shape \\(2, 2\\)"),
        (convergence, [1.0, np.nan], {}, "NaN or infinity: remove"),
        (convergence, UNFITTED, {}, "not fitted: call model.fit"),
        (profiles, EXAMPLE, {"feature_names": ["a"]}, "must name all 6 columns of the model; got 1"),
        (profiles, EXAMPLE, {"class_names": ["a"]}, "class_names must name all 4 components; got 1 names"),
        (profiles, EXAMPLE, {"max_columns": 0}, "max_columns must be at least 1"),
        (spectrum, np.eye(5), {"n_components": 0}, "n_components must be at least 1"),
        (spectrum, np.eye(5), {"n_components": 6}, "n_components = 6 is more than.*4, .*ask for at most 4"),
        (spectrum, np.ones((5, 2)), {}, "All rows are equal"),
        (spectrum, np.full((5, 2), np.nan), {}, "NaN"),
        (scatter_matrix, np.zeros(5), {}, "two-dimensional table; got shape \\(5,\\).*Reshape"),
        (scatter_matrix, np.zeros((0, 3)), {}, "X has no rows"),
        (scatter_matrix, [[1.0, 2.0], [3.0]], {}, "ragged"),
        (scatter_matrix, np.full((60, 3), np.nan), {}, "NaN or infinity: remove or replace"),
        (scatter_matrix, np.ma.masked_equal(np.eye(60), 1), {}, "masked"),
        (scatter_matrix, X, {"columns": [0, 4]}, "no column 4: choose among 0 to 3"),
        (scatter_matrix, X, {"columns": ["hue"]}, "no column 'hue': choose among 'column 0', 'column 1'"),
        (scatter_matrix, X, {"columns": []}, "columns is empty"),
        (scatter_matrix, X, {"labels": [0, 1]}, "labels must have one entry for each of the 60 rows of X"),
        (scatter_matrix, X, {"predicted": np.zeros((60, 1))}, "predicted must have one entry for each of"),
        (scatter_matrix, X, {"class_names": ["a"]}, "class_names must have 3 names, for the labels 0, 1, 2"),
        (scatter_matrix, X, {"class_names": {0: "a", 1: "b"}}, "class_names has no name for 2"),
        (scatter_matrix, X, {"model": EXAMPLE}, "The model has 6 columns and X 4"),
        (
            uncertainty,
            X,
            {"columns": [0, 1, 2]},
            "columns has 3 entries, and a plane has two axes: .*or pass 'pca'",
        ),
        (uncertainty, np.ones((60, 3)), {}, "The model has 4 columns and X 3: pass the X of the fit"),
        (uncertainty, X, {"max_points": 0}, "max_points must be at least 1"),
    ],
    TypeError: [
        (bic_curves, [1, 2], {}, "must be what apolar.select returns, not list: pass apolar.select"),
        (convergence, EXAMPLE, {}, "without passes of EM: fit a GaussianMixture"),
        (convergence, "full", {}, "must be a GaussianMixture or a sequence of numbers, not str"),
        (convergence, ["a"], {}, "must hold numbers"),
        (convergence, [1j], {}, "complex"),
        (convergence, [1.0], {"ax": 1}, "ax must be axes of matplotlib, not int: pass those of figure"),
        (profiles, np.eye(3), {}, "must be a GaussianMixture or SphericalMixture, not ndarray"),
        (spectrum, np.eye(5), {"n_components": 1.5}, "an integer"),
        (scatter_matrix, np.ones((60, 3)) * 1j, {}, "complex"),
        (scatter_matrix, np.full((60, 2), "a"), {}, "must hold numbers.*columns="),
        (scatter_matrix, X, {"columns": [1.5]}, "an integer"),
        (scatter_matrix, X, {"labels": MIXED}, "labels mixes kinds.*str"),
        (uncertainty, X, {"ax": Figure()}, "ax must be axes of matplotlib, not Figure"),
    ],
}


@pytest.mark.parametrize(
    ("error", "draw", "given", "changes", "message"),
    [(error, *case) for error, cases in REFUSED.items() for case in cases],
)
def test_what_is_refused(error, draw, given, changes, message):
    if draw is uncertainty:
        changes = {"X": given} | changes
        given = changes.pop("model", fitted())
    elif draw is scatter_matrix and len(given) == 60:
        changes = {"labels": LABELS} | changes
    with pytest.raises(error, match=message):
        draw(given, **changes)


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: convergence(fitted(), ax=ax),
        lambda ax: profiles(fitted("VEV"), ax=ax),
        lambda ax: spectrum(X, ax=ax),
        lambda ax: uncertainty(fitted(), X, labels=LABELS, ax=ax),
        lambda ax: bic_curves(apolar.select(X, [1, 2], "spherical", random_state=0), ax=ax),
    ],
)
def test_axes_can_be_given(draw):
    check_drawn_into(draw)
