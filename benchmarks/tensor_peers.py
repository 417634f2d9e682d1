"""Decompositions by apolar and other programs: general, non-negative, orthogonal; published examples.

A shape is a line of `SHAPES`, a program a line of `PROGRAMS`.
"""

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import apolar
from apolar.decomposition import component_errors
from benchmarks import problems

SEEDS = range(5)
# Components within this are found; the programs that alternate stop long before rounding.
GOOD, GOOD_WITH_NOISE = 1e-2, 0.1
NOISE = 1e-3

# (m, d, r): up to the ranks of algorithm 2, and above the number of variables.
SHAPES = [
    (6, 3, 4), (10, 3, 10), (20, 3, 20), (4, 4, 4), (10, 4, 10), (4, 5, 4), (4, 6, 4),
    (5, 3, 6), (6, 4, 12), (10, 4, 25), (4, 5, 10), (5, 5, 12), (4, 6, 10), (5, 6, 15),
]  # fmt: skip
NONNEGATIVE_SHAPES = [(6, 3, 4), (10, 3, 10), (20, 3, 10), (5, 4, 5), (4, 5, 4)]
ORTHOGONAL_SHAPES = [(10, 3, 10), (20, 3, 12), (8, 4, 6), (5, 5, 5)]


@dataclass(frozen=True)
class Answer:
    """What a program gives: terms, made symmetric if they are not, and how near it came itself."""

    waring: apolar.Waring
    residual: float


@dataclass(frozen=True)
class Case:
    """What a program is given: a tensor, the same as a full array, the rank, and a seed."""

    tensor: apolar.SymmetricTensor
    dense: np.ndarray
    rank: int
    seed: int


Program = Callable[[Case], Answer]


def of_factors(case: Case, weights: np.ndarray, factors: list[np.ndarray]) -> Answer:
    """Return an answer with a factor for each side: its own residual, and the symmetric terms next to it."""
    full = np.asarray(factors[0]) * weights
    for factor in factors[1:]:
        full = full[..., None, :] * np.asarray(factor)
    residual = float(np.linalg.norm(full.sum(axis=-1) - case.dense) / np.linalg.norm(case.dense))
    return Answer(problems.symmetric(weights, [np.asarray(factor) for factor in factors]), residual)


def ours(constraint: str | None = None) -> Program:
    def program(case: Case) -> Answer:
        waring = apolar.decompose(case.tensor, case.rank, constraint=constraint, random_state=case.seed)
        return Answer(waring, waring.residual)

    return program


def parafac(case: Case) -> Answer:
    from tensorly.decomposition import parafac

    cp = parafac(case.dense, case.rank, random_state=case.seed)
    return of_factors(case, np.asarray(cp.weights), cp.factors)


def nonnegative_parafac(case: Case) -> Answer:
    from tensorly.decomposition import non_negative_parafac

    cp = non_negative_parafac(case.dense, case.rank, random_state=case.seed)
    return of_factors(case, np.asarray(cp.weights), cp.factors)


def nonnegative_hals(case: Case) -> Answer:
    from tensorly.decomposition import non_negative_parafac_hals

    cp = non_negative_parafac_hals(case.dense, case.rank, random_state=case.seed)
    return of_factors(case, np.asarray(cp.weights), cp.factors)


def power_iteration(case: Case) -> Answer:
    waring = problems.tensorly_power(case.dense, case.rank, case.seed)
    return Answer(waring, (case.tensor - waring.to_tensor()).norm() / case.tensor.norm())


def cp_als(case: Case) -> Answer:
    import pyttb

    np.random.seed(case.seed)  # noqa: NPY002 (it draws from the global state)
    cp = pyttb.cp_als(pyttb.tensor(case.dense), case.rank, printitn=0)[0]
    return of_factors(case, np.asarray(cp.weights), cp.factor_matrices)


def gcp_opt(case: Case) -> Answer:
    """Return the result of L-BFGS-B on all factors at once: the optimisation of Tensor Toolbox's `cp_opt`."""
    import pyttb
    from pyttb.gcp.handles import Objectives
    from pyttb.gcp.optimizers import LBFGSB

    np.random.seed(case.seed)  # noqa: NPY002 (it draws from the global state)
    cp = pyttb.gcp_opt(pyttb.tensor(case.dense), case.rank, Objectives.GAUSSIAN, LBFGSB(), printitn=0)[0]
    return of_factors(case, np.asarray(cp.weights), cp.factor_matrices)


