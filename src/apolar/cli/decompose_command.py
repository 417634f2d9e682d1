"""`apolar decompose`: a form as a sum of powers of linear forms."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import BadInput, as_number, print_object, say, show_grid
from apolar.cli.options import METHOD, check_sources, json_option, seed_option

if TYPE_CHECKING:
    from apolar.decomposition import Waring
    from apolar.tensor import SymmetricTensor

# The most characters of a formula in a terminal.
MAX_FORMULA = 2000


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
    help="Require non-negative points and weights, or orthonormal points.",
)
@click.option("--no-refine", is_flag=True, help="Leave the terms as the method gives them.")
@click.option("--exact", is_flag=True, help="Print the terms in rational or algebraic numbers, with a proof.")
@click.option("--move", is_flag=True, help="With --exact: move terms of a family to simple points.")
@click.option(
    "--max-degree",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="With --exact: the largest degree of the number field of a single point.",
)
@click.option(
    "--certify", is_flag=True, help="Say what is proved: uniqueness, exact terms nearby, the least rank."
)
@click.option("--variables", help="Variables and their order, such as x,y,z.")
@seed_option
@json_option
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
    """Write a POLYNOMIAL as a sum of powers of linear forms.

    POLYNOMIAL is homogeneous: the form itself, or a file: text with the form, a .json
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
        tensor, names = _read_form(polynomial, variables)
        waring = decompose(tensor, rule, method, not no_refine, seed, field=field, constraint=constraint)
    except TypeError as error:
        raise BadInput(str(error)) from error
    recognised, why_not = None, ""
    if exact:
        try:
            recognised = waring.rationalize(max_degree=max_degree, move=move)
        except ValueError as error:
            why_not = str(error)
    if as_json:
        answer = _as_object(waring, tensor, names)
        if exact:
            answer |= {"exact": None, "exact_message": why_not}
        if recognised is not None:
            answer["exact"] = {
                "formula": recognised.to_string(names),
                "latex": recognised.to_latex(names),
                "rational": recognised.is_rational,
                "proved": recognised.proved,
            }
        if certify:
            fields = {**asdict(waring.certificate), "message": waring.certificate.message}
            answer["certificate"] = {
                name: as_number(value) if isinstance(value, float) else value
                for name, value in fields.items()
            }
        print_object(answer)
    else:
        if recognised is not None:
            proof = "by exact arithmetic" if recognised.proved else "not: the form is in floating point"
            why_not = f"{recognised.to_string(names)} (proved {proof})"
        proved = waring.certificate.message if certify else ""
        _print(waring, tensor, names, {"exact": why_not, "proved": proved})
    if exact and recognised is None:
        sys.exit(1)
    if waring.status in (Status.DIVERGING, Status.NOT_CONVERGED, Status.RANK_NOT_SETTLED):
        sys.exit(1)


# --- reading ----------------------------------------------------------------------------------------


def _read_form(polynomial: str, variables: str | None) -> tuple[SymmetricTensor, list[str]]:
    """Return the form and the names of its variables, from the argument or a file."""
    from apolar.tensor import SymmetricTensor, parse_polynomial
    from apolar.tensor.printing import variable_names

    wanted = [name.strip() for name in variables.split(",")] if variables else None
    form: Any = polynomial
    if polynomial == "-":
        form = _without_comments(sys.stdin.read())
    elif re.fullmatch(r"\S+\.(txt|json|npy|poly)", polynomial) or os.path.isfile(polynomial):
        form = _load_form(Path(polynomial))
    if not isinstance(form, str):
        tensor = form if isinstance(form, SymmetricTensor) else SymmetricTensor.from_polynomial(form)
        return tensor, variable_names(tensor.dim, wanted)
    names = parse_polynomial(form, wanted)[1]
    return SymmetricTensor.from_polynomial(form, variables=names), names


def _load_form(path: Path) -> str | dict[tuple[int, ...], Any] | SymmetricTensor:
    """Return the content of a file: a polynomial, its coefficients by exponents, or a tensor."""
    import numpy as np

    from apolar.tensor import SymmetricTensor

    check_sources([str(path)])
    if path.suffix == ".npy":
        try:
            array = np.load(path, allow_pickle=False)
        except Exception as error:  # damaged bytes make NumPy's parser raise almost anything
            reason = (str(error).splitlines() or ["its header is damaged"])[0][:100].rstrip(".")
            raise BadInput(
                f"{path} is not a NumPy array of numbers: {reason}. Save it again with numpy.save."
            ) from error
        return SymmetricTensor.from_dense(array)
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".json":
            return _without_comments(text)
        terms = json.loads(text)
        return {tuple(map(int, key.split(","))): _from_number(value) for key, value in terms.items()}
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text.") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise BadInput(
            f'{path} must be a JSON object from exponents to numbers, such as {{"3,0": 1, "1,2": "-3/2"}}.'
        ) from error


def _without_comments(text: str) -> str:
    return " ".join(line.split("#", 1)[0] for line in text.splitlines())


def _from_number(value: Any) -> float | int | Fraction:
    """Return a number, or a string such as "1/3" or "0.1" as a fraction."""
    if isinstance(value, str) and "e" not in value.lower():  # the fraction of 1e999999 has a million digits
        return Fraction(value)
    return value if isinstance(value, int) else float(value)


# --- writing ----------------------------------------------------------------------------------------


def _as_object(waring: Waring, tensor: SymmetricTensor, names: list[str]) -> dict[str, Any]:
    return {
        "order": waring.order,
        "variables": names,
        "rank": waring.rank,
        "rank_source": waring.rank_source,
        "field": "complex" if waring.is_complex else "real",
        "constraint": waring.constraint,
        "weights": list(map(as_number, waring.weights.tolist())),
        "points": [list(map(as_number, point)) for point in waring.points.tolist()],
        "residual": as_number(waring.residual),
        "status": waring.status.name,
        "message": waring.message,
        "method": waring.method,
        "n_iter": waring.n_iter,
        "condition": as_number(waring.condition),
        "norm": as_number(tensor.norm()),
        "singular_values": list(map(as_number, waring.singular_values.tolist())),
        "formula": waring.to_string(names, precision=12),
    }


def _print(waring: Waring, tensor: SymmetricTensor, names: list[str], proofs: dict[str, str]) -> None:
    from apolar.tensor.printing import format_number

    form, formula = tensor.to_string(names), waring.to_string(names)
    say(f"T = {form if len(form) < MAX_FORMULA else repr(tensor)}")
    if waring.rank:
        columns = {}
        points = waring.points.round(12) + 0.0  # without the digits that are rounding
        for name, values in zip(names, points.T.tolist(), strict=True):
            columns[name] = [format_number(value if value.imag else value.real) for value in values]
        say("T = sum of weight * (point . x)^order")
        weights = [format_number(weight) for weight in waring.weights.tolist()]
        show_grid({"weight": weights}, columns)
        say(f"  = {formula}" if len(formula) < MAX_FORMULA else "")
    amplified = f"noise is amplified {waring.condition:.3g} times"
    if math.isinf(waring.condition):
        amplified = "the terms belong to a continuous family, up to rounding"
    facts = {
        "rank": f"{waring.rank} ({waring.rank_source})",
        "residual": f"{waring.residual:.2e} of the norm {tensor.norm():.6g}",
        "condition": f"{waring.condition:.3g} ({amplified})",
        "method": f"{waring.method}, {waring.n_iter} refinement steps",
        "status": f"{waring.status.name}: {waring.message}",
        **proofs,
    }
    say(*(f"{name:>10}  {value}" for name, value in facts.items() if value))
