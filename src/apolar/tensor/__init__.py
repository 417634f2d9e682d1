"""Symmetric tensors in compact storage, their apolar product and Hankel matrices."""

from apolar.tensor.coefficients import apolar_product, hankel
from apolar.tensor.monomials import n_monomials
from apolar.tensor.polynomial import parse_polynomial
from apolar.tensor.row_tensor import RowTensor
from apolar.tensor.symmetric import SymmetricTensor, as_tensor

__all__ = [
    "RowTensor",
    "SymmetricTensor",
    "apolar_product",
    "as_tensor",
    "hankel",
    "n_monomials",
    "parse_polynomial",
]
