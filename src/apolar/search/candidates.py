"""Candidates of a fit by the name of a start, some of them from a simpler problem."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar._core.settings import SETTINGS
from apolar.data import Rows, open_rows
from apolar.data.rows import Divided
from apolar.em.known import HeldParameters
from apolar.em.low_density import with_noise_component, without_low_density
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.em.run import Stop, run
from apolar.mixture.families import FAMILIES, Family
from apolar.mixture.prior import Prior
from apolar.moments.covariance import leading_directions
from apolar.search.factor_numbers import mixture_of_shares, with_left_out
from apolar.search.search import (
    ALIKE,
    SearchReport,
    affords_all_starts,
    beside_noise,
    one_component,
    portfolio,
    work_of_pass,
)
from apolar.search.starts import STARTS

__all__ = ["start_candidates"]


def start_candidates(
    name: str,
    data: Problem,
    n_components: int,
    prior: Prior | None,
    rng: np.random.Generator,
    report: SearchReport | None = None,
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
    report : callable, optional
        Told about the work of a search.

    Returns
    -------
    candidates : list of Fit
        Those of "auto" are optima of EM on a sample of the rows; the others are where EM is to start.
    """
    entry = STARTS[name]
    if n_components == 1 and data.family.has_factors:
        sample = data.subsample(SETTINGS.sample_rows, rng)
        return [Fit(one_component(sample, Prior() if prior is None else prior), "moments")]
    if n_components == 1:
        return portfolio(data, n_components, prior, rng)
    if data.has_noise and entry.start is not None:
        kept = without_low_density(data.subsample(2 * SETTINGS.sample_rows, rng))
        return beside_noise(start_candidates(name, kept, n_components, prior, rng), data.noise_share)
    seen_whole = entry.sees_all_rows and not data.family.has_factors
    simpler = [] if seen_whole else _simpler(data, n_components, rng, is_search=entry.start is None)
    if simpler:
        # Rounding errors are those of the columns.
        exact = None if prior is None else prior.with_errors(None)
        starts = []
        for each in simpler:
            within = prior if each.data.is_rounded else exact
            is_search = entry.start is None
            found = portfolio if is_search else functools.partial(start_candidates, name)
            starts.append(each.start(found(each.data, n_components, within, rng, report), prior))
            if starts[-1].status is FitStatus.INTERRUPTED:
                return starts[-1:]
        return starts if len(starts) == 1 else _likelier_first(simpler[0].sample, starts, prior)
    if entry.start is None:
        return portfolio(data, n_components, prior, rng, report)
    try:
        seen = data if entry.sees_all_rows else data.subsample(2 * SETTINGS.sample_rows, rng).distinct()
        made = entry.start(seen, n_components, prior, rng)
        # Moments describe spherical components: for other families they are only a rough start.
        return [Fit(made, name, is_from_all_rows=entry.sees_all_rows and data.family.is_spherical)]
    except ValueError as error:
        if entry.fallback is None:
            raise
        remark = f"{name} was skipped, and {entry.fallback} used in its place: {error}"
    candidates = start_candidates(entry.fallback, data, n_components, prior, rng)
    return [replace(candidate, skipped=(remark, *candidate.skipped)) for candidate in candidates]


@dataclass(frozen=True, eq=False)
class _Simpler:
    """A simpler problem, in which good starts cost less, or are more reliable.

    Attributes
    ----------
    data : Problem
        Its rows.
    sample : Problem
        The same rows in the original problem.
    remark : str
        What was done, for the user.
    """

    data: Problem
    sample: Problem
    remark: str

    def start(self, candidates: list[Fit], prior: Prior | None) -> Fit:
        """Return the M-step from the responsibilities of the best candidate of the simpler problem."""
        best = candidates[0]
        shares = self.data.row_responsibilities(best.parameters)[0]
        parameters = mixture_of_shares(self.sample.imputed(), shares, Prior() if prior is None else prior)
        # Where covariances were diagonal, from there.
        strengths = ALIKE if self.data.family.n_axes < 2 else None
        skipped = (*best.skipped, self.remark)
        status = FitStatus.INTERRUPTED if best.status is FitStatus.INTERRUPTED else FitStatus.NOT_RUN
        return Fit(parameters, best.start, status, strengths=strengths, skipped=skipped, search=best.search)


def _likelier_first(sample: Problem, starts: list[Fit], prior: Prior | None) -> list[Fit]:
    """Return starts in all columns, the one that is likelier after some steps first."""
    each = [sample.imputed().for_mixture(start.parameters) for start in starts]
    affordable = SETTINGS.free_work / (len(starts) * work_of_pass(each[0], starts[0].parameters.n_components))
    n_steps = int(np.clip(affordable, SETTINGS.first_steps, SETTINGS.short_steps))
    within = Prior() if prior is None else prior
    ends = [run(rows, [start], within, Stop(n_steps))[0] for rows, start in zip(each, starts, strict=True)]
    if sample.family.has_factors:  # of numbers that may differ
        ends = [with_left_out(rows, end) for rows, end in zip(each, ends, strict=True)]
    order = sorted(range(len(starts)), key=lambda i: -ends[i].score)
    return [starts[i] for i in order]


