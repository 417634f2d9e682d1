"""What the paper prints in its section 4, and the names of its tables and figures.

Tables have two numbers: that of their label in the paper's source, by which we name them, and that in print.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scores:
    """A row of a table of one data set, as printed; BIC as mclust has it, the larger the better."""

    bic: float
    ari: float
    error_rate: float
    time_s: float


@dataclass(frozen=True)
class Share:
    """How often a method was best, in per cent: the mean of 20 percentages, and their variance."""

    mean: float
    variance: float


@dataclass(frozen=True)
class Shares:
    """A row of a table of stability: in how many data sets a method was best.

    `near` is not in the paper: how often the BIC was within 1 of the best of all methods.
    """

    bic: Share
    ari: Share
    ari_099: Share
    error_rate: Share
    near: Share | None = None


@dataclass(frozen=True)
class PrintedTable:
    """One of the paper's tables of one data set.

    Attributes
    ----------
    label : str
        As in the paper's source.
    number : int
        As in print.
    title : str
    rows : dict of str to Scores
        By method.
    digits : int
        Decimals of the BIC.
    n_parameters : int or None
        The number of parameters in the printed BIC, where it is not that of the model.
    """

    label: str
    number: int
    title: str
    rows: dict[str, Scores]
    digits: int = 2
    n_parameters: int | None = None


@dataclass(frozen=True)
class PrintedStudy:
    """One of the paper's tables of stability: 20 times 100 data sets of an example."""

    label: str
    number: int
    title: str
    example: int
    rows: dict[str, Shares]


@dataclass(frozen=True)
class PrintedFigure:
    """One of the paper's scatter-plot matrices, and the table whose data it shows."""

    label: str
    title: str
    table: str
    n_columns: int


def _scores(em_km: tuple[float, ...], *others: tuple[float, ...]) -> dict[str, Scores]:
    rows = zip(("em_km", "em_mom", "em_mbhc", "em_emEM"), (em_km, *others), strict=True)
    return {method: Scores(*row) for method, row in rows}


def _shares(
    em_km: tuple[tuple[float, float], ...], *others: tuple[tuple[float, float], ...]
) -> dict[str, Shares]:
    rows = zip(("em_km", "em_mom", "em_mbhc", "em_emEM"), (em_km, *others), strict=True)
    return {method: Shares(*(Share(*cell) for cell in row)) for method, row in rows}


# [khouja2022moments, section 4]: BIC, ARI, error rate, seconds.
TABLES = {
    table.label: table
    for table in (
        PrintedTable(
            "table1",
            1,
            "One data set of Example 1",
            _scores(
                (-29590.48, 0.8281, 0.168, 0.045),
                (-29492.11, 1.0, 0.0, 0.547),
                (-29594.97, 0.8574, 0.099, 0.287),
                (-29593.18, 0.8366, 0.132, 0.171),
            ),
        ),
        PrintedTable(
            "table2",
            3,
            "One data set of Example 2",
            _scores(
                (-28360.30, 0.4352, 0.309, 0.051),
                (-28246.02, 0.9498, 0.03, 0.504),
                (-28358.67, 0.3197, 0.384, 0.292),
                (-28360.42, 0.4408, 0.296, 0.141),
            ),
        ),
        PrintedTable(
            "table7",
            5,
            "Iris",
            _scores(
                (-1227.6656, 0.6199, 0.167, 0.007),
                (-1227.6676, 0.6410, 0.153, 0.203),
                (-1227.6696, 0.6199, 0.167, 0.007),
                (-1227.6495, 0.6302, 0.160, 0.045),
            ),
            digits=4,
        ),
        PrintedTable(
            "table8",
            6,
            "Diabetes",
            _scores(
                (-5363.06, 0.3371, 0.289, 0.007),
                (-5222.11, 0.6355, 0.144, 0.380),
                (-5221.32, 0.6355, 0.144, 0.008),
                (-5221.33, 0.6207, 0.151, 0.049),
            ),
            n_parameters=17,
        ),
        PrintedTable(
            "table9",
            7,
            "Olive oil",
            _scores(
                (-10948.64, 0.4018, 0.262, 0.021),
                (-10946.46, 0.4532, 0.210, 0.508),
                (-10625.59, 0.5003, 0.185, 0.080),
                (-10948.72, 0.4040, 0.260, 0.087),
            ),
            n_parameters=26,
        ),
        PrintedTable(
            "table10",
            8,
            "MNIST, digits 0 and 1",
            _scores(
                (-384977.3, 0.9304, 0.017, 0.537),
                (-384978.2, 0.9308, 0.017, 1.87),
                (-382746.2, 0.2445, 0.252, 543.4),
                (-384977.6, 0.9301, 0.0177655, 1.80),
            ),
            digits=1,
        ),
    )
}

