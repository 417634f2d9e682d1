"""Ranks below the tensor's own: is `auto` as good as the best of 50 random starts?"""

from functools import partial

import numpy as np

import apolar
from benchmarks import problems

SHAPES = [(3, 3, 2), (4, 3, 2), (5, 3, 3), (6, 3, 4), (3, 4, 3), (4, 4, 3), (3, 5, 4), (2, 6, 2)]
SEEDS = range(10)


def measure(dim: int, order: int, rank: int) -> list[str]:
    worse = better = agreed = diverging = 0
    ratios, times = [], []
    for seed in SEEDS:
        rng = np.random.default_rng([dim, order, rank, seed])
        n_monomials = len(apolar.SymmetricTensor.zeros(order, dim).coefficients)
        tensor = apolar.SymmetricTensor(order, dim, rng.standard_normal(n_monomials))
        ours = partial(apolar.decompose, tensor, rank, random_state=0, field="real")
        seconds, waring = problems.timed(ours)

        def random_starts(t: apolar.SymmetricTensor = tensor, r: np.random.Generator = rng) -> apolar.Waring:
            starts = (
                apolar.Waring(r.standard_normal(rank), r.standard_normal((rank, dim)), order)
                for _ in range(50)
            )
            return min((apolar.refine(t, start) for start in starts), key=lambda w: w.residual)

        peer_seconds, best = problems.timed(random_starts)
        ratio = waring.residual / best.residual
        # Terms that diverge creep towards an infimum: a thousandth more or less is how far they got.
        worse += ratio > 1.001
        better += ratio < 0.999
        ratios.append(ratio)
        times.append(peer_seconds / seconds)
        diverging += waring.status is apolar.Status.DIVERGING
        agreed += (waring.status is apolar.Status.DIVERGING) == (best.status is apolar.Status.DIVERGING)
    return [
        f"({dim}, {order}, {rank})", f"{worse}", f"{better}", f"{max(ratios):.4f}",
        f"{diverging}/{len(SEEDS)}", f"{agreed}/{len(SEEDS)}", f"{np.median(times):.1f}",
    ]  # fmt: skip


def main() -> None:
    header = [
        "(m, d, r)", "worse than the best of 50", "better", "largest ratio of residuals",
        "said to diverge", "agree that it does", "time of 50 starts / auto",
    ]  # fmt: skip
    setting = f"Real tensors with Gaussian coefficients, {len(SEEDS)} seeds each."
    problems.save("approximation", "Best approximation of generic tensors", [
        setting, problems.table(header, [measure(*shape) for shape in SHAPES]),
    ])  # fmt: skip


if __name__ == "__main__":
    main()
