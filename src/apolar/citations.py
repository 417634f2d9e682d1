"""What to cite: the BibTeX of the methods that a result used."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

from sklearn.utils.validation import check_is_fitted

from apolar.decomposition import Waring
from apolar.estimator import BayesianGaussianMixture, GaussianMixture, MixtureImputer
from apolar.estimator.inputs import check_parameters
from apolar.mixture import SphericalMixture
from apolar.selection import Selection

APOLAR_PAPER = "khouja2022moments"
# By parts of the name of the start that won.
_STARTS = {
    "moments": ("hsu2013", "cardoso1996", "hansen1982"),
    "overseed": ("arthur2007", "runnalls2007"),
    "split": ("runnalls2007",),
    "kmeans": ("arthur2007",),
    "k-means++": ("arthur2007",),
    "mbhc": ("fraley1998",),
    "emem": ("biernacki2003",),
}
# By whether rows left out decide how strongly the prior shrinks, as with the default prior.
_PRIORS = {
    True: ("greene1989", "friedman1989", "hoffbeck1996", "stone1974", "bozdogan1994"),
    False: ("fraley2007",),
}
NOISE_KEYS = ["banfield1993", "byers1998"]
_METHODS = {
    "pencil": ("khouja2022diagonalisation",),
    "spm": ("kileel2019",),
    "projection": ("sherman2020", "halko2011"),
    "rows": ("sherman2020",),
}
_CONSTRAINTS = {"orthogonal": ("chen2009", "cardoso1996")}
_CRITERIA = {
    "bic": ("schwarz1978", "kass1995"),
    "icl": ("biernacki2000",),
    "evidence": ("kass1995", "corduneanu2001"),
    "loo": ("stone1974", "rad2020"),
}


def citation(*results: Any) -> str:
    """Return the BibTeX of the paper behind apolar, and of the methods that some results used.

    Parameters
    ----------
    *results : GaussianMixture, MixtureImputer, Selection, SphericalMixture or Waring
        What apolar returned.

    Returns
    -------
    bibtex : str

    Examples
    --------
    >>> import apolar
    >>> print(apolar.citation(apolar.decompose("x^3 + y^3")).splitlines()[0])
    @article{khouja2022moments,
    """
    keys = dict.fromkeys([APOLAR_PAPER, *(key for result in results for key in _keys(result))])
    entries = _entries()
    return "\n".join(entries[key] for key in keys)


def _keys(result: Any) -> list[str]:
    """Return what a result used, by the keys of the bibliography."""
    if isinstance(result, Selection):
        return [*_CRITERIA.get(result.criterion, ()), *_keys(result.best)]
    if isinstance(result, MixtureImputer):
        check_is_fitted(result)
        return ["ghahramani1994", *_keys(result.mixture_)]
    if isinstance(result, GaussianMixture):
        check_is_fitted(result)
        keys = [key for name, cited in _STARTS.items() if name in result.start_ for key in cited]
        if isinstance(result, BayesianGaussianMixture):
            return [*keys, "attias2000", "blei2006"]
        keys += NOISE_KEYS if result.noise_box_ is not None else []
        # There is none with `reg_covar` in its place.
        family, prior = check_parameters(result)
        shape = int(result.n_components), result.n_features_in_
        if family.has_factors:
            keys += ["ghahramani1996", "tipping1999", "mcnicholas2008"]
        elif prior is not None:
            keys += _PRIORS[prior.shrinks(family, *shape)]
        return [*keys, "nocedal2006"]
    if isinstance(result, SphericalMixture):
        start = {"spherical": ["hsu2013"], "diag": ["anderson1956"]}.get(result.covariance_type, [])
        return [*start, "cardoso1996", "hansen1982"]
    if isinstance(result, Waring):
        if result.constraint is not None:
            return list(_CONSTRAINTS.get(result.constraint, ()))
        keys = [key for name, cited in _METHODS.items() if name in result.method for key in cited]
        return [*keys, *(["khouja2022riemannian"] if result.n_iter else [])]
    raise TypeError(
        f"citation takes mixtures, selections and decompositions of apolar, not {type(result).__name__}."
    )


def _entries() -> dict[str, str]:
    text = resources.files("apolar").joinpath("refs.bib").read_text(encoding="utf-8")
    return {
        match[1]: match[0].strip()
        for match in re.finditer(r"^@\w+\{(\w+),.*?^\}", text, flags=re.MULTILINE | re.DOTALL)
    }
