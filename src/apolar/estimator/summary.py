"""What a fit tells the user: the summary of the mixture, and warnings."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import Any

import numpy as np

from apolar._core.display import (
    SHOWN_CLUSTERS,
    SHOWN_COLUMNS,
    cluster_table,
    count_noun,
    figures,
    html_table,
    text_table,
    with_error,
)
from apolar.estimator.fitted import FittedState
from apolar.exceptions import (
    join_names,
)
from apolar.mixture.families import family
from apolar.mixture.prior import Strengths
from apolar.mixture.tails import MAX_DOF, MIN_DOF

__all__ = [
    "Summary",
    "headline",
    "summary_of",
    "tails_in_words",
]

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
    has_tails: bool = False,
    n_components: int | None = None,
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
    has_tails : bool, default=False
        Whether the components are t distributions.
    n_components : int, optional
        By default one for each cluster.

    Examples
    --------
    >>> headline(150, 3, "full")
    '3 clusters in 150 rows (full covariances).'
    """
    text = count_noun(n_clusters, "cluster")
    if n_rows is not None:
        is_whole = abs(n_rows - round(n_rows)) < 1e-6 * max(n_rows, 1.0)
        text += f" in {round(n_rows):,} rows" if is_whole else f" in {n_rows:,.1f} rows"
    form = f"{family(covariance_type).name} covariances"
    if n_components not in (None, n_clusters):
        form = f"{n_components} {family(covariance_type).name} components"
    text += f" ({form}{', long tails' if has_tails else ''})"
    if n_noise is not None and n_rows:
        rows = "1 row" if n_noise == 1 else f"{n_noise:,} rows"
        return f"{text}; {rows} ({n_noise / n_rows:.1%}) {'is' if n_noise == 1 else 'are'} noise."
    if noise_share > 0:
        return f"{text}; about {noise_share:.1%} of the rows are noise."
    return f"{text}."


