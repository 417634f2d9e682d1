"""Plain EM (stand-in)."""

from dataclasses import dataclass

import numpy as np

from apolar.mixture.parameters import batch


@dataclass(frozen=True, eq=False)
class PlainRuns:
    parameters: object
    log_likelihood: object
    n_steps: object
    is_collapsed: object


def plain_runs(data, parameters, prior, *, n_steps, relative_tol, n_threads=1):
    out = []
    f = data.family
    for j in range(len(parameters.weights)):
        p = parameters[j]
        before = -np.inf
        bad = False
        for i in range(n_steps):
            st, ll = data.e_step(p[None])
            v = float((ll + f.log_prior(p[None], prior))[0])
            if not np.isfinite(v):
                bad = True
                break
            if v - before <= relative_tol * (1 + abs(v)):
                break
            before = v
            if i == n_steps - 1:
                i = n_steps
                break
            p = f.m_step(st[0], prior, p)
        out.append((p, float(ll[0]), i, bad or f.smallest_variance(p.covariances) <= 2 * f.least_variance))
    return PlainRuns(
        batch([o[0] for o in out]),
        np.array([o[1] for o in out]),
        np.array([o[2] for o in out]),
        np.array([o[3] for o in out]),
    )
