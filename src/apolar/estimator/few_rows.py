"""Whether the rows are too few for the parameters, and which family they suffice for."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from apolar._core.arrays import Array
from apolar.em.loop import converge
from apolar.em.low_density import with_noise_component
from apolar.em.result import FitResult
from apolar.em.run import evidence_of, evidences
from apolar.em.whitened import WhitenedData
from apolar.exceptions import FewRowsWarning
from apolar.mixture.families import FAMILIES, Family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior

__all__ = ["few_rows_seen", "few_rows_warning"]

# Other families are tried on rows of at most this many row statistics: they are then in memory.
MOST_NUMBERS = 2**21
# Families that share a part of a full covariance are tried with at most so many columns.
MOST_COLUMNS = 16
# The tolerance and the most passes of EM for other families.
TOLERANCE = 0.1
PASSES = 15
# Families with correlations are compared with others from this many rows per column on. Of fewer rows, some
# direction has hardly any variance by chance, and the evidence of a covariance is too high.
ROWS_PER_COLUMN = 3
# A family is named if its evidence is higher than that of the fit by this: twice that is worth a mention in
# the scale of [kass1995].
LEAST_GAIN = 1.0
# EM from the responsibilities of the fit gains less than this per row: families further behind are not run.
MOST_GAIN = 1.0
# Sums of responsibilities are not exact.
ROUNDING = 1e-6


def few_rows_warning(data: WhitenedData, result: FitResult, prior: Prior | None) -> FewRowsWarning | None:
    """Return a warning if there are fewer rows than parameters, or fewer than columns in a component.

    Parameters
    ----------
    data : WhitenedData
    result : FitResult
        The fit to all rows.
    prior : Prior or None
        The prior of the fit, which other families are tried with.

    Returns
    -------
    warning : FewRowsWarning or None
        Its message says what was seen, and which family has a higher evidence; without a family if the rows
        are many or elsewhere.
    """
    # Sparse rows of very many columns are for spherical components, and there is nothing to advise.
    seen = None if data.is_wide else few_rows_seen(data, result)
    if seen is None:
        return None
    return FewRowsWarning(f"{seen} {_advice(data, result, prior)}")


def few_rows_seen(data: WhitenedData, result: FitResult) -> str | None:
    """Return in which respect the rows are few, in words; None if they are not."""
    n_components, n_features = result.parameters.means.shape
    n_parameters = data.family.n_parameters(n_components, n_features)
    # Spherical components have hardly any parameters but their means, which few rows suffice for.
    if data.weight + ROUNDING < n_parameters and not data.family.is_spherical:
        return f"{data.weight:.6g} rows are fewer than the {n_parameters} parameters of this mixture."
    if data.family.is_axis_aligned or data.family.shares_parameters:
        return None
    counts = result.parameters.weights * data.weight
    n_few = int(np.sum(counts + ROUNDING < n_features))
    if not n_few:
        return None
    which = "1 component holds" if n_few == 1 else f"{n_few} components hold"
    return (
        f"Of {n_components}, {which} fewer rows than there are columns: {counts.min():.3g} rows, for a "
        f"covariance of {n_features} columns."
    )


def _advice(data: WhitenedData, result: FitResult, prior: Prior | None) -> str:
    """Return what to do, in words."""
    gains = _gains(data, result, prior)
    if not gains:
        return "Try a covariance_type of fewer parameters, or fewer components."
    best = max(gains, key=lambda name: gains[name])
    if not _is_comparable(data, data.family):
        return (
            "So few rows say nothing of correlations: of the families without them, "
            f"covariance_type={best!r} has the highest evidence."
        )
    if gains[best] > LEAST_GAIN:
        return f"covariance_type={best!r} has a higher evidence, by {gains[best]:.1f}."
    relies = "without a prior it may follow single rows" if prior is None else "the fit relies on its prior"
    return f"Of the families tried, this one has the highest evidence: {relies}."


def _gains(data: WhitenedData, result: FitResult, prior: Prior | None) -> dict[str, float]:
    """Return by how much other families have a higher evidence than the fit, by their names."""
    rows = data.rows
    is_elsewhere = rows.is_distributed or rows.device_template is not None or not rows.in_memory
    if is_elsewhere or data.n_rows * data.n_stats > MOST_NUMBERS:
        return {}
    responsibilities = np.asarray(data.row_responsibilities(result.parameters)[0])
    starts: list[tuple[float, WhitenedData, WhitenedParameters]] = []
    # Families with and without sharing have the same row statistics.
    whitened = {data.family.untied: data}
    for other in dict.fromkeys(FAMILIES.values()):
        if _is_tried(data, other, result.parameters.n_components):
            # A family that cannot be fitted to these rows is not named.
            with suppress(ValueError, ArithmeticError), np.errstate(invalid="raise"):
                if other.untied not in whitened:
                    whitened[other.untied] = _under(other, data)
                starts.append(_start_under(whitened[other.untied].under(other), responsibilities, prior))
    evidences: dict[str, float] = {}
    for first, under, parameters in sorted(starts, key=lambda start: start[0], reverse=True):
        evidences[under.family.name] = first
        if first > max(evidences.values()) - MOST_GAIN * data.weight:
            with suppress(ValueError, ArithmeticError), np.errstate(invalid="raise"):
                start = FitResult(parameters, "")
                converged = converge(under, start, prior, tol=TOLERANCE, max_iter=PASSES)
                evidences[under.family.name] = _evidence(under, converged)
    evidence = _evidence(data, result)
    return {name: value - evidence for name, value in evidences.items()}


def _is_tried(data: WhitenedData, other: Family, n_components: int) -> bool:
    """Return whether a family is compared with that of the fit."""
    # Whether one component shares its covariance with others is no question.
    is_same = n_components == 1 and (other.shares_parameters or other.untied == data.family.untied)
    is_small = data.n_rows * other.n_stats(data.n_features) <= MOST_NUMBERS
    if other.shares_parameters and not (other.shares_covariance or other.is_axis_aligned):
        is_small = is_small and data.n_features <= MOST_COLUMNS
    return other != data.family and not is_same and is_small and _is_comparable(data, other)


def _is_comparable(data: WhitenedData, other: Family) -> bool:
    """Return whether there are enough rows for the evidence of a family."""
    return other.is_axis_aligned or data.weight >= ROWS_PER_COLUMN * data.n_features


def _start_under(
    data: WhitenedData, responsibilities: Array, prior: Prior | None
) -> tuple[float, WhitenedData, WhitenedParameters]:
    """Return the M-step from the responsibilities under the family of the data, and its evidence."""
    parameters = data.m_step(data.soft_stats(responsibilities), prior)
    stats, likelihood = data.e_step(parameters[None])
    evidence = float(evidences(data, parameters[None], stats, likelihood)[0])
    return evidence + data.whitening.log_det * data.weight, data, parameters


def _evidence(data: WhitenedData, result: FitResult) -> float:
    """Return the evidence of a result in the units of the data."""
    evidence = evidence_of(data, result) if result.evidence is None else result.evidence
    return evidence + data.whitening.log_det * data.weight


def _under(family: Family, data: WhitenedData) -> WhitenedData:
    """Return the rows of the data for another family."""
    noise = data.whitening.noise
    if isinstance(noise, np.ndarray):
        under = WhitenedData(data.rows, family, threads=data.threads).with_noise(noise)
    else:
        under = WhitenedData(data.rows, family, threads=data.threads, noise=noise)
    if not data.whitening.has_noise_component:
        return under
    return with_noise_component(under, data.whitening.noise_shares[-1], data.whitening.noise_box)
