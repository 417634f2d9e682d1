"""Starts that all families of a number of components share: merge trees, and over-seeded runs."""

from __future__ import annotations

import functools

import numpy as np

from apolar._core.arrays import IndexArray
from apolar._core.settings import SETTINGS
from apolar.em.problem import Problem
from apolar.mixture.families import Family, family
from apolar.mixture.parameters import SufficientStats, WhitenedParameters
from apolar.mixture.prior import Prior
from apolar.search.hierarchical import MergeTree, merge_tree
from apolar.search.starts import merged_runs

__all__ = ["FORMS", "SharedStarts"]

# The families without shared parameters: their whitened coordinates serve all families of the same form.
FORMS = (family("full"), family("diag"), family("spherical"))
# The most rows of a merge tree: its time grows with the square of the rows.
TREE_ROWS = 1000
# Merge trees: the form whose whitened coordinates are clustered, the transform of these, and the criterion.
# Under "EII" this is Ward's method; mclust's default is "VII" after "svd".
TREES = (
    (family("diag"), None, "EII"),
    (family("full"), None, "EII"),
    (family("diag"), "svd", "EII"),
    (family("spherical"), None, "VII"),
    (family("diag"), None, "VII"),
    (family("diag"), "svd", "VII"),
)
# The tree of mclust's default, whose starts are also run without a prior.
PLAIN_TREE = TREES.index((family("diag"), "svd", "VII"))
# Over-seeded runs of each form.
OVERSEEDED_STARTS = dict.fromkeys(FORMS, 1)


class SharedStarts:
    """Partitions of rows from which EM starts for all families.

    They depend on the rows and on the number of components alone, and not on what else is compared.

    Parameters
    ----------
    by_form : dict of Family to Problem
        The rows, in memory, under each of `FORMS`.
    seed : int
    """

    def __init__(self, by_form: dict[Family, Problem], seed: int) -> None:
        self._by_form, self._seed = by_form, seed
        self._known: dict[tuple[Family, int], list[tuple[str, SufficientStats]]] = {}
        self._clusters: dict[tuple[int, int], IndexArray] = {}
        n_rows = by_form[FORMS[0]].n_rows
        chosen = np.arange(n_rows)
        if n_rows > TREE_ROWS:
            chosen = np.random.default_rng(seed).choice(n_rows, TREE_ROWS, replace=False)
            chosen = np.union1d(chosen, by_form[FORMS[0]].far_rows)
        self._in_trees = {form: data.taken(chosen) for form, data in by_form.items()}

    @functools.cached_property
    def _trees(self) -> list[MergeTree]:
        """Merge trees of the rows, which all forms share."""
        trees = []
        for form, transform, criterion in TREES:
            data = self._in_trees[form]
            points, sizes = np.ascontiguousarray(data.whitened_rows().T), data.row_weights()
            trees.append(merge_tree(points, criterion, transform=transform, sizes=sizes))
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
            In the whitened coordinates of the form of the family. Of more than one component, those of
            `TREES` come first, in their order.
        """
        key = kind.untied, n_components
        if key not in self._known:
            self._known[key] = self._stats(*key)
        family, prior = self._by_form[kind.untied].under(kind).family, Prior()
        names, arrays = zip(*((name, stats.array) for name, stats in self._known[key]), strict=True)
        # One M-step of a batch costs about as much as that of one mixture.
        mixtures = family.m_step(
            SufficientStats(np.stack(arrays), self._in_trees[FORMS[0]].n_features), prior
        )
        return [(name, mixtures[i]) for i, name in enumerate(names)]

    def _stats(self, form: Family, n_components: int) -> list[tuple[str, SufficientStats]]:
        """Return the sufficient statistics that all families of a form start from."""
        data, in_tree = self._by_form[form], self._in_trees[form]
        if n_components == 1:
            return [("one component", data.hard_stats(np.zeros(data.n_rows, dtype=np.intp), 1))]
        n_clusters = min(n_components, in_tree.n_rows)
        partitions = [self._labels(i, n_clusters) for i in range(len(self._trees))]
        stats = [("tree", in_tree.hard_stats(labels, n_clusters)) for labels in partitions]
        n_seeds = max(n_components, min(SETTINGS.seeds_per_component * n_components, data.n_rows // 2))
        rng = np.random.default_rng([self._seed, n_components])
        overseeded = merged_runs(data, n_seeds, n_components, Prior(), rng, OVERSEEDED_STARTS[form])
        return stats + [("overseed", each) for each in overseeded]

    def _labels(self, i: int, n_clusters: int) -> IndexArray:
        """Return the clusters of a tree, which are those of all forms."""
        key = i, n_clusters
        if key not in self._clusters:
            self._clusters[key] = self._trees[i].labels(n_clusters)
        return self._clusters[key]
