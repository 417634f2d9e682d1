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
        """Return a name that the table has, whatever its case; refuse others."""
        if param is not None and value == param.default:
            return value
        names = getattr(import_module(self.module), self.table)
        known = {name.lower(): name for name in names}
        if value.lower() not in known:
            self.fail(f"{value!r} is not one of {', '.join(map(repr, names))}.", param, ctx)
        return known[value.lower()]


class Families(NameOf):
    """Covariance families by their names or mclust's codes, one or several with commas; `all` of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a tuple of names that the library knows; refuse others."""
        if isinstance(value, tuple):
            return value
        names = [name.strip() for name in value.split(",")]
        return tuple(
            name if name == ALL else super(Families, self).convert(name, param, ctx) for name in names
        )


FAMILY = NameOf("FORM", "apolar.mixture.families", "FAMILIES")
FAMILIES = Families("FORMS", "apolar.mixture.families", "FAMILIES")
CRITERION = NameOf("NAME", "apolar.scores", "CRITERIA")
METHOD = NameOf("NAME", "apolar.decomposition.methods", "METHODS")


class FractionType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """A number between 0 and 1 that may be omitted; True if it is.

    Parameters
    ----------
    option : str
    purpose : str
        What happens without a value.
    """

    name = "fraction"

    def __init__(self, option: str, purpose: str) -> None:
        self.option, self.purpose = option, purpose

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a number between 0 and 1, or True; refuse others."""
        if value in ("alone", True):
            return True
        try:
            fraction = float(value)
        except ValueError:
            fraction = -1.0
        if not 0 < fraction < 1:
            self.fail(
                f"{value!r}: {self.option} takes a fraction between 0 and 1 (e.g. {self.option}=0.05), or no "
                f"value, after DATA, {self.purpose}.",
                param,
                ctx,
            )
        return fraction

    def as_option(self, metavar: str, help: str) -> Callable[[Command], Command]:
        """Return the option."""
        flag: dict[str, Any] = {"is_flag": False, "flag_value": "alone", "default": None}
        return click.option(self.option, type=self, metavar=metavar, help=help, **flag)


def _add(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command, in this order in its help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


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
            type=FAMILIES,
            multiple=True,
            help="The covariances of the clusters: full, tied, diag, spherical, tied_diag, tied_spherical, "
            f"or mclust's codes such as VVV, EEE, VEV; several with commas, or all. {default_form}",
        ),
        click.option(
            "--criterion",
            type=CRITERION,
            default="bic",
            show_default=True,
            help="What decides among several: bic, aic, icl or evidence.",
        ),
        FractionType("--noise", "to estimate it").as_option(
            "[FRACTION]",
            "Rows may be noise, in no cluster: their label is -1. With a number, the fraction expected.",
        ),
        click.option(
            "--standardise/--no-standardise",
            "--standardize/--no-standardize",
            default=None,
            help="Divide columns by their standard deviations; by default, a sketch in mixed units.",
        ),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True),
    )


outliers_option = FractionType("--outliers", "for 0.05").as_option(
    "[LEVEL]",
    "List the rows that are too far from every cluster. With a number, the probability of any such row "
    "in a table without outliers; 0.05 by default.",
)


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


def column_names(text: str | None) -> list[str] | None:
    """Return the names in a list such as a,b; None for none."""
    return None if text is None else _split_names("--columns", text)


def _split_names(option: str, text: str) -> list[str]:
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not all(names):
        raise BadInput(f"{option} {text!r} has an empty name: write them as a,b,c.")
    return names


def _split_all(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> list[str]:
    """Return the names in all lists of an option that may be repeated."""
    return [name for text in texts for name in _split_names(parameter.opts[0], text)]


_DROP_MISSING = click.option("--drop-missing", is_flag=True, help="Leave out rows with missing values.")
_FORMAT = (
    click.option(
        "--encoding", metavar="NAME", help="The encoding of text, such as latin-1; UTF-8 by default."
    ),
    click.option(
        "--na-values",
        metavar="LIST",
        multiple=True,
        callback=_split_all,
        help="What else stands for a missing value, such as -999 or unknown,refused.",
    ),
    click.option("--sheet", metavar="NAME", help="The sheet of a workbook."),
)
reading_options = _add(_DROP_MISSING, *_FORMAT)
"""Add the options on what files look like: they are parameters of `read_table`."""

table_options = _add(
    click.option(
        "--columns",
        metavar="NAMES",
        help="Columns to use, by name or number: a,b or 1,2, or '\"a,b\",c'. All numbers by default.",
    ),
    _DROP_MISSING,
    click.option(
        "--keep",
        metavar="NAMES",
        multiple=True,
        callback=_split_all,
        help="Columns to use although they are constant, number the rows, have few values or are copies; "
        "all for all of these.",
    ),
    *_FORMAT,
)
"""Add the options on how a table is read, and on its columns."""


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


def check_sources(data: Sequence[str]) -> None:
    """Refuse files that are not there, before libraries are loaded, which takes longer."""
    for source in data:
        if source != "-" and not Path(source).exists():
            raise BadInput(not_found(Path(source)))
    if data.count("-") > 1:
        raise BadInput("Standard input can be read only once: give - once.")


def numbers_of_components(text: str, most: int = MAX_COMPONENTS) -> int | list[int]:
    """Return one number, or several for auto, 2-6 or 2,4,8."""
    if text == "auto":
        return list(range(1, most + 1))
    numbers = sorted({int(number) for number in text.split(",")}) if re.fullmatch(r"\d+(,\d+)*", text) else []
    if ends := re.fullmatch(r"(\d+)-(\d+)", text):
        first, last = int(ends[1]), int(ends[2])
        numbers = [first, last] if last > MAX_NUMBER else list(range(first, last + 1))
    if numbers and numbers[-1] > MAX_NUMBER:
        raise BadInput(f"{text!r} asks for more than {MAX_NUMBER:,} components: ask for fewer.")
    if not numbers or numbers[0] < 1:
        raise BadInput(f"{text!r} is not a number of components: write 4, 2-6, 2,4,8 or auto.")
    return numbers[0] if text.isdecimal() else numbers


def default_folder(data: str) -> Path:
    """Return the folder for the results of a table."""
    stem = "output" if data == "-" else Path(data).name.split(".")[0] or "output"
    return Path(f"apolar-{stem}")
