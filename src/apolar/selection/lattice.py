"""Which covariance family contains which, and what that says about likelihoods."""

from __future__ import annotations

import re

from apolar.mixture.families import Family

__all__ = ["contains"]

# For the orientation: axis-aligned components are a special case of the same orientation, that of any.
_ORIENTATIONS = {"I": "IEV", "E": "EV", "V": "V"}
_PARTS = {"E": "EV", "V": "V"}
_CODE = re.compile("[EV][EVI][EVI]")


def contains(larger: Family, smaller: Family) -> bool:
    """Return whether every mixture of a family is one of another, so that it cannot be more likely.

    Volume, shape and orientation of the larger family are each at least as free. Spherical components have
    the identity as their shape, which is one shape that components can share.
    """
    if larger == smaller:
        return True
    if not all(_CODE.fullmatch(kind.code) for kind in (larger, smaller)):
        return False
    volume, shape, orientation = (smaller.code[i] for i in range(3))
    if larger.code[0] not in _PARTS[volume]:
        return False
    if shape == "I":
        return True
    return larger.code[1] in _PARTS[shape] and larger.code[2] in _ORIENTATIONS[orientation]
