"""
Grid search: GridSearchCV over families and numbers
===================================================

``GridSearchCV`` ranks mixtures by the likelihood of rows that they were not fitted to, as
:meth:`score <apolar.GaussianMixture.score>` is the mean log-likelihood. The table is Reaven and
Miller's: glucose, insulin and SSPG of 145 people, of whom some have diabetes.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold

import apolar

people = apolar.datasets.load_diabetes()
families = ["tied", "diag", "VEV", "full"]
numbers = [1, 2, 3, 4, 5]
search = GridSearchCV(
    apolar.GaussianMixture(random_state=0),
    {"n_components": numbers, "covariance_type": families},
    cv=KFold(3, shuffle=True, random_state=0),
)
# Some candidates are poor descriptions, and say so; the search sees that by their scores.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", apolar.ApolarWarning)
    search.fit(people.data)
print("best by three-fold cross-validation:", search.best_params_)
print("adjusted Rand index with the diagnoses:", end=" ")
print(round(apolar.scores.adjusted_rand_index(people.target, search.predict(people.data)), 3))

# %%
# The whole table of the search: mean log-likelihood of a row in the fold that was left out.

scores = np.array(search.cv_results_["mean_test_score"]).reshape(len(families), len(numbers))
figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for family, line, marker in zip(families, scores, "osD^", strict=True):
    axes.plot(numbers, line, marker=marker, label=family)
axes.set(xlabel="components", ylabel="held-out log-likelihood per row", xticks=numbers)
axes.legend(title="covariance_type")

# %%
# :func:`apolar.select` answers the same question by BIC and without folds: it fits each
# candidate once, and shares the work between them.

selection = apolar.select(people.data, random_state=0)
print(selection.reason)
plt.show()
