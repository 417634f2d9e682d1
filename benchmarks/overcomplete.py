"""More terms than structured methods find: how many seeds are exact, and in which time."""

import time

import numpy as np

import apolar
from benchmarks import problems

SEEDS = range(10)
# Variables, order and rank; of order 3, rank 22 is the generic one in 10 variables.
SHAPES = [(10, 3, 20), (10, 3, 21), (10, 3, 22), (15, 3, 30), (20, 3, 40), (10, 4, 43), (10, 4, 45)]


def measure(dim: int, order: int, rank: int) -> list[str]:
    seconds, exact, statuses = [], 0, set()
    for seed in SEEDS:
        vectors = problems.components(dim, rank, seed, unit=seed % 2 == 0)
        tensor = apolar.SymmetricTensor.from_waring(np.ones(rank), vectors, order)
        start = time.process_time()
        waring = apolar.decompose(tensor, rank=rank, random_state=seed)
        seconds.append(time.process_time() - start)
        exact += waring.status.name == "EXACT"
        statuses.add(waring.status.name)
    return [
        f"m = {dim}, d = {order}, r = {rank}", f"{exact}/{len(SEEDS)}", ", ".join(sorted(statuses)),
        f"{np.median(seconds):.2f}", f"{max(seconds):.2f}",
    ]  # fmt: skip


def main() -> None:
    header = ["problem", "seeds exact", "statuses", "median CPU s", "longest CPU s"]
    rows = [measure(*shape) for shape in SHAPES]
    words = (
        "Weights 1; unit components at even seeds, Gaussian ones at odd. "
        "`apolar.decompose(T, rank=r)` by default."
    )
    problems.save(
        "overcomplete",
        "Over-complete tensors without noise, rank given",
        [words, problems.table(header, rows)],
        ("numpy", "scipy"),
    )
