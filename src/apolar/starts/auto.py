"""The default start: a portfolio of starts, short runs of EM, and rounds of splitting and merging."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apolar.em.loop import Fit, converge, short_runs
from apolar.em.table import Table
from apolar.mixture.components import Components, batch
from apolar.mixture.prior import Prior
from apolar.starts.merging import merged_pairs
from apolar.starts.moments import from_moments, from_more_moments
from apolar.starts.overseed import overseeded
from apolar.starts.splitting import with_one_more

# The portfolio is run on at most this many rows.
MOST_ROWS = 10_000
# Starts by over-seeding; steps of EM after which the best starts are kept, and how many.
OVERSEEDED = 3
SHORT_STEPS = 10
KEPT = 3
# Log-likelihood that may be left to gain in the runs of the portfolio, and their passes at most.
TOLERANCE = 1e-3
PASSES = 300
# Rounds of split and merge, steps of EM with one component more and then one less, and the least gain that
# counts.
ROUNDS = 3
SPLIT_STEPS = 5
# Pairs that are tried as mergers of each proposal.
PAIRS = 3
LEAST_GAIN = 0.05


@dataclass(frozen=True, eq=False)
class Candidate:
    """A mixture on its way, and the name of the start it came from."""

    name: str
    components: Components
    fit: Fit | None = None

    @property
    def log_likelihood(self) -> float:
        """The log-likelihood of its fit, by which candidates are compared.

        Not the objective: that of a component near the mode of the prior is high whatever the rows say, so
        that it prefers small and almost empty components.
        """
        return -np.inf if self.fit is None else self.fit.log_likelihood


def portfolio(
    table: Table, n_components: int, prior: Prior | None, rng: np.random.Generator
) -> tuple[list[Candidate], list[str]]:
    """Return the candidates that were run to their optima, the best first, and notes on what stepped aside.

    Parameters
    ----------
    table : Table
        If its rows are many, the portfolio sees some of them; the moments see all.
    n_components : int
    prior : Prior or None
        With None the search uses the default prior all the same: without one, the likelihood is highest
        where a component has collapsed on a few rows.
    rng : numpy.random.Generator

    Returns
    -------
    candidates : list of Candidate
        Their fits are on the rows that the portfolio saw.
    notes : list of str
    """
    prior = Prior() if prior is None else prior
    sample = table.subsample(MOST_ROWS, rng)
    candidates, notes = _starts(table, sample, n_components, prior, rng)
    if n_components == 1:
        return [_converged(sample, candidates[0], prior)], notes
    runs = batch([candidate.components for candidate in candidates])
    runs, likelihoods = short_runs(sample, runs, prior, SHORT_STEPS)
    order = [int(i) for i in np.argsort(-likelihoods, kind="stable")]
    kept = order[:KEPT]
    # The first start from moments goes on in any case: it has no luck in it, and is the one to disagree with.
    kept += [i for i in order[KEPT:] if candidates[i].name == "moments"]
    finalists = [_converged(sample, Candidate(candidates[i].name, runs[i]), prior) for i in kept]
    finalists.sort(key=lambda candidate: -candidate.log_likelihood)
    for _ in range(ROUNDS):
        better = _split_and_merged(sample, finalists[0], prior, rng)
        finalists[1:1] = better[1:]
        if better[0].log_likelihood <= finalists[0].log_likelihood + LEAST_GAIN:
            finalists[1:1] = better[:1]
            break
        finalists.insert(0, better[0])
    finalists.sort(key=lambda candidate: -candidate.log_likelihood)
    return finalists, notes


def _starts(
    table: Table, sample: Table, n_components: int, prior: Prior, rng: np.random.Generator
) -> tuple[list[Candidate], list[str]]:
    if n_components == 1:
        one = sample.family.maximised(sample.soft_sums(np.ones((1, sample.n_rows))), prior)
        return [Candidate("moments", one)], []
    found, notes = [], []
    methods: dict[str, Callable[[], Components]] = {
        "moments": lambda: from_moments(sample, n_components, table.rows),
        "moments+1": lambda: from_more_moments(sample, n_components, prior, table.rows),
    }
    for name, method in methods.items():
        try:
            found.append(Candidate(name, method()))
        except ValueError as error:
            notes.append(f"{name} stepped aside: {error}")
    grown = overseeded(sample, n_components, prior, rng, OVERSEEDED)
    return found + [Candidate("overseed", one) for one in grown], notes


def _converged(sample: Table, candidate: Candidate, prior: Prior) -> Candidate:
    fit = converge(sample, candidate.components, prior, tol=TOLERANCE, max_iter=PASSES)
    return Candidate(candidate.name, fit.components, fit)


def _split_and_merged(
    sample: Table, best: Candidate, prior: Prior, rng: np.random.Generator
) -> list[Candidate]:
    """Return what the best becomes with one component more and then one less, the best first."""
    family = sample.family
    proposals = batch(with_one_more(sample, best.components, rng))
    grown, likelihoods = short_runs(sample, proposals, prior, SPLIT_STEPS)
    sums = family.untied.moments(_untied(sample, grown)) * sample.weight
    merged = []
    for i in np.argsort(-likelihoods, kind="stable")[:KEPT]:
        pairs = merged_pairs(family.untied, sums[int(i)], PAIRS)
        merged += [family.maximised(one, prior) for one in pairs]
    runs, likelihoods = short_runs(sample, batch(merged), prior, SPLIT_STEPS)
    name = best.name if best.name.endswith("+split") else f"{best.name}+split"
    kept = np.argsort(-likelihoods, kind="stable")[:KEPT]
    found = [_converged(sample, Candidate(name, runs[int(i)]), prior) for i in kept]
    return sorted(found, key=lambda candidate: -candidate.log_likelihood)


def _untied(sample: Table, components: Components) -> Components:
    """Return a batch of mixtures with a covariance for each component."""
    if not sample.family.tied:
        return components
    shared = components.covariances[:, None]
    shape = (*components.weights.shape, *components.covariances.shape[1:])
    return Components(components.weights, components.means, np.broadcast_to(shared, shape))
