"""The page that shows all tables and figures together."""

from __future__ import annotations

import base64

from apolar.paper.methods import OUR_METHODS, PAPER_METHODS
from apolar.paper.printed import caption
from apolar.paper.study import Study
from apolar.paper.tables import ComparedTable
from apolar.paper.tasks import PREPARATION
from apolar.paper.writing import METHOD_NAMES
from apolar.reports.pages import rendered

Part = ComparedTable | Study | tuple[str, bytes]
"""A table, a study, or a figure: its label and its PNG."""


def page(parts: list[Part], command: str, version: str) -> str:
    """Return an HTML page that needs no other file.

    Parameters
    ----------
    parts : list of Part
        In the order of the page.
    command : str
        The command that made the page.
    version : str
        The version of apolar.

    Returns
    -------
    html : str
    """
    return rendered(
        "apolar.paper",
        {"percent": lambda share: "" if share is None else f"{share.mean:.2f}%"},
        parts=[_shown(part) for part in parts],
        methods=METHOD_NAMES,
        paper_methods=PAPER_METHODS,
        our_methods=OUR_METHODS,
        command=command,
        version=version,
    )


def _shown(part: Part) -> dict[str, object]:
    """Return what the template needs of a part."""
    if isinstance(part, ComparedTable):
        return {
            "kind": "table",
            "label": part.label,
            "caption": caption(part.label),
            "preparation": PREPARATION[part.label],
            "records": part.records(),
            "counts": part.counts(),
            "printed_count": part.printed.n_parameters,
            "right_count": part.right_count,
            "digits": part.printed.digits,
            "shape": part.task.X.shape,
            "n_components": part.task.n_components,
        }
    if isinstance(part, Study):
        return {
            "kind": "study",
            "label": part.label,
            "caption": caption(part.label),
            "n_simulations": part.n_simulations,
            "n_repeats": part.n_repeats,
            "example": part.printed.example,
            "shares": part.shares,
            "printed": part.printed.rows,
        }
    label, png = part
    data = base64.b64encode(png).decode("ascii")
    return {"kind": "figure", "label": label, "caption": caption(label), "data": data}
