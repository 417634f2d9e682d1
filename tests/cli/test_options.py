"""Options that fit and select share, and what is said when something is left out."""

import json

import pytest

import apolar
from cli.commands import run


def answer(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_fit_and_select_take_the_same_options(flowers, tmp_path):
    options = (
        "-k",
        "2,3",
        "--covariance",
        "diag,EEE",
        "--covariance",
        "VVI",
        "--criterion",
        "icl",
        "--seed",
        1,
    )
    chosen = answer("select", flowers, *options)
    assert [(row["covariance"], row["components"]) for row in chosen["table"]] == [
        ("diag", 2), ("diag", 3), ("EEE", 2), ("EEE", 3),
    ]  # fmt: skip
    fitted = answer("fit", flowers, *options, "--no-report", "-o", tmp_path / "o")
    assert {"covariance": fitted["covariance"], "components": fitted["n_components"]} == chosen["best"]
    assert "lowest ICL" in fitted["reason"]
    assert fitted["reason"] == chosen["reason"]
    assert min(row["icl"] for row in chosen["table"]) == pytest.approx(fitted["icl"], abs=1e-3)


def test_several_forms_with_one_number(flowers, tmp_path):
    fitted = answer(
        "fit", flowers, "-k", 3, "--covariance", "spherical,full", "--no-report", "-o", tmp_path / "o"
    )
    assert fitted["covariance"] == "full"
    assert "below 3 spherical components" in fitted["reason"]


def test_all_forms(flowers):
    chosen = answer("select", flowers, "-k", 1, "--covariance", "all")
    assert len(chosen["table"]) == 14
    one = answer("select", flowers, "-k", 1, "--covariance", "all", "--columns", "1")
    assert len(one["table"]) == 2
    assert answer("select", flowers, "-k", 1, "--covariance", "vvv")["best"]["covariance"] == "VVV"
    refused = run("select", flowers, "--covariance", "full,round")
    assert refused.exit_code == 2
    assert "'round' is not one of 'full'" in refused.output


def test_criteria_of_standardised_columns_are_in_the_units_of_the_table(flowers, tmp_path):
    options = ("-k", "2-3", "--covariance", "full")
    plain, scaled = answer("select", flowers, *options), answer("select", flowers, *options, "--standardise")
    # Full covariances follow the units: so the fits are the same, and the numbers must be.
    for ours, theirs in zip(plain["table"], scaled["table"], strict=True):
        for name in ("log_likelihood", "bic", "aic", "icl"):
            assert ours[name] == pytest.approx(theirs[name], abs=0.01)
    assert scaled["reason"].startswith("2 full components have the lowest BIC, 574.0")
    fitted = answer("fit", flowers, *options, "--standardise", "--no-report", "-o", tmp_path / "o")
    assert fitted["bic"] == pytest.approx(scaled["table"][0]["bic"], abs=0.01)
    assert fitted["reason"] == scaled["reason"]


def test_bounds_of_pruned_candidates_do_not_depend_on_units(flowers):
    options = ("-k", "1-4", "--covariance", "full,tied_spherical,tied_diag")
    plain, scaled = answer("select", flowers, *options), answer("select", flowers, *options, "--standardise")
    behind = [
        {(row["covariance"], row["components"]): row["dropped"] for row in chosen["table"] if row["dropped"]}
        for chosen in (plain, scaled)
    ]
    both = behind[0].keys() & behind[1].keys() - {("tied_spherical", k) for k in range(5)}
    assert both
    for key in both:
        values = [float(found[key].removeprefix("at least ").split()[0]) for found in behind]
        assert values[0] == pytest.approx(values[1], abs=1.0)


@pytest.mark.parametrize("arguments", [["fit", "-k", 3], ["select"], ["predict", "model.npz"]])
def test_standard_input_needs_a_minus_sign(flowers, arguments):
    result = run(*arguments, stdin=flowers.read_text())
    assert result.exit_code == 2
    assert result.output.startswith("Usage: ")
    assert "standard input" in result.output


def test_help_of_decompose_and_forms_that_begin_with_h():
    assert run("decompose", "-h").output == run("decompose", "--help").output
    assert json.loads(run("decompose", "-h^3 + x^3", "--json").output)["rank"] == 2
    assert json.loads(run("decompose", "--json", "--", "-h").output)["variables"] == ["h"]


def test_without_the_libraries_of_the_report_the_fit_goes_on(flowers, tmp_path, monkeypatch):
    def missing():
        raise ImportError('Reports need jinja2: pip install "apolar[report]".')

    out = tmp_path / "o"
    assert run("fit", flowers, "-k", 2, "-o", out).exit_code == 0
    monkeypatch.setattr("apolar.reports.page.need_report", missing)
    result = run("fit", flowers, "-k", 2, "-o", out)
    assert result.exit_code == 0, result.output
    assert "No report can be written: it needs matplotlib and jinja2, pip install" in result.output
    assert {path.name for path in out.iterdir()} == {"labels.csv", "model.npz"}


def test_the_defaults_of_the_command_line_are_those_of_the_library():
    from apolar.cli import options
    from apolar.reports import analysis, scoring

    assert options.MAX_COMPONENTS == analysis.MAX_COMPONENTS
    assert apolar.GaussianMixture.outliers.__kwdefaults__["level"] == scoring.OUTLIER_LEVEL
