"""Tensors of any size, from the smallest numbers to the largest: scaled to a norm near one, and back."""

from dataclasses import replace

import numpy as np

from apolar._core.arrays import binary_exponent, scaled_by_power
from apolar.decomposition.waring import Waring, relative_residual
from apolar.tensor import SymmetricTensor

# How much of the largest weight may be lost where the weights are below the normal numbers.
LOST = 1e-10
# The exponent of two up to which a norm is moderate: high powers of the tensor neither overflow nor vanish.
MODERATE = 60


def of_unit_size(tensor: SymmetricTensor) -> tuple[SymmetricTensor, int]:
    """Return a tensor, not zero, times a power of two, so that its norm is near one.

    Tensors of moderate size stay as they are: the first trust radius of the Riemannian Newton method, as
    [khouja2022riemannian] has it, does not scale with the tensor, and neither do the steps from there.

    Returns
    -------
    scaled : SymmetricTensor
    exponent : int
        The tensor is ``2**exponent`` times the scaled one.
    """
    largest = binary_exponent(tensor.coefficients)
    scaled = SymmetricTensor(tensor.order, tensor.dim, scaled_by_power(tensor.coefficients, -largest))
    exponent = largest + int(np.round(np.log2(scaled.norm())))
    if abs(exponent) <= MODERATE:
        return tensor, 0
    coefficients = scaled_by_power(tensor.coefficients, -exponent)
    return SymmetricTensor(tensor.order, tensor.dim, coefficients), exponent


def of_full_size(waring: Waring, exponent: int, tensor: SymmetricTensor) -> Waring:
    """Return the decomposition of a scaled tensor as one of the tensor itself.

    Parameters
    ----------
    waring : Waring
        Of the tensor divided by ``2**exponent``.
    exponent : int
    tensor : SymmetricTensor
        As it was given.

    Returns
    -------
    waring : Waring

    Raises
    ------
    ValueError
        If no numbers hold the weights: they overflow, or too little of them is left.
    """
    weights = scaled_by_power(waring.weights, exponent)
    values = scaled_by_power(waring.singular_values, exponent)
    if not (np.all(np.isfinite(weights)) and np.all(np.isfinite(values))):
        raise ValueError(
            "The weights of the terms are too large for numbers: divide the tensor by its largest "
            "coefficient first; those of the quotient are the weights divided by it."
        )
    lost = np.abs(scaled_by_power(weights, -exponent) - waring.weights).max(initial=0.0)
    if lost > LOST * np.abs(waring.weights).max(initial=0.0):
        raise ValueError(
            f"The tensor is so small, {np.abs(tensor.coefficients).max():.3g} at most, that numbers hold "
            "only a few digits of its weights: multiply it by a power of two first, such as 2.0**200."
        )
    scaled = replace(waring, weights=weights, singular_values=values)
    return (
        scaled if lost == 0 else replace(scaled, residual=relative_residual(tensor, weights, waring.points))
    )
