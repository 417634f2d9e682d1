"""scikit-learn's own tests of its mixture, taken from the installed package, with our class in its place.

Nothing is copied: the module is loaded from where scikit-learn is installed, its `GaussianMixture` is
replaced, and its tests are collected here. What differs on purpose is listed, with the reason, in
`docs/scikit-learn.md`: those tests must fail, so that a line that is no longer true is noticed.
"""

import importlib.util
import os
import re
from pathlib import Path

import numpy as np
import pytest
import sklearn.mixture
from sklearn.utils.fixes import parse_version

import apolar

PAGE = Path(__file__).parents[2] / "docs" / "scikit-learn.md"
# Tests that call private functions of scikit-learn's module, or private methods of its class, and nothing
# of ours.
PRIVATE = {
    "test_suffstat_sk_full",
    "test_suffstat_sk_tied",
    "test_suffstat_sk_diag",
    "test_gaussian_suffstat_sk_spherical",
    "test_compute_log_det_cholesky",
    "test_gaussian_mixture_log_probabilities",
    "test_gaussian_mixture_precisions_init",
    "test_gaussian_mixture_all_init_does_not_estimate_gaussian_parameters",
}

# Tests that are all skipped where SciPy's array API is not switched on.
ARRAY_API = {
    "test_gaussian_mixture_array_api_compliance",
    "test_gaussian_mixture_raises_where_array_api_not_implemented",
}
# Tests that ask for messages which later versions of scikit-learn, whose words are ours, have changed.
REWORDED = {"test_regularisation"}

# Their configuration does not turn warnings into errors; theirs are checked inside the tests.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def global_dtype(request):
    reason = differences().get(request.node.name)
    if reason is not None:
        # By a digit that is rounding: it may pass.
        request.applymarker(pytest.mark.xfail(reason=reason, strict=False))
    return request.param


@pytest.fixture
def global_random_seed():
    return 42


def differences():
    """Return the tests that our page says fail, and why; some with the parameter for which they do."""
    text = PAGE.read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `(test_\w+(?:\[\w+\])?)` \| (.+) \|$", text, re.MULTILINE))


def their_tests():
    """Return scikit-learn's tests by name, bound to our class."""
    path = Path(sklearn.mixture.__file__).parent / "tests" / "test_gaussian_mixture.py"
    if not path.exists():  # some distributions leave tests out
        return {}
    spec = importlib.util.spec_from_file_location("scikit_learn_tests_of_apolar", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.GaussianMixture = apolar.GaussianMixture
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    for name, reason in differences().items():
        if name in tests:
            tests[name] = pytest.mark.xfail(reason=reason, strict="may pass" not in reason)(tests[name])
    if parse_version(sklearn.__version__) < parse_version("1.9"):
        for name in REWORDED & set(tests):
            tests[name] = pytest.mark.xfail(reason="the message of this version", strict=False)(tests[name])
    for test in tests.values():
        # pytest wants parameters in lists, where they use generators.
        test.pytestmark = [_with_list(mark) for mark in getattr(test, "pytestmark", [])]
    left_out = PRIVATE if os.environ.get("SCIPY_ARRAY_API") else PRIVATE | ARRAY_API
    return {name: test for name, test in tests.items() if name not in left_out}


def _with_list(mark):
    if mark.name != "parametrize":
        return mark
    names, values, *rest = mark.args
    return getattr(pytest.mark, mark.name)(names, list(values), *rest, **mark.kwargs).mark


globals().update(their_tests())


def test_the_page_lists_tests_that_exist():
    known = set(their_tests())
    if not known:
        pytest.skip("scikit-learn is installed without its tests")
    assert known > {"test_warm_start", "test_sample", "test_score"}
    # Older versions of scikit-learn do not have them all.
    listed = {name.partition("[")[0] for name in differences()}
    assert {"test_check_weights", "test_bic_1d_1component", "test_monotonic_likelihood"} <= listed & known
