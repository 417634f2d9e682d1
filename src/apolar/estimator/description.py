"""What a fitted mixture says of its components: how much they overlap."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from apolar.estimator.attributes import fitted_parameters
from apolar.estimator.overlap import Overlap, overlap
from apolar.mixture.families import family

__all__ = ["DescriptionMixin"]


class DescriptionMixin:
    """The methods of a fitted mixture that describe its components."""

    covariance_type: str

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
              3   1.7%  <0.1%
        <BLANKLINE>
        Share of the rows of the cluster of each line that the cluster of the column would get: clusters 1 ...
        """
        check_is_fitted(self)
        return overlap(family(self.covariance_type), fitted_parameters(self))
