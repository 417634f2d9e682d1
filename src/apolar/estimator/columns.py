"""The warning of columns that are no measurements."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from apolar.data import Rows
from apolar.data.findings import KINDS, column_findings, findings_text
from apolar.exceptions import ColumnWarning

__all__ = ["warn_of_columns"]

_WHY = {
    "constant": "a criterion counts the parameters of a constant",
    "counter": "a row number is spread evenly over any number of clusters",
    "few values": "values that are few become clusters by themselves",
    "duplicate": "a copy makes full covariances singular, and counts a column twice",
}


def warn_of_columns(rows: Rows, names: Sequence[Any] | None, *, stacklevel: int) -> None:
    """Warn once of all columns that say nothing of clusters, or would decide them alone.

    Parameters
    ----------
    rows : Rows
        Those of an array or a memory map; others are not looked at.
    names : sequence of str or None
    stacklevel : int
        Of the caller, as of `warnings.warn`.
    """
    findings = [finding for finding in column_findings(rows, names) if finding.kind in KINDS]
    n_constant = sum(finding.kind == "constant" for finding in findings)
    if not findings or n_constant == rows.n_features:
        return
    text = findings_text(findings)
    present = {finding.kind for finding in findings}
    why = "; ".join(reason for kind, reason in _WHY.items() if kind in present)
    warnings.warn(
        f"{text[0].upper()}{text[1:]}. Such columns are used, but {why}. Leave out of X what does not "
        "measure the rows; apolar.exceptions.ColumnWarning can be ignored where it does.",
        ColumnWarning,
        stacklevel=stacklevel + 1,
    )
