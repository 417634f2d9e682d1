"""The mixture whose moments are those of rows or of a sketch, and the choice among families and numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.checks import check_integer, one_of, random_generator
from apolar._core.compiled import kernel_threads
from apolar._core.namespaces import namespace
from apolar.data import Rows, on_checked, open_rows
from apolar.data.chunks import as_counts
from apolar.data.rows import Divided
from apolar.mixture import MixtureStatus, MomentMixture
from apolar.mixture.families import family
from apolar.moments import (
    CentralMoments,
    SignalMoments,
    central_moments,
    signal_moments,
)
from apolar.moments.signal import check_components, check_spread
from apolar.moments.sketch import summary_moments
from apolar.moments.sums import ScaleError, check_total_variance
from apolar.recovery.algorithm1 import paper_mixture, spherical_moments
from apolar.recovery.equivariant import equivariant_mixture, weighted_mixture
from apolar.recovery.family_mixtures import (
    COVARIANCE_TYPES,
    family_mixture,
    judge_fit,
    needed_order,
)
from apolar.recovery.moment_fit import MAX_MOMENTS
from apolar.tensor import n_monomials

FORMS = ("equivariant", "paper")
# "Less than 5 Riemannian Newton iterations" [khouja2022moments, section 4].
PAPER_ITERATIONS = 4


def mixture_from_moments(
    X: Any,
    n_components: int,
    form: str = "equivariant",
    *,
    covariance_type: str = "spherical",
    refine: bool = True,
    sample_weight: Any = None,
    random_state: Any = None,
) -> MomentMixture:
    """Return the mixture whose moments are those of the data.

    Parameters
    ----------
    X : array_like, sparse matrix, dataframe, iterable of chunks, or MomentSketch
        Rows of shape (n_samples, n_features), or a sketch of them.
    n_components : int
        At most n_features spherical components, or one more with "tied"; in six columns or fewer, more
        spherical, diagonal and full ones, from moments of higher order.
    form : {"equivariant", "paper"}, default="equivariant"
        "equivariant" uses central moments, so that shifts, rotations and
        uniform scalings of the data do the same to the result, and averages
        over all noise directions. "paper" is the pipeline of
        [khouja2022moments]: moments, algorithm 2, at most four Riemannian
        Newton iterations, algorithm 1; it needs linearly independent means,
        and fails on centred data. For other families than spherical ones it does not matter.
    covariance_type : {"spherical", "diag", "tied", "full"}, default="spherical"
        The family of the components. Moments of order three determine spherical components, as many as
        columns, and diagonal ones, if (m - p)^2 >= m + p for m columns and p = n_components - 1; those of
        order four components with one common covariance. More components than that, and components
        with full covariances of their own, are fitted to moments of order four to six, in six columns or
        fewer. A sketch must be of that order; rows are read as they are needed.
    refine : bool, default=True
        For "equivariant": fit all moments up to the third by least squares,
        weighted by the covariance of their sampling errors, starting from
        the solution that is exact for some of them. It takes a few
        milliseconds for any number of rows, and is skipped above 9
        components. For "paper": the Riemannian Newton iterations.
    sample_weight : array_like, shape (n_samples,), optional
        How many rows each row stands for. Weights of mean below one are scaled to mean one.
    random_state : int, Generator or None, default=None

    Returns
    -------
    mixture : MomentMixture
        Always valid; `status` says whether the solution was projected, and whether it is far from the moments
        of the data. Its `p_value` says whether the moments agree with it; it is not known about more than 17
        columns.

    Examples
    --------
    >>> import apolar
    >>> X, _ = apolar.datasets.make_example(1, 100_000, random_state=0)
    >>> mixture = apolar.mixture_from_moments(X, 4)
    >>> mixture.weights.round(2)
    array([0.37, 0.33, 0.28, 0.02])
    >>> mixture.status.name
    'VALID'
    """
    n_components = check_integer(n_components, "n_components", least=1)
    kind = _moment_family(covariance_type)
    one_of(form, "form", FORMS)
    # Random choices change the result less than the sampling error: without a seed, they are always the same.
    rng = random_generator(0 if random_state is None else random_state)
    central = summary_moments(X, sample_weight)
    source = open_rows(X, as_counts(sample_weight)) if central is None else central
    is_plain = kind == "spherical" and (form == "paper" or n_components <= source.n_features)

    def recover_from(source: Rows | CentralMoments) -> MomentMixture:
        if is_plain:
            return spherical_mixture(source, n_components, form, refine=refine, rng=rng)
        if isinstance(source, Rows):
            source = central_moments(source, order=needed_order(kind, n_components, source.n_features))
            check_total_variance(float(np.trace(source.covariance)))
        return family_mixture(source, n_components, kind, rng)

    return recover_from(source) if isinstance(source, CentralMoments) else _in_any_scale(recover_from, source)


def _moment_family(covariance_type: str) -> str:
    """Return the name of a family that moments can determine; refuse others."""
    name = family(covariance_type).name
    one_of(name, "covariance_type", COVARIANCE_TYPES)
    return name


def spherical_mixture(
    source: Rows | CentralMoments,
    n_components: int,
    form: str = "equivariant",
    *,
    refine: bool = True,
    rng: np.random.Generator | None = None,
) -> MomentMixture:
    """Return the spherical mixture of rows, or of central moments, as `mixture_from_moments` does."""
    rng = random_generator(0) if rng is None else rng
    check_components(n_components, source.n_features)
    central = source if isinstance(source, CentralMoments) else None
    if isinstance(source, Rows):
        # All third moments of few columns say how well the mixture agrees with them.
        is_small = n_monomials(source.n_features + 1, 3) <= MAX_MOMENTS
        if is_small or form == "paper" or not source.rereadable:
            central = central_moments(source)
    if form == "paper" and central is not None:
        moments, mean = spherical_moments(central), central.mean
        check_spread(n_components, moments.n_rows, mean, moments.total_variance, moments.mean_variance)
        mixture = paper_mixture(moments, n_components, rng, n_iter=PAPER_ITERATIONS if refine else 0)
    else:
        known = source if central is None else central
        signal = signal_moments(known, n_components - 1, rng, n_threads=kernel_threads())
        mixture = mixture_of_signal(signal, refine=refine)
    return mixture if central is None else judge_fit(central, mixture)


def mixture_of_signal(signal: SignalMoments, *, refine: bool = True) -> MomentMixture:
    """Return the mixture that has these moments, by the equivariant form."""
    mixture = equivariant_mixture(signal)
    return weighted_mixture(signal, mixture) if refine else mixture


# --- rows whose powers overflow ---------------------------------------------------------------------


def _in_any_scale(recover_from: Callable[[Rows], MomentMixture], rows: Rows) -> MomentMixture:
    """Return the mixture of rows; where powers overflow or underflow, of the rows in another unit."""
    try:
        return recover_from(rows)
    except ScaleError:
        if not rows.rereadable or rows.is_distributed:
            raise
    largest = max(rows.map(on_checked(lambda block, _: float(namespace(block).max(abs(block))))))
    # A power of two changes no digit.
    unit = float(2.0 ** np.floor(np.log2(largest)))
    mixture = recover_from(rows.transform(Divided(np.full(rows.n_features, unit))))
    with np.errstate(over="ignore", under="ignore"):
        means, covariances = mixture.means * unit, mixture.covariances * unit * unit
        spectrum, variances = mixture.spectrum * unit * unit, mixture.stored[0].diagonals(covariances)
    if not all(np.all(np.isfinite(x)) for x in (means, covariances, spectrum)) or np.any(variances == 0):
        raise ScaleError(
            "The variances of these rows overflow or underflow: divide the columns by their scale first."
        )
    return replace(mixture, means=means, covariances=covariances, spectrum=spectrum)


# --- the choice among families and numbers -----------------------------------------------------------


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
    >>> best = apolar.select_from_moments(X[:, :3], range(1, 4), ("spherical", "diag"), order=3).best
    >>> best.covariance_type, best.n_components
    ('spherical', 3)
    """
    numbers: list[Any] = [n_components]
    if isinstance(n_components, Iterable) and not isinstance(n_components, str):
        numbers = list(n_components)
    kinds = [covariance_type] if isinstance(covariance_type, str) else list(covariance_type)
    if not numbers or not kinds:
        raise ValueError("n_components and covariance_type must name at least one mixture.")
    names = list(dict.fromkeys(map(_moment_family, kinds)))
    counts = [check_integer(number, "n_components", least=1) for number in numbers]
    central = central_moments(X, sample_weight, order=order)
    best, table = None, []
    for name, number in itertools.product(names, counts):
        try:
            mixture = mixture_from_moments(central, number, covariance_type=name, random_state=random_state)
        except (ValueError, np.linalg.LinAlgError) as error:
            table.append(MomentCandidate(name, number, reason=str(error)))
            continue
        agreement = mixture.agreement
        if agreement is None:
            raise ValueError(
                f"The moments of {len(central.mean)} columns are too many to compare: choose columns."
            )
        row = MomentCandidate(
            name, number, agreement.n_parameters, agreement.criterion, mixture.p_value, mixture.status
        )
        table.append(row)
        if best is None or row.criterion < best[0]:
            best = row.criterion, mixture
    if best is None:
        raise ValueError(f"No candidate can be fitted to these moments: {table[0].reason}")
    return MomentSelection(best[1], tuple(table))
