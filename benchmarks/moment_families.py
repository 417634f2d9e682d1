"""Mixtures of every family from moments alone and by maximum likelihood; and as starts of EM."""

import time
import warnings
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import apolar
from apolar.mixture.families import family as family_of
from apolar.mixture.parameters import MixtureParameters
from apolar.moments import CentralMoments, central_moments
from apolar.recovery.family_mixtures import family_mixture, needed_order
from apolar.recovery.moment_fit import component_moments, of_degree
from apolar.tensor import SymmetricTensor
from apolar.tensor.monomials import dense_positions
from benchmarks import problems

# Family, components, columns, and the deviations that means are apart.
SAMPLED = (
    ("diag", 5, 10, 4.0), ("diag", 3, 6, 3.0), ("tied", 3, 10, 4.0), ("tied", 4, 6, 4.0),
    ("spherical", 5, 3, 4.0), ("spherical", 3, 2, 4.0), ("diag", 3, 4, 4.0), ("full", 3, 3, 4.0),
    ("full", 2, 4, 4.0),
)  # fmt: skip
CASES = ((3, 5, 4.0), (3, 10, 3.0), (5, 10, 4.0), (7, 10, 4.0))
STARTED = tuple((family, *case) for family in ("diag", "tied", "full") for case in CASES)
SEEDS = range(20)
N_POINTS = 20_000


def random_mixture(
    family: str, n_features: int, n_components: int, gap: float, seed: Any
) -> MixtureParameters:
    """Return a mixture whose nearest means are `gap` deviations apart."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(n_components, 5.0))
    weights = 0.5 / n_components + 0.5 * weights
    means = rng.standard_normal((n_components, n_features))
    distances = np.linalg.norm(means[:, None] - means, axis=2)
    means *= gap / distances[np.triu_indices(n_components, 1)].min()
    spread = np.exp(rng.uniform(-0.5, 0.5, (n_components, n_features)) * np.log(3.0))
    if family == "spherical":
        spread[:] = spread[:, :1]
    if family in ("diag", "spherical"):
        return MixtureParameters(weights, means, spread[:, None] * np.eye(n_features))
    rotations = np.linalg.qr(rng.standard_normal((n_components, n_features, n_features)))[0]
    matrices = (rotations * spread[:, None]) @ rotations.swapaxes(1, 2)
    matrices = np.repeat(matrices[:1], n_components, axis=0) if family == "tied" else matrices
    return MixtureParameters(weights, means, matrices)


def drawn(mixture: MixtureParameters, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows of a mixture."""
    labels = rng.choice(len(mixture.weights), n_rows, p=mixture.weights)
    noise = rng.standard_normal((n_rows, mixture.means.shape[1]))
    return mixture.means[labels] + np.einsum(
        "nij,nj->ni", np.linalg.cholesky(mixture.covariances)[labels], noise
    )


def log_density(X: np.ndarray, mixture: MixtureParameters) -> np.ndarray:
    """Return the log-density of each row."""
    logits = []
    for weight, mean, matrix in zip(mixture.weights, mixture.means, mixture.covariances, strict=True):
        root = np.linalg.cholesky(matrix)
        squares = (np.linalg.solve(root, (X - mean).T) ** 2).sum(axis=0)
        logits.append(np.log(weight) - 0.5 * squares - np.log(np.diag(root)).sum())
    return np.logaddexp.reduce(logits, axis=0)


def divergence(truth: MixtureParameters, found: MixtureParameters) -> float:
    """Return the Kullback-Leibler divergence of a mixture from the truth, in nats per row."""
    X = drawn(truth, N_POINTS, np.random.default_rng(99))
    ratio = log_density(X, found) - log_density(X, truth)
    # The expectation of the density ratio is one: so the noise of first order cancels.
    return float(np.mean(np.expm1(ratio) - ratio))


def as_mixture(found: Any, family: str) -> MixtureParameters:
    """Return what was found, a GaussianMixture or a MomentMixture, with all covariances."""
    weights, means, covariances = (
        np.asarray(getattr(found, name, getattr(found, f"{name}_", None)))
        for name in ("weights", "means", "covariances")
    )
    return MixtureParameters(weights, means, family_of(family).matrices(covariances, *means.shape))


def from_truth(X: np.ndarray, truth: MixtureParameters, family: str) -> apolar.GaussianMixture:
    """Return maximum likelihood, from the truth."""
    precisions = np.linalg.inv(truth.covariances)
    given = {
        "full": precisions, "tied": precisions[0], "diag": np.einsum("kii->ki", precisions),
        "spherical": precisions[:, 0, 0],
    }[family]  # fmt: skip
    gm = apolar.GaussianMixture(
        len(truth.weights), covariance_type=family, prior=None, weights_init=truth.weights,
        means_init=truth.means, precisions_init=given,
    )  # fmt: skip
    return gm.fit(X)


