"""What is proved of a decomposition: uniqueness, exact terms near by, the least number of terms."""

from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array
from apolar.decomposition.proofs.flattenings import certified_bound
from apolar.decomposition.proofs.nearby import TensorAndTerms, exact_terms
from apolar.decomposition.proofs.uniqueness import uniqueness
from apolar.decomposition.terms import cluster_error
from apolar.decomposition.tuning import TUNING
from apolar.tensor import SymmetricTensor

# The rounding of the coefficients as they were given, relative to the norm.
ROUNDING = 2.0**-52


@dataclass(frozen=True)
class Certificate:
    """What is proved of a decomposition, with all rounding accounted for.

    Uniqueness and the rank concern complex terms: what is proved of these holds
    for real ones too. Distances of points are relative to their lengths, those
    of tensors to the norm; terms are compared at the weights found, which
    leaves their lengths free.

    Attributes
    ----------
    n_terms : int
    unique : bool or None
        Whether these are the only terms, as many or fewer, with exactly this
        sum. False if there are infinitely many others; None if not decided.
    unique_by : str
        The theorem that decides it.
    isolation : float or None
        Other terms with the same sum have a point as far as this from those found.
    distance : float or None
        At least ``|T - W| / |T|`` in exact arithmetic; None without a tensor.
    exact_nearby : bool or None
        Whether the very tensor that was given, in its `exact_coefficients` if there are any, else to its
        last digit, has exact terms with points within `radius` of these. False if it needs more terms; None
        if not decided.
    nearby_by : str
        What decides it.
    margin : float or None
        All tensors, real ones if it is real, within this distance of the given one that are sums of so
        many powers have terms with points within `radius` of these: the tensor
        before it was rounded, or before noise of that size. None if not proved.
    radius : float or None
    rank_lower_bound : int
        No sum of fewer powers is as near to the tensor as these terms, or as rounding.
    lower_bound_by : str
        The matrix that proves it.
    determined : bool
        False where points lie so close together that the tensor does not
        determine their terms: these may be on the way to a limit that has no
        such terms, and are not said to be unique or minimal.
    exact_rank_bound : int
        No sum of fewer powers is the tensor itself, though some may come as near as you like.
    exact_bound_by : str
        What proves it.
    """

    n_terms: int
    unique: bool | None
    unique_by: str
    isolation: float | None = None
    distance: float | None = None
    exact_nearby: bool | None = None
    nearby_by: str = ""
    margin: float | None = None
    radius: float | None = None
    rank_lower_bound: int = 0
    lower_bound_by: str = ""
    determined: bool = True
    exact_rank_bound: int = 0
    exact_bound_by: str = ""

    @property
    def minimal(self) -> bool:
        """Whether no sum of fewer powers is proved to be as near to the tensor."""
        return self.determined and self.rank_lower_bound >= self.n_terms

    @property
    def message(self) -> str:
        """What is proved and what is not, in words."""
        return " ".join([self._unique_words(), self._nearby_words(), self._rank_words()])

    def _unique_words(self) -> str:
        if self.unique:
            return f"No other terms, as many or fewer, have the same sum ({self.unique_by})."
        if self.unique is False:
            return f"Infinitely many others have the same sum ({self.unique_by})."
        words = "Others may have the same sum"
        if self.isolation is not None:
            words += f", but not with all points within {self.isolation:.1e} of these"
        return f"{words} ({self.unique_by})."

    def _nearby_words(self) -> str:
        if self.distance is None:
            return f"They are not compared with a tensor ({self.nearby_by})."
        if self.distance == 0:
            words = "They are the tensor exactly."
        elif self.exact_nearby:
            words = (
                f"Exact terms of the tensor have points within {self.radius:.1e} of these ({self.nearby_by})."
            )
        else:
            decided = (
                "but to its last digit the tensor needs more terms"
                if self.exact_nearby is False
                else "but whether exact terms are near by is not decided"
            )
            words = (
                f"Their sum is within {self.distance:.1e} of the tensor, relative to its norm, {decided} "
                f"({self.nearby_by})."
            )
        if self.margin is None and self.n_terms > 0:
            return f"{words} How far noise, or rounding, moves the terms is not proved."
        if self.margin is None or (self.exact_nearby and self.distance > 0):
            return words
        return (
            f"{words} All sums of {self.n_terms} powers within {self.margin:.1e} of the tensor have terms "
            f"with points within {self.radius:.1e} of these."
        )

    def _rank_words(self) -> str:
        words = self._near_rank_words()
        if self.exact_rank_bound > max(self.rank_lower_bound, 1):
            words += f" The tensor itself has rank {self.exact_rank_bound} or more ({self.exact_bound_by})."
        return words

    def _near_rank_words(self) -> str:
        if self.minimal:
            return f"No fewer terms come as near ({self.lower_bound_by})."
        if self.rank_lower_bound == 0:
            return "Fewer terms are not excluded."
        return f"Fewer terms than {self.rank_lower_bound} do not come as near ({self.lower_bound_by})."


