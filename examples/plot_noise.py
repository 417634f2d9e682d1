"""
Noise: rows that belong to no cluster
=====================================

With ``noise=True`` there is one more component, spread evenly over the box of the rows; its
label is -1. Here 60 records that are wrong, with values anywhere in the range of the columns,
are mixed into the table of the flowers.
"""

import matplotlib.pyplot as plt
import numpy as np

import apolar

flowers = apolar.datasets.load_iris()
rng = np.random.default_rng(3)
wrong = rng.uniform(flowers.data.min(axis=0), flowers.data.max(axis=0), (60, 4))
rows = np.vstack([flowers.data, wrong])
truth = np.r_[flowers.target, np.full(60, -1)]

plain = apolar.GaussianMixture(3, random_state=0).fit(rows)
with_noise = apolar.GaussianMixture(3, noise=True, random_state=0).fit(rows)
for name, model in (("without noise", plain), ("with noise", with_noise)):
    agreement = apolar.scores.adjusted_rand_index(flowers.target, model.predict(flowers.data))
    print(f"{name}: adjusted Rand index of the flowers with their species {agreement:.2f}")
print(f"share of noise: {with_noise.noise_weight_:.2f} (true {60 / 210:.2f})")

# %%
# Petals only, which part the species best. Crosses are rows that the fit calls noise.

figure, panels = plt.subplots(1, 2, figsize=(8.5, 3.8), sharex=True, sharey=True, layout="constrained")
for axes, (title, labels) in zip(
    panels, (("made", truth), ("found, noise=True", with_noise.predict(rows))), strict=True
):
    for label in np.unique(labels):
        chosen = rows[labels == label]
        axes.plot(chosen[:, 2], chosen[:, 3], "x" if label < 0 else "o", markersize=4, label=f"{label}")
    axes.set(title=title, xlabel="petal length")
panels[0].set_ylabel("petal width")
panels[1].legend(title="label")
plt.show()
