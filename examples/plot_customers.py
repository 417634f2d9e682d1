"""
A first fit: groups of customers
================================

Orders and spending of 900 simulated customers, in three groups. Amounts and counts have long tails:
their logarithms are closer to Gaussian.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import apolar

rng = np.random.default_rng(0)
group = rng.choice(3, 900, p=[0.6, 0.3, 0.1])
customers = pd.DataFrame(
    {
        "orders": np.exp(rng.normal(np.array([0.7, 2.0, 3.2])[group], 0.4)),
        "spending": np.exp(rng.normal(np.array([4.0, 5.0, 7.5])[group], 0.6)),
        "days_since": np.exp(rng.normal(np.array([4.5, 3.0, 2.0])[group], 0.5)),
    }
)
customers.describe().round(1)

# %%
# How many groups? ``apolar.select`` compares 1 to 9 clusters of fourteen forms. On the command line,
# ``apolar fit customers.csv -k auto`` does the same, and writes labels and a report.

raw = apolar.select(customers, random_state=0)
selection = apolar.select(np.log(customers), random_state=0)
print("as they are:", raw.reason)
print("logarithms: ", selection.reason)

# %%
# What are the groups like? The medians of each, in the units of the table.

best = selection.best
labels = best.predict(np.log(customers))
print(customers.groupby(labels).median().round(1).assign(customers=np.bincount(labels)))
agreement = apolar.scores.adjusted_rand_index(group, labels)
print(f"adjusted Rand index with the simulated groups: {agreement:.2f}")

# %%
# Which customers are between groups?

figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
apolar.plots.uncertainty(best, np.log(customers), columns=["spending", "orders"], ax=axes)
plt.show()
