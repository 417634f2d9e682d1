"""The eigenvalues of a covariance beside the level of the noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_integer
from apolar.mixture import SphericalMixture
from apolar.moments import ComponentCount, n_components_from_spectrum
from apolar.plots.canvas import need_matplotlib
from apolar.plots.mixtures import MixtureView
from apolar.plots.palette import GREY, INK
from apolar.plots.single import SinglePanel
from apolar.plots.ticks import integer_ticks, plain_numbers, powers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["spectrum"]

MAX_EIGENVALUES = 40
# The axis is logarithmic if the largest eigenvalue is this many times the smallest shown.
WIDE = 50.0


def spectrum(X: Any, *, n_components: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the eigenvalues of the covariance, largest first, beside what noise alone gives.

    The means of r components lie in r - 1 directions, and eigenvalues there stand out of the noise of
    spherical clusters, which is flat but for the fluctuation of a sample. Those that stand out are filled,
    the others are hollow. See `apolar.n_components_from_spectrum`, which counts them.

    Parameters
    ----------
    X : array_like, dataframe, iterable of chunks, MomentSketch, ComponentCount or mixture
        Rows of shape (n_samples, n_features), a sketch of them, or what `n_components_from_spectrum` says of
        them. Of a SphericalMixture or a fitted GaussianMixture, the eigenvalues of its own covariance are
        shown; they do not fluctuate, and there is no band.
    n_components : int, optional
        Fill the eigenvalues of that many components, and take the others for noise; by default as many as
        stand out, or as the mixture has.
    ax : matplotlib Axes, optional
        What to draw into; a new figure by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        `ax.figure.savefig(path)` writes the picture; notebooks and `plt.show()` show it.

    Notes
    -----
    At most 40 eigenvalues are shown. The legend is at the right of the axes and a note below them: a figure
    with `layout="constrained"` makes room for both.

    Examples
    --------
    >>> import apolar
    >>> X, _ = apolar.datasets.make_example(1, 10_000, random_state=0)
    >>> ax = apolar.plots.spectrum(X)
    >>> ax.get_title()
    'The eigenvalues show 4 components'
    """
    need_matplotlib()
    is_mixture = isinstance(X, SphericalMixture) or (hasattr(X, "covariance_type") and hasattr(X, "fit"))
    eigenvalues = _of_mixture(X, n_components) if is_mixture else _of_rows(X, n_components)
    single = SinglePanel.of(ax, (4.8, 3.2))
    panel, shown = single.panel, eigenvalues.values[:MAX_EIGENVALUES]
    is_wide = shown[0] > WIDE * shown[-1]
    ends = [
        *shown,
        *([] if eigenvalues.level is None else [eigenvalues.level]),
        *(eigenvalues.band or ())[1:],
    ]
    if is_wide:
        panel.set_yscale("log")
        panel.set_ylim(min(ends) / 2, 1.6 * max(ends))
        powers(panel.yaxis)
    else:
        panel.set_ylim(0, 1.08 * max(ends))
        plain_numbers(panel.yaxis)
    panel.set_xlim(0.4, len(shown) + 0.6)
    _draw(panel, eigenvalues, shown)
    integer_ticks(panel.xaxis)
    scale = " (logarithmic scale)" if is_wide else ""
    single.name_axes("eigenvalues of the covariance, the largest first", f"eigenvalue{scale}")
    single.title(eigenvalues.title)
    single.key(_entries(eigenvalues, len(shown)))
    n, cut = len(eigenvalues.values), len(shown) < len(eigenvalues.values)
    single.note(eigenvalues.note, f"Shown: the largest {len(shown)} of {n} eigenvalues." if cut else "")
    return single.done()


@dataclass(frozen=True, eq=False)
class _Eigenvalues:
    """What is drawn: all eigenvalues, how many are signal, the level of the noise, title and note.

    `signal` and `noise` name the two parts in the legend.
    """

    values: Array
    n_signal: int
    signal: str
    noise: str
    level: float | None
    band: tuple[float, float] | None
    title: str
    note: str


# --- what is known ------------------------------------------------------------------------


def _of_rows(X: Any, n_components: int | None) -> _Eigenvalues:
    count = X if isinstance(X, ComponentCount) else n_components_from_spectrum(X)
    values = count.spectrum
    n_signal = count.n_components - 1
    # The edge of Marchenko and Pastur depends on the number of rows, which it gives back here.
    rows = (len(values) - n_signal) / (np.sqrt(count.threshold / count.noise_level) - 1) ** 2
    if n_components is not None:
        n_signal = _checked(n_components, len(values), "the eigenvalues that are not zero") - 1
    level = float(values[n_signal:].mean())
    ratio = np.sqrt((len(values) - n_signal) / rows)
    band = level * max(1 - ratio, 0.0) ** 2, level * (1 + ratio) ** 2
    if n_components is None:
        title = f"The eigenvalues show {_components(count.n_components)}"
        note = _reading(count)
    else:
        title = f"The eigenvalues taken as {_components(n_components)}"
        note = f"By themselves the eigenvalues show {_components(count.n_components)}."
        n_inside = int(np.count_nonzero(values[:n_signal] <= band[1]))
        if n_inside:
            note = (
                f"{n_inside} of the {n_signal} filled {'is' if n_inside == 1 else 'are'} no larger than what "
                f"noise alone gives. {note}"
            )
    signal = "out of the noise" if n_components is None else "between components"
    return _Eigenvalues(values, n_signal, signal, "noise", level, band, title, note)


