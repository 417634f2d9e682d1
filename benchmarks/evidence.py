"""Optima of higher likelihood and lower evidence: wine, bank notes, more and more rows, long tails.

The figures of ``docs/evidence.md``.
"""

from typing import Any

import numpy as np
from apolar.em.tails import tail_ratio
from sklearn import datasets
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as TheirMixture

import apolar
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.mixture.families import family
from apolar.mixture.parameters import MixtureParameters
from apolar.mixture.prior import log_evidence
from benchmarks import pool, problems
from benchmarks.generalise import banknotes

N_STARTS = 100
BANKNOTE_ROWS = (100, 50, 30, 20, 15, 12)
N_BANKNOTES = 50
# An adjusted Rand index above this: all rows are in the cluster of their class.
RIGHT = 0.999
SIZES = (100, 1000, 10_000, 100_000)
N_DRAWS = 5
NEW_ROWS = 100_000


def standardised(loaded: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return a table with columns of mean 0 and deviation 1, and its classes."""
    X, classes = loaded
    return (X - X.mean(axis=0)) / X.std(axis=0), classes


def wine() -> tuple[np.ndarray, np.ndarray]:
    return standardised(datasets.load_wine(return_X_y=True))


def ours(n_components: int, seed: int = 0, **settings: Any) -> apolar.GaussianMixture:
    return apolar.GaussianMixture(n_components, random_state=seed, n_threads=1, **settings)


def evidence(X: np.ndarray, model: Any) -> float:
    """Return the lower bound on the log-evidence of a fit, of scikit-learn's too, in the units of X."""
    data = Problem(open_rows(X), family(model.covariance_type))
    mixture = MixtureParameters(model.weights_, model.means_, model.covariances_)
    parameters = data.whitening.transform_parameters(mixture)[None]
    bounds = log_evidence(data.family, parameters, *data.e_step(parameters))
    return float(bounds[0]) + data.whitening.log_det * data.weight


def described(X: np.ndarray, classes: np.ndarray, model: Any) -> dict[str, Any]:
    """Return log-likelihood, evidence and partition of a fitted mixture."""
    labels = model.predict(X)
    return {
        "likelihood": float(model.score(X)) * len(X),
        "evidence": evidence(X, model),
        "ari": float(adjusted_rand_score(classes, labels)),
        "rows": sorted(np.bincount(labels, minlength=model.n_components).tolist(), reverse=True),
        "shrinkage": float(getattr(model, "shrinkage_", np.nan)),
    }


def lines(fits: dict[str, dict[str, Any]]) -> str:
    """Return a table of described fits, by their names."""
    rows = []
    for name, fit in fits.items():
        shrinkage = "-" if np.isnan(fit["shrinkage"]) else f"{fit['shrinkage']:.1f}"
        sizes = ", ".join(map(str, fit["rows"]))
        numbers = [f"{fit['likelihood']:.1f}", f"{fit['evidence']:.1f}", f"{fit['ari']:.3f}"]
        rows.append([name, *numbers, sizes, shrinkage])
    head = ["fit", "log-likelihood", "log-evidence", "ARI", "rows of the clusters", "`shrinkage_`"]
    return problems.table(head, rows)


# --- wine -----------------------------------------------------------------------------------


def wine_optima(n_starts: int = N_STARTS) -> list[dict[str, Any]]:
    """Return the optima of the conjugate prior that single random starts lead to."""
    X, classes = wine()
    fits = [ours(3, seed, prior="conjugate", init_params="overseed").fit(X) for seed in range(n_starts)]
    return [described(X, classes, fit) for fit in fits]


def wine_part() -> str:
    X, classes = wine()
    models = {
        "default": ours(3),
        "default, n_init=10": ours(3, n_init=10),
        'prior="conjugate"': ours(3, prior="conjugate"),
        'prior="conjugate", n_init=10': ours(3, prior="conjugate", n_init=10),
        "prior=None, n_init=10": ours(3, prior=None, n_init=10),
        "scikit-learn": TheirMixture(3, random_state=0),
        "scikit-learn, n_init=10": TheirMixture(3, random_state=0, n_init=10),
    }
    fits = {name: described(X, classes, model.fit(X)) for name, model in models.items()}
    optima = wine_optima()
    by_likelihood = max(optima, key=lambda fit: fit["likelihood"])
    by_evidence = max(optima, key=lambda fit: fit["evidence"])
    words = (
        f'{N_STARTS} fits with prior="conjugate", each from one random start (init_params="overseed"): that '
        f"of the highest likelihood ({by_likelihood['likelihood']:.1f}; evidence "
        f"{by_likelihood['evidence']:.1f}) has an ARI of {by_likelihood['ari']:.3f}, that of the highest "
        f"evidence ({by_evidence['evidence']:.1f}; likelihood {by_evidence['likelihood']:.1f}) "
        f"{by_evidence['ari']:.3f}."
    )
    return (
        "## Wine\n\n178 rows of 13 columns, standardised; 3 components with full covariances, seed 0.\n\n"
        f"{lines(fits)}\n\n{words}"
    )


# --- bank notes -----------------------------------------------------------------------------


def banknote_models() -> dict[str, Any]:
    return {
        "default": ours(2),
        'prior="conjugate"': ours(2, prior="conjugate"),
        'prior="conjugate", n_init=10': ours(2, prior="conjugate", n_init=10),
        "scikit-learn, n_init=10": TheirMixture(2, random_state=0, n_init=10),
    }


def banknote_record(n_each: int, seed: int) -> dict[str, Any]:
    X, classes = banknotes(n_each, seed)
    fits = {name: described(X, classes, model.fit(X)) for name, model in banknote_models().items()}
    return {"n_each": n_each, "fits": fits}


def banknote_part() -> str:
    tasks = [(n_each, seed) for n_each in BANKNOTE_ROWS for seed in range(N_BANKNOTES)]
    records = pool.run(banknote_record, tasks)
    names = list(banknote_models())
    rows = []
    for n_each in BANKNOTE_ROWS:
        of_size = [record["fits"] for record in records if record["n_each"] == n_each]
        cells = []
        for name in names:
            indices = np.array([fits[name]["ari"] for fits in of_size])
            cells.append(f"{np.sum(indices > RIGHT)} ({indices.mean():.2f})")
        rows.append([str(2 * n_each), *cells])
    return (
        "## Bank notes\n\nDrawn from the published means and covariances of genuine and counterfeit notes, "
        "6 columns, rounded to 0.1 mm; 2 components with full covariances. Of "
        f"{N_BANKNOTES} tables each, how many are parted without an error (and the mean ARI).\n\n"
        + problems.table(["rows", *names], rows)
    )


# --- more and more rows ---------------------------------------------------------------------


def random_mixture(*, is_alike: bool, n_components: int = 3, n_features: int = 6) -> MixtureParameters:
    """Return components of equal weights, with covariances of their own or all with the same."""
    rng = np.random.default_rng(0)
    means = 4.5 * rng.standard_normal((n_components, n_features)) / np.sqrt(n_features)
    roots = rng.standard_normal((1 if is_alike else n_components, n_features, 2 * n_features))
    covariances = roots @ np.swapaxes(roots, 1, 2) / (2 * n_features)
    shape = (n_components, n_features, n_features)
    weights = np.full(n_components, 1 / n_components)
    return MixtureParameters(weights, means, np.broadcast_to(covariances, shape))


def rows_of(mixture: MixtureParameters, n_rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(mixture.weights), n_rows, p=mixture.weights)
    noise = rng.standard_normal((n_rows, mixture.means.shape[1]))
    return mixture.means[labels] + np.einsum(
        "nij,nj->ni", np.linalg.cholesky(mixture.covariances)[labels], noise
    )


def growth_record(is_alike: bool, n_rows: int, seed: int) -> dict[str, Any]:
    mixture = random_mixture(is_alike=is_alike)
    X, new = rows_of(mixture, n_rows, seed), rows_of(mixture, NEW_ROWS, 1000 + seed)
    default, likeliest = ours(3).fit(X), ours(3, prior=None).fit(X)
    return {
        "case": [is_alike, n_rows],
        "shrinkage": default.shrinkage_,
        "less": float(likeliest.score(X) - default.score(X)),
        "gain": float(default.score(new) - likeliest.score(new)),
    }


def growth_part() -> str:
    tasks = [
        (is_alike, n_rows, seed) for is_alike in (False, True) for n_rows in SIZES for seed in range(N_DRAWS)
    ]
    records = pool.run(growth_record, tasks)
    rows = []
    for is_alike in (False, True):
        for n_rows in SIZES:
            of_case = [record for record in records if record["case"] == [is_alike, n_rows]]
            medians = [
                np.median([record[key] for record in of_case]) for key in ("shrinkage", "less", "gain")
            ]
            name = "the same" if is_alike else "of their own"
            rows.append([name, str(n_rows), f"{medians[0]:.1f}", f"{medians[1]:.2g}", f"{medians[2]:+.2g}"])
    head = [
        "covariances",
        "rows",
        "`shrinkage_`",
        "less likely than maximum likelihood",
        "more likely on new rows",
    ]
    return (
        "## More and more rows\n\nA mixture of 3 components in 6 columns, full covariances; log-likelihoods "
        f"per row, in nats, beside prior=None; {NEW_ROWS} new rows; medians of {N_DRAWS} draws.\n\n"
        + problems.table(head, rows)
    )


# --- long tails -----------------------------------------------------------------------------


def tail_ratios() -> dict[str, float]:
    """Return how long the tails of some tables are under their default fits."""
    tables = {
        "breast cancer": (standardised(datasets.load_breast_cancer(return_X_y=True))[0], 2),
        "wine": (wine()[0], 3),
        "iris": (datasets.load_iris().data, 3),
        "olive oil": (apolar.datasets.load_olive().data, 3),
    }
    ratios = {}
    for name, (X, n_components) in tables.items():
        model = ours(n_components).fit(X)
        data = Problem(open_rows(X), family("full"))
        mixture = MixtureParameters(model.weights_, model.means_, model.covariances_)
        ratios[name] = tail_ratio(data, data.whitening.transform_parameters(mixture))[0]
    return ratios


def tails_part() -> str:
    X, classes = standardised(datasets.load_breast_cancer(return_X_y=True))
    default = ours(2).fit(X)
    # Tails are looked at by the default start only: from others the evidence decides.
    models = {
        "default": default,
        "default prior, init_params=classes": ours(2, init_params=classes).fit(X),
        'default prior, init_params="overseed", n_init=10': ours(2, init_params="overseed", n_init=10).fit(X),
        'prior="conjugate"': ours(2, prior="conjugate").fit(X),
        "scikit-learn": TheirMixture(2, random_state=0).fit(X),
    }
    fits = {name: described(X, classes, model) for name, model in models.items()}
    ratios = {}
    for name in models:
        log_dets = np.linalg.slogdet(models[name].covariances_)[1]
        ratios[name] = np.exp(np.ptp(log_dets) / (2 * X.shape[1]))
    widths = "; ".join(f"{name}: {ratio:.1f}" for name, ratio in ratios.items())
    tails = ", ".join(f"{name} {ratio:.2f}" for name, ratio in tail_ratios().items())
    return (
        "## Long tails\n\nBreast cancer, 569 rows of 30 columns, standardised; 2 components with full "
        f"covariances, seed 0.\n\n{lines(fits)}\n\nHow many times as wide the wider component is, in the "
        f"geometric mean over all directions: {widths}.\n\nThe 90th percentile of the squared distances of "
        "rows to their component, relative to the median, beside that of Gaussian rows, of default fits "
        f"(above 1.4 and chance, tails are long): {tails}."
    )


def main() -> None:
    """Measure all parts."""
    problems.save(
        "evidence",
        "Likelihood and evidence",
        [wine_part(), tails_part(), growth_part(), banknote_part()],
        ("numpy", "scipy", "scikit-learn"),
    )
