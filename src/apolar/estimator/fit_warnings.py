"""What a fit warns of: components without rows, without spread or of few rows, and starts that disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apolar._core.arrays import Array, IndexArray
from apolar._core.settings import SETTINGS
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.run import comparison_scores
from apolar.exceptions import (
    ApolarWarning,
    CollapsedWarning,
    ColumnWarning,
    DisagreementWarning,
    EmptyComponentWarning,
    FarRowsWarning,
    FewRowsWarning,
    join_names,
    warn_user,
)
from apolar.mixture.parameters import WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.moments.covariance import is_constant
from apolar.scores import adjusted_rand_index

__all__ = ["few_rows_seen", "warn_of_constant_columns", "warn_of_far_rows", "warnings_of"]


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
    n_empty = int(np.sum(fit.parameters.weights * data.weight < 0.5))
    if n_empty:
        empty = f"{n_empty} of {n_components} components hold less than one row. Ask for fewer components."
        warnings.append(EmptyComponentWarning(empty))
    elif sample.n_rows == data.n_rows and sample.distinct().n_rows < n_components:
        warnings.append(
            EmptyComponentWarning(
                f"There are only {sample.distinct().n_rows} different rows for {n_components} components, "
                "which cannot differ: ask for fewer components."
            )
        )
    if data.family.is_collapsed(fit.parameters.covariances):
        remedy = "Use the default prior in place of prior=None, a" if prior is None else "A"
        warnings.append(
            CollapsedWarning(
                "A component has collapsed: its variance is zero in some direction, and the likelihood has "
                f"no maximum. {remedy}sk for fewer components, or remove columns that depend on others."
            )
        )
    # An empty or collapsed component has its own remedy. Sparse rows of very many columns are for spherical
    # components, and there is nothing to advise.
    few = None if warnings or data.is_wide else few_rows_seen(data, fit)
    if few is not None:
        remedy = "Use a covariance type with fewer parameters, or fewer components"
        warnings.append(FewRowsWarning(f"{few} {remedy}: `select` compares them."))
    disagreement = _disagreement(sample, prior, fit, candidates)
    return warnings if disagreement is None else [*warnings, disagreement]


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
    counts = fit.parameters.weights * data.weight
    n_few = int(np.sum(counts + rounding < n_features))
    if not n_few:
        return None
    hold = f"{n_few} of {n_components} components " + ("holds" if n_few == 1 else "hold")
    return (
        f"{hold} fewer rows than there are columns: {counts.min():.3g} rows, for a covariance of "
        f"{n_features} columns."
    )


def _disagreement(
    sample: Problem, prior: Prior | None, fit: Fit, candidates: list[Fit]
) -> DisagreementWarning | None:
    """Return a warning if another optimum is nearly as good, and its partition of the rows different."""
    rivals = [candidate for candidate in candidates if candidate.status is not FitStatus.NOT_RUN]
    if not rivals or fit.parameters.n_components == 1:
        return None

    def labels(parameters: WhitenedParameters) -> Array:
        return np.asarray(sample.row_responsibilities(parameters)[0]).argmax(axis=0)

    mixtures = batch([fit.parameters, *(rival.parameters for rival in rivals)])
    compared_by = None if fit.evidence is None else prior
    scores = comparison_scores(sample, mixtures, *sample.e_step(mixtures), compared_by)
    gaps = (scores[0] - scores[1:]) / sample.weight
    ours = None
    for rival, gap in zip(rivals, map(float, gaps), strict=True):
        if gap > SETTINGS.nearly_equal:
            continue
        ours = labels(fit.parameters) if ours is None else ours
        index = adjusted_rand_index(ours, labels(rival.parameters))
        if index < SETTINGS.different:
            what = "mean log-likelihood" + (" and log-evidence" if fit.evidence is not None else "")
            return DisagreementWarning(
                f"Good starts disagree: another optimum, only {max(gap, 0.0):.2g} lower in "
                f"{what}, parts the rows differently (adjusted Rand index {index:.2f} between "
                "the two). Components of this form may not be what the data are made of: try another "
                "covariance type or number of components."
            )
    return None


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
