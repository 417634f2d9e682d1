"""The search for maxima of the likelihood among many candidates."""

from apolar.data import open_rows
from apolar.em.kernels.runs import plain_runs
from apolar.em.problem import Problem
from apolar.mixture.families import family
from apolar.selection.comparable import is_regular
from apolar.selection.search import Candidate, LikelihoodSearch
from apolar.selection.starts import FORMS, PLAIN_TREE
from references import table


def test_no_fit_is_below_that_of_mclusts_start_without_a_prior():
    rows = open_rows(table("diabetes.csv"))
    by_form = {form: Problem(rows, form) for form in FORMS}
    search = LikelihoodSearch(by_form, lambda _, value: -value, lambda _, found: -found.value, 0, 1)
    candidate = Candidate(family("VVI"), 6)
    search.run([candidate])
    data = search.found[candidate].data
    start = search.starts.mixtures(candidate.family, 6)[PLAIN_TREE][1]
    run = plain_runs(data, start[None], None, n_steps=300, relative_tol=1e-7)
    assert is_regular(data, run.parameters[0])
    # The run was the same, but for the last digits.
    assert search.found[candidate].log_likelihood > float(run.log_likelihood[0]) - 1e-3
