"""Tensors at which searches by residuals go wrong: the rank that is found, and statuses that are false."""

import time
from collections import Counter
from collections.abc import Callable

import numpy as np

import apolar
from apolar import SymmetricTensor
from apolar.decomposition.ranks import exact_rank, generic_rank, monomial_rank
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


def units_of(points: np.ndarray) -> np.ndarray:
    return points / np.linalg.norm(points, axis=1)[:, None]


# --- limits of fewer terms -----------------------------------------------------------------------


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


def several_tangents(rng: np.random.Generator) -> Form:
    """Return l^(d-1) m + n^(d-1) p + ..., of independent variables [carlini2015]."""
    n_tangents, order = int(rng.integers(2, 4)), int(rng.integers(3, 6))
    forms = [linear(form) for form in independent(rng, 2 * n_tangents)]
    parts = [product(*[a] * (order - 1), b) for a, b in zip(forms[::2], forms[1::2], strict=True)]
    return sum(parts[1:], parts[0]), n_tangents * order


def complex_tangent(rng: np.random.Generator) -> Form:
    dim, order = int(rng.integers(2, 5)), int(rng.integers(3, 6))
    forms = rng.standard_normal((dim, dim)) + 1j * rng.standard_normal((dim, dim))
    first = product(*[linear(forms[0])] * (order - 1), linear(forms[1]))
    if dim == 2:
        return first, order
    return first + SymmetricTensor.from_waring(np.ones(dim - 2), forms[2:], order), order + dim - 2


