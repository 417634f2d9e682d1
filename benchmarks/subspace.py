"""The shapes of the subspace power method's tables: components that are spread out, or correlated."""

import time

import numpy as np

import apolar
from benchmarks import problems

# Variables, order, rank and kind of components: those on which the method's authors time their own program
# [kileel2019]. Weights are Gaussian, some of them a thousand times smaller than others.
SHAPES = [
    (136, 3, 136, "unit"), (40, 4, 200, "unit"), (40, 4, 400, "unit"), (40, 4, 600, "unit"),
    (60, 4, 400, "unit"), (80, 4, 400, "unit"), (40, 4, 200, "shifted"), (40, 4, 200, "positive"),
    (19, 5, 190, "unit"), (11, 6, 250, "unit"),
]  # fmt: skip
# As many as the method can find, or nearly: the powers of the components all but fill their space.
FULL = [(10, 4, rank, "unit") for rank in (43, 44, 45)] + [(6, 6, 50, "unit"), (10, 6, 210, "unit")]
SEEDS = range(3)
GOOD = 1e-6


def made(
    dim: int, order: int, rank: int, kind: str, seed: int
) -> tuple[apolar.SymmetricTensor, apolar.Waring]:
    """Return a tensor, and the terms that it is the sum of."""
    rng = np.random.default_rng([dim, order, rank, seed])
    points = rng.standard_normal((rank, dim))
    if kind == "shifted":
        points = points + 1
    elif kind == "positive":
        points = np.abs(points)
    points /= np.linalg.norm(points, axis=1)[:, None]
    weights = rng.standard_normal(rank)
    return apolar.Waring(weights, points, order)


def measure(dim: int, order: int, rank: int, kind: str) -> list[str]:
    found, seconds, errors = 0, [], []
    for seed in SEEDS:
        truth = made(dim, order, rank, kind, seed)
        tensor = truth.to_tensor()
        start = time.perf_counter()
        waring = apolar.decompose(tensor, random_state=seed)
        seconds.append(time.perf_counter() - start)
        cosines = np.abs(waring.points @ truth.points.T).max(axis=0)
        is_exact = waring.rank == rank and waring.status is apolar.Status.EXACT
        found += is_exact and bool(cosines.min() > 1 - GOOD)
        errors.append(waring.residual)
    return [
        f"({dim}, {order}, {rank})", kind, f"{found}/{len(SEEDS)}", f"{max(errors):.1e}",
        f"{np.median(seconds):.2f}", f"{max(seconds):.2f}",
    ]  # fmt: skip


def main() -> None:
    header = ["(m, d, r)", "components", "found", "largest residual", "median s", "largest s"]
    text = (
        'Rank not given, `method="auto"`. Found: the rank, status EXACT, and every point to within '
        f"{GOOD:g} of its cosine. Shifted: Gaussian with mean one; positive: its absolute values; both are "
        "correlated. Weights are Gaussian."
    )
    parts = [
        text + "\n\n" + problems.table(header, [measure(*shape) for shape in SHAPES]),
        "At the largest ranks of the method, and near them:\n\n"
        + problems.table(header, [measure(*shape) for shape in FULL]),
    ]
    problems.save("subspace", "The shapes of the subspace power method", parts, ("numpy", "scipy"))
