"""How many components, and which covariance family: fit them all, and compare."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from apolar._core.checks import check_integer, one_of, random_generator
from apolar._core.threads import one_blas_thread
from apolar.data import Rows
from apolar.em.loop import converge, short_runs
from apolar.em.whitened import WhitenedData
from apolar.em.whitening import ROUNDING
from apolar.estimator import GaussianMixture
from apolar.estimator.attributes import fitted_attributes
from apolar.estimator.inputs import opened
from apolar.exceptions import CollapsedWarning, ConstantColumnWarning
from apolar.mixture.families import family
from apolar.mixture.order import canonical_order
from apolar.mixture.parameters import MixtureParameters, WhitenedParameters, batch
from apolar.mixture.prior import Prior
from apolar.moments.covariance import column_moments
from apolar.scores import lower_is_better_aic, lower_is_better_bic
from apolar.starts.auto import KEPT, LEAST_GAIN, MOST_ROWS, PASSES, SPLIT_STEPS, TOLERANCE
from apolar.starts.merging import merged_pairs
from apolar.starts.splitting import with_one_more

__all__ = ["Row", "Selection", "select"]

CRITERIA = ("bic", "aic", "icl")
# What a difference of the criterion says, from this size on [kass1995, section 3.2].
EVIDENCE = (
    (10.0, "very strong evidence"),
    (6.0, "strong evidence"),
    (2.0, "positive evidence"),
    (0.0, "hardly worth a mention"),
)
# Parameters of the estimator that fix the number of components, or make no sense for many fits.
REFUSED = (
    "warm_start", "weights_init", "means_init", "precisions_init", "checkpoint", "checkpoint_every",
)  # fmt: skip
# Pairs of components whose mergers are tried.
MERGERS = 10
# What a fit may raise that says something of the candidate, not of the program.
FAILURES = (ValueError, ArithmeticError, MemoryError)


@dataclass(frozen=True)
class Row:
    """One candidate of a selection.

    Attributes
    ----------
    covariance_type : str
    n_components : int
    n_parameters : int
    log_likelihood : float
        Of all rows together; this and the criteria are NaN if the candidate failed.
    bic, aic, icl : float
        Lower is better.
    converged : bool
    start : str
        The start that won: one of the estimator's, or "split of" or "merger of" a neighbour.
    seconds : float
        What the candidate took.
    failed : str or None
        Why there is no such mixture.
    warnings : tuple of str
        What the fit warned of.
    """

    covariance_type: str
    n_components: int
    n_parameters: int
    log_likelihood: float = np.nan
    bic: float = np.nan
    aic: float = np.nan
    icl: float = np.nan
    converged: bool = False
    start: str = ""
    seconds: float = 0.0
    failed: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def named(self) -> str:
        """The candidate in words."""
        return f"{self.n_components} {self.covariance_type} component{'s' * (self.n_components > 1)}"


@dataclass(frozen=True, eq=False)
class Selection:
    """What `select` found.

    Attributes
    ----------
    best : GaussianMixture
        The fitted mixture with the lowest criterion.
    table : tuple of Row
        All candidates, in the order they were asked for.
    criterion : {"bic", "aic", "icl"}
    reason : str
        What won, by how much, and what that means, in words.
    models : dict
        The fitted mixtures by (covariance_type, n_components), without those that failed.
    """

    best: GaussianMixture
    table: tuple[Row, ...]
    criterion: str
    reason: str
    models: dict[tuple[str, int], GaussianMixture] = field(repr=False)

    def __str__(self) -> str:
        head = ("covariance", "components", "parameters", "log-likelihood", "BIC", "AIC", "ICL", "start", "")
        lines = [head, *(self._cells(row) for row in self.table)]
        widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
        texts = []
        for line in lines:
            # Words to the left, numbers to the right.
            cells = [
                cell.ljust(width) if k in (0, 7, 8) else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            texts.append("  ".join(cells).rstrip())
        return "\n".join([*texts, "", self.reason])

    def _cells(self, row: Row) -> tuple[str, ...]:
        if row.failed is not None:
            numbers, note = ["-"] * 4, f"failed: {row.failed}"
        else:
            values = (row.log_likelihood, row.bic, row.aic, row.icl)
            numbers, note = [f"{value:.1f}" for value in values], "" if row.converged else "not converged"
        if self.models.get((row.covariance_type, row.n_components)) is self.best:
            note = f"<- lowest {self.criterion.upper()}" + (f", {note}" if note else "")
        counts = (str(row.n_components), str(row.n_parameters))
        return (row.covariance_type, *counts, *numbers, row.start, note)

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame, one row a candidate."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: install it, or read the rows of .table.") from error
        return pandas.DataFrame([asdict(row) for row in self.table])


def select(
    X: Any,
    n_components: int | Iterable[int] = range(1, 10),
    covariance_type: str | Iterable[str] = ("spherical", "diag", "full"),
    criterion: str = "bic",
    *,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
    **parameters: Any,
) -> Selection:
    """Fit mixtures of several sizes and covariance families, and choose one.

    Each candidate is fitted from the start of the estimator. Then neighbours help each other: upwards, the
    mixture of one component less is tried with a component split; downwards, the one of one component more
    with two merged. What they find is kept if it is clearly better, so that a poor start of one candidate
    does not decide.

    Parameters
    ----------
    X : array_like, sparse matrix, dataframe, or iterable of chunks that can be read again
        Of shape (n_samples, n_features).
    n_components : int or iterable of int, default=range(1, 10)
    covariance_type : str or iterable of str, default=("spherical", "diag", "full")
        As the estimator has them, mclust's codes included.
    criterion : {"bic", "aic", "icl"}, default="bic"
        Lower is better. The ICL counts overlapping components as one.
    sample_weight : array_like, shape (n_samples,), optional
        How many rows each row stands for.
    n_jobs : int or None, default=None
        Processes that fit candidates at the same time; None is one, -1 is one a processor. The result does
        not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        All candidates are fitted with the same seed.
    verbose : int, default=0
        Whether to print a line on each candidate.
    **parameters
        Of `GaussianMixture`: init_params, n_init, max_iter, tol, prior, n_threads.

    Returns
    -------
    selection : Selection
        Candidates that fail are in its table, with the reason; what single fits warn of is there as well.

    Examples
    --------
    >>> import apolar
    >>> from apolar.selection import select
    >>> X, _ = apolar.datasets.make_example(2, random_state=0)
    >>> found = select(X, range(1, 5), "spherical", random_state=0)
    >>> found.best.n_components
    3
    >>> print(found.reason)
    3 spherical components have the lowest BIC, ...: very strong evidence (Kass and Raftery 1995).
    """
    one_of(criterion, "criterion", CRITERIA)
    numbers, kinds = _checked_numbers(n_components), _checked_kinds(covariance_type)
    model = _checked_model(parameters, random_state)
    # The one way in for tables of every make, with the checks and the messages of the estimator.
    source = opened(model, X, sample_weight, reset=True, least_rows=2)
    _warn_of_constant_columns(source, getattr(model, "feature_names_in_", None))
    parallel = effective_n_jobs(n_jobs) > 1
    if parallel and source.is_distributed:
        raise ValueError("With rows of Dask its workers share each fit: leave n_jobs out.")
    common = {**model.get_params(), "n_threads": 1} if parallel else model.get_params()
    search = _Search(X, sample_weight, common)
    # The longest first, so that nobody waits for one at the end.
    order = sorted(
        ((kind, r) for kind in kinds for r in numbers),
        key=lambda pair: -pair[1] * family(pair[0]).n_stats(source.n_features),
    )
    # Processes: threads wait for each other's Python, for few rows so much that they gain nothing.
    pool = Parallel(n_jobs=n_jobs, prefer="processes")
    tried = dict(zip(order, pool(delayed(search.fitted)(*pair) for pair in order), strict=True))
    by_kind = dict.fromkeys(kind for kind, _ in order)
    swept = pool(
        delayed(search.swept)(kind, {r: tried[kind, r] for r in sorted(numbers)}) for kind in by_kind
    )
    rows = {(row.covariance_type, row.n_components): (row, one) for part in swept for row, one in part}
    in_order = [rows[kind, r] for kind in kinds for r in numbers]
    threads = model.n_threads
    models = {
        (row.covariance_type, row.n_components): one.set_params(n_threads=threads, warm_start=False)
        for row, one in in_order
        if row.failed is None and one is not None
    }
    table = tuple(row for row, _ in in_order)
    for row in table if verbose else ():
        ended = row.failed or f"log-likelihood {row.log_likelihood:.8g}, BIC {row.bic:.8g}"
        print(f"{row.named}: {ended}, {row.seconds:.2g} s")
    if not models:
        raise ValueError(f"Every candidate failed. {table[0].named}: {table[0].failed}")
    ranked = sorted(
        (row for row in table if row.failed is None),
        key=lambda row: (getattr(row, criterion), row.n_parameters),
    )
    best = models[ranked[0].covariance_type, ranked[0].n_components]
    return Selection(best, table, criterion, _reason(ranked, numbers, criterion), models)


# --- what users pass ------------------------------------------------------------------------


def _warn_of_constant_columns(rows: Rows, names: Any) -> None:
    """Tell of columns that are constant: their parameters are counted, and say nothing of the rows."""
    if rows.is_distributed or not rows.in_memory:
        return  # not worth a pass
    _, _, mean, variances = column_moments(rows)
    constant = np.flatnonzero(np.sqrt(np.maximum(variances, 0.0)) <= ROUNDING * np.abs(mean))
    if not 0 < len(constant) < rows.n_features:
        return
    shown = ", ".join(str(column) if names is None else repr(names[column]) for column in constant[:5])
    more = f" and {len(constant) - 5} more" if len(constant) > 5 else ""
    warnings.warn(
        f"Constant columns ({shown}{more}) are counted by the criterion, though nothing is to be learnt from "
        "them, and can change the choice: leave them out.",
        ConstantColumnWarning,
        stacklevel=3,
    )


def _checked_numbers(n_components: Any) -> tuple[int, ...]:
    single = isinstance(n_components, str | bytes) or not isinstance(n_components, Iterable)
    given = [n_components] if single else list(n_components)
    numbers = dict.fromkeys(check_integer(number, "n_components", least=1) for number in given)
    if not numbers:
        raise ValueError("n_components is empty: give a number, or several, as in range(1, 10).")
    return tuple(numbers)


def _checked_kinds(covariance_type: Any) -> tuple[str, ...]:
    single = isinstance(covariance_type, str) or not isinstance(covariance_type, Iterable)
    given = [covariance_type] if single else list(covariance_type)
    # By family: "full" and "VVV" are the same.
    kinds: dict[str, str] = {}
    for one in given:
        kinds.setdefault(family(one).name, one)
    if not kinds:
        raise ValueError("covariance_type is empty: give a family, or several, as in ('diag', 'full').")
    return tuple(kinds.values())


def _checked_model(parameters: dict[str, Any], random_state: Any) -> GaussianMixture:
    """Return an estimator with the parameters that all candidates share."""
    known = set(GaussianMixture().get_params()) - {"n_components", "covariance_type", *REFUSED}
    for name, value in parameters.items():
        fixes = name == "init_params" and not isinstance(value, str) and not callable(value)
        if name in REFUSED or fixes:
            raise ValueError(
                f"{name} belongs to one mixture, and select fits several: fit a GaussianMixture with it."
            )
        if name not in known:
            listed = ", ".join(sorted(known - {"random_state", "verbose"}))
            raise TypeError(f"select has no parameter {name!r}; those of the fits are {listed}.")
    if random_state is None or not isinstance(random_state, int | np.integer):
        random_state = int(random_generator(random_state).integers(2**31))
    random_generator(random_state)
    model = GaussianMixture(random_state=random_state, **parameters)
    model._checked_parameters()
    return model


# --- the fits -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Tried:
    """A candidate so far; without a model if it could not be fitted."""

    model: GaussianMixture | None
    seconds: float
    warnings: tuple[str, ...]
    failed: str | None

    @property
    def likelihood(self) -> float:
        """The mean log-likelihood of the rows."""
        return -np.inf if self.model is None or self.failed else float(self.model.lower_bound_)


@dataclass(frozen=True, eq=False)
class _Search:
    """The data, and the parameters that all candidates share."""

    X: Any
    sample_weight: Any
    parameters: dict[str, Any]

    def fitted(
        self, kind: str, n_components: int, start: MixtureParameters | None = None, name: str = ""
    ) -> _Tried:
        """Return a candidate, from the start of the estimator or from a mixture in the units of the data."""
        begun = time.perf_counter()
        model = GaussianMixture(**self.parameters)
        model.set_params(n_components=n_components, covariance_type=kind)
        if start is not None:
            model.set_params(warm_start=True)
            model.weights_, model.means_, model.covariances_ = start.weights, start.means, start.covariances
        error = None
        with warnings.catch_warnings(record=True) as heard, one_blas_thread():
            warnings.simplefilter("always")
            try:
                model.fit(self.X, sample_weight=self.sample_weight)
            except FAILURES as raised:
                error = str(raised)
        texts = tuple(dict.fromkeys(str(one.message) for one in heard))
        if error is not None:
            return _Tried(None, time.perf_counter() - begun, texts, error)
        if start is not None:
            model.start_ = name
            _put_in_canonical_order(model)
        failed = next((str(one.message) for one in heard if one.category is CollapsedWarning), None)
        return _Tried(model, time.perf_counter() - begun, texts, failed)

    def swept(self, kind: str, tried: dict[int, _Tried]) -> list[tuple[Row, GaussianMixture | None]]:
        """Return the rows of a family and their mixtures, after neighbours have helped each other.

        Parameters
        ----------
        kind : str
        tried : dict of int to _Tried
            By number of components, ascending.

        Returns
        -------
        found : list of tuple of Row and GaussianMixture or None
        """
        with one_blas_thread():
            return self._swept(kind, tried)

    def _swept(self, kind: str, tried: dict[int, _Tried]) -> list[tuple[Row, GaussianMixture | None]]:
        model = GaussianMixture(**self.parameters)
        rows = opened(model, self.X, self.sample_weight, reset=True)
        noise = self.parameters["reg_covar"] or 0.0
        data = WhitenedData(rows, family(kind), threads=model._threads(), noise=noise)
        rng = np.random.default_rng(self.parameters["random_state"])
        sample = data.subsample(MOST_ROWS, rng)
        tried = dict(tried)
        for r in tried:
            if r - 1 in tried:
                tried[r] = self._helped(data, sample, tried[r], tried[r - 1], rng)
        for r in reversed(tried):
            if r + 1 in tried:
                tried[r] = self._helped(data, sample, tried[r], tried[r + 1], rng)
        return [(_row(data, kind, r, one), one.model) for r, one in tried.items()]

    def _helped(
        self,
        data: WhitenedData,
        sample: WhitenedData,
        own: _Tried,
        neighbour: _Tried,
        rng: np.random.Generator,
    ) -> _Tried:
        """Return the candidate, or a better one that its neighbour leads to."""
        if own.model is None or neighbour.model is None or neighbour.failed:
            return own
        begun = time.perf_counter()
        found = own
        # What goes wrong on the way says nothing of the candidate there is.
        with warnings.catch_warnings(), suppress(*FAILURES):
            warnings.simplefilter("ignore")
            found = self._led_to(data, sample, own, own.model, neighbour.model, rng)
        return replace(found, seconds=own.seconds + time.perf_counter() - begun)

    def _led_to(
        self,
        data: WhitenedData,
        sample: WhitenedData,
        own: _Tried,
        model: GaussianMixture,
        neighbour: GaussianMixture,
        rng: np.random.Generator,
    ) -> _Tried:
        r, prior = model.n_components, self.parameters["prior"]
        prior = Prior() if prior == "default" else prior
        known = -np.inf
        if not own.failed:
            known = float(sample.e_step(_inward(sample, model)[None])[1][0])
        there = _inward(sample, neighbour)
        if there.n_components < r:
            proposals, way = with_one_more(sample, there, rng), "split"
        else:
            proposals, way = _with_one_less(sample, there, prior), "merger"
        # As in the default start: short runs with a prior, whether or not one was asked for.
        grown, _ = short_runs(sample, batch(proposals), prior or Prior(), SPLIT_STEPS)
        # Candidates are compared by likelihood, and so are the ways to one: with the prior added, mixtures
        # of almost empty components, which the prior alone decides, would come out best.
        likelihood = sample.e_step(grown)[1]
        order = np.argsort(-np.where(np.isfinite(likelihood), likelihood, -np.inf), kind="stable")[:KEPT]
        found = own
        for i in order:
            fit = converge(sample, grown[int(i)], prior, tol=TOLERANCE, max_iter=PASSES)
            if not fit.log_likelihood > known + LEAST_GAIN:
                continue
            start = sample.whitening.inverse_transform_parameters(fit.parameters)
            other = self.fitted(model.covariance_type, r, start, f"{way} of {there.n_components}")
            if (other.likelihood - found.likelihood) * data.weight > LEAST_GAIN:
                found, known = other, fit.log_likelihood
        return found


def _inward(data: WhitenedData, model: GaussianMixture) -> WhitenedParameters:
    """Return the components of a fitted mixture in the frame of a table."""
    return data.whitening.transform_parameters(model._parameters())


def _with_one_less(
    data: WhitenedData, components: WhitenedParameters, prior: Prior | None
) -> list[WhitenedParameters]:
    """Return the mixture with two components merged, for the pairs where that costs least."""
    return [data.family.m_step(one, prior) for one in merged_pairs(data, components, MERGERS)]


def _put_in_canonical_order(model: GaussianMixture) -> None:
    """Reorder the components of a fit, as the estimator does where the start is its own."""
    kind, components = family(model.covariance_type), model._parameters()
    ordered = kind.reordered(components, canonical_order(components.weights, components.means))
    for name, value in fitted_attributes(kind, ordered, model.means_.dtype).items():
        setattr(model, name, value)


def _row(data: WhitenedData, kind: str, n_components: int, one: _Tried) -> Row:
    """Return the row of a candidate."""
    n_parameters = data.family.n_parameters(n_components, data.n_features)
    row = Row(kind, n_components, n_parameters, seconds=one.seconds, warnings=one.warnings, failed=one.failed)
    if one.model is None:
        return row
    row = replace(row, converged=one.model.converged_, start=one.model.start_)
    if one.failed:
        return row
    found = one.model._reader().likelihood(data.rows, data.threads)
    bic = lower_is_better_bic(found.log_likelihood, n_parameters, found.weight)
    return replace(
        row,
        log_likelihood=found.log_likelihood,
        bic=bic,
        aic=lower_is_better_aic(found.log_likelihood, n_parameters),
        icl=bic - 2 * found.log_certainty,
    )


# --- the verdict --------------------------------------------------------------------------


def _reason(ranked: list[Row], numbers: tuple[int, ...], criterion: str) -> str:
    """Return what won and by how much, in words.

    Parameters
    ----------
    ranked : list of Row
        Those that did not fail, the best first.
    numbers : tuple of int
        The numbers of components that were tried.
    criterion : str

    Returns
    -------
    reason : str
    """
    best, name = ranked[0], criterion.upper()
    lowest = getattr(best, criterion)
    has = "has" if best.n_components == 1 else "have"
    text = f"{best.named} {has} the lowest {name}, {lowest:.1f}"
    if len(ranked) == 1:
        text += ": there is no other to compare with."
    else:
        difference = getattr(ranked[1], criterion) - lowest
        size = next(words for least, words in EVIDENCE if difference >= least)
        text += f", {difference:.1f} below {ranked[1].named}: {size} (Kass and Raftery 1995)."
    for warning in best.warnings:
        text += f" But: {warning}"
    r, most, least = best.n_components, max(numbers), min(numbers)
    if most > least and r == most:
        text += f" No more than {r} were tried: try more, as with n_components=range({r}, {2 * r + 1})."
    elif most > least and r == least > 1:
        text += f" No fewer than {r} were tried: try fewer, as with n_components=range(1, {r + 1})."
    return text
