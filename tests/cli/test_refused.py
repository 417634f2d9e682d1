"""Bad input: one line that says what to do, and no files."""

import numpy as np
import pytest

from cli.commands import run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nowhere.csv", "-k", 2], "nowhere.csv"),
        (
            ["fit", "FLOWERS", "-k", "many"],
            "'many' is not a number of components: write 4, 2-6, 2,4,8 or auto.",
        ),
        (["fit", "FLOWERS", "-k", "0"], "'0' is not a number of components"),
        (["fit", "FLOWERS", "-k", 2, "--columns", "petal_lenght"], "petal_length"),
        (["fit", "FLOWERS", "-k", 2, "--columns", "a,,b"], "has an empty name"),
        (["fit", "FLOWERS", "-k", 200], "200"),
        (["fit", "-k", 2], "Give either DATA"),
        (["fit", "FLOWERS", "-k", 2, "--sketch", "x.npz"], "Give either DATA"),
        (["fit", "--sketch", "FLOWERS", "-k", 2], "flowers.csv"),
        (["fit", "--sketch", "x.npz", "-k", "auto"], "There is no file x.npz"),
        (["fit", "--sketch", "x.npz", "-k", "many"], "'many' is not a number of components"),
        (["fit", "--sketch", "x.npz", "-k", 2, "--drop-missing"], "--drop-missing needs the rows"),
        (["predict", "nowhere.npz", "FLOWERS"], "There is no file nowhere.npz: check the name"),
        (["predict", "FLOWERS", "FLOWERS"], "flowers.csv"),
        (["merge", "nowhere.npz", "-o", "OUT"], "There is no file nowhere.npz: check the name"),
        (["sketch", "nowhere.csv", "-o", "OUT"], "nowhere.csv"),
        (["select", "FLOWERS", "--components", "3-1"], "'3-1' is not a number of components"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(flowers, monkeypatch, arguments, message):
    monkeypatch.chdir(flowers.parent)
    before = {path.name for path in flowers.parent.iterdir()}
    result = run(*(flowers if argument == "FLOWERS" else argument for argument in arguments))
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert "Traceback" not in result.output
    error = [line for line in result.output.splitlines() if line.startswith("Error:")]
    assert len(error) == 1
    assert {path.name for path in flowers.parent.iterdir()} == before


def test_equal_rows_are_refused(tmp_path):
    (tmp_path / "equal.csv").write_text("a,b\n" + "1,2\n" * 20)
    for k in (2, "auto"):
        result = run("fit", tmp_path / "equal.csv", "-k", k, "-o", tmp_path / "o")
        assert result.exit_code == 2
        assert "all rows are equal" in result.output


def test_absurd_numbers_of_components(flowers):
    result = run("fit", flowers, "-k", "1-99999999999")
    assert result.exit_code == 2
    assert "asks for more than 10,000 components" in result.output


@pytest.mark.parametrize("command", [["fit", "-k", "1", "--no-report"], ["decompose"]])
def test_a_damaged_header_of_an_array_is_one_line(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.eye(3) + 1)
    sound = (tmp_path / "a.npy").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(sound)
        for place in rng.integers(6, 128, size=rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        (tmp_path / "a.npy").write_bytes(damaged)
        result = run(command[0], "a.npy", *command[1:])
        assert result.exit_code in (0, 1, 2), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), damaged
        if result.exit_code == 2:
            assert result.output.startswith("Error: ")
            assert result.output.count("\n") == 1
