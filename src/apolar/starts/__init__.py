"""Where EM starts: by name, the best candidate first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from apolar._core.arrays import IndexArray
from apolar.em.result import FitResult
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.starts.auto import KEPT, portfolio
from apolar.starts.auto import MOST_ROWS as MOST_ROWS_BY_COLUMNS
from apolar.starts.emem import best_of_short_runs, random_responsibilities
from apolar.starts.kmeans import from_kmeans
from apolar.starts.mbhc import mbhc_labels
from apolar.starts.moments import from_moments
from apolar.starts.overseed import overseeded, reduced
from apolar.starts.projection import narrowed
from apolar.starts.seeds import nearest_stats, random_rows, spread_rows

__all__ = ["STARTS", "start_candidates"]

# Starts other than the moments, which see all rows, see at most this many.
MOST_ROWS = 20_000
# With more columns than this, the search of "auto" leaves full covariances for the end.
WIDE = 32

_Start = Callable[[WhitenedData, int, Prior | None, np.random.Generator], WhitenedParameters]


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


def _seeded(choose: Callable[[WhitenedData, int, np.random.Generator], IndexArray]) -> _Start:
    def start(
        data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
    ) -> WhitenedParameters:
        stats = nearest_stats(data, choose(data, n_components, rng))
        return data.family.m_step(reduced(data, stats, n_components), prior)

    return start


# Starts that see the rows themselves, or a sample of them.
_FROM_ROWS: dict[str, _Start] = {
    "overseed": _overseed,
    "kmeans": from_kmeans,
    "mbhc": _mbhc,
    "emem": best_of_short_runs,
    "k-means++": _seeded(spread_rows),
    "random_from_data": _seeded(random_rows),
    "random": _random,
}

STARTS = ("auto", "moments", *_FROM_ROWS)


def start_candidates(
    name: str, data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> list[FitResult]:
    """Return the candidates of a start, the best first.

    Parameters
    ----------
    name : str
        One of `STARTS`.
    data : WhitenedData
    n_components : int
    prior : Prior or None
    rng : numpy.random.Generator

    Returns
    -------
    candidates : list of FitResult
        Those of "auto" were run on a sample of the rows; the others say where EM is to start.
    """
    if data.is_wide and n_components > 1 and name != "moments":
        return _from_few_directions(name, data, n_components, prior, rng)
    if n_components > 1 and name != "moments" and not data.family.is_axis_aligned:
        reason = _reason_for_columns(name, data)
        if reason is not None:
            return _by_columns(name, data, n_components, prior, rng, reason)
    if name == "auto" or n_components == 1:
        return portfolio(data, n_components, prior, rng)
    if name == "moments":
        try:
            # For other families the moments are only a rough start.
            is_exact = data.family.is_spherical
            return [FitResult(from_moments(data, n_components), name, is_from_all_rows=is_exact)]
        except ValueError as error:
            skipped = f"moments was skipped, and overseed used in its place: {error}"
            return _with_remark(start_candidates("overseed", data, n_components, prior, rng), skipped)
    sample = data.subsample(MOST_ROWS, rng).distinct()
    return [FitResult(_FROM_ROWS[name](sample, n_components, prior, rng), name)]


def _with_remark(candidates: list[FitResult], remark: str, *, last: bool = False) -> list[FitResult]:
    """Return candidates with one more remark on what was skipped or done in its place."""
    return [
        replace(one, skipped=(*one.skipped, remark) if last else (remark, *one.skipped)) for one in candidates
    ]


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
) -> list[FitResult]:
    """Return candidates for full covariances that were found with diagonal ones."""
    sample = data.subsample(MOST_ROWS_BY_COLUMNS, rng)
    narrow = WhitenedData(sample.rows, data.family.without_correlations, threads=data.threads)
    candidates = start_candidates(name, narrow, n_components, prior, rng)[:KEPT]
    remark = f"Starts were looked for among diagonal covariances: {reason}."
    return _with_remark(_carried_over(candidates, narrow, sample, data, prior), remark, last=True)


def _from_few_directions(
    name: str, data: WhitenedData, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> list[FitResult]:
    """Return the best candidate of a start on sparse rows of many columns, which are never made dense.

    It is looked for in the leading directions of a sample; the responsibilities there are the start here.
    """
    sample = data.subsample(MOST_ROWS, rng)
    narrow = narrowed(sample, n_components, rng)
    candidates = start_candidates(name, narrow, n_components, prior, rng)[:1]
    remark = f"Starts were looked for in the {narrow.n_features} leading directions of the sparse rows."
    return _with_remark(_carried_over(candidates, narrow, sample, data, prior), remark, last=True)


def _carried_over(
    candidates: list[FitResult],
    narrow: WhitenedData,
    sample: WhitenedData,
    data: WhitenedData,
    prior: Prior | None,
) -> list[FitResult]:
    """Return candidates of a simpler family, or of fewer columns, as starts, by one M-step."""
    carried = []
    for candidate in candidates:
        responsibilities = narrow.row_responsibilities(candidate.parameters)[0]
        stats = sample.soft_stats(responsibilities)
        parameters = data.family.m_step(stats, Prior() if prior is None else prior)
        carried.append(FitResult(parameters, candidate.start, skipped=candidate.skipped))
    return carried
