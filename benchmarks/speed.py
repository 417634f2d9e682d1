"""Time compared with other libraries, and its growth with the size."""

from functools import partial

import numpy as np

import apolar
from benchmarks import problems

SIZES = (10, 14, 20, 28, 40, 56, 80)


def problem(dim: int, noise: float, seed: int) -> tuple[np.ndarray, apolar.SymmetricTensor]:
    vectors = problems.components(dim, dim, seed, unit=False)
    exact = apolar.SymmetricTensor.from_waring(np.ones(dim), vectors, 3)
    return vectors, problems.noisy(exact, noise, seed) if noise else exact


def compared_with_peers(dim: int, noise: float, seeds: range) -> list[list[str]]:
    methods = {
        "apolar": lambda t, dense, s: apolar.decompose(t, dim, random_state=s),
        "tensorly parafac": lambda t, dense, s: problems.tensorly_parafac(dense, dim, s),
        "tensorly parafac, 5000 iterations": lambda t, dense, s: problems.tensorly_parafac(
            dense, dim, s, n_iter=5000
        ),
        "pyttb cp_als": lambda t, dense, s: problems.pyttb_als(dense, dim, s),
    }
    if dim > 20:
        del methods["tensorly parafac, 5000 iterations"]
    times = {name: [] for name in methods}
    solved = dict.fromkeys(methods, 0)
    for seed in seeds:
        vectors, tensor = problem(dim, noise, seed)
        dense = tensor.to_dense()
        for name, method in methods.items():
            seconds, waring = problems.timed(partial(method, tensor, dense, seed))
            times[name].append(seconds)
            solved[name] += waring is not None and problems.largest_error(vectors, waring) < 0.1
    base = np.median(times["apolar"])
    return [
        [
            f"m = r = {dim}, {noise:g}", name, f"{1e3 * np.median(values):.1f}",
            f"{np.median(values) / base:.1f}", f"{solved[name]}/{len(seeds)}",
        ]
        for name, values in times.items()
    ]  # fmt: skip


def growth(noise: float, n_seeds: int = 5) -> tuple[list[str], float]:
    medians = []
    for dim in SIZES:
        apolar.decompose(problem(dim, noise, 100)[1], dim, random_state=0)
        times = []
        for seed in range(n_seeds):
            _, tensor = problem(dim, noise, seed)
            times.append(problems.timed(partial(apolar.decompose, tensor, dim, random_state=seed))[0])
        medians.append(np.median(times))
    exponent = float(np.polyfit(np.log(SIZES), np.log(medians), 1)[0])
    largest = float(np.log(medians[-1] / medians[-3]) / np.log(SIZES[-1] / SIZES[-3]))
    row = [f"{noise:g}", *(f"{1e3 * median:.1f}" for median in medians), f"{exponent:.2f}", f"{largest:.2f}"]
    return row, exponent


def main() -> None:
    rows = (
        compared_with_peers(20, 0, range(20))
        + compared_with_peers(20, 1e-3, range(20))
        + compared_with_peers(50, 1e-3, range(5))
    )
    compared = problems.table(
        ["problem, noise", "method", "median ms", "time / apolar", "seeds within 0.1"], rows
    )
    header = ["noise", *(f"m = {dim}, ms" for dim in SIZES), "exponent", "exponent, m = 40 to 80"]
    grown = problems.table(header, [growth(0)[0], growth(1e-3)[0]])
    problems.save(
        "speed", "Time, order 3, Gaussian components, rank given", [compared, "Growth at r = m:", grown]
    )