def population(truth: MixtureParameters, order: int) -> CentralMoments:
    """Return the moments of a mixture itself."""
    mean = truth.weights @ truth.means
    centred = MixtureParameters(truth.weights, truth.means - mean, truth.covariances)
    moments, m = truth.weights @ component_moments(centred, order), len(mean)
    tensors = [SymmetricTensor(d, m, moments[of_degree(m, d)]) for d in range(3, order + 1)]
    covariance = moments[of_degree(m, 2)][dense_positions(m, 2)]
    traces = np.einsum("aab->b", tensors[0].to_dense())
    return CentralMoments(1e18, mean, covariance, tuple(tensors), traces)


def largest_error(truth: MixtureParameters, found: MixtureParameters) -> float:
    """Return the largest error of a parameter, components matched by their means."""
    _, order = linear_sum_assignment(((truth.means[:, None] - found.means) ** 2).sum(axis=2))
    errors = (
        truth.weights - found.weights[order], truth.means - found.means[order],
        truth.covariances - found.covariances[order],
    )  # fmt: skip
    return max(float(np.abs(error).max()) for error in errors)


def samples() -> str:
    """Return a table of divergences from the truth, for moments and for maximum likelihood."""
    rows = []
    for family, r, m, gap in SAMPLED:
        order = needed_order(family, r, m)
        exact = []
        for seed in SEEDS:
            truth = random_mixture(family, m, r, gap, [seed, r, m])
            found = family_mixture(population(truth, order), r, family, np.random.default_rng(0))
            exact.append(largest_error(truth, as_mixture(found, family)))
        for n_rows in (10_000, 100_000):
            ours, theirs, times, values, valid = [], [], [], [], 0
            for seed in SEEDS:
                truth = random_mixture(family, m, r, gap, [seed, r, m])
                X = drawn(truth, n_rows, np.random.default_rng([seed, n_rows]))
                central = central_moments(X, order=order)
                begun = time.perf_counter()
                found = family_mixture(central, r, family, np.random.default_rng(0))
                times.append(time.perf_counter() - begun)
                ours.append(divergence(truth, as_mixture(found, family)))
                theirs.append(divergence(truth, as_mixture(from_truth(X, truth, family), family)))
                values.append(found.p_value)
                valid += found.status is apolar.MixtureStatus.VALID
            rows.append(
                [
                    family, f"{r}", f"{m}", f"{gap:g}", f"{order}", f"{max(exact):.0e}", f"{n_rows:,}",
                    f"{np.median(ours):.1e}", f"{np.median(theirs):.1e}",
                    f"{np.median(ours) / np.median(theirs):.1f}", f"{valid} of {len(SEEDS)}",
                    f"{np.mean(np.array(values) < 0.05):.2f}", f"{1e3 * np.median(times):.0f}",
                ]
            )  # fmt: skip
    header = [
        "family", "r", "m", "gap", "order", "population: largest error", "rows", "divergence",
        "of maximum likelihood", "ratio", "VALID", "p < 0.05", "ms",
    ]  # fmt: skip
    return problems.table(header, rows)


def fitted(X: np.ndarray, family: str, r: int, start: str) -> tuple[float, float]:
    """Return the log-likelihood that EM from a start reaches, and the time of the whole fit."""
    gm = apolar.GaussianMixture(
        r, covariance_type=family, prior="conjugate", init_params=start, random_state=0
    )
    begun = time.perf_counter()
    gm.fit(X)
    return gm.lower_bound_ * len(X), time.perf_counter() - begun


def starts() -> str:
    """Return a table of how often EM from each start reaches the optimum of EM from the truth."""
    rows = []
    names = "moments", "kmeans", "auto"
    for family, r, m, gap in STARTED:
        for n_rows in (1000, 10_000):
            reached: dict[str, list[bool]] = {name: [] for name in names}
            times: dict[str, list[float]] = {name: [] for name in names}
            for seed in SEEDS:
                truth = random_mixture(family, m, r, gap, [seed, r, m])
                X = drawn(truth, n_rows, np.random.default_rng([seed, n_rows]))
                aim = from_truth(X, truth, family)
                again = apolar.GaussianMixture(
                    r, covariance_type=family, prior="conjugate", weights_init=aim.weights_,
                    means_init=aim.means_, precisions_init=aim.precisions_,
                ).fit(X)  # fmt: skip
                for name in names:
                    value, seconds = fitted(X, family, r, name)
                    reached[name].append(value > again.lower_bound_ * n_rows - 0.5)
                    times[name].append(seconds)
            rows.append(
                [family, f"{r}", f"{m}", f"{gap:g}", f"{n_rows:,}"]
                + [f"{np.mean(reached[name]):.2f}, {1e3 * np.median(times[name]):.0f} ms" for name in names]
            )
    return problems.table(["family", "r", "m", "gap", "rows", *names], rows)


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [
            "Gap: deviations between the nearest means. Population: the largest error of a parameter from "
            "the moments of the mixture itself, the worst of 20. Divergence: Kullback-Leibler, of the "
            "mixture from the truth, nats per row, medians of 20. VALID: the status. p < 0.05: how often the "
            "test of the model rejects the truth.",
            samples(),
            "As starts: how often EM ends within half a nat of EM from the truth, or above, and the time of "
            "the whole fit.",
            starts(),
        ]
    title = "Mixtures of every family from moments alone"
    problems.save("moment_families", title, parts, ("numpy", "scipy", "scikit-learn"))
