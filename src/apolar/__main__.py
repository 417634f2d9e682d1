"""The command line, as `apolar` and `python -m apolar`; it needs the packages of the extra `apolar[cli]`."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line, or say what to install."""
    missing = [name for name in ("click", "fastexcel", "polars", "rich") if find_spec(name) is None]
    if missing:
        sys.exit(f"The command line needs {', '.join(missing)}: pip install 'apolar[cli]'")
    from apolar.cli import main as command_line

    command_line(prog_name="apolar")


if __name__ == "__main__":
    main()
