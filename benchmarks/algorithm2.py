"""Algorithm 2 of the paper at its rank limits, without refinement."""

import numpy as np

import apolar
from apolar.decomposition import component_errors

# (m, d, r, k), r the largest rank for generic points at row degree k.
CASES = [
    (4, 3, 4, 2),
    (4, 4, 4, 2),
    (4, 5, 10, 3),
    (5, 5, 15, 3),
    (5, 6, 15, 3),
    (4, 7, 20, 4),
    (10, 5, 55, 3),
]
N_SEEDS = 10


def main() -> None:
    print("Algorithm 2 (Hankel matrix, SVD, simultaneous diagonalisation), rank detected, no refinement")
    print(
        f"{'m':>3} {'d':>3} {'r':>3} {'k':>3}  {'rank found':>10}  {'median error':>12}  {'worst error':>12}"
    )
    for dim, order, rank, row_degree in CASES:
        errors, detected = [], 0
        for seed in range(N_SEEDS):
            points = np.random.default_rng(seed).standard_normal((rank, dim))
            points /= np.linalg.norm(points, axis=1)[:, None]
            truth = apolar.Waring(np.ones(rank), points, order)
            waring = apolar.decompose(
                truth.to_tensor(), method="pencil", refine=False, row_degree=row_degree, random_state=seed
            )
            detected += waring.rank == rank
            errors.append(component_errors(truth, waring).max())
        print(
            f"{dim:3} {order:3} {rank:3} {row_degree:3}  {detected:7}/{N_SEEDS}"
            f"  {np.median(errors):12.1e}  {max(errors):12.1e}"
        )


if __name__ == "__main__":
    main()