# Per cent of the data sets in which a method was best: BIC, ARI, ARI >= 0.99, error rate.
STUDIES = {
    study.label: study
    for study in (
        PrintedStudy(
            "table5",
            2,
            "Stability of Example 1",
            1,
            _shares(
                ((38.35, 37.82), (47.6, 21.41), (48.85, 21.61), (47.6, 21.2)),
                ((74.8, 41.01), (88.75, 15.36), (83.4, 18.36), (88.60, 14.46)),
                ((10.75, 12.41), (15.9, 17.57), (15.55, 22.99), (15.9, 19.46)),
                ((7.3, 8.43), (14.5, 8.05), (12.6, 17.83), (14.95, 7.52)),
            ),
        ),
        PrintedStudy(
            "table6",
            4,
            "Stability of Example 2",
            2,
            _shares(
                ((0.45, 0.576), (0.05, 0.05), (0.0, 0.0), (0.1, 0.095)),
                ((50.0, 18.63), (92.35, 9.82), (0.0, 0.0), (92.1, 7.46)),
                ((49.35, 19.82), (2.45, 3.63), (0.0, 0.0), (2.45, 2.58)),
                ((0.3, 0.326), (5.2, 4.48), (0.0, 0.0), (5.9, 5.36)),
            ),
        ),
    )
}

FIGURES = {
    figure.label: figure
    for figure in (
        PrintedFigure("figure1", "Example 1, first four columns", "table1", 4),
        PrintedFigure("figure2", "Example 2, first four columns", "table2", 4),
        PrintedFigure("figure3", "MNIST, digits 0 and 1: first five principal components", "table10", 5),
    )
}

ALIASES = {
    "example1": "table1",
    "example2": "table2",
    "stability1": "table5",
    "stability2": "table6",
    "iris": "table7",
    "diabetes": "table8",
    "olive": "table9",
    "mnist": "table10",
    "fig1": "figure1",
    "fig2": "figure2",
    "fig3": "figure3",
}
"""Other names for tables and figures."""

# In the order of the paper.
LABELS = (
    "table1",
    "figure1",
    "table5",
    "table2",
    "figure2",
    "table6",
    "table7",
    "table8",
    "table9",
    "figure3",
    "table10",
)


def caption(label: str) -> str:
    """Return what a table or figure is called: its label, its number in print, its title."""
    if label in FIGURES:
        return f"Figure {label.removeprefix('figure')}: {FIGURES[label].title}"
    table = TABLES[label] if label in TABLES else STUDIES[label]
    return f"{label} (Table {table.number} in print): {table.title}"


def resolved(names: tuple[str, ...]) -> list[str]:
    """Return the labels that names stand for, in the order of the paper, each once.

    Parameters
    ----------
    names : tuple of str
        Labels, aliases, or "all".

    Returns
    -------
    labels : list of str
    """
    wanted: set[str] = set()
    for name in names:
        plain = name.lower().replace(" ", "").replace("_", "")
        label = ALIASES.get(plain, plain)
        if label == "all":
            wanted.update(LABELS)
        elif label in LABELS:
            wanted.add(label)
        else:
            tables = sorted((*TABLES, *STUDIES), key=lambda known: int(known.removeprefix("table")))
            raise ValueError(
                f"There is no {name!r} in the paper. Choose from {', '.join(tables)} (in the paper's source; "
                f"in print Tables 1, 3, 2, 4, 5-8), {', '.join(FIGURES)}, {', '.join(ALIASES)}, or all."
            )
    return [label for label in LABELS if label in wanted]
