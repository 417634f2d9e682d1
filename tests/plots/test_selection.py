"""Curves of a criterion, read back from the axes."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex

import apolar
from apolar.plots import bic_curves
from plots.reading import FAMILIES, blank, check_texts, legend, lines, note, three_clusters


@functools.cache
def selection():
    X = three_clusters()[0]
    return apolar.select(X, [3, 1, 2], FAMILIES, prior="conjugate", random_state=0)


def changed(chosen, kind, number, **changes):
    """Return a selection with other values in one row."""
    table = [
        replace(row, **changes) if (row.covariance_type, row.n_components) == (kind, number) else row
        for row in chosen.table
    ]
    return replace(chosen, table=tuple(table))


@pytest.mark.parametrize(
    ("criterion", "title"), [("bic", "BIC"), ("icl", "ICL"), ("evidence", "-2 log evidence")]
)
def test_a_line_per_family_with_the_values_of_the_criterion(criterion, title):
    chosen = replace(selection(), criterion=criterion)
    axes = bic_curves(chosen, ax=blank())
    drawn = lines(axes)
    for kind in FAMILIES:
        rows = {row.n_components: row for row in chosen.table if row.covariance_type == kind}
        np.testing.assert_array_equal(drawn[kind].get_xdata(), [1, 2, 3])
        values = [getattr(rows[number], criterion) for number in (1, 2, 3)]
        np.testing.assert_array_equal(drawn[kind].get_ydata(), values)
    looks = [(drawn[kind].get_marker(), to_hex(drawn[kind].get_color())) for kind in FAMILIES]
    assert len(set(looks)) == len(FAMILIES)
    assert axes.get_xlabel() == "number of components"
    assert axes.get_ylabel() == f"{title} (lower is better)"
    assert axes.get_title() == f"{title} of {3 * len(FAMILIES)} candidates"


def test_the_best_is_marked_and_named():
    chosen = selection()
    axes = bic_curves(chosen)
    kind, number = chosen.best.covariance_type, chosen.best.n_components
    lowest = chosen.best_row.bic
    ring, second = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
    np.testing.assert_array_equal(ring.get_xydata(), [[number, lowest]])
    behind = sorted(row.bic for row in chosen.table if row.is_fitted)[1] - lowest
    np.testing.assert_allclose(second.get_ydata(), lowest + behind)
    assert legend(axes)[:-1] == [*FAMILIES, f"lowest: {number} {kind}"]
    assert legend(axes)[-1].startswith("next: ")
    assert legend(axes)[-1].endswith(f", {behind:.1f} behind")
    assert note(axes).startswith(chosen.reason)
    check_texts(axes)


def test_candidates_far_behind_leave_the_frame():
    chosen = selection()
    lowest = chosen.best_row.bic
    rows = [row for row in chosen.table if row is not chosen.best_row]
    near = [replace(row, bic=lowest + 10 + k) for k, row in enumerate(rows[: len(rows) - 5])]
    far = [replace(row, bic=lowest + 1e6) for row in rows[len(rows) - 5 :]]
    axes = bic_curves(replace(chosen, table=(chosen.best_row, *near, *far)))
    low, high = axes.get_ylim()
    assert low < lowest
    assert lowest + 10 < high < lowest + 100
    # Beside the values there is a tenth of their range, above and below.
    highest = lowest + (high - low) / 1.2
    n_above = sum(row.bic > highest + 0.5 for row in (*near, *far))
    assert n_above >= 5
    assert f"Above the frame: {n_above} candidates." in note(axes)
    near = [replace(row, bic=lowest + 9) for row in near]
    axes = bic_curves(replace(chosen, table=(chosen.best_row, *near)))
    assert axes.get_ylim()[1] > lowest + 9
    assert "Above the frame" not in note(axes)


def test_failed_candidates_are_gaps():
    chosen = selection()
    for number in (1, 2):
        chosen = changed(chosen, "full", number, bic=np.nan, failed="no spread")
    chosen = changed(chosen, "tied_diag", 1, bic=np.nan, failed="no spread")
    axes = bic_curves(chosen)
    assert np.isnan(lines(axes)["full"].get_ydata()).tolist() == [True, True, False]
    assert note(axes).endswith("Gaps: 1 full component, 2 full components and 1 tied_diag component failed.")
    check_texts(axes)


def test_candidates_that_did_not_converge_are_hollow():
    chosen = selection()
    axes = bic_curves(changed(chosen, "VEV", 2, converged=False), ax=blank())
    (hollow,) = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert hollow.get_xdata().tolist() == [2]
    assert hollow.get_marker() == lines(axes)["VEV"].get_marker()
    assert note(axes).endswith("Hollow marks: EM did not converge.")
