"""Starts that all families of a number of components share: merge trees, and over-seeded runs."""

from __future__ import annotations

import functools

import numpy as np

from apolar.em.whitened import WhitenedData
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.mixture.stats import SufficientStats
from apolar.starts.mbhc import MergeTree, merge_tree
from apolar.starts.overseed import SEEDS_PER_COMPONENT, merged_runs

__all__ = ["FORMS", "SharedStarts"]

# The families without shared parameters: their whitened coordinates serve all families of the same form.
FORMS = (family("full"), family("diag"), family("spherical"))
# The most rows of a merge tree: its time grows with the square of the rows.
TREE_ROWS = 1000
# Merge trees by the form whose whitened coordinates are clustered. Under "EII" this is Ward's method.
TREES = {family("diag"): "EII", family("full"): "EII", family("spherical"): "VII"}
# Over-seeded runs per form.
OVERSEEDED_STARTS = 2


class SharedStarts:
    """Partitions of rows from which EM starts for all families.

    They depend on the rows and on the number of components alone, and not on what else is compared.

    Parameters
    ----------
    by_form : dict of Family to WhitenedData
        The rows, in memory, under each of `FORMS`.
    seed : int
    """

    def __init__(self, by_form: dict[Family, WhitenedData], seed: int) -> None:
        self._by_form, self._seed = by_form, seed
        self._overseeded: dict[tuple[Family, int], list[SufficientStats]] = {}
        n_rows = by_form[FORMS[0]].n_rows
        chosen = np.arange(n_rows)
        if n_rows > TREE_ROWS:
            chosen = np.sort(np.random.default_rng(seed).choice(n_rows, TREE_ROWS, replace=False))
        self._in_trees = {form: data.taken(chosen) for form, data in by_form.items()}

    @functools.cached_property
    def _trees(self) -> list[MergeTree]:
        """Merge trees of the rows, in the whitened coordinates of each form."""
        trees = []
        for form, criterion in TREES.items():
            data = self._in_trees[form]
            points = np.ascontiguousarray(data.whitened_rows().T)
            trees.append(merge_tree(points, criterion, sizes=data.row_weights()))
        return trees

    def mixtures(self, kind: Family, n_components: int) -> list[tuple[str, WhitenedParameters]]:
        """Return the starts of a family, and their names.

        Parameters
        ----------
        kind : Family
        n_components : int
            At most the number of rows.

        Returns
        -------
        starts : list of tuple of str and WhitenedParameters
            In the whitened coordinates of the form of the family.
        """
        in_tree = self._in_trees[kind.untied].under(kind)
        prior = Prior()
        if n_components == 1:
            labels = np.zeros(in_tree.n_rows, dtype=np.intp)
            return [("one component", in_tree.family.m_step(in_tree.hard_stats(labels, 1), prior))]
        starts = []
        n_clusters = min(n_components, in_tree.n_rows)
        for tree in self._trees:
            stats = in_tree.hard_stats(tree.labels(n_clusters), n_clusters)
            starts.append(("tree", in_tree.family.m_step(stats, prior)))
        overseeded = self._overseeded_stats(kind.untied, n_components)
        return starts + [("overseed", in_tree.family.m_step(stats, prior)) for stats in overseeded]

    def _overseeded_stats(self, form: Family, n_components: int) -> list[SufficientStats]:
        """Return the statistics of over-seeded runs without sharing: starts of all families of a form."""
        key = form, n_components
        if key not in self._overseeded:
            data = self._by_form[form]
            n_seeds = max(n_components, min(SEEDS_PER_COMPONENT * n_components, data.n_rows // 2))
            rng = np.random.default_rng([self._seed, n_components])
            self._overseeded[key] = merged_runs(data, n_seeds, n_components, Prior(), rng, OVERSEEDED_STARTS)
        return self._overseeded[key]
