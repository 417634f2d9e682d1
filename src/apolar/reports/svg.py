"""Figures as SVG inside a page: text is text, colours are the page's, and points say what they are."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from xml.etree import ElementTree

import numpy as np

from apolar._core.arrays import Array
from apolar.reports.marks import in_variables, number, path_data

__all__ = ["InlineSvg", "inline_svg"]

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
# The sizes of points of one kind are rounded to this many, so that each is written once.
N_SIZES = 8
# In inches, around what is drawn.
PAD = 0.03
_KIND = re.compile(r"cluster-\d+")
_POINTS = re.compile(r"(cluster-\d+|noise|ring)~(\d+)")

Titles = Callable[[Any, str, Array], Sequence[str] | None]
"""Takes the axes, the kind of points and their places; returns the words of each, or None."""


@dataclass(frozen=True)
class InlineSvg:
    """A picture as an element of a page, and its width in points, which is 1/72 of an inch."""

    text: str
    width: float


@dataclass(frozen=True, eq=False)
class _Points:
    """Marks of one kind in a panel: places and sizes in points, as SVG counts them."""

    kind: str
    path: Any
    style: str
    places: Array
    sizes: Array
    titles: Sequence[str] | None


def inline_svg(figure: Any, name: str, alt: str, titles: Titles | None = None) -> InlineSvg:
    """Return a figure as an element of a page.

    Points, whose collections have a `gid`, are written here: each kind of mark once, then places only.

    Parameters
    ----------
    figure : matplotlib Figure
    name : str
        Of the picture, unique on the page: ids begin with it.
    alt : str
        What it shows, in words.
    titles : callable, optional
        What shows when the pointer is on a point.
    """
    from matplotlib import rc_context
    from matplotlib.transforms import Bbox

    figure.patch.set_visible(False)
    box = figure.get_tightbbox().padded(PAD)
    points = _taken_points(figure, box, titles)
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        area = Bbox.from_extents(box.x0, box.y0, box.x1, box.y1)
        figure.savefig(buffer, format="svg", bbox_inches=area, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    writer = _Writer(name, points, _ids(root))
    body = "".join(writer.written(child) for child in root)
    width, height = 72 * box.width, 72 * box.height
    head = f'<svg viewBox="0 0 {number(width)} {number(height)}" role="img" aria-label="{escape(alt)}"'
    return InlineSvg(f"{head}>{body}</svg>", width)


def _taken_points(figure: Any, box: Any, titles: Titles | None) -> dict[str, _Points]:
    """Return the points of a figure by the ids of their collections, which keep one point each."""
    points: dict[str, _Points] = {}
    for axes in figure.axes:
        for collection in axes.collections:
            kind = collection.get_gid()
            if kind is None or not hasattr(collection, "get_sizes"):
                continue
            offsets = np.asarray(collection.get_offsets(), dtype=float)
            inches = axes.transData.transform(offsets) / figure.dpi
            places = 72 * np.column_stack([inches[:, 0] - box.x0, box.y1 - inches[:, 1]])
            sizes = np.broadcast_to(np.sqrt(collection.get_sizes()), len(offsets))
            words = None if titles is None else titles(axes, kind, offsets)
            label = f"{kind}~{len(points)}"
            path, style = collection.get_paths()[0], _style(collection)
            points[label] = _Points(kind, path, style, places, sizes, words)
            collection.set(gid=label, rasterized=False)
            collection.set_offsets(offsets[:1])
    return points


def _style(collection: Any) -> str:
    from matplotlib.colors import to_hex

    faces, edges = collection.get_facecolors(), collection.get_edgecolors()
    width = float(collection.get_linewidths()[0])
    parts = ["fill: none"]
    if len(faces) and faces[0][3] > 0:
        parts = [f"fill: {to_hex(faces[0])}", f"fill-opacity: {number(faces[0][3])}"]
    if len(edges) and width > 0:
        parts += [f"stroke: {to_hex(edges[0])}", f"stroke-width: {number(width)}"]
    return in_variables("; ".join(parts))


def _ids(root: Any) -> set[str]:
    """Return the ids to which something refers."""
    used: set[str] = set()
    for element in root.iter():
        if LINK in element.attrib:
            used.add(element.attrib[LINK][1:])
        for value in element.attrib.values():
            used.update(re.findall(r"url\(#([^)]*)\)", value))
    return used


class _Writer:
    """Writes elements of SVG: no names of spaces, short numbers, and ids that are unique on the page."""

    def __init__(self, name: str, points: dict[str, _Points], used: set[str]) -> None:
        self.points = points
        self.new = {old: f"{name}-{i}" for i, old in enumerate(sorted(used))}
        self.name = name

    def written(self, element: Any) -> str:
        tag = element.tag.removeprefix(SVG)
        if tag in ("metadata", "style"):
            return ""
        identity = element.attrib.get("id", "")
        if _POINTS.fullmatch(identity):
            return self._points(identity)
        attributes = "".join(self._attribute(key, value) for key, value in element.attrib.items())
        inside = "".join(self.written(child) for child in element)
        words = escape(element.text or "", quote=False) if tag in ("text", "tspan") else ""
        if tag in ("g", "defs") and not inside:
            return ""
        return f"<{tag}{attributes}>{words}{inside}</{tag}>"

    def _attribute(self, key: str, value: str) -> str:
        if key == "id" and _KIND.fullmatch(value):
            return f' data-kind="{value}"'
        if key == "id":
            return f' id="{self.new[value]}"' if value in self.new else ""
        if key == LINK:
            return f' href="#{self.new[value[1:]]}"'
        if key == "style":
            value = re.sub(r"font-family: [^;]*(; )?", "", value)
            value = in_variables(value)
        value = re.sub(r"url\(#([^)]*)\)", lambda match: f"url(#{self.new[match[1]]})", value)
        if key in ("d", "x", "y", "transform", "points"):
            value = re.sub(r"-?\d+\.\d+", lambda match: number(float(match[0])), " ".join(value.split()))
        return f' {key}="{escape(value)}"'

    def _points(self, identity: str) -> str:
        """Return points: marks of each size, and the places where they are used."""
        points = self.points[identity]
        least, most = float(points.sizes.min()), float(points.sizes.max())
        step = max((most - least) / (N_SIZES - 1), 1e-9)
        levels = np.rint((points.sizes - least) / step).astype(int)
        base = f"{self.name}-{identity.rpartition('~')[2]}m"
        marks = "".join(
            f'<path id="{base}{level}" d="{path_data(points.path, least + level * step)}"/>'
            for level in np.unique(levels)
        )
        uses = []
        for i, ((x, y), level) in enumerate(zip(points.places, levels, strict=True)):
            use = f'<use href="#{base}{level}" x="{x:.1f}" y="{y:.1f}"'
            if points.titles is None:
                uses.append(f"{use}/>")
            else:
                uses.append(f"{use}><title>{escape(points.titles[i], quote=False)}</title></use>")
        head = f'<g class="points" data-kind="{points.kind}" style="{points.style}">'
        return f"{head}<defs>{marks}</defs>{''.join(uses)}</g>"
