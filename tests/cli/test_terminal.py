"""Help, and terminals: letters they cannot show, output that is closed, names that would steer them."""

import os
import re
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

from apolar import __main__
from apolar.cli import console, main
from cli.commands import run


def python(code, *arguments, **options):
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout.strip()


def test_the_packages_of_the_extra(monkeypatch):
    """Without them the library works, and the script says what to install."""
    hide = "import sys; sys.modules.update(dict.fromkeys(['click', 'fastexcel', 'polars', 'rich']))"
    python(f"{hide}; import apolar, numpy; apolar.GaussianMixture(1).fit(numpy.eye(3))")
    found = __main__.find_spec
    monkeypatch.setattr(__main__, "find_spec", lambda name: None if name == "polars" else found(name))
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert end.value.code == "The command line needs polars: pip install 'apolar[cli]'"


LOADED = """
import sys
from apolar.cli import main
try:
    main(sys.argv[2:])
except SystemExit as end:
    print(end.code, sorted(set(sys.argv[1].split(",")) & set(sys.modules)))
"""


def test_help_and_mistakes_load_little(flowers, tmp_path):
    # A time would depend on the machine.
    for heavy, arguments in (
        ("numpy,scipy,rich,jinja2,matplotlib", "fit none.csv -k 3"),
        ("numpy", f"fit {flowers} -k zero"),
        ("numpy", "predict none.npz none.csv"),
        ("sklearn", f"fit {flowers} -k 3 --columns nothing"),
    ):
        assert python(LOADED, heavy, *arguments.split(), cwd=tmp_path) == "2 []"


@pytest.mark.parametrize(
    "command", ["example", "fit", "select", "predict", "sketch", "merge", "decompose", "reproduce"]
)
def test_every_command_has_help_with_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"apolar {command} " in result.output


HOSTILE = "\x1b[31mred\x07"


def shell(command, **environment):
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.replace("apolar ", f"{sys.executable} -m apolar ")],
        env=os.environ | environment,
        capture_output=True,
        check=False,
    )


def test_letters_that_a_terminal_cannot_show_are_replaced(flowers, tmp_path):
    ended = shell(
        f"apolar fit {flowers} -k 2 --no-report -o {tmp_path / 'out'}", PYTHONIOENCODING="ascii", LANG="C"
    )
    assert ended.returncode == 0, ended.stderr
    assert b"Means ? standard deviations" in ended.stdout
    assert b"model.npz" in ended.stdout
    assert sorted(os.listdir(tmp_path / "out")) == ["labels.csv", "model.npz"]


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
def test_a_standard_output_that_is_closed(flowers, model, tmp_path):
    closed = shell(f"apolar sketch {flowers} -o {tmp_path / 'a.npz'} >&-")
    assert closed.returncode == 0, closed.stderr
    assert closed.stderr.decode() == f"Standard output was closed; written before: {tmp_path / 'a.npz'}.\n"
    piped = shell(f"apolar fit --sketch {tmp_path / 'a.npz'} -k 1 -o {tmp_path / 'out'} | true")
    assert b"Traceback" not in piped.stderr
    assert (tmp_path / "out" / "model.npz").exists()
    nothing = shell(f"apolar predict {model} {flowers} >&-")
    assert nothing.returncode == 2
    assert nothing.stderr.startswith(b"Error: Standard output is closed")


def test_names_cannot_steer_the_terminal(tmp_path):
    rows = np.random.default_rng(0).standard_normal((30, 2))
    table = tmp_path / f"a{HOSTILE}.csv"
    lines = [f"{HOSTILE},b{HOSTILE}", *(f"{x},{y}" for x, y in rows)]
    table.write_text("\n".join(lines))
    folder = tmp_path / f"out{HOSTILE}"
    sketch_file = folder / "a.npz"
    for arguments in (
        ["fit", table, "-k", 1, "--no-report", "-o", folder],
        ["sketch", table, "-o", sketch_file],
        ["merge", sketch_file, sketch_file, "-o", sketch_file],
        ["fit", "--sketch", sketch_file, "-k", 1, "-o", folder],
        ["select", table, "--components", 1, "--covariance", "diag"],
        ["fit", table, "-k", 1, "--columns", f"c{HOSTILE}"],
        ["fit", tmp_path / f"none{HOSTILE}\nmore", "-k", 1],
        ["predict", folder / "model.npz", f"none{HOSTILE}"],
        ["fit", table, HOSTILE, "-k", 1],
        ["decompose", f"x^2 {HOSTILE}"],
        ["decompose", "x^2", "--variables", f"x,{HOSTILE}"],
        [HOSTILE],
    ):
        result = run(*arguments)
        assert result.exit_code in (0, 2), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert "\x1b" not in result.output
        assert "\x07" not in result.output


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of POSIX")
def test_progress_says_how_many_are_done_and_how_long_is_left(flowers, tmp_path):
    import pty

    terminal, other_end = pty.openpty()
    command = f"{sys.executable} -m apolar fit {flowers} -k 1-9 --no-report -o {tmp_path / 'o'}".split()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, stderr=other_end, stdout=subprocess.PIPE, env=environment) as process:
        os.close(other_end)
        shown = b""
        with suppress(OSError):  # Linux says so that the other end was closed
            while piece := os.read(terminal, 65_536):
                shown += piece
        printed = process.stdout.read()
    os.close(terminal)
    assert process.returncode == 0, shown
    # The number done and the time depend on the machine; the total is nine numbers of 14 families, Gaussian
    # and with long tails.
    assert re.search(rb"fitting .*\d+ of 252 candidates .*\d:\d\d", shown)
    assert b"candidates" not in printed


def test_passes_of_a_fit_are_told_without_a_terminal(flowers, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(console, "SECONDS_OF_LINE", 1e-9)
    arguments = ["fit", str(flowers), "-k", "3", "--no-report", "-o", str(tmp_path / "out")]
    main(arguments, standalone_mode=False)
    out, error = capsys.readouterr()
    told = re.findall(r"^fitting: (\d+) of about (\d+) passes, \d+ s$", error, re.MULTILINE)
    done, expected = np.array(told, dtype=int).T
    assert len(done) > 3
    assert np.all(done <= expected)
    assert done[-1] > done[0]
    assert "of about" not in out
