"""Messages of the library in the words of the command line."""

import pickle

import click
import pytest

from apolar.cli.messages import error_message, in_options
from apolar.cli.options import CRITERION, FAMILY, METHOD
from apolar.cli.tables import TableError
from apolar.decomposition.methods import METHODS
from apolar.exceptions import ColumnError, ComponentError
from apolar.mixture import families
from apolar.scores import CRITERIA


def test_messages_name_options_of_the_command_line():
    text = in_options("Try another covariance_type, or more, as with n_components=range(3, 7).")
    assert text == "Try another --covariance, or more, as with --components 3-6."
    assert in_options("n_components = 9 components are too many.") == "9 components are too many."
    assert in_options("Try n_components=9.") == "Try --components 9."
    assert in_options("covariance_type='tied' has more.") == "--covariance tied has more."


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


@pytest.mark.parametrize(
    ("option", "names"), [(FAMILY, families.FAMILIES), (CRITERION, CRITERIA), (METHOD, METHODS)]
)
def test_options_take_every_name_of_a_table_of_the_library(option, names):
    assert [option.convert(name, None, None) for name in names] == list(names)
    with pytest.raises(click.BadParameter, match=f"'other' is not one of '{next(iter(names))}'"):
        option.convert("other", None, None)
