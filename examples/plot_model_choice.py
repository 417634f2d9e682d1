"""
Model choice: how many kinds of olive oil
=========================================

Eight fatty acids of 572 Italian olive oils, from three areas and nine regions.
:func:`apolar.select` compares fourteen families and a range of numbers by BIC, AIC, ICL,
evidence or rows left out.
"""

import matplotlib.pyplot as plt

import apolar

oils = apolar.datasets.load_olive("region")
selection = apolar.select(oils.data, range(1, 13), random_state=0)
print(selection.reason)

# %%
# Lower is better. Candidates that cannot be the best are not fitted, and have no point.

figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
apolar.plots.bic_curves(selection, ax=axes)

# %%
# The choice compared with the nine regions, which it has not seen, and the acids of its clusters.
# Cluster analysis has no reason to find regions: it finds what the acids tell apart.

best = selection.best
labels = best.predict(oils.data)
print(best.n_components, "components of", best.covariance_type)
agreement = apolar.scores.adjusted_rand_index(oils.target, labels)
print(f"adjusted Rand index with the regions: {agreement:.3f}")
print(apolar.scores.confusion(oils.target, labels))

figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
apolar.plots.profiles(best, feature_names=oils.feature_names, ax=axes)
plt.show()
