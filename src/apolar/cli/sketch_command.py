"""`apolar sketch`, `apolar merge` and `apolar fit --sketch`: the sums of a table, and a mixture from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import BadInput, Bar, as_number, count_noun, print_object, say, show_grid
from apolar.cli.options import ALL, GroupedCommand, check_sources, numbers_of_components, table_options
from apolar.cli.output import Output
from apolar.exceptions import join_names

if TYPE_CHECKING:
    from apolar import GaussianMixture, MomentMixture, MomentSketch
    from apolar._core.arrays import Array
    from apolar.moments import CentralMoments

# What is left out of a sketch: what is constant, or a copy, may not be so in other parts of the table.
LEFT_OUT = ("row numbers", "few values")
# The highest powers of the rows, as in the library: without its imports a bad number is refused at once.
ORDERS = ("3", "4", "5", "6")
# The most components that -k auto tries.
MAX_COMPONENTS_OF_SKETCH = 6
# Standard deviations that differ by more than this are taken to be of columns in different units: those of
# the lengths of iris differ by a factor of 4, those of the contents of olive oils by 31, of wines by 2,500.
MIXED_UNITS = 10
# The `message_` of a model that was made from a sketch.
FROM_MOMENTS = (
    "The mixture comes from the moments of a sketch alone: EM has not run and no likelihood was computed. "
    "To improve it, fit the rows with warm_start and this file."
)


@click.command(cls=GroupedCommand)
@click.argument("data", nargs=-1, required=True)
@table_options
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="3",
    show_default=True,
    help="The highest power of the rows: 3 for spherical and diag components, 4 for tied and full ones, for "
    "-k auto, and for more components than columns, 5 or 6 for many of them in few columns.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The file of the sketch."
)
def sketch(data: tuple[str, ...], order: str, output: Path, **reading: Any) -> None:
    """Keep the sums of a table that moments need, and none of its rows.

    Sketches of parts of a table, made anywhere, add up with `apolar merge`, and
    `apolar fit --sketch` fits a mixture to them.

    \b
    Examples:
      apolar sketch january.csv -o january.npz
      apolar sketch january.csv --order 4 -o january.npz

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    check_sources(data)
    from apolar import MomentSketch
    from apolar.cli.tables import read_table

    with Output(output.parent) as files, Bar() as bar:
        bar.begin("reading")
        table = read_table(data, leave_out=LEFT_OUT, **reading)
        sums = MomentSketch(table.X.shape[1], feature_names=table.names, order=int(order))
        sums.update(table.X)
        files.add(output.name, sums.save)
    n_columns = count_noun(len(table.names), "column")
    say(*table.notes, f"{sums.n_rows:,} rows, {n_columns} ({join_names(table.names)}): {output}")


