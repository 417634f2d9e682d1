"""Bad input and what is said of it: one line that says what to do, and no files."""

import pickle

import click
import numpy as np
import pytest

import apolar
from apolar.cli.options import CRITERION, FAMILY, METHOD
from apolar.decomposition.methods import METHODS
from apolar.exceptions import ColumnError, ComponentError
from apolar.mixture.families import FAMILIES
from apolar.reports import scoring
from apolar.scores import CRITERIA
from cli.commands import names_in, refuse, run, succeed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("fit nowhere.csv -k 2", "There is no file nowhere.csv: did you mean 'flowers.csv'?"),
        ("fit FLOWERS -k many", "'many' is not a number of components: write 4, 2-6, 2,4,8 or auto."),
        ("fit FLOWERS -k 1-99999999999", "asks for more than 10,000 components"),
        ("fit FLOWERS -k 2 --columns petal_lenght", "petal_length"),
        ("fit FLOWERS -k 2 --columns a,,b", "has an empty name"),
        ("fit FLOWERS -k 200", "200"),
        ("fit FLOWERS", "How many clusters?"),
        ("fit -k 2", "Give either DATA"),
        ("fit - - -k 2", "Standard input can be read only once"),
        ("fit --sketch FLOWERS -k 2", "flowers.csv"),
        ("fit --sketch x.npz -k auto", "There is no file x.npz"),
        ("fit --sketch x.npz -k 2 --drop-missing", "--drop-missing needs the rows"),
        ("fit --sketch x.npz -k 2 --noise", "--noise needs the rows"),
        ("predict nowhere.npz FLOWERS", "There is no file nowhere.npz: check the name"),
        ("predict FLOWERS FLOWERS", "flowers.csv"),
        ("predict FLOWERS", "standard input"),
        ("select FLOWERS -k 3-1", "'3-1' is not a number of components"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(flowers, monkeypatch, arguments, message):
    monkeypatch.chdir(flowers.parent)
    before = names_in(flowers.parent)
    result = run(*arguments.replace("FLOWERS", str(flowers)).split())
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert "Traceback" not in result.output
    assert sum(line.startswith("Error:") for line in result.output.splitlines()) == 1
    assert names_in(flowers.parent) == before


@pytest.mark.parametrize("command", [["fit", "-k", "1", "--no-report"], ["decompose"]])
def test_a_damaged_header_of_an_array_is_one_line(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.eye(3) + 1)
    sound = (tmp_path / "a.npy").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(40):
        damaged = bytearray(sound)
        for place in rng.integers(6, 128, size=rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        (tmp_path / "a.npy").write_bytes(damaged)
        result = run(command[0], "a.npy", *command[1:])
        assert result.exit_code in (0, 1, 2), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), damaged
        is_refused = result.exit_code == 2
        assert not is_refused or (result.output.startswith("Error: ") and result.output.count("\n") == 1)


# --- what the library says ------------------------------------------------------------------------


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
    assert said in refuse("fit", flowers, "-k", 2)


def test_advice_names_no_parameter_of_python(flowers, tmp_path, monkeypatch):
    python = ("n_components", "covariance_type", "random_state", "max_iter", "init_params", "reg_covar")
    for options in (
        ("-k", "1-2", "--covariance", "diag"),  # more than two may be better
        ("-k", "2", "--noise", "--drop-missing"),
        ("-k", "9", "--covariance", "full"),  # few rows for so many parameters
    ):
        said = succeed("fit", flowers, *options, "-o", tmp_path / "o")
        said += (tmp_path / "o" / "report.html").read_text()
        assert not [name for name in python if name in said]
    defaults = apolar.GaussianMixture.__init__.__kwdefaults__
    monkeypatch.setattr(apolar.GaussianMixture.__init__, "__kwdefaults__", {**defaults, "max_iter": 1})
    said = succeed("fit", flowers, "-k", 3, "--no-report", "-o", tmp_path / "o")
    assert "Warning: EM stopped before it had converged: try another seed" in said
    assert "max_iter" not in said


# --- names and defaults ---------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "names"), [(FAMILY, FAMILIES), (CRITERION, CRITERIA), (METHOD, METHODS)])
def test_options_have_the_names_and_defaults_of_the_library(option, names):
    assert [option.convert(name, None, None) for name in names] == list(names)
    with pytest.raises(click.BadParameter, match=f"'other' is not one of '{next(iter(names))}'"):
        option.convert("other", None, None)
    assert apolar.GaussianMixture.outliers.__kwdefaults__["level"] == scoring.OUTLIER_LEVEL


def test_without_the_libraries_of_the_report_the_fit_goes_on(flowers, tmp_path, monkeypatch):
    def missing():
        raise ImportError('Reports need jinja2: pip install "apolar[report]".')

    out = tmp_path / "o"
    succeed("fit", flowers, "-k", 2, "-o", out)
    monkeypatch.setattr("apolar.reports.page.need_report", missing)
    said = succeed("fit", flowers, "-k", 2, "-o", out)
    assert "No report is written. Reports need jinja2: pip install" in said
    assert names_in(out) == {"labels.csv", "model.npz"}
