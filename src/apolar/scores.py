"""Scores of clusterings, and criteria to choose a model by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from apolar._core.arrays import Array
from apolar._core.checks import check_integer

__all__ = [
    "CRITERIA",
    "FitSummary",
    "adjusted_rand_index",
    "confusion",
    "criterion_title",
    "error_rate",
    "lower_is_better_aic",
    "lower_is_better_bic",
    "lower_is_better_icl",
    "majority_error_rate",
    "mclust_bic",
]


def confusion(true: Any, predicted: Any) -> Array:
    """Return how many rows have each pair of labels.

    Parameters
    ----------
    true, predicted : array_like, shape (n_samples,)
        Labels of any kind: numbers, strings.

    Returns
    -------
    counts : ndarray of int, shape (n_true, n_predicted)
        Labels in sorted order.
    """
    first, second = np.asarray(true), np.asarray(predicted)
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(
            f"Labels must be two lists of the same length; got shapes {first.shape} and {second.shape}."
        )
    if len(first) == 0:
        raise ValueError("There are no labels to compare.")
    from sklearn.metrics.cluster import contingency_matrix

    return contingency_matrix(first, second)


def error_rate(true: Any, predicted: Any) -> float:
    """Return the fraction of rows that are wrong under the best matching of labels.

    Parameters
    ----------
    true, predicted : array_like, shape (n_samples,)
        Labels; the numbers of clusters may differ.

    Returns
    -------
    rate : float

    Examples
    --------
    >>> from apolar.scores import error_rate
    >>> error_rate(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.25
    """
    counts = confusion(true, predicted)
    rows, columns = linear_sum_assignment(-counts)
    return float(1 - counts[rows, columns].sum() / counts.sum())


def match_labels(counts: Array) -> Array:
    """Return the column that matches each row of a table of counts best, one to one.

    Parameters
    ----------
    counts : ndarray of int, shape (n_first, n_second)
        How often two labels occur together, as `confusion` returns it.

    Returns
    -------
    matched : ndarray of int, shape (n_first,)
        -1 where none is left that has anything in common.
    """
    rows, columns = linear_sum_assignment(-counts)
    common = counts[rows, columns] > 0
    matched = np.full(len(counts), -1)
    matched[rows[common]] = columns[common]
    return matched


def majority_error_rate(true: Any, predicted: Any) -> float:
    """Return the error rate that [khouja2022moments] prints, where several clusters may share a class.

    Each cluster takes its commonest class, and each class its commonest cluster; of the two fractions of rows
    that are wrong, the larger. It is never above `error_rate`, whose matching is one to one.

    Parameters
    ----------
    true, predicted : array_like, shape (n_samples,)

    Returns
    -------
    rate : float

    Examples
    --------
    >>> from apolar.scores import error_rate, majority_error_rate
    >>> true, predicted = ["a", "a", "b", "b", "c"], [0, 1, 2, 2, 2]
    >>> majority_error_rate(true, predicted), error_rate(true, predicted)
    (0.2, 0.4)
    """
    counts = confusion(true, predicted)
    agreed = min(counts.max(axis=0).sum(), counts.max(axis=1).sum())
    return float((counts.sum() - agreed) / counts.sum())


def adjusted_rand_index(true: Any, predicted: Any) -> float:
    """Return the adjusted Rand index [hubert1985]: 1 for equal partitions, about 0 for unrelated ones.

    Parameters
    ----------
    true, predicted : array_like, shape (n_samples,)

    Returns
    -------
    index : float
    """
    # A fit compares its optima by this: scikit-learn's takes four times as long, for checks of its own.
    counts = confusion(true, predicted).astype(float)
    pairs, of_first, of_second, n_pairs = (
        float((sums * (sums - 1)).sum()) for sums in (counts, counts.sum(1), counts.sum(0), counts.sum())
    )
    expected = of_first * of_second / n_pairs if n_pairs else 0.0
    largest = 0.5 * (of_first + of_second)
    return 1.0 if largest == expected else (pairs - expected) / (largest - expected)


def mclust_bic(log_likelihood: float, n_parameters: int, n_samples: float) -> float:
    """Return 2 l - p log n, as mclust writes the BIC: larger is better.

    Parameters
    ----------
    log_likelihood : float
        The sum over all rows.
    n_parameters : int
    n_samples : float

    Returns
    -------
    bic : float
    """
    return -lower_is_better_bic(log_likelihood, n_parameters, n_samples)


def lower_is_better_bic(log_likelihood: float, n_parameters: int, n_samples: float) -> float:
    """Return p log n - 2 l, as scikit-learn writes the BIC [schwarz1978]: lower is better."""
    n_parameters = check_integer(n_parameters, "n_parameters", least=0)
    if not n_samples > 0:
        raise ValueError(f"n_samples must be above zero, not {n_samples}.")
    return float(n_parameters * np.log(n_samples) - 2 * log_likelihood)


def lower_is_better_aic(log_likelihood: float, n_parameters: int) -> float:
    """Return 2 p - 2 l, Akaike's criterion: lower is better."""
    return float(2 * check_integer(n_parameters, "n_parameters", least=0) - 2 * log_likelihood)


def lower_is_better_icl(bic: float, posteriors: Any, sample_weight: Any = None) -> float:
    """Return the integrated completed likelihood [biernacki2000], from a BIC where lower is better.

    The BIC plus twice the uncertainty of the labels, which is -log of the largest posterior, summed over the
    rows: components that overlap make it worse.

    Parameters
    ----------
    bic : float
        Lower is better.
    posteriors : array_like, shape (n_samples, n_components)
    sample_weight : array_like, shape (n_samples,), optional

    Returns
    -------
    icl : float
    """
    certainties = np.log(np.max(np.asarray(posteriors), axis=1))
    log_certainty = certainties.sum() if sample_weight is None else np.asarray(sample_weight) @ certainties
    return float(bic - 2 * log_certainty)


@dataclass(frozen=True)
class FitSummary:
    """What criteria are computed from.

    Attributes
    ----------
    log_likelihood : float
        The sum over all rows.
    n_parameters : int
    n_samples : float
        The sum of the weights of the rows.
    log_certainty : float
        The sum over the rows, weighted, of the log of the largest posterior.
    log_evidence : float, default=nan
        The `evidence_` of a fitted mixture; of other rows than those of the fit it is not known.
    log_left_out : float, default=nan
        The `loo_` of a fitted mixture; likewise.
    """

    log_likelihood: float
    n_parameters: int
    n_samples: float
    log_certainty: float
    log_evidence: float = np.nan
    log_left_out: float = np.nan

    @property
    def criteria(self) -> dict[str, float]:
        """The values of all `CRITERIA`."""
        return {name: criterion(self) for name, criterion in CRITERIA.items()}


CRITERIA: dict[str, Callable[[FitSummary], float]] = {
    "bic": lambda fit: lower_is_better_bic(fit.log_likelihood, fit.n_parameters, fit.n_samples),
    "aic": lambda fit: lower_is_better_aic(fit.log_likelihood, fit.n_parameters),
    "icl": lambda fit: CRITERIA["bic"](fit) - 2 * fit.log_certainty,
    # On the scale of the BIC.
    "evidence": lambda fit: -2 * fit.log_evidence,
    "loo": lambda fit: -2 * fit.log_left_out,
}
"""By name, functions of a FitSummary: lower is better."""
CHOICES = (*CRITERIA, "clusters")
"""What `select` can choose by: "clusters" combines the components of the lowest BIC."""


def criterion_title(name: str) -> str:
    """Return a criterion of `CRITERIA` as tables, sentences and pictures call its values."""
    titles = {"evidence": "-2 log evidence", "loo": "-2 LOO"}
    return titles.get(name, name.upper())
