"""From a symmetric tensor to its Waring decomposition: several methods, and refinement."""

from apolar.decomposition import ranks
from apolar.decomposition.api import decompose, refine
from apolar.decomposition.eigenpairs import Eigenvectors, eigenvectors
from apolar.decomposition.exact import AlgebraicNumber, ExactWaring, NumberField
from apolar.decomposition.generalized import GeneralizedDecomposition, gad
from apolar.decomposition.joint import JointWaring, decompose_jointly
from apolar.decomposition.monodromy import decompositions
from apolar.decomposition.proofs import Certificate
from apolar.decomposition.ranks import interpolation_degree
from apolar.decomposition.riemannian import check_gradient, check_hessian, check_retraction
from apolar.decomposition.waring import Status, Waring, component_errors

__all__ = [
    "AlgebraicNumber",
    "Certificate",
    "Eigenvectors",
    "ExactWaring",
    "GeneralizedDecomposition",
    "JointWaring",
    "NumberField",
    "Status",
    "Waring",
    "check_gradient",
    "check_hessian",
    "check_retraction",
    "component_errors",
    "decompose",
    "decompose_jointly",
    "decompositions",
    "eigenvectors",
    "gad",
    "interpolation_degree",
    "ranks",
    "refine",
]
