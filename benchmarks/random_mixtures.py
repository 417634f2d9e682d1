"""Random mixtures of each covariance family: does the default fit find them, and does it hold for new rows?

``python -m benchmarks.random_mixtures --help`` has parts of it, and files of its records.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as TheirMixture

import apolar
from benchmarks import pool, problems

FAMILIES = ("full", "tied", "diag", "tied_diag", "spherical", "tied_spherical")
THEIR_FAMILIES = ("full", "tied", "diag", "spherical")
N_EACH = 112
N_NEW_ROWS = 5000
ROWS = (300, 1000, 2000, 5000)
MIN_WEIGHT = 0.03
# Log-likelihood of all rows below that of EM from the truth that counts as lost, in nats.
LOSS = 0.5
# Partitions with a larger adjusted Rand index are the same for the purpose of counting them.
SAME_PARTITION = 0.95
# A component of fewer rows is no cluster.
FEWEST_ROWS = 2
# Rows per free parameter from which a mixture can be expected to be found.
ENOUGH_ROWS = 5


@dataclass(frozen=True)
class Truth:
    """A mixture, with its covariances both as matrices and in the shape of its family.

    Attributes
    ----------
    weights : ndarray, shape (n_components,)
    means : ndarray, shape (n_components, n_features)
    covariances : ndarray, shape (n_components, n_features, n_features)
    precisions : ndarray
        In the shape of the family, for `precisions_init`.
    n_parameters : int
        Free ones.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    precisions: np.ndarray
    n_parameters: int

    def sample(self, n_samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and the components that they come from."""
        labels = rng.choice(len(self.weights), n_samples, p=self.weights)
        noise = rng.standard_normal((n_samples, self.means.shape[1]))
        roots = np.linalg.cholesky(self.covariances)
        return self.means[labels] + np.einsum("nij,nj->ni", roots[labels], noise), labels

    def score(self, X: np.ndarray) -> float:
        """Return the mean log-likelihood of rows."""
        densities = []
        roots = np.linalg.cholesky(self.covariances)
        for weight, mean, root in zip(self.weights, self.means, roots, strict=True):
            squares = (solve_triangular(root, (X - mean).T, lower=True) ** 2).sum(axis=0)
            log_det = 2 * np.log(root.diagonal()).sum() + X.shape[1] * np.log(2 * np.pi)
            densities.append(np.log(weight) - 0.5 * (squares + log_det))
        return float(logsumexp(densities, axis=0).mean())


def log_uniform(rng: np.random.Generator, low: float, high: float, *shape: int) -> np.ndarray:
    return np.exp(rng.uniform(np.log(low), np.log(high), shape))


def random_covariances(
    family: str, n_components: int, n_features: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return covariances as matrices, precisions in the shape of the family, and their free parameters."""
    is_tied = family.startswith("tied")
    kind = {"tied": "full", "tied_diag": "diag", "tied_spherical": "spherical"}.get(family, family)
    n_drawn = 1 if is_tied else n_components
    if kind == "full":
        # The signs of a QR decomposition make its rotations uniform.
        q, r = np.linalg.qr(rng.standard_normal((n_drawn, n_features, n_features)))
        rotations = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
        values = log_uniform(rng, 0.2, 5.0, n_drawn, n_features)
        covariances = (rotations * values[:, None, :]) @ rotations.transpose(0, 2, 1)
        precisions = (rotations / values[:, None, :]) @ rotations.transpose(0, 2, 1)
        n_each = n_features * (n_features + 1) // 2
    elif kind == "diag":
        values = log_uniform(rng, 0.2, 5.0, n_drawn, n_features)
        covariances = values[:, :, None] * np.eye(n_features)
        precisions, n_each = 1 / values, n_features
    else:
        values = log_uniform(rng, 0.3, 3.0, n_drawn)
        covariances = values[:, None, None] * np.eye(n_features)
        precisions, n_each = 1 / values, 1
    every = np.broadcast_to(covariances, (n_components, n_features, n_features))
    return every, precisions[0] if is_tied else precisions, n_drawn * n_each


def smallest_distance(means: np.ndarray, covariances: np.ndarray) -> float:
    """Return the least Mahalanobis distance of two means, by the average of their covariances."""
    first, second = np.triu_indices(len(means), 1)
    apart = means[first] - means[second]
    between = (covariances[first] + covariances[second]) / 2
    squares = np.einsum("pi,pi->p", apart, np.linalg.solve(between, apart[:, :, None])[:, :, 0])
    return float(np.sqrt(squares.min()))


def drawn(family: str, index: int) -> tuple[Truth, float, int, np.random.Generator]:
    """Return a mixture, its separation, its number of rows, and the generator to draw them by."""
    rng = np.random.default_rng([11, FAMILIES.index(family), index])
    n_features, n_components = int(rng.integers(2, 21)), int(rng.integers(2, 9))
    n_samples = int(rng.choice(ROWS))
    weights = rng.dirichlet(np.full(n_components, 2.0))
    while weights.min() < MIN_WEIGHT:
        weights = rng.dirichlet(np.full(n_components, 2.0))
    covariances, precisions, n_free = random_covariances(family, n_components, n_features, rng)
    means = rng.standard_normal((n_components, n_features))
    separation = float(rng.uniform(1.5, 5.0))
    means *= separation / smallest_distance(means, covariances)
    n_parameters = n_components - 1 + means.size + n_free
    return Truth(weights, means, covariances, precisions, n_parameters), separation, n_samples, rng


def models(family: str, truth: Truth) -> dict[str, Any]:
    """Return the models to be fitted, by name: default and oracle differ in the start alone."""
    k = len(truth.weights)
    # One thread each: the pool has a process per core.
    default = apolar.GaussianMixture(k, covariance_type=family, random_state=0, n_threads=1)
    oracle = apolar.GaussianMixture(
        k,
        covariance_type=family,
        random_state=0,
        n_threads=1,
        weights_init=truth.weights,
        means_init=truth.means,
        precisions_init=truth.precisions,
    )
    named = {"default": default, "oracle": oracle}
    if family in THEIR_FAMILIES:
        for n_init in (1, 10):
            named[f"sklearn{n_init}"] = TheirMixture(k, covariance_type=family, random_state=0, n_init=n_init)
    return named


def measured(family: str, index: int) -> dict[str, Any]:
    """Return how the fits of one mixture compare. Log-likelihoods are of all rows, held-out ones per row."""
    truth, separation, n_samples, rng = drawn(family, index)
    X, labels = truth.sample(n_samples, rng)
    new_rows, _ = truth.sample(N_NEW_ROWS, rng)
    n_components, n_features = truth.means.shape
    record: dict[str, Any] = {
        "family": family,
        "index": index,
        "n_features": n_features,
        "n_components": n_components,
        "n_samples": n_samples,
        "n_parameters": truth.n_parameters,
        "rows_per_parameter": n_samples / truth.n_parameters,
        "separation": separation,
        "truth_held_out": truth.score(new_rows),
    }
    partitions = {}
    for name, model in models(family, truth).items():
        fitted, record[f"{name}_seconds"], record[f"{name}_error"] = pool.attempt(model, X)
        # Failed: the values are there, and empty.
        record |= {f"{name}_{value}": None for value in ("ari", "log_likelihood", "held_out", "min_rows")}
        if fitted is None:
            continue
        partitions[name] = fitted.predict(X)
        record |= {
            f"{name}_ari": float(adjusted_rand_score(labels, partitions[name])),
            f"{name}_log_likelihood": float(fitted.score(X)) * n_samples,
            f"{name}_held_out": float(fitted.score(new_rows)),
            f"{name}_min_rows": float(fitted.weights_.min()) * n_samples,
        }
    has_default = "default" in partitions
    record |= dict.fromkeys(("gain", "agreement", "at_optimum", "same_partition"))
    if has_default and "oracle" in partitions:
        gain = record["default_log_likelihood"] - record["oracle_log_likelihood"]
        agreement = float(adjusted_rand_score(partitions["default"], partitions["oracle"]))
        record |= {"gain": gain, "agreement": agreement}
        record |= {"at_optimum": gain >= -LOSS, "same_partition": agreement > SAME_PARTITION}
    least = record["default_least_rows"]
    record["below_two"] = least < FEWEST_ROWS if has_default else None
    if family == "full":
        record["below_columns"] = least < n_features + 2 if has_default else None
    return record


def mean(records: list[dict[str, Any]], key: str, less: str | None = None) -> float:
    """Return the mean of a value, `less` another, over fits that did not fail; NaN if a family has none."""
    if any(key not in r for r in records):
        return np.nan
    values = [r[key] - (r[less] if less else 0) for r in records if r[key] is not None]
    return float(np.mean(values)) if values else np.nan


def row(records: list[dict[str, Any]]) -> list[str]:
    """Return the cells of a group of mixtures."""
    ari = [mean(records, f"{name}_ari") for name in NAMES]
    counts = [100 * mean(records, key) for key in COUNTS]
    held_out = [mean(records, f"{name}_held_out", "truth_held_out") for name in NAMES if name != "sklearn1"]
    cells = [str(len(records)), *(f"{value:.3f}" for value in ari)]
    cells += [f"{value:.1f}" for value in counts] + [f"{value:.3f}" for value in held_out]
    cells.append(f"{1000 * mean(records, 'default_seconds'):.0f}")
    return ["-" if cell == "nan" else cell for cell in cells]


NAMES = ("default", "oracle", "sklearn1", "sklearn10")
COUNTS = ("at_optimum", "same_partition", "below_two", "below_columns")
HEADER = [
    "covariance",
    "rows",
    "mixtures",
    "ARI: default",
    "from the truth",
    "scikit-learn",
    "n_init=10",
    "% at its optimum",
    "% its partition",
    f"% with < {FEWEST_ROWS} rows",
    "% with < m + 2",
    "held-out: default",
    "from the truth",
    "n_init=10",
    "mean ms",
]


def has_enough_rows(record: dict[str, Any]) -> bool:
    return record["rows_per_parameter"] >= ENOUGH_ROWS


def parts(records: list[dict[str, Any]]) -> list[str]:
    """Return the sections of the report."""
    records = sorted(records, key=lambda r: (FAMILIES.index(r["family"]), r["index"]))
    enough = f"n >= {ENOUGH_ROWS}p"
    groups = {enough: has_enough_rows, f"n < {ENOUGH_ROWS}p": lambda r: not has_enough_rows(r)}
    shown = {family: (family,) for family in FAMILIES}
    shown |= {"scikit-learn's four": THEIR_FAMILIES, "all": FAMILIES}
    lines = []
    for title, families in shown.items():
        for name, condition in groups.items():
            some = [r for r in records if r["family"] in families and condition(r)]
            if some:
                lines.append([title, name, *row(some)])
    rows = ", ".join(map(str, ROWS))
    setting = (
        f"{len(records)} random mixtures of 2 to 20 columns (m) and 2 to 8 components, {rows} rows (n), p "
        f"free parameters; weights Dirichlet(2), at least {MIN_WEIGHT}; the nearest two means 1.5 to 5 "
        "deviations apart. ARI: adjusted Rand index with the true components. At its optimum: the default "
        f"fit ends at most {LOSS} nats below EM from the truth, or above it. Its partition: adjusted Rand "
        f"index with that of EM from the truth above {SAME_PARTITION}. With fewer rows: the smallest "
        f"component of the default fit. Held-out: mean log-likelihood of {N_NEW_ROWS} new rows, less that of "
        "the truth, per row."
    )
    return [
        setting + "\n\n" + problems.table(HEADER, lines),
        lost(records),
        *failures(records),
    ]


def lost(records: list[dict[str, Any]]) -> str:
    """Return the list of mixtures with enough rows that the default fit loses."""
    lines = [
        f"- {r['family']} {r['index']}: {r['gain']:.1f} nats; ARI {r['default_ari']:.3f}, from the truth "
        f"{r['oracle_ari']:.3f}; m={r['n_features']}, k={r['n_components']}, n={r['n_samples']}, apart by "
        f"{r['separation']:.1f}"
        for r in records
        if has_enough_rows(r) and r["at_optimum"] is False
    ]
    title = f"Below the optimum of EM from the truth, with n >= {ENOUGH_ROWS}p:"
    return title + "\n\n" + "\n".join(lines or ["- none"])


def failures(records: list[dict[str, Any]]) -> list[str]:
    """Return a section on the fits that raised, if any did."""
    lines = [
        f"- {r['family']} {r['index']}, {name}: {r[f'{name}_error']}"
        for r in records
        for name in NAMES
        if r.get(f"{name}_error")
    ]
    return ["Fits that failed, which are left out:\n\n" + "\n".join(lines)] if lines else []


def records_of(
    families: Sequence[str] = FAMILIES,
    indices: Sequence[int] = range(N_EACH),
    *,
    workers: int | None = None,
    out: Path | None = None,
) -> list[dict[str, Any]]:
    """Return the records of some mixtures, by a pool of processes."""
    tasks = [(family, index) for family in families for index in indices]
    return pool.run(measured, tasks, workers=workers, out=out)


def save(records: list[dict[str, Any]]) -> None:
    problems.save(
        "random_mixtures",
        "Random mixtures of each family",
        parts(records),
        ("numpy", "scipy", "scikit-learn"),
    )


def main() -> None:
    """Measure all mixtures."""
    save(records_of())


def command_line() -> None:
    """Measure some mixtures, or put the records of several runs together; print the report."""
    parser = argparse.ArgumentParser(description="Random mixtures of each family, or some of them.")
    parser.add_argument("--family", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every Nth mixture of a family")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="the first of them")

    def measure(given: argparse.Namespace, **options: Any) -> list[dict[str, Any]]:
        return records_of(given.family, range(given.first, N_EACH, given.every), **options)

    pool.command_line(parser, measure, parts, save)


if __name__ == "__main__":
    # Functions of this module under its own name can be sent to other processes.
    from benchmarks import random_mixtures

    random_mixtures.command_line()
