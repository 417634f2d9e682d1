"""`apolar fit --sketch`: a mixture from the sums of a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import line, new_console
from apolar.cli.errors import BadInput
from apolar.cli.options import numbers_of_components
from apolar.cli.output import Output
from apolar.cli.sketch import loaded_sketch

if TYPE_CHECKING:
    from apolar import GaussianMixture, MixtureStatus, MomentMixture, MomentSketch, SphericalMixture
    from apolar._core.arrays import Array
    from apolar.moments import CentralMoments

# The most columns of means in a terminal, and the most components that -k auto tries.
MAX_COLUMNS = 8
MAX_COMPONENTS = 6
# Deviations that differ by more than this are taken to be of columns in different units: those of the lengths
# of iris differ by a factor of 4, those of the contents of olive oils by 31, of wines by 2,500.
MIXED_UNITS = 10
# Below this, moments are said not to agree with a mixture.
MIN_P_VALUE = 0.001
# The `message_` of a model that was made from a sketch.
FROM_MOMENTS = (
    "The mixture comes from the moments of a sketch alone: EM has not run and no likelihood was computed. "
    "To improve it, fit the rows with warm_start and this file."
)


@dataclass(frozen=True, eq=False)
class SketchFit:
    """A mixture fitted to a sketch, in the units of the table.

    Attributes
    ----------
    weights, means : ndarray
    covariances : ndarray
        In the shape of `covariance_type`.
    covariance_type : str
    status : MixtureStatus
    projected : tuple of str
    p_value : float
        NaN if it was not computed.
    is_standardised : bool
        Whether columns were divided by their deviations first.
    names : tuple of str
    n_rows : int
    notes : tuple of str
        What was done about the columns, and how the mixture was chosen.
    """

    weights: Array
    means: Array
    covariances: Array
    covariance_type: str
    status: MixtureStatus
    projected: tuple[str, ...]
    p_value: float
    is_standardised: bool
    names: tuple[str, ...]
    n_rows: int
    notes: tuple[str, ...]

    @property
    def deviations(self) -> Array:
        """The deviation of each component in each column, shape (n_components, n_features)."""
        import numpy as np

        from apolar.mixture.families import family

        matrices = family(self.covariance_type).matrices(self.covariances, *self.means.shape)
        return np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))

    def as_model(self) -> GaussianMixture:
        """Return a fitted estimator that holds the mixture."""
        import numpy as np

        from apolar import GaussianMixture
        from apolar.estimator.fitted import FittedState
        from apolar.mixture.families import family
        from apolar.mixture.parameters import MixtureParameters

        kind, n_components = self.covariance_type, len(self.weights)
        model = GaussianMixture(n_components, covariance_type=kind, init_params="moments")
        weights, means, covariances = (
            np.array(part) for part in (self.weights, self.means, self.covariances)
        )
        FittedState(
            family(kind),
            MixtureParameters(weights, means, covariances),
            n_samples_seen=float(self.n_rows),
            # EM has not run, and a likelihood needs the rows.
            converged=False,
            n_iter=0,
            lower_bound=float("nan"),
            lower_bounds=[],
            start="moments",
            start_notes=[],
            message=FROM_MOMENTS,
        ).set_on(model)
        if self.names:
            model.feature_names_in_ = np.array(self.names, dtype=object)
        return model


def fit_sketch(
    path: Path,
    components: str,
    covariance: Sequence[str],
    output: Path,
    as_json: bool,
    standardise: bool | None = None,
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
    standardise : bool, optional
        For spherical components; by default where units differ.
    """
    numbers = numbers_of_components(components, MAX_COMPONENTS)
    sums = loaded_sketch(path)
    try:
        fitted = _fitted(sums, numbers, _kinds(covariance), standardise)
    except ValueError as error:
        raise BadInput(str(error)) from error
    with Output(output, reads=[str(path)], is_fit=True) as files:
        written = files.add("model.npz", fitted.as_model().save)
    if as_json:
        click.echo(json.dumps(_as_object(fitted, written), allow_nan=False))
    else:
        _print(fitted, written)


