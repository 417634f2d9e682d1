"""The tiers of the tests: which of them only `make test-all` runs."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# Every line of R has its Python, which takes as long as a hundred tests.
MCLUST_PAGE = TESTS.parent / "docs" / "mclust.md"

# Tests that start clusters, browsers, other processes or other projects, or repeat for many seeds what
# a test of the first tier shows for one. A folder ends with a slash; `::` names single tests.
SLOW = (
    "data/dask/test_cluster.py",
    "data/dask/test_results.py::test_processes",
    "decomposition/test_rank_search.py::test_noise_alone_has_no_rank",
    "decomposition/test_rank_search.py::test_the_rank_of_a_large_tensor_under_heavy_noise",
    "load/",
    "cli/test_predict.py::test_a_full_standard_output",
    "cli/test_terminal.py::test_a_standard_output_that_is_closed",
    "cli/test_terminal.py::test_the_packages_of_the_extra",
    "cli/test_terminal.py::test_letters_that_a_terminal_cannot_show_are_replaced",
    "cli/test_terminal.py::test_progress_says_how_many_are_done_and_how_long_is_left",
    "cli/tables/test_files.py::test_no_file_stays_when_the_program_ends",
    "cli/test_output.py::test_control_c_in_a_real_process",
    "estimator/test_checkpoint.py::test_a_fit_that_is_killed_goes_on",
    "estimator/test_warnings.py::test_that_good_starts_disagree_is_shown_on_demand",
    "recovery/test_families.py::test_family_and_number_are_chosen_from_moments_alone",
    "peers/",
    "scikit_learn/test_their",
    "reports/test_browser.py",
    "typing/test_types.py::test_a_script_passes_the_strict_mode_of_mypy",
    "test_mclust.py::test_one_more_component_is_tested_until_it_is_no_better",
    "test_package.py::test_examples_run",
)


def is_slow(item: pytest.Item) -> bool:
    """Return whether a test is left to `make test-all`."""
    if item.path == MCLUST_PAGE:
        return True
    if not item.path.is_relative_to(TESTS):
        return False
    path = item.path.relative_to(TESTS).as_posix()
    name = f"{path}::{item.name.split('[')[0]}"
    if any(path.startswith(entry) or name == entry for entry in SLOW):
        return True
    # Of the tests that run on several schedulers of Dask, those on a cluster.
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return parameters.get("scheduler") == "cluster" or "client" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests."""
    for item in items:
        if is_slow(item):
            item.add_marker(pytest.mark.slow)
