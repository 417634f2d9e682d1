"""Errors of the library as the command line says them, from their fields; and names that options take."""

import pickle

import click
import numpy as np
import pytest

import apolar
from apolar.cli.options import CRITERION, FAMILY, METHOD
from apolar.decomposition.methods import METHODS
from apolar.exceptions import ColumnError, ComponentError
from apolar.mixture.families import FAMILIES
from apolar.scores import CRITERIA
from cli.commands import run


@pytest.mark.parametrize(
    "error", [ColumnError("n_components", "is constant."), ComponentError(2, "is empty.")]
)
def test_errors_with_a_place_can_be_sent_to_another_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ComponentError(2, "holds no rows."), "Cluster 3 holds no rows."),
        (
            ColumnError(1, "is constant.").with_name(["a", "b"]),
            "Column 'b' is constant. Columns are chosen with",
        ),
        (MemoryError(), "There is not enough memory: take fewer rows or columns."),
    ],
)
def test_errors_are_told_from_their_fields(flowers, monkeypatch, error, said):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("apolar.reports.analysis.analyse", fail)
    result = run("fit", flowers, "-k", 2)
    assert result.exit_code == 2
    assert said in result.output


def test_a_column_of_the_user_keeps_its_name(tmp_path):
    """Columns that are called as parameters of Python are."""
    rows = np.random.default_rng(0).standard_normal((30, 2))
    lines = ["n_components,random_state,max_iter", *(f"{x},{y},7" for x, y in rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    result = run("fit", tmp_path / "t.csv", "-k", 1, "--no-report", "-o", tmp_path / "o")
    assert "Dropped column 'max_iter': it is constant." in result.output
    assert "n_components" in result.output


@pytest.mark.parametrize(
    "options",
    [
        ("-k", "1-2", "--covariance", "diag"),  # more than two may be better
        ("-k", "2", "--noise", "--drop-missing"),
        ("-k", "9", "--covariance", "full"),  # few rows for so many parameters
    ],
)
def test_advice_names_no_parameter_of_python(flowers, tmp_path, options):
    result = run("fit", flowers, *options, "-o", tmp_path / "o")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "o" / "report.html").read_text()
    for name in ("n_components", "covariance_type", "random_state", "max_iter", "init_params", "reg_covar"):
        assert name not in result.output
        assert name not in page


def test_a_fit_that_stopped_early_says_so_in_the_words_of_the_command_line(flowers, tmp_path, monkeypatch):

    monkeypatch.setattr(
        apolar.GaussianMixture.__init__,
        "__kwdefaults__",
        {**apolar.GaussianMixture.__init__.__kwdefaults__, "max_iter": 1},
    )
    result = run("fit", flowers, "-k", 3, "--no-report", "-o", tmp_path / "o")
    assert "Warning: EM stopped before it had converged: try another seed" in result.output
    assert "max_iter" not in result.output


@pytest.mark.parametrize(("option", "names"), [(FAMILY, FAMILIES), (CRITERION, CRITERIA), (METHOD, METHODS)])
def test_options_take_every_name_of_a_table_of_the_library(option, names):
    assert [option.convert(name, None, None) for name in names] == list(names)
    with pytest.raises(click.BadParameter, match=f"'other' is not one of '{next(iter(names))}'"):
        option.convert("other", None, None)
