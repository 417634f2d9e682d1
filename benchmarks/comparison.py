"""By what should optima of as many components be compared: likelihood, evidence, or the mean of both?"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

import apolar
from benchmarks import pool, problems, random_mixtures, small_clusters

FAMILIES = small_clusters.FAMILIES
# Other data sets than those of the benchmarks that they are borrowed from.
SMALL_SEEDS, SMALL_ROWS = range(100, 120), (600, 2000)
MIXTURES, MAX_ROWS = range(200, 220), 1000
N_NEW_ROWS = 20_000
# Where EM starts, beside the true means: each name with as many seeds.
STARTS = {"auto": 3, "overseed": 6, "kmeans": 3, "random_from_data": 3}
# Optima whose log-likelihoods differ by less are the same; a fit that is lower by more is lost.
SAME, LOSS = 0.05, 1.0

CRITERIA: dict[str, Callable[[dict[str, float]], float]] = {
    "likelihood": lambda optimum: optimum["log_likelihood"],
    "evidence": lambda optimum: optimum["evidence"],
    "mean of both": lambda optimum: 0.5 * (optimum["log_likelihood"] + optimum["evidence"]),
    "two parts likelihood": lambda optimum: 2 * optimum["log_likelihood"] + optimum["evidence"],
    "two parts evidence": lambda optimum: optimum["log_likelihood"] + 2 * optimum["evidence"],
}


def problem(kind: str, family: str, *numbers: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, their true components, the true means, and new rows."""
    if kind == "small clusters":
        seed, n_samples = numbers
        X, labels, means = small_clusters.example(seed, n_samples + N_NEW_ROWS, family)
        return X[:n_samples], labels[:n_samples], means, X[n_samples:]
    truth, _, n_samples, rng = random_mixtures.drawn(family, numbers[0])
    X, labels = truth.sample(min(n_samples, MAX_ROWS), rng)
    return X, labels, truth.means, truth.sample(N_NEW_ROWS, rng)[0]


def measured(kind: str, family: str, *numbers: int) -> dict[str, Any]:
    """Return the optima that starts lead to, that of the true means first."""
    X, labels, means, new_rows = problem(kind, family, *numbers)
    settings = {"covariance_type": family, "n_threads": 1}
    models = [apolar.GaussianMixture(len(means), means_init=means, **settings)]
    models += [
        apolar.GaussianMixture(len(means), init_params=start, random_state=seed, **settings)
        for start, n_seeds in STARTS.items()
        for seed in range(n_seeds)
    ]
    optima: list[dict[str, float]] = []
    for model in models:
        fitted, _, _ = pool.attempt(model, X)
        if fitted is None:
            continue
        log_likelihood = float(fitted.lower_bound_) * len(X)
        if all(abs(log_likelihood - other["log_likelihood"]) > SAME for other in optima):
            optima.append(
                {
                    "log_likelihood": log_likelihood,
                    "evidence": fitted.evidence_,
                    "held_out": float(fitted.score(new_rows)) * len(X),
                    "ari": float(adjusted_rand_score(labels, fitted.predict(X))),
                }
            )
    return {"kind": kind, "optima": optima}


def summary(records: list[dict[str, Any]]) -> list[list[str]]:
    """Return a line per kind of problem and criterion."""
    lines = []
    for kind in ("small clusters", "random mixtures"):
        several = [record["optima"] for record in records if record["kind"] == kind]
        several = [optima for optima in several if len(optima) > 1]
        for name, criterion in CRITERIA.items():
            chosen = [max(optima, key=criterion) for optima in several]
            best = [max(optimum["held_out"] for optimum in optima) for optima in several]
            regret = np.array(best) - [optimum["held_out"] for optimum in chosen]
            lost = sum(
                optima[0]["log_likelihood"] - optimum["log_likelihood"] > LOSS
                for optima, optimum in zip(several, chosen, strict=True)
            )
            ari = np.mean([optimum["ari"] for optimum in chosen])
            cells = [f"{regret.mean():.2f}", f"{100 * np.mean(regret > 1):.1f}", str(lost), f"{ari:.3f}"]
            lines.append([kind, str(len(several)), name, *cells])
    return lines


def report(records: list[dict[str, Any]]) -> str:
    """Return the report of some records."""
    setting = (
        f"Fits of the default prior from the true means and from {sum(STARTS.values())} other starts, where "
        "these lead to more than one optimum: which of them is chosen? Regret: how far the log-likelihood of "
        f"{N_NEW_ROWS:,} new rows, scaled to the number of rows of the fit, is below that of the best of "
        "these optima, in nats: the mean, and how often it is above one. Lost: the choice is more than one "
        "nat less likely than EM from the true means. ARI: with the true components. Small clusters are "
        f"those of `small_clusters`, of {SMALL_ROWS[0]} and {SMALL_ROWS[1]} rows, and mixtures those of "
        f"`random_mixtures`, of at most {MAX_ROWS} rows, with other seeds."
    )
    header = ["data", "data sets", "compared by", "mean regret", "% above 1", "lost", "ARI"]
    return setting + "\n\n" + problems.table(header, summary(records))


def main() -> None:
    """Compare the criteria."""
    tasks: list[tuple[Any, ...]] = [("random mixtures", name, i) for name in FAMILIES for i in MIXTURES]
    tasks += [
        ("small clusters", name, seed, n) for name in FAMILIES for n in SMALL_ROWS for seed in SMALL_SEEDS
    ]
    records = pool.run(measured, tasks)
    problems.save(
        "comparison", "By what optima are compared", [report(records)], ("numpy", "scipy", "scikit-learn")
    )
