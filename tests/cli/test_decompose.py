"""Forms from arguments and files, as formulas and JSON, and what is refused."""

import json

import numpy as np
import pytest

import apolar
from cli.commands import answer, refuse, run, succeed

FORM = "x^3 - 3*x*y^2"


def test_json_holds_the_decomposition():
    result = answer("decompose", "2*a^3 - 5*(a - b)^3")
    assert result["variables"] == ["a", "b"]
    assert (result["rank"], result["status"], result["field"]) == (2, "EXACT", "real")
    tensor = apolar.SymmetricTensor.from_waring(result["weights"], result["points"], result["order"])
    expected = apolar.SymmetricTensor.from_polynomial("2*a^3 - 5*(a - b)^3")
    np.testing.assert_allclose(tensor.coefficients, expected.coefficients, atol=1e-12)
    # Complex numbers are pairs, and infinity is null.
    assert np.array(answer("decompose", FORM)["points"]).shape == (2, 2, 2)
    assert answer("decompose", "x^2 + y^2")["condition"] is None


def test_files_and_standard_input_are_read(tmp_path):
    (tmp_path / "form.txt").write_text("# a comment\nx^3\n  - 3*x*y^2  # and another\n")
    (tmp_path / "form.json").write_text('{"3,0": 1, "1,2": -3}')
    np.save(tmp_path / "form.npy", apolar.SymmetricTensor.from_polynomial(FORM).to_dense())
    for name in ("form.txt", "form.json", "form.npy"):
        assert answer("decompose", tmp_path / name)["rank"] == 2
    assert answer("decompose", "-", stdin=f"{FORM}\n")["rank"] == 2


def test_options_reach_the_decomposition():
    assert answer("decompose", FORM, "--field", "real")["rank"] == 3
    assert answer("decompose", "9*x^3 + y^3 + 0.01*z^3", "--noise", "0.1")["rank"] == 2
    assert answer("decompose", "9*x^3 + 8*y^3 + 0.01*z^3", "--gap")["rank"] == 2
    assert answer("decompose", "x^3", "--variables", "y,x")["variables"] == ["y", "x"]
    done = run("decompose", "x^2*y", "--rank", "2")
    assert done.exit_code == 1
    assert "DIVERGING" in done.output


def test_forms_that_begin_with_a_minus_sign():
    assert answer("decompose", "-x^3 + y^3")["rank"] == 2
    assert run("decompose", "-h").output == run("decompose", "--help").output
    assert answer("decompose", "-h^3 + x^3")["rank"] == 2
    assert json.loads(run("decompose", "--json", "--", "-h").output)["variables"] == ["h"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x^3 + y"], "not homogeneous"),
        (["missing.txt"], "There is no file missing.txt"),
        (["x^3 +"], "Cannot read the polynomial"),
        (["x^3 + y^3", "--rank", "0"], "0 is not in the range"),
        (["x^3 + y^3", "--rank", "9"], "no form of degree 3"),
        (["x^3 + y^3", "--rank", "2", "--gap"], "exclude each other"),
        (["x^3 + y^3", "--method", "als"], "'als' is not one of"),
        (["x^3", "--variables", "y"], "not listed: x"),
        (["x^3", "--variables", "x,,y"], "empty name"),
        (["x*y*z", "--move"], "--move belongs to --exact"),
        (["x^3 + y^3", "--constraint", "nonnegative", "--no-refine"], "enforced by the refinement"),
        ([" + ".join(f"x{i}^30" for i in range(60))], "has 4.49e+23 coefficients;"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    assert message in refuse("decompose", *arguments)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.json", b"[1, 2]", "JSON object from exponents"),
        ("bad.json", b'{"3,x": 1}', "JSON object from exponents"),
        ("bad.npy", b"not an array", "not a NumPy array"),
        ("bad.txt", b"\xff\xfe\x00", "not UTF-8 text"),
        ("empty.txt", b"", "empty"),
    ],
)
def test_bad_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert message in refuse("decompose", tmp_path / name)
    np.save(tmp_path / "a.npy", np.full((2, 2, 2), 1j))
    assert "use the field 'complex' or 'auto'" in refuse("decompose", tmp_path / "a.npy", "--field", "real")


def test_exact_terms_and_what_is_proved():
    said = succeed("decompose", "2*a^3 + 12*a*b^2", "--exact", "--certify")
    assert "exact (a + sqrt(2)*b)^3 + (a - sqrt(2)*b)^3 (proved by exact arithmetic)" in said
    assert "proved No other sum of at most" in said
    result = answer("decompose", "x*y*z", "--exact", "--certify")
    assert result["exact"]["proved"]
    assert result["exact"]["rational"]
    formula = apolar.SymmetricTensor.from_polynomial(result["exact"]["formula"])
    assert formula == apolar.SymmetricTensor.from_polynomial("x*y*z")
    certificate = result["certificate"]
    assert (certificate["unique"], certificate["rank_lower_bound"]) == (False, 4)
    assert 0 < certificate["radius"] < 1e-10
    assert "Infinitely many others" in certificate["message"]


def test_why_terms_are_not_exact_is_said_with_options(tmp_path):
    path = tmp_path / "form.json"
    path.write_text('{"4,0": "1/3", "3,1": 2, "2,2": "0.1", "1,3": 4, "0,4": 6}')
    done = run("decompose", path, "--exact", "--json")
    assert done.exit_code == 1
    assert json.loads(done.output)["exact"] is None
    assert "Use the option `move`" in json.loads(done.output)["exact_message"]
    moved = answer("decompose", path, "--exact", "--move")
    again = apolar.SymmetricTensor.from_polynomial("x^4/3 + 2*x^3*y + x^2*y^2/10 + 4*x*y^3 + 6*y^4")
    assert moved["exact"]["proved"]
    assert moved["norm"] == pytest.approx(again.norm())


def test_a_constraint_is_kept_and_said_in_json():
    result = answer("decompose", "(x + 2*y)^3 + 9*x*y^2", "--constraint", "orthogonal")
    assert (result["constraint"], result["status"]) == ("orthogonal", "APPROXIMATE")
    points = np.array(result["points"])
    np.testing.assert_allclose(points @ points.T, np.eye(2), atol=1e-12)
