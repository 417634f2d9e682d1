"""`Mclust`: a selection, with the words of mclust."""

from __future__ import annotations

import math
import re
import textwrap
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from types import SimpleNamespace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import check_fraction, check_integer, random_generator
from apolar._core.display import text_table
from apolar.estimator.summary import Summary
from apolar.exceptions import ApolarWarning
from apolar.mixture.families import UNIVARIATE, family
from apolar.selection import Selection, select

__all__ = ["BootstrapLRT", "Mclust", "mclustBootstrapLRT"]

# What R calls the families; those of one component have no other to be equal to.
WORDS = {
    "E": "univariate, equal variance",
    "V": "univariate, unequal variance",
    "EII": "spherical, equal volume",
    "VII": "spherical, varying volume",
    "EEI": "diagonal, equal volume and shape",
    "VEI": "diagonal, equal shape",
    "EVI": "diagonal, equal volume, varying shape",
    "VVI": "diagonal, varying volume and shape",
    "EEE": "ellipsoidal, equal volume, shape and orientation",
    "VEE": "ellipsoidal, equal shape and orientation",
    "EVE": "ellipsoidal, equal volume and orientation",
    "VVE": "ellipsoidal, equal orientation",
    "EEV": "ellipsoidal, equal volume and shape",
    "VEV": "ellipsoidal, equal shape",
    "EVV": "ellipsoidal, equal volume",
    "VVV": "ellipsoidal, varying volume, shape, and orientation",
    "X": "univariate normal",
    "XII": "spherical multivariate normal",
    "XXI": "diagonal multivariate normal",
    "XXX": "ellipsoidal multivariate normal",
}
# R wraps at nine tenths of its 80 columns.
R_WIDTH = 71


