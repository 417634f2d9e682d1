"""Options and arguments that several commands share."""

import csv
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from apolar.cli.console import BadInput, not_found

Command = TypeVar("Command", bound=Callable[..., Any])

# More components than this are refused as a mistake.
MAX_NUMBER = 10_000
# The most that `auto` tries, as in the library: without its imports a bad number is refused at once.
MAX_COMPONENTS = 9
# Instead of the names of all families, and of a number.
ALL = "all"
ALONE = "alone"


class NameOf(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """A name in a table of the library, such as that of the covariance families.

    The table is loaded when a name is checked: `--help` must not wait for NumPy.

    Parameters
    ----------
    module, table : str
        Where the table is.
    """

    name = "name"

    def __init__(self, module: str, table: str) -> None:
        self.module, self.table = module, table

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a name that the table has, whatever its case; refuse others."""
        if param is not None and value == param.default:
            return value
        names = getattr(import_module(self.module), self.table)
        known = {name.lower(): name for name in names}
        if value.lower() not in known:
            self.fail(f"{value!r} is not one of {', '.join(map(repr, names))}.", param, ctx)
        return known[value.lower()]


FAMILY = NameOf("apolar.mixture.families", "FAMILIES")
CRITERION = NameOf("apolar.scores", "CHOICES")
METHOD = NameOf("apolar.decomposition.methods", "METHODS")


class GroupedCommand(click.Command):
    """A command whose help lists its options by what they are about."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings of `SECTIONS`, others at the end."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (*SECTIONS, "Other options")}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                titles = (title for title, names in SECTIONS.items() if param.name in names)
                sections[next(titles, "Other options")].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


SECTIONS = {
    "Clusters": ("components", "covariance", "criterion", "tails", "noise", "standardise", "seed"),
    "Columns and rows": ("columns", "keep", "label_column", "id_column", "drop_missing", "sketch"),
    "What the file looks like": ("encoding", "na_values", "sheet", "header", "skip_rows", "thousands"),
    "Results": ("output", "append", "outliers", "resamples", "report", "no_report", "as_json"),
}
"""The headings of help, and the parameters under each."""


