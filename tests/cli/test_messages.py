"""Messages of the library in the words of the command line."""

import pickle

import pytest

from apolar.cli.messages import error_message, in_options
from apolar.cli.options import CRITERIA, FAMILIES
from apolar.cli.tables import TableError
from apolar.exceptions import ColumnError, ComponentError
from apolar.mixture import families
from apolar.scores import CRITERIA as CRITERIA_OF_THE_LIBRARY


def test_messages_name_options_of_the_command_line():
    text = in_options("Try another covariance_type, or more, as with n_components=range(3, 7).")
    assert text == "Try another --covariance, or more, as with --components 3-6."
    assert in_options("n_components = 9 components are too many.") == "9 components are too many."
    assert in_options("Try n_components=9.") == "Try --components 9."


def test_names_of_the_user_stay_as_they_are():
    for text in ("Column 'n_components' is constant.", "covariance_type.csv is empty.", "x_n_components"):
        assert error_message(TableError(text)) == text
    assert in_options("Column 'n_components' is constant.") == "Column 'n_components' is constant."


@pytest.mark.parametrize(
    "error", [ColumnError("n_components", "is constant."), ComponentError(2, "is empty.")]
)
def test_errors_with_a_place_can_be_sent_to_another_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_what_is_said_of_a_column():
    error = ColumnError(1, "is constant: leave it out.")
    assert str(error) == "Column 1 is constant: leave it out."
    assert error_message(error.with_name(["a", "b"])) == (
        "Column 'b' is constant: leave it out. Columns are chosen with --columns."
    )
    assert error_message(MemoryError()).startswith("There is not enough memory")


def test_the_options_are_the_families_and_criteria_of_the_library():
    assert set(FAMILIES) == {family.name for family in families.FAMILIES.values()}
    assert tuple(CRITERIA_OF_THE_LIBRARY) == CRITERIA
