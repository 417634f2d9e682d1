"""Messages of the library in the words of the command line."""

import ast
import inspect
import pickle
import re

import click
import pytest

from apolar.cli.messages import error_message, in_options
from apolar.cli.options import CRITERION, FAMILY, METHOD
from apolar.cli.tables import TableError
from apolar.decomposition.methods import METHODS
from apolar.em.result import FitStatus
from apolar.em.row_blocks import NOISE_AND_MISSING
from apolar.estimator import fit_warnings, uncertainty
from apolar.exceptions import ColumnError, ComponentError
from apolar.mixture import families
from apolar.reports import analysis
from apolar.scores import CRITERIA
from apolar.selection import result as selection_result
from apolar.selection.grid import NO_MAXIMUM

PARAMETERS = (
    "n_components", "covariance_type", "random_state", "n_init", "init_params", "max_iter", "tol",
    "reg_covar", "warm_start", "sample_weight", "prior=", "X", "n_samples",
)  # fmt: skip


def texts_of(module):
    """The whole sentences that a module can say, with 3 for each number and name that is put in."""
    tree = ast.parse(inspect.getsource(module))
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in parts | documented:
            continue
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                part.value if isinstance(part, ast.Constant) else "'3'" if part.conversion > 0 else "3"
                for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        if text.count(" ") > 3 and text.endswith("."):
            yield text


def test_messages_name_options_of_the_command_line():
    text = in_options("Try another covariance_type, or more, as with n_components=range(3, 7).")
    assert text == "Try another --covariance, or more, as with --components 3-6."
    assert in_options("n_components = 9 components are too many.") == "9 components are too many."
    assert in_options("Try n_components=9.") == "Try --components 9."
    assert in_options("covariance_type='tied' has more.") == "--covariance tied has more."


@pytest.mark.parametrize(
    "message",
    [
        FitStatus.MAX_ITER.value,
        NOISE_AND_MISSING,
        NO_MAXIMUM,
        "In the units of X, a covariance is singular up to rounding: leave out columns that hardly vary or "
        "nearly repeat others, or give a larger reg_covar.",
        *(
            text
            for module in (fit_warnings, uncertainty, analysis, selection_result)
            for text in texts_of(module)
        ),
    ],
)
def test_advice_names_no_parameter_of_python(message):
    """Messages that can reach the command line: of fits, standard errors, choices and pages."""
    said = in_options(message)
    if "in Python" in said or "n_jobs" in said or "to_pandas" in said:
        return
    for name in PARAMETERS:
        assert not re.search(rf"(?<![\w-]){name}\b", said), said


def test_clusters_are_counted_from_one():
    error = ComponentError(2, "holds 0.4 rows. Fit with fewer components.")
    assert str(error).startswith("Cluster 3 (means_[2]) holds")
    assert error_message(error) == "Cluster 3 holds 0.4 rows. Fit with fewer components."


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
