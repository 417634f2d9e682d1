"""EM of all fourteen families against mclust, from the same partition."""

import json

import numpy as np
import pytest

import apolar
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar.em.result import Fit
from apolar.em.run import Stop, run
from apolar.mixture.families import FAMILIES, family
from mixtures import FAMILY_NAMES
from references import FOLDER, table

CODES = [FAMILIES[name].code for name in FAMILY_NAMES]
# The M-step of mclust ends its iteration for the common axes before the maximum, or at a lower one.
WITH_COMMON_AXES = ("EVE", "VVE")


@pytest.mark.parametrize("case", ["iris_k2", "iris_k3", "diabetes_k3"])
@pytest.mark.parametrize("code", CODES)
def test_iterations_and_optimum_are_those_of_mclust(code, case):
    reference = json.loads((FOLDER / "mclust" / f"families_{case}.json").read_text())
    data = Problem(open_rows(table(reference["data"])), family(code))
    n_components, to_units = reference["n_components"], data.whitening.log_det * data.weight
    assert data.family.n_parameters(n_components, data.n_features) == reference[f"{code}_parameters"]
    stats = data.hard_stats(np.array(reference["labels"]) - 1, n_components)
    parameters = started = data.family.m_step(stats, None)
    values = []
    for _ in range(5):
        stats, likelihood = data.e_step(parameters[None])
        values.append(float(likelihood[0]) + to_units)
        parameters = data.family.m_step(stats[0], None, parameters)
    assert np.all(np.diff(values) > -1e-9)
    optimum = run(data, [Fit(started, "")], None, Stop(2000, gain=1e-9))[0].log_likelihood + to_units
    if code in WITH_COMMON_AXES:
        assert optimum > reference[code][2] - 1e-5
    else:
        # mclust ends the inner iterations of VEI, VEE and VEV at a relative change of its own.
        tolerance = 1e-7 if code in ("VEI", "VEE", "VEV") else 1e-10
        assert [values[0], values[4]] == pytest.approx(reference[code][:2], rel=tolerance)
        assert optimum == pytest.approx(reference[code][2], abs=1e-5)


@pytest.mark.filterwarnings("ignore:Two solutions with nearly equal")
def test_a_family_is_at_least_as_likely_as_those_it_contains():
    X = table("iris.csv")
    models = [
        apolar.GaussianMixture(3, covariance_type=code, prior=None, random_state=0).fit(X)
        for code in ("EEE", "EVE", "VVE", "VVV")
    ]
    assert np.all(np.diff([model.lower_bound_ for model in models]) > 0)
