"""A user's script, which checkers of types accept in their strict modes."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import apolar


def clusters(rows: NDArray[np.float64]) -> NDArray[Any]:
    """Return labels, by way of most of what a fitted mixture gives."""
    model = apolar.GaussianMixture(3, covariance_type="full", init_params="kmeans", prior="conjugate")
    fitted = model.fit(rows)
    assert_type(fitted, apolar.GaussianMixture)
    assert_type(fitted.partial_fit(rows), apolar.GaussianMixture)
    assert_type(fitted.marginal([0]), apolar.GaussianMixture)
    bic: float = fitted.bic(rows)
    summary: str = fitted.summary(rows)
    pair: tuple[int, int] | None = fitted.overlap().pair()
    groups: tuple[tuple[int, ...], ...] = fitted.combine(rows, n_clusters=2).groups
    expected: NDArray[Any] = fitted.regress([0], rows[:, :1]).mean
    print(bic, summary, pair, groups, expected, fitted.weights_.sum())
    probabilities: NDArray[Any] = fitted.predict_proba(rows)
    densities: NDArray[Any] = fitted.score_samples(rows)
    print(probabilities, densities)
    return fitted.predict(rows)


def chosen(rows: NDArray[np.float64]) -> apolar.GaussianMixture:
    """Return the best of several."""
    selection = apolar.select(rows, range(1, 4), ("full", "tied"), "bic")
    assert_type(selection, apolar.Selection)
    reason: str = selection.reason
    print(reason, selection.best_row.bic)
    return selection.best


def classified(rows: NDArray[np.float64], classes: NDArray[np.int64]) -> NDArray[Any]:
    """Return the probabilities of classes."""
    classifier = apolar.MixtureClassifier("auto", covariance_type="full", criterion="bic")
    assert_type(classifier.fit(rows, classes), apolar.MixtureClassifier)
    return classifier.predict_proba(rows)


def decomposed() -> list[float]:
    """Return the weights of a decomposition."""
    form = apolar.SymmetricTensor.from_polynomial({(3, 0): 1.0, (1, 2): -3.0})
    terms = apolar.decompose(form, method="auto", field="real", random_state=0)
    assert_type(terms, apolar.Waring)
    return [float(weight) for weight in terms.weights]


def refused(rows: NDArray[np.float64]) -> None:
    """Do what checkers refuse: if types were lost, these remarks would be unused, which is an error too."""
    apolar.GaussianMixture("three")  # type: ignore[arg-type]
    apolar.GaussianMixture(prior="none")  # type: ignore[arg-type]
    labels: int = apolar.GaussianMixture().predict(rows)  # type: ignore[assignment]
    print(labels)
