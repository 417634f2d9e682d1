"""The summary of a fitted mixture: what was found, a table of its clusters, and how the fit went."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from apolar._core.display import (
    SHOWN_CLUSTERS,
    SHOWN_COLUMNS,
    TableCells,
    cluster_table,
    figures,
    html_table,
    text_table,
    with_error,
)
from apolar.estimator.fitted import FittedState
from apolar.mixture.families import family

__all__ = ["Summary", "headline", "summary_of"]

# In characters: the width of the text, the most of the name of a column, the fewest that a column takes.
TEXT_WIDTH, MAX_NAME_WIDTH, MIN_COLUMN_WIDTH = 110, 20, 7


class Summary(str):
    """A text that is shown as it reads, and as a table in notebooks."""

    __slots__ = ("_html",)
    _html: str

    def __new__(cls, text: str, html: str) -> Summary:
        """Return the text, with its form as HTML."""
        made = super().__new__(cls, text)
        made._html = html
        return made

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return the summary for notebooks."""
        return self._html

    def __reduce__(self) -> Any:
        return Summary, (str(self), self._html)


def headline(
    n_rows: float | None,
    n_clusters: int,
    covariance_type: str,
    *,
    n_noise: int | None = None,
    noise_share: float = 0.0,
) -> str:
    """Return the result of a fit in one sentence.

    Parameters
    ----------
    n_rows : float or None
        The number of rows, or the sum of their weights; None: not known.
    n_clusters : int
    covariance_type : str
    n_noise : int, optional
        The rows that are labelled noise, if there is a noise component and they were counted.
    noise_share : float, default=0
        The share of the rows that is noise; 0 without a noise component.

    Examples
    --------
    >>> headline(150, 3, "full")
    '3 clusters in 150 rows (full covariances).'
    """
    text = "1 cluster" if n_clusters == 1 else f"{n_clusters} clusters"
    if n_rows is not None:
        is_whole = abs(n_rows - round(n_rows)) < 1e-6 * max(n_rows, 1.0)
        text += f" in {round(n_rows):,} rows" if is_whole else f" in {n_rows:,.1f} rows"
    text += f" ({family(covariance_type).name} covariances)"
    if n_noise is not None and n_rows:
        return f"{text}; {n_noise:,} rows ({n_noise / n_rows:.1%}) are noise."
    if noise_share > 0:
        return f"{text}; about {noise_share:.1%} of the rows are noise."
    return f"{text}."


def summary_of(estimator: Any, X: Any, sample_weight: Any) -> Summary:
    """Return the summary of a fitted mixture, with what X adds to it if it is given."""
    state, attributes = FittedState.for_predictions(estimator), vars(estimator)
    kind, parameters = state.family, state.parameters
    n, m = parameters.means.shape
    stored = kind.diagonals(kind.per_component(parameters.covariances))
    deviations = np.sqrt(np.broadcast_to(stored if kind.n_axes else stored[..., None], (n, m)))
    names = [_short_name(str(name)) for name in attributes.get("feature_names_in_", _default_names(m))]
    n_shown = min(n, SHOWN_CLUSTERS)
    first = {"cluster": [str(k + 1) for k in range(n_shown)]}
    n_noise, remarks = None, []
    n_rows = attributes.get("n_samples_seen_")
    if X is not None:
        labels = np.asarray(estimator.predict(X))
        n_rows = len(labels)
        first["rows"] = [f"{count:,}" for count in np.bincount(labels[labels >= 0], minlength=n)[:n_shown]]
        n_noise = None if parameters.noise is None else int(np.sum(labels < 0))
        bic, score = estimator.bic(X, sample_weight), estimator.score(X, sample_weight=sample_weight)
        remarks.append(f"BIC {bic:,.1f}; mean log-likelihood per row {figures(score)}.")
    first["weight"] = [f"{weight:.3f}" for weight in parameters.weights[:n_shown]]
    noise_share = float(attributes.get("noise_weight_", 0.0))
    head = headline(n_rows, n, estimator.covariance_type, n_noise=n_noise, noise_share=noise_share)

    def table(n_columns: int) -> TableCells:
        def cell(k: int, j: int) -> str:
            return with_error(float(parameters.means[k, j]), float(deviations[k, j]))

        return cluster_table(first, names, cell, n_columns)

    remarks += _remarks_on_fit(attributes)
    n_in_text = min(m, TEXT_WIDTH // MIN_COLUMN_WIDTH)
    while n_in_text > 1 and max(map(len, text_table(*table(n_in_text)))) > TEXT_WIDTH:
        n_in_text -= 1
    n_in_html = min(m, SHOWN_COLUMNS)
    below = [*_left_out(n_in_text, m, n), *remarks]
    text = "\n".join([head, "", *text_table(*table(n_in_text)), "", *below])
    items = "".join(f"<li>{escape(line)}</li>" for line in [*_left_out(n_in_html, m, n), *remarks])
    html = f"<div><p><b>{escape(head)}</b></p>{html_table(*table(n_in_html))}<ul>{items}</ul></div>"
    return Summary(text.rstrip(), html)


def _default_names(n_columns: int) -> list[str]:
    return [f"x{j}" for j in range(n_columns)]


def _left_out(n_columns: int, n_features: int, n_clusters: int) -> list[str]:
    """Return what a table with this many columns leaves out."""
    shown = (min(n_columns, n_features), n_features, "columns"), (SHOWN_CLUSTERS, n_clusters, "clusters")
    return [f"Showing the first {part} of {whole} {what}." for part, whole, what in shown if part < whole]


def _remarks_on_fit(attributes: dict[str, Any]) -> list[str]:
    """Return how the fit went."""
    remarks = []
    if attributes.get("converged_"):
        passes = attributes.get("n_iter_", 0)
        remarks.append(f"EM converged after {'1 pass' if passes == 1 else f'{passes} passes'} over the data.")
    elif "message_" in attributes:
        remarks.append(str(attributes["message_"]))
    if "start_" in attributes:
        remarks.append(f"Best start: {attributes['start_']!r}.")
    if attributes.get("shrinkage_"):
        strength = figures(float(attributes["shrinkage_"]), 3)
        remarks.append(f"Covariances are shrunk towards a common one with the weight of {strength} rows.")
    return remarks


def _short_name(name: str) -> str:
    """Return the name of a column on one line, cut if it is long."""
    line = " ".join(name.split()) or "''"
    return line if len(line) <= MAX_NAME_WIDTH else f"{line[: MAX_NAME_WIDTH - 1]}…"
