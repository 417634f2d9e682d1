"""Options and arguments that several commands share."""

import csv
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from apolar.cli.errors import BadInput, not_found

Command = TypeVar("Command", bound=Callable[..., Any])

# More components than this are refused as a mistake.
MAX_NUMBER = 10_000
# The most that `auto` tries, and the level of the rule for outliers, as in the library: without its imports
# a bad number is refused at once.
MAX_COMPONENTS = 9
DEFAULT_LEVEL = 0.05
# In place of the names of all families.
ALL = "all"


class NameOf(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """A name in a table of the library, such as that of the covariance families.

    The table is loaded when a name is to be checked: `--help` must not wait for NumPy.

    Parameters
    ----------
    metavar : str
    module, table : str
        Where the table is.
    """

    name = "name"

    def __init__(self, metavar: str, module: str, table: str) -> None:
        self.metavar, self.module, self.table = metavar, module, table

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """Return how the help calls the value."""
        return self.metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a name that the table has; refuse others."""
        if param is not None and value == param.default:
            return value
        names = getattr(import_module(self.module), self.table)
        if value not in names:
            self.fail(f"{value!r} is not one of {', '.join(map(repr, names))}.", param, ctx)
        return value


class Families(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """Covariance families by their names or mclust's codes, one or several with commas; `all` of them."""

    name = "forms"

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """Return how the help calls the value."""
        return "FORMS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a tuple of names that the library knows; refuse others."""
        if isinstance(value, tuple):
            return value
        from apolar.mixture.families import FAMILIES

        # Codes are in capitals, names in small letters: either is understood in the other.
        known = {name.lower(): name for name in (*FAMILIES, ALL)}
        names = [name.strip() for name in value.split(",")]
        return tuple(known.get(name.lower()) or FAMILY.convert(name, param, ctx) for name in names)


FAMILY = NameOf("FORM", "apolar.mixture.families", "FAMILIES")
FAMILIES = Families()
CRITERION = NameOf("NAME", "apolar.scores", "CRITERIA")
METHOD = NameOf("NAME", "apolar.decomposition.methods", "METHODS")


class Share(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """A number between 0 and 1 that may be left out; `ALONE` if it is.

    Parameters
    ----------
    refusal : str
        What is said of another value, after the value.
    """

    name = "share"
    ALONE = "alone"

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a number between 0 and 1, or True; refuse others."""
        if value in (self.ALONE, True):
            return True
        try:
            share = float(value)
        except ValueError:
            share = -1.0
        if not 0 < share < 1:
            self.fail(f"{value!r} {self.refusal}", param, ctx)
        return share


NOISE = Share("is no share of the rows: write --noise=0.05, or --noise alone after DATA, to have it found.")
LEVEL = Share("is no probability: write --outliers=0.05, or --outliers alone after DATA.")


def mixture_options(components: str | None) -> Callable[[Command], Command]:
    """Return a decorator that adds the options on which mixtures are fitted.

    Parameters
    ----------
    components : str or None
        The default of -k; None if it must be given.
    """
    default_form = "By default all."
    if components is None:
        default_form = "By default full, and with several numbers of clusters the best of all."
    options = (
        click.option(
            *("-k", "--components"),
            default=components,
            show_default=components is not None,
            metavar="K",
            help="How many clusters: 4, 2-6, 2,4,8 or auto.",
        ),
        click.option(
            "--covariance",
            type=FAMILIES,
            multiple=True,
            help="The form of the clusters: full, tied, diag, spherical, tied_diag, tied_spherical, or "
            f"mclust's codes such as VVV, EEE, VEV; several with commas, or all. {default_form}",
        ),
        click.option(
            "--criterion",
            type=CRITERION,
            default="bic",
            show_default=True,
            help="What decides among several: bic, aic, icl or evidence.",
        ),
        click.option(
            "--noise",
            type=NOISE,
            metavar="[SHARE]",
            is_flag=False,
            flag_value=Share.ALONE,
            default=None,
            help="Rows may be noise, in no cluster: their label is -1. With a number, the share expected.",
        ),
        click.option(
            "--standardise/--no-standardise",
            "--standardize/--no-standardize",
            default=None,
            help="Divide columns by their deviations first; by default only of a sketch in mixed units.",
        ),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True),
    )

    def decorated(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def need_data(data: Sequence[str], example: str, missing: str = "Give DATA, a file.") -> None:
    """Refuse a table that is not given, and say how it is.

    Parameters
    ----------
    data : sequence of str
    example : str
        The command that reads standard input.
    missing : str
        What is said first.
    """
    if not data:
        raise click.UsageError(f"{missing} Standard input is read in its place with a -, as in: {example}")


def outliers_option(command: Command) -> Command:
    """Add the option that lists outliers."""
    return click.option(
        "--outliers",
        type=LEVEL,
        metavar="[LEVEL]",
        is_flag=False,
        flag_value=Share.ALONE,
        default=None,
        help="List the rows that are too far from every cluster. With a number, the probability of any such "
        "row in a table without outliers; 0.05 by default.",
    )(command)


def outlier_level(given: bool | float | None) -> float:
    """Return the level of the rule for outliers."""
    return DEFAULT_LEVEL if given is None or given is True else float(given)


def families(given: Sequence[Sequence[str]], n_features: int) -> tuple[str, ...] | str | None:
    """Return the families of all options together: one by its name, several, or None for none."""
    names = tuple(dict.fromkeys(name for part in given for name in part))
    if ALL in names:
        from apolar.mixture.families import FAMILIES, UNIVARIATE

        every = dict.fromkeys(family.name for family in FAMILIES.values())
        names = tuple(UNIVARIATE) if n_features == 1 else tuple(every)
    return names[0] if len(names) == 1 else names or None


def reading_options(command: Command) -> Command:
    """Add the options on what files look like: they are parameters of `read_table`."""
    for option in (
        click.option("--sheet", metavar="NAME", help="The sheet of an Excel workbook."),
        click.option(
            "--na-values",
            metavar="LIST",
            multiple=True,
            callback=_listed,
            help="What else stands for a missing value, such as -999 or unknown,refused.",
        ),
        click.option("--encoding", metavar="NAME", help="Of text: UTF-8 by default, such as latin-1."),
    ):
        command = option(command)
    return command


def table_options(command: Command) -> Command:
    """Add the options on how a table is read, and on its columns."""
    command = reading_options(command)
    for option in (
        click.option(
            "--keep",
            metavar="NAMES",
            multiple=True,
            callback=_listed,
            help="Columns to use although they are constant, number the rows, have few values or are copies; "
            "all for all of these.",
        ),
        click.option("--drop-missing", is_flag=True, help="Leave out rows with missing values."),
        click.option(
            "--columns",
            metavar="NAMES",
            help="Columns to use, by name or number: a,b or 1,2, or '\"a,b\",c'. All numbers by default.",
        ),
    ):
        command = option(command)
    return command


def column_names(text: str | None) -> list[str] | None:
    """Return the names in a list such as a,b; None for none."""
    return None if text is None else _names("--columns", text)


def _names(option: str, text: str) -> list[str]:
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not all(names):
        raise BadInput(f"{option} {text!r} has an empty name: write them as a,b,c.")
    return names


def _listed(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> list[str]:
    """Return the names in all lists of an option that may be repeated."""
    return [name for text in texts for name in _names(parameter.opts[0], text)]


def check_sources(data: tuple[str, ...]) -> None:
    """Refuse files that are not there, before libraries are loaded, which takes longer."""
    for source in data:
        if source != "-" and not Path(source).exists():
            raise BadInput(not_found(Path(source)))
    if data.count("-") > 1:
        raise BadInput("Standard input can be read once only: give - once.")


def numbers_of_components(text: str, most: int = MAX_COMPONENTS) -> int | list[int]:
    """Return one number, or several for auto, 2-6 or 2,4,8."""
    if text == "auto":
        return list(range(1, most + 1))
    one_or_range = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if one_or_range:
        first, last = int(one_or_range[1]), int(one_or_range[2] or one_or_range[1])
        if last > MAX_NUMBER:
            raise BadInput(f"{text!r} asks for more than {MAX_NUMBER:,} components: ask for fewer.")
        if 1 <= first <= last:
            return first if one_or_range[2] is None else list(range(first, last + 1))
    elif re.fullmatch(r"\d+(,\d+)+", text):
        numbers = sorted({int(number) for number in text.split(",")})
        if numbers[0] >= 1 and numbers[-1] <= MAX_NUMBER:
            return numbers
    raise BadInput(f"{text!r} is no number of components: write 4, 2-6, 2,4,8 or auto.")


def default_folder(data: str) -> Path:
    """Return the folder for the results of a table."""
    stem = "output" if data == "-" else Path(data).name.split(".")[0] or "output"
    return Path(f"apolar-{stem}")
