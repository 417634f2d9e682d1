"""Run every line of docs/mclust.md, those of R in R and those of Python here, and compare what they print.

``python docs/run_mclust_page.py`` needs R with mclust. ``--write`` puts what is printed into the page.
"""

import argparse
import difflib
import doctest
import io
import re
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent / "mclust.md"
BLOCK = re.compile(r"^```(r|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# R prints what a console would, after a line with the number of the command.
RUNNER = """
options(width = 88)
commands <- COMMANDS
for (i in seq_along(commands)) {
  cat("@@command", i, "\\n")
  result <- withVisible(eval(parse(text = commands[[i]]), globalenv()))
  if (result$visible) print(result$value)
}
"""


@dataclass
class Line:
    """A command as it stands on the page, what it should print, and what it does."""

    source: str
    shown: str
    expected: str
    printed: str = ""


def lines_of_r(block):
    """Split a block of R's console into commands and what they print."""
    lines = []
    for text in block.splitlines():
        if text.startswith("> "):
            lines.append(Line(text[2:], text, ""))
        elif text.startswith("+ ") and not lines[-1].expected:
            lines[-1].source += "\n" + text[2:]
            lines[-1].shown += "\n" + text
        else:
            lines[-1].expected += text + "\n"
    return lines


def lines_of_python(block):
    """Split a block of Python's console; the empty line at its end belongs to the last."""
    lines = []
    for example in doctest.DocTestParser().get_examples(block):
        first, *rest = example.source.rstrip("\n").split("\n")
        shown = "\n".join([f">>> {first}", *(f"... {text}" for text in rest)])
        lines.append(Line(example.source, shown, example.want))
    return lines


def run_r(lines):
    """Run all commands in one session of R."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "page.R"
        commands = ",\n".join('r"---(' + line.source + ')---"' for line in lines)
        script.write_text(RUNNER.replace("COMMANDS", f"list(\n{commands}\n)"))
        run = subprocess.run(["Rscript", "--vanilla", script], capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(run.stderr)
    for line, printed in zip(
        lines, re.split(r"^@@command \d+ \n", run.stdout, flags=re.MULTILINE)[1:], strict=True
    ):
        line.printed = printed


def run_python(lines):
    """Run all lines in one namespace."""
    names = {"__name__": "__main__"}
    # The display of a console keeps the last value as builtins._, which doctest does not either.
    shown = sys.displayhook
    sys.displayhook = lambda value: None if value is None else print(repr(value))
    try:
        for line in lines:
            target = io.StringIO()
            with redirect_stdout(target):
                exec(compile(line.source, "<page>", "single"), names)
            line.printed = target.getvalue()
    finally:
        sys.displayhook = shown


def main():
    """Check the page, or write what is printed into it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put what is printed into the page")
    write = parser.parse_args().write
    text = PAGE.read_text()
    blocks = [(m[1], (lines_of_r if m[1] == "r" else lines_of_python)(m[2])) for m in BLOCK.finditer(text)]
    run_r([line for language, lines in blocks if language == "r" for line in lines])
    run_python([line for language, lines in blocks if language == "python" for line in lines])
    if write:
        made = iter(blocks)

        def rewritten(_):
            language, lines = next(made)
            body = "".join(f"{line.shown}\n{kept(line)}" for line in lines)
            return f"```{language}\n{body}" + ("\n" if language == "python" else "") + "```"

        PAGE.write_text(BLOCK.sub(rewritten, text))
    differ = [line for _, lines in blocks for line in lines if not agrees(line)]
    for line in differ:
        print(line.shown)
        print(*difflib.ndiff(line.expected.splitlines(), line.printed.splitlines()), sep="\n")
    for name, language in (("R", "r"), ("Python", "python")):
        print(f"{sum(len(lines) for one, lines in blocks if one == language)} commands of {name} were run.")
    print(f"{len(differ)} print something else than the page says.")
    return bool(differ) and not write


def agrees(line):
    """Return whether a line prints what the page says, up to white space and dots."""
    return doctest.OutputChecker().check_output(line.expected, line.printed, FLAGS)


def kept(line):
    """Return what the page says where that is right, dots and all, and otherwise what is printed."""
    printed = "".join(text.rstrip() + "\n" for text in line.printed.splitlines() if text.strip())
    return line.expected.rstrip("\n") + "\n" * bool(line.expected) if agrees(line) else printed


if __name__ == "__main__":
    sys.exit(main())
