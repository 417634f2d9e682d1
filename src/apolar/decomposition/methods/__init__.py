"""The methods of `decompose`: one table, from the name of a method to the function that runs it."""

from collections.abc import Callable

import numpy as np

from apolar.decomposition.candidates import CandidateTerms
from apolar.decomposition.methods.auto import auto
from apolar.decomposition.methods.pencil import pencil
from apolar.decomposition.methods.problem import Problem
from apolar.decomposition.methods.spm import spm

__all__ = ["METHODS", "Problem"]

METHODS: dict[str, Callable[[Problem, np.random.Generator], tuple[CandidateTerms, str]]] = {
    "auto": auto,
    "pencil": pencil,
    "spm": spm,
}
"""Each returns terms, refined if the problem says so, and where their number comes from."""