def binary_with_multiple_points(rng: np.random.Generator) -> Form:
    """Return a binary form of a scheme of length s with a multiple point: its rank is d + 2 - s."""
    order = int(rng.integers(4, 10))
    multiple = int(rng.integers(2, (order + 1) // 2 + 1))
    n_simple = int(rng.integers((order + 1) // 2 - multiple + 1))
    first, second, *others = rng.choice(np.arange(-4, 5), n_simple + 2, replace=False)
    text = f"(x+{first}*y)^{order - multiple + 1}*(x+{second}*y)^{multiple - 1}"
    text = "+".join([text, *(f"(x+{slope}*y)^{order}" for slope in others)]).replace("+-", "-")
    return SymmetricTensor.from_polynomial(text), order + 2 - multiple - n_simple


def near_a_tangent(rng: np.random.Generator) -> Form:
    """Return ((l + h m)^d - l^d) / h, a difference of two powers, as numbers in floating point."""
    order, step = int(rng.integers(3, 6)), 10.0 ** -rng.uniform(0.5, 3)
    first, second, *others = rng.standard_normal((int(rng.integers(2, 5)), 4))
    points = np.array([first + step * second, first, *others])
    weights = np.array([1 / step, -1 / step, *np.ones(len(others))])
    return SymmetricTensor.from_waring(weights, points, order), len(points)


def monomial_in_other_variables(rng: np.random.Generator) -> Form:
    monomials = [(1, 1, 1), (1, 1, 2), (1, 2, 2), (1, 1, 3), (2, 2), (2, 3), (1, 1, 1, 1), (1, 5), (3, 3)]
    powers = monomials[rng.integers(len(monomials))]
    forms = independent(rng, len(powers))
    factors = [linear(form) for form, power in zip(forms, powers, strict=True) for _ in range(power)]
    return product(*factors), monomial_rank(np.array(powers))


def sums_of_monomials(rng: np.random.Generator) -> Form:
    """Return a sum of monomials that share no variable, in other variables [carlini2012]."""
    pairs = [
        ((2, 1), (1, 1, 1)),
        ((1, 1, 1), (3,)),
        ((2, 2), (3, 1)),
        ((2, 1), (2, 1), (3,)),
        ((1, 1, 2), (4,)),
    ]
    monomials = pairs[rng.integers(len(pairs))]
    forms = iter(independent(rng, sum(map(len, monomials))))
    parts = [product(*[linear(f) for p in powers for f in [next(forms)] * p]) for powers in monomials]
    return sum(parts[1:], parts[0]), sum(monomial_rank(np.array(powers)) for powers in monomials)


def reducible_cubic(rng: np.random.Generator) -> Form:
    """Return l (l^2 + m^2 + ...), l (m^2 + n^2 + ...) or l (l m + n^2 + ...) [landsberg2010]."""
    dim, kind = int(rng.integers(3, 5)), int(rng.integers(3))
    forms = [linear(form) for form in independent(rng, dim)]
    first, others = forms[0], forms[1:]
    squares = [product(form, form) for form in others[kind == 2 :]]
    head = [[], [product(first, first)], [product(first, others[0])]][kind]
    quadric = sum((*head, *squares)[1:], (*head, *squares)[0])
    return product(first, quadric), 2 * dim - 2 + (kind == 2)


# --- points ----------------------------------------------------------------------------------------


def conjugates(rng: np.random.Generator) -> Form:
    shapes = [(5, 4, 10), (6, 4, 14), (3, 8, 12), (4, 6, 12), (4, 4, 6), (5, 5, 12), (4, 3, 4)]
    dim, order, rank = shapes[rng.integers(len(shapes))]
    points = rng.standard_normal((rank // 2, dim)) + 1j * rng.standard_normal((rank // 2, dim))
    both = np.concatenate([points, points.conj()]) / np.tile(np.linalg.norm(points, axis=1), 2)[:, None]
    weights = np.tile(rng.uniform(0.5, 2, rank // 2), 2)
    return SymmetricTensor.from_waring(weights, both, order).real_if_close(), rank


def conjugates_and_real_points(rng: np.random.Generator) -> Form:
    """Return pairs of points, some of them near the real ones, with weights of their own, and real points."""
    shapes = [(5, 4, 9), (4, 5, 9), (3, 6, 6), (6, 3, 6), (4, 6, 11), (2, 9, 5), (3, 7, 8)]
    dim, order, rank = shapes[rng.integers(len(shapes))]
    n_pairs = int(rng.integers(1, rank // 2 + 1))
    imaginary = rng.standard_normal((n_pairs, dim)) * 10.0 ** rng.uniform(-2, 0.5, (n_pairs, 1))
    points = rng.standard_normal((n_pairs, dim)) + 1j * imaginary
    weights = rng.standard_normal(n_pairs) + 1j * rng.standard_normal(n_pairs)
    pairs = SymmetricTensor.from_waring(weights, units_of(points), order)
    real = SymmetricTensor.from_waring(
        rng.standard_normal(rank - 2 * n_pairs),
        units_of(rng.standard_normal((rank - 2 * n_pairs, dim))),
        order,
    )
    return SymmetricTensor(order, dim, 2 * pairs.coefficients.real) + real, rank


def close_pairs(rng: np.random.Generator) -> Form:
    shapes = [(6, 4, 8), (4, 5, 8), (5, 3, 5), (3, 6, 7)]
    dim, order, rank = shapes[rng.integers(len(shapes))]
    points = units_of(rng.standard_normal((rank, dim)))
    points[1] = points[0] + 10.0 ** -rng.uniform(1, 3.5) * rng.standard_normal(dim)
    return SymmetricTensor.from_waring(rng.uniform(0.5, 2, rank), points, order), rank


def clusters(rng: np.random.Generator) -> Form:
    """Return three points next to each other, or two pairs, with weights of any sign."""
    shapes = [(6, 4, 8), (4, 5, 8), (5, 3, 5), (4, 6, 7)]
    dim, order, rank = shapes[rng.integers(len(shapes))]
    points = units_of(rng.standard_normal((rank, dim)))
    near = [0, 0] if rng.random() < 0.5 else [0, 3]
    points[[1, 2]] = points[near] + 10.0 ** -rng.uniform(0.5, 2) * rng.standard_normal((2, dim))
    return SymmetricTensor.from_waring(rng.standard_normal(rank), points, order), rank


def on_a_rational_curve(rng: np.random.Generator) -> Form:
    shapes = [(3, 6, 7), (3, 5, 6), (3, 8, 9), (4, 4, 7)]
    dim, order, rank = shapes[rng.integers(len(shapes))]
    at = np.linspace(-1.5, 1.5, rank) + rng.uniform(-0.05, 0.05, rank)
    points = units_of(at[:, None] ** np.arange(dim) @ independent(rng, dim))
    return SymmetricTensor.from_waring(rng.uniform(0.5, 2, rank), points, order), rank


def integer_powers(rng: np.random.Generator) -> Form:
    shapes = [(3, 5, 7), (3, 6, 8), (3, 8, 13), (4, 3, 5), (4, 5, 12), (3, 4, 5)]
    dim, order, rank = shapes[rng.integers(len(shapes))]
    others = rng.choice(11 ** (dim - 1), rank, replace=False)
    points = [[1, *(int(k) // 11**j % 11 - 5 for j in range(dim - 1))] for k in others]
    return SymmetricTensor.from_waring([1] * rank, points, order), rank


def points_of_a_grid(rng: np.random.Generator) -> Form:
    """Return powers of points of a small grid, many of them on lines: as many as the Hankel matrix's rank."""
    shapes = [(3, 6), (4, 4), (3, 5), (3, 8), (4, 6), (5, 4)]
    while True:
        dim, order = shapes[rng.integers(len(shapes))]
        grid = np.array(np.meshgrid(*[[-1, 0, 1]] * (dim - 1))).reshape(dim - 1, -1).T
        points = np.column_stack([np.ones(len(grid), dtype=int), grid])
        rank = int(rng.integers(dim, 3 * dim))
        points = points[rng.choice(len(points), min(rank, len(points)), replace=False)]
        weights = rng.choice([-2, -1, 1, 3], len(points))
        tensor = SymmetricTensor.from_waring(weights.tolist(), points.tolist(), order)
        if exact_rank(tensor)[0] == len(points):
            return tensor, len(points)


def points_of_subspaces(rng: np.random.Generator) -> Form:
    """Return real points that all lie on a few lines, as many as the degree of the Hankel matrix allows."""
    dim, order = [(4, 5), (5, 5), (4, 6), (3, 6), (5, 7)][rng.integers(5)]
    n_lines = dim // 2
    frames = rng.standard_normal((n_lines, 2, dim))
    per_line = [int(rng.integers(1, order // 2 + 2)) for _ in range(n_lines)]
    points = np.vstack([rng.standard_normal((n, 2)) @ f for n, f in zip(per_line, frames, strict=True)])
    return SymmetricTensor.from_waring(rng.standard_normal(len(points)), units_of(points), order), len(points)


def different_weights(rng: np.random.Generator) -> Form:
    shapes = [(4, 3, 4), (5, 4, 8), (3, 6, 6), (4, 5, 8), (6, 3, 6)]
    dim, order, rank = shapes[rng.integers(len(shapes))]
    weights = 10.0 ** rng.uniform(-4, 4, rank) * rng.choice([-1, 1], rank)
    return SymmetricTensor.from_waring(weights, units_of(rng.standard_normal((rank, dim))), order), rank


def complex_points(rng: np.random.Generator) -> Form:
    shapes = [(4, 3, 4), (5, 4, 9), (3, 6, 7), (4, 5, 11), (3, 8, 13), (2, 7, 4)]
    dim, order, rank = shapes[rng.integers(len(shapes))]
    points = rng.standard_normal((rank, dim)) + 1j * rng.standard_normal((rank, dim))
    return SymmetricTensor.from_waring(rng.uniform(0.5, 2, rank), units_of(points), order), rank


# --- numbers -----------------------------------------------------------------------------------------


def other_units(rng: np.random.Generator) -> Form:
    dim, order = int(rng.integers(3, 6)), int(rng.integers(3, 7))
    points = rng.standard_normal((dim, dim)) * 10.0 ** rng.uniform(-6, 6, dim)
    return SymmetricTensor.from_waring(rng.uniform(0.5, 2, dim), points, order), dim


def more_terms_in_other_units(rng: np.random.Generator) -> Form:
    dim, order, rank = [(3, 6, 7), (4, 4, 6), (5, 4, 9), (4, 5, 9), (2, 8, 4)][rng.integers(5)]
    points = rng.standard_normal((rank, dim))
    if rng.random() < 0.5:
        imaginary = rng.standard_normal((rank // 2, dim))
        pairs = points[: rank // 2] + 1j * imaginary
        points = np.concatenate([pairs, pairs.conj(), points[2 * (rank // 2) :]])
    points = points * 10.0 ** rng.uniform(-5, 5, dim)
    return SymmetricTensor.from_waring(np.ones(rank), points, order).real_if_close(), rank


def tangent_in_other_units(rng: np.random.Generator) -> Form:
    tensor, rank = on_a_tangent(rng)
    return tensor.change_variables(np.diag(10.0 ** rng.uniform(-4, 4, tensor.dim))), rank


def of_few_variables(rng: np.random.Generator) -> Form:
    """Return a form in three or two variables as one in more, of any size."""
    tensor, rank = [binary_with_multiple_points, osculating, monomial_in_other_variables][rng.integers(3)](
        rng
    )
    more = rng.standard_normal((tensor.dim, int(rng.integers(tensor.dim + 1, 7))))
    return tensor.change_variables(more) * 10.0 ** rng.uniform(-40, 40), rank


def generic(rng: np.random.Generator) -> Form:
    dim, order = [(2, 5), (2, 8), (3, 3), (3, 4), (4, 3), (3, 5), (5, 3)][rng.integers(7)]
    size = len(SymmetricTensor.zeros(order, dim).coefficients)
    is_integer = rng.random() < 0.5
    drawn = rng.integers(-9, 10, size).astype(float) if is_integer else rng.standard_normal(size)
    return SymmetricTensor(order, dim, drawn), generic_rank(dim, order)


def nearly_of_low_rank(rng: np.random.Generator) -> Form:
    """Return a sum of few powers with noise above rounding: it is a generic form."""
    dim, order, rank = [(3, 3, 2), (3, 4, 3), (4, 3, 3), (2, 6, 2), (3, 4, 5), (4, 3, 4)][rng.integers(6)]
    tensor = SymmetricTensor.from_waring(np.ones(rank), units_of(rng.standard_normal((rank, dim))), order)
    noisy = problems.noisy(tensor, 10.0 ** -rng.uniform(2, 13), int(rng.integers(2**31)))
    return noisy, generic_rank(dim, order)


KINDS: dict[str, Callable[[np.random.Generator], Form]] = {
    "powers and a double point, l^(d-1) m + ...": on_a_tangent,
    "several double points": several_tangents,
    "complex double points": complex_tangent,
    "a triple point, l (l n + m^2)": osculating,
    "binary, with a multiple point": binary_with_multiple_points,
    "differences of near powers": near_a_tangent,
    "monomials in other variables": monomial_in_other_variables,
    "sums of monomials in other variables": sums_of_monomials,
    "reducible cubics": reducible_cubic,
    "pairs of conjugate points": conjugates,
    "pairs of conjugate points and real ones": conjugates_and_real_points,
    "complex points": complex_points,
    "two points 0.0003 to 0.1 apart": close_pairs,
    "three points 0.01 to 0.3 apart, or two pairs": clusters,
    "points of a conic or cubic, infinitely many sums": on_a_rational_curve,
    "points of lines": points_of_subspaces,
    "points of a small grid": points_of_a_grid,
    "integer powers": integer_powers,
    "weights from 10^-4 to 10^4": different_weights,
    "variables in units of 10^-6 to 10^6": other_units,
    "more terms, in units of 10^-5 to 10^5": more_terms_in_other_units,
    "a double point, in units of 10^-4 to 10^4": tangent_in_other_units,
    "few variables, of any size": of_few_variables,
    "generic coefficients": generic,
    "noise of 10^-13 to 0.01": nearly_of_low_rank,
}


def outcome(form: Form, seed: int, *, has_family: bool) -> str:
    """Return what is said about a form."""
    tensor, rank = form
    waring = apolar.decompose(tensor, random_state=seed)
    is_exact, certificate = waring.status is apolar.Status.EXACT, waring.certificate
    misses = waring.rank > 0 and (waring.to_tensor() - tensor).norm() > 1e-12 * tensor.norm()
    lower, upper = waring.rank_bounds or (0, rank)
    if is_exact and (misses or (waring.rank < rank and certificate.exact_nearby is not True)):
        return "false"
    if (certificate.unique and (has_family or waring.rank > rank)) or not lower <= rank <= upper:
        return "false"
    if waring.rank == rank:
        return "right" if is_exact else "right, not EXACT"
    if waring.rank > rank:
        return "more" if is_exact else "more, not EXACT"
    return "fewer, not EXACT"


def main() -> None:
    outcomes = ["right", "right, not EXACT", "more", "more, not EXACT", "fewer, not EXACT", "false"]
    rows = []
    for number, (name, draw) in enumerate(KINDS.items()):
        counts: Counter[str] = Counter()
        seconds = []
        for seed in range(N_FORMS):
            form = draw(np.random.default_rng([3, number, seed]))
            start = time.process_time()
            counts[outcome(form, seed, has_family=draw is on_a_rational_curve)] += 1
            seconds.append(time.process_time() - start)
        numbers = [str(counts[key]) for key in outcomes]
        rows.append([name, *numbers, f"{np.median(seconds):.3f}", f"{max(seconds):.1f}"])
    words = (
        f"{N_FORMS} forms of each kind, the rank not given. False are exact terms that are fewer than the "
        "rank, or whose sum is not the form, bounds that exclude the rank, and the claim that a sum is "
        "unique where there are others. Forms with noise are generic, and few terms of them are expected."
    )
    header = ["form", *outcomes, "median s", "largest s"]
    problems.save(
        "hard_tensors", "Hard tensors", [f"{words}\n\n{problems.table(header, rows)}"], ("numpy", "scipy")
    )
