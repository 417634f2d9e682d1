"""Bounds of Newton's method where the truth is known: a bound that is weaker would prove something false."""

import flint
import numpy as np
import pytest

from apolar.decomposition.exact.arithmetic import to_balls
from apolar.decomposition.proofs.newton import Linearisation

# In one variable, exact terms of (1 + t) x^d are at the d-th roots of 1 + t: the farthest for negative t.
SIZES = np.linspace(0.01, 1, 200)


def linearise_power(order, defect=0.0):
    """Return x^order in one variable, with an inverse of its derivative that is off by a defect."""
    linearised = Linearisation(to_balls(np.ones(1)), to_balls(np.ones((1, 1))), order)
    linearised.reach *= 1 - defect
    linearised.inverse_norm *= 1 - defect
    linearised.defect += defect
    return linearised


@pytest.mark.parametrize("defect", [0.0, 0.3])
@pytest.mark.parametrize("order", [2, 3, 4, 6])
def test_terms_move_no_farther_than_the_radius(order, defect):
    linearised = linearise_power(order, defect)
    claims = [linearised.displacement(flint.arb(size)) for size in SIZES]
    proved = [(size, claim) for size, claim in zip(SIZES, claims, strict=True) if claim is not None]
    for size, claim in proved:
        move = 1 - (1 - size) ** (1 / order)
        assert move <= claim.radius
        # By as much as points within the radius may change the sum.
        assert (1 + claim.radius) ** order - 1 <= float(claim.change) * (1 + 1e-9)
    assert len(proved) >= 3


def test_bounds_are_not_far_from_the_truth():
    claim = linearise_power(2).displacement(flint.arb(0.3))
    assert 1 - np.sqrt(0.7) <= claim.radius < 1.05 * (1 - np.sqrt(0.7))


@pytest.mark.parametrize("defect", [0.0, 0.4])
@pytest.mark.parametrize("order", [2, 3, 4, 6])
def test_other_terms_in_one_variable_are_outside_of_the_isolation(order, defect):
    # (z x)^d = x^d for the d-th roots of unity z.
    isolation = linearise_power(order, defect).isolation()
    assert isolation < abs(np.exp(2j * np.pi / order) - 1)
    if order == 2:
        assert isolation > 1.5


def test_the_isolation_does_not_depend_on_the_size_of_terms():
    points = np.array([[1.0, 0.2], [0.3, 1.0]])
    isolations = [
        Linearisation(to_balls(weight * np.ones(2)), to_balls(size * points), 3).isolation()
        for weight, size in ((1.0, 1.0), (5.0, 1.0), (1.0, 0.1))
    ]
    assert isolations[0] is not None
    assert isolations == [isolations[0]] * 3
