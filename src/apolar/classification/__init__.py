"""Classes that are known: one Gaussian mixture for each."""

from apolar.classification.mixture_classifier import MixtureClassifier

__all__ = ["MixtureClassifier"]
