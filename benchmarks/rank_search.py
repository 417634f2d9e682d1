"""Ranks that are not given: of generic forms, of forms that are known, and of sums of powers."""

import itertools
import time
from math import comb

import numpy as np

import apolar
from apolar.decomposition.ranks import generic_rank
from benchmarks import problems

MAX_COEFFICIENTS = 126
SEEDS = range(2)
# Variables and order of sums of powers, of up to five ranks each, the generic one and those below.
SUMS = [
    (2, 5), (2, 7), (3, 3), (3, 4), (3, 5), (3, 6), (3, 7), (4, 3), (4, 4), (4, 5), (5, 3), (5, 4), (6, 3),
]  # fmt: skip
N_SUMS = 3


def signed_products(*, alternating: bool) -> str:
    """Return the determinant, or the permanent, of a matrix of nine variables."""
    terms = []
    for columns in itertools.permutations(range(3)):
        product = "*".join(f"x{3 * row + column + 1}" for row, column in enumerate(columns))
        n_inversions = sum(a > b for a, b in itertools.combinations(columns, 2))
        terms.append(("-" if alternating and n_inversions % 2 else "+") + product)
    return "".join(terms).removeprefix("+")


KNOWN = {
    "determinant, 3 x 3": (signed_products(alternating=True), "at most 18"),
    "permanent, 3 x 3": (signed_products(alternating=False), "at most 16"),
    "a b c d e": ("a*b*c*d*e", "16"),
    "x y z + u v w": ("x*y*z + u*v*w", "8"),
    "(x^2 + y^2 + z^2)^3": ("(x^2 + y^2 + z^2)^3", "11, real"),
    "Klein's quartic": ("x^3*y + y^3*z + z^3*x", "6"),
    "cusp, x^2 y": ("x^2*y", "3"),
    "x^2 y + y^2 z": ("x^2*y + y^2*z", "5"),
}


def timed(form: object, seed: int) -> tuple[apolar.Waring, float]:
    start = time.perf_counter()
    waring = apolar.decompose(form, random_state=seed)
    return waring, time.perf_counter() - start


def generic_rows() -> list[list[str]]:
    rows = []
    shapes = [(m, d) for m in range(3, 9) for d in range(3, 10) if comb(m + d - 1, d) <= MAX_COEFFICIENTS]
    for dim, order in shapes:
        found, seconds = 0, []
        for seed in SEEDS:
            drawn = np.random.default_rng([dim, order, seed]).standard_normal(comb(dim + order - 1, order))
            waring, spent = timed(apolar.SymmetricTensor(order, dim, drawn), seed)
            found += waring.rank == generic_rank(dim, order) and waring.status is apolar.Status.EXACT
            seconds.append(spent)
        size, generic = comb(dim + order - 1, order), generic_rank(dim, order)
        counts = [f"{number}" for number in (dim, order, size, generic)]
        rows.append([*counts, f"{found}/{len(SEEDS)}", f"{max(seconds):.1f}"])
    return rows


def known_rows() -> list[list[str]]:
    rows = []
    for name, (form, literature) in KNOWN.items():
        results = [timed(form, seed) for seed in SEEDS]
        found = ", ".join(sorted({f"{waring.rank} {waring.status.name}" for waring, _ in results}))
        bounds = results[0][0].rank_bounds
        proved = "by a theorem" if bounds is None else f"{bounds[0]} to {bounds[1]}"
        rows.append([name, literature, found, proved, f"{max(spent for _, spent in results):.1f}"])
    return rows


def sums_of_powers() -> str:
    n_forms, found, seconds = 0, 0, []
    others: list[str] = []
    for dim, order in SUMS:
        generic = generic_rank(dim, order)
        for rank in range(max(1, generic - 4), generic + 1):
            for seed in range(N_SUMS):
                rng = np.random.default_rng([dim, order, rank, seed])
                points = rng.standard_normal((rank, dim))
                weights = rng.choice([-1.0, 1.0], rank) * (0.5 + rng.random(rank))
                units = points / np.linalg.norm(points, axis=1)[:, None]
                tensor = apolar.SymmetricTensor.from_waring(weights, units, order)
                waring, spent = timed(tensor, seed)
                n_forms += 1
                seconds.append(spent)
                if waring.rank <= rank and waring.status is apolar.Status.EXACT:
                    found += 1
                else:
                    others.append(
                        f"({dim}, {order}, {rank}): {waring.rank} {waring.status.name}, {waring.rank_source}"
                    )
    return (
        f"Sums of powers in 2 to 6 variables, of the generic rank and up to four below, {N_SUMS} each: of "
        f"{n_forms}, {found} are found exactly with no more terms, in at most {max(seconds):.1f} s. The "
        "others, variables, order, rank, and what is said about them:\n\n"
        + "\n".join(f"- {other}" for other in others)
    )


def main() -> None:
    generic = ["variables", "order", "coefficients", "generic rank", "found, exact", "largest s"]
    known = ["form", "rank in the literature", "found", "proved", "largest s"]
    parts = [
        "Forms with Gaussian coefficients:\n\n" + problems.table(generic, generic_rows()),
        "Forms of the literature:\n\n" + problems.table(known, known_rows()),
        sums_of_powers(),
    ]
    problems.save("rank_search", "Ranks that are not given", parts, ("numpy", "scipy"))
