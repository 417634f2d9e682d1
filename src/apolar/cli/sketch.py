"""`apolar sketch`, `apolar merge` and `apolar fit --sketch`: the sums of a table, and a mixture from them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import Bar, line, new_console
from apolar.cli.errors import BadInput
from apolar.cli.messages import in_options
from apolar.cli.options import check_sources, column_names, table_options
from apolar.cli.output import Output
from apolar.cli.paths import not_found
from apolar.cli.text import escaped

if TYPE_CHECKING:
    from apolar import GaussianMixture, MomentSketch, SphericalMixture
    from apolar._core.arrays import Array

# What is left out of a sketch: what is constant, or a copy, may not be so in other parts of the table.
LEFT_OUT = ("counter", "few values")
# The most columns of means in a terminal.
MOST_COLUMNS = 8
# Deviations that differ by more than this are taken to be of columns in different units: those of the lengths
# of iris differ by a factor of 4, those of the contents of olive oils by 31, of wines by 2,500.
MIXED_UNITS = 10
# The `message_` of a model that was made from a sketch.
FROM_MOMENTS = (
    "The mixture comes from the moments of a sketch alone: EM has not run and no likelihood was computed. "
    "To improve it, fit the rows with warm_start and this file."
)


@click.command()
@click.argument("data", nargs=-1, required=True)
@table_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The file of the sketch."
)
def sketch(
    data: tuple[str, ...], columns: str | None, drop_missing: bool, output: Path, **reading: Any
) -> None:
    """Keep the sums of a table that determine its moments, and none of its rows.

    Sketches of parts of a table, made anywhere, add up with `apolar merge`, and
    `apolar fit --sketch` fits a mixture to them.

    \b
    Example:
      apolar sketch january.csv -o january.npz

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    check_sources(data)
    from apolar import MomentSketch
    from apolar.cli.tables import read_table

    with Output(output.parent) as files, Bar() as bar:
        bar.begin("reading")
        with read_table(
            data,
            columns=column_names(columns),
            drop_missing=drop_missing,
            leave_out=LEFT_OUT,
            progress=bar.reading,
            **reading,
        ) as table:
            sums = MomentSketch(table.X.shape[1], feature_names=table.names).update(table.X)
            names = table.names
        files.add(output.name, sums.save)
    for note in table.notes:
        click.echo(escaped(note))
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
    if not path.exists():
        raise BadInput(not_found(path))
    from apolar import MomentSketch

    try:
        return MomentSketch.load(path)
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise BadInput(str(error)) from error


@dataclass(frozen=True, eq=False)
class SketchFit:
    """A mixture fitted to a sketch, in the units of the table.

    Attributes
    ----------
    mixture : SphericalMixture
        Of the columns divided by their units.
    units : ndarray, shape (n_features,)
        Ones if they were not divided.
    names : tuple of str
    n_rows : int
    notes : tuple of str
        What was done about the columns.
    """

    mixture: SphericalMixture
    units: Array
    names: tuple[str, ...]
    n_rows: int
    notes: tuple[str, ...]

    @property
    def is_standardised(self) -> bool:
        """Whether columns were divided by their deviations."""
        return bool((self.units != 1).any())

    @property
    def means(self) -> Array:
        """The means, shape (n_components, n_features)."""
        return self.mixture.means * self.units

    @property
    def variances(self) -> Array:
        """The variances: shape (n_components,), or (n_components, n_features) of standardised columns."""
        variances = self.mixture.variances
        return variances[:, None] * self.units**2 if self.is_standardised else variances

    def as_model(self) -> GaussianMixture:
        """Return a fitted estimator that holds the mixture."""
        import numpy as np

        from apolar import GaussianMixture
        from apolar.estimator.attributes import set_parameters
        from apolar.mixture.parameters import MixtureParameters

        kind = "diag" if self.is_standardised else "spherical"
        model = GaussianMixture(self.mixture.n_components, covariance_type=kind, init_params="moments")
        weights, means, variances = (a.copy() for a in (self.mixture.weights, self.means, self.variances))
        set_parameters(model, MixtureParameters(weights, means, variances))
        # EM has not run, and a likelihood needs the rows.
        model.converged_, model.n_iter_, model.lower_bound_, model.lower_bounds_ = False, 0, float("nan"), []
        model.start_, model.start_notes_ = "moments", []
        model.message_ = FROM_MOMENTS
        if self.names:
            model.feature_names_in_ = np.array(self.names, dtype=object)
        model.n_features_in_, model.n_samples_seen_ = self.mixture.n_features, float(np.float64(self.n_rows))
        return model