def summary_of(estimator: Any, X: Any, sample_weight: Any) -> Summary:
    """Return the summary of a fitted mixture, with what X adds to it if it is given."""
    state = FittedState.of(estimator)
    kind, parameters = state.family, state.parameters
    n, m = parameters.means.shape
    stored = kind.diagonals(kind.per_component(parameters.covariances))
    deviations = np.sqrt(np.broadcast_to(stored if kind.n_axes else stored[..., None], (n, m)))
    known = vars(estimator).get("feature_names_in_", [f"x{j}" for j in range(m)])
    names = [_short_name(str(name)) for name in known]
    n_shown, groups = min(n, SHOWN_CLUSTERS), state.clusters
    first = {"cluster" if groups is None else "component": [str(k + 1) for k in range(n_shown)]}
    if groups is not None:
        first["of cluster"] = [
            str(next(i for i, group in enumerate(groups) if k in group) + 1) for k in range(n_shown)
        ]
    n_noise, n_rows, remarks = None, state.n_samples_seen, []
    if X is not None:
        labels = np.asarray(estimator.predict(X))
        n_rows = len(labels)
        first["rows"] = [f"{count:,}" for count in np.bincount(labels[labels >= 0], minlength=n)[:n_shown]]
        n_noise = None if parameters.noise is None else int(np.sum(labels < 0))
        bic, score = estimator.bic(X, sample_weight), estimator.score(X, sample_weight=sample_weight)
        remarks = [
            f"BIC {bic:,.1f}; mean log-likelihood per row {figures(score)}.",
            f"{'Clusters' if groups is None else 'Components'} count from 1 here; labels of `predict` count "
            "from 0.",
        ]
    first["weight"] = [f"{weight:.3f}" for weight in parameters.weights[:n_shown]]
    head = headline(
        n_rows,
        n if groups is None else len(groups),
        estimator.covariance_type,
        n_noise=n_noise,
        noise_share=0.0 if parameters.noise is None else float(estimator.noise_weight_),
        has_tails=parameters.dof is not None,
        n_components=n,
    )

    def cell(k: int, j: int) -> str:
        return with_error(float(parameters.means[k, j]), float(deviations[k, j]))

    table = partial(cluster_table, first, names, cell)

    remarks += [*tails_in_words(estimator), *_remarks_on_fit(state)]
    n_in_text = min(m, TEXT_WIDTH // MIN_COLUMN_WIDTH)
    while n_in_text > 1 and max(map(len, text_table(*table(n_in_text)))) > TEXT_WIDTH:
        n_in_text -= 1
    n_in_html = min(m, SHOWN_COLUMNS)
    below = [*_left_out(n_in_text, m, n), *remarks]
    text = "\n".join([head, "", *text_table(*table(n_in_text)), "", *below])
    items = "".join(f"<li>{escape(line)}</li>" for line in [*_left_out(n_in_html, m, n), *remarks])
    html = f"<div><p><b>{escape(head)}</b></p>{html_table(*table(n_in_html))}<ul>{items}</ul></div>"
    return Summary(text.rstrip(), html)


def tails_in_words(estimator: Any) -> list[str]:
    """Return how long the tails of the components are, if they are t distributions."""
    if estimator.dof is None:
        return []
    dof = np.asarray(estimator.dof_, dtype=np.float64)
    low, high = figures(float(dof.min()), 3), figures(float(dof.max()), 3)
    number = low if low == high else f"{low} to {high}"
    said = f"Tails: {number} degree{'' if number == '1' else 's'} of freedom. The fewer, the longer."
    if isinstance(estimator.dof, str):
        limits = (
            (dof >= MAX_DOF, f"{MAX_DOF:g}, the upper limit: practically Gaussian"),
            (dof <= MIN_DOF, f"{MIN_DOF:g}, the lower limit: Cauchy distributions"),
        )
        for at_limit, words in limits:
            if at_limit.any():
                names = [f"{k + 1}" for k in np.flatnonzero(at_limit)]
                noun = "Cluster" if getattr(estimator, "clusters_", None) is None else "Component"
                which = f"{noun} {names[0]} has" if len(names) == 1 else f"{noun}s {join_names(names)} have"
                said += f" {which} {words}."
    return [said]


def _left_out(n_columns: int, n_features: int, n_clusters: int) -> list[str]:
    """Return what a table with this many columns leaves out."""
    shown = (min(n_columns, n_features), n_features, "columns"), (SHOWN_CLUSTERS, n_clusters, "clusters")
    return [f"Showing the first {part} of {whole} {what}." for part, whole, what in shown if part < whole]


def _remarks_on_fit(state: FittedState) -> list[str]:
    """Return how the fit went, and how strongly covariances and weights are shrunk."""
    remarks = [] if state.message is None else [state.message]
    if state.converged:
        remarks = [f"EM converged after {count_noun(state.n_iter or 0, 'pass')} over the data."]
    if state.start is not None:
        remarks.append(f"Best start: {state.start!r}.")
    if state.loo is not None and state.n_samples_seen:
        per_row = state.loo / state.n_samples_seen
        remarks.append(f"Expected log-likelihood of a new row: {figures(per_row, 4)}.")
    strengths = state.shrinkage or Strengths()
    if strengths.common:
        rows = f"{strengths.common:,.6g}"
        remarks.append(f"Covariances are shrunk towards a common one with the weight of {rows} rows.")
    if strengths.diagonal:
        share = f"{100 * strengths.diagonal:.0f}%"
        remarks.append(f"Correlations of the common covariance are shrunk by {share}.")
    if strengths.weights:
        rows = f"{strengths.weights:,.6g}"
        remarks.append(f"Weights are shrunk towards equal ones: {rows} rows are added to each component.")
    return remarks


def _short_name(name: str) -> str:
    """Return the name of a column on one line, cut if it is long."""
    line = " ".join(name.split()) or "''"
    return line if len(line) <= MAX_NAME_WIDTH else f"{line[: MAX_NAME_WIDTH - 1]}…"
