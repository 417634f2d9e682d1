"""Tables, weights and parameters that people send by mistake, drawn at random."""

import numpy as np

MAX_ROWS = 300
MAX_COLUMNS = 12


def table(rng):
    """Return the name of a kind of table, and one of that kind."""
    name = str(rng.choice(list(TABLES)))
    n = int(rng.choice([1, 2, 3, 5, 10, 30, 100, MAX_ROWS]))
    m = int(rng.choice([1, 2, 3, 5, MAX_COLUMNS]))
    return name, TABLES[name](rng, n, m)


def _clusters(rng, n, m):
    centres = 5 * rng.standard_normal((4, m))
    return centres[rng.integers(4, size=n)] + rng.standard_normal((n, m))


def _lattice(rng, n, m):
    return rng.integers(0, int(rng.choice([2, 3, 5])), size=(n, m)).astype(float)


def _duplicates(rng, n, m):
    rows = rng.standard_normal((max(1, n // 10), m))
    return rows[rng.integers(len(rows), size=n)]


def _one_row(rng, n, m):
    return np.tile(rng.standard_normal(m), (n, 1))


def _constant_columns(rng, n, m):
    X = _clusters(rng, n, m)
    X[:, rng.random(m) < 0.6] = rng.choice([0.0, 1.0, 1e9, -3e-200])
    return X


def _nearly_constant(rng, n, m):
    # Constant but for the last digits.
    X = _clusters(rng, n, m)
    column = rng.integers(m)
    X[:, column] = 1.0 + rng.integers(0, 3, size=n) * float(rng.choice([2e-16, 1e-15, 1e-13, 1e-9]))
    return X


def _dependent(rng, n, m):
    X = _clusters(rng, n, m)
    X[:, -1] = X[:, 0] * rng.choice([1.0, -2.0]) + rng.choice([0.0, 1e-12]) * rng.standard_normal(n)
    return X


def _far_away(rng, n, m):
    return _clusters(rng, n, m) + float(rng.choice([1e6, 1e10, 1e15, -1e100]))


def _scaled(rng, n, m):
    exponents = [-320, -308, -200, -155, -110, -30, 30, 110, 145, 155, 200, 307]
    with np.errstate(over="ignore", under="ignore"):
        return _clusters(rng, n, m) * 10.0 ** float(rng.choice(exponents))


def _columns_scaled(rng, n, m):
    with np.errstate(over="ignore", under="ignore"):
        return _clusters(rng, n, m) * 10.0 ** rng.choice([0, 0, 3, -8, -155, 100, -300], size=m)


def _heavy_tails(rng, n, m):
    return rng.standard_cauchy((n, m)) ** 3


def _one_outlier(rng, n, m):
    X = _clusters(rng, n, m)
    X[0] = float(rng.choice([1e6, 1e30, 1e150, -1e300]))
    return X


def _wide(rng, n, m):
    return rng.standard_normal((min(n, 5), MAX_COLUMNS + m))


def _small_floats(rng, n, m):
    return _clusters(rng, n, m).astype(np.float32) + np.float32(rng.choice([0, 1e3, 1e6]))


def _vast_small_floats(rng, n, m):
    return (_clusters(rng, n, m) * 10.0 ** float(rng.choice([-25, -10, 15, 25, 36]))).astype(np.float32)


def _integers(rng, n, m):
    kind = rng.choice([np.int8, np.uint8, np.int64, np.bool_])
    return rng.integers(0, 2 if kind is np.bool_ else 127, size=(n, m)).astype(kind)


def _vast_integers(rng, n, m):
    return rng.integers(2**62, 2**63 - 1, size=(n, m))


def _not_numbers(rng, n, m):
    X = _clusters(rng, n, m)
    X[rng.integers(n), rng.integers(m)] = rng.choice([np.nan, np.inf, -np.inf])
    return X


def _subnormal(rng, n, m):
    return rng.integers(0, 9, size=(n, m)) * 5e-324


def _zeros(rng, n, m):
    return np.zeros((n, m)) * rng.choice([1.0, -1.0])


TABLES = {
    function.__name__[1:]: function
    for function in (
        _clusters, _lattice, _duplicates, _one_row, _constant_columns, _nearly_constant, _dependent,
        _far_away, _scaled, _columns_scaled, _heavy_tails, _one_outlier, _wide, _small_floats,
        _vast_small_floats, _integers, _vast_integers, _not_numbers, _subnormal, _zeros,
    )
}  # fmt: skip


def weights(rng, n):
    """Return the name of a kind of weights, and weights of that kind for n rows, or None."""
    name = str(rng.choice(["none", "none", "none", "none", *WEIGHTS]))
    return name, None if name == "none" else WEIGHTS[name](rng, n)


WEIGHTS = {
    "ones": lambda _, n: np.ones(n),
    "counts": lambda rng, n: rng.integers(0, 5, size=n).astype(float),
    "sum one": lambda rng, n: rng.dirichlet(np.ones(n)),
    "tiny": lambda rng, n: rng.random(n) * 1e-300,
    "subnormal": lambda rng, n: rng.integers(0, 4, size=n) * 5e-324,
    "vast": lambda rng, n: rng.random(n) * 1e300,
    "overflow": lambda rng, n: np.full(n, 1.7e308),
    "all but one zero": lambda rng, n: (np.arange(n) == rng.integers(n)).astype(float),
    "wide range": lambda rng, n: 10.0 ** rng.uniform(-300, 300, size=n),
    "one heavy": lambda rng, n: np.where(np.arange(n) == 0, 1e12, 1.0),
    "zeros": lambda rng, n: np.zeros(n),
    "negative": lambda rng, n: rng.standard_normal(n),
    "not numbers": lambda rng, n: np.full(n, np.nan),
    "wrong length": lambda rng, n: np.ones(n + 1),
    "booleans": lambda rng, n: rng.random(n) < 0.7,
}
