"""
Streams: digits that arrive in batches
======================================

:meth:`partial_fit <apolar.GaussianMixture.partial_fit>` takes one batch after the other and
keeps sufficient statistics, not rows. The rows are the 12,665 images of 0 and 1 in MNIST, as
five principal components.
"""

import matplotlib.pyplot as plt
import numpy as np

import apolar

digits = apolar.datasets.load_mnist01()
order = np.random.default_rng(0).permutation(len(digits.data))
past, new = order[:11_000], order[11_000:]

stream = apolar.GaussianMixture(6, random_state=0)
seen, held_out = [], []
for batch in np.array_split(past, 22):
    stream.partial_fit(digits.data[batch])
    if hasattr(stream, "means_"):
        seen.append(stream.n_samples_seen_)
        held_out.append(stream.score(digits.data[new]))
together = apolar.GaussianMixture(6, random_state=0).fit(digits.data[past])
print(f"{stream.n_samples_seen_:.0f} rows seen, held-out log-likelihood per row {held_out[-1]:.3f},", end=" ")
print(f"of a fit to all of them together {together.score(digits.data[new]):.3f}")

# %%
# Each point is the score on rows that are not in the stream, after another 500 rows. The first
# rows are kept and fitted together; after that each batch moves the mixture a little.

figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
axes.axhline(together.score(digits.data[new]), color="0.6", label="fit to all rows together")
axes.plot(seen, held_out, "o-", color="#0072b2", label="partial_fit")
axes.set(xlabel="rows seen", ylabel="held-out log-likelihood per row")
axes.legend()

# %%
# Which digit a component stands for, by the rows that it has: six components, two digits.

table = apolar.scores.confusion(digits.target[new], stream.predict(digits.data[new]))
for digit, counts in zip(digits.target_names, table, strict=True):
    print(digit, counts)
plt.show()
