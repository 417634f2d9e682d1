"""scikit-learn's own tests of BayesianGaussianMixture, with ours in its place: see `their_tests`."""

import pytest

import apolar
from their_tests import differences, their_tests

PAGE = "bayesian.md"
# Tests of private functions of scikit-learn's module, or private methods of its class.
PRIVATE = {"test_log_dirichlet_norm", "test_log_wishart_norm", "test_compare_covar_type"}
THEIRS = their_tests("test_bayesian_mixture.py", apolar.BayesianGaussianMixture, PAGE, PRIVATE)

pytestmark = pytest.mark.filterwarnings("ignore")
globals().update(THEIRS)


def test_the_page_lists_tests_that_exist():
    if not THEIRS:
        pytest.skip("scikit-learn is installed without its tests")
    assert set(differences(PAGE)) <= set(THEIRS) > {"test_invariant_translation", "test_monotonic_likelihood"}
