"""Candidates by maximum likelihood: the search on some rows, the fits to all of them, and their models."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar._core.threads import one_blas_thread
from apolar.data import ArrayRows, Rows
from apolar.em.loop import converge
from apolar.em.problem import Problem
from apolar.em.result import Fit, FitStatus, in_canonical_order
from apolar.em.rounding import has_rounding
from apolar.em.run import evidence_of
from apolar.em.whitening import column_units
from apolar.estimator import GaussianMixture
from apolar.estimator.few_rows import few_rows_seen
from apolar.estimator.fitted import FittedState
from apolar.estimator.predict import Likelihood
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import MixtureParameters
from apolar.moments.covariance import ColumnMoments, is_constant
from apolar.scores import CRITERIA, FitSummary
from apolar.selection.comparable import NO_MAXIMUM, is_regular, too_many_parameters
from apolar.selection.progress import ON_ALL_ROWS, Callback, Progress
from apolar.selection.result import Row
from apolar.selection.search import Candidate, Found, LikelihoodSearch, continued, exact
from apolar.selection.starts import FORMS

__all__ = ["ConstantColumns", "Fitted", "LikelihoodFits"]

Fitted = tuple[Row, Callable[[], GaussianMixture] | None]
"""The row of a candidate, and a function that returns its model, if it has one."""

# The search runs on at most this many rows.
SEARCHED_ROWS = 10_000
# A candidate is fitted to all rows unless, on those of the search, its criterion is above the lowest by more
# than so many standard errors of the difference, and by more than this.
CHANCE_ERRORS = 4.0
MIN_DIFFERENCE = 10.0
# The tolerance of EM on all rows, and its most passes.
TOLERANCE = 1e-3
PASSES = 500


@dataclass(frozen=True, eq=False)
class ConstantColumns:
    """Columns that are left out of the comparison: the likelihood has no maximum with them.

    Attributes
    ----------
    is_constant : ndarray of bool, shape (n_features,)
    mean, units : ndarray, shape (n_features,)
        Of all columns. In a constant column, components have the standard deviation of its unit.
    """

    is_constant: Array
    mean: Array
    units: Array

    @classmethod
    def of(cls, columns: ColumnMoments) -> ConstantColumns | None:
        """Return the constant columns, if some columns are constant and others are not."""
        constant = is_constant(columns.mean, columns.variances)
        if not np.any(constant) or np.all(constant):
            return None
        return cls(constant, columns.mean, column_units(np.maximum(columns.variances, 0.0), columns.mean))

    def without(self, rows: Rows) -> Rows:
        """Return the rows of an array without these columns."""
        values, weights = rows.take(slice(None))
        names = rows.names
        rows = ArrayRows(values[:, ~self.is_constant], weights)
        rows.names = None if names is None else tuple(np.asarray(names, dtype=object)[~self.is_constant])
        return rows

    def put_back(self, parameters: MixtureParameters, kind: Family) -> MixtureParameters:
        """Return a mixture of the other columns as one of all columns."""
        varying = np.flatnonzero(~self.is_constant)
        means = np.tile(self.mean, (len(parameters.weights), 1))
        means[:, varying] = parameters.means
        covariances = np.asarray(parameters.covariances)
        if kind.n_axes == 1:
            spread = np.broadcast_to(self.units**2, (*covariances.shape[:-1], len(self.units))).copy()
            spread[..., varying] = covariances
            covariances = spread
        elif kind.n_axes == 2:
            m = len(self.units)
            spread = np.broadcast_to(np.diag(self.units**2), (*covariances.shape[:-2], m, m)).copy()
            spread[..., varying[:, None], varying] = covariances
            covariances = spread
        return replace(parameters, means=means, covariances=covariances)


@dataclass(frozen=True, eq=False)
class LikelihoodFits:
    """The rows, and how candidates are compared.

    The criteria of information theory are those of the maximum of the likelihood. So candidates are fitted
    without a prior, and one for which the likelihood has no maximum is not compared.

    Attributes
    ----------
    rows : Rows
    settings : dict
        Parameters of the estimator that all candidates share.
    criterion : str
    n_threads : int
    dtype : dtype
        Of the fitted attributes.
    names : dict
        Attributes that say which columns the rows have.
    callback : callable or None
        Told of the progress.
    constants : ConstantColumns or None
        Those that the rows are without.
    """

    rows: Rows
    settings: dict[str, Any]
    criterion: str
    n_threads: int
    dtype: Any
    names: dict[str, Any]
    callback: Callback | None = None
    constants: ConstantColumns | None = None

    def table(self, kinds: Iterable[str], numbers: Iterable[int]) -> list[Fitted]:
        """Return the rows of all candidates, by kind and number, and their models."""
        begun = time.perf_counter()
        names = {family(kind): kind for kind in kinds}
        candidates = [Candidate(kind, n) for kind in names for n in numbers]
        with one_blas_thread():
            comparison = self._comparison
            refused = comparison.refused(candidates)
            search = comparison.search
            progress = Progress(self.callback)
            search.run((each for each in candidates if each not in refused), progress)
            found, stopped = comparison.on_all_rows(progress)
            table: list[Fitted] = []
            for each in candidates:
                row = Row(
                    names[each.family],
                    each.n_components,
                    comparison.n_parameters(each),
                    failed=refused.get(each, search.failed.get(each)),
                    dropped=comparison.why_dropped(each),
                )
                if each in found:
                    table.append(self._fitted(row, found[each], is_stopped=each in stopped))
                else:
                    table.append((row, None))
        seconds = (time.perf_counter() - begun) / len(candidates)
        return [(replace(row, seconds=seconds), model) for row, model in table]

    @functools.cached_property
    def _comparison(self) -> _Comparison:
        seed = self.settings["random_state"]
        return _Comparison.of(self.rows, self.criterion, seed, self.n_threads)

    @property
    def is_incomplete(self) -> bool:
        """Whether values are missing."""
        return self._comparison.by_form[FORMS[0]].is_incomplete

    def _fitted(
        self, row: Row, found: Found, *, is_stopped: bool
    ) -> tuple[Row, Callable[[], GaussianMixture]]:
        """Return the row of a fit, and a function that returns its model."""
        data = found.data
        evaluated = converge(data, found.result, None, tol=0.0, max_iter=0)
        status = FitStatus.CONVERGED if found.converged and not is_stopped else FitStatus.MAX_ITER
        result = evaluated.updated(status=status, n_iter=found.n_iter)
        offset = data.whitening.log_det * data.weight
        density, certainty = data.density_sums(result.parameters)
        likelihood = Likelihood(density + offset, data.weight, certainty)
        criteria: dict[str, Any] = likelihood.criteria(row.n_parameters, evidence_of(data, result) + offset)
        few = None if data.is_wide else few_rows_seen(data, result)
        row = replace(
            row,
            log_likelihood=likelihood.log_likelihood,
            converged=status is FitStatus.CONVERGED,
            start=found.start,
            warnings=() if few is None else (few,),
            n_samples=data.weight,
            **criteria,
        )
        return row, functools.partial(self._model, row, found, result)

    def _model(self, row: Row, found: Found, result: Fit) -> GaussianMixture:
        """Return a fitted mixture."""
        model = GaussianMixture(**self.settings)
        model.set_params(n_components=row.n_components, covariance_type=row.covariance_type, prior=None)
        result = in_canonical_order(result, found.data.family, found.data.whitening)
        state = FittedState.of_fit(result, found.data, self.dtype)
        state = replace(state, lower_bound=row.log_likelihood / found.data.weight, evidence=-row.evidence / 2)
        if self.constants is not None:
            parameters = self.constants.put_back(state.parameters, found.data.family)
            rounding = np.zeros(len(self.constants.mean))
            if state.rounding_variances is not None:
                rounding[~self.constants.is_constant] = state.rounding_variances
            kind = family(row.covariance_type)
            state = replace(state, family=kind, parameters=parameters, rounding_variances=rounding)
        state.set_on(model)
        for name, value in self.names.items():
            setattr(model, name, value)
        return model


@dataclass(frozen=True, eq=False)
class _Comparison:
    """Candidates on all rows, and on the rows of the search, whose likelihoods are scaled to all of them."""

    by_form: dict[Family, Problem]
    searched: dict[Family, Problem]
    criterion: str
    seed: int
    n_threads: int

    @classmethod
    def of(cls, rows: Rows, criterion: str, seed: int, n_threads: int) -> _Comparison:
        """Return the comparison for rows of any source."""
        by_form = {form: Problem(rows, form, threads=n_threads) for form in FORMS}
        if by_form[FORMS[0]].is_incomplete:
            return cls(by_form, by_form, criterion, seed, n_threads)
        searched = {}
        for form, data in by_form.items():
            sample = data.subsample(SEARCHED_ROWS, np.random.default_rng(seed))
            searched[form] = Problem(sample.rows, form, sample.whitening)
            searched[form].far_rows = sample.far_rows
        return cls(by_form, searched, criterion, seed, n_threads)

    @property
    def weight(self) -> float:
        """The sum of the weights of all rows."""
        return self.by_form[FORMS[0]].weight

    @property
    def scale(self) -> float:
        """The weight of all rows, relative to that of the rows of the search."""
        return self.weight / self.searched[FORMS[0]].weight

    def n_parameters(self, candidate: Candidate) -> int:
        """Return the number of free parameters of a candidate."""
        n_features = self.by_form[FORMS[0]].n_features
        return candidate.family.n_parameters(candidate.n_components, n_features)

    def refused(self, candidates: list[Candidate]) -> dict[Candidate, str]:
        """Return the candidates for which there are too few rows, each with the reason."""
        data = self.by_form[FORMS[0]]
        scale, out = data.scale, {}
        # A single number is given, not chosen.
        is_choice = len({each.n_components for each in candidates}) > 1
        constant = [] if scale is None else np.flatnonzero(is_constant(scale.mean, scale.variances)).tolist()
        for each in candidates:
            too_many = too_many_parameters(each.family, each.n_components, data.n_features, data.weight)
            if each.n_components > data.n_rows:
                out[each] = (
                    f"n_components = {each.n_components} components need at least as many rows; got "
                    f"n_samples = {data.n_rows}."
                )
            elif len(constant) and not each.family.is_spherical:
                out[each] = f"column {constant[0]} of X is constant: leave it out."
            elif is_choice and too_many is not None:
                out[each] = too_many
        return out

    def least(self, candidate: Candidate, value: float) -> float:
        """Return the least criterion at a log-likelihood of the rows of the search."""
        return self._value(candidate, value, 0.0)

    def value(self, candidate: Candidate, found: Found) -> float:
        """Return the criterion of a fit to the rows of the search."""
        certainty = 0.0
        if self.criterion == "icl":
            responsibilities = np.asarray(found.data.row_responsibilities(found.parameters)[0])
            certainties = np.log(responsibilities.max(axis=0))
            weights = found.data.row_weights()
            certainty = float(certainties.sum() if weights is None else certainties @ weights)
        return self._value(candidate, found.value, certainty)

    def _value(self, candidate: Candidate, value: float, certainty: float) -> float:
        n_parameters, scale = self.n_parameters(candidate), self.scale
        # Of each parameter that is fitted to fewer rows, their likelihood is higher by 1/2 on average.
        value = scale * value - 0.5 * (scale - 1) * n_parameters
        fit = FitSummary(value, n_parameters, self.weight, certainty * scale)
        return CRITERIA[self.criterion](fit)

    @functools.cached_property
    def search(self) -> LikelihoodSearch:
        """The search on some of the rows."""
        return LikelihoodSearch(self.searched, self.least, self.value, self.seed, self.n_threads, self.scale)

    def why_dropped(self, candidate: Candidate) -> str | None:
        """Return why a candidate was not fitted, in words."""
        if candidate not in self.search.bounds:
            return None
        bound, other = self.search.bounds[candidate]
        return f"no lower than {bound:.1f}, as {other} contains it and is no more likely"

    def on_all_rows(self, progress: Progress) -> tuple[dict[Candidate, Found], set[Candidate]]:
        """Return the candidates as fitted to all rows, and those for which EM was not run on all of them."""
        found = self.search.found
        if self.by_form[FORMS[0]].n_rows <= self.searched[FORMS[0]].n_rows:
            return found, set()
        far = self._far_behind()
        progress.begin(ON_ALL_ROWS, len(found) - len(far))
        on_all = {}
        for each, fit in found.items():
            continued = self._continued(fit, each in far)
            if continued is None:
                self.search.failed[each] = NO_MAXIMUM
            else:
                on_all[each] = continued
            if each not in far:
                progress.step()
        return on_all, far

    def _far_behind(self) -> set[Candidate]:
        """Return the candidates that are behind by more than chance on the rows of the search."""
        values, found = self.search.values, self.search.found
        best = min(values, key=lambda each: values[each])
        densities, far = _densities(found[best]), set()
        for each, fit in found.items():
            gaps = densities - _densities(fit)
            error = 2 * self.scale * float(np.std(gaps)) * np.sqrt(len(gaps))
            if values[each] - values[best] > max(CHANCE_ERRORS * error, MIN_DIFFERENCE):
                far.add(each)
        return far

    def _continued(self, found: Found, is_far: bool) -> Found | None:
        """Return a fit to the rows of the search as one to all rows, by EM unless it is far behind.

        None if a component collapses.
        """
        data = self.by_form[found.data.family.untied].under(found.data.family)
        if has_rounding(found.data):
            data = data.with_noise(np.asarray(found.data.whitening.noise))
        on_all = replace(found, data=data)
        if is_far:
            return exact(on_all)
        result = converge(data, found.result, None, tol=TOLERANCE, max_iter=PASSES, checked_on=found.data)
        return exact(continued(on_all, result)) if is_regular(data, result.parameters) else None


def _densities(found: Found) -> Array:
    """Return the log-density of each row, in the units of the data."""
    densities = np.asarray(found.data.row_responsibilities(found.parameters)[1])
    return densities + found.data.whitening.log_det
