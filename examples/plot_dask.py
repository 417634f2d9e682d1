"""
Dask: rows that are somewhere else
==================================

A Dask array is fitted where its partitions are: what travels is sufficient statistics of a few
kilobytes and samples of some thousand rows. The mixture is that of the same rows in memory,
within the tolerance of EM. Without a cluster, as here, Dask's threads do the work; with a
``distributed.Client`` the same lines use its workers.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import apolar

digits = apolar.datasets.load_mnist01()
lazy = da.from_array(digits.data, chunks=(2_000, 5))
print(lazy)

there = apolar.GaussianMixture(4, random_state=0).fit(lazy)
here = apolar.GaussianMixture(4, random_state=0).fit(digits.data)
print("largest difference of a mean:", f"{np.abs(there.means_ - here.means_).max():.0e}")

# %%
# Answers are lazy too, in the partitions of the question.

labels = there.predict(lazy)
print(labels)
print("rows of each component:", np.bincount(labels.compute()))

# %%
# Each pass costs Dask one to two milliseconds per partition (:doc:`/scale`), so a table that fits
# into memory is fitted faster there. Dask is for rows that do not.

apolar.plots.scatter_matrix(
    digits.data,
    digits.target,
    model=there,
    columns=3,
    feature_names=digits.feature_names,
    class_names=digits.target_names,
    figure=plt.figure(figsize=(7.5, 7.5)),
)
plt.show()
