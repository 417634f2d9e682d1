"""What a fit warns of: components that are empty or collapsed, few rows, other optima, far rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.display import figures
from apolar._core.settings import SETTINGS
from apolar.em.elliptical import elliptical_gains
from apolar.em.left_out import left_out
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus, is_below
from apolar.exceptions import (
    ApolarWarning,
    CollapsedWarning,
    ColumnWarning,
    DisagreementWarning,
    EmptyComponentWarning,
    FarRowsWarning,
    FewRowsWarning,
    LongTailsWarning,
    is_hidden,
    join_names,
    warn_user,
)
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import AdaptivePrior, Prior, Shrinkage
from apolar.moments.covariance import is_constant
from apolar.scores import adjusted_rand_index

__all__ = ["few_rows_seen", "warn_of_rows", "warnings_of"]


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
    return [*warnings, *filter(None, others)]


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
    if is_hidden(DisagreementWarning) or fit.parameters.n_components == 1:
        return None

    def labels(parameters: WhitenedParameters) -> Array:
        return np.asarray(sample.row_responsibilities(parameters)[0]).argmax(axis=0)

    own = _row_scores(sample, prior, fit)
    for rival in candidates:
        of_rival = _row_scores(sample, prior, rival)
        if rival.status is FitStatus.NOT_RUN or is_below(of_rival, own):
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
    is_compared = sample.family.dof is None and isinstance(prior, AdaptivePrior)
    if is_hidden(LongTailsWarning) or not is_compared:
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


def warn_of_rows(
    estimator: Any, scale: Any, far_rows: IndexArray, has_weight: Array | None, used: str
) -> None:
    """Warn of rows that are far from all others, and of constant columns, unless no column varies.

    Parameters
    ----------
    estimator : GaussianMixture
    scale : RowMoments or None
        The mean and the variances of the columns; None to say nothing of these.
    far_rows : ndarray of int
        Positions among the rows that have a weight; with a noise component there is no warning.
    has_weight : ndarray of bool or None
        Which of the user's rows are in the fit, if not all are.
    used : str
        What is done with constant columns.
    """
    if len(far_rows) and not estimator.noise:
        numbers = far_rows if has_weight is None else np.flatnonzero(has_weight)[far_rows]
        warn_user(FarRowsWarning(numbers.tolist()))
    is_same = np.zeros(1, dtype=bool) if scale is None else is_constant(scale.mean, scale.variances)
    if not is_same.any() or is_same.all():
        return
    names = getattr(estimator, "feature_names_in_", None)
    called = [str(i) if names is None else repr(str(names[i])) for i in np.flatnonzero(is_same)]
    columns, are = ("Columns", "are") if len(called) > 1 else ("Column", "is")
    warn_user(
        f"{columns} {join_names(called)} {are} constant. {used} Remove constant columns from X.",
        ColumnWarning,
    )
