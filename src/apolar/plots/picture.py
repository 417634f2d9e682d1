"""A figure that notebooks show; it is imported when the first one is made, as it needs matplotlib."""

import io
import sys

from matplotlib import get_backend
from matplotlib.figure import Figure

__all__ = ["Picture"]

# Backends without windows.
STILL = ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")


class Picture(Figure):
    """A figure that a notebook shows once, whether pyplot knows of it or not."""

    def _repr_png_(self) -> bytes:
        target = io.BytesIO()
        self.savefig(target, format="png")
        return target.getvalue()

    def _ipython_display_(self) -> None:
        """Show the figure: as the value of a cell, or when the inline backend shows those that are open."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        is_open = pyplot is not None and pyplot.fignum_exists(getattr(self, "number", -1))
        backend = get_backend().lower() if is_open else ""
        is_inline = "inline" in backend
        if is_open and not is_inline and backend not in STILL:
            return  # it is in a window
        sys.modules["IPython.display"].display({"image/png": self._repr_png_()}, raw=True)
        if pyplot is not None and is_inline:
            # The end of the cell would show it once more.
            pyplot.close(self)