def _simpler(
    data: Problem, n_components: int, rng: np.random.Generator, *, is_search: bool
) -> list[_Simpler]:
    """Return simpler problems, if starts are better found there.

    If columns are many, starts are found in the leading directions of the rows: of the rows as they are, and
    where the family has more than one unit, of standardised columns. Where rows are fewer than columns,
    whitened rows would say nothing, and starts are found among diagonal covariances.
    """
    is_many = data.is_wide or (is_search and data.n_features > SETTINGS.max_columns)
    if is_many:
        sample = data.subsample(2 * SETTINGS.sample_rows if data.is_wide else SETTINGS.sample_rows, rng)
        units = [np.ones(data.n_features)]
        if not (data.is_wide or data.family.unit_axes == 0):
            units.append(np.broadcast_to(data.whitening.deviations, data.n_features))
        simpler = []
        for unit, words in zip(units, ("rows", "standardised columns"), strict=False):
            simple = _on_leading_directions(sample, n_components, unit, rng)
            remark = f"Starts were searched for in the {simple.n_features} leading directions of the {words}."
            simpler.append(_Simpler(simple, sample, remark))
        axis_aligned = None if data.is_wide or data.family.has_factors else _with_axes_of_columns(sample)
        if axis_aligned is not None and affords_all_starts(axis_aligned, n_components):
            simpler.append(
                _Simpler(axis_aligned, sample, "Starts were searched for among diagonal covariances.")
            )
        return simpler
    if data.family.has_factors:
        sample = data.subsample(SETTINGS.sample_rows, rng)
        simple = _with_family(sample, sample.rows, replace(FAMILIES["full"], dof=data.family.dof))
        return [_Simpler(simple, sample, "Starts were searched for among full covariances.")]
    if data.family.is_axis_aligned or not _has_few_distinct_rows(data):
        return []
    # Whitened, all rows are equally far apart, apart from their weights: any choice among them is chance.
    reason = "there are no more distinct rows than columns"
    sample = data.subsample(SETTINGS.sample_rows, rng)
    remark = f"Starts were searched for among diagonal covariances: {reason}."
    return [_Simpler(_with_axes_of_columns(sample), sample, remark)]


def _with_family(sample: Problem, rows: Rows, family: Family) -> Problem:
    """Return rows for another family, with the noise, and what is known about the components of the sample.

    Parameters that are known are those of the other columns.
    """
    simple = Problem(rows, family, threads=sample.threads)
    if sample.known is not None:
        simple = simple.replace(known=replace(sample.known, held=HeldParameters()))
    return with_noise_component(simple, sample.noise_share) if sample.has_noise else simple


def _with_axes_of_columns(sample: Problem) -> Problem:
    """Return rows for the axis-aligned family of the same sharing."""
    if sample.family.is_axis_aligned:
        return sample
    simple = _with_family(sample, sample.rows, sample.family.with_axes(1))
    return simple.replace(measurement=sample.measurement) if sample.is_rounded else simple


def _has_few_distinct_rows(data: Problem) -> bool:
    """Return whether there are no more distinct rows than columns, as far as that can be told at low cost."""
    rows = data.rows
    if rows.is_distributed or rows.device_template is not None or data.n_rows > 2 * SETTINGS.sample_rows:
        return False
    return not data.has_distinct_rows(data.n_features + 2)


def _on_leading_directions(
    data: Problem, n_components: int, units: Array, rng: np.random.Generator
) -> Problem:
    """Return rows, in some units of the columns, projected on their leading directions.

    The means of a mixture of r components lie in an affine space of r - 1 dimensions. If components vary
    less than their means do, the directions of largest variance span it. Spherical components keep their
    variances there, and others may take any direction.
    """
    rows, family = data.imputed().rows, data.family
    if np.any(units != 1):
        rows = rows.transform(Divided(units))
    mean = data.whitening.centre / units
    # With some directions beyond those in which the means lie.
    n_directions = n_components + 10
    if not (family.is_spherical or data.is_wide):
        n_directions = min(n_directions, SETTINGS.max_columns)
    n_directions = min(n_directions, rows.n_features, max(data.n_rows - 1, 1))
    directions = leading_directions(rows, mean, data.weight, n_directions, rng)[1]
    parts = [
        np.asarray((block if sparse.issparse(block) else np.asarray(block)) @ directions) - mean @ directions
        for block, _ in rows.read(rows.chunk_rows(n_directions))
    ]
    projected = open_rows(np.concatenate(parts), data.row_weights())
    kind = family.with_axes(0)
    if not (family.is_spherical or data.is_wide):
        kind = replace(FAMILIES["tied" if family.shares_covariance else "full"], dof=family.dof)
    return _with_family(data, projected, kind)
