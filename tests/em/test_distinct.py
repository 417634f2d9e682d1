"""Whether enough rows are distinct, without sorting all of them."""

import numpy as np
import pytest
from scipy import sparse

from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.mixture.families import family


@pytest.mark.parametrize("name", ["full", "spherical"])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_distinct_rows_are_counted_as_far_as_needed(name, convert):
    rng = np.random.default_rng(0)
    # Five different rows, of which the last is seen only at the end.
    X = np.repeat(rng.integers(1, 9, size=(5, 3)) + np.arange(5)[:, None] * 10.0, 30, axis=0)
    data = Problem(open_rows(convert(X)), family(name))
    assert [data.has_distinct_rows(n) for n in (1, 2, 5, 6)] == [True, True, True, False]
