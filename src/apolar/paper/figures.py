"""The paper's scatter-plot matrices: true clusters above the diagonal, those of EM from moments below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apolar.paper.methods import clustering
from apolar.paper.printed import FIGURES, caption
from apolar.paper.tasks import task_of
from apolar.plots import scatter_matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# EM from the equivariant moments; the figures in the paper show EM from the paper's moments.
METHOD = "em_moments"
DPI = 110


def drawn(label: str, seed: int = 0) -> Figure:
    """Return one of the paper's figures.

    Parameters
    ----------
    label : {"figure1", "figure2", "figure3"}
    seed : int, default=0
        As in the table whose data it shows.

    Returns
    -------
    figure : matplotlib.figure.Figure
    """
    printed = FIGURES[label]
    task = task_of(printed.table, seed)
    result = clustering(METHOD, task, seed)
    return scatter_matrix(
        task.X,
        task.labels,
        result.predicted,
        model=result.mixture,
        columns=printed.n_columns,
        feature_names=task.feature_names,
        class_names=task.class_names or None,
        title=caption(label),
    )
