"""Forms whose rank over the complex numbers a theorem says, decomposed without it."""

import itertools

import numpy as np
import pytest

import apolar
from apolar import Status, SymmetricTensor
from apolar.decomposition.ranks import generic_rank

VARIABLES = "xyzw"


def monomials():
    """Yield monomials and their ranks [carlini2012]."""
    for n in (2, 3, 4):
        for powers in itertools.combinations_with_replacement(range(1, 5), n):
            rank = int(np.prod([a + 1 for a in powers[1:]]))
            if 3 <= sum(powers) <= 8 and rank <= 30:
                yield "*".join(f"{v}^{a}" for v, a in zip(VARIABLES, powers, strict=False)), rank


def coprime_sums():
    """Yield sums of monomials without common variables [carlini2012]."""
    parts = {
        3: (("x^3", 1), ("x^2*y", 3), ("x*y*z", 4)),
        4: (("x^4", 1), ("x^3*y", 4), ("x^2*y^2", 3), ("x^2*y*z", 6)),
        5: (("x^5", 1), ("x^4*y", 5), ("x^3*y^2", 4)),
    }
    for both in parts.values():
        for (first, a), (second, b) in itertools.combinations_with_replacement(both, 2):
            # Real terms of some are searched for long, in vain.
            marks = [pytest.mark.slow] * (first == "x^2*y^2" and second in ("x^2*y^2", "x^2*y*z"))
            form = f"{first} + 2*{second.translate(str.maketrans('xyz', 'abc'))}"
            yield pytest.param(form, a + b, marks=marks)


CUBICS = [  # the orbits of ternary cubics [landsberg2010, section 8]
    ("x^3", 1), ("x*y*(x+y)", 2), ("x^2*y", 3), ("x^3+y^3+z^3", 3), ("x*y*z", 4), ("x*(x^2+y*z)", 4),
    ("y*(x^2+y*z)", 5), ("y^2*z-x^3", 4), ("y^2*z-x^3-x^2*z", 4), ("y^2*z-x^3+x*z^2", 4),
    ("x^3+y^3+z^3+x*y*z", 4), ("y^2*z-x^3-2*x*z^2-z^3", 4),
]  # fmt: skip
OTHERS = [
    # On a curve that osculates to order three [bernardi2011]: 2 d - 1.
    pytest.param("x^2*(x*z+y^2)", 7, marks=pytest.mark.slow),
    # Of length two in the plane, and on two tangents.
    *((f"x^{d - 1}*y + z^{d}", d + 1) for d in range(3, 8)),
    *((f"(x+y)^{d - 1}*(x-2*y) + (x+z)^{d - 1}*(y+3*w)", 2 * d) for d in range(3, 6)),
    # Powers of a quadratic form in two variables, which is a product of two linear forms.
    *((f"(x^2+y^2)^{k}", k + 1) for k in range(2, 7)),
    *((f"(x^2+x*y+y^2)^{k}", k + 1) for k in range(2, 5)),
    # Binary forms of the largest rank, with a factor of multiplicity d - 1 [carlini2012].
    *((f"(2*x-3*y)^{d - 1}*(x+y)", d) for d in range(3, 9)),
    # Sylvester: a binary form of degree d and rank r <= (d + 1) / 2.
    *((f"(x+y)^{d} + 3*(x-y)^{d} - (2*x+y)^{d}", 3) for d in range(5, 12)),
    # Sums of forms in independent variables, not as written: of binary forms, monomials and powers.
    *((f"(x-y)^{d - 2}*(x+y)^2 + (x+z)^{d}", d) for d in range(5, 9)),
    *((f"(x-y)^{d}*(x+2*y)^{d} + (y+z)^{d}*(z+w)^{d}", 2 * d + 2) for d in range(2, 5)),
    ("(x+y)*(y+z)*(z+x) + 2*(x+w)^3", 5),
    ("(x+y)^2*(y+z)*(z+x) + (w-y)^4", 7),
    ("(x+y)^2*(y+z)^2*(z+x) + (w-y)^5", 10),
    ("(x^2+y^2)^2*(x-y) + (z+w-x)^4*(z+y)", 8),
    ("(x^2+y^2+z^2)^2", 6),  # [reznick1992]
    ("x*(x^2+y^2+z^2)", 4),  # a conic and a line that is not a tangent [landsberg2010]
    # x^a (y^b + z^b): twice the larger of a + 1 and b [carlini2012].
    ("x^2*(y^3+z^3)", 6),
    ("x*(y^3+z^3)", 6),
    ("x*(y^4+z^4)", 8),
    # Elementary symmetric cubics in n variables: n + 1 [lee2016].
    *(
        ("+".join("*".join(three) for three in itertools.combinations("abcdefg"[:n], 3)), n + 1)
        for n in range(4, 8)
    ),
    ("x^3*y+y^3*z+z^3*x", 6),  # Klein's quartic, of generic rank
    ("a*b*c*d*e", 16),
    ("100*x^3+y^3+z^3+w^3", 4),  # singular values with a drop that is not noise
    ("x^3+y^3+z^3+0.1*x*y*z", 4),  # near one of rank 3
]


def sums_of_integer_powers():
    """Yield identifiable sums of powers with integer points: their rank is their number [kruskal1977]."""
    shapes = [
        (3, 4, 4),
        (3, 5, 5),
        (3, 6, 7),
        (4, 3, 4),
        (4, 4, 6),
        (4, 5, 9),
        (5, 3, 5),
        (5, 4, 8),
        (2, 7, 4),
    ]
    for (dim, order, rank), seed in itertools.product(shapes, range(5)):
        rng = np.random.default_rng([dim, order, rank, seed])
        # Points that are no multiples of each other: their first coordinate is one.
        others = rng.choice(19 ** (dim - 1), rank, replace=False)
        points = [[1, *(int(k) // 19**j % 19 - 9 for j in range(dim - 1))] for k in others]
        weights = rng.choice([-3, -1, 1, 2, 5], rank).tolist()
        yield SymmetricTensor.from_waring(weights, points, order), rank


NAMED = [*monomials(), *coprime_sums(), *CUBICS, *OTHERS, *sums_of_integer_powers()]


def test_there_are_many():
    assert len(NAMED) >= 160


@pytest.mark.parametrize(("form", "rank"), NAMED)
def test_the_rank_is_found_without_being_given(form, rank):
    waring = apolar.decompose(form, random_state=0)
    assert (waring.rank, waring.status) == (rank, Status.EXACT)
    assert waring.rank_bounds is None or waring.rank_bounds[0] <= rank


# In other coordinates what is sparse as written is not.
@pytest.mark.parametrize(
    ("form", "rank"),
    [pytest.param(*each, marks=[pytest.mark.slow] * (each[1] == 5)) for each in (*CUBICS, *OTHERS[1:9])],
)
def test_the_rank_does_not_depend_on_coordinates(form, rank):
    tensor = SymmetricTensor.from_polynomial(form)
    turn = np.linalg.qr(np.random.default_rng(len(form)).standard_normal((tensor.dim, tensor.dim)))[0]
    waring = apolar.decompose(tensor.change_variables(turn), random_state=1)
    assert (waring.rank, waring.status) == (rank, Status.EXACT)
    assert waring.rank <= 2 * generic_rank(tensor.dim, tensor.order)
