"""How many components, of which family: from moments alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.checks import check_integer, one_of, random_generator
from apolar.mixture import MixtureStatus
from apolar.mixture.families import family
from apolar.moments import central_moments
from apolar.recovery.families import COVARIANCE_TYPES, family_mixture, needed_order
from apolar.recovery.moment_mixture import MomentMixture

__all__ = ["MomentCandidate", "MomentSelection", "select_from_moments"]


@dataclass(frozen=True)
class MomentCandidate:
    """A mixture that was tried.

    Attributes
    ----------
    covariance_type : str
    n_components : int
    n_parameters : int
        Free ones; 0 if it was not fitted.
    criterion : float
        Minus twice the log-likelihood of the moments, plus log n per parameter: lower is better.
    p_value : float
        Whether the moments agree with the mixture.
    status : MixtureStatus or None
    reason : str
        Why it was not fitted.
    """

    covariance_type: str
    n_components: int
    n_parameters: int = 0
    criterion: float = float("inf")
    p_value: float = float("nan")
    status: MixtureStatus | None = None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class MomentSelection:
    """The choice among mixtures by moments alone.

    Attributes
    ----------
    best : MomentMixture
    table : tuple of MomentCandidate
        In the order of families and numbers.
    """

    best: MomentMixture
    table: tuple[MomentCandidate, ...]

    def __str__(self) -> str:
        lines = ["family     components  criterion  p-value"]
        ranked = sorted((row for row in self.table if not row.reason), key=lambda row: row.criterion)
        lines += [
            f"{row.covariance_type:10} {row.n_components:10}  {row.criterion:9.1f}  {row.p_value:7.3f}"
            for row in ranked[:15]
        ]
        return "\n".join(lines)


def select_from_moments(
    X: Any,
    n_components: int | Iterable[int] = range(1, 7),
    covariance_type: str | Sequence[str] = COVARIANCE_TYPES,
    *,
    order: int = 4,
    sample_weight: Any = None,
    random_state: Any = None,
) -> MomentSelection:
    """Choose the number of components and their family by moments alone.

    For many rows the moments are normal, with a covariance that each mixture says: their likelihood and the
    number of parameters make a criterion, as BIC is of the rows.

    Parameters
    ----------
    X : rows, or MomentSketch
        As in `mixture_from_moments`.
    n_components : int or iterable of int, default=range(1, 7)
    covariance_type : str or sequence of str, default=("spherical", "diag", "tied", "full")
    order : int, default=4
        The highest order of the moments of rows; that of a sketch is known.
    sample_weight : array_like, shape (n_samples,), optional
    random_state : int, Generator or None, default=None

    Returns
    -------
    selection : MomentSelection
        Candidates that the moments do not determine are in its table with the reason.

    Examples
    --------
    >>> import apolar
    >>> X, _ = apolar.datasets.make_example(1, 100_000, random_state=0)
    >>> sketch = apolar.MomentSketch(6, order=4).update(X)
    >>> best = apolar.select_from_moments(sketch, range(1, 6), ("spherical", "diag", "tied")).best
    >>> best.covariance_type, best.n_components
    ('spherical', 4)
    """
    numbers: list[Any] = [n_components]
    if isinstance(n_components, Iterable) and not isinstance(n_components, str):
        numbers = list(n_components)
    kinds = [covariance_type] if isinstance(covariance_type, str) else list(covariance_type)
    if not numbers or not kinds:
        raise ValueError("n_components and covariance_type must name at least one mixture.")
    names = [family(kind).name for kind in kinds]
    for name in names:
        one_of(name, "covariance_type", COVARIANCE_TYPES)
    central = central_moments(X, sample_weight, order=order)
    best, table = None, []
    for name in dict.fromkeys(names):
        for number in numbers:
            check_integer(number, "n_components", least=1)
            rng = random_generator(0 if random_state is None else random_state)
            try:
                needed_order(name, number, len(central.mean))
                mixture = family_mixture(central, number, name, rng)
            except (ValueError, np.linalg.LinAlgError) as error:
                table.append(MomentCandidate(name, number, reason=str(error)))
                continue
            goodness = mixture.goodness
            if goodness is None:
                raise ValueError(
                    f"The moments of {len(central.mean)} columns are too many to compare: choose columns."
                )
            row = MomentCandidate(
                name, number, goodness.n_parameters, goodness.criterion, mixture.p_value, mixture.status
            )
            table.append(row)
            if best is None or row.criterion < best[0]:
                best = row.criterion, mixture
    if best is None:
        raise ValueError(f"No candidate can be fitted to these moments: {table[0].reason}")
    return MomentSelection(best[1], tuple(table))
