"""Where EM starts, by name. A new start is a file in this package and a line of the table `STARTS`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apolar.em.low_density import without_low_density
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.mixture.prior import Prior
from apolar.starts.auto import portfolio
from apolar.starts.base import MAX_ROWS, StartEntry, as_start_with_noise
from apolar.starts.family_moments import from_moments_of_family
from apolar.starts.overseed import from_overseeding
from apolar.starts.seeds import from_random_rows, from_spread_rows
from apolar.starts.simplified import diagonal_problem, projected_problem
from apolar.starts.single import (
    best_of_short_runs,
    from_hierarchical_clusters,
    from_kmeans,
    from_random_responsibilities,
)

__all__ = ["STARTS", "start_candidates"]

STARTS: dict[str, StartEntry] = {
    "auto": StartEntry(portfolio, is_search=True),
    "moments": StartEntry(from_moments_of_family, sees_all_rows=True, fallback="overseed"),
    "overseed": StartEntry(from_overseeding),
    "kmeans": StartEntry(from_kmeans),
    "mbhc": StartEntry(from_hierarchical_clusters),
    "emem": StartEntry(best_of_short_runs),
    "k-means++": StartEntry(from_spread_rows),
    "random_from_data": StartEntry(from_random_rows),
    "random": StartEntry(from_random_responsibilities),
}


def start_candidates(
    name: str, data: Problem, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> list[Fit]:
    """Return the candidates of a start, the best first.

    Parameters
    ----------
    name : str
        One of `STARTS`.
    data : Problem
    n_components : int
    prior : Prior or None
    rng : numpy.random.Generator

    Returns
    -------
    candidates : list of Fit
        Those of "auto" are optima of EM on a sample of the rows; the others are where EM is to start.
    """
    entry = STARTS[name]
    if n_components == 1:
        return portfolio(data, n_components, prior, rng)
    if data.whitening.has_noise_component and not entry.is_search:
        share = data.whitening.noise_shares[-1]
        kept = without_low_density(data.subsample(MAX_ROWS, rng), share)
        candidates = start_candidates(name, kept, n_components, prior, rng)
        return [as_start_with_noise(candidate, share) for candidate in candidates]
    if not entry.sees_all_rows:
        problem = (
            projected_problem(data, n_components, rng)
            if data.is_wide
            else diagonal_problem(data, rng, is_search=entry.is_search)
        )
        if problem is not None:
            simple_candidates = start_candidates(name, problem.simple, n_components, prior, rng)
            return problem.starts(simple_candidates, prior)
    seen = data if entry.sees_all_rows or entry.is_search else data.subsample(MAX_ROWS, rng).distinct()
    try:
        made = entry.start(seen, n_components, prior, rng)
        if entry.is_search:
            return list(made)
        # Moments describe spherical components: for other families they are only a rough start.
        return [Fit(made, name, is_from_all_rows=entry.sees_all_rows and data.family.is_spherical)]
    except ValueError as error:
        if entry.fallback is None:
            raise
        remark = f"{name} was skipped, and {entry.fallback} used in its place: {error}"
    candidates = start_candidates(entry.fallback, data, n_components, prior, rng)
    return [replace(candidate, skipped=(remark, *candidate.skipped)) for candidate in candidates]
