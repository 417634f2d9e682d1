"""Gaussian mixtures from the moments of data, by decomposing symmetric tensors.

X -> moments -> (M1, M2, M3) -> decomposition -> Waring -> recovery -> mixture
-> EM -> mixture -> posterior -> labels -> report
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "ApolarWarning",
    "BayesianGaussianMixture",
    "GaussianMixture",
    "LongTailsWarning",
    "Mclust",
    "MixtureClassifier",
    "MixtureImputer",
    "MixtureStatus",
    "MomentMixture",
    "MomentSketch",
    "Moments",
    "Prior",
    "Selection",
    "SphericalMixture",
    "Status",
    "StudentMixture",
    "SymmetricTensor",
    "Waring",
    "__version__",
    "apolar_product",
    "citation",
    "datasets",
    "decompose",
    "decompose_jointly",
    "decomposition",
    "decompositions",
    "eigenvectors",
    "gad",
    "hankel",
    "interpolation_degree",
    "mclustBootstrapLRT",
    "mixture",
    "mixture_from_moments",
    "moments",
    "n_components_from_spectrum",
    "on_device",
    "plots",
    "recover",
    "refine",
    "report",
    "scores",
    "select",
    "select_from_moments",
    "show_versions",
    "spherical_moments",
    "tensor",
]

if TYPE_CHECKING:
    from apolar import datasets, decomposition, mixture, moments, plots, scores, tensor
    from apolar.citations import citation
    from apolar.classification import MixtureClassifier
    from apolar.data.device import on_device
    from apolar.decomposition import (
        Status,
        Waring,
        decompose,
        decompose_jointly,
        decompositions,
        eigenvectors,
        gad,
        interpolation_degree,
        refine,
    )
    from apolar.estimator import BayesianGaussianMixture, GaussianMixture, MixtureImputer, StudentMixture
    from apolar.exceptions import ApolarWarning, LongTailsWarning
    from apolar.mixture import MixtureStatus, Prior, SphericalMixture
    from apolar.moments import MomentSketch, n_components_from_spectrum
    from apolar.recovery import (
        MomentMixture,
        Moments,
        mixture_from_moments,
        recover,
        select_from_moments,
        spherical_moments,
    )
    from apolar.reports import report
    from apolar.selection import Selection, select
    from apolar.selection.mclust import Mclust, mclustBootstrapLRT
    from apolar.tensor import SymmetricTensor, apolar_product, hankel
    from apolar.versions import show_versions

# Where each public name lives, except modules. They are imported on first use, so that the command line
# starts at once.
_HOMES = {
    "apolar.data.device": ("on_device",),
    "apolar.tensor": ("SymmetricTensor", "apolar_product", "hankel"),
    "apolar.decomposition": (
        "Status",
        "Waring",
        "decompose",
        "decompose_jointly",
        "decompositions",
        "eigenvectors",
        "gad",
        "interpolation_degree",
        "refine",
    ),
    "apolar.mixture": ("MixtureStatus", "Prior", "SphericalMixture"),
    "apolar.moments": ("MomentSketch", "n_components_from_spectrum"),
    "apolar.recovery": (
        "MomentMixture",
        "Moments",
        "mixture_from_moments",
        "recover",
        "select_from_moments",
        "spherical_moments",
    ),
    "apolar.estimator": ("BayesianGaussianMixture", "GaussianMixture", "MixtureImputer", "StudentMixture"),
    "apolar.exceptions": ("ApolarWarning", "LongTailsWarning"),
    "apolar.selection": ("Selection", "select"),
    "apolar.selection.mclust": ("Mclust", "mclustBootstrapLRT"),
    "apolar.classification": ("MixtureClassifier",),
    "apolar.reports": ("report",),
    "apolar.citations": ("citation",),
    "apolar.versions": ("show_versions",),
}


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is not None:
        value = getattr(import_module(home), name)
    elif name in __all__ or f"apolar.{name}" in _HOMES:
        value = import_module(f"apolar.{name}")
    else:
        raise AttributeError(f"module 'apolar' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
