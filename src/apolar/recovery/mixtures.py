"""From rows or a sketch to the mixture of their moments."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from apolar._core.checks import check_integer, one_of, random_generator
from apolar._core.namespaces import namespace
from apolar.data import BlockFunction, Rows, open_rows
from apolar.data.derived import Divided
from apolar.data.weights import as_counts
from apolar.mixture import SphericalMixture
from apolar.moments import signal_moments, spherical_moments
from apolar.moments.signal import SignalMoments, check_components, check_spread
from apolar.moments.sketch import summarised
from apolar.moments.sums import ScaleError
from apolar.recovery.algorithm1 import paper_mixture
from apolar.recovery.equivariant import equivariant_mixture
from apolar.recovery.weighted import weighted_mixture

FORMS = ("equivariant", "paper")
# "Less than 5 Riemannian Newton iterations" [khouja2022moments, section 4].
PAPER_ITERATIONS = 4


def mixture_from_moments(
    X: Any,
    n_components: int,
    form: str = "equivariant",
    *,
    refine: bool = True,
    sample_weight: Any = None,
    random_state: Any = None,
) -> SphericalMixture:
    """Return the spherical mixture whose moments are those of the data.

    Parameters
    ----------
    X : array_like, sparse matrix, dataframe, iterable of chunks, or MomentSketch
        Rows of shape (n_samples, n_features), or a sketch of them.
    n_components : int
        At most n_features.
    form : {"equivariant", "paper"}, default="equivariant"
        "equivariant" works about the mean, so that shifts, rotations and
        uniform scalings of the data do the same to the result, and averages
        over all noise directions. "paper" is the pipeline of
        [khouja2022moments]: moments, algorithm 2, at most four
        Riemannian Newton iterations, algorithm 1; it needs linearly independent means,
        and fails on centred data.
    refine : bool, default=True
        For "equivariant": fit all moments up to the third, weighted by the
        covariance of their sampling errors, from the solution that takes as
        many of them as it needs to be exact. It costs a few milliseconds
        whatever the number of rows, and is left out above 9 components.
        For "paper": the Riemannian Newton iterations.
    sample_weight : array_like, shape (n_samples,), optional
    random_state : int, Generator or None, default=None

    Returns
    -------
    mixture : SphericalMixture
        Always valid; its `status` says whether it had to be made so.

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
    one_of(form, "form", FORMS)
    n_components = check_integer(n_components, "n_components", least=1)
    # Random choices matter less here than the sampling error: without a seed they are the same every time.
    rng = random_generator(0 if random_state is None else random_state)
    try:
        return _mixture(X, n_components, form, refine, sample_weight, rng)
    except ScaleError:
        if summarised(X, sample_weight) is not None:
            raise
        # Powers of such numbers overflow or vanish; those of the rows divided by a unit do not.
        rows = open_rows(X, as_counts(sample_weight))
        unit = _largest(rows)
        if not (rows.rereadable and unit > 0):
            raise
        scaled = rows.map(Divided(np.full(rows.n_features, unit)))
        return _in_units(_mixture(scaled, n_components, form, refine, None, rng), unit)


def _largest(rows: Rows) -> float:
    """Return the power of two below the largest number; zero for rows that cannot be read again."""
    if not rows.rereadable or rows.is_distributed:
        return 0.0
    largest = max(rows.map_blocks(BlockFunction(_largest_of)))
    return float(2.0 ** np.floor(np.log2(largest))) if largest > 0 else 0.0


def _largest_of(block: Any, _: Any) -> float:
    numbers = block.data if sparse.issparse(block) else block
    xp = namespace(numbers)
    return float(xp.max(xp.abs(numbers))) if numbers.size else 0.0


def _in_units(mixture: SphericalMixture, unit: float) -> SphericalMixture:
    """Return a mixture of rows that were divided by a unit, in the units of the rows."""
    with np.errstate(over="ignore", under="ignore"):
        means = mixture.means * unit
        variances, spectrum = mixture.variances * unit * unit, mixture.spectrum * unit * unit
    if not np.all(np.isfinite(variances) & (variances > 0)) or not np.all(np.isfinite(spectrum)):
        raise ScaleError(
            "The variances of these rows leave the range of numbers: divide the columns by their scale first."
        )
    return replace(mixture, means=means, variances=variances, spectrum=spectrum)


def _mixture(
    X: Any, n_components: int, form: str, refine: bool, sample_weight: Any, rng: np.random.Generator
) -> SphericalMixture:
    if form == "paper":
        moments = spherical_moments(X, sample_weight)
        check_components(n_components, len(moments.first))
        size = float(np.trace(moments.second)) + moments.total_variance
        check_spread(n_components, moments.n_rows, moments.total_variance, moments.mean_variance, size)
        return paper_mixture(moments, n_components, rng, n_iter=PAPER_ITERATIONS if refine else 0)
    return mixture_of_signal(signal_moments(X, n_components - 1, sample_weight, rng), refine=refine)


def mixture_of_signal(signal: SignalMoments, *, refine: bool = True) -> SphericalMixture:
    """Return the mixture of moments in the signal directions, by the equivariant form."""
    mixture = equivariant_mixture(signal)
    return weighted_mixture(signal, mixture) if refine else mixture
