"""Starts from a simpler problem: with diagonal covariances, or in the leading directions of sparse rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from apolar._core.settings import SETTINGS
from apolar.data import open_rows
from apolar.em.low_density import with_noise_component
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.rounding import has_rounding
from apolar.mixture.prior import Prior
from apolar.moments.covariance import column_moments
from apolar.moments.range_finder import leading_directions


@dataclass(frozen=True, eq=False)
class SimplifiedProblem:
    """A problem in which good starts cost less, or are more reliable, than in the original one.

    Attributes
    ----------
    simple : Problem
        The rows of the simpler problem.
    sample : Problem
        The same rows in the original problem.
    n_candidates : int
        How many candidates of the simpler problem are starts of the original one.
    remark : str
        What was done, for the user.
    """

    simple: Problem
    sample: Problem
    n_candidates: int
    remark: str

    def starts(self, candidates: list[Fit], prior: Prior | None) -> list[Fit]:
        """Return candidates of the simpler problem as starts of the original one.

        Each start is the M-step from the responsibilities of a candidate.
        """
        starts = []
        for candidate in candidates[: self.n_candidates]:
            responsibilities = self.simple.row_responsibilities(candidate.parameters)[0]
            stats = self.sample.imputed().soft_stats(responsibilities)
            parameters = self.sample.m_step(stats, Prior() if prior is None else prior)
            skipped = (*candidate.skipped, self.remark)
            starts.append(Fit(parameters, candidate.start, skipped=skipped))
        return starts


def diagonal_problem(data: Problem, rng: np.random.Generator, *, is_search: bool) -> SimplifiedProblem | None:
    """Return the problem with diagonal covariances in place of full ones, if starts are better found there.

    Parameters
    ----------
    data : Problem
    rng : numpy.random.Generator
    is_search : bool
        Whether the start is a search, which runs EM many times.

    Returns
    -------
    problem : SimplifiedProblem or None
    """
    if data.family.is_axis_aligned:
        return None
    if is_search and data.n_features > SETTINGS.max_columns:
        reason = f"with more than {SETTINGS.max_columns} columns that costs far less"
    elif _has_few_distinct_rows(data):
        # Whitened, all rows are equally far apart but for their weights: any choice among them is chance.
        reason = "with no more different rows than columns, any row is as far from the others as any"
    else:
        return None
    sample = data.subsample(SETTINGS.sample_rows, rng)
    simple = Problem(sample.rows, data.family.without_correlations, threads=data.threads)
    if has_rounding(data):
        simple = simple.with_noise(np.asarray(data.whitening.noise))
    if data.whitening.has_noise_component:
        simple = with_noise_component(simple, data.whitening.noise_shares[-1])
    remark = f"Starts were looked for among diagonal covariances: {reason}."
    return SimplifiedProblem(simple, sample, SETTINGS.kept, remark)


def _has_few_distinct_rows(data: Problem) -> bool:
    """Return whether there are no more distinct rows than columns, as far as that can be told at low cost."""
    rows = data.rows
    if rows.is_distributed or rows.device_template is not None or data.n_rows > 2 * SETTINGS.sample_rows:
        return False
    return not data.has_distinct_rows(data.n_features + 2)


def projected_problem(data: Problem, n_components: int, rng: np.random.Generator) -> SimplifiedProblem:
    """Return the problem in the leading directions of sparse rows, which are never made dense."""
    sample = data.subsample(2 * SETTINGS.sample_rows, rng)
    simple = projected_on_leading_directions(sample, n_components, rng)
    remark = f"Starts were looked for in the {simple.n_features} leading directions of the sparse rows."
    return SimplifiedProblem(simple, sample, 1, remark)


# Directions beyond those in which the means of a spherical mixture lie.
EXTRA_DIRECTIONS = 10


def projected_on_leading_directions(data: Problem, n_components: int, rng: np.random.Generator) -> Problem:
    """Return sparse rows projected on their leading directions, for spherical components.

    The means of a spherical mixture of r components lie in an affine space of r - 1 dimensions, which the
    directions of largest variance span. Projected on them, components keep their variances.

    Parameters
    ----------
    data : Problem
        Of sparse rows.
    n_components : int
    rng : numpy.random.Generator

    Returns
    -------
    projected : Problem
        Of the same rows, dense.
    """
    rows = data.rows
    weight, _, mean, variances = column_moments(rows)
    n_directions = min(n_components + EXTRA_DIRECTIONS, rows.n_features, max(data.n_rows - 1, 1))
    directions = leading_directions(
        rows, mean, float(variances.sum()), weight, n_directions, rng, or_fewer=True
    )[1]
    offset = mean @ directions
    parts = [
        np.asarray((block if sparse.issparse(block) else np.asarray(block)) @ directions) - offset
        for block, _ in rows.read(rows.chunk_rows(n_directions))
    ]
    projected_rows = open_rows(np.concatenate(parts), data.row_weights())
    return Problem(projected_rows, data.family.as_spherical, threads=data.threads)
