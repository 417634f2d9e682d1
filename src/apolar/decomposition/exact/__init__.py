"""Exact numbers: a decomposition in rational or algebraic numbers, with a proof by exact arithmetic."""

from apolar.decomposition.exact.arithmetic import AlgebraicNumber, NumberField
from apolar.decomposition.exact.exact_waring import ExactWaring
from apolar.decomposition.exact.rationalize import rationalize

__all__ = ["AlgebraicNumber", "ExactWaring", "NumberField", "rationalize"]
