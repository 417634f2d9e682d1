"""A mixture that learns from a stream: first a start from the rows so far, then stepwise EM."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from apolar._arrays import Array
from apolar._rows import Rows, gathered, open_rows
from apolar._rows.rows import stacked
from apolar.em.frame import Frame
from apolar.em.loop import converge, in_canonical_order
from apolar.em.table import Table
from apolar.mixture.components import Components
from apolar.mixture.families import Family
from apolar.mixture.prior import Prior
from apolar.moments.sketch import MAX_COLUMNS, MomentSketch
from apolar.recovery import mixture_from_moments
from apolar.starts import started
from apolar.starts.moments import in_frame

# Rows are kept until there are this many a component and column, but no fewer than the least: the start is
# made from them.
ROWS_A_PARAMETER = 20
LEAST_ROWS = 5000
# Stepwise EM forgets with the power of the number of rows seen [cappe2009].
FORGETTING = 0.8
# The mixture of all moments takes over if the log-likelihood of a new batch is higher by this much.
CLEARLY_BETTER = 10.0
# Passes and tolerance of EM on the kept rows.
PASSES = 200
TOLERANCE = 1e-2


@dataclass(eq=False)
class Stream:
    """What is known of the rows of a stream, in bounded memory.

    Attributes
    ----------
    family : Family
    n_components : int
    prior : Prior or None
    start : str
        The start that the kept rows are fitted from.
    weight : float
        The sum of the weights of the rows seen.
    components : Components or None
        The mixture so far, in the units of the data.
    mean_likelihood : float
        Of the rows of the last batch, under the mixture after it.
    noise : float
        The variance of the noise that each row is taken to have.
    """

    family: Family
    n_components: int
    prior: Prior | None
    start: str
    weight: float = 0.0
    components: Components | None = None
    mean_likelihood: float = -np.inf
    noise: float = 0.0
    _kept: list[tuple[Array, Array | None]] = field(default_factory=list)
    _frame: Frame | None = None
    _sums: Array | None = None
    _sketch: MomentSketch | None = None
    _compared: float = 0.0

    @classmethod
    def after(
        cls, family: Family, components: Components, frame: Frame, weight: float, prior: Prior | None
    ) -> Stream:
        """Return the stream that goes on where a fit of rows of that weight ended."""
        inside = frame.components_inward(components)
        stream = cls(family, components.n_components, prior, "moments", weight, components)
        stream._frame, stream._sums = frame, family.sums_of(inside, weight, prior)
        return stream

    def update(self, rows: Rows, rng: np.random.Generator, threads: int) -> None:
        """Learn from a batch of rows."""
        if self._frame is None:
            self._start_from(rows, rng, threads)
        else:
            self._step(rows, threads)

    def _start_from(self, rows: Rows, rng: np.random.Generator, threads: int) -> None:
        """Fit all rows kept so far; from enough of them on, keep only sums."""
        values, weights = gathered(rows, np.arange(rows.n_rows or 0))
        if weights is None and any(other is not None for _, other in self._kept):
            weights = np.ones(values.shape[0])
        kept = [*self._kept, (values, weights)]
        all_weights = None
        if any(other is not None for _, other in kept):
            all_weights = np.concatenate([np.ones(v.shape[0]) if w is None else w for v, w in kept])
        all_rows = open_rows(stacked([v for v, _ in kept]), all_weights)
        table = Table(all_rows, self.family, threads=threads, noise=self.noise)
        if table.n_rows < self.n_components:
            raise ValueError(
                f"{self.n_components} components need at least as many rows; the first batches have "
                f"n_samples = {table.n_rows}. Pass more rows at once."
            )
        afresh = self.components is None or table.weight >= 2 * self._compared
        if afresh:
            first = started(self.start, table, self.n_components, self.prior, rng)[0][0].components
        else:
            assert self.components is not None
            first = table.frame.components_inward(self.components)
        fit = converge(table, first, self.prior, tol=TOLERANCE, max_iter=PASSES)
        # Until the rows are enough, the order may change; from then on it stays.
        fit = in_canonical_order(fit, self.family, table.frame)
        # Only now, that nothing can fail any more, is anything remembered.
        self._kept, self.weight = kept, table.weight
        self._compared = table.weight if afresh else self._compared
        self.components = table.frame.components_outward(fit.components)
        self.mean_likelihood = fit.log_likelihood / table.weight + table.frame.log_det
        enough = max(LEAST_ROWS, ROWS_A_PARAMETER * self.n_components * (table.n_features + 1))
        if table.n_rows >= enough:
            self._frame, self._sums = table.frame, fit.sums
            self._compared = table.weight
            if self.n_components <= table.n_features <= MAX_COLUMNS:
                self._sketch = MomentSketch(table.n_features).update(all_rows)
            self._kept = []

    def _step(self, rows: Rows, threads: int) -> None:
        """Mix the sums of a batch into those of the stream: stepwise EM."""
        assert self._frame is not None
        assert self._sums is not None
        assert self.components is not None
        checked = Table(rows, self.family, threads=threads)  # reads the rows once, and checks them
        frame = replace(self._frame, n_rows=checked.n_rows, weight=checked.weight)
        batch = Table(rows, self.family, frame, threads)
        inside = frame.components_inward(self.components)
        sums, likelihood = batch.expectation(inside[None])
        total = self.weight + batch.weight
        rate = (batch.weight / total) ** FORGETTING
        mixed = (1 - rate) * self._sums / self.weight + rate * sums[0] / batch.weight
        if self._sketch is not None:
            self._sketch.update(rows)
        self.weight = total
        self._sums = mixed * total
        if self._sketch is not None and total >= 2 * self._compared:
            self._compare_with_moments(batch, float(likelihood[0]))
        self.components = frame.components_outward(self.family.maximised(self._sums, self.prior))
        self.mean_likelihood = float(likelihood[0]) / batch.weight + frame.log_det

    def _compare_with_moments(self, batch: Table, likelihood: float) -> None:
        """Take the mixture of the moments of all rows seen, if a new batch likes it clearly better."""
        assert self._sketch is not None
        self._compared = self.weight
        try:
            found = mixture_from_moments(self._sketch, self.n_components)
        except ValueError:
            return
        rival = in_frame(batch, found, np.ones(batch.n_features))
        if float(batch.expectation(rival[None])[1][0]) > likelihood + CLEARLY_BETTER:
            self._sums = self.family.sums_of(rival, self.weight, self.prior)
