"""EM written out: the objective of a mixture, and plain steps as mclust takes them."""

from dataclasses import replace

import numpy as np


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