def _kinds(covariance: Sequence[str]) -> tuple[str, ...]:
    """Return the families that were asked for, by their names; refuse those that moments do not determine."""
    from apolar.cli.options import ALL
    from apolar.mixture.families import family
    from apolar.recovery.families import COVARIANCE_TYPES

    if ALL in covariance:
        return COVARIANCE_TYPES
    names = tuple(dict.fromkeys(family(kind).name for kind in covariance))
    for name in names:
        if name not in COVARIANCE_TYPES:
            known = ", ".join(COVARIANCE_TYPES)
            raise BadInput(f"A sketch determines components that are {known}, not {name}.")
    return names


def _fitted(
    sums: MomentSketch, numbers: int | list[int], kinds: tuple[str, ...], standardise: bool | None
) -> SketchFit:
    """Fit a mixture to the columns of a sketch that vary."""
    import numpy as np

    from apolar import SphericalMixture

    moments, names, notes = _varying(sums)
    units = np.ones(len(moments.mean))
    if isinstance(numbers, int) and kinds in ((), ("spherical",)):
        units = _units(moments, standardise, notes)
        found = _spherical(moments, numbers, units)
    elif standardise is not None:
        raise ValueError("--standardise matters to spherical components only: leave it out.")
    else:
        found = _of_families(moments, numbers, kinds, notes)
    is_standardised = bool((units != 1).any())
    covariances = found.variances if isinstance(found, SphericalMixture) else found.covariances
    kind = "spherical" if isinstance(found, SphericalMixture) else found.covariance_type
    return SketchFit(
        found.weights,
        found.means * units,
        covariances[:, None] * units**2 if is_standardised else covariances,
        "diag" if is_standardised else kind,
        found.status,
        found.projected,
        found.p_value,
        is_standardised,
        names,
        sums.n_rows,
        tuple(notes),
    )


def _of_families(
    moments: CentralMoments, numbers: int | list[int], kinds: tuple[str, ...], notes: list[str]
) -> SphericalMixture | MomentMixture:
    """Return the mixture of one family and number, or the best of several."""
    from apolar import mixture_from_moments, select_from_moments

    if isinstance(numbers, int) and len(kinds) == 1:
        return mixture_from_moments(moments, numbers, covariance_type=kinds[0])
    wanted = [numbers] if isinstance(numbers, int) else numbers
    # Spherical components see units, and are compared only if they are asked for.
    selection = select_from_moments(moments, wanted, kinds or ("diag", "tied", "full"))
    found = selection.best
    ranked = sorted((row for row in selection.table if not row.reason), key=lambda row: row.criterion)
    behind = f", {ranked[1].criterion - ranked[0].criterion:.1f} below the next" if ranked[1:] else ""
    notes.append(
        f"Of {len(ranked)} candidates, {found.n_components} {found.covariance_type} components have the "
        f"lowest criterion, that of BIC for moments{behind}."
    )
    return found


def _varying(sums: MomentSketch) -> tuple[CentralMoments, tuple[str, ...], list[str]]:
    """Return the moments of the columns that vary, their names, and what was done."""
    import numpy as np

    from apolar.moments.covariance import is_constant

    moments, names, notes = sums.central(), sums.feature_names or (), []
    varies = ~is_constant(moments.mean, np.diag(moments.covariance))
    if names and not varies.all() and varies.any():
        constant = [name for name, is_used in zip(names, varies, strict=True) if not is_used]
        shown = ", ".join(map(repr, constant[:5])) + ", ..." * (len(constant) > 5)
        notes.append(f"Constant columns, left out: {shown}.")
        names = tuple(name for name, is_used in zip(names, varies, strict=True) if is_used)
        moments = moments.of_columns(np.flatnonzero(varies).tolist())
    return moments, names, notes