def _reading(count: ComponentCount) -> str:
    """Return what a count rests on."""
    n_signal, n = count.n_components - 1, len(count.spectrum)
    if n_signal == n - 1 > 0:
        return (
            "All eigenvalues but the last stand out, so that they show no level of noise: clusters may be "
            "elongated, or more than the columns can show. Compare BIC over several numbers."
        )
    stand = {0: "No eigenvalue stands", 1: "One eigenvalue stands"}.get(
        n_signal, f"{n_signal} eigenvalues stand"
    )
    other = ""
    if count.least != count.most:
        other = f" Other thresholds for noise give {count.least} to {count.most}."
    return (
        f"{stand} out of the noise. The number of components is one more, if clusters are spherical and "
        f"their means in general position.{other}"
    )


def _of_mixture(model: Any, n_components: int | None) -> _Eigenvalues:
    mixture = MixtureView.of(model)
    values = np.maximum(np.linalg.eigvalsh(mixture.covariance)[::-1], 0.0)
    if not values[0] > 0:
        raise ValueError("The mixture has no spread: fit it to rows that differ.")
    values = values[values > 1e-12 * values[0]]
    r = len(mixture.weights)
    if n_components is not None:
        _checked(n_components, len(values), "the columns of the mixture")
    n_signal = min((r if n_components is None else n_components) - 1, len(values))
    others = values[n_signal:]
    level = float(others.mean()) if len(others) else None
    note = "These are eigenvalues of the covariance of the mixture itself, not of rows."
    if n_signal:
        note += (
            f" The means of {_components(n_signal + 1)} span {n_signal} direction{'s' * (n_signal != 1)}: so "
            "many are filled. If components are spherical, the others are their common spread."
        )
    if not len(others):
        note += " There are more components than columns, and none is left for that."
    title = f"Eigenvalues of a mixture of {_components(r)}"
    return _Eigenvalues(values, n_signal, "span of the means", "the others", level, None, title, note)


def _checked(n_components: Any, most: int, what: str) -> int:
    number = check_integer(n_components, "n_components", least=1)
    if number > most:
        raise ValueError(
            f"n_components = {number} is more than {what}, {most}, and one of these must be left for the "
            f"noise: ask for at most {most}, or leave n_components out."
        )
    return number


def _components(number: int) -> str:
    return f"{number} component{'s' * (number != 1)}"


# --- the drawing --------------------------------------------------------------------------

_BAND = {"color": GREY, "alpha": 0.3}
_LEVEL = {"color": GREY, "linestyle": "--", "linewidth": 1.2}


def _draw(panel: Any, eigenvalues: _Eigenvalues, shown: Array) -> None:
    if eigenvalues.band is not None:
        panel.axhspan(
            max(eigenvalues.band[0], panel.get_ylim()[0]), eigenvalues.band[1], linewidth=0, zorder=0, **_BAND
        )
    if eigenvalues.level is not None:
        panel.axhline(eigenvalues.level, zorder=1, **_LEVEL)
    places, bottom = np.arange(1, len(shown) + 1), panel.get_ylim()[0]
    for which, look, stem in (
        (places > eigenvalues.n_signal, _noise_look(), GREY),
        (places <= eigenvalues.n_signal, _signal_look(), INK),
    ):
        if which.any():
            panel.vlines(places[which], bottom, shown[which], color=stem, linewidth=1.0, zorder=2)
            panel.plot(places[which], shown[which], linestyle="none", markersize=6, zorder=3, **look)


def _signal_look() -> dict[str, Any]:
    return {"marker": "o", "color": INK}


def _noise_look() -> dict[str, Any]:
    return {"marker": "o", "color": GREY, "markerfacecolor": "white"}


def _entries(eigenvalues: _Eigenvalues, n_shown: int) -> list[tuple[str, dict[str, Any]]]:
    n_noise = len(eigenvalues.values) - eigenvalues.n_signal
    entries: list[tuple[str, dict[str, Any]]] = []
    if eigenvalues.n_signal:
        entries.append((f"{eigenvalues.signal} ({eigenvalues.n_signal})", _signal_look()))
    if n_noise and eigenvalues.n_signal < n_shown:
        entries.append((f"{eigenvalues.noise} ({n_noise})", _noise_look()))
    if eigenvalues.level is not None:
        entries.append((f"mean of {eigenvalues.noise}: {eigenvalues.level:.3g}", _LEVEL))
    if eigenvalues.band is not None:
        low, high = eigenvalues.band
        look = {"linestyle": "-", "linewidth": 8, "solid_capstyle": "butt"} | _BAND
        entries.append((f"noise alone: {low:.3g} to {high:.3g}", look))
    return entries
