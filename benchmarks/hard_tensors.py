"""Tensors at which searches by residuals go wrong: the rank that is found, and statuses that are false."""

import time
from collections import Counter
from collections.abc import Callable

import numpy as np

import apolar
from apolar import SymmetricTensor
from benchmarks import problems

N_FORMS = 40
Form = tuple[SymmetricTensor, int]
"""A tensor, and its rank over the complex numbers."""


def linear(form: np.ndarray) -> SymmetricTensor:
    return SymmetricTensor(1, len(form), form)


def product(*forms: SymmetricTensor) -> SymmetricTensor:
    result = forms[0]
    for form in forms[1:]:
        result = result * form
    return result


def independent(rng: np.random.Generator, dim: int) -> np.ndarray:
    """Return independent linear forms, with integer coefficients in half of the cases."""
    while True:
        is_integer = rng.random() < 0.5
        forms = (
            rng.integers(-4, 5, (dim, dim)).astype(float) if is_integer else rng.standard_normal((dim, dim))
        )
        if abs(np.linalg.det(forms)) > 0.5:
            return forms


def on_a_tangent(rng: np.random.Generator) -> Form:
    dim, order = int(rng.integers(2, 5)), int(rng.integers(3, 6))
    forms = independent(rng, dim)
    first = product(*[linear(forms[0])] * (order - 1), linear(forms[1]))
    if dim == 2:
        return first, order
    return first + SymmetricTensor.from_waring(np.ones(dim - 2), forms[2:], order), order + dim - 2


def osculating(rng: np.random.Generator) -> Form:
    a, b, c = map(linear, independent(rng, 3))
    return product(a, a, c) + product(a, b, b), 5


def conjugates(rng: np.random.Generator) -> Form:
    shapes = [(5, 4, 10), (6, 4, 14), (3, 8, 12), (4, 6, 12), (4, 4, 6), (5, 5, 12), (4, 3, 4)]
    dim, order, rank = shapes[rng.integers(len(shapes))]
    points = rng.standard_normal((rank // 2, dim)) + 1j * rng.standard_normal((rank // 2, dim))
    both = np.concatenate([points, points.conj()]) / np.tile(np.linalg.norm(points, axis=1), 2)[:, None]
    weights = np.tile(rng.uniform(0.5, 2, rank // 2), 2)
    return SymmetricTensor.from_waring(weights, both, order).real_if_close(), rank


def other_units(rng: np.random.Generator) -> Form:
    dim, order = int(rng.integers(3, 6)), int(rng.integers(3, 7))
    points = rng.standard_normal((dim, dim)) * 10.0 ** rng.uniform(-6, 6, dim)
    return SymmetricTensor.from_waring(rng.uniform(0.5, 2, dim), points, order), dim


def close_pairs(rng: np.random.Generator) -> Form:
    shapes = [(6, 4, 8), (4, 5, 8), (5, 3, 5), (3, 6, 7)]
    dim, order, rank = shapes[rng.integers(len(shapes))]
    points = rng.standard_normal((rank, dim))
    points /= np.linalg.norm(points, axis=1)[:, None]
    points[1] = points[0] + 10.0 ** -rng.uniform(1, 3.5) * rng.standard_normal(dim)
    return SymmetricTensor.from_waring(rng.uniform(0.5, 2, rank), points, order), rank


def on_a_rational_curve(rng: np.random.Generator) -> Form:
    shapes = [(3, 6, 7), (3, 5, 6), (3, 8, 9), (4, 4, 7)]
    dim, order, rank = shapes[rng.integers(len(shapes))]
    at = np.linspace(-1.5, 1.5, rank) + rng.uniform(-0.05, 0.05, rank)
    points = at[:, None] ** np.arange(dim) @ independent(rng, dim)
    points /= np.linalg.norm(points, axis=1)[:, None]
    return SymmetricTensor.from_waring(rng.uniform(0.5, 2, rank), points, order), rank


def integer_powers(rng: np.random.Generator) -> Form:
    shapes = [(3, 5, 7), (3, 6, 8), (3, 8, 13), (4, 3, 5), (4, 5, 12), (3, 4, 5)]
    dim, order, rank = shapes[rng.integers(len(shapes))]
    others = rng.choice(11 ** (dim - 1), rank, replace=False)
    points = [[1, *(int(k) // 11**j % 11 - 5 for j in range(dim - 1))] for k in others]
    return SymmetricTensor.from_waring([1] * rank, points, order), rank


KINDS: dict[str, Callable[[np.random.Generator], Form]] = {
    "powers and a double point, l^(d-1) m + ...": on_a_tangent,
    "a triple point, l (l n + m^2)": osculating,
    "pairs of conjugate points": conjugates,
    "variables in units of 10^-6 to 10^6": other_units,
    "two points 0.0003 to 0.1 apart": close_pairs,
    "points of a conic or cubic, infinitely many sums": on_a_rational_curve,
    "integer powers": integer_powers,
}


def outcome(form: Form, seed: int, *, has_family: bool) -> str:
    """Return what is said about a form."""
    tensor, rank = form
    waring = apolar.decompose(tensor, random_state=seed)
    is_exact = waring.status is apolar.Status.EXACT
    if is_exact and waring.rank < rank and waring.certificate.exact_nearby is not True:
        return "false"
    if has_family and is_exact and waring.certificate.unique:
        return "false"
    if waring.rank == rank:
        return "right" if is_exact else "right, not EXACT"
    return "more" if waring.rank > rank else "fewer, not EXACT"


def main() -> None:
    outcomes = ["right", "right, not EXACT", "more", "fewer, not EXACT", "false"]
    rows = []
    for number, (name, draw) in enumerate(KINDS.items()):
        counts: Counter[str] = Counter()
        seconds = []
        for seed in range(N_FORMS):
            form = draw(np.random.default_rng([2, number, seed]))
            start = time.process_time()
            counts[outcome(form, seed, has_family=draw is on_a_rational_curve)] += 1
            seconds.append(time.process_time() - start)
        numbers = [str(counts[key]) for key in outcomes]
        rows.append([name, *numbers, f"{np.median(seconds):.3f}", f"{max(seconds):.1f}"])
    words = (
        f"{N_FORMS} forms of each kind, the rank not given. False are exact terms that are fewer than the "
        "rank, and the claim that a sum is unique where there are infinitely many."
    )
    header = ["form", *outcomes, "median s", "largest s"]
    problems.save(
        "hard_tensors", "Hard tensors", [f"{words}\n\n{problems.table(header, rows)}"], ("numpy", "scipy")
    )
