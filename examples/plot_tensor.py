"""
Tensors: the third moment of a table, taken apart
=================================================

The third moment of a mixture of spherical Gaussians is, once the noise is taken out, a sum of
cubes of linear forms: one cube a cluster. :func:`apolar.decompose` takes such a sum apart.
"""

import matplotlib.pyplot as plt
import numpy as np

import apolar

W = apolar.decompose("3*x^3 - 3*x^2*y + 9*x*y^2 - y^3")
print(W.to_string(), "| rank", W.rank, "|", W.status.name)

# %%
# A real table: the olive oils of three areas, standardised. The moments of the paper's theorem,
# a decomposition of rank three, and what each of its terms says about the acids. Oils are not
# spherical Gaussians, so this is an approximation, and its residual says how rough it is.

oils = apolar.datasets.load_olive()
scaled = oils.data / oils.data.std(axis=0)
moments = apolar.spherical_moments(scaled)
terms = apolar.decompose(moments.third, rank=3, random_state=0)
print("residual:", f"{terms.residual:.3f}", "of the norm;", terms.message)
mixture = apolar.recover(moments, terms)
print("weights:", mixture.weights.round(2), mixture.status.name)
print("rows of the areas:", (np.bincount(oils.target) / len(oils.target)).round(2))

# %%
# How well terms are found where the answer is known: ten terms in ten dimensions, with more and
# more noise. The condition number of the decomposition says in advance by how much noise is
# amplified.

rng = np.random.default_rng(0)
points = rng.standard_normal((10, 10))
truth = apolar.Waring(np.ones(10), points, order=3)
exact = truth.to_tensor()
noise = apolar.SymmetricTensor(3, 10, rng.standard_normal(220))
levels = 10.0 ** np.arange(-7, 0)
errors = []
for level in levels:
    noisy = exact + noise * (level * exact.norm() / noise.norm())
    found = apolar.decompose(noisy, rank=10, random_state=0)
    errors.append(apolar.decomposition.component_errors(truth, found).max())

figure, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
axes.loglog(levels, errors, "o-", color="#0072b2", label="largest error of a component")
axes.loglog(levels, levels, color="0.6", label="the noise itself")
axes.set(xlabel="noise, relative to the tensor", ylabel="relative error")
axes.legend()
plt.show()
