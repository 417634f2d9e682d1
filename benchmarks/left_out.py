"""Is what the rows left out prefer likely on new rows too? Thin and alike components, few rows, many columns.

The figures of ``docs/evidence.md``.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as TheirMixture

import apolar
from apolar.mixture.parameters import MixtureParameters
from benchmarks import pool, problems
from benchmarks.generalise import banknotes

N_STARTS = 100
BANKNOTE_ROWS = (100, 50, 30, 20, 15, 12)
N_BANKNOTES = 50
# An adjusted Rand index above this: all rows are in the cluster of their class.
RIGHT = 0.999
SIZES = {"thin": (1000, 3000, 10_000, 30_000), "alike": (100, 300, 1000, 3000)}
N_DRAWS = 20
NEW_ROWS = 20_000


def ours(n_components: int, seed: int = 0, **settings: Any) -> apolar.GaussianMixture:
    return apolar.GaussianMixture(n_components, random_state=seed, n_threads=1, **settings)


def models(k: int) -> dict[str, Any]:
    """Return the fits that are compared, the default first."""
    return {
        "default": ours(k),
        'prior="conjugate"': ours(k, prior="conjugate"),
        'prior="conjugate", n_init=10': ours(k, prior="conjugate", n_init=10),
        "prior=None": ours(k, prior=None),
        "scikit-learn, n_init=10": TheirMixture(k, random_state=0, n_init=10),
    }


def by_case(
    task: Callable[..., dict[str, Any]], tasks: Sequence[tuple[Any, ...]]
) -> dict[Any, list[dict[str, Any]]]:
    """Return the records of tasks in groups of the same case."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for record in pool.run(task, tasks):
        groups.setdefault(record["case"], []).append(record)
    return groups


# --- tables of known classes ----------------------------------------------------------------


def classes_part(name: str, title: str) -> str:
    """Return what several fits make of one of scikit-learn's tables, standardised."""
    X, classes = getattr(datasets, f"load_{name}")(return_X_y=True)
    X, k = (X - X.mean(axis=0)) / X.std(axis=0), len(np.unique(classes))
    fits = models(k) | {
        "default, n_init=10": ours(k, n_init=10),
        "default prior, init_params=classes": ours(k, init_params=classes),
        "scikit-learn": TheirMixture(k, random_state=0),
    }
    rows = []
    for fit, model in fits.items():
        labels = model.fit(X).predict(X)
        sizes = ", ".join(map(str, sorted(np.bincount(labels).tolist(), reverse=True)))
        left_out = f"{model.loo_:.1f}" if hasattr(model, "loo_") else "-"
        index = adjusted_rand_score(classes, labels)
        rows.append([fit, f"{model.score(X) * len(X):.1f}", left_out, f"{index:.3f}", sizes])
    optima = [ours(k, seed, prior="conjugate", init_params="overseed").fit(X) for seed in range(N_STARTS)]
    likeliest = max(optima, key=lambda fit: fit.score(X))
    chosen = max(optima, key=lambda fit: fit.loo_)
    indices = [adjusted_rand_score(classes, fit.predict(X)) for fit in (likeliest, chosen)]
    shape = f"{X.shape[0]} rows of {X.shape[1]} columns, standardised; {k} components with full covariances"
    head = ["fit", "log-likelihood", "the same, rows left out", "ARI", "rows of the clusters"]
    return (
        f"## {title}\n\n{shape}, seed 0.\n\n{problems.table(head, rows)}\n\n"
        f'{N_STARTS} fits with prior="conjugate", each from one random start (init_params="overseed"): that '
        f"of the highest log-likelihood ({likeliest.score(X) * len(X):.1f}; rows left out "
        f"{likeliest.loo_:.1f}) has an ARI of {indices[0]:.3f}, that of the highest for rows left out "
        f"({chosen.loo_:.1f}; log-likelihood {chosen.score(X) * len(X):.1f}) {indices[1]:.3f}."
    )


def banknote_record(n_each: int, seed: int) -> dict[str, Any]:
    X, classes = banknotes(n_each, seed)
    indices = [float(adjusted_rand_score(classes, model.fit_predict(X))) for model in models(2).values()]
    return {"case": n_each, "indices": indices}


def banknote_part() -> str:
    tasks = [(n_each, seed) for n_each in BANKNOTE_ROWS for seed in range(N_BANKNOTES)]
    rows = []
    for n_each, records in by_case(banknote_record, tasks).items():
        indices = np.array([record["indices"] for record in records])
        counts, means = np.sum(indices > RIGHT, axis=0), indices.mean(axis=0)
        cells = [f"{count} ({mean:.2f})" for count, mean in zip(counts, means, strict=True)]
        rows.append([str(2 * n_each), *cells])
    return (
        "## Bank notes\n\nDrawn from the published means and covariances of genuine and counterfeit notes, "
        "6 columns, rounded to 0.1 mm; 2 components with full covariances. "
        f"{N_BANKNOTES} tables each: how many are clustered without an error (and the mean ARI).\n\n"
        + problems.table(["rows", *models(2)], rows)
    )


# --- mixtures that are known ----------------------------------------------------------------