def certificate(tensor: SymmetricTensor | None, weights: Array, points: Array, order: int) -> Certificate:
    """Return what is proved of the terms of a decomposition.

    Parameters
    ----------
    tensor : SymmetricTensor or None
        What they are terms of; None for their sum.
    weights : ndarray, shape (rank,)
    points : ndarray, shape (rank, dim)
    order : int

    Returns
    -------
    certificate : Certificate
    """
    dim = points.shape[1]
    if tensor is not None and (tensor.order, tensor.dim) != (order, dim):
        raise ValueError(
            f"The decomposition is of order {order} in {dim} variables, "
            f"the tensor of order {tensor.order} in {tensor.dim}."
        )
    unique, unique_by = uniqueness(weights, points, order)
    terms = TensorAndTerms.of(tensor, weights, points, order)
    if terms is None:
        reason = "the tensor is too large, or a term is zero, too small or too large"
        return Certificate(len(weights), unique, unique_by, nearby_by=reason, lower_bound_by=reason)
    nearby = exact_terms(terms)
    residual = 0.0 if nearby.is_sum else terms.residual
    bound, bound_by = certified_bound(terms.tensor, max(residual, ROUNDING * terms.norm))
    proved = Certificate(
        len(weights),
        unique,
        unique_by,
        isolation=nearby.isolation,
        rank_lower_bound=bound,
        lower_bound_by=bound_by,
    )
    if tensor is None:
        return replace(proved, nearby_by="there is none")
    distance = 0.0 if nearby.is_sum else residual / max(terms.norm, 1e-300) * (1 + 1e-14)
    determined = nearby.is_sum or nearby.is_unique or _is_determined(terms, distance)
    if nearby.is_unique and not unique:
        unique, unique_by = True, nearby.by
    elif not determined and unique:
        unique, unique_by = None, "points lie too close together for the terms to be determined"
    kernel = nearby.kernel
    needs_more = kernel is not None and kernel.rank_bound > bound
    return replace(
        proved,
        unique=unique,
        unique_by=unique_by,
        distance=distance,
        exact_nearby=nearby.exact,
        nearby_by=nearby.by,
        margin=nearby.margin,
        radius=nearby.radius,
        determined=determined,
        exact_rank_bound=kernel.rank_bound if kernel is not None and needs_more else bound,
        exact_bound_by=kernel.by if kernel is not None and needs_more else bound_by,
    )


def _is_determined(terms: TensorAndTerms, distance: float) -> bool:
    """Return whether terms whose points are close together are off by less than their size."""
    lengths = np.linalg.norm(terms.points, axis=1)
    units, weights = terms.points / lengths[:, None], terms.weights * lengths**terms.order
    return cluster_error(weights, units, terms.order, distance, terms.norm) < TUNING.undetermined
