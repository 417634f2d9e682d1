"""From a symmetric tensor to its Waring decomposition: several methods, and refinement."""

from apolar.decomposition import checks, ranks
from apolar.decomposition.decompose import decompose
from apolar.decomposition.exact import AlgebraicNumber, ExactWaring, NumberField
from apolar.decomposition.matching import component_errors
from apolar.decomposition.proofs import Certificate
from apolar.decomposition.refine import refine
from apolar.decomposition.waring import Status, Waring

__all__ = [
    "AlgebraicNumber",
    "Certificate",
    "ExactWaring",
    "NumberField",
    "Status",
    "Waring",
    "checks",
    "component_errors",
    "decompose",
    "ranks",
    "refine",
]
