"""Files that are not there, in words; without the libraries that read them."""

import difflib
import os
from pathlib import Path


def not_found(path: Path) -> str:
    """Return what is said of a file that is not there: perhaps one of a similar name is."""
    name = shown_path(path)
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder {shown_path(folder)}: check the name."
    close = difflib.get_close_matches(path.name, names_in(folder), n=3, cutoff=0.7)
    guess = f"did you mean {' or '.join(repr(str(folder / other)) for other in close)}?" if close else ""
    return f"There is no file {name}: {guess or 'check the name and the folder.'}"


def shown_path(path: Path) -> str:
    """Return a path on one line."""
    return str(path) if str(path).isprintable() else repr(str(path))


def names_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder; none if it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []
