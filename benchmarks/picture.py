"""Draw the picture of the README, a mixture from its moments: ``python -m benchmarks.picture``."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import apolar

# Colours that the colour-blind can tell apart.
COLOURS = np.array(["#0072B2", "#D55E00", "#009E73", "#CC79A7"])

truth = apolar.datasets.example_mixture(1)
X, labels = apolar.datasets.make_example(1, 3000, random_state=1)
mixture = apolar.mixture_from_moments(X, 4)

axes = np.linalg.eigh(np.cov(X.T))[1][:, :-3:-1]
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=(1.15, 1))
left.scatter(*(X @ axes).T, s=4, c=COLOURS[labels], alpha=0.35, linewidths=0)
for mean, variance in zip(mixture.means @ axes, mixture.variances, strict=True):
    left.add_patch(plt.Circle(mean, 2 * np.sqrt(variance), fill=False, color="black", linewidth=1.4))
    left.plot(*mean, "k+", markersize=11, markeredgewidth=1.8)
left.set_aspect("equal")
left.set_xlabel("first principal direction")
left.set_ylabel("second")
title = "3000 rows in R^6, coloured by their true cluster;\nblack: the mixture from their moments, 2 sd"
left.set_title(title, fontsize=10)

sizes = np.array([1_000, 10_000, 100_000, 1_000_000])
for form, style in (("equivariant", "o-"), ("paper", "s--")):
    errors = []
    for n in sizes:
        runs = []
        for seed in range(20 if n < 1_000_000 else 5):
            rows, _ = apolar.datasets.make_example(1, n, seed)
            estimate = apolar.mixture_from_moments(rows, 4, form, random_state=0)
            distances = np.linalg.norm(truth.means[:, None] - estimate.means, axis=2)
            runs.append(np.mean(distances.min(axis=1) / np.linalg.norm(truth.means, axis=1)))
        errors.append(np.median(runs))
    right.loglog(
        sizes, errors, style, color=COLOURS[0 if form == "equivariant" else 1], label=f'form="{form}"'
    )
right.loglog(sizes, errors[0] * (sizes / sizes[0]) ** -0.5, ":", color="grey", label="$n^{-1/2}$")
right.set_xlabel("rows")
right.set_ylabel("relative error of the means, median")
right.set_title("the error falls as the moments converge", fontsize=10)
right.legend(frameon=False)
figure.tight_layout()
figure.savefig(Path(__file__).parents[1] / "docs" / "images" / "moments.png", dpi=110)
