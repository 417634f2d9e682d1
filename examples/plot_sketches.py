"""
Sketches: three sites that share no row
=======================================

Moments are sums. Each site writes a :class:`apolar.MomentSketch` of its own rows, of a size
that does not depend on their number; the sketches are added, and the sum determines a mixture.
Here the images of 0 and 1 in MNIST (five principal components) lie at three sites, one of which
has no image of a 1.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import apolar

digits = apolar.datasets.load_mnist01()
zeros, ones = (np.flatnonzero(digits.target == digit) for digit in (0, 1))
sites = {
    "A": zeros[:4000],
    "B": np.concatenate([zeros[4000:5000], ones[:3000]]),
    "C": np.concatenate([zeros[5000:], ones[3000:]]),
}

# %%
# At each site, a file of sums.

folder = Path(tempfile.mkdtemp())
for name, rows in sites.items():
    sketch = apolar.MomentSketch(5).update(digits.data[rows])
    sketch.save(folder / f"{name}.npz")
    print(f"site {name}: {len(rows)} rows, a file of {(folder / f'{name}.npz').stat().st_size} bytes")

# %%
# Somewhere else, their sum. It gives what all rows together would give.

total = sum(apolar.MomentSketch.load(folder / f"{name}.npz") for name in sites)
mixture = apolar.mixture_from_moments(total, n_components=2)
together = apolar.mixture_from_moments(apolar.MomentSketch(5).update(digits.data), n_components=2)
print("weights:", mixture.weights.round(3), "of all rows together:", together.weights.round(3))
print(mixture.status.name, mixture.message)

# %%
# Each site labels its own rows by the component of the highest responsibility. Digits are not
# spherical, so moments alone are a rough answer; where the rows may be read again, they are a
# start for EM.

squares = ((digits.data[:, None] - mixture.means) ** 2).sum(axis=2)
logits = np.log(mixture.weights) - 2.5 * np.log(mixture.variances) - squares / (2 * mixture.variances)
labels = logits.argmax(axis=1)
wrong = apolar.scores.error_rate(digits.target, labels)
print(f"rows in the cluster of the other digit: {100 * wrong:.1f}%")

apolar.plots.scatter_matrix(
    digits.data,
    digits.target,
    labels,
    columns=3,
    feature_names=digits.feature_names,
    class_names=digits.target_names,
    figure=plt.figure(figsize=(7.5, 7.5)),
)
plt.show()
