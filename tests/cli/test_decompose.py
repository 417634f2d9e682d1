"""Forms from arguments and files, as formulas and JSON, and what is refused."""

import json

import numpy as np
import pytest

import apolar
from cli.commands import run


def test_a_polynomial_gives_a_table_and_a_formula():
    done = run("decompose", "x^3 - 3*x*y^2")
    assert done.exit_code == 0, done.output
    assert "0.5*(x + 1i*y)^3 + 0.5*(x - 1i*y)^3" in done.output
    assert "weight" in done.output
    assert "EXACT" in done.output


def test_json_holds_the_decomposition():
    done = run("decompose", "2*a^3 - 5*(a - b)^3", "--json")
    result = json.loads(done.output)
    assert result["variables"] == ["a", "b"]
    assert (result["rank"], result["status"], result["field"]) == (2, "EXACT", "real")
    tensor = apolar.SymmetricTensor.from_waring(result["weights"], result["points"], result["order"])
    expected = apolar.SymmetricTensor.from_polynomial("2*a^3 - 5*(a - b)^3")
    np.testing.assert_allclose(tensor.coefficients, expected.coefficients, atol=1e-12)


def test_json_writes_complex_numbers_as_pairs_and_infinity_as_null():
    result = json.loads(run("decompose", "x^3 - 3*x*y^2", "--json").output)
    points = np.array(result["points"])
    assert points.shape == (2, 2, 2)
    assert json.loads(run("decompose", "x^2 + y^2", "--json").output)["condition"] is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("form.txt", "# a comment\nx^3\n  - 3*x*y^2  # and another\n"),
        ("form.json", '{"3,0": 1, "1,2": -3}'),
    ],
)
def test_files_are_read(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    assert json.loads(run("decompose", str(path), "--json").output)["rank"] == 2


def test_arrays_and_standard_input_are_read(tmp_path):
    path = tmp_path / "form.npy"
    np.save(path, apolar.SymmetricTensor.from_polynomial("x^3 - 3*x*y^2").to_dense())
    assert json.loads(run("decompose", str(path), "--json").output)["rank"] == 2
    assert json.loads(run("decompose", "-", "--json", stdin="x^3 - 3*x*y^2\n").output)["rank"] == 2


def test_options_reach_the_decomposition():
    assert json.loads(run("decompose", "x^3 - 3*x*y^2", "--field", "real", "--json").output)["rank"] == 3
    assert (
        json.loads(run("decompose", "9*x^3 + y^3 + 0.01*z^3", "--noise", "0.1", "--json").output)["rank"] == 2
    )
    assert json.loads(run("decompose", "9*x^3 + 8*y^3 + 0.01*z^3", "--gap", "--json").output)["rank"] == 2
    listed = run("decompose", "x^3", "--variables", "y,x", "--json")
    assert json.loads(listed.output)["variables"] == ["y", "x"]
    negative = run("decompose", "-x^3 + y^3", "--json")
    assert json.loads(negative.output)["rank"] == 2


def test_no_usable_decomposition_exits_with_1():
    done = run("decompose", "x^2*y", "--rank", "2")
    assert done.exit_code == 1
    assert "DIVERGING" in done.output


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
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message):
    done = run("decompose", *arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


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
    path = tmp_path / name
    path.write_bytes(content)
    done = run("decompose", str(path))
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


def test_a_form_that_no_memory_holds_is_one_line():
    result = run("decompose", " + ".join(f"x{i}^30" for i in range(60)))
    assert result.exit_code == 2
    assert result.output.startswith("Error: A form of degree 30 in 60 variables has 4.49e+23 coefficients;")
    assert result.output.count("\n") == 1


def test_messages_name_options(tmp_path):
    np.save(tmp_path / "complex.npy", np.full((2, 2, 2), 1j))
    done = run("decompose", str(tmp_path / "complex.npy"), "--field", "real")
    assert done.exit_code == 2
    assert "use the field 'complex' or 'auto'" in done.output


def test_a_pickled_array_is_not_loaded(tmp_path):
    path = tmp_path / "pickled.npy"
    np.save(path, np.array([[object()]], dtype=object), allow_pickle=True)
    done = run("decompose", str(path))
    assert done.exit_code == 2
    assert "not a NumPy array of numbers" in done.output


def test_exact_terms_are_printed_with_their_proof():
    done = run("decompose", "2*a^3 + 12*a*b^2", "--exact")
    assert done.exit_code == 0, done.output
    assert "exact  (a + sqrt(2)*b)^3 + (a - sqrt(2)*b)^3 (proved by exact arithmetic)" in done.output
    result = json.loads(run("decompose", "x*y*z", "--exact", "--json").output)
    assert result["exact"]["proved"]
    assert result["exact"]["rational"]
    formula = apolar.SymmetricTensor.from_polynomial(result["exact"]["formula"])
    assert formula == apolar.SymmetricTensor.from_polynomial("x*y*z")


def test_what_is_proved_is_printed():
    done = run("decompose", "2*a^3 + 6*a*b^2", "--certify")
    assert done.exit_code == 0, done.output
    assert "proved  No other terms, as many or fewer, have the same sum" in done.output
    certificate = json.loads(run("decompose", "x*y*z", "--certify", "--json").output)["certificate"]
    assert (certificate["unique"], certificate["rank_lower_bound"]) == (False, 4)
    assert 0 < certificate["radius"] < 1e-10
    assert "Infinitely many others" in certificate["message"]


def test_why_terms_are_not_exact_is_said_with_options(tmp_path):
    path = tmp_path / "form.json"
    path.write_text('{"4,0": "1/3", "3,1": 2, "2,2": "0.1", "1,3": 4, "0,4": 6}')
    done = run("decompose", str(path), "--exact", "--json")
    assert done.exit_code == 1
    assert json.loads(done.output)["exact"] is None
    assert "Use the option `move` for other terms" in json.loads(done.output)["exact_message"]
    moved = json.loads(run("decompose", str(path), "--exact", "--move", "--json").output)
    again = apolar.SymmetricTensor.from_polynomial("x^4/3 + 2*x^3*y + x^2*y^2/10 + 4*x*y^3 + 6*y^4")
    assert moved["exact"]["proved"]
    alone = run("decompose", "x*y*z", "--move")
    assert alone.exit_code == 2
    assert "--move belongs to --exact" in alone.output
    assert moved["norm"] == pytest.approx(again.norm())


def test_a_constraint_is_kept_and_said_in_json():
    result = json.loads(
        run("decompose", "(x + 2*y)^3 + 9*x*y^2", "--constraint", "orthogonal", "--json").output
    )
    assert (result["constraint"], result["status"]) == ("orthogonal", "APPROXIMATE")
    points = np.array(result["points"])
    np.testing.assert_allclose(points @ points.T, np.eye(2), atol=1e-12)
    refused = run("decompose", "x^3 + y^3", "--constraint", "nonnegative", "--no-refine")
    assert refused.exit_code == 2
    assert "enforced by the refinement" in refused.output
