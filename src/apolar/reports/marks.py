"""The marks of clusters, and of the lines of pictures, as SVG that a page holds.

Colours are variables of the page: pictures, tables and words have the same ones, in light and in dark.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar.plots import palette

__all__ = ["COLOUR_NAMES", "DARK", "LIGHT", "in_variables", "mark_of_line", "number", "path_data", "swatch"]

# The variables of the page: their names, and their values in light and in dark.
LIGHT = {
    **{f"k{i + 1}": colour for i, colour in enumerate(palette.COLOURS)},
    **{f"shade{i + 1}": colour for i, colour in enumerate(palette.SHADES)},
    "noise": palette.NOISE_STYLE[0],
}
DARK = {
    **{f"k{i + 1}": colour for i, colour in enumerate(palette.DARK_COLOURS)},
    **{f"shade{i + 1}": colour for i, colour in enumerate(("#B8B8B8", "#8C8C8C", "#A2A2A2", "#777777"))},
    "noise": "#8F8F8F",
}

COLOUR_NAMES = {
    **{colour.lower(): name for name, colour in LIGHT.items()},
    palette.INK.lower(): "ink",
    palette.GREY.lower(): "soft",
    palette.PAPER.lower(): "paper",
}
"""The variables by the colours of pictures."""

# Of a swatch, in units of its own, and the part of it that the mark fills.
SWATCH, FILLED = 12.0, 9.0


def number(value: float) -> str:
    """Return a coordinate as SVG has it, to a hundredth."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def path_data(path: Any, scale: float) -> str:
    """Return a path of matplotlib as the data of one of SVG, where y points down."""
    letters = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}
    parts = []
    for points, code in path.iter_segments(simplify=False):
        letter = letters[int(code)]
        values = [] if letter == "Z" else (np.reshape(points, (-1, 2)) * (scale, -scale)).ravel().tolist()
        parts.append(letter + " ".join(number(value) for value in values))
    return "".join(parts)


def swatch(cluster: int) -> str:
    """Return the mark of a cluster by its number from 0, or of noise by -1, as a small picture."""
    colour, marker = palette.style(cluster)
    data = path_data(_marker_path(marker), FILLED if cluster != palette.NOISE else 0.7 * SWATCH)
    name = COLOUR_NAMES[colour.lower()]
    half = number(SWATCH / 2)
    return (
        f'<svg class="mark" viewBox="-{half} -{half} {number(SWATCH)} {number(SWATCH)}" aria-hidden="true">'
        f'<path d="{data}" style="fill: var(--{name})"/></svg>'
    )


def mark_of_line(line: Any) -> str:
    """Return a line of a legend of matplotlib, and its marker, as a small picture."""
    parts = []
    colour = _colour(line.get_color())
    has_line = line.get_linestyle() not in ("None", "none", " ", "")
    width = 26.0 if has_line else SWATCH
    if has_line:
        dashes = line._dash_pattern[1]
        pattern = "" if dashes is None else f"; stroke-dasharray: {' '.join(map(number, dashes))}"
        thickness = min(float(line.get_linewidth()), 6.0)
        parts.append(
            f'<path d="M0 0H{number(width)}" style="stroke: {colour}; '
            f'stroke-width: {number(thickness)}{pattern}"/>'
        )
    marker = line.get_marker()
    if marker not in ("None", "none", "", " ", None):
        edge, face = _colour(line.get_markeredgecolor()), _colour(line.get_markerfacecolor())
        size = min(float(line.get_markersize()) * 1.3, FILLED)
        data = path_data(_marker_path(marker), size)
        parts.append(
            f'<path d="{data}" transform="translate({number(width / 2)} 0)" '
            f'style="fill: {face}; stroke: {edge}; stroke-width: 1"/>'
        )
    box = f"0 -{number(SWATCH / 2)} {number(width)} {number(SWATCH)}"
    head = f'<svg class="mark" viewBox="{box}" style="width: {number(width / SWATCH)}em" aria-hidden="true">'
    return f"{head}{''.join(parts)}</svg>"


def in_variables(style: str) -> str:
    """Return a style with the variables of the page in place of the colours of pictures."""
    for colour, name in COLOUR_NAMES.items():
        style = style.replace(colour, f"var(--{name})")
    return style


def _marker_path(marker: Any) -> Any:
    from matplotlib.markers import MarkerStyle

    drawn = MarkerStyle(marker)
    return drawn.get_path().transformed(drawn.get_transform())


def _colour(colour: Any) -> str:
    from matplotlib.colors import to_hex

    return "none" if isinstance(colour, str) and colour == "none" else in_variables(to_hex(colour))
