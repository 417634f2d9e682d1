"""The search over many candidates, and its callback."""

from dataclasses import replace

import numpy as np
import pytest

import apolar
from apolar._core.settings import SETTINGS
from apolar.selection import grid, select
from references import table

FITTING, REFINING, ON_ALL_ROWS = "fitting", "refining", "fitting to all rows"


@pytest.fixture(scope="module")
def rows():
    return apolar.datasets.load_iris().data


def reports(X, *arguments, **parameters):
    calls = []
    select(X, *arguments, callback=lambda *call: calls.append(call), random_state=0, **parameters)
    return calls


def check(calls, what, n_all):
    counts = [(done, total) for said, done, total in calls if said == what]
    assert counts
    assert {total for _, total in counts} == {n_all}
    done = [count for count, _ in counts]
    assert done == sorted(done)
    assert done[-1] == n_all


def test_candidates_are_counted_also_those_that_are_dropped(rows):
    calls = reports(rows, range(1, 4), ("full", "tied", "tied_spherical"))
    check(calls, FITTING, 9)
    assert list(dict.fromkeys(what for what, _, _ in calls)) == [FITTING, REFINING]
    check(reports(rows, (1, 2), ("diag", "spherical"), "evidence"), FITTING, 4)


def test_fits_to_all_rows_are_counted(rows, monkeypatch):
    monkeypatch.setattr(grid, "SETTINGS", replace(SETTINGS, sample_rows=60))
    calls = reports(np.repeat(rows, 2, axis=0), (2, 3), "diag")
    totals = {total for what, _, total in calls if what == ON_ALL_ROWS}
    assert len(totals) == 1
    check(calls, ON_ALL_ROWS, totals.pop())


def test_a_callback_changes_nothing(rows):
    told, silent = (
        select(rows, (2, 3), "full", callback=callback, random_state=0) for callback in (print, None)
    )
    assert [row.bic for row in told.table] == [row.bic for row in silent.table]


def test_no_fit_is_below_that_of_mclusts_start_without_a_prior():
    # EM of the start from mclust's tree alone ends at this likelihood.
    (row,) = select(table("diabetes.csv"), 6, "VVI", random_state=0).table
    assert row.log_likelihood > -2311.494
