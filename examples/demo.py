"""Decompose a cubic form into powers of linear forms, and check the result."""

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