PROGRAMS: dict[str, Program] = {
    "apolar": ours(),
    "tensorly parafac": parafac,
    "tensorly symmetric power iteration": power_iteration,
    "pyttb cp_als": cp_als,
    "pyttb gcp_opt": gcp_opt,
}
NONNEGATIVE_PROGRAMS: dict[str, Program] = {
    "apolar, nonnegative": ours("nonnegative"),
    "tensorly non_negative_parafac": nonnegative_parafac,
    "tensorly non_negative_parafac_hals": nonnegative_hals,
}
ORTHOGONAL_PROGRAMS: dict[str, Program] = {
    "apolar, orthogonal": ours("orthogonal"),
    "tensorly symmetric power iteration": power_iteration,
}


# --- truths: weights and points -------------------------------------------------------------------


def gaussian(dim: int, rank: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(rank), problems.components(dim, rank, seed, unit=True)


def nonnegative(dim: int, rank: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points with about half of their entries zero, and one that is large."""
    rng = np.random.default_rng([dim, rank, seed])
    points = rng.random((rank, dim)) * (rng.random((rank, dim)) < 0.5)
    points[np.arange(rank), np.arange(rank) % dim] += 1
    return 1 + rng.random(rank), points / np.linalg.norm(points, axis=1)[:, None]


def orthonormal(dim: int, rank: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([dim, rank, seed])
    return 1 + rng.random(rank), np.linalg.qr(rng.standard_normal((dim, rank)))[0].T


Truth = Callable[[int, int, int], tuple[np.ndarray, np.ndarray]]


# --- measures -------------------------------------------------------------------------------------


def timed(program: Program, case: Case) -> tuple[float, Answer | None]:
    """Return the seconds that a program takes, and its answer; None if it raises."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = program(case)
        except (ValueError, RuntimeError, ArithmeticError, np.linalg.LinAlgError) as error:
            print(f"  {type(error).__name__}: {error}")
            answer = None
    return time.perf_counter() - start, answer


@dataclass(frozen=True)
class Measured:
    """The share of components found, the median residual and seconds, the largest cosine of two points."""

    found: float
    residual: float
    seconds: float
    cosine: float


def largest_cosine(points: np.ndarray) -> float:
    units = points / np.linalg.norm(points, axis=1)[:, None]
    return float(np.abs(units @ units.T - np.eye(len(units))).max())


def measure(
    shape: tuple[int, int, int], noise: float, truth: Truth, programs: dict[str, Program]
) -> dict[str, Measured]:
    print(f"{shape}, noise {noise:g}", flush=True)
    dim, order, rank = shape
    good = GOOD_WITH_NOISE if noise else GOOD
    found: dict[str, list[float]] = {name: [] for name in programs}
    residuals: dict[str, list[float]] = {name: [] for name in programs}
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    cosines: dict[str, list[float]] = {name: [] for name in programs}
    for seed in SEEDS:
        weights, points = truth(dim, rank, seed)
        known = apolar.Waring(weights, points, order)
        tensor = known.to_tensor()
        if noise:
            tensor = problems.noisy(tensor, noise, seed)
        case = Case(tensor, tensor.to_dense(), rank, seed)
        for name, program in programs.items():
            taken, answer = timed(program, case)
            seconds[name].append(taken)
            residuals[name].append(np.inf if answer is None else answer.residual)
            errors = np.inf if answer is None else component_errors(known, answer.waring)
            found[name].append(float(np.mean(errors < good)))
            cosines[name].append(np.nan if answer is None else largest_cosine(answer.waring.points))
    return {
        name: Measured(
            float(np.mean(found[name])),
            float(np.median(residuals[name])),
            float(np.median(seconds[name])),
            float(np.max(cosines[name])),
        )
        for name in programs
    }


def tables(
    shapes: list[tuple[int, int, int]],
    noise: float,
    truth: Truth,
    programs: dict[str, Program],
    *,
    with_cosines: bool = False,
) -> str:
    """Return tables with a row for each shape: components found, residuals, times, and cosines if wanted."""
    measured = {shape: measure(shape, noise, truth, programs) for shape in shapes}
    first, *others = programs

    def by_shape(cells: Callable[[dict[str, Measured]], list[str]]) -> str:
        rows = [[str(shape), *cells(row)] for shape, row in measured.items()]
        return problems.table(["(m, d, r)", *programs], rows)

    good = GOOD_WITH_NOISE if noise else GOOD
    parts = [
        f"Components within {good:g} of the truth, in percent of all seeds:",
        by_shape(lambda row: [f"{100 * row[name].found:.0f}" for name in programs]),
        "Median residual:",
        by_shape(lambda row: [f"{row[name].residual:.1e}" for name in programs]),
        f"Median time: of {first} in ms, of the others as multiples of it:",
        by_shape(
            lambda row: [
                f"{1e3 * row[first].seconds:.1f} ms",
                *(f"{row[name].seconds / row[first].seconds:.1f}" for name in others),
            ]
        ),
    ]
    if with_cosines:
        parts.append("Largest cosine of two points, zero where they are orthogonal:")
        parts.append(by_shape(lambda row: [f"{row[name].cosine:.1e}" for name in programs]))
    return "\n\n".join(parts)


# --- published examples ---------------------------------------------------------------------------


def published() -> str:
    """Return a table of examples that other programs publish with their output, and ours."""
    form = "(x + y + 0.75*z)^4 + 1.5*(x - y)^4 - 2*(x - z)^4"
    tensor = apolar.SymmetricTensor.from_polynomial(form)
    exact = apolar.decompose(tensor, random_state=0)
    error = np.abs(np.sort(exact.weights) - np.array([-8, 6, 6.56640625])).max()
    one = apolar.decompose(tensor, 1, random_state=0)
    distance = one.residual * tensor.norm()
    series = apolar.SymmetricTensor.from_waring([2, 5, -1], [[1, -1, 1, 1], [1, 2, 3, 1], [1, 4, 2, 1]], 3)
    terms = apolar.decompose(series, random_state=0)
    series_error = np.abs(np.sort(terms.weights * terms.points[:, 0] ** 3) - np.array([-1, 2, 5])).max()
    scores, ratios, seconds = [], [], []
    for seed in range(20):
        rng = np.random.default_rng([3, 10, 2, seed])
        points, weights = rng.random((2, 10)), rng.random(2)
        truth = apolar.Waring(weights, points, 3)
        noisy = problems.noisy(truth.to_tensor(), 0.1, seed)
        start = time.perf_counter()
        found = apolar.decompose(noisy, 2, random_state=seed)
        seconds.append(time.perf_counter() - start)
        scores.append(score(truth, found))
        ratios.append(found.residual * noisy.norm() / (noisy - truth.to_tensor()).norm())
    header = ["example", "published", "apolar"]
    rows = [
        ["TensorDec.jl, rank 3 of a quartic: largest error of a weight", "1.6e-12", f"{error:.1e}"],
        [
            "TensorDec.jl, a series of three exponentials to degree 3: the same",
            "1.3e-14",
            f"{series_error:.1e}",
        ],
        [
            "TensorDec.jl, rank 1 of the quartic: weight, distance",
            "6.56525, 9.69534 in its output; 7.70158 in its text, and by semidefinite programming",
            f"{one.weights[0]:.5f}, {distance:.5f}",
        ],
        [
            "Tensor Toolbox `cp_spm`, (10, 3, 2), noise 0.1: similarity score",
            "0.93 (one draw)",
            f"{np.median(scores):.2f} (median of 20 draws, {min(scores):.2f} to {max(scores):.2f})",
        ],
        [
            "the same: square of the distance, over that of the truth",
            "1.03 (0.39 over 0.379907)",
            f"{np.median(np.square(ratios)):.2f} (median)",
        ],
        ["the same: time", "22.6 ms, on another machine", f"{1e3 * np.median(seconds):.1f} ms"],
    ]
    return problems.table(header, rows)


def score(truth: apolar.Waring, found: apolar.Waring) -> float:
    """Return the similarity of two decompositions, one at most, by Pyttb's port of Tensor Toolbox."""
    import pyttb

    def as_factors(waring: apolar.Waring) -> "pyttb.ktensor":
        factor = np.asfortranarray(waring.points.T)
        return pyttb.ktensor([factor] * waring.order, np.array(waring.weights))

    return float(as_factors(found).score(as_factors(truth))[0])


def main() -> None:
    logging.disable(logging.WARNING)  # pyttb logs a line for every array that it copies
    exact = tables(SHAPES, 0.0, gaussian, PROGRAMS)
    with_noise = tables(SHAPES, NOISE, gaussian, PROGRAMS)
    constrained = []
    for noise in (0.0, NOISE, 0.1):
        constrained.append(f"Noise {noise:g}.")
        constrained.append(tables(NONNEGATIVE_SHAPES, noise, nonnegative, NONNEGATIVE_PROGRAMS))
    orthogonal = []
    for noise in (0.0, NOISE, 0.1):
        orthogonal.append(f"Noise {noise:g}.")
        orthogonal.append(
            tables(ORTHOGONAL_SHAPES, noise, orthonormal, ORTHOGONAL_PROGRAMS, with_cosines=True)
        )
    problems.save(
        "tensor_peers",
        "Tensors, by shape",
        [
            f"{len(SEEDS)} seeds for each shape of m variables, order d and r terms. Every program is given "
            "the rank and has its defaults. Factors that differ from side to side are averaged to a "
            "symmetric one before components are compared; the residual is the program's own.",
            "## Exact tensors, components on the unit sphere",
            exact,
            f"## With noise of {NOISE:g}",
            with_noise,
            "## Non-negative components, half of their entries zero",
            *constrained,
            "## Orthonormal components",
            *orthogonal,
            "## Examples that others publish with their output",
            published(),
        ],
    )