def _units(moments: CentralMoments, standardise: bool | None, notes: list[str]) -> Array:
    """Return what columns are divided by for spherical components: deviations that differ, or ones."""
    import numpy as np

    deviations = moments.deviations
    if standardise is None and moments.frame is None and deviations.min() > 0:
        factor = deviations.max() / deviations.min()
        standardise = bool(factor > MIXED_UNITS)
        if standardise:
            notes.append(
                f"Columns were divided by their deviations, which differ by a factor of {factor:,.0f}; "
                "--no-standardise leaves them."
            )
    if standardise and not (deviations > 0).all():
        raise ValueError("A constant column cannot be standardised: make the sketch without it.")
    return deviations if standardise else np.ones(len(deviations))


def _spherical(moments: CentralMoments, n_components: int, units: Array) -> SphericalMixture | MomentMixture:
    """Return spherical components of the columns divided by units."""
    from apolar import mixture_from_moments

    is_divided = bool((units != 1).any())
    return mixture_from_moments(moments.divided(units) if is_divided else moments, n_components)


def _as_object(fitted: SketchFit, written: Path) -> dict[str, Any]:
    """Return the result as JSON can hold it."""
    import math

    is_aligned = fitted.covariance_type in ("spherical", "diag")
    return {
        "columns": list(fitted.names),
        "notes": list(fitted.notes),
        "covariance": fitted.covariance_type,
        "standardised": fitted.is_standardised,
        "weights": fitted.weights.tolist(),
        "means": fitted.means.tolist(),
        "variances" if is_aligned else "covariances": fitted.covariances.tolist(),
        "status": fitted.status.name,
        "message": fitted.status.value,
        "p_value": None if math.isnan(fitted.p_value) else fitted.p_value,
        "n_rows": fitted.n_rows,
        "files": {"model": str(written)},
    }


def _print(fitted: SketchFit, written: Path) -> None:
    from rich import box
    from rich.table import Table

    from apolar._core.numbers import with_error

    console, n_components = new_console(), len(fitted.weights)
    for note in fitted.notes:
        console.print(line(note))
    kind = "" if fitted.is_standardised else f"{fitted.covariance_type} "
    noun = "component" if n_components == 1 else "components"
    console.print(line(f"{fitted.n_rows:,} rows, {n_components} {kind}{noun}, from moments alone."))
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    n_features = fitted.means.shape[1]
    shown = min(n_features, MAX_COLUMNS)
    dots = ["..."] if n_features > shown else []
    names = fitted.names or [f"x{i + 1}" for i in range(shown)]
    for name in ("component", "weight", *names[:shown], *dots):
        grid.add_column(line(name), justify="right")
    for k in range(n_components):
        pairs = zip(fitted.means[k, :shown], fitted.deviations[k, :shown], strict=True)
        cells = [with_error(float(mean), float(deviation)) for mean, deviation in pairs]
        grid.add_row(str(k + 1), f"{fitted.weights[k]:.3f}", *cells, *dots)
    console.print(grid)
    console.print(line("Means ± deviations within the component."))
    # One finding: parameters that are valid, of a mixture that the moments contradict, are no good news.
    if not fitted.p_value < MIN_P_VALUE or fitted.status.name != "VALID":
        console.print(line(f"{fitted.status.name}: {fitted.status.value}"))
    if fitted.p_value < MIN_P_VALUE:
        console.print(
            line(
                f"The moments do not agree with such a mixture (p = {fitted.p_value:.1g}): try another -k or "
                "--covariance, or -k auto."
            )
        )
    elif fitted.p_value >= MIN_P_VALUE:
        console.print(line(f"The moments agree with such a mixture (p = {fitted.p_value:.2g})."))
    for note in fitted.projected:
        console.print(line(f"Note: {note}."))
    console.print(line(f"model: {written}"))