class FractionType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """A number between 0 and 1 that may be omitted; True if it is."""

    name = "fraction"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a number between 0 and 1, or True; refuse others."""
        if value in (ALONE, True):
            return True
        try:
            fraction = float(value)
        except ValueError:
            fraction = -1.0
        if not 0 < fraction < 1:
            option = param.opts[0] if param is not None else ""
            self.fail(
                f"{value!r}: {option} takes a fraction between 0 and 1 (e.g. {option}=0.05), or no value, "
                "after DATA.",
                param,
                ctx,
            )
        return fraction


def _split_names(_: click.Context, parameter: click.Parameter, given: Any) -> list[str] | None:
    """Return the names in a list such as a,b, or in all lists of an option that may be repeated."""
    if given is None:
        return None
    names: list[str] = []
    for text in [given] if isinstance(given, str) else given:
        found = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
        if not all(found):
            raise BadInput(f"{parameter.opts[0]} {text!r} has an empty name: write them as a,b,c.")
        names += found
    return names


def _split_families(ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> list[str]:
    """Return the names of covariance families in all lists of an option."""
    names = _split_names(ctx, parameter, texts) or []
    return [name if name == ALL else FAMILY.convert(name, parameter, ctx) for name in names]


def _add(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command, in this order in its help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


# --- options --------------------------------------------------------------------------------------

seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the random numbers."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
id_option = click.option(
    "--id-column",
    metavar="NAME",
    help="The column that names the rows, to show in the report and the labels.",
)
outliers_option = click.option(
    "--outliers",
    type=FractionType(),
    is_flag=False,
    flag_value=ALONE,
    metavar="[LEVEL]",
    help="List the rows that are too far from every cluster. LEVEL is the probability of listing any row "
    "of a table without outliers; 0.05 by default.",
)

resamples_option = click.option(
    "--resamples",
    type=click.IntRange(min=2),
    metavar="N",
    help="Say how often each cluster comes back in N resamples of the rows: N fits more.",
)


def mixture_options(components: str | None) -> Callable[[Command], Command]:
    """Return a decorator that adds the options on which mixtures are fitted.

    Parameters
    ----------
    components : str or None
        The default of -k; None if it must be given.
    """
    default_family, default_criterion = "Default: all.", ""
    if components is None:
        default_criterion = " By default bic, and with -k auto clusters."
        default_family = "Default: full; if several numbers of clusters are given, the best of all."
    return _add(
        click.option(
            *("-k", "--components"),
            default=components,
            show_default=components is not None,
            metavar="K",
            help="How many clusters: 4, 2-6, 2,4,8 or auto.",
        ),
        click.option(
            "--covariance",
            metavar="FAMILIES",
            multiple=True,
            callback=_split_families,
            help="The family of covariances: full, tied, diag, spherical, tied_diag, tied_spherical, "
            f"or mclust's codes such as VVV, EEE, VEV; several with commas, or all. {default_family}",
        ),
        click.option(
            "--criterion",
            type=CRITERION,
            default=None if components is None else "bic",
            show_default=components is not None,
            help="How the best of several is chosen: bic, aic, icl, evidence, loo, or clusters: those on "
            f"which families agree, after components that overlap are combined.{default_criterion}",
        ),
        click.option(
            "--tails",
            type=click.Choice(["auto", "gaussian", "t"]),
            default="auto",
            show_default=True,
            help="The tails of the clusters: gaussian, t for long ones, or auto to choose.",
        ),
        click.option(
            "--noise",
            type=FractionType(),
            is_flag=False,
            flag_value=ALONE,
            metavar="[FRACTION]",
            help="Allow rows that belong to no cluster: their label is -1. FRACTION is the expected share.",
        ),
        click.option(
            "--standardise/--no-standardise",
            "--standardize/--no-standardize",
            default=None,
            help="Divide columns by their standard deviations; by default only for a sketch in mixed units.",
        ),
        seed_option,
    )


def families(names: Sequence[str], n_features: int) -> tuple[str, ...] | str | None:
    """Return families by their names: one, several, or None for none."""
    names = tuple(dict.fromkeys(names))
    if ALL in names:
        from apolar.mixture.families import FAMILIES, UNIVARIATE

        every = dict.fromkeys(family.name for family in FAMILIES.values())
        names = tuple(UNIVARIATE) if n_features == 1 else tuple(every)
    return names[0] if len(names) == 1 else names or None


# Options on what files look like are parameters of `read_table`.
_DROP_MISSING = click.option("--drop-missing", is_flag=True, help="Leave out rows with missing values.")
_FORMAT = (
    click.option(
        "--encoding", metavar="NAME", help="The encoding of text, such as latin-1; UTF-8 by default."
    ),
    click.option(
        "--na-values",
        metavar="LIST",
        multiple=True,
        callback=_split_names,
        help="Further codes for missing values, such as -999 or unknown,refused.",
    ),
    click.option("--sheet", metavar="NAME", help="The sheet of a workbook."),
    click.option(
        "--header/--no-header",
        default=None,
        help="Whether the first row names the columns; by default it does if its cells are not numbers.",
    ),
    click.option(
        "--skip-rows",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="Lines at the top to skip, such as titles.",
    ),
    click.option(
        "--thousands",
        metavar="SIGN",
        help="The thousands separator, as in 1,200; also read $1,200, 12% and (1,200) as numbers.",
    ),
)
reading_options = _add(
    click.option(
        "--columns",
        metavar="NAMES",
        callback=_split_names,
        help="Columns to use, in the order of the model; by default those with its names.",
    ),
    _DROP_MISSING,
    *_FORMAT,
)
"""Add the options on how a table is read by a model."""

table_options = _add(
    click.option(
        "--columns",
        metavar="NAMES",
        callback=_split_names,
        help="Columns to use, by name or number: a,b or 1,2, or '\"a,b\",c'. All numbers by default.",
    ),
    _DROP_MISSING,
    click.option(
        "--keep",
        metavar="NAMES",
        multiple=True,
        callback=_split_names,
        help="Columns to use even if they are constant, number the rows, have few values or are copies; "
        "all to use every such column.",
    ),
    *_FORMAT,
)
"""Add the options on how a table is read, and on its columns."""


# --- values ---------------------------------------------------------------------------------------


def check_sources(data: Sequence[str]) -> None:
    """Refuse files that are not there, before libraries are loaded, which takes longer."""
    if not data:
        raise click.UsageError("Give DATA: a file, several, a folder, or - to read standard input.")
    for source in data:
        if source != "-" and not Path(source).exists():
            raise BadInput(not_found(Path(source)))
    if list(data).count("-") > 1:
        raise BadInput("Standard input can be read only once: give - once.")


def numbers_of_components(text: str, most: int = MAX_COMPONENTS) -> int | list[int]:
    """Return one number, or several for auto, 2-6 or 2,4,8."""
    if text == "auto":
        return list(range(1, most + 1))
    parts = [re.fullmatch(r"(\d+)(?:-(\d+))?", part) for part in text.split(",")]
    ranges = [range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part]
    if len(ranges) < len(parts) or any(not part or part.start < 1 for part in ranges):
        raise BadInput(f"{text!r} is not a number of components: write 4, 2-6, 2,4,8 or auto.")
    if any(part.stop > MAX_NUMBER + 1 for part in ranges):
        raise BadInput(f"{text!r} asks for more than {MAX_NUMBER:,} components: ask for fewer.")
    numbers = sorted({number for part in ranges for number in part})
    return numbers[0] if text.isdecimal() else numbers


def default_folder(data: str) -> Path:
    """Return the folder for the results of a table."""
    stem = "output" if data == "-" else Path(data).name.split(".")[0] or "output"
    return Path(f"apolar-{stem}")
