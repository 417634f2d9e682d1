"""A few hostile tensors and polynomials of each kind; thousands are for the fuzzers themselves."""

import numpy as np
import pytest

from fuzz import polynomials, tensors


@pytest.mark.parametrize("fuzzer", [tensors, polynomials], ids=["tensors", "polynomials"])
@pytest.mark.parametrize("first", [0, 25])
def test_hostile_input_gives_a_result_or_words(fuzzer, first):
    for seed in range(first, first + 25):
        assert fuzzer.run(np.random.default_rng(seed))
