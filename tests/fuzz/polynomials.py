"""Hostile polynomials: strings and dicts of any kind give a form that reads back, or an error in a line."""

import numpy as np

import apolar
from apolar.tensor import n_monomials, parse_polynomial
from fuzz.outcomes import REFUSALS, single_line

# Forms that are decomposed too: small ones.
FEW_COEFFICIENTS = 30
SHOWN = 120

_LETTERS = [*"xyzabwij", "x1", "x_2", "x10", "y0"]
_NUMBERS = [
    "0", "1", "2", "-3", "1.5", ".5", "1e3", "1e-320", "1e308", "9e999", "2i", "1.j", "007", "1e", "1.2.3",
]  # fmt: skip
_GLUE = ["+", "-", "*", "/", "^", "**", "(", ")", " ", "", "\n", "\t"]
_ODD = [
    "&", "\x00", "\x1b[31m", "é", "∞", "²", "٣", "xₙ", "__import__('os')", "\ud800", "#", ",", "=", "½",
    "i", "j",
]  # fmt: skip


def run(rng):
    """Try one polynomial; return what it was."""
    kind = str(rng.choice(list(_MAKERS)))
    polynomial = _MAKERS[kind](rng)
    described = f"{kind}: {polynomial!r:.{SHOWN}}"
    variables = None
    if isinstance(polynomial, str) and rng.random() < 0.2:
        choices = [["x", "y"], ["y", "x", "z"], ["x", "x"], [""], [], ["x", "i"], list("xyzabw")]
        variables = choices[rng.integers(len(choices))]
    try:
        form = apolar.SymmetricTensor.from_polynomial(polynomial, variables=variables)
    except REFUSALS as error:
        return f"{described}: {single_line(error)}"
    _check(form, polynomial, variables, described)
    if len(form.coefficients) <= FEW_COEFFICIENTS:
        try:
            waring = apolar.decompose(form, random_state=0, n_starts=2)
        except REFUSALS as error:
            return f"{described}: {single_line(error)}"
        assert np.isfinite(waring.residual), described
        assert waring.to_string(), described
    return f"{described}: order {form.order}, dim {form.dim}"


# --- strings -----------------------------------------------------------------------------------


def _soup(rng):
    """Return pieces in any order."""
    pieces = [*_LETTERS, *_NUMBERS, *_GLUE, *_GLUE, *_LETTERS]
    if rng.random() < 0.2:
        pieces += _ODD
    return "".join(rng.choice(pieces, size=rng.integers(0, 30)))


def _form(rng):
    """Return a sum of monomials of one degree, mostly."""
    degree, names = int(rng.integers(1, 8)), list("xyzw"[: rng.integers(1, 5)])
    terms = []
    for _ in range(rng.integers(1, 8)):
        factors = [str(name) for name in rng.choice(names, degree if rng.random() < 0.95 else degree + 1)]
        number = str(rng.choice(["", "2*", "-1.5*", "1e300*", "1e-300*", "(1+2i)*", "0*"]))
        terms.append(number + str(rng.choice(["*", " ", ""])).join(factors))
    return " + ".join(terms)


def _brackets(rng, depth=0):
    """Return sums, products and powers within each other."""
    if depth > 4 or rng.random() < 0.3:
        return str(rng.choice(["x", "y", "z", "2", "x1", "(x + y)", "3i", "x^2", "y*z"]))
    parts = [_brackets(rng, depth + 1) for _ in range(rng.integers(1, 4))]
    inner = str(rng.choice([" + ", " - ", "*", "", "/"])).join(parts)
    power = str(rng.choice(["", "", "^2", "^3", "^0", "**7", "^40", "^1000", "^1001", "^-1", "^x", "^2.5"]))
    return f"({inner}){power}"


def _long(rng):
    """Return what is long, deep or of high degree."""
    n = int(rng.choice([50, 500, 5000]))
    choices = [
        "(x+y)*" * n + "x",
        f"(x+y+z)^{n}",
        "x*" * n + "y",
        "x" * n,
        "(" * n + "x" + ")" * n,
        "+".join(f"x{i}^{n}" for i in range(min(n, 500))),
        "*".join(f"x{i}" for i in range(min(n, 500))),
        "x+" * n + "&" + "+y" * n,
        "-" * n + "x",
        "x^" + "9" * n,
        "9" * n + "x",
        "x" + "1" * n,
        "((x+y)^9+z^9)^" + str(n),
        " " * n + "x" + " " * n,
        "x^2" + "/3" * n,
        "1e" + "9" * n + "*x",
    ]
    return choices[rng.integers(len(choices))]


def _damaged(rng):
    """Return a form with a few characters changed, taken out or repeated."""
    text = list(_form(rng))
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(len(text) + 1))
        text[place : place + int(rng.integers(0, 3))] = str(rng.choice([*_GLUE, *_ODD, *_LETTERS, *_NUMBERS]))
    return "".join(text)


# --- dicts and others -----------------------------------------------------------------------------


def _dict(rng):
    dim, degree = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    numbers = [1, 2.5, -1e300, 1e-310, 1j, 0, np.float32(2), np.int64(3), True]
    odd = [float("nan"), float("inf"), "2", None, 10**400, complex("inf"), [1]]
    terms = {}
    for _ in range(rng.integers(0, 6)):
        key = tuple(int(e) for e in rng.multinomial(degree, np.full(dim, 1 / dim)))
        if rng.random() < 0.1:
            keys = [key[:-1], (*key, 0), (-1, degree + 1), (1.5,), "12", 3, (), (10**30,), (True, 1)]
            keys.append((degree + 1,) * dim)
            key = keys[rng.integers(len(keys))]
        values = odd if rng.random() < 0.1 else numbers
        terms[key] = values[rng.integers(len(values))]
    return terms


def _other(rng):
    choices = [None, 3, b"x^2", ["x", "y"], object(), "", " ", {}, float("nan"), ("x^2",), {"x": 1}, {1, 2}]
    return choices[rng.integers(len(choices))]


_MAKERS = {make.__name__[1:]: make for make in (_soup, _form, _brackets, _long, _damaged, _dict, _other)}


# --- what must hold -------------------------------------------------------------------------------


def _check(form, polynomial, variables, described):
    """Check that a form is the polynomial, and reads back."""
    assert np.all(np.isfinite(form.coefficients)), described
    assert len(form.coefficients) == n_monomials(form.dim, form.order), described
    assert repr(form), described
    if isinstance(polynomial, str):
        names = parse_polynomial(polynomial, variables)[1]
    else:
        names = [f"x{i + 1}" for i in range(form.dim)]
    assert len(names) == form.dim, described
    try:
        text = form.to_string(names, precision=17)
    except REFUSALS as error:  # a coefficient as written overflows
        single_line(error)
        return
    if np.any(form.coefficients) and len(text) < 20_000:
        again = apolar.SymmetricTensor.from_polynomial(text, variables=names)
        scale = np.abs(form.coefficients).max()
        difference = np.abs(again.coefficients - form.coefficients).max()
        # Numbers below the normal ones have few digits.
        assert difference <= 1e-14 * scale + 1e-322, (described, text[:SHOWN])
