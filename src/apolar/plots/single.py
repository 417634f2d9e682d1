"""A picture of one panel: its axes, and the text that belongs to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apolar.plots.canvas import (
    MARGIN,
    TEXT_SIZE,
    TITLE_SIZE,
    need_matplotlib,
    new_figure,
    shortened,
    styled,
    wrap,
    write,
)
from apolar.plots.palette import INK

__all__ = ["SinglePanel"]

# In points, between the panel or what is beside it and the next text.
APART = 8
# In letters.
LONGEST_NAME = 40
# Of a legend.
MAX_COLUMNS = 4


@dataclass(frozen=True, eq=False)
class SinglePanel:
    """Axes to draw into, and how to write around them.

    All text belongs to the axes, so that layouts of matplotlib make room for it.

    Attributes
    ----------
    panel : matplotlib Axes
    is_new : bool
        Whether the figure is ours to resize.
    """

    panel: Any
    is_new: bool

    @classmethod
    def of(cls, ax: Any, size: tuple[float, float]) -> SinglePanel:
        """Return the axes that the user gives, or those of a new figure.

        Parameters
        ----------
        ax : matplotlib Axes or None
        size : pair of float
            Width and height of the axes in a new figure, in inches.
        """
        need_matplotlib()
        if ax is not None:
            from matplotlib.axes import Axes

            if not isinstance(ax, Axes):
                raise TypeError(
                    f"ax must be axes of matplotlib, not {type(ax).__name__}: pass those of "
                    "figure.subplots(), or None for a new figure."
                )
            return cls(styled(ax), False)
        figure = new_figure()
        figure.set_size_inches(*size)
        panel = figure.add_axes((0, 0, 1, 1), facecolor="white")
        return cls(styled(panel), True)

    @property
    def width(self) -> float:
        """The width of the axes in inches."""
        return float(self.panel.bbox.width / self.panel.figure.dpi)

    def name_axes(self, across: str, up: str) -> None:
        """Write what the axes show."""
        for axis, words in ((self.panel.xaxis, across), (self.panel.yaxis, up)):
            axis.label.set(fontsize=TEXT_SIZE, color=INK)
            length = self.panel.bbox.width if axis is self.panel.xaxis else self.panel.bbox.height
            _wrap_along(axis.label, words, length)

    def title(self, words: str) -> None:
        """Write the title."""
        text = self.panel.set_title("", fontsize=TITLE_SIZE, color=INK, pad=APART)
        wrap(text, words, width=self.panel.bbox.width)

    def key(self, entries: list[tuple[str, dict[str, Any]]]) -> None:
        """Put a legend to the right of what is there.

        Parameters
        ----------
        entries : list of pair
            Words, and how the line or mark beside them looks.
        """
        from matplotlib.lines import Line2D

        panel = self.panel
        marks: list[Any] = [Line2D([], [], markersize=6, markeredgewidth=0.9) for _ in entries]
        for mark, (_, look) in zip(marks, entries, strict=True):
            mark.set(**{"linestyle": "none"} | look)
        right = max([panel.bbox.x1, *(inset.get_tightbbox().x1 for inset in panel.child_axes)])
        place = ((right + APART * panel.figure.dpi / 72 - panel.bbox.x0) / panel.bbox.width, 1.0)
        for n_columns in range(1, MAX_COLUMNS + 1):
            legend = panel.legend(
                marks, ["text"] * len(marks), loc="upper left", bbox_to_anchor=place, ncols=n_columns,
                fontsize=TEXT_SIZE, labelcolor=INK, frameon=False, borderaxespad=0, borderpad=0,
                handlelength=2.2, handletextpad=0.5, columnspacing=1.4, labelspacing=0.45,
            )  # fmt: skip
            for text, (words, _) in zip(legend.get_texts(), entries, strict=True):
                # Only now: what begins with an underscore is left out of a legend when it is made.
                write(text, shortened(words, LONGEST_NAME))
            if legend.get_window_extent().height <= panel.bbox.height:
                break

    def note(self, *paragraphs: str) -> None:
        """Write how to read the picture under its axes; after the names of the axes."""
        panel = self.panel
        text = panel.annotate(
            "", (0.5, 0), xycoords=panel.xaxis.label, xytext=(0, -APART), textcoords="offset points",
            fontsize=TEXT_SIZE, color=INK, ha="center", va="top", annotation_clip=False,
        )  # fmt: skip
        wrap(text, *(words for words in paragraphs if words), width=panel.bbox.width)

    def done(self) -> Any:
        """Return the axes, after a new figure has been made as large as all that is drawn."""
        panel = self.panel
        if self.is_new:
            figure, box, inner = panel.figure, panel.get_tightbbox(), panel.bbox.frozen()
            margin = MARGIN * figure.dpi
            left, below = inner.x0 - box.x0 + margin, inner.y0 - box.y0 + margin
            width = left + box.x1 - inner.x0 + margin
            height = below + box.y1 - inner.y0 + margin
            figure.set_size_inches(width / figure.dpi, height / figure.dpi)
            panel.set_position((left / width, below / height, inner.width / width, inner.height / height))
        return panel


def _wrap_along(label: Any, words: str, length: float) -> None:
    """Write the name of an axis in lines that are no longer than the axis."""
    rotation = label.get_rotation()
    label.set_rotation(0)
    wrap(label, words, width=length, max_lines=3)
    label.set_rotation(rotation)
