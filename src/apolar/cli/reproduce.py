"""`apolar reproduce`: the paper's tables and figures, with its printed values beside ours."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from apolar.cli.console import Bar, line, new_console
from apolar.cli.errors import BadInput, Interrupted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from apolar.paper.page import Part
    from apolar.paper.study import Study
    from apolar.paper.tables import ComparedTable

# Where `all` goes, unless a folder is given.
FOLDER = "reproduced"


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Folder for the files; made if it is not there. For all: {FOLDER}.",
)
@click.option(
    "--simulations",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Data sets per repeat, of table5 and table6.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Repeats of table5 and table6.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes of table5 and table6; all cores by default."
)
def reproduce(
    names: tuple[str, ...],
    output: Path | None,
    simulations: int,
    repeats: int,
    seed: int,
    jobs: int | None,
) -> None:
    """Make tables and figures of the paper, its printed values beside ours.

    NAME is table1, table2, table5 ... table10 (the labels of the paper's
    source; in print Tables 1, 3, 2, 4, 5-8), figure1, figure2, figure3, a name
    such as iris, or all. Without a name, the list is shown.

    Table5 and table6 are 20 times 100 data sets each: half an hour together on
    two cores, less with --simulations and --repeats. With -o, each data set is
    saved as it is done, and the same command goes on after an interruption.

    \b
    Examples:
      apolar reproduce iris
      apolar reproduce table1 figure1 -o results
      apolar reproduce table5 --simulations 20 --repeats 2
      apolar reproduce all -o results

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    from apolar.paper.printed import STUDIES, resolved

    console = new_console()
    if not names:
        _list(console)
        return
    try:
        labels = resolved(names)
    except ValueError as error:
        raise BadInput(str(error)) from error
    is_all = any(name.lower() == "all" for name in names)
    folder = output or (Path(FOLDER) if is_all else None)
    from apolar import __version__
    from apolar.paper.job import PAGE, reproduced

    callback = Bar()
    try:
        with callback:
            for label, part in reproduced(
                labels,
                folder,
                callback,
                seed=seed,
                n_simulations=simulations,
                n_repeats=repeats,
                n_jobs=jobs,
                summary=(_command(names, simulations, repeats, seed), __version__) if is_all else None,
            ):
                callback.end()
                _print(console, label, part)
    except KeyboardInterrupt as error:
        raise Interrupted(_saved(folder, any(label in STUDIES for label in labels))) from error
    except (ValueError, ImportError) as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise BadInput(f"Cannot write to {folder}: {error.strerror or error}.") from error
    if folder is not None:
        shown = folder / PAGE if is_all else folder
        console.print(line(f"Written to {shown}"))


def _command(names: tuple[str, ...], simulations: int, repeats: int, seed: int) -> str:
    return f"apolar reproduce {' '.join(names)} --simulations {simulations} --repeats {repeats} --seed {seed}"


def _saved(folder: Path | None, is_long: bool) -> str:
    if folder is None:
        remedy = " Give -o DIR to save results as they come." if is_long else ""
        return f"Interrupted; nothing was saved.{remedy}"
    return f"Interrupted. What was done is in {folder}; run the same command to go on."


# --- what is printed -----------------------------------------------------------------------


def _list(console: "Console") -> None:
    from rich.table import Table

    from apolar.paper.printed import ALIASES, FIGURES, LABELS, STUDIES, TABLES

    table = Table(title="apolar reproduce NAME... | all", title_justify="left", box=None, pad_edge=False)
    for name in ("name", "in print", "what it is", "also"):
        table.add_column(name, no_wrap=name != "what it is")
    for label in LABELS:
        also = ", ".join(alias for alias, target in ALIASES.items() if target == label)
        if label in FIGURES:
            table.add_row(label, f"Figure {label[-1]}", FIGURES[label].title, also)
        else:
            printed = TABLES.get(label) or STUDIES[label]
            table.add_row(label, f"Table {printed.number}", printed.title, also)
    console.print(table)


def _print(console: "Console", label: str, part: "Part") -> None:
    from rich.text import Text

    from apolar.paper.printed import caption
    from apolar.paper.study import Study

    if isinstance(part, tuple):
        console.print(Text(f"{caption(label)}: {label}.png, {label}.svg"))
    elif isinstance(part, Study):
        _print_study(console, part)
    else:
        _print_scores(console, part)


def _scored(title: str) -> "Table":
    """Return an empty table of methods, that fits into 80 columns of text."""
    from rich import box
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column("method", no_wrap=True)
    return table


def _print_scores(console: "Console", compared: "ComparedTable") -> None:
    from rich.text import Text

    from apolar.paper.printed import caption
    from apolar.paper.tasks import PREPARATION

    digits = compared.printed.digits
    table = _scored(caption(compared.label))
    for name in ("BIC", "paper", "ARI", "paper", "error", "paper", "s", "paper"):
        table.add_column(name, justify="right", style="dim" if name == "paper" else "", no_wrap=True)
    records = compared.records()
    for position, row in enumerate(records):
        cells = [str(row["method"])]
        for name, places in (("bic", digits), ("ari", 4), ("error_rate", 4), ("time_s", 4)):
            printed = row[f"paper_{name}"]
            cells += [f"{row[name]:.{places}f}", "" if printed is None else f"{printed}"]
        table.add_row(*cells, end_section=position == 3)
    console.print(table)
    console.print(Text(f"Data: {PREPARATION[compared.label]}.\n"))
    if compared.counts():
        counts = _scored(
            f"The printed BIC counts {compared.printed.n_parameters} parameters, not {compared.right_count}"
        )
        for name in ("printed", "ours, printed count", "ours, right count"):
            counts.add_column(name, justify="right")
        for row in compared.counts():
            printed = row["paper_bic"]
            counts.add_row(
                str(row["method"]),
                "" if printed is None else f"{printed}",
                f"{row['bic_printed_count']:.{digits}f}",
                f"{row['bic_right_count']:.{digits}f}",
            )
        console.print(counts)


def _print_study(console: "Console", study: "Study") -> None:
    from rich.text import Text

    from apolar.paper.printed import caption

    table = _scored(caption(study.label))
    for name in ("BIC", "paper", "ARI", "paper", ">= .99", "paper", "error", "paper", "near"):
        table.add_column(name, justify="right", style="dim" if name == "paper" else "", no_wrap=True)
    for position, (method, shares) in enumerate(study.shares.items()):
        printed = study.printed.rows.get(method)
        cells = [method]
        for name in ("bic", "ari", "ari_099", "error_rate"):
            cells += [
                f"{getattr(shares, name).mean:.2f}",
                f"{getattr(printed, name).mean:.2f}" if printed else "",
            ]
        near = "" if shares.near is None else f"{shares.near.mean:.2f}"
        table.add_row(*cells, near, end_section=position == 3)
    console.print(table)
    text = (
        f"Best in per cent of {study.n_repeats} x {study.n_simulations} data sets; >= .99: an ARI so high; "
        "near: a BIC within 1 of the best of all."
    )
    console.print(Text(text + "\n"))
