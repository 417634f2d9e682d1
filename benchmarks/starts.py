"""Does the default fit end at the optimum? Compared with EM from the truth, and from k-means (best of 50)."""

import time
import warnings

import numpy as np
from sklearn.cluster import KMeans

import apolar
from benchmarks import problems

N_ROWS = 1000
# A difference of BIC below which two fits are at the same optimum.
SAME = 0.5
# A component of fewer rows that gains likelihood over the truth is a spurious one.
FEWEST_ROWS = 5


def random_mixture(seed: int) -> apolar.SphericalMixture:
    """Return a mixture with 2 to 10 columns, 2 to as many components, and a separation of 1.5 to 6."""
    rng = np.random.default_rng([7, seed])
    n_features = int(rng.integers(2, 11))
    n_components = int(rng.integers(2, n_features + 1))
    weights = np.maximum(rng.dirichlet(np.full(n_components, 2.0)), 0.01)
    variances = np.exp(rng.uniform(np.log(0.5), np.log(2.0), n_components))
    means = rng.standard_normal((n_components, n_features))
    apart = np.linalg.norm(means[:, None] - means, axis=2) / np.sqrt((variances[:, None] + variances) / 2)
    least = apart[np.triu_indices(n_components, 1)].min()
    separation = rng.uniform(1.5, 6.0)
    return apolar.SphericalMixture(weights / weights.sum(), means * separation / least, variances)


def fit(X: np.ndarray, n_components: int, **parameters: object) -> tuple[apolar.GaussianMixture, float]:
    """Return a fitted spherical mixture and the seconds it took."""
    model = apolar.GaussianMixture(n_components, covariance_type="spherical", **parameters)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    return model, time.perf_counter() - start


def from_truth(X: np.ndarray, truth: apolar.SphericalMixture) -> apolar.GaussianMixture:
    """Return the mixture that EM finds from the true parameters."""
    return fit(
        X,
        truth.n_components,
        weights_init=truth.weights,
        means_init=truth.means,
        precisions_init=1 / truth.variances,
    )[0]


def kmeans(X: np.ndarray, n_components: int, seed: int) -> tuple[np.ndarray, float]:
    """Return the labels of the best of 50 runs, and the seconds they took."""
    start = time.perf_counter()
    labels = KMeans(n_components, n_init=50, random_state=seed).fit_predict(X)
    return labels, time.perf_counter() - start


def outcome(model: apolar.GaussianMixture, oracle: apolar.GaussianMixture, X: np.ndarray) -> str:
    """Return how a fit compares with that from the truth: "same", "better", "worse" or "spurious"."""
    gain = oracle.bic(X) - model.bic(X)
    if abs(gain) < SAME:
        return "same"
    if gain < 0:
        return "worse"
    return "spurious" if model.weights_.min() * len(X) < FEWEST_ROWS else "better"


def examples(n_sets: int) -> str:
    rows = []
    for example in (1, 2):
        truth = apolar.datasets.example_mixture(example)
        counts: dict[str, dict[str, int]] = {}
        times: dict[str, list[float]] = {"KMeans(n_init=50) alone": []}
        for seed in range(n_sets):
            X, _ = apolar.datasets.make_example(example, N_ROWS, random_state=10_000 + seed)
            oracle = from_truth(X, truth)
            labels, spent = kmeans(X, truth.n_components, seed)
            times["KMeans(n_init=50) alone"].append(spent)
            starts = {
                "auto": "auto",
                "moments": "moments",
                "overseed": "overseed",
                "emem": "emem",
                "k-means(50) + EM": labels,
            }
            for name, start in starts.items():
                model, spent = fit(X, truth.n_components, init_params=start, random_state=seed)
                times.setdefault(name, []).append(spent)
                kind = outcome(model, oracle, X)
                counts.setdefault(name, {}).setdefault(kind, 0)
                counts[name][kind] += 1
        for name in times:
            by_kind = counts.get(name, {})
            good = by_kind.get("same", 0) + by_kind.get("better", 0)
            percent = f"{100 * good / n_sets:.1f}%" if by_kind else ""
            listed = ", ".join(f"{number} {kind}" for kind, number in sorted(by_kind.items()))
            rows.append([str(example), name, percent, listed, f"{1000 * np.mean(times[name]):.0f}"])
    header = ["example", "start", "at the optimum", "of these", "mean ms"]
    text = (
        f"{n_sets} data sets of {N_ROWS} rows. At the optimum: BIC within {SAME} of EM from the truth, or "
        f"better with no component of fewer than {FEWEST_ROWS} rows."
    )
    return text + "\n\n" + problems.table(header, rows)


def random_mixtures(n_sets: int) -> str:
    gains, relative, below_truth, spurious, times = [], [], 0, 0, []
    for seed in range(n_sets):
        truth = random_mixture(seed)
        X, _ = truth.sample(N_ROWS, random_state=seed)
        labels, spent_kmeans = kmeans(X, truth.n_components, seed)
        ours, spent = fit(X, truth.n_components, random_state=seed)
        theirs, _ = fit(X, truth.n_components, init_params=labels)
        gain = theirs.bic(X) - ours.bic(X)
        gains.append(gain)
        relative.append(-gain / abs(theirs.bic(X)))
        below_truth += outcome(ours, from_truth(X, truth), X) == "worse"
        spurious += gain < -SAME and theirs.weights_.min() * N_ROWS < FEWEST_ROWS
        times.append((spent, spent_kmeans))
    gain, spent = np.array(gains), np.array(times).mean(axis=0)
    lines = [
        f"{n_sets} random mixtures (2 to 10 columns, 2 to as many components, weights Dirichlet(2), apart by "
        f"1.5 to 6), {N_ROWS} rows each, compared with our EM from k-means(50), both with the default prior:",
        f"- BIC better by more than {SAME}: {np.count_nonzero(gain > SAME)}; worse: "
        f"{np.count_nonzero(gain < -SAME)} ({100 * np.mean(gain < -SAME):.1f}%), of which {spurious} where "
        f"k-means ended with a component of fewer than {FEWEST_ROWS} rows; at most "
        f"{100 * max(relative):.3f}% of the BIC worse.",
        f"- worse than EM from the truth by more than {SAME}: {below_truth}.",
        f"- mean time {1000 * spent[0]:.0f} ms; KMeans(n_init=50) alone {1000 * spent[1]:.0f} ms.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run both studies."""
    problems.save(
        "starts",
        "Where EM ends, by its start",
        [examples(200), random_mixtures(200)],
        ("numpy", "scipy", "scikit-learn"),
    )
