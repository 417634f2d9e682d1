"""What a hostile input may lead to."""

import traceback
from pathlib import Path

import numpy as np

# Errors raised here were meant for the user: the library itself, and scikit-learn's validation of its input.
DELIBERATE = ("apolar", "sklearn/utils")


def refused_on_purpose(error):
    """Check that an error was raised by the library, in words, not by an array operation deep inside."""
    if isinstance(error, np.linalg.LinAlgError):
        raise AssertionError(f"an error of linear algebra reached the user: {error}") from error
    source = Path(traceback.extract_tb(error.__traceback__)[-1].filename).as_posix()
    if not any(f"/{place}/" in source for place in DELIBERATE):
        raise AssertionError(f"an error from {source} reached the user: {error!r}") from error
    assert str(error).strip(), f"{type(error).__name__} without a word"
    assert len(str(error)) < 1000, "a message of more than 1000 characters"


def single_line(error):
    """Check that a message is of one line."""
    if "\n" in str(error):
        raise AssertionError(f"a message of several lines: {error}")
