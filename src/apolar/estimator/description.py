"""What a fitted mixture says of its components: in words, how much they overlap, which make up a cluster."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from apolar.estimator.attributes import fitted_parameters
from apolar.estimator.combine import Combination, combine
from apolar.estimator.fit import n_threads_of
from apolar.estimator.inputs import opened
from apolar.estimator.overlap import Overlap, overlap
from apolar.estimator.predict import predictor_of
from apolar.estimator.summary import Summary, summary_of
from apolar.mixture.families import family

__all__ = ["DescriptionMixin"]


class DescriptionMixin:
    """The methods of a fitted mixture that describe its components."""

    covariance_type: str

    def summary(self, X: Any = None, sample_weight: Any = None) -> Summary:
        """Return the fitted mixture in words: what was found, a table of clusters, and how the fit went.

        Parameters
        ----------
        X : rows that can be read again, shape (n_samples, n_features), optional
            Adds the number of rows of each cluster, and the BIC on them.
        sample_weight : array_like, shape (n_samples,), optional
            For the BIC.

        Returns
        -------
        summary : str
            In notebooks it is shown as a table. Clusters are counted from 1; beside each mean is the
            deviation of the column in the cluster.

        Examples
        --------
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
        >>> print(gm.summary())
        150 rows fall into 3 clusters, stretched in any direction, each in its own way.
        <BLANKLINE>
        cluster  weight           x0           x1           x2           x3
              1   0.36...
        """
        check_is_fitted(self)
        return summary_of(self, X, sample_weight)

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's diagram of the estimator, and below it the summary of a fitted one."""
        return str(super()._repr_html_inner()) + self._summary_html()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return what notebooks show: the same."""
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in shown:
            shown["text/html"] += self._summary_html()
        return shown

    def _summary_html(self) -> str:
        if not hasattr(self, "weights_"):
            return ""
        try:
            return summary_of(self, None, None)._repr_html_()
        except (ValueError, AttributeError):
            # A mixture that is not what its parameters say, such as one whose covariance_type was changed.
            return ""

    def overlap(self) -> Overlap:
        """Return how much the components overlap, pair by pair, exactly.

        Returns
        -------
        overlap : Overlap
            With the probabilities of misclassification of [maitra2010], `misclassification`, and the
            coefficients of [bhattacharyya1943], `bhattacharyya`; `pair()` returns the two components that
            overlap most. A noise component is left out.

        Examples
        --------
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
        >>> print(gm.overlap())
        cluster      1      2      3
              1         <0.1%   2.2%
              2  <0.1%         <0.1%
              3   1.6%  <0.1%
        <BLANKLINE>
        Share of the rows of the cluster of each line that the cluster of the column would get: clusters 1 ...
        """
        check_is_fitted(self)
        return overlap(family(self.covariance_type), fitted_parameters(self))

    def combine(self, X: Any, n_clusters: int | None = None) -> Combination:
        """Return the components combined into clusters, by the entropy of the clustering [baudry2010].

        The number of Gaussians that describe the density well can be larger than the number of clusters: one
        that is not Gaussian takes several. Step by step, the two are combined that leave the least doubt
        about which cluster a row is in, as in mclust's `clustCombi`. The mixture stays what it is.

        Parameters
        ----------
        X : rows of any source, shape (n_samples, n_features)
            Read once.
        n_clusters : int, optional
            By default where the entropy, against the number of clusters, begins to rise fast: where two
            lines that meet in it fit best, as in mclust's `clustCombiOptim`. It is a rule of thumb, for three
            components or more: look at the table.

        Returns
        -------
        combination : Combination
            With `predict`, `predict_proba`, the `groups` of components, all `merges` and `entropies`.

        Examples
        --------
        >>> import apolar
        >>> iris = apolar.datasets.load_iris()
        >>> gm = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
        >>> print(gm.combine(iris.data))
        3 components combine into 2 clusters: 1+3, 2.
        <BLANKLINE>
        clusters  entropy  combined
               3     4.79
               2        0  1 with 3  <-
               1        0  1+3 with 2
        """
        check_is_fitted(self)
        rows = opened(self, X, reset=False, once=True)
        return combine(self, predictor_of(self), rows, n_threads_of(self), n_clusters)
