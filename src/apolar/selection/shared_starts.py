"""Starts that all families of a number of components share: merge trees, and over-seeded runs."""

from __future__ import annotations

import numpy as np

from apolar._core.settings import SETTINGS
from apolar.em.low_density import with_noise_share, without_low_density
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import SufficientStats
from apolar.mixture.prior import Prior
from apolar.search.hierarchical import MergeTree, merge_tree
from apolar.search.starts import merged_runs

__all__ = ["FORMS", "PLAIN_TREE", "SharedStarts"]

# The families without shared parameters: their whitened coordinates serve all families of the same form.
FORMS = (family("full"), family("diag"), family("spherical"))
# Merge trees: the form whose whitened coordinates are clustered, the transform of these, and the criterion.
# Under "EII" this is Ward's method; mclust's default is "VII" after "svd".
TREES = (
    (family("diag"), None, "EII"),
    (family("diag"), "svd", "EII"),
    (family("spherical"), None, "VII"),
    (family("diag"), None, "VII"),
    (family("diag"), "svd", "VII"),
    (family("full"), None, "EII"),
)
# The tree of mclust's default, whose starts are also run without a prior.
PLAIN_TREE = TREES.index((family("diag"), "svd", "VII"))


class SharedStarts:
    """Partitions of rows from which EM starts for all families.

    They depend on the rows and on the number of components alone, and not on what else is compared.

    Parameters
    ----------
    problems : dict of Family to Problem
        The rows, in memory, under `FORMS`; under that of matrices if there are more rows than columns.
    seed : int
    """

    def __init__(self, problems: dict[Family, Problem], seed: int) -> None:
        self._seed = seed
        self._problems = {form: problem.imputed() for form, problem in problems.items()}
        if next(iter(self._problems.values())).has_noise:
            kept = without_low_density(next(iter(self._problems.values())))
            self._problems = {
                form: problem.replace(rows=kept.rows, noise=None, threads=1)
                for form, problem in self._problems.items()
            }
        first = next(iter(self._problems.values()))
        chosen = np.arange(first.n_rows)
        if first.n_rows > SETTINGS.tree_rows:
            chosen = np.random.default_rng(seed).choice(first.n_rows, SETTINGS.tree_rows, replace=False)
            chosen = np.union1d(chosen, first.far_rows)
        self._in_trees = {form: problem.taken(chosen) for form, problem in self._problems.items()}
        self._trees = [self._tree(*each) for each in TREES if each[0] in self._in_trees]
        self._known: dict[tuple[Family, int], list[tuple[str, SufficientStats]]] = {}

    def _tree(self, form: Family, transform: str | None, criterion: str) -> MergeTree:
        data = self._in_trees[form]
        points = np.ascontiguousarray(data.whitened_rows().T)
        return merge_tree(points, criterion, transform=transform, sizes=data.row_weights())

    def mixtures(self, problem: Problem, n_components: int, n_init: int) -> list[Fit]:
        """Return the starts of a problem.

        Parameters
        ----------
        problem : Problem
            The rows under the family of a candidate.
        n_components : int
            At least two, and at most the number of rows.
        n_init : int
            The number of over-seeded runs.

        Returns
        -------
        starts : list of Fit
            Those of `TREES` come first, in their order.
        """
        key = problem.family.untied.gaussian, n_components
        if key not in self._known:
            self._known[key] = self._stats(*key, n_init)
        names, arrays = zip(*((name, stats.array) for name, stats in self._known[key]), strict=True)
        # One M-step of a batch costs about as much as that of one mixture.
        mixtures = problem.family.m_step(SufficientStats(np.stack(arrays), problem.n_features), Prior())
        if problem.has_noise:
            mixtures = with_noise_share(mixtures, problem.noise_share)
        return [Fit(mixtures[i], name) for i, name in enumerate(names)]

    def _stats(self, form: Family, n_components: int, n_init: int) -> list[tuple[str, SufficientStats]]:
        """Return the sufficient statistics that all families of a form start from."""
        data, in_tree = self._problems[form], self._in_trees[form]
        n_clusters = min(n_components, in_tree.n_rows)
        stats = [("tree", in_tree.hard_stats(tree.labels(n_clusters), n_clusters)) for tree in self._trees]
        n_seeds = max(n_components, min(SETTINGS.seeds_per_component * n_components, data.n_rows // 2))
        rng = np.random.default_rng([self._seed, n_components])
        overseeded = merged_runs(data, n_seeds, n_components, Prior(), rng, n_init)
        return stats + [("overseed", each) for each in overseeded]
