"""Draw the picture of the README, a fit and that of scikit-learn: ``python -m benchmarks.fit_picture``."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture as TheirMixture

import apolar
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.run import Stop, run
from apolar.mixture.families import family

# Colours that the colour-blind can tell apart.
COLOURS = np.array(["#0072B2", "#D55E00", "#009E73", "#CC79A7"])

X, labels = apolar.datasets.make_example(1, random_state=5)
ours = apolar.GaussianMixture(4, covariance_type="spherical", random_state=0).fit(X)
theirs = TheirMixture(4, covariance_type="spherical", random_state=0).fit(X)

# A plane through the centres of the clusters that shows all four.
centres = np.array([X[labels == k].mean(axis=0) for k in range(4)])
axes = np.linalg.svd(centres - centres.mean(axis=0))[2][:2].T
figure, panels = plt.subplots(1, 3, figsize=(14, 4.6), width_ratios=(1, 1, 1))
for panel, model, name in ((panels[0], theirs, "scikit-learn"), (panels[1], ours, "apolar")):
    panel.scatter(*(X @ axes).T, s=6, c=COLOURS[labels], alpha=0.5, linewidths=0)
    for mean, variance in zip(model.means_ @ axes, model.covariances_, strict=True):
        panel.add_patch(plt.Circle(mean, 2 * np.sqrt(variance), fill=False, color="black", linewidth=1.4))
        panel.plot(*mean, "k+", markersize=11, markeredgewidth=1.8)
    panel.set_aspect("equal")
    wrong = 100 * apolar.scores.error_rate(labels, model.predict(X))
    panel.set_title(f"{name}: BIC {model.bic(X):.0f}, {wrong:.1f}% of the rows wrong", fontsize=10)
    panel.set_xlabel("coloured by true cluster; black: the fit, 2 sd")

rows, _ = apolar.datasets.make_example(2, 1000, random_state=9)
data = Problem(open_rows(rows), family("spherical"))
first = KMeans(3, n_init=1, random_state=9).fit_predict(rows)
start = Fit(data.family.m_step(data.hard_stats(first, 3), apolar.Prior()), "kmeans")
slow, parameters = [], start.parameters
for _ in range(1000):
    stats, likelihood = data.e_step(parameters[None])
    slow.append(float((likelihood + data.family.log_prior(parameters[None], apolar.Prior()))[0]))
    parameters = data.m_step(stats[0], apolar.Prior())
fast = run(data, [start], apolar.Prior(), Stop(1000, gain=1e-3), checked_on=data)[0].history
top = max(*slow, *fast) + 1e-3
panels[2].semilogx(
    np.arange(1, len(slow) + 1), np.array(slow) - top, "--", color=COLOURS[1], label="EM, step by step"
)
panels[2].semilogx(
    np.arange(1, len(fast) + 1), np.array(fast) - top, "-", color=COLOURS[0], label="apolar's loop"
)
panels[2].set_xlabel("passes over the data")
panels[2].set_ylabel("log-likelihood, below the optimum")
panels[2].set_title("from the same k-means start (Example 2)", fontsize=10)
panels[2].legend(frameon=False, loc="lower right")
figure.tight_layout()
figure.savefig(Path(__file__).parents[1] / "docs" / "images" / "fit.png", dpi=100)
