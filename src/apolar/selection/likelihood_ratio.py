"""Whether one more component is needed: the likelihood ratio, beside those of resamples [mclachlan1987]."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_fraction, check_integer, random_generator
from apolar._core.display import Displayed, TableCells, figures
from apolar.estimator import GaussianMixture

__all__ = ["BootstrapTest", "bootstrap_lrt"]


@dataclass(frozen=True, eq=False)
class BootstrapTest(Displayed):
    """Tests of each number of components against one more, by resamples of the mixture with fewer.

    Attributes
    ----------
    n_components : int
        The first number that one more does not improve on significantly, or the most that was tested.
    statistics : ndarray, shape (n_tests,)
        Twice the gain in log-likelihood of 2, 3, ... components over one less.
    resamples : ndarray, shape (n_tests, n_resamples)
        The same of rows that are drawn from the mixture with one component less.
    """

    n_components: int
    statistics: Array
    resamples: Array

    @property
    def p_values(self) -> Array:
        """The shares of resamples that gain at least as much, of which the rows count as one."""
        n_above = np.count_nonzero(self.resamples >= self.statistics[:, None], axis=1)
        return (n_above + 1) / (self.resamples.shape[1] + 1)

    def _display(self) -> tuple[str, TableCells]:
        pairs = enumerate(zip(self.statistics, self.p_values, strict=True), start=1)
        lines = [[f"{k}", f"{k + 1}", figures(float(s)), figures(float(p), 2)] for k, (s, p) in pairs]
        title = f"{self.n_components} components, by {self.resamples.shape[1]} resamples in each test."
        return title, (["components", "against", "2 log ratio", "p"], lines)


def bootstrap_lrt(
    X: Any,
    covariance_type: str = "full",
    *,
    max_components: int = 9,
    n_resamples: int = 199,
    level: float = 0.05,
    random_state: Any = None,
    **parameters: Any,
) -> BootstrapTest:
    """Test 1 component against 2, 2 against 3 and so on, as mclust's `mclustBootstrapLRT` [mclachlan1987].

    The likelihood ratio of two numbers of components has no known law. So rows are drawn from the mixture
    with fewer components, again and again, and both are fitted to them. The answer is the first number that
    one more does not improve on significantly. It is one of components, not of clusters: a cluster that is
    not Gaussian takes several.

    Parameters
    ----------
    X : array_like, shape (n_samples, n_features)
    covariance_type : str, default="full"
    max_components : int, default=9
        The last test is of one component less against this number.
    n_resamples : int, default=199
        In each test; both mixtures are fitted to each resample, by maximum likelihood.
    level : float, default=0.05
        Tests end where the p-value is above it.
    random_state : int, RandomState, Generator or None, default=None
    **parameters
        Others of `GaussianMixture`.

    Returns
    -------
    tests : BootstrapTest

    Examples
    --------
    >>> import apolar
    >>> X, _ = apolar.datasets.make_example(1, n_samples=200, random_state=0)
    >>> tests = apolar.bootstrap_lrt(X, "spherical", max_components=3, n_resamples=19, random_state=0)
    >>> tests.p_values
    array([0.05, 0.05])
    """
    check_integer(max_components, "max_components", least=2)
    check_integer(n_resamples, "n_resamples", least=1)
    level, rng = check_fraction(level, "level"), random_generator(random_state)
    settings = {"prior": None, **parameters, "covariance_type": covariance_type}

    def fit(rows: Any, n_components: int) -> GaussianMixture:
        model = GaussianMixture(n_components, **settings, random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(rows)

    def gain(rows: Any, fewer: GaussianMixture, more: GaussianMixture) -> float:
        return 2 * len(rows) * (more.lower_bound_ - fewer.lower_bound_)

    statistics, resamples, fewer = [], [], fit(X, 1)
    for n_components in range(2, max_components + 1):
        more, gains = fit(X, n_components), []
        statistics.append(gain(X, fewer, more))
        for _ in range(n_resamples):
            rows = fewer.set_params(random_state=int(rng.integers(2**31))).sample(len(X))[0]
            gains.append(gain(rows, fit(rows, n_components - 1), fit(rows, n_components)))
        resamples.append(gains)
        tests = BootstrapTest(n_components - 1, np.array(statistics), np.array(resamples))
        if tests.p_values[-1] > level:
            return tests
        fewer = more
    return BootstrapTest(max_components, tests.statistics, tests.resamples)
