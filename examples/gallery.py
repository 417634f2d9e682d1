"""Draw one picture of each kind: GALLERY=FOLDER python examples/gallery.py."""

import os
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sklearn.mixture

import apolar
from apolar import plots

folder = Path(os.environ.get("GALLERY") or tempfile.mkdtemp())
folder.mkdir(parents=True, exist_ok=True)


def save(name, picture):
    """Write a figure, or that of an axes."""
    figure = getattr(picture, "figure", picture)
    figure.savefig(folder / f"{name}.png", dpi=90, metadata={"Software": None})


# Rows of the paper's first example: four clusters, one of them of 1% of the rows.
X, labels = apolar.datasets.make_example(1, random_state=5)
names = [f"x{i + 1}" for i in range(6)]
model = apolar.GaussianMixture(4, covariance_type="spherical", random_state=0).fit(X)
save("scatter_matrix", plots.scatter_matrix(X, labels, model=model, columns=4, feature_names=names))
save("spectrum", plots.spectrum(X))
kmeans = apolar.GaussianMixture(4, covariance_type="spherical", init_params="kmeans", random_state=0).fit(X)
save("convergence", plots.convergence(kmeans))

# Olive oils: eight acids, nine regions.
olive = apolar.datasets.load_olive("region")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    selection = apolar.select(olive.data, range(1, 11), ("diag", "full"), random_state=0)
save("bic_curves", plots.bic_curves(selection))
save("profiles", plots.profiles(selection.best, feature_names=olive.feature_names))

# Flowers: where two species meet, the cluster of a flower is in doubt.
iris = apolar.datasets.load_iris()
model = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
save("uncertainty", plots.uncertainty(model, iris.data, feature_names=iris.feature_names))

# Clusters with long tails: the same rows with Gaussian components and with t distributions.
rng = np.random.default_rng(15)
centres = np.repeat([[0.0, 0.0], [9.0, 0.0], [4.5, 7.0]], 250, axis=0)
X = centres + rng.standard_t(2.5, (750, 2))
figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained")
for axes, kind in zip(panels, (sklearn.mixture.GaussianMixture, apolar.StudentMixture), strict=True):
    fitted = kind(3, random_state=0).fit(X)
    axes.scatter(*X.T, c=fitted.predict(X), cmap="viridis", s=6)
    library = "scikit-learn" if kind is sklearn.mixture.GaussianMixture else "apolar"
    agreement = apolar.scores.adjusted_rand_index(np.repeat(range(3), 250), fitted.predict(X))
    axes.set(title=f"{library}.{kind.__name__}: ARI {agreement:.2f}", xlim=(-12, 22), ylim=(-12, 20))
save("tails", figure)

print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")
