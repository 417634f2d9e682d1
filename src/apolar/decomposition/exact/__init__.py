"""Exact numbers: a decomposition in rational or algebraic numbers, with a proof by exact arithmetic."""

from apolar.decomposition.exact.exact_waring import ExactWaring
from apolar.decomposition.exact.number_field import AlgebraicNumber, NumberField
from apolar.decomposition.exact.rationalize import rationalized

__all__ = ["AlgebraicNumber", "ExactWaring", "NumberField", "rationalized"]
