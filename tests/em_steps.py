"""Problems of every kind, and EM written out: the objective of a mixture, and plain steps as in mclust."""

from dataclasses import replace

import numpy as np

from apolar.data import open_rows
from apolar.em.low_density import with_noise_component
from apolar.em.problem import Problem
from apolar.mixture import Prior
from apolar.mixture.families import FAMILIES

# Long tails, by what a kind of problem says of them.
DOF = {"own tails": "own", "common tails": "common", "given tails": 3.0}
VARIANCES = np.array([0.2, 0.0, 0.5])


def objective_of(data, parameters, prior):
    """Return log-likelihood plus log-prior of a mixture that is a batch of one."""
    return float((data.e_step(parameters)[1] + data.family.log_prior(parameters, prior))[0])


def plain_em(data, start, prior, *, relative_tol, max_iter):
    """Return the end of plain EM: until the relative change of the log-likelihood is at most `relative_tol`.

    Each iteration is an M-step and an E-step, of which the first M-step made the start.
    """
    offset = data.whitening.log_det * data.weight
    parameters, before, history, fit = start.parameters, np.inf, [], start
    for _ in range(max_iter):
        stats, log_likelihood = data.e_step(parameters[None])
        history.append(float((log_likelihood + data.family.log_prior(parameters[None], prior))[0]))
        value = float(log_likelihood[0])
        fit = replace(fit, parameters=parameters, log_likelihood=value, objective=history[-1], stats=stats[0])
        if abs(before - value) <= relative_tol * (1 + abs(value + offset)):
            break
        before, parameters = value, data.m_step(stats[0], prior, parameters)
    return replace(fit, n_iter=len(history), history=tuple(history))


def rows_of(kind):
    """Return two clusters in three columns, their labels, -1 for noise, and weights."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [150, 100])
    roots = np.array([np.diag([0.7, 1.0, 2.0]), np.eye(3) + 0.4])
    X = np.array([[0.0, 0, 5], [3, 1, 5]])[labels]
    X = X + np.einsum("nij,nj->ni", roots[labels], rng.standard_normal((250, 3)))
    if "noise" in kind:
        X = np.vstack([X, rng.uniform([-6, -6, -1], [12, 8, 11], (30, 3))])
        labels = np.append(labels, np.full(30, -1))
    if "missing" in kind:
        X[rng.random(X.shape) < 0.2] = np.nan
        X[120] = np.nan
    return X, labels, rng.uniform(0.5, 2.0, len(X)) if "weights" in kind else None


def problem_of(name, kind, opened=open_rows, threads=1):
    """Return a problem and the M-step of its clusters."""
    X, labels, weights = rows_of(kind)
    dof = DOF.get(next((each for each in DOF if each in kind), ""))
    data = Problem(opened(X, weights), replace(FAMILIES[name], dof=dof), threads=threads)
    if "noise" in kind:
        data = with_noise_component(data, 0.1)
    if "rounding" in kind:
        data = data.replace(measurement=VARIANCES)
    stats = data.imputed().soft_stats(labels[None] == np.arange(2)[:, None])
    return data, data.m_step(stats, Prior())
