"""The last steps towards exact terms, from the residual tensor itself."""

from dataclasses import replace

import numpy as np

from apolar.decomposition.gauss_newton import Refined
from apolar.decomposition.gram import TangentGram
from apolar.decomposition.waring import relative_residual
from apolar.tensor import SymmetricTensor

# Steps at most, and what each has to leave of the residual for another.
MOST_STEPS, GAIN = 5, 0.3
# Multiplications of the conjugate gradients of a step, at most.
STEP_WORK = 5e9


def polished(tensor: SymmetricTensor, refined: Refined, residual: float) -> tuple[Refined, float]:
    """Return terms that are nearly exact after a few more steps, and their relative residual.

    Where terms are correlated, a residual of 1e-9 has a gradient that is
    rounding beside the tensor's own contractions, and conjugate gradients that
    stop early do not see its small directions. Here the gradient is that of the
    residual tensor, formed from the coefficients, and steps are solved to the
    end.

    Parameters
    ----------
    tensor : SymmetricTensor
    refined : Refined
    residual : float
        Relative, of these terms.

    Returns
    -------
    refined : Refined
        The same where no step makes the residual smaller.
    residual : float
    """
    vectors, signs, order = refined.vectors, refined.signs, tensor.order
    most_products = int(np.clip(STEP_WORK / (4 * len(vectors) * vectors.size), 20, 1000))
    for _ in range(MOST_STEPS):
        rest = tensor - SymmetricTensor.from_waring(signs, vectors, order)
        gram = TangentGram(vectors, signs, order)
        slope = order * signs[:, None] * rest.contract_all(gram.conjugate, 1)
        moved = vectors + gram.solve(slope, damping=1e-15, rtol=1e-10, max_iter=most_products)[0]
        residual_moved = relative_residual(tensor, signs, moved)
        if not residual_moved < residual:
            break
        gain = residual_moved / residual
        vectors, residual = moved, residual_moved
        if gain > GAIN:
            break
    return replace(refined, vectors=vectors), residual
