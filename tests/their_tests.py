"""scikit-learn's own tests of its mixtures, taken from the installed package, with our class in its place.

Nothing is copied: a module is loaded from where scikit-learn is installed, its class is replaced, and its
tests are collected by ours. What differs on purpose is listed, with the reason, on a page of the
documentation: those tests must fail, so that a line that is no longer true is noticed.
"""

import importlib.util
import re
from pathlib import Path

import pytest
import sklearn.mixture
from sklearn.utils.fixes import parse_version

PAGES = Path(__file__).parents[1] / "docs"


def differences(page):
    """Return the tests that a page of ours says fail, and why; some with the parameter for which they do."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `(test_\w+(?:\[\w+\])?)` \| (.+) \|$", text, re.MULTILINE))


def their_tests(name, ours, page, left_out, reworded=()):
    """Return the tests of a module of scikit-learn by name, bound to our class, but for some.

    Those that a page of ours lists are to fail; of reworded ones, those of versions before the last.
    """
    path = Path(sklearn.mixture.__file__).parent / "tests" / name
    if not path.exists():  # some distributions leave tests out
        return {}
    spec = importlib.util.spec_from_file_location("scikit_learn_tests_of_apolar", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    setattr(module, ours.__name__, ours)
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    for test_name, reason in differences(page).items():
        if test_name in tests:
            mark = pytest.mark.xfail(reason=reason, strict="may pass" not in reason)
            tests[test_name] = mark(tests[test_name])
    if parse_version(sklearn.__version__) < parse_version("1.9"):
        mark = pytest.mark.xfail(reason="the message of this version", strict=False)
        tests |= {each: mark(tests[each]) for each in set(reworded) & set(tests)}
    for test in tests.values():
        # pytest wants parameters in lists, where they use generators.
        test.pytestmark = [_with_list(mark) for mark in getattr(test, "pytestmark", [])]
    return {name: test for name, test in tests.items() if name not in left_out}


def _with_list(mark):
    if mark.name != "parametrize":
        return mark
    names, values, *rest = mark.args
    return getattr(pytest.mark, mark.name)(names, list(values), *rest, **mark.kwargs).mark
