"""Runs of EM: some plain steps, until the objective hardly changes, or all the way to an optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apolar._core import compiled
from apolar._core.settings import SETTINGS
from apolar.em.ascent import Callback, EMRun, climb
from apolar.em.elliptical import elliptical_gains
from apolar.em.left_out import left_out
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus
from apolar.mixture.parameters import SufficientStats, WhitenedParameters, batch
from apolar.mixture.prior import AdaptivePrior, Prior, log_evidence

__all__ = [
    "Callback",
    "Stop",
    "evidence_of",
    "has_compiled_run",
    "is_quick",
    "leave_rows_out",
    "run",
]


@dataclass(frozen=True)
class Stop:
    """When a run of EM ends, and so how it goes.

    Attributes
    ----------
    steps : int
        The most passes over the rows. Without the others, all are taken, by all starts together.
    relative : float or None
        Plain steps of the extension, where `has_compiled_run`, end where the objective changes by at most
        this, relative to one plus its size, in whitened coordinates; or where a component collapses: it
        became empty, or the next M-step would have had a variance at its floor or lost in rounding.
    gain : float or None
        An accelerated run ends where less than this remains to be gained in the log-likelihood of all rows.
    """

    steps: int
    relative: float | None = None
    gain: float | None = None


def run(
    problem: Problem,
    starts: Sequence[Fit],
    prior: Prior | None,
    stop: Stop,
    *,
    callback: Callback | None = None,
    checked_on: Problem | None = None,
    is_compared: bool = True,
) -> list[Fit]:
    """Run EM from some starts.

    Parameters
    ----------
    problem : Problem
    starts : sequence of Fit
        Of the same number of components. An accelerated run that continues another one takes one plain step;
        if its `earlier` objective is known, one pass that gains less than the tolerance over it is enough.
    prior : Prior or None
        One that does not adapt to the components, where `stop.relative` is given.
    stop : Stop
    callback : callable, optional
        For accelerated runs.
    checked_on : Problem, optional
        The rows, or a sample of them, on which the end of an accelerated run is checked to be a maximum. Near
        a saddle steps are as small as near an optimum, and starts such as k-means are often close to one. The
        run leaves saddles.
    is_compared : bool, default=True
        Whether rows are left out of the ends of accelerated runs, to compare them.

    Returns
    -------
    fits : list of Fit
        The starts, with the mixture of the last pass, or the best one of an accelerated run. After short runs
        the mixtures are those of the last M-step, and the scores those of the last pass, before it: minus
        infinity instead of NaN. They are still starts.
    """
    starts = [problem.with_what_is_known(start) for start in starts]
    if stop.gain is not None:
        runs = (EMRun(problem, start, prior, stop.steps, callback, checked_on) for start in starts)
        ends = [(each.compared_on, climb(each, stop.gain, checked_on)) for each in runs]
        return [
            leave_rows_out(rows, end, prior, problem.weight) if is_compared else end for rows, end in ends
        ]
    if stop.relative is None:
        return _short_runs(problem, starts, prior, stop.steps)
    return _compiled_runs(problem, starts, prior, stop.steps, stop.relative)


def leave_rows_out(rows: Problem, end: Fit, prior: Prior | None, weight: float) -> Fit:
    """Return the end of a run with what rows left out say about it, if optima are compared so.

    Parameters
    ----------
    rows : Problem
        Those that are left out: `Problem.compared`.
    end : Fit
    prior : Prior or None
        Of the run.
    weight : float
        Of all rows of the run.

    Returns
    -------
    fit : Fit
    """
    if not isinstance(prior, AdaptivePrior) or end.stats is None or end.left_out is not None:
        return end
    added = prior.of_strengths(end.strengths).added_rows(rows.family, end.parameters)
    (without,), (seen,) = left_out(rows, end.parameters[None], added, weight)
    of_rows = rows.row_weights()
    weights = np.ones(len(seen)) if of_rows is None else of_rows
    gains = elliptical_gains(rows, end.parameters) if end.parameters.n_components > 1 else 0.0
    return end.updated(
        left_out=without * weights,
        elliptical=(without + gains) * weights,
        optimism=float((seen - without) @ weights),
    )


def evidence_of(problem: Problem, fit: Fit) -> float:
    """Return a lower bound on the log-evidence of a result of EM, in whitened coordinates."""
    assert fit.stats is not None
    n_rows = problem.weight if problem.has_noise else None
    likelihood = np.array([fit.log_likelihood])
    # Degrees of freedom cost as in BIC.
    of_dof = 0.5 * problem.family.n_dof(fit.parameters.n_components) * np.log(max(problem.weight, 1.0))
    evidence = log_evidence(problem.family, fit.parameters[None], fit.stats[None], likelihood, n_rows)
    return float(evidence[0] - of_dof)


# --- plain steps --------------------------------------------------------------------------------


def _short_runs(problem: Problem, starts: Sequence[Fit], prior: Prior | None, n_steps: int) -> list[Fit]:
    """Return the starts after some steps, which share their passes unless these are short."""
    if not n_steps:
        return list(starts)
    parameters = problem.family.with_dof(batch([start.parameters for start in starts]))
    if is_quick(problem, parameters.n_components):
        ends = _compiled_runs(problem, starts, prior, n_steps, SETTINGS.relative_tolerance)
        stats, likelihoods = _stack(ends), np.array([end.log_likelihood for end in ends])
        gains = np.array([end.gain for end in ends])
        adapted = None if prior is None else prior.adapted_to(problem.family, stats)
        parameters = problem.m_step(stats, adapted, batch([end.parameters for end in ends]))
    else:
        adapted, likelihoods = prior, np.full(len(starts), -np.inf)
        for step in range(n_steps):
            gains = likelihoods
            stats, likelihoods = problem.e_step(parameters)
            gains = likelihoods - gains
            # Adapted less and less often, as it changes less and less.
            if prior is not None and step & (step - 1) == 0:
                adapted = prior.adapted_to(problem.family, stats)
            parameters = problem.m_step(stats, adapted, parameters)
    likelihoods = np.where(np.isfinite(likelihoods), likelihoods, -np.inf)
    return [
        start.updated(
            parameters=parameters[i],
            log_likelihood=float(likelihoods[i]),
            left_out=None,
            gain=float(gains[i]),
            n_iter=n_steps,
            is_from_all_rows=False,
        )
        for i, start in enumerate(starts)
    ]


def has_compiled_run(problem: Problem) -> bool:
    """Return whether the extension runs EM on these rows: stored for it, without noise or long tails."""
    family = problem.family
    if (
        not family.has_compiled_m_step(problem.n_features)
        or family.dof is not None
        or problem.kept_columns is None
    ):
        return False
    is_plain = not (problem.is_incomplete or problem.has_noise or np.any(problem.measurement))
    return is_plain and problem.known is None


def is_quick(problem: Problem, n_components: int) -> bool:
    """Return whether Python would take longer between passes than the extension for them.

    One thread then runs EM from each start: a pass is too short to be shared.
    """
    work = problem.n_rows * n_components * problem.n_stats
    return has_compiled_run(problem) and work <= compiled.WORK_PER_THREAD


def _stack(ends: Sequence[Fit]) -> SufficientStats:
    """Return the sufficient statistics of several ends as a batch."""
    arrays = [end.stats.array for end in ends if end.stats is not None]
    return SufficientStats(np.stack(arrays), ends[0].parameters.n_features)


def _compiled_runs(
    problem: Problem, starts: Sequence[Fit], prior: Prior | None, n_steps: int, relative: float
) -> list[Fit]:
    """Return the ends of plain steps, each run by one call of the extension.

    On a table of some hundred rows a step of EM takes the extension microseconds, and Python a hundred times
    as long. A prior that adapts does so after the first pass, and then less and less often, as it changes
    less and less.
    """
    family = problem.family
    if not isinstance(prior, AdaptivePrior):
        return _runs_of_prior(problem, starts, prior, n_steps, relative)
    parameters = batch([start.parameters for start in starts])
    stats, likelihoods = problem.e_step(parameters)
    ends = [
        start.updated(
            status=FitStatus.MAX_ITER,
            log_likelihood=float(likelihoods[i]),
            stats=stats[i],
            left_out=None,
            n_iter=1,
            is_collapsed=True,
        )
        for i, start in enumerate(starts)
    ]
    n_done = 1
    while n_done < n_steps:
        adapted = prior.adapted_to(family, stats)
        parameters = family.m_step(stats, adapted, parameters)
        more = [end.updated(parameters=parameters[i]) for i, end in enumerate(ends)]
        n_more = min(3 * n_done, n_steps - n_done)
        more = _runs_of_prior(problem, more, adapted, n_more, relative)
        ends = [
            new.updated(n_iter=end.n_iter + new.n_iter) if new.n_iter else end
            for end, new in zip(ends, more, strict=True)
        ]
        stats, parameters, n_done = _stack(ends), batch([end.parameters for end in ends]), n_done + n_more
        # Under the prior that its last components suggest, a run moves no further.
        if all(new.n_iter == 2 and new.status is FitStatus.CONVERGED for new in more):
            break
    return ends


def _runs_of_prior(
    problem: Problem, starts: Sequence[Fit], prior: Prior | None, n_steps: int, relative: float
) -> list[Fit]:
    """Return the ends of plain steps under one prior, or under that of each start."""
    family, n_components, n_features = problem.family, starts[0].parameters.n_components, problem.n_features
    columns, row_weights = problem.kept_columns, problem.row_weights()
    assert columns is not None
    terms, shape = family.prior_terms(prior, n_components, n_features), (len(starts), n_components)
    (added, divisors, *frames), numbers = family.kernel_arguments(terms, shape, n_features)
    assert added is not None
    assert divisors is not None
    rows, known = (np.ascontiguousarray(columns), row_weights), (*numbers, float(terms.rows))
    ends = []
    for i, start in enumerate(starts):
        now, arrays = start.parameters, (*rows, added[i], divisors[i], *frames)
        mixture = now.weights, now.means, now.covariances
        end = compiled.plain_run(arrays, mixture, problem.n_stats, *known, n_steps=n_steps, tol=relative)
        parameters, stats, (log_likelihood, objective, n_iter, gain), is_collapsed = end
        converged = not is_collapsed and n_iter < n_steps
        ends.append(
            start.updated(
                parameters=WhitenedParameters(*parameters),
                status=FitStatus.CONVERGED if converged else FitStatus.MAX_ITER,
                log_likelihood=float(log_likelihood),
                objective=float(objective),
                history=(float(objective),),
                left_out=None,
                stats=SufficientStats(stats, n_features),
                prior=prior,
                n_iter=int(n_iter),
                gain=float(gain),
                is_collapsed=is_collapsed,
            )
        )
    return ends
