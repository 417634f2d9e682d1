"""A few hostile inputs of each kind, and those that have done harm; `make fuzz` tries thousands."""

import numpy as np
import pytest

from fuzz.outcomes import TARGETS, outcome

# Seeds whose inputs gave errors from deep inside, warnings of NumPy, or results that were no numbers.
REGRESSIONS = {
    "estimator": [
        52, 61, 64, 206, 135, 190, 220, 256, 351, 477, 498, 506, 589, 882, 1084, 1380, 2721, 3139, 4979,
        5747, 41000285, 41000542, 41000613, 41000693, 41000900, 42001003, 850500013, 851300017,
    ],
    "missing values": [
        3082, 3767, 4549, 90154, 41000896, 7919297, 7919582, 67000209, 839000019,
        839400046, 839800039, 841500026, 841600037, 850800039, 851700077, 785770154019, 785770154116,
    ],
    "families": [
        78000384,
        41000031, 41000062, 41000116, 41000122, 41000139, 41000210, 41000551, 41000594, 41000698, 41000795,
        41000857, 41000927, 41000996, 41001509, 42001102, 42001281, 44000326, 50000464, 50001762, 50002066,
        50002623, 50004987, 839100017, 839300036, 840400039, 841000028,
    ],
    "long tails": [334000329476, 72360514017, 77000612, 923882972593],
    "noise": [671556016951, 671556016996, 825803054836, 825803054959, 474709421662],
    "known": [474709421909],
    "other models": [
        334000329450, 474709422335, 671556017001, 825803054764, 825803054986, 859006991840, 859006991953,
        471137884627, 471137884836,
    ],
    "sketches": [
        4, 11, 61, 62, 128, 163, 178, 230, 267, 646, 721, 1032, 1111, 50107, 7919275, 7919352, 7919521,
        31001240, 31001955, 850500023,
    ],
    "command line": [758799516684, 471137884796],
    "tensors": [758799516493],
    "polynomials": [417667741336, 417667741397, 99070195587, 601446080487],
}  # fmt: skip


def check(target, seeds):
    for seed in seeds:
        problem, _ = outcome(target, seed)
        assert problem is None, f"{target}, seed {seed}: {problem}"


@pytest.mark.parametrize("target", TARGETS)
def test_hostile_input_gives_a_result_or_words(target):
    check(target, {*range(2), *REGRESSIONS.get(target, [])[::8]})


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_more_hostile_input_gives_a_result_or_words(target):
    check(target, {*range(2, 25), *REGRESSIONS.get(target, [])})


def test_what_is_wrong_is_noticed(monkeypatch):
    monkeypatch.setitem(TARGETS, "warns", lambda rng: np.array([1e308]) * rng.integers(10, 20))
    monkeypatch.setitem(TARGETS, "fails", lambda rng: np.linalg.cholesky(-np.eye(2) * rng.random()))
    monkeypatch.setitem(TARGETS, "is sound", lambda rng: f"{rng.random()}")
    assert "overflow" in outcome("warns", 0)[0]
    assert "positive definite" in outcome("fails", 0)[0]
    assert outcome("is sound", 0)[0] is None
