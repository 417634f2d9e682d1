"""Where EM starts: by name, the best candidate first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from apolar._core.arrays import IndexArray
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.starts.auto import KEPT, Candidate, portfolio
from apolar.starts.auto import MOST_ROWS as MOST_ROWS_BY_COLUMNS
from apolar.starts.emem import best_of_short_runs, random_responsibilities
from apolar.starts.kmeans import from_kmeans
from apolar.starts.mbhc import mbhc_labels
from apolar.starts.moments import from_moments
from apolar.starts.overseed import overseeded, reduced
from apolar.starts.projection import narrowed
from apolar.starts.seeds import nearest_stats, random_rows, spread_rows

__all__ = ["STARTS", "Candidate", "Started", "started"]

# Starts other than the moments, which see all rows, see at most this many.
MOST_ROWS = 20_000
# With more columns than this, the search of "auto" leaves full covariances for the end.
WIDE = 32

Started = tuple[list[Candidate], list[str]]
"""Candidates, the best first, and notes on what stepped aside."""

_Single = Callable[[WhitenedData, int, Prior | None, np.random.Generator], WhitenedParameters]


def _overseed(
    data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    return overseeded(data, n_components, prior, rng)[0]


def _mbhc(
    data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    rows, sizes = data.standardised, data.row_weights()
    n_clusters = min(n_components, data.n_rows)
    criterion = data.family.as_spherical.code
    labels = mbhc_labels(rows, n_clusters, rng, criterion=criterion, sizes=sizes)
    stats = data.hard_stats(labels, n_clusters)
    return data.family.m_step(reduced(data, stats, n_components), prior)


def _random(
    data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> WhitenedParameters:
    responsibilities = random_responsibilities(data, n_components, rng)
    return data.family.m_step(data.soft_stats(responsibilities), prior)


def _seeded(choose: Callable[[WhitenedData, int, np.random.Generator], IndexArray]) -> _Single:
    def start(
        data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
    ) -> WhitenedParameters:
        stats = nearest_stats(data, choose(data, n_components, rng))
        return data.family.m_step(reduced(data, stats, n_components), prior)

    return start


_SINGLES: dict[str, _Single] = {
    "overseed": _overseed,
    "kmeans": from_kmeans,
    "mbhc": _mbhc,
    "emem": best_of_short_runs,
    "k-means++": _seeded(spread_rows),
    "random_from_data": _seeded(random_rows),
    "random": _random,
}

STARTS = ("auto", "moments", *_SINGLES)


def started(
    name: str, data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> Started:
    """Return the candidates of a start.

    Parameters
    ----------
    name : str
        One of `STARTS`.
    table : Table
    n_components : int
    prior : Prior or None
    rng : numpy.random.Generator

    Returns
    -------
    candidates : list of Candidate
    notes : list of str
    """
    if data.is_wide and n_components > 1 and name != "moments":
        return _from_few_directions(name, data, n_components, prior, rng)
    if n_components > 1 and name != "moments" and not data.family.is_axis_aligned:
        reason = _reason_for_columns(name, data)
        if reason is not None:
            return _by_columns(name, data, n_components, prior, rng, reason)
    if name == "auto" or n_components == 1:
        return portfolio(data, n_components, prior, rng)
    notes: list[str] = []
    if name == "moments":
        try:
            # For other families the moments are only a rough start.
            is_exact = data.family.is_spherical
            found = Candidate(name, from_moments(data, n_components), is_from_all_rows=is_exact)
            return [found], notes
        except ValueError as error:
            notes.append(f"moments stepped aside, overseed took over: {error}")
            name = "overseed"
            if data.is_wide:
                found_others, more = _from_few_directions(name, data, n_components, prior, rng)
                return found_others, [*notes, *more]
    sample = data.subsample(MOST_ROWS, rng).distinct()
    return [Candidate(name, _SINGLES[name](sample, n_components, prior, rng))], notes


def _reason_for_columns(name: str, data: WhitenedData) -> str | None:
    """Return why a start for full covariances is better looked for with diagonal ones, if it is."""
    if name == "auto" and data.n_features > WIDE:
        return f"with more than {WIDE} columns that costs far less"
    rows = data.rows
    if rows.is_distributed or rows.device_template is not None or data.n_rows > MOST_ROWS:
        return None
    if data.distinct().n_rows <= data.n_features + 1:
        # All rows are then equally far apart, but for their weights: chance would decide between them.
        return "with no more different rows than columns, any row is as far from the others as any"
    return None


def _by_columns(
    name: str,
    data: WhitenedData,
    n_components: int,
    prior: Prior | None,
    rng: np.random.Generator,
    reason: str,
) -> Started:
    """Return candidates for full covariances that were found with diagonal ones."""
    sample = data.subsample(MOST_ROWS_BY_COLUMNS, rng)
    narrow = WhitenedData(sample.rows, data.family.without_correlations, threads=data.threads)
    found, notes = started(name, narrow, n_components, prior, rng)
    candidates = []
    for candidate in found[:KEPT]:
        posteriors = narrow.row_responsibilities(candidate.parameters)[0]
        parameters = data.family.m_step(sample.soft_stats(posteriors), Prior() if prior is None else prior)
        candidates.append(Candidate(candidate.name, parameters))
    return candidates, [*notes, f"Starts were looked for among diagonal covariances: {reason}."]


def _from_few_directions(
    name: str, data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> Started:
    """Return the best candidate of a start on sparse rows of many columns, which are never made dense.

    It is looked for in the leading directions of a sample; the posteriors there are the start here.
    """
    sample = data.subsample(MOST_ROWS, rng)
    narrow = narrowed(sample, n_components, rng)
    candidates, notes = started(name, narrow, n_components, prior, rng)
    shares = narrow.row_responsibilities(candidates[0].parameters)[0]
    parameters = data.family.m_step(sample.soft_stats(shares), Prior() if prior is None else prior)
    note = f"Starts were looked for in the {narrow.n_features} leading directions of the sparse rows."
    return [Candidate(candidates[0].name, parameters)], [*notes, note]
