"""
Missing values: fit, predict and impute
=======================================

NaN is a missing value. EM maximises the likelihood of the values that are there, so nothing has
to be filled in before a fit, and :meth:`impute <apolar.GaussianMixture.impute>` fills in what
the mixture expects. A fifth of the values of 569 biopsies (ten measurements each) are taken
away at random, to see how well they come back.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import apolar

biopsies = load_breast_cancer()
complete = StandardScaler().fit_transform(biopsies.data[:, :10])
missing = np.random.default_rng(0).random(complete.shape) < 0.2
rows = np.where(missing, np.nan, complete)

model = apolar.GaussianMixture(2, random_state=0).fit(rows)
print("clusters of the holed rows and those of the complete ones, adjusted Rand index:", end=" ")
whole = apolar.GaussianMixture(2, random_state=0).fit(complete)
print(round(apolar.scores.adjusted_rand_index(whole.predict(complete), model.predict(rows)), 2))

# %%
# Errors of what is filled in, in standard deviations of the columns.

filled = {
    "mean of the column": SimpleImputer().fit_transform(rows),
    "5 nearest neighbours": KNNImputer().fit_transform(rows),
    "mixture of 2": model.impute(rows),
}
errors = {name: np.sqrt(np.mean((values - complete)[missing] ** 2)) for name, values in filled.items()}
for name, error in errors.items():
    print(f"{name:22} {error:.3f}")

figure, panels = plt.subplots(1, 3, figsize=(8.5, 3.2), sharex=True, sharey=True, layout="constrained")
for axes, (name, values) in zip(panels, filled.items(), strict=True):
    axes.plot([-3, 5], [-3, 5], color="0.7", linewidth=1)
    axes.plot(complete[missing], values[missing], ".", markersize=2, color="#0072b2")
    axes.set(title=f"{name}: {errors[name]:.2f}", xlabel="true value", xlim=(-3, 5), ylim=(-3, 5))
panels[0].set_ylabel("filled in")

# %%
# :class:`apolar.MixtureImputer` does the same inside a pipeline, where it sees the training
# folds only.

for imputer in (SimpleImputer(), apolar.MixtureImputer(n_components=2, random_state=0)):
    pipeline = make_pipeline(imputer, LogisticRegression())
    accuracy = cross_val_score(pipeline, rows, biopsies.target, cv=3).mean()
    print(f"{type(imputer).__name__:15} and a logistic regression: accuracy {accuracy:.3f}")
plt.show()
