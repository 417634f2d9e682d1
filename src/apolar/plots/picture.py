"""A figure that notebooks show; it is imported when the first one is made, as it needs matplotlib."""

import io
import sys

from matplotlib import get_backend
from matplotlib.figure import Figure

__all__ = ["Picture"]


class Picture(Figure):
    """A figure that a notebook shows once, whether pyplot knows of it or not."""

    def _repr_png_(self) -> bytes:
        target = io.BytesIO()
        self.savefig(target, format="png")
        return target.getvalue()

    def _ipython_display_(self) -> None:
        if self._is_shown_by_pyplot():
            # At the end of the cell, or in its window: as the value of the cell it would be there twice.
            return
        sys.modules["IPython.display"].display({"image/png": self._repr_png_()}, raw=True)

    def _is_shown_by_pyplot(self) -> bool:
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None or not pyplot.fignum_exists(getattr(self, "number", -1)):
            return False
        return get_backend().lower() not in ("agg", "pdf", "svg", "ps", "cairo", "template", "pgf")
