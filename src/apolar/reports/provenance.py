"""How an analysis was made, what its rows are called, and how to make it with other options."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Any

from apolar._core.arrays import Array

# The options of the command line that a change replaces.
_OPTIONS = {"k": ("-k", "--components"), "criterion": ("--criterion",), "columns": ("--columns",)}


@dataclass(frozen=True)
class Provenance:
    """How an analysis was made: enough to repeat it.

    Attributes
    ----------
    source : str
    command : str
    seed : int or None
    n_dropped : int
        Rows left out because of missing values.
    notes : tuple of str
        What was noticed about the columns and what was done, a sentence each.
    row_numbers : ndarray of int, shape (n_samples,), or None
        The numbers of the rows in the file, from 0; None if no row was dropped.
    title : str
        Of the page; by default from the source.
    is_python : bool
        Whether the page was made from Python, of a mixture that was fitted before.
    row_names : ndarray of str, shape (n_samples,), or None
        What the rows are called, if a column says so.
    categories : dict
        By name, columns that did not take part and have few different values, as strings.
    model_file : str
        Where the model was written, for new rows; empty if it was not.
    """

    source: str
    command: str
    seed: int | None
    n_dropped: int = 0
    notes: tuple[str, ...] = ()
    row_numbers: Array | None = None
    title: str = ""
    is_python: bool = False
    row_names: Array | None = None
    categories: dict[str, Array] = field(default_factory=dict)
    model_file: str = ""

    def command_with(self, **changes: Any) -> str:
        """Return the command with other options, or lines of Python; empty if there is none.

        Parameters
        ----------
        **changes : object
            `k`, such as "4", "2-6" or "auto"; `criterion`; `columns`, a list; `noise`, `drop_missing`, bools.
        """
        if self.is_python:
            return _python_with(**changes)
        words = shlex.split(self.command)
        if words[:2] != ["apolar", "fit"]:
            return ""
        for name, value in changes.items():
            if isinstance(value, bool):
                option = f"--{name.replace('_', '-')}"
                words = [word for word in words if not word.startswith(option)] + [option] * value
                continue
            short, *_ = options = _OPTIONS[name]
            listed = (
                ",".join(f'"{each}"' if "," in each else each for each in value)
                if name == "columns"
                else value
            )
            words = [*_without(words, options), short, listed]
        return shlex.join(words)

    @property
    def prediction(self) -> str:
        """The command that assigns new rows to the clusters; empty if no model was written."""
        if self.is_python:
            return "model.predict(new_rows)"
        return shlex.join(["apolar", "predict", self.model_file, "NEW.csv"]) if self.model_file else ""


def _without(words: list[str], options: tuple[str, ...]) -> list[str]:
    """Return the words of a command without some options and their values."""
    left: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif word in options:
            skips = True
        elif not word.startswith(tuple(f"{option}=" for option in options)):
            left.append(word)
    return left


def _python_with(**changes: Any) -> str:
    """Return lines of Python that fit a mixture of X in another way."""
    k, criterion, columns = changes.get("k"), changes.get("criterion"), changes.get("columns")
    rows = "X" if columns is None else f"X[{columns!r}]"
    rows = "X[~np.isnan(X).any(axis=1)]" if changes.get("drop_missing") else rows
    others = [f"criterion={criterion!r}"] if criterion else []
    if k is not None and k.isdecimal():
        return f"apolar.GaussianMixture({k}).fit({rows})"
    if k is not None and "-" in k:
        least, most = map(int, k.split("-"))
        others.insert(0, f"range({least}, {most + 1})")
    if changes.get("noise"):
        others.append("noise=True")
    return f"apolar.select({', '.join([rows, *others])}).best"
