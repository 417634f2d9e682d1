"""`apolar decompose`: a form as a sum of powers of linear forms."""

import json
import math
import re
import sys
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import line
from apolar.cli.errors import BadInput
from apolar.cli.options import METHOD

if TYPE_CHECKING:
    from apolar.decomposition import Certificate, ExactWaring, Waring
    from apolar.tensor import SymmetricTensor

# The most columns of a table in a terminal.
MAX_COLUMNS = 8
# Characters of a fraction in a file.
MAX_DIGITS = 300


class FormCommand(click.Command):
    """A command whose argument may begin with a minus sign: only -h alone asks for help, -h^3 is a form."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments."""
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(
            ctx, ["--help" if arg == "-h" and i < end else arg for i, arg in enumerate(args)]
        )


@click.command(
    cls=FormCommand, context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]}
)
@click.argument("polynomial")
@click.option("--rank", type=click.IntRange(min=1), help="Number of terms; detected by default.")
@click.option(
    "--noise",
    type=click.FloatRange(min=0, min_open=True, max=1, max_open=True),
    help="Relative noise: singular values below it do not count for the rank.",
)
@click.option("--gap", is_flag=True, help="Cut the rank at the largest drop of the singular values.")
@click.option("--method", type=METHOD, default="auto", show_default=True, help="Such as auto, pencil or spm.")
@click.option(
    "--field",
    type=click.Choice(["auto", "real", "complex"]),
    default="auto",
    show_default=True,
    help="Insist on real points, or allow complex ones.",
)
@click.option(
    "--constraint",
    type=click.Choice(["nonnegative", "orthogonal"]),
    help="Only terms with points and weights of at least zero, or with orthonormal points.",
)
@click.option("--no-refine", is_flag=True, help="Leave the terms as the method gives them.")
@click.option(
    "--exact",
    is_flag=True,
    help="Print the terms in rational or algebraic numbers, with a proof.",
)
@click.option("--move", is_flag=True, help="With --exact: move terms of a family to simple points.")
@click.option(
    "--max-degree",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="With --exact: the largest degree of the number field of a single point.",
)
@click.option(
    "--certify", is_flag=True, help="Say what is proved: uniqueness, exact terms near by, the least rank."
)
@click.option("--variables", help="Variables and their order, such as x,y,z.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def decompose(
    polynomial: str,
    rank: int | None,
    noise: float | None,
    gap: bool,
    method: str,
    field: str,
    constraint: str | None,
    no_refine: bool,
    exact: bool,
    move: bool,
    max_degree: int,
    certify: bool,
    variables: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Write a homogeneous POLYNOMIAL as a sum of powers of linear forms.

    POLYNOMIAL is the form itself, or a file: text with the form, a .json
    object such as {"3,0": 1, "1,2": -3}, a .npy array, or - for text on
    standard input.

    \b
    Examples:
      apolar decompose "x^3 - 3*x*y^2"
      apolar decompose "x^3 - 3*x*y^2" --field real
      apolar decompose "2*x^3 + 12*x*y^2" --exact --certify
      apolar decompose form.txt --rank 4 --json

    \b
    Exit code: 0, 1 if no usable decomposition was found, or no exact one
    with --exact, 2 for bad input.
    """
    if sum(option is not None and option is not False for option in (rank, noise, gap)) > 1:
        raise click.UsageError("--rank, --noise and --gap exclude each other.")
    if move and not exact:
        raise click.UsageError("--move belongs to --exact: add it, or leave --move out.")
    from apolar.decomposition import Status, decompose, ranks

    rule: Any = rank
    if noise is not None:
        rule = ranks.tolerance(noise)
    elif gap:
        rule = ranks.gap()
    try:
        tensor, names = _read(polynomial, variables)
        waring = decompose(tensor, rule, method, not no_refine, seed, field=field, constraint=constraint)
    except (ValueError, TypeError, MemoryError) as error:
        raise BadInput(str(error)) from error
    recognised, why_not = _exact_terms(waring, max_degree, move) if exact else (None, "")
    if as_json:
        written = _as_json(waring, tensor, names)
        if exact:
            written["exact"] = None if recognised is None else _exact_as_json(recognised, names)
            written["exact_message"] = why_not
        if certify:
            written["certificate"] = _certificate_as_json(waring.certificate)
        click.echo(json.dumps(written, allow_nan=False))
    else:
        _print(waring, tensor, names)
        if exact:
            told = why_not if recognised is None else _exact_in_words(recognised, names)
            click.echo(line(f"{'exact':>10}  {told}"))
        if certify:
            click.echo(line(f"{'proved':>10}  {waring.certificate.message}"))
    if exact and recognised is None:
        sys.exit(1)
    if waring.status in (Status.DIVERGING, Status.NOT_CONVERGED, Status.RANK_NOT_SETTLED):
        sys.exit(1)


def _certificate_as_json(certificate: "Certificate") -> dict[str, Any]:
    fields = asdict(certificate) | {"message": certificate.message}
    return {name: _number(value) if isinstance(value, float) else value for name, value in fields.items()}


def _exact_terms(waring: "Waring", max_degree: int, move: bool) -> "tuple[ExactWaring | None, str]":
    """Return the exact terms, or None and why there are none, in the words of the command line."""
    try:
        return waring.rationalize(max_degree=max_degree, move=move), ""
    except (ValueError, ImportError) as error:
        return None, str(error)


def _exact_as_json(exact: "ExactWaring", names: list[str]) -> dict[str, Any]:
    return {
        "formula": exact.to_string(names),
        "latex": exact.to_latex(names),
        "rational": exact.is_rational,
        "proved": exact.proved,
    }


def _exact_in_words(exact: "ExactWaring", names: list[str]) -> str:
    proof = "proved by exact arithmetic" if exact.proved else "not proved: the form is in floating point"
    return f"{exact.to_string(names)} ({proof})"


def _read(polynomial: str, variables: str | None) -> "tuple[SymmetricTensor, list[str]]":
    """Return the form and the names of its variables, from the argument or a file."""
    from apolar.tensor import SymmetricTensor, parse_polynomial
    from apolar.tensor.printing import variable_names

    wanted = [name.strip() for name in variables.split(",")] if variables else None
    path = Path(polynomial)
    text = polynomial
    if polynomial == "-":
        text = _without_comments(sys.stdin.read())
    elif _is_file(path):
        if path.suffix == ".npy":
            tensor = SymmetricTensor.from_dense(_load_array(path))
            return tensor, variable_names(tensor.dim, wanted)
        content = _load_text(path)
        if path.suffix == ".json":
            tensor = SymmetricTensor.from_polynomial(_json_terms(content, path))
            return tensor, variable_names(tensor.dim, wanted)
        text = _without_comments(content)
    elif re.fullmatch(r"\S+\.(txt|json|npy|poly)", polynomial):
        raise ValueError(f"There is no file {polynomial}.")
    names = parse_polynomial(text, wanted)[1]
    return SymmetricTensor.from_polynomial(text, variables=names), names


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a polynomial too long for a file name
        return False


def _load_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text.") from error


def _load_array(path: Path) -> Any:
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error}.") from error
    except MemoryError as error:
        raise ValueError(
            f"{path} is not a NumPy array that fits into memory: make the file again."
        ) from error
    except Exception as error:  # damaged bytes make NumPy's parser raise almost anything
        reason = (str(error).splitlines() or ["its header is damaged"])[0][:100].rstrip(".")
        raise ValueError(
            f"{path} is not a NumPy array of numbers: {reason}. Save it again with numpy.save."
        ) from error


def _without_comments(text: str) -> str:
    return " ".join(line.split("#", 1)[0] for line in text.splitlines())


def _json_terms(content: str, path: Path) -> dict[tuple[int, ...], Any]:
    try:
        loaded = json.loads(content)
        return {tuple(int(e) for e in key.split(",")): _json_number(value) for key, value in loaded.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f'{path} must be a JSON object from exponents to numbers, such as {{"3,0": 1, "1,2": "-3/2"}}.'
        ) from error


def _json_number(value: Any) -> float | int | Fraction:
    """Return a number, or a string such as "1/3" or "0.1" as a fraction."""
    if isinstance(value, str) and len(value) < MAX_DIGITS:
        return Fraction(value)
    return value if isinstance(value, int) else float(value)


def _number(value: Any) -> Any:
    """Return a JSON number, a pair [real, imaginary], or null for what is not finite."""
    if isinstance(value, complex):
        return [value.real, value.imag]
    return float(value) if math.isfinite(value) else None


def _as_json(waring: "Waring", tensor: "SymmetricTensor", names: list[str]) -> dict[str, Any]:
    return {
        "order": waring.order,
        "variables": names,
        "rank": waring.rank,
        "rank_source": waring.rank_source,
        "field": "complex" if waring.is_complex else "real",
        "constraint": waring.constraint,
        "weights": [_number(w) for w in waring.weights.tolist()],
        "points": [[_number(x) for x in point] for point in waring.points.tolist()],
        "residual": _number(waring.residual),
        "status": waring.status.name,
        "message": waring.message,
        "method": waring.method,
        "n_iter": waring.n_iter,
        "condition": _number(waring.condition),
        "norm": _number(tensor.norm()),
        "singular_values": [_number(s) for s in waring.singular_values.tolist()],
        "formula": waring.to_string(names, precision=12),
    }


def _print(waring: "Waring", tensor: "SymmetricTensor", names: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    from apolar.tensor.printing import format_number

    console = Console(highlight=False, soft_wrap=True)
    shown = names[:MAX_COLUMNS]
    table = Table(title="T = sum of weight * (point . x)^order", title_justify="left")
    for name in ["weight", *shown, *(["..."] if len(names) > len(shown) else [])]:
        table.add_column(line(name), justify="right", no_wrap=True)
    for weight, point in zip(waring.weights.tolist(), waring.points.tolist(), strict=True):
        cells = [format_number(weight), *(format_number(_rounded(x)) for x in point[: len(shown)])]
        table.add_row(*(line(cell) for cell in cells), *(["..."] if len(names) > len(shown) else []))
    form = tensor.to_string(names)
    console.print(line(f"T = {form if len(form) < 2000 else repr(tensor)}"))
    if waring.rank:
        console.print(table)
        formula = waring.to_string(names)
        if len(formula) < 2000:
            console.print(line(f"  = {formula}"))
    condition = waring.condition
    amplified = (
        "one of a continuous family, or too near to one to tell"
        if math.isinf(condition)
        else f"noise is amplified {condition:.3g} times"
    )
    lines = [
        ("rank", f"{waring.rank} ({waring.rank_source})"),
        ("residual", f"{waring.residual:.2e} of the norm {tensor.norm():.6g}"),
        ("condition", f"{condition:.3g} ({amplified})"),
        ("method", f"{waring.method}, {waring.n_iter} refinement steps"),
        ("status", f"{waring.status.name}: {waring.message}"),
    ]
    for name, value in lines:
        console.print(line(f"{name:>10}  {value}"))


def _rounded(value: Any) -> Any:
    """Return a coordinate of a unit vector without the digits that are rounding."""
    if isinstance(value, complex):
        rounded = complex(round(value.real, 12), round(value.imag, 12))
        return rounded if rounded.imag else rounded.real
    return round(value, 12) + 0.0
