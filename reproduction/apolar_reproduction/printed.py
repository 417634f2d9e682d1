"""What the paper prints in its section 4, and the names of its tables and figures.

A table has two numbers: that of its label in the paper's source, which names it here, and that in print.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Item:
    """A table or a figure.

    Attributes
    ----------
    label : str
        As in the paper's source.
    alias : str
        Another name for it.
    caption : str
    source : str
        The table whose data it shows: for a table, itself.
    size : int
        Of a table of one data set: decimals of the BIC. Of a study: the number of the example. Of a figure:
        the number of columns.
    printed_parameters : int or None
        The number of parameters in the printed BIC, where it is not that of the model.
    """

    label: str
    alias: str
    caption: str
    source: str
    size: int
    printed_parameters: int | None = None


def _table(
    label: str, alias: str, number: int, title: str, size: int, printed_parameters: int | None = None
) -> Item:
    return Item(label, alias, f"{label} (Table {number} in print): {title}", label, size, printed_parameters)


def _figure(number: int, title: str, source: str, n_columns: int) -> Item:
    return Item(f"figure{number}", f"fig{number}", f"Figure {number}: {title}", source, n_columns)


TABLES = {
    item.label: item
    for item in (
        _table("table1", "example1", 1, "One data set of Example 1", 2),
        _table("table2", "example2", 3, "One data set of Example 2", 2),
        _table("table7", "iris", 5, "Iris", 4),
        _table("table8", "diabetes", 6, "Diabetes", 2, printed_parameters=17),
        _table("table9", "olive", 7, "Olive oil", 2, printed_parameters=26),
        _table("table10", "mnist", 8, "MNIST, digits 0 and 1", 1),
    )
}
"""Tables of one data set."""
STUDIES = {
    item.label: item
    for item in (
        _table("table5", "stability1", 2, "Stability of Example 1", 1),
        _table("table6", "stability2", 4, "Stability of Example 2", 2),
    )
}
"""Tables of stability: 20 times 100 data sets of an example."""
FIGURES = {
    item.label: item
    for item in (
        _figure(1, "Example 1, first four columns", "table1", 4),
        _figure(2, "Example 2, first four columns", "table2", 4),
        _figure(3, "MNIST, digits 0 and 1: first five principal components", "table10", 5),
    )
}
"""Scatter-plot matrices."""
_IN_ORDER = (
    *("table1", "figure1", "table5", "table2", "figure2", "table6"),
    *("table7", "table8", "table9", "figure3", "table10"),
)
ITEMS = {label: (TABLES | STUDIES | FIGURES)[label] for label in _IN_ORDER}
"""All of them, in the order of the paper."""

Printed = dict[str, dict[str, float]]
"""The printed values of a table, by method and column."""


def printed_values(label: str) -> Printed:
    """Return the values that the paper prints in a table, by method and column."""
    name = "printed_shares.csv" if label in STUDIES else "printed_scores.csv"
    with resources.files(__package__).joinpath(name).open(encoding="utf-8") as stream:
        return {
            row["method"]: {key: float(row[key]) for key in row if key not in ("table", "method")}
            for row in csv.DictReader(stream)
            if row["table"] == label
        }


def resolve_names(names: tuple[str, ...]) -> list[str]:
    """Return the labels that names stand for, in the order of the paper, each once.

    Parameters
    ----------
    names : tuple of str
        Labels, aliases, or "all".

    Returns
    -------
    labels : list of str
    """
    by_alias = {item.alias: label for label, item in ITEMS.items()}
    wanted: set[str] = set()
    for name in names:
        plain = name.lower().replace(" ", "").replace("_", "")
        label = by_alias.get(plain, plain)
        if label == "all":
            wanted.update(ITEMS)
        elif label in ITEMS:
            wanted.add(label)
        else:
            tables = sorted((*TABLES, *STUDIES), key=lambda known: int(known.removeprefix("table")))
            raise ValueError(
                f"There is no {name!r} in the paper. Choose from {', '.join(tables)} (in the paper's source; "
                f"in print Tables 1, 3, 2, 4, 5-8), {', '.join(FIGURES)}, {', '.join(by_alias)}, or all."
            )
    return [label for label in ITEMS if label in wanted]