class Mclust:
    """The mixture with the best BIC, of some numbers of components and families, in mclust's words.

    A thin form of `apolar.select`, whose result is `selection`: names, signs and shapes are those of R, so
    that a script can be carried over line by line.

    Parameters
    ----------
    X : array_like, dataframe, AnnData, or another source of rows
        Of shape (n_samples, n_features).
    G : int or iterable of int, default=range(1, 10)
        Numbers of components.
    modelNames : str or iterable of str, optional
        By default all fourteen, or "E" and "V" for one column.
    use_rep : str, optional
        For AnnData: the entry of `obsm` that holds the rows, such as "X_pca"; by default `X` itself.
    random_state : int, RandomState, Generator or None, default=None
    **parameters
        Of `apolar.select`, such as `prior`, `noise`, `n_jobs`.

    Attributes
    ----------
    modelName : str
        "XXX", "XXI", "XII" or "X" of one component.
    G, n, d, df : int
        The numbers of components, rows, columns and parameters.
    loglik, bic, icl : float
        A larger `bic` is better, as in mclust.
    BIC : dict
        The BIC of all candidates by code, such as "VVV", and G; NaN for those that were not
        fitted because they could not be the best.
    classification : ndarray of int, shape (n,)
        From 1; 0 is noise.
    z : ndarray, shape (n, G), or (n, G + 1) with noise
    uncertainty : ndarray, shape (n,)
    parameters : namespace
        `pro`, shape (G,), with noise followed by its weight; `mean`, shape (d, G); `variance` with
        `modelName`, `d`, `G` and `sigma`, shape (d, d, G). For one column `mean` and `variance.sigmasq` have
        shape (G,).
    mixture : GaussianMixture
        With all that apolar has.
    selection : Selection

    Examples
    --------
    >>> import apolar
    >>> X = apolar.datasets.load_diabetes().data
    >>> fit = apolar.Mclust(X, random_state=0)
    >>> fit.modelName, fit.G, round(fit.bic, 1)
    ('VVV', 3, -4751.3)
    >>> fit.summary()
    ----------------------------------------------------
    Gaussian finite mixture model fitted by EM algorithm
    ----------------------------------------------------
    <BLANKLINE>
    Mclust VVV (ellipsoidal, varying volume, shape, and orientation) model
    with 3 components:
    <BLANKLINE>
     log-likelihood   n df       BIC       ICL
          -2303.49... 145 29 -4751.3... -4770...
    <BLANKLINE>
    Clustering table:
     1  2  3
    81 36 28
    """

    def __init__(
        self,
        X: Any,
        G: int | Iterable[int] | None = None,
        modelNames: str | Iterable[str] | None = None,
        *,
        use_rep: str | None = None,
        random_state: Any = None,
        **parameters: Any,
    ) -> None:
        if use_rep is not None and not hasattr(X, "obsm"):
            raise TypeError(f"use_rep is for AnnData, and X is of type {type(X).__name__}: leave it out.")
        self._use_rep = use_rep
        rows, numbers = self._rows(X), range(1, 10) if G is None else G
        self.selection = select(rows, numbers, modelNames, random_state=random_state, **parameters)
        self.mixture = model = self.selection.best
        self.G, self.d = model.means_.shape
        code = _code(model.covariance_type)
        # Of one component there is nothing to be equal to.
        self.modelName = code if self.G > 1 else re.sub("[EV]", "X", code)
        row, table = self.selection.best_row, self.selection.table
        self.loglik, self.df, self.n = row.log_likelihood, row.n_parameters, row.n_samples
        self.bic, self.icl = -row.bic, -row.icl
        self.BIC = {(_code(each.covariance_type), each.n_components): -each.bic for each in table}
        known = self.predict(X)
        self.classification, self.z = known.classification, known.z
        self.uncertainty = 1 - self.z.max(axis=1)
        variance = SimpleNamespace(modelName=self.modelName, d=self.d, G=self.G)
        kind = family(model.covariance_type)
        sigma = np.moveaxis(kind.matrices(np.asarray(model.covariances_), self.G, self.d), 0, -1)
        mean = model.means_.T
        if self.d == 1:
            mean, variance.sigmasq = mean[0], sigma[0, 0]
        else:
            variance.sigma = sigma
        pro = np.append(model.weights_, [model.noise_weight_] * (model.noise_box_ is not None))
        self.parameters = SimpleNamespace(pro=pro, mean=mean, variance=variance)

    def _rows(self, X: Any) -> Any:
        """Return the rows, those of AnnData from the place that was asked for."""
        if not hasattr(X, "obsm"):
            return X
        if self._use_rep is None:
            return X.X
        if self._use_rep not in X.obsm:
            raise ValueError(
                f"X has no obsm[{self._use_rep!r}]; it has {', '.join(map(repr, X.obsm)) or 'none'}."
            )
        return X.obsm[self._use_rep]

    def predict(self, X: Any) -> SimpleNamespace:
        """Return `classification` and `z` of rows, as R's `predict`."""
        rows, model = self._rows(X), self.mixture
        z = np.asarray(model.predict_proba(rows))
        if model.noise_box_ is not None:
            z = np.column_stack([z, 1 - z.sum(axis=1)])
        return SimpleNamespace(classification=np.asarray(model.predict(rows)) + 1, z=z)

    def summary(self, *, parameters: bool = False) -> Summary:
        """Return what R's `summary` prints, with `parameters` also proportions, means and covariances."""
        title, plural = "Gaussian finite mixture model fitted by EM algorithm", "s" * (self.G > 1)
        what = f"Mclust {self.modelName} ({WORDS[self.modelName]}) model with {self.G} component{plural}"
        if self.mixture.noise_box_ is not None:
            what += " and a noise term"
        fit = {
            "log-likelihood": _figures(self.loglik),
            "n": _figures(self.n),
            "df": str(self.df),
            "BIC": _figures(self.bic),
            "ICL": _figures(self.icl),
        }
        labels = [*range(1, self.G + 1), *([0] if self.mixture.noise_box_ is not None else [])]
        clusters = {str(label): str(np.sum(self.classification == label)) for label in labels}
        width = max(map(len, [*clusters, *clusters.values()]))
        table = [" ".join(cell.rjust(width) for cell in line) for line in (clusters, clusters.values())]
        rule = "-" * len(title)
        widths = [max(map(len, pair)) for pair in fit.items()]
        of_fit = [
            "".join(f" {cell:>{n}}" for cell, n in zip(line, widths, strict=True))
            for line in zip(*fit.items(), strict=True)
        ]
        model = textwrap.wrap(f"{what}:", R_WIDTH)
        lines = [rule, title, rule, "", *model, "", *of_fit, "", "Clustering table:", *table]
        lines += self._parameter_lines() if parameters else []
        text = "\n".join(lines)
        return Summary(text, f"<pre>{escape(text)}</pre>")

    def _parameter_lines(self) -> list[str]:
        """Return proportions, means and covariances."""
        known, numbers = self.parameters, [str(k + 1) for k in range(self.G)]
        given = getattr(self.mixture, "feature_names_in_", [f"V{j + 1}" for j in range(self.d)])
        names = [str(name) for name in given]
        labels = [*numbers, *(["0"] if len(known.pro) > self.G else [])]
        lines = ["", "Mixing probabilities:", *text_table(labels, [list(map(_figures, known.pro))])]
        if self.d == 1:
            for title, values in (("Means:", known.mean), ("Variances:", known.variance.sigmasq)):
                lines += ["", title, *text_table(numbers, [list(map(_figures, values))])]
            return lines
        lines += ["", "Means:", *_matrix_lines(numbers, names, known.mean), "", "Variances:"]
        for k in range(self.G):
            lines += [f"[,,{k + 1}]", *_matrix_lines(names, names, known.variance.sigma[..., k])]
        return lines

    def __repr__(self) -> str:
        return f"'Mclust' model object: ({self.modelName},{self.G})"


