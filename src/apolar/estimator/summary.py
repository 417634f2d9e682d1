"""What a fit tells the user: the summary of the mixture, and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.display import (
    SHOWN_CLUSTERS,
    SHOWN_COLUMNS,
    TableCells,
    cluster_table,
    count_noun,
    figures,
    html_table,
    text_table,
    with_error,
)
from apolar._core.settings import SETTINGS
from apolar.em.elliptical import elliptical_gains
from apolar.em.left_out import left_out
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus, is_below
from apolar.estimator.fitted import FittedState
from apolar.exceptions import (
    ApolarWarning,
    CollapsedWarning,
    ColumnWarning,
    DisagreementWarning,
    EmptyComponentWarning,
    FarRowsWarning,
    FewRowsWarning,
    LongTailsWarning,
    join_names,
    warn_user,
)
from apolar.mixture.families import family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import AdaptivePrior, Prior, Shrinkage, Strengths
from apolar.mixture.tails import MAX_DOF, MIN_DOF
from apolar.moments.covariance import is_constant
from apolar.scores import adjusted_rand_index

__all__ = [
    "Summary",
    "few_rows_seen",
    "headline",
    "summary_of",
    "tails_in_words",
    "warn_of_constant_columns",
    "warn_of_far_rows",
    "warnings_of",
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
        remarks.append(f"BIC {bic:,.1f}; mean log-likelihood per row {figures(score)}.")
        noun = "Clusters" if groups is None else "Components"
        remarks.append(f"{noun} count from 1 here; labels of `predict` count from 0.")
    first["weight"] = [f"{weight:.3f}" for weight in parameters.weights[:n_shown]]
    share = 0.0 if parameters.noise is None else float(estimator.noise_weight_)
    has_tails = parameters.dof is not None
    head = headline(
        n_rows,
        n if groups is None else len(groups),
        estimator.covariance_type,
        n_noise=n_noise,
        noise_share=share,
        has_tails=has_tails,
        n_components=n,
    )

    def table(n_columns: int) -> TableCells:
        def cell(k: int, j: int) -> str:
            return with_error(float(parameters.means[k, j]), float(deviations[k, j]))

        return cluster_table(first, names, cell, n_columns)

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
    """Return how the fit went."""
    remarks = [] if state.message is None else [state.message]
    if state.converged:
        passes = "1 pass" if state.n_iter == 1 else f"{state.n_iter} passes"
        remarks = [f"EM converged after {passes} over the data."]
    if state.start is not None:
        remarks.append(f"Best start: {state.start!r}.")
    if state.loo is not None and state.n_samples_seen:
        per_row = state.loo / state.n_samples_seen
        remarks.append(f"Expected log-likelihood of a new row: {figures(per_row, 4)}.")
    return [*remarks, *_remarks_on_shrinkage(state.shrinkage)]


def _remarks_on_shrinkage(strengths: Strengths | None) -> list[str]:
    """Return how strongly covariances and weights are shrunk."""
    remarks = []
    if strengths is not None and strengths.common:
        rows = f"{strengths.common:,.6g}"
        remarks.append(f"Covariances are shrunk towards a common one with the weight of {rows} rows.")
    if strengths is not None and strengths.diagonal:
        share = f"{100 * strengths.diagonal:.0f}%"
        remarks.append(f"Correlations of the common covariance are shrunk by {share}.")
    if strengths is not None and strengths.weights:
        rows = f"{strengths.weights:,.6g}"
        remarks.append(f"Weights are shrunk towards equal ones: {rows} rows are added to each component.")
    return remarks


def _short_name(name: str) -> str:
    """Return the name of a column on one line, cut if it is long."""
    line = " ".join(name.split()) or "''"
    return line if len(line) <= MAX_NAME_WIDTH else f"{line[: MAX_NAME_WIDTH - 1]}…"


# --- warnings -----------------------------------------------------------------------------------


def warnings_of(
    data: Problem, prior: Prior | None, fit: Fit, candidates: list[Fit], sample: Problem
) -> list[ApolarWarning]:
    """Return the warnings about the best mixture of several candidates.

    Parameters
    ----------
    data : Problem
    prior : Prior or None
    fit : Fit
    candidates : list of Fit
        All that were considered.
    sample : Problem
        Some of the rows, on the host, to compare partitions.
    """
    warnings: list[ApolarWarning] = []
    n_components = fit.parameters.n_components
    n_empty = int(np.sum(_counts(data, fit) < 0.5))
    if n_empty:
        verb = "holds" if n_empty == 1 else "hold"
        empty = f"{n_empty} of {n_components} components {verb} less than one row. Ask for fewer components."
        warnings.append(EmptyComponentWarning(empty))
    elif sample.n_rows == data.n_rows and not sample.has_distinct_rows(n_components):
        warnings.append(
            EmptyComponentWarning(
                f"There are only {sample.distinct().n_rows} different rows for {n_components} components, "
                "which cannot differ: ask for fewer components."
            )
        )
    # Covariances that are shrunk are without variance only where no rows vary.
    if data.family.is_collapsed(fit.parameters.covariances) and not isinstance(fit.prior, Shrinkage):
        remedy = "Use the default prior instead of prior=None, a" if prior is None else "A"
        warnings.append(
            CollapsedWarning(
                "A component has collapsed: its variance is zero in some direction, and the likelihood has "
                f"no maximum. {remedy}sk for fewer components, or remove columns that depend on others."
            )
        )
    # An empty or collapsed component has its own remedy. Covariances shrunk as far as the rows suggest need
    # none. Sparse rows of very many columns are for spherical components, and there is nothing to advise.
    is_settled = bool(warnings) or data.is_wide or isinstance(prior, AdaptivePrior)
    few = None if is_settled else few_rows_seen(data, fit)
    if few is not None:
        remedy = "Use a covariance type with fewer parameters, or fewer components"
        warnings.append(FewRowsWarning(f"{few} {remedy}: `select` compares them."))
    others = _disagreement(sample, prior, fit, candidates), _long_tails(sample, prior, fit)
    return [*warnings, *(each for each in others if each is not None)]


def few_rows_seen(data: Problem, fit: Fit) -> str | None:
    """Return what there are too few rows for; None if there are enough."""
    n_components, n_features = fit.parameters.means.shape
    n_parameters = data.family.n_parameters(n_components, n_features)
    # Sums of responsibilities are not exact.
    rounding = 1e-6
    # Spherical components have hardly any parameters but their means, which few rows suffice for.
    if data.weight + rounding < n_parameters and not data.family.is_spherical:
        return f"{data.weight:.6g} rows are fewer than the {n_parameters} parameters of this mixture."
    if data.family.is_axis_aligned or data.family.shared:
        return None
    counts = _counts(data, fit)
    n_few = int(np.sum(counts + rounding < n_features))
    if not n_few:
        return None
    hold = f"{n_few} of {n_components} components " + ("holds" if n_few == 1 else "hold")
    return (
        f"{hold} fewer rows than there are columns: {counts.min():.3g} rows, for a covariance of "
        f"{n_features} columns."
    )


def _counts(data: Problem, fit: Fit) -> Array:
    """Return the weight of the rows of each component, whatever a prior adds to it."""
    return fit.parameters.weights * data.weight if fit.stats is None else fit.stats.counts


def _disagreement(
    sample: Problem, prior: Prior | None, fit: Fit, candidates: list[Fit]
) -> DisagreementWarning | None:
    """Return a warning if another optimum is nearly as good, and its partition of the rows different."""
    rivals = [candidate for candidate in candidates if candidate.status is not FitStatus.NOT_RUN]
    if not rivals or fit.parameters.n_components == 1:
        return None

    def labels(parameters: WhitenedParameters) -> Array:
        return np.asarray(sample.row_responsibilities(parameters)[0]).argmax(axis=0)

    own = _row_scores(sample, prior, fit)
    for rival in rivals:
        of_rival = _row_scores(sample, prior, rival)
        if is_below(of_rival, own):
            continue
        gap = float((own - of_rival).sum())
        index = adjusted_rand_index(labels(fit.parameters), labels(rival.parameters))
        if index < SETTINGS.different:
            what = "log-likelihood" + (" of rows left out" if isinstance(prior, AdaptivePrior) else "")
            return DisagreementWarning(
                f"Two solutions with nearly equal {what} (difference {max(gap, 0.0):.2g}) assign the rows "
                f"differently (adjusted Rand index {index:.2f}). The number of components or the covariance "
                "type may not suit the data: try others."
            )
    return None


def _long_tails(sample: Problem, prior: Prior | None, fit: Fit) -> LongTailsWarning | None:
    """Return a warning if rows are far likelier with longer tails, where that would have been compared."""
    if sample.family.dof is not None or not isinstance(prior, AdaptivePrior):
        return None
    weights, gains = sample.row_weights(), elliptical_gains(sample, fit.parameters, has_edges=False)
    gains = gains if weights is None else gains * weights
    if gains.sum() <= SETTINGS.chance_errors * np.sqrt(len(gains)) * gains.std():
        return None
    return LongTailsWarning(
        "The components have longer tails than Gaussian ones: with tails of any form, each row is "
        f"{figures(gains.sum() / sample.weight, 2)} nats likelier. apolar.StudentMixture has components with "
        "long tails."
    )


def _row_scores(sample: Problem, prior: Prior | None, fit: Fit) -> Array:
    """Return the weighted log-density of each row, under the mixture without it if optima are so compared."""
    if isinstance(prior, AdaptivePrior):
        added = prior.of_strengths(fit.strengths).added_rows(sample.family, fit.parameters)
        (scores,), _ = left_out(sample, fit.parameters[None], added)
    else:
        scores = np.asarray(sample.row_responsibilities(fit.parameters)[1])
    weights = sample.row_weights()
    return scores if weights is None else scores * weights


def warn_of_far_rows(far_rows: IndexArray, has_weight: Array | None) -> None:
    """Warn of rows that are far from all others, by their positions among the rows that have a weight."""
    if len(far_rows):
        numbers = far_rows if has_weight is None else np.flatnonzero(has_weight)[far_rows]
        warn_user(FarRowsWarning(numbers.tolist()))


def warn_of_constant_columns(mean: Array, variances: Array, names: Sequence[Any] | None, used: str) -> None:
    """Warn once of all constant columns, unless no column varies.

    Parameters
    ----------
    mean, variances : ndarray, shape (n_features,)
        Of the columns.
    names : sequence of str or None
    used : str
        What is done with them.
    """
    constant = np.flatnonzero(is_constant(mean, variances)).tolist()
    if not constant or len(constant) == len(mean):
        return
    called = [str(i) if names is None else repr(str(names[i])) for i in constant]
    columns, are = ("Columns", "are") if len(constant) > 1 else ("Column", "is")
    warn_user(
        f"{columns} {join_names(called)} {are} constant. {used} Remove constant columns from X.",
        ColumnWarning,
    )
