"""Exact tensors, rank detected: is every component found with every seed?"""

from functools import partial

import numpy as np

import apolar
from apolar.decomposition.terms import power_jacobian
from benchmarks import problems

SHAPES = [
    (2, 3, 2), (3, 3, 3), (6, 3, 4), (10, 3, 10), (20, 3, 20), (4, 4, 4),
    (5, 4, 5), (2, 5, 3), (4, 5, 10), (5, 6, 15), (3, 7, 10), (2, 9, 5),
]  # fmt: skip
SEEDS = range(20)
GOOD = 1e-6
# Alternating least squares stops long before that, so less is asked of it.
GOOD_FOR_PEERS = 1e-2


def rounding_limit(vectors: np.ndarray, tensor: apolar.SymmetricTensor, seed: int) -> float:
    """Return how far rounding of the coefficients alone moves the components, to first order."""
    if len(tensor.coefficients) * vectors.size > 1e5:
        return float("nan")
    rng = np.random.default_rng(seed)
    roots = np.sqrt(tensor.multinomials)
    jacobian = power_jacobian(vectors, np.ones(len(vectors)), tensor.order).reshape(len(roots), -1)
    change = roots * tensor.coefficients * 2.0**-53 * rng.choice([-1, 1], len(roots))
    moved = np.linalg.lstsq(jacobian, change, rcond=1e-17)[0].reshape(vectors.shape)
    return float((np.linalg.norm(moved, axis=1) / np.linalg.norm(vectors, axis=1)).max())


def measure(dim: int, order: int, rank: int, *, unit: bool) -> list[str]:
    peers = {
        "apolar": lambda tensor, dense, seed: apolar.decompose(tensor, random_state=seed),
        "parafac": lambda tensor, dense, seed: problems.tensorly_parafac(dense, rank, seed),
        "cp_als": lambda tensor, dense, seed: problems.pyttb_als(dense, rank, seed),
    }
    errors = {name: [] for name in peers}
    times = {name: [] for name in peers}
    limits = []
    for seed in SEEDS:
        vectors = problems.components(dim, rank, seed, unit=unit)
        tensor = apolar.SymmetricTensor.from_waring(np.ones(rank), vectors, order)
        dense = tensor.to_dense()
        limits.append(rounding_limit(vectors, tensor, seed))
        for name, peer in peers.items():
            seconds, waring = problems.timed(partial(peer, tensor, dense, seed))
            times[name].append(seconds)
            errors[name].append(problems.largest_error(vectors, waring) if waring else np.inf)
    row = [f"({dim}, {order}, {rank})"]
    for name in peers:
        good = GOOD if name == "apolar" else GOOD_FOR_PEERS
        row.append(f"{sum(error < good for error in errors[name])}/{len(SEEDS)}")
    row += [f"{max(errors['apolar']):.1e}", f"{np.nanmax(limits):.1e}" if np.isfinite(limits).any() else "-"]
    for name in ("parafac", "cp_als"):
        row.append(f"{np.median(times[name]) / np.median(times['apolar']):.1f}")
    return [*row, f"{1e3 * np.median(times['apolar']):.1f}"]


def main() -> None:
    header = [
        "(m, d, r)", "apolar", "tensorly parafac", "pyttb cp_als", "worst error, apolar",
        "worst from rounding alone", "parafac / apolar, time", "cp_als / apolar, time", "apolar, ms",
    ]  # fmt: skip
    parts = []
    for unit, name in ((True, "on the unit sphere"), (False, "Gaussian, of any length")):
        rows = [measure(*shape, unit=unit) for shape in SHAPES]
        parts.append(
            f"Components {name}. Seeds with every component found: within {GOOD:g} for apolar, which detects "
            f"the rank; within {GOOD_FOR_PEERS:g} for the peers, which are given it.\n\n"
            + problems.table(header, rows)
        )
    problems.save("exact", "Exact tensors", parts)