@dataclass(frozen=True, eq=False, repr=False)
class BootstrapLRT:
    """The result of `mclustBootstrapLRT`; entry i is of i + 1 components against i + 2.

    Attributes
    ----------
    modelName : str
    obs : ndarray
        The statistics: twice the gain in log-likelihood by one more component.
    p_value : ndarray
    boot : list of ndarray
        The statistics of the tables drawn, NaN where one has no maximum of the likelihood.
    G : int
        The first number of components against which one more is no better.
    """

    modelName: str  # noqa: N815
    obs: Array
    p_value: Array
    boot: list[Array]
    G: int

    def __repr__(self) -> str:
        pairs = [f"{g} vs {g + 1}" for g in range(1, len(self.obs) + 1)]
        cells = zip(pairs, map(_figures, self.obs), [f"{p:.3g}" for p in self.p_value], strict=True)
        head = f"Bootstrap sequential LRT for the number of mixture components ({self.modelName})"
        return "\n".join(
            [head, "", *text_table(["", "LRTS", "bootstrap p-value"], [list(line) for line in cells])]
        )


def mclustBootstrapLRT(  # noqa: N802
    X: Any,
    modelName: str,
    nboot: int = 999,
    level: float = 0.05,
    maxG: int = 9,
    *,
    random_state: Any = None,
    **parameters: Any,
) -> BootstrapLRT:
    """Test one component against two, two against three and so on, until one more is no better.

    The statistic is compared with those of tables of the same size, drawn from the fit with fewer components:
    its distribution is not known [mclachlan1987].

    Parameters
    ----------
    X : array_like or dataframe, shape (n_samples, n_features)
    modelName : str
        The family.
    nboot : int, default=999
        The number of tables drawn for each test.
    level : float, default=0.05
        The p-value above which one more component is no better.
    maxG : int, default=9
        The most components that are tested against one more.
    random_state : int, RandomState, Generator or None, default=None
    **parameters
        Of `apolar.select`.

    Returns
    -------
    test : BootstrapLRT

    Examples
    --------
    >>> import apolar
    >>> X, _ = apolar.datasets.make_example(2, 200, random_state=0)
    >>> test = apolar.mclustBootstrapLRT(X, "VII", nboot=19, random_state=0)
    >>> test.G
    3
    """
    check_integer(nboot, "nboot", least=1)
    check_integer(maxG, "maxG", least=1)
    check_fraction(level, "level")
    if 1 / (nboot + 1) > level:
        raise ValueError(
            f"With nboot={nboot} no p-value is below {1 / (nboot + 1):.2g}: at level={level:g} give "
            f"nboot={math.ceil(1 / level) - 1} or more."
        )
    rng = random_generator(random_state)
    known = {"random_state": int(rng.integers(2**31)), **parameters}
    of_drawn = {name: value for name, value in known.items() if name != "sample_weight"}
    obs, p_values, boot = list[float](), list[float](), list[Array]()
    for g in range(1, maxG + 1):
        selection = select(X, (g, g + 1), modelName, **known)
        statistic, null = _statistic(selection), selection.models.get(selection.table[0].key)
        if null is None or math.isnan(statistic):
            reason = next(row.failed for row in selection.table if row.failed)
            raise ValueError(
                f"{g} and {g + 1} components cannot be compared: {reason} Lower maxG, or give a prior."
            )
        null.set_params(random_state=rng)
        n_rows = round(selection.table[0].n_samples)
        drawn = np.array(
            [_drawn_statistic(null.sample(n_rows)[0], g, modelName, of_drawn) for _ in range(nboot)]
        )
        obs.append(statistic)
        boot.append(drawn)
        # Where one more component has no maximum of the likelihood, it is no better.
        p_values.append((1 + int(np.sum(drawn >= statistic))) / (1 + nboot))
        if p_values[-1] > level:
            break
    n_better = sum(p <= level for p in p_values)
    return BootstrapLRT(modelName, np.array(obs), np.array(p_values), boot, n_better + 1)


def _statistic(selection: Selection) -> float:
    fewer, more = (row.log_likelihood for row in selection.table)
    return 2 * (more - fewer)


def _drawn_statistic(X: Array, g: int, name: str, known: dict[str, Any]) -> float:
    """Return the statistic of a table that was drawn; NaN if the likelihood has no maximum."""
    with warnings.catch_warnings(action="ignore", category=ApolarWarning):
        try:
            return _statistic(select(X, (g, g + 1), name, **known))
        except ValueError:
            return math.nan


def _code(covariance_type: str) -> str:
    return covariance_type if covariance_type in UNIVARIATE else family(covariance_type).code


def _matrix_lines(columns: list[str], rows: list[str], values: Array) -> list[str]:
    cells = [[name, *map(_figures, line)] for name, line in zip(rows, values.tolist(), strict=True)]
    return text_table(["", *columns], cells)


def _figures(value: float) -> str:
    """Return a number with seven digits, as R prints it."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, 6 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text
