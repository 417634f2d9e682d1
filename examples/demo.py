"""Decompose a cubic form, learn a mixture from its moments, fit one to a few rows, and check all three."""

import numpy as np

import apolar

form = "3*x^3 - 3*x^2*y + 3*x^2*z + 9*x*y^2 + 6*x*y*z + 3*x*z^2 - 4*y^3 + 12*y^2*z - 6*y*z^2 + 4*z^3"

tensor = apolar.SymmetricTensor.from_polynomial(form)
waring = apolar.decompose(tensor, random_state=0)

print(f"The cubic\n    T = {tensor.to_string()}\nis a sum of {waring.rank} cubes of linear forms:")
print(f"    T = {waring.to_string(precision=4)}")
print("\nweight        point")
for weight, point in zip(waring.weights, waring.points, strict=True):
    print(f"{weight:10.6f}    ({', '.join(f'{x: .6f}' for x in np.round(point, 6))})")

x = np.random.default_rng(0).standard_normal((1000, 3))
difference = np.abs(tensor(x) - waring.to_tensor()(x)).max()
print(f"\nCheck: |T - sum| / |T| = {waring.residual:.1e};", end=" ")
print(f"at 1000 random points they differ by at most {difference:.1e}.")
print(f"{waring.status.name}: {waring.message}")
if waring.status is not apolar.Status.EXACT:
    raise SystemExit("The check failed.")

# The third moment of a Gaussian mixture is such a form, and its terms are the clusters.
X, labels = apolar.datasets.make_example(1, n_samples=100_000, random_state=0)
truth = apolar.datasets.example_mixture(1)
mixture = apolar.mixture_from_moments(X, n_components=4)

print(f"\n{len(X):,} rows from a mixture of 4 spherical Gaussians in R^6; what their moments say:")
print("weight (true)      variance (true)    distance of the mean, relative")
apart = np.linalg.norm(mixture.means[:, None] - truth.means, axis=2)
for i, j in enumerate(apart.argmin(axis=1)):
    weights = f"{mixture.weights[i]:.4f} ({truth.weights[j]:.4f})"
    variances = f"{mixture.variances[i]:6.2f} ({truth.variances[j]:5.2f})"
    print(f"{weights}    {variances}     {apart[i, j] / np.linalg.norm(truth.means[j]):.4f}")
print(f"{mixture.status.name}: {mixture.message}")

# A thousand rows are few for moments alone: they start EM, with others, and the best start goes on.
X, labels = apolar.datasets.make_example(1, n_samples=1000, random_state=5)
model = apolar.GaussianMixture(4, covariance_type="spherical", random_state=0).fit(X)
errors = model.standard_errors(X)
wrong = apolar.scores.error_rate(labels, model.predict(X))

print(f"\n{len(X):,} rows, fitted by EM: {model.message_}")
print("weight             variance")
for i in range(4):
    weights = f"{model.weights_[i]:.4f} +- {errors.weights[i]:.4f}"
    print(f"{weights}   {model.covariances_[i]:6.2f} +- {errors.covariances[i]:.2f}")
print(f"BIC {model.bic(X):.1f}, start {model.start_!r}, {model.n_iter_} passes,", end=" ")
print(f"{100 * wrong:.1f}% of the rows in the wrong cluster.")
if wrong > 0.01:
    raise SystemExit("The check failed.")