@click.command()
@click.argument("sketches", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file of the sum.")
def merge(sketches: tuple[Path, ...], output: Path) -> None:
    """Add up sketches.

    \b
    Example:
      apolar merge january.npz february.npz -o both.npz

    \b
    They must be of the same columns, in the same order, and of the same --order.
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    total = _load_sketch(sketches[0])
    for path in sketches[1:]:
        further = _load_sketch(path)
        try:
            total = total + further
        except ValueError as error:
            raise BadInput(f"{path} does not add up with {sketches[0]}: {error}") from error
    with Output(output.parent) as files:
        files.add(output.name, total.save)
    say(f"{total.n_rows:,} rows, {total.n_features} columns: {output}")


def _load_sketch(path: Path) -> MomentSketch:
    check_sources([str(path)])
    from apolar import MomentSketch

    return MomentSketch.load(path)


# --- a mixture from a sketch ----------------------------------------------------------------------


def fit_sketch(
    path: Path,
    components: str,
    covariance: Sequence[str],
    output: Path,
    as_json: bool,
    standardise: bool | None,
) -> None:
    """Fit a mixture to a sketch, print it, and write the model.

    Parameters
    ----------
    path : Path
    components : str
        A number, several, or auto.
    covariance : sequence of str
        Families; spherical by default, and with several numbers all that the sketch determines.
    output : Path
        The folder of the model.
    as_json : bool
    standardise : bool or None
        For spherical components; None where units differ.
    """
    numbers = numbers_of_components(components, MAX_COMPONENTS_OF_SKETCH)
    sums = _load_sketch(path)
    kinds = _named_families(covariance)
    moments, names, notes = _varying_columns(sums)
    units = None
    if isinstance(numbers, int) and kinds in ((), ("spherical",)):
        from apolar import mixture_from_moments

        units = _choose_units(moments, standardise, notes)
        found = mixture_from_moments(moments if units is None else moments.divided(units), numbers)
    elif standardise is not None:
        raise BadInput("--standardise matters to spherical components only: leave it out.")
    else:
        found = _best_of_families(moments, numbers, kinds, notes)
    model = _as_model(found, units, names, sums.n_rows)
    with Output(output, reads=[str(path)], is_fit=True) as files:
        written = files.add("model.npz", model.save)
    if not as_json:
        _print(found, model, notes, written, is_standardised=units is not None)
        return
    is_aligned = model.covariance_type in ("spherical", "diag")
    print_object(
        {
            "columns": list(names),
            "notes": notes,
            "covariance": model.covariance_type,
            "standardised": units is not None,
            "weights": model.weights_.tolist(),
            "means": model.means_.tolist(),
            "variances" if is_aligned else "covariances": model.covariances_.tolist(),
            "status": found.status.name,
            "message": found.status.value,
            "p_value": as_number(found.p_value),
            "n_rows": sums.n_rows,
            "files": {"model": str(written)},
        }
    )


def _named_families(covariance: Sequence[str]) -> tuple[str, ...]:
    """Return the families that were asked for, by their names; refuse those that moments do not determine."""
    from apolar.mixture.families import family
    from apolar.recovery.family_mixtures import COVARIANCE_TYPES

    if ALL in covariance:
        return COVARIANCE_TYPES
    names = tuple(dict.fromkeys(family(kind).name for kind in covariance))
    others = [name for name in names if name not in COVARIANCE_TYPES]
    if others:
        known = ", ".join(COVARIANCE_TYPES)
        raise BadInput(f"A sketch determines components that are {known}, not {others[0]}.")
    return names


def _varying_columns(sums: MomentSketch) -> tuple[CentralMoments, tuple[str, ...], list[str]]:
    """Return the moments of the columns that vary, their names, and what was done."""
    import numpy as np

    from apolar.moments.covariance import is_constant

    moments, names = sums.central(), sums.feature_names or ()
    constant = is_constant(moments.mean, np.diag(moments.covariance))
    if not names or constant.all() or not constant.any():
        return moments, names, []
    notes = [f"Dropped constant columns: {join_names([repr(names[j]) for j in np.flatnonzero(constant)])}."]
    varying = np.flatnonzero(~constant).tolist()
    return moments.of_columns(varying), tuple(names[j] for j in varying), notes


def _choose_units(moments: CentralMoments, standardise: bool | None, notes: list[str]) -> Array | None:
    """Return the standard deviations that columns are divided by for spherical components; None for none."""
    deviations = moments.deviations
    if standardise is None and moments.frame is None and deviations.min() > 0:
        factor = deviations.max() / deviations.min()
        standardise = bool(factor > MIXED_UNITS)
        if standardise:
            notes.append(
                f"Columns were divided by their standard deviations, which differ by a factor of "
                f"{factor:,.0f}; --no-standardise leaves them."
            )
    if standardise and not (deviations > 0).all():
        raise BadInput("A constant column cannot be standardised: make the sketch without it.")
    return deviations if standardise else None


def _best_of_families(
    moments: CentralMoments, numbers: int | list[int], kinds: tuple[str, ...], notes: list[str]
) -> MomentMixture:
    """Return the mixture of one family and number, or the best of several."""
    from apolar import mixture_from_moments, select_from_moments

    if isinstance(numbers, int) and len(kinds) == 1:
        return mixture_from_moments(moments, numbers, covariance_type=kinds[0])
    wanted = [numbers] if isinstance(numbers, int) else numbers
    # Spherical components see units, and are compared only if they are asked for.
    selection = select_from_moments(moments, wanted, kinds or ("diag", "tied", "full"))
    found = selection.best
    n_fitted = sum(not row.reason for row in selection.table)
    chosen = count_noun(found.n_components, f"{found.covariance_type} component")
    notes.append(f"Lowest BIC for moments, of {count_noun(n_fitted, 'candidate')}: {chosen}.")
    return found


def _as_model(
    found: MomentMixture, units: Array | None, names: Sequence[str], n_rows: int
) -> GaussianMixture:
    """Return a fitted estimator that holds the mixture, in the units of the table."""
    import numpy as np

    from apolar import GaussianMixture
    from apolar.estimator.fitted import FittedState
    from apolar.mixture.families import family
    from apolar.mixture.parameters import MixtureParameters

    kind, means, covariances = found.covariance_type, found.means, found.covariances
    if units is not None:
        kind, means, covariances = "diag", means * units, covariances[:, None] * units**2
    model = GaussianMixture(len(found.weights), covariance_type=kind, init_params="moments")
    FittedState(
        family(kind),
        MixtureParameters(np.array(found.weights), np.array(means), np.array(covariances)),
        n_samples_seen=float(n_rows),
        # EM has not run, and a likelihood needs the rows.
        converged=False,
        n_iter=0,
        lower_bound=float("nan"),
        lower_bounds=[],
        start="moments",
        start_notes=[],
        message=FROM_MOMENTS,
    ).set_on(model)
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _print(
    found: MomentMixture,
    model: GaussianMixture,
    notes: Sequence[str],
    written: Path,
    *,
    is_standardised: bool,
) -> None:
    from apolar._core.display import with_error
    from apolar.plots.views import MixtureView
    from apolar.recovery.family_mixtures import MIN_P_VALUE

    n_components, n_features = model.means_.shape
    noun = count_noun(n_components, "component" if is_standardised else f"{model.covariance_type} component")
    say(*notes, f"{model.n_samples_seen_:,.0f} rows, {noun}, from moments alone.")
    names = getattr(model, "feature_names_in_", [f"x{i + 1}" for i in range(n_features)])
    deviations = MixtureView.of(model).variances ** 0.5
    means = {
        str(name): list(map(with_error, model.means_[:, j].tolist(), deviations[:, j].tolist()))
        for j, name in enumerate(names)
    }
    fixed = {
        "component": [f"{k + 1}" for k in range(n_components)],
        "weight": [f"{weight:.3f}" for weight in model.weights_],
    }
    show_grid(fixed, means, MixtureView.of(model).separation.tolist())
    agreement = f"The moments do not contradict such a mixture (p = {found.p_value:.2g})."
    if found.p_value < MIN_P_VALUE:
        agreement = f"The moments do not agree with such a mixture (p = {found.p_value:.1g}): "
        agreement += "compare others with -k auto, or use the rows, or a sketch of a higher order."
    # Parameters that are valid, of a mixture that the moments contradict, are not reported as valid.
    is_contradicted = found.p_value < MIN_P_VALUE and found.status.name == "VALID"
    say(
        "Means ± standard deviations within the component.",
        "" if is_contradicted else f"{found.status.name}: {found.status.value}",
        "" if math.isnan(found.p_value) else agreement,
        *(f"Note: {note}." for note in found.projected),
        f"model: {written}",
    )