def rows_of(mixture: MixtureParameters, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    labels = rng.choice(len(mixture.weights), n_rows, p=mixture.weights)
    noise = rng.standard_normal((n_rows, mixture.means.shape[1]))
    roots = np.linalg.cholesky(mixture.covariances)[labels]
    return mixture.means[labels] + np.einsum("nij,nj->ni", roots, noise)


def known_mixture(kind: str, rng: np.random.Generator) -> MixtureParameters:
    """Return five components in ten columns: each thin in directions of its own, or all of one shape."""
    k, m = 5, 10
    if kind == "thin":
        roots = rng.standard_normal((k, m, m)) / np.sqrt(m) + 0.3 * np.eye(m)
        roots *= rng.uniform(0.5, 1.5, (k, 1, 1))
        weights, means = rng.dirichlet(np.full(k, 3.0)), 3 * rng.standard_normal((k, m))
    else:
        root = rng.standard_normal((m, 2 * m)) / np.sqrt(2 * m)
        roots = np.repeat(root[None], k, axis=0)
        weights, means = np.full(k, 1 / k), 1.5 * rng.standard_normal((k, m))
    return MixtureParameters(weights, means, roots @ np.swapaxes(roots, 1, 2))


def known_record(kind: str, n_rows: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([n_rows, seed])
    mixture = known_mixture(kind, rng)
    X, new = rows_of(mixture, n_rows, rng), rows_of(mixture, NEW_ROWS, rng)
    fits = models(5) | {
        "prior=None, from the true means": ours(5, prior=None, means_init=mixture.means),
        'covariance_type="tied"': ours(5, covariance_type="tied"),
    }
    scores = {name: float(model.fit(X).score(new)) for name, model in fits.items()}
    default = scores.pop("default")
    return {
        "case": (kind, n_rows),
        "expected": fits["default"].loo_ / n_rows - default,
        "gains": {name: default - score for name, score in scores.items()},
    }


def known_part(kind: str, title: str, words: str) -> str:
    tasks = [(kind, n_rows, seed) for n_rows in SIZES[kind] for seed in range(N_DRAWS)]
    rows, names = [], list[str]()
    for (_, n_rows), records in by_case(known_record, tasks).items():
        names = list(records[0]["gains"])
        cells = []
        for name in names:
            gains = np.array([record["gains"][name] for record in records])
            cells.append(f"{gains.mean():+.4f} ({gains.min():+.4f})")
        expected = np.array([record["expected"] for record in records])
        rows.append([f"{n_rows:,}", *cells, f"{expected.mean():+.4f}, {expected.std():.4f}"])
    return (
        f"## {title}\n\n5 components with full covariances in 10 columns, {words}. Log-likelihood per row of "
        f"{NEW_ROWS:,} new rows: the default minus another fit, mean (and lowest) of {N_DRAWS} draws. Last: "
        "the difference of `loo_`, per row, to that of the new rows, its mean and deviation over the draws."
        "\n\n" + problems.table(["rows", *names, "`loo_` - new rows"], rows)
    )


# --- more columns than rows -----------------------------------------------------------------


def wide_tables() -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
    """Return rows to fit, new rows, and the number of components."""
    # Pixels that are always zero get a variance.
    rng = np.random.default_rng(0)
    digits = datasets.load_digits().data
    digits = digits + 0.1 * rng.standard_normal(digits.shape)
    tables = {"digits, 300 x 64, k = 10": (digits[:300], digits[300:], 10)}
    for n_rows, m in ((150, 100), (200, 300)):
        means, factors = 1.2 * rng.standard_normal((3, m)), 0.7 * rng.standard_normal((5, m))
        labels = rng.integers(0, 3, 2 * n_rows)
        X = means[labels] + rng.standard_normal((2 * n_rows, 5)) @ factors
        X += rng.standard_normal(X.shape)
        tables[f"simulated, {n_rows} x {m}, k = 3"] = X[:n_rows], X[n_rows:], 3
    return tables


def wide_part() -> str:
    families = ("full", "tied", "diag")
    fitters = {"default": ours, "scikit-learn, n_init=10": partial(TheirMixture, n_init=10, random_state=0)}
    rows = []
    for name, (X, new, k) in wide_tables().items():
        for fit, fitter in fitters.items():
            found = [fitter(k, covariance_type=kind).fit(X) for kind in families]
            rows.append([name, fit, *(f"{model.score(new):.1f}" for model in found)])
    return (
        "## Few rows, many columns\n\nLog-likelihood per new row. The digits have added "
        "noise of deviation 0.1; the simulated tables have three means, the same five factors in each "
        "component, and the same number of new rows.\n\n" + problems.table(["table", "fit", *families], rows)
    )


def main() -> None:
    """Measure all parts."""
    thin = "each thin in directions of its own, weights from a Dirichlet distribution"
    alike = "all with the same covariance and weight"
    problems.save(
        "left_out",
        "Rows left out",
        [
            classes_part("wine", "Wine"),
            classes_part("breast_cancer", "Breast cancer, with long tails"),
            banknote_part(),
            known_part("thin", "Thin components", thin),
            known_part("alike", "Components that are alike", alike),
            wide_part(),
        ],
        ("numpy", "scipy", "scikit-learn"),
    )
