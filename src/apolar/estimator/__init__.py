"""The estimator with scikit-learn's contract: fitting, prediction, streams, files and standard errors."""

from apolar.estimator.bayesian_mixture import BayesianGaussianMixture
from apolar.estimator.gaussian_mixture import GaussianMixture
from apolar.estimator.imputer import MixtureImputer
from apolar.estimator.student_mixture import StudentMixture

__all__ = ["BayesianGaussianMixture", "GaussianMixture", "MixtureImputer", "StudentMixture"]
