"""A fitted mixture in words, with a table of its clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.numbers import figures, with_error
from apolar._core.tables import html_table, text_table
from apolar.estimator.fitted import fitted_parameters
from apolar.mixture.families import family

__all__ = ["Summary", "headline", "summary_of"]

# The width of the text in characters, the columns of X that a notebook shows, the clusters that both show.
WIDTH, HTML_COLUMNS, MAX_CLUSTERS = 110, 10, 30
# Characters of the name of a column.
NAME_WIDTH = 20


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
    n_rows: float,
    n_clusters: int,
    covariance_type: str,
    *,
    n_noise: int | None = None,
    noise_share: float = 0.0,
) -> str:
    """Return the result of a fit in one sentence.

    Parameters
    ----------
    n_rows : float
        Or the sum of their weights.
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
    clusters = "1 cluster" if n_clusters == 1 else f"{n_clusters} clusters"
    rows = f"{round(n_rows):,}" if abs(n_rows - round(n_rows)) < 1e-6 * max(n_rows, 1.0) else f"{n_rows:,.1f}"
    text = f"{clusters} in {rows} rows ({family(covariance_type).name} covariances)"
    if n_noise is not None:
        return f"{text}; {n_noise:,} rows ({n_noise / n_rows:.1%}) are noise."
    if noise_share > 0:
        return f"{text}; about {noise_share:.1%} of the rows are noise."
    return f"{text}."


@dataclass(frozen=True, eq=False)
class _Clusters:
    """What the table of a summary shows."""

    names: list[str]
    means: Array
    deviations: Array
    weights: Array
    counts: Array | None

    def table(self, n_columns: int) -> tuple[list[str], list[list[str]]]:
        """Return heads and cells, of so many columns of X."""
        more = ["..."] if len(self.names) > n_columns else []
        counted = [] if self.counts is None else ["rows"]
        heads = ["cluster", *counted, "weight", *self.names[:n_columns], *more]
        rows = []
        for k in range(min(len(self.weights), MAX_CLUSTERS)):
            count = [] if self.counts is None else [f"{self.counts[k]:,}"]
            values = zip(self.means[k, :n_columns], self.deviations[k, :n_columns], strict=True)
            cells = [with_error(float(mean), float(deviation)) for mean, deviation in values]
            rows.append([str(k + 1), *count, f"{self.weights[k]:.3f}", *cells, *more])
        return heads, rows

    def n_in_text(self) -> int:
        """Return how many columns of X the width allows; at least one."""
        heads, rows = self.table(len(self.names))
        widths = np.array([2 + max(len(line[k]) for line in (heads, *rows)) for k in range(len(heads))])
        n_first = len(heads) - len(self.names)
        if widths.sum() <= WIDTH:
            return len(self.names)
        return max(1, int(np.searchsorted(np.cumsum(widths), WIDTH - 5, side="right")) - n_first)

    def not_shown(self, n_columns: int) -> list[str]:
        """Return what the table leaves out, in words."""
        remarks = []
        if len(self.names) > n_columns:
            remarks.append(f"Showing the first {n_columns} of {len(self.names)} columns.")
        if len(self.weights) > MAX_CLUSTERS:
            remarks.append(f"Showing the first {MAX_CLUSTERS} of {len(self.weights)} clusters.")
        return remarks


def summary_of(estimator: Any, X: Any, sample_weight: Any) -> Summary:
    """Return the summary of a fitted mixture, with what X adds to it if it is given."""
    kind, parameters = family(estimator.covariance_type), fitted_parameters(estimator)
    n, m = parameters.means.shape
    stored = kind.diagonals(kind.per_component(parameters.covariances))
    variances = np.broadcast_to(stored if kind.n_axes else stored[..., None], (n, m))
    names = [str(name) for name in getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(m)])]
    attributes = vars(estimator)
    has_noise = attributes.get("noise_box_") is not None
    counts, n_noise, remarks = None, None, []
    n_rows = attributes.get("n_samples_seen_")
    if X is not None:
        labels = np.asarray(estimator.predict(X))
        n_rows = len(labels)
        counts = np.bincount(labels[labels >= 0], minlength=n)
        n_noise = int(np.sum(labels < 0)) if has_noise else None
        score = estimator.score(X, sample_weight=sample_weight)
        bic = estimator.bic(X, sample_weight)
        remarks.append(f"BIC {bic:,.1f}; mean log-likelihood per row {figures(score)}.")
    share = float(attributes.get("noise_weight_", 0.0)) if has_noise else 0.0
    head = _described(n_rows, n, estimator.covariance_type, n_noise, share)
    remarks += _on_the_fit(attributes)
    clusters = _Clusters(
        [_shortened(name) for name in names], parameters.means, np.sqrt(variances), parameters.weights, counts
    )
    n_in_text = clusters.n_in_text()
    lines = text_table(*clusters.table(n_in_text))
    text = "\n".join([head, "", *lines, "", *clusters.not_shown(n_in_text), *remarks])
    return Summary(text.rstrip(), _html(head, clusters, min(HTML_COLUMNS, m), remarks))


def _described(n_rows: Any, n: int, covariance_type: str, n_noise: int | None, share: float) -> str:
    if n_rows is None:
        # A mixture that was put together from parameters.
        clusters = "1 cluster" if n == 1 else f"{n} clusters"
        return f"{clusters} ({family(covariance_type).name} covariances)."
    return headline(float(n_rows), n, covariance_type, n_noise=n_noise, noise_share=share)


def _on_the_fit(attributes: dict[str, Any]) -> list[str]:
    """Return how the fit went, in words."""
    remarks = []
    if attributes.get("converged_"):
        passes = attributes.get("n_iter_", 0)
        after = "1 pass" if passes == 1 else f"{passes} passes"
        remarks.append(f"EM converged after {after} over the data.")
    elif "message_" in attributes:
        remarks.append(str(attributes["message_"]))
    if "start_" in attributes:
        remarks.append(f"Best start: {attributes['start_']!r}.")
    if attributes.get("shrinkage_"):
        shrinkage = figures(float(attributes["shrinkage_"]), 3)
        remarks.append(f"Covariances are shrunk towards a common one with the weight of {shrinkage} rows.")
    return remarks


def _html(head: str, clusters: _Clusters, n_columns: int, remarks: Sequence[str]) -> str:
    below = "".join(f"<li>{escape(text)}</li>" for text in [*clusters.not_shown(n_columns), *remarks])
    return f"<div><p><b>{escape(head)}</b></p>{html_table(*clusters.table(n_columns))}<ul>{below}</ul></div>"


def _shortened(name: str) -> str:
    """Return the name of a column on one line, cut if it is long."""
    line = " ".join(name.split()) or "''"
    return line if len(line) <= NAME_WIDTH else f"{line[: NAME_WIDTH - 1]}…"
