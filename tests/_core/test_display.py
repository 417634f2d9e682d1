"""Numbers as people write them."""

import math

import pytest

from apolar._core.display import figures, with_error


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (4325.3, 846.2, "4325 ± 850"),
        (10341.2, 5.43, "10341.2 ± 5.4"),
        (6.548, 0.6123, "6.55 ± 0.61"),
        (1.462, 0.2, "1.46 ± 0.20"),
        (0.000123, 0.0000456, "0.000123 ± 0.000046"),
        (1700000123.0, 850.0, "1700000123 ± 850"),
        (-0.001, 1.0, "0.0 ± 1.0"),
        (99.96, 9.96, "100 ± 10"),
        (5.0, 0.0, "5 ± 0"),
        (3.2e20, 1.1e18, "3.2e20 ± 1.1e18"),
    ],
)
def test_a_number_ends_where_its_error_does(value, error, text):
    assert with_error(value, error) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (9999.6, "10000"), (123456.7, "123457"), (1.5e-7, "1.5e-7"), (-2e9, "-2e9"), (4.0, "4")],
)
def test_digits_before_the_point_are_all_written(value, text):
    assert figures(value) == text


def test_what_is_no_number_is_said():
    assert figures(math.nan) == "nan"
    assert with_error(1.0, math.inf) == "1 ± inf"
