"""The distinct rows, each with the weight of its copies."""

import numpy as np
import pytest
from scipy import sparse

from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.mixture.families import family


@pytest.mark.parametrize("name", ["full", "spherical"])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, lambda X: np.where(X < 4, np.nan, X)])
def test_distinct_rows_have_the_weights_of_their_copies(name, convert):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.integers(1, 9, size=(5, 3)) + np.arange(5)[:, None] * 10.0, 30, axis=0)
    data = Problem(open_rows(convert(X)), family(name))
    distinct = data.distinct()
    assert distinct.n_rows == 5
    # The last of them is seen only at the end.
    assert [data.has_distinct_rows(n) for n in (1, 2, 5, 6)] == [True, True, True, False]
    np.testing.assert_array_equal(distinct.row_weights(), np.full(5, 30))
