"""Clusters whose tails are longer than Gaussian ones: are they found, and do fits hold for new rows?"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as TheirMixture

import apolar
from benchmarks import pool, problems

WEIGHTS = np.array([0.5, 0.3, 0.2])
N_FEATURES, N_NEW, N_DRAWS = 5, 4_000, 30
# By turns.
ROWS = (500, 1_000)
# The distance of each two means, and how far the shapes of clusters are from spheres of deviation one.
DISTANCE, SPREAD = 4.8, 0.2

Law = Callable[[np.random.Generator, int], np.ndarray]


def tailed(dof: float) -> Law:
    """Return a law of t distributions."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.standard_normal((n, N_FEATURES)) / np.sqrt(rng.chisquare(dof, (n, 1)) / dof)

    return draw


def contaminated(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return rows; a tenth of them has five times the deviation."""
    return rng.standard_normal((n, N_FEATURES)) * np.where(rng.random((n, 1)) < 0.1, 5.0, 1.0)


def skewed(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return lognormal rows."""
    rows = np.exp(0.8 * rng.standard_normal((n, N_FEATURES)))
    return (rows - np.exp(0.32)) / np.sqrt(np.exp(1.28) - np.exp(0.64))


def gaussian(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal((n, N_FEATURES))


# The law of the rows of a cluster, and the fraction of rows that are noise.
LAWS: dict[str, tuple[Law, float]] = {
    "Gaussian": (gaussian, 0.0),
    "t, 3 degrees of freedom": (tailed(3.0), 0.0),
    "t, 5 degrees of freedom": (tailed(5.0), 0.0),
    "contaminated": (contaminated, 0.0),
    "skewed": (skewed, 0.0),
    "uniform noise": (gaussian, 0.1),
}

FITTERS: dict[str, Callable[[int, int], Any]] = {
    "StudentMixture": lambda k, seed: apolar.StudentMixture(k, random_state=seed, n_threads=1),
    "GaussianMixture": lambda k, seed: apolar.GaussianMixture(k, random_state=seed, n_threads=1),
    "scikit-learn, n_init=10": lambda k, seed: TheirMixture(k, random_state=seed, n_init=10),
    "k-means, n_init=10": lambda k, seed: KMeans(k, random_state=seed, n_init=10),
}


def example(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, their clusters (-1 for noise), and new rows of the same mixture."""
    law, noise = LAWS[name]
    rng = np.random.default_rng(seed)
    means = DISTANCE / np.sqrt(2) * np.linalg.qr(rng.standard_normal((N_FEATURES, len(WEIGHTS))))[0].T
    roots = np.eye(N_FEATURES) + SPREAD * rng.standard_normal((len(WEIGHTS), N_FEATURES, N_FEATURES))

    def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.choice(len(WEIGHTS), n, p=WEIGHTS)
        X = means[labels] + np.einsum("nij,nj->ni", roots[labels], law(rng, n))
        is_noise = rng.random(n) < noise
        low, high = means.min(axis=0) - 5, means.max(axis=0) + 5
        X[is_noise] = rng.uniform(low, high, (int(is_noise.sum()), N_FEATURES))
        return X, np.where(is_noise, -1, labels)

    X, labels = drawn(ROWS[seed % len(ROWS)])
    return X, labels, drawn(N_NEW)[0]


def measured(name: str, seed: int) -> dict[str, Any]:
    """Return what each fitter makes of a draw."""
    X, labels, new = example(name, seed)
    used, fits = labels >= 0, {}
    for fitter, model_of in FITTERS.items():
        model, seconds, error = pool.attempt(model_of(len(WEIGHTS), seed), X)
        if model is None:
            raise RuntimeError(f"{fitter}, {name}, seed {seed}: {error}")
        held_out = float(model.score(new)) if hasattr(model, "weights_") else np.nan
        fits[fitter] = adjusted_rand_score(labels[used], model.predict(X)[used]), held_out, seconds
    return {"name": name, "fits": fits}


def main() -> None:
    """Measure all laws."""
    records = pool.run(measured, [(name, seed) for name in LAWS for seed in range(N_DRAWS)])
    rows, errors = [], []
    for name in LAWS:
        values = np.array([list(each["fits"].values()) for each in records if each["name"] == name])
        mean = values.mean(axis=0)
        errors.append((values[:, 0] - values[:, 1]).std(axis=0)[:2] / np.sqrt(len(values)))
        cells = [f"{ari:.3f} / {held_out:.3f}" for ari, held_out, _ in mean[:-1]]
        times = mean[:, 2] / mean[1, 2]
        rows.append([name, *cells, f"{mean[-1, 0]:.3f}", f"{times[0]:.2f}", f"{times[2]:.2f}"])
    setting = (
        f"{len(WEIGHTS)} clusters in {N_FEATURES} columns, {' or '.join(map(str, ROWS))} rows, {N_DRAWS} "
        "draws each: adjusted Rand index / log-likelihood of a new row. Noise takes no part in the index. "
        "The times are in those of GaussianMixture. Standard errors of the difference of the "
        f"first two: at most {max(e[0] for e in errors):.3f} / {max(e[1] for e in errors):.3f}."
    )
    header = ["rows", *FITTERS, "time of StudentMixture", "of scikit-learn"]
    problems.save(
        "tails",
        "Clusters with long tails",
        [setting + "\n\n" + problems.table(header, rows)],
        ("numpy", "scipy", "scikit-learn"),
    )
