"""What is wrong with a file, in one line: what, where, and what to do."""

from collections.abc import Sequence

# Letters of a cell, and members of a list, that a message shows.
_SHOWN_LETTERS = 40
_SHOWN_MEMBERS = 5


class TableError(ValueError):
    """A problem with the user's file or request; its text is one line that names the remedy."""


def quoted(text: str) -> str:
    """Return a text from a file in quotes, shortened, on one line."""
    return repr(text if len(text) <= _SHOWN_LETTERS else text[: _SHOWN_LETTERS - 1] + "…")


def joined(members: Sequence[str], n_members: int | None = None, *, shown: int = _SHOWN_MEMBERS) -> str:
    """Return "a, b and c", or "a, b and 7 more" if only some members are shown.

    Parameters
    ----------
    members : sequence of str
        At least one; perhaps only the first of them.
    n_members : int, optional
        How many there are; by default the length of `members`.
    shown : int, optional
        The most to show.
    """
    first = list(members[:shown])
    rest = (len(members) if n_members is None else n_members) - len(first)
    if rest:
        return f"{', '.join(first)} and {rest:,} more"
    return first[0] if len(first) == 1 else f"{', '.join(first[:-1])} and {first[-1]}"


def counted(number: int, noun: str) -> str:
    """Return "1 row" or "2,000 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_text(n_bytes: float) -> str:
    """Return a number of bytes as people write it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"
