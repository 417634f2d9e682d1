"""`apolar sketch`, `apolar merge` and `apolar fit --sketch`: the sums of a table, and a mixture from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from apolar.cli.console import Bar, line, new_console
from apolar.cli.errors import BadInput
from apolar.cli.options import column_names
from apolar.cli.output import Output
from apolar.cli.text import escaped

if TYPE_CHECKING:
    from apolar import GaussianMixture, MomentSketch, SphericalMixture

# The most columns of means in a terminal.
MOST_COLUMNS = 8
# The `message_` of a model that was made from a sketch.
FROM_MOMENTS = (
    "The mixture comes from the moments of a sketch alone: EM has not run and no likelihood was computed. "
    "To improve it, fit the rows with warm_start and this file."
)


@click.command()
@click.argument("data")
@click.option("--columns", metavar="NAMES", help="Columns to use, by name or number. All numbers by default.")
@click.option("--drop-missing", is_flag=True, help="Leave out rows with missing values.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The file of the sketch."
)
def sketch(data: str, columns: str | None, drop_missing: bool, output: Path) -> None:
    """Keep the sums of a table that determine its moments, and none of its rows.

    Sketches of parts of a table, made anywhere, add up with `apolar merge`, and
    `apolar fit --sketch` fits a mixture to them.

    \b
    Example:
      apolar sketch january.csv -o january.npz

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    from apolar import MomentSketch
    from apolar.cli.tables import read_table

    with Output(output.parent) as files, Bar() as bar:
        bar.begin("reading")
        with read_table(
            data, columns=column_names(columns), drop_missing=drop_missing, progress=bar.reading
        ) as table:
            sums = MomentSketch(table.X.shape[1], feature_names=table.names).update(table.X)
            names = table.names
        files.add(output.name, sums.save)
    shown = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
    click.echo(escaped(f"{sums.n_rows:,} rows, {len(names)} columns ({shown}): {output}"))


@click.command()
@click.argument("sketches", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file of the sum.")
def merge(sketches: tuple[Path, ...], output: Path) -> None:
    """Add up sketches.

    \b
    Example:
      apolar merge january.npz february.npz -o both.npz

    \b
    They must be of the same columns in the same order.
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    total = _loaded(sketches[0])
    for path in sketches[1:]:
        try:
            total = total + _loaded(path)
        except ValueError as error:
            raise BadInput(f"{path} does not add up with {sketches[0]}: {error}") from error
    with Output(output.parent) as files:
        files.add(output.name, total.save)
    click.echo(escaped(f"{total.n_rows:,} rows, {total.n_features} columns: {output}"))


def _loaded(path: Path) -> MomentSketch:
    from apolar import MomentSketch

    try:
        return MomentSketch.load(path)
    except FileNotFoundError as error:
        raise BadInput(f"There is no file {path}.") from error
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise BadInput(str(error)) from error


def fit_sketch(path: Path, components: str, covariance: str | None, output: Path, as_json: bool) -> None:
    """Fit a spherical mixture to a sketch, print it, and write the model."""
    if not components.isdigit() or int(components) < 1:
        raise BadInput(
            f"From a sketch the number of components must be given, such as -k 4, not {components!r}."
        )
    from apolar import mixture_from_moments
    from apolar.mixture.families import family

    if covariance is not None and family(covariance) != family("spherical"):
        raise BadInput(
            f"A sketch determines spherical components only, not {covariance}: leave --covariance out."
        )
    sums = _loaded(path)
    try:
        mixture = mixture_from_moments(sums, int(components))
    except ValueError as error:
        raise BadInput(str(error)) from error
    with Output(output, reads=[str(path)], is_fit=True) as files:
        written = files.add("model.npz", _as_model(mixture, sums).save)
    if as_json:
        result = {
            "columns": list(sums.feature_names or []),
            "weights": mixture.weights.tolist(),
            "means": mixture.means.tolist(),
            "variances": mixture.variances.tolist(),
            "status": mixture.status.name,
            "message": mixture.message,
            "n_rows": sums.n_rows,
            "files": {"model": str(written)},
        }
        click.echo(json.dumps(result, allow_nan=False))
        return
    _print(mixture, sums, written)


def _as_model(mixture: SphericalMixture, sums: MomentSketch) -> GaussianMixture:
    """Return a fitted estimator that holds the mixture."""
    import numpy as np

    from apolar import GaussianMixture
    from apolar.estimator.attributes import set_parameters
    from apolar.mixture.parameters import MixtureParameters

    model = GaussianMixture(mixture.n_components, covariance_type="spherical", init_params="moments")
    weights, means, variances = (a.copy() for a in (mixture.weights, mixture.means, mixture.variances))
    set_parameters(model, MixtureParameters(weights, means, variances))
    # EM has not run, and a likelihood needs the rows.
    model.converged_, model.n_iter_, model.lower_bound_, model.lower_bounds_ = False, 0, float("nan"), []
    model.start_, model.start_notes_ = "moments", []
    model.message_ = FROM_MOMENTS
    if sums.feature_names is not None:
        model.feature_names_in_ = np.array(sums.feature_names, dtype=object)
    model.n_features_in_, model.n_samples_seen_ = mixture.n_features, float(np.float64(sums.n_rows))
    return model


def _print(mixture: SphericalMixture, sums: MomentSketch, written: Path) -> None:
    from rich import box
    from rich.table import Table

    from apolar._core.numbers import figures

    console = new_console()
    console.print(
        line(f"{sums.n_rows:,} rows, {mixture.n_components} spherical components, from moments alone.")
    )
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown = min(mixture.n_features, MOST_COLUMNS)
    dots = ["..."] if mixture.n_features > shown else []
    names = sums.feature_names or [f"x{i + 1}" for i in range(shown)]
    for name in ("component", "weight", "deviation", *names[:shown], *dots):
        grid.add_column(line(name), justify="right")
    for k in range(mixture.n_components):
        means = [figures(mean) for mean in mixture.means[k, :shown]]
        grid.add_row(
            str(k + 1), f"{mixture.weights[k]:.3f}", figures(mixture.variances[k] ** 0.5), *means, *dots
        )
    console.print(grid)
    console.print(line(f"{mixture.status.name}: {mixture.message}"))
    for note in mixture.projected:
        console.print(line(f"Note: {note}."))
    console.print(line(f"model: {written}"))
