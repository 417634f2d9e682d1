"""Noisy cubic tensors: is the result the one that refining the truth gives?"""

from functools import partial

import numpy as np

import apolar
from apolar.decomposition.least_squares import gauss_newton
from apolar.decomposition.terms import Terms
from benchmarks import problems

SEEDS = range(20)
GOOD = 0.1


def measure(dim: int, noise: float) -> list[list[str]]:
    methods = {
        "apolar auto": lambda t, dense, s: apolar.decompose(t, dim, random_state=s),
        "apolar spm": lambda t, dense, s: apolar.decompose(t, dim, "spm", random_state=s),
        "apolar pencil": lambda t, dense, s: apolar.decompose(t, dim, "pencil", random_state=s),
        "tensorly parafac": lambda t, dense, s: problems.tensorly_parafac(dense, dim, s),
        "tensorly parafac, 5000 iterations": lambda t, dense, s: problems.tensorly_parafac(
            dense, dim, s, n_iter=5000
        ),
        "tensorly power iteration": lambda t, dense, s: problems.tensorly_power(dense, dim, s),
        "pyttb cp_als": lambda t, dense, s: problems.pyttb_als(dense, dim, s),
    }
    errors = {name: [] for name in ["refined truth", *methods]}
    times = {name: [] for name in methods}
    for seed in SEEDS:
        vectors = problems.components(dim, dim, seed, unit=False)
        exact = apolar.SymmetricTensor.from_waring(np.ones(dim), vectors, 3)
        tensor = problems.noisy(exact, noise, seed)
        dense = tensor.to_dense()
        best = gauss_newton(tensor, Terms(vectors, np.ones(dim)))
        refined = apolar.Waring(np.ones(dim), best.vectors, 3)
        errors["refined truth"].append(problems.largest_error(vectors, refined))
        for name, method in methods.items():
            seconds, waring = problems.timed(partial(method, tensor, dense, seed))
            times[name].append(seconds)
            errors[name].append(problems.largest_error(vectors, waring) if waring else np.inf)
    reference = np.array(errors["refined truth"])
    rows = []
    for name, values in errors.items():
        measured = np.array(values)
        seconds = f"{1e3 * np.median(times[name]):.0f}" if name in times else "-"
        rows.append(
            [
                f"m = r = {dim}, {noise:g}", name, f"{np.sum(measured < GOOD)}/{len(SEEDS)}",
                f"{np.sum(measured <= 1.1 * reference)}/{len(SEEDS)}", f"{np.median(measured):.2e}",
                f"{measured.max():.2e}", seconds,
            ]
        )  # fmt: skip
    return rows


def main() -> None:
    header = [
        "problem, noise", "method", f"seeds within {GOOD:g}", "within 1.1 of the refined truth",
        "median error", "worst error", "median ms",
    ]  # fmt: skip
    parts = []
    for dim in (10, 20):
        for noise in (1e-3, 1e-2):
            parts.append(problems.table(header, measure(dim, noise)))
    problems.save("noise", "Noisy cubic tensors, Gaussian components, rank given", parts)
