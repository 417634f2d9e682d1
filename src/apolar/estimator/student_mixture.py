"""`StudentMixture`: a mixture of components with long tails, with all that `GaussianMixture` has."""

from __future__ import annotations

import os
from typing import Any, Literal

from apolar._core.arrays import Array
from apolar._core.checks import CovarianceType, PriorName, StartName
from apolar.estimator.gaussian_mixture import GaussianMixture
from apolar.mixture.prior import Prior

__all__ = ["StudentMixture"]


class StudentMixture(GaussianMixture):
    """A mixture of t distributions: for clusters with long tails, or with outliers.

    A Gaussian mixture spends components on tails: a narrow one for the core of a cluster and a wide one for
    the rest. The degrees of freedom of a t distribution say how long its tails are: 1 is the Cauchy
    distribution, and 200 hardly differs from a Gaussian. Rows that are far from a component count less in
    its mean and its scale matrix [peel2000].

    Parameters, methods and attributes are those of `GaussianMixture`, and:

    Parameters
    ----------
    dof : {"own", "common"} or float, default="own"
        Degrees of freedom. "own": those of each component are estimated, between 1 and 200. "common": one
        number for all components. A number of at least 1 is used as given.

    Attributes
    ----------
    dof_ : ndarray, shape (n_components,)
        The degrees of freedom of the components. Those at 1 or 200 are at a limit of what is estimated.
    covariances_ : ndarray
        The scale matrices. The covariance of a component is dof / (dof - 2) times its scale matrix, and
        infinite for 2 degrees of freedom or less.

    Examples
    --------
    >>> import numpy as np
    >>> import apolar
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.standard_t(3, (300, 2)), rng.standard_t(3, (300, 2)) + 8])
    >>> sm = apolar.StudentMixture(2, random_state=0).fit(X)
    >>> sm.weights_.round(1)
    array([0.5, 0.5])
    >>> bool(sm.score(X) > apolar.GaussianMixture(2, random_state=0).fit(X).score(X))
    True
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: CovarianceType | str = "full",
        dof: str | float = "own",
        init_params: StartName | Any = "auto",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-3,
        reg_covar: float | None = None,
        prior: PriorName | Prior | None = "default",
        random_state: Any = None,
        warm_start: bool | str | os.PathLike[str] = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        n_threads: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 5,
        noise: bool | float = False,
        n_factors: int | Literal["auto"] = "auto",
    ) -> None:
        super().__init__(
            n_components,
            covariance_type=covariance_type,
            init_params=init_params,
            n_init=n_init,
            max_iter=max_iter,
            tol=tol,
            reg_covar=reg_covar,
            prior=prior,
            random_state=random_state,
            warm_start=warm_start,
            verbose=verbose,
            verbose_interval=verbose_interval,
            weights_init=weights_init,
            means_init=means_init,
            precisions_init=precisions_init,
            n_threads=n_threads,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            noise=noise,
            n_factors=n_factors,
        )
        self.dof = dof

    dof_: Array
