"""Classes that are known: one Gaussian mixture for each, with scikit-learn's contract."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, Literal, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import DiscriminantAnalysisPredictionMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from apolar._core.arrays import Array
from apolar._core.checks import (
    CovarianceType,
    Criterion,
    PriorName,
    numeric_array,
    one_of,
    random_generator,
)
from apolar.classification.choice import ClassRows, choose_mixtures, log_joint
from apolar.data import open_rows
from apolar.data.chunks import as_counts
from apolar.data.sources import naming_text_columns
from apolar.em.whitening import check_scale
from apolar.estimator.inputs import unknown_rows
from apolar.mixture.prior import Prior
from apolar.moments.covariance import row_moments
from apolar.scores import CRITERIA
from apolar.selection import component_numbers

__all__ = ["MixtureClassifier"]


class MixtureClassifier(DiscriminantAnalysisPredictionMixin, ClassifierMixin, BaseEstimator):
    """A classifier that describes each class by a Gaussian mixture [hastie1996].

    A row goes to the class under which it is most probable, with the shares of the classes taken into
    account. By default, what describes the classes is chosen by the rows: parts of them are left out in turn,
    and what predicts their classes best is fitted to all rows. The simplest choice is one Gaussian for each
    class, between linear and quadratic discriminant analysis and naive Bayes, whichever predicts rows left
    out best; a mixture is chosen only where it predicts better by more than a standard
    error. A few rows are therefore enough. `message_` says what was chosen and why. Rows of unknown class, if
    there are any, take part in the Gaussians of the classes.

    Parameters that are given are not chosen. With one component and full covariances this is quadratic
    discriminant analysis, with "diag" Gaussian naive Bayes. With `shared=True` each class is one Gaussian,
    and the family says what their covariances have in common, as in mclust's EDDA: "tied" is linear
    discriminant analysis. With `shared=False` each class has a mixture of its own, and `criterion="bic"`
    chooses its number of components and family as mclust's `MclustDA` does.

    Parameters
    ----------
    n_components : int, iterable of int, or "auto", default="auto"
        For each class: a number, or several to choose from, of no more than it has rows; "auto": 1 to 5,
        with at least five rows, and more rows than columns, for each.
    covariance_type : str, iterable of str or None, default=None
        A family, or several to choose from. None: for mixtures of a class all of mclust's fourteen; where
        each class is one Gaussian, by the default criterion, between those of linear and quadratic
        discriminant analysis and naive Bayes.
    shared : bool or None, default=None
        Whether each class is one Gaussian, of covariances that share what the family says; `n_components` is
        then not used [bensmail1996]. False: each class has a mixture of its own, and "tied" is shared only
        within a class. None: what predicts better; False if `n_components` or another criterion is given.
        Where the classes have too few rows for a family, they share more, with a warning.
    criterion : {"brier_score", "bic", "aic", "icl", "evidence", "loo"}, default="brier_score"
        What is lowest for the choice. "brier_score": the mean squared error of the predicted probabilities of
        rows that are left out [brier1950]; of the mixtures of a class with up to one component, up to two and
        so on, those of the lowest BIC are compared by it. Others: how mixtures of a class are compared, see
        `apolar.select`; with `shared=True`, the BIC of all classes.
    class_prior : array_like, shape (n_classes,), or None, default=None
        The probabilities of the classes, in the order of `classes_`; None: their shares of the rows.
    prior : {"default", "conjugate"}, Prior or None, default=None
        The prior of the mixtures, as in `GaussianMixture`. None: maximum likelihood, as in mclust.
        With `shared=True` and "default", "full" covariances of the classes are shrunk towards a common one,
        and these, like "tied", towards its diagonal, with the strengths that predict rows left out best:
        between quadratic and linear discriminant analysis and naive Bayes [friedman1989], [ledoit2004].
    random_state : int, RandomState, Generator or None, default=None

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
    mixtures_ : tuple of GaussianMixture
        One for each class, of the columns that are not constant: others say nothing of the classes.
    class_prior_ : ndarray, shape (n_classes,)
    class_count_ : ndarray, shape (n_classes,)
        The sums of the weights of their rows.
    message_ : str
        What was chosen, and why.
    losses_ : dict of str to float
        The mean Brier score of rows left out, of each of several choices, with `criterion="brier_score"`.
    selections_ : tuple of Selection
        The mixtures of each class that were compared, if they were.
    covariance_type_ : str
        The family that was chosen, if each class is one Gaussian of covariances that share it.
    bics_ : dict of str to float
        The BIC of each family, with `shared` and another criterion; lower is better.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X has column names.

    Examples
    --------
    >>> import apolar
    >>> iris = apolar.datasets.load_iris()
    >>> classifier = apolar.MixtureClassifier(covariance_type="full", random_state=0)
    >>> classifier = classifier.fit(iris.data, iris.target)
    >>> classifier.score(iris.data, iris.target) > 0.97
    True
    >>> len(classifier.mixtures_)
    3
    """

    def __init__(
        self,
        n_components: int | Iterable[int] | Literal["auto"] = "auto",
        *,
        covariance_type: CovarianceType | str | Iterable[str] | None = None,
        shared: bool | None = None,
        criterion: Criterion | Literal["brier_score"] | str = "brier_score",
        class_prior: Any = None,
        prior: PriorName | Prior | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.shared = shared
        self.criterion = criterion
        self.class_prior = class_prior
        self.prior = prior
        self.random_state = random_state

    # The types of scikit-learn's methods, which has none.
    decision_function: Callable[[Any], Array]
    predict_proba: Callable[[Any], Array]
    predict_log_proba: Callable[[Any], Array]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the mixtures of all classes.

        Parameters
        ----------
        X : array_like or dataframe, shape (n_samples, n_features)
            NaN where a value is missing.
        y : array_like, shape (n_samples,)
            The classes; -1, NaN or None for rows of unknown class, which help to describe the classes. (-1 is
            a class where there is no other than 1, or one below -1, or a fraction.)
        sample_weight : array_like, shape (n_samples,), optional
            How many rows each row counts as.

        Returns
        -------
        self : MixtureClassifier
        """
        numbers, is_named = self.n_components, isinstance(self.n_components, str)
        if is_named and numbers != "auto":
            raise ValueError(f"n_components must be a number, several, or 'auto'; got {numbers!r}.")
        numbers = () if is_named else component_numbers(numbers)
        one_of(self.criterion, "criterion", ("brier_score", *CRITERIA))
        checks = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "ensure_min_samples": 2}
        is_unknown = unknown_rows(y)
        with naming_text_columns(X):
            if is_unknown is None:
                X, y = validate_data(self, X, y, **checks)
                is_unknown = np.zeros(len(X), dtype=bool)
            else:
                X, y = validate_data(self, X, **checks), np.asarray(y, dtype=object).ravel()
                check_consistent_length(X, y)
                if is_unknown.all():
                    raise ValueError(
                        "Input y contains NaN, None or -1 alone: the classes of some rows are needed."
                    )
        known = np.array(y[~is_unknown].tolist())
        check_classification_targets(known)
        weights = np.ones(len(X))
        if sample_weight is not None:
            checked = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            weights = as_counts(checked)
            if not np.any(weights > 0):
                raise ValueError("The weights of the rows are all zero.")
        # Rows of weight zero are left out, and so are classes that have no others.
        is_known = ~is_unknown & (weights > 0)
        is_other = is_unknown & (weights > 0) & ~np.isnan(X).any(axis=1)
        others, X, known = (X[is_other], weights[is_other]), X[is_known], known[(weights > 0)[~is_unknown]]
        weights = weights[is_known]
        self.classes_, codes = np.unique(known, return_inverse=True)
        self._varies = np.fmax.reduce(X, axis=0) > np.fmin.reduce(X, axis=0)
        if not np.any(self._varies):
            raise ValueError("All columns of X are constant: the classes cannot be told apart.")
        every = [np.concatenate(parts) for parts in zip((X, weights), others, strict=True)]
        moments = row_moments(open_rows(*every), allows_missing=True)
        check_scale(moments, getattr(self, "feature_names_in_", None), 0.0)
        seed = int(random_generator(self.random_state).integers(2**31))
        others = others[0][:, self._varies], others[1]
        rows = ClassRows(X[:, self._varies], codes, weights, self.classes_, seed, others)
        self.class_count_ = rows.counts
        self.class_prior_ = self._checked_prior()
        found, attributes = choose_mixtures(self, rows, numbers, self.class_prior_)
        for category, note in found.notes:
            warnings.warn(note, category, stacklevel=2)
        if found.covariance_type is not None:
            attributes["covariance_type_"] = found.covariance_type
        for name in ("losses_", "selections_", "covariance_type_", "bics_"):
            self.__dict__.pop(name, None)
        self.__dict__.update(attributes, mixtures_=found.mixtures)
        return self

    def _checked_prior(self) -> Array:
        """Return the probabilities of the classes."""
        if self.class_prior is None:
            return self.class_count_ / self.class_count_.sum()
        given = numeric_array(self.class_prior, "class_prior")
        n_classes = len(self.classes_)
        if given.shape != (n_classes,) or np.any(given < 0) or not np.isclose(given.sum(), 1):
            raise ValueError(
                f"class_prior must hold {n_classes} probabilities, one for each class, which add up to one."
            )
        return given / given.sum()

    def _decision_function(self, X: Any) -> Array:
        """Return the logarithms of class probability times density, shape (n_samples, n_classes)."""
        check_is_fitted(self)
        with naming_text_columns(X):
            X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        return log_joint(self.mixtures_, X[:, self._varies], self.class_prior_)

    def score_samples(self, X: Any) -> Array:
        """Return the log-density of each row, shape (n_samples,): low for rows unlike any class."""
        return np.asarray(logsumexp(self._decision_function(X), axis=1))
