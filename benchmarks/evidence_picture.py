"""Draw the pictures of likelihood and evidence: ``python -m benchmarks.evidence_picture``."""

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import eigh

import apolar
from apolar.plots.chart import COLOURS, GREY, INK, MARKERS
from benchmarks.evidence import described, ours, wine, wine_optima
from benchmarks.generalise import banknotes

FOLDER = Path(__file__).parents[1] / "docs" / "images"
# Twenty notes of each kind, of a draw in which the likelihood misleads: it does so in 10 of 50 draws.
BANKNOTES = (20, 12)


def view(X: np.ndarray, classes: np.ndarray, wrong: apolar.GaussianMixture) -> np.ndarray:
    """Return two directions: across, the classes are apart; up, the thinnest component is thin.

    Both have rows of deviation one, and the second is uncorrelated with the first.
    """
    labels = np.unique(classes)
    within = np.mean([np.cov(X[classes == k].T, bias=True) for k in labels], axis=0)
    means = np.array([X[classes == k].mean(axis=0) for k in labels])
    total = np.cov(X.T, bias=True)
    across = eigh(np.cov(means.T, bias=True), within)[1][:, -1]
    thinnest = wrong.covariances_[np.argmin(np.linalg.slogdet(wrong.covariances_)[1])]
    # The direction of the least ratio of variances among those that are uncorrelated with the first one.
    basis = np.linalg.svd((total @ across)[None])[2][1:].T
    up = basis @ eigh(basis.T @ thinnest @ basis, basis.T @ total @ basis)[1][:, 0]
    axes = np.column_stack([across, up])
    return axes / np.sqrt(np.einsum("ij,ik,kj->j", axes, total, axes))


def ellipse(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Return points of the ellipse of two deviations."""
    angles = np.linspace(0, 2 * np.pi, 200)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    return mean + 2 * circle @ np.linalg.cholesky(covariance).T


def draw(
    panel: plt.Axes, X: np.ndarray, classes: np.ndarray, model: apolar.GaussianMixture, axes: np.ndarray
) -> None:
    """Draw the rows, by class, and the components of a fit."""
    rows = (X - X.mean(axis=0)) @ axes
    for k in np.unique(classes):
        panel.scatter(*rows[classes == k].T, s=16, c=COLOURS[k], marker=MARKERS[k], alpha=0.7, linewidths=0)
    for mean, covariance in zip(model.means_, model.covariances_, strict=True):
        curve = ellipse((mean - X.mean(axis=0)) @ axes, axes.T @ covariance @ axes)
        panel.plot(*curve.T, color=INK, linewidth=1.5)
    panel.set_xlabel("direction in which the classes are apart")


def titled(panel: plt.Axes, name: str, fit: dict) -> None:
    words = (
        f"log-likelihood {fit['likelihood']:.0f}, log-evidence {fit['evidence']:.0f}, ARI {fit['ari']:.2f}"
    )
    panel.set_title(f"{name}\n{words}", fontsize=9.5)


def picture(
    X: np.ndarray, classes: np.ndarray, fits: dict[str, apolar.GaussianMixture], n_panels: int
) -> tuple[plt.Figure, np.ndarray]:
    """Return a figure whose first two panels show both fits in the same view."""
    described_fits = {title: described(X, classes, model) for title, model in fits.items()}
    axes = view(X, classes, next(iter(fits.values())))
    figure, panels = plt.subplots(1, n_panels, figsize=(4.9 * n_panels, 4.4))
    for panel, (title, model) in zip(panels, fits.items(), strict=False):
        draw(panel, X, classes, model, axes)
        titled(panel, title, described_fits[title])
    limits = [np.array([panel.get_xlim(), panel.get_ylim()]) for panel in panels[:2]]
    low, high = np.min(limits, axis=0)[:, 0], np.max(limits, axis=0)[:, 1]
    for panel in panels[:2]:
        panel.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    panels[0].set_ylabel("direction in which the thinnest component\nof the left fit is thin")
    return figure, panels


def draw_optima(panel: plt.Axes) -> None:
    """Draw likelihood and evidence of the optima that random starts lead to."""
    optima = wine_optima()
    values = np.array([[fit["likelihood"], fit["evidence"], fit["ari"]] for fit in optima])
    groups = ((0.9, 1.1, 2, "ARI above 0.9"), (0.6, 0.9, 4, "0.6 to 0.9"), (-1, 0.6, 1, "below 0.6"))
    for low, high, k, label in groups:
        chosen = values[(values[:, 2] > low) & (values[:, 2] <= high)]
        style = {"color": COLOURS[k], "marker": MARKERS[k], "s": 26, "alpha": 0.7, "linewidths": 0}
        panel.scatter(*chosen.T[:2], label=label, **style)
    for k, axis in ((0, panel.axvline), (1, panel.axhline)):
        axis(values[:, k].max(), color=GREY, linewidth=0.8, linestyle=":")
    panel.set_xlabel("log-likelihood")
    panel.set_ylabel("log-evidence")
    panel.set_title(f"optima from {len(optima)} random starts (conjugate prior)", fontsize=9.5)
    # Room for the legend below the optima.
    panel.set_ylim(bottom=values[:, 1].min() - 0.3 * np.ptp(values[:, 1]))
    panel.legend(framealpha=1.0, edgecolor="none", fontsize=9, loc="lower right")


def main() -> None:
    X, classes = wine()
    fits = {
        'prior="conjugate", n_init=10': ours(3, prior="conjugate", n_init=10).fit(X),
        "default": ours(3).fit(X),
    }
    figure, panels = picture(X, classes, fits, 3)
    draw_optima(panels[2])
    figure.tight_layout()
    figure.savefig(FOLDER / "evidence_wine.png", dpi=100, metadata={"Software": None})

    X, classes = banknotes(*BANKNOTES)
    fits = {'prior="conjugate"': ours(2, prior="conjugate").fit(X), "default": ours(2).fit(X)}
    figure, _ = picture(X, classes, fits, 2)
    figure.tight_layout()
    figure.savefig(FOLDER / "evidence_banknotes.png", dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", apolar.ApolarWarning)
        main()