def fit_sketch(
    path: Path,
    components: str,
    covariance: str | None,
    output: Path,
    as_json: bool,
    standardise: bool | None = None,
) -> None:
    """Fit a spherical mixture to a sketch, print it, and write the model."""
    if not components.isdigit() or int(components) < 1:
        raise BadInput(
            f"From a sketch the number of components must be given, such as -k 4, not {components!r}."
        )
    if covariance is not None and not _is_spherical(covariance):
        raise BadInput(
            f"A sketch determines spherical components only, not {covariance}: leave --covariance out."
        )
    sums = _loaded(path)
    try:
        fitted = _fitted(sums, int(components), standardise)
    except ValueError as error:
        raise BadInput(str(error)) from error
    with Output(output, reads=[str(path)], is_fit=True) as files:
        written = files.add("model.npz", fitted.as_model().save)
    if not as_json:
        _print(fitted, written)
        return
    mixture = fitted.mixture
    result = {
        "columns": list(fitted.names),
        "notes": list(fitted.notes),
        "standardised": fitted.is_standardised,
        "weights": mixture.weights.tolist(),
        "means": fitted.means.tolist(),
        "variances": fitted.variances.tolist(),
        "status": mixture.status.name,
        "message": in_options(mixture.message),
        "n_rows": fitted.n_rows,
        "files": {"model": str(written)},
    }
    click.echo(json.dumps(result, allow_nan=False))


def _is_spherical(covariance: str) -> bool:
    from apolar.mixture.families import family

    return family(covariance) == family("spherical")


def _fitted(sums: MomentSketch, n_components: int, standardise: bool | None) -> SketchFit:
    """Fit a mixture to the columns of a sketch that vary, in units of their deviations where these differ."""
    import numpy as np

    from apolar import mixture_from_moments
    from apolar.moments.covariance import is_constant

    moments, names, notes = sums.central(), sums.feature_names or (), []
    varies = ~is_constant(moments.mean, np.diag(moments.covariance))
    if names and not varies.all() and varies.any():
        constant = [name for name, is_used in zip(names, varies, strict=True) if not is_used]
        shown = ", ".join(map(repr, constant[:5])) + ", ..." * (len(constant) > 5)
        notes.append(f"Constant columns, left out: {shown}.")
        names = tuple(name for name, is_used in zip(names, varies, strict=True) if is_used)
        moments = moments.of_columns(np.flatnonzero(varies).tolist())
    deviations = np.sqrt(np.diag(moments.covariance))
    factor = deviations.max() / deviations.min() if deviations.min() > 0 else 1.0
    if standardise is None:
        standardise = bool(factor > MIXED_UNITS) and moments.frame is None
        if standardise:
            notes.append(
                f"Columns were divided by their deviations, which differ by a factor of {factor:,.0f}; "
                "--no-standardise leaves them."
            )
    units = deviations if standardise else np.ones(len(deviations))
    if not (units > 0).all():
        raise ValueError("A constant column cannot be standardised: make the sketch without it.")
    mixture = mixture_from_moments(moments.divided(units) if standardise else moments, n_components)
    return SketchFit(mixture, units, names, sums.n_rows, tuple(notes))


def _print(fitted: SketchFit, written: Path) -> None:
    from rich import box
    from rich.table import Table

    from apolar._core.numbers import figures

    console, mixture = new_console(), fitted.mixture
    for note in fitted.notes:
        console.print(line(note))
    round_ = "" if fitted.is_standardised else "spherical "
    console.print(
        line(f"{fitted.n_rows:,} rows, {mixture.n_components} {round_}components, from moments alone.")
    )
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown = min(mixture.n_features, MOST_COLUMNS)
    dots = ["..."] if mixture.n_features > shown else []
    names = fitted.names or [f"x{i + 1}" for i in range(shown)]
    for name in ("component", "weight", "deviation", *names[:shown], *dots):
        grid.add_column(line(name), justify="right")
    for k in range(mixture.n_components):
        means = [figures(mean) for mean in fitted.means[k, :shown]]
        grid.add_row(
            str(k + 1), f"{mixture.weights[k]:.3f}", figures(mixture.variances[k] ** 0.5), *means, *dots
        )
    console.print(grid)
    if fitted.is_standardised:
        console.print(line("Deviations are parts of those of the columns."))
    console.print(line(f"{mixture.status.name}: {in_options(mixture.message)}"))
    for note in mixture.projected:
        console.print(line(f"Note: {note}."))
    console.print(line(f"model: {written}"))
