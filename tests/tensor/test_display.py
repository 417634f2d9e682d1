"""Forms and decompositions in LaTeX, for notebooks."""

import numpy as np
import pytest

import apolar
from apolar.tensor.display import latex_number


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2.0, "2"),
        (-0.33333, "-0.3333"),
        (2.5e-9, r"2.5 \cdot 10^{-9}"),
        (1e20, r"1 \cdot 10^{20}"),
        (1j, "i"),
        (1 - 2j, "(1 - 2i)"),
    ],
)
def test_numbers(value, expected):
    assert latex_number(value) == expected


def test_a_form_is_a_polynomial():
    form = apolar.SymmetricTensor.from_polynomial({(3, 0): 1.0, (1, 2): -3.0})
    assert form._repr_latex_() == r"$x^{3} - 3 \, x y^{2}$"
    assert apolar.SymmetricTensor.zeros(2, 2)._repr_latex_() == "$0$"


def test_variables_have_indices_and_long_forms_end_in_dots():
    rng = np.random.default_rng(0)
    form = apolar.SymmetricTensor.from_waring(rng.random(3), rng.standard_normal((3, 12)), 3)
    text = form._repr_latex_()
    assert "x_{1" in text
    assert text.endswith(r"+ \dots$")


def test_a_decomposition_is_a_sum_of_powers():
    decomposition = apolar.Waring(np.array([1.0, -2.0]), np.array([[1.0, 0.0], [1.0, 1.0]]), 4)
    assert decomposition._repr_latex_() == r"$x^{4} - 2 \, \left(x + y\right)^{4}$"
    linear = apolar.Waring(np.array([3.0]), np.array([[1.0, 2.0]]), 1)
    assert linear._repr_latex_() == r"$6 \, \left(0.5 \, x + y\right)$"


def test_what_is_long_ends_in_dots():
    rng = np.random.default_rng(0)
    decomposition = apolar.Waring(rng.random(20), rng.standard_normal((20, 15)), 3)
    text = decomposition._repr_latex_()
    assert text.count(r"\dots") == 9
    assert text.endswith(r"+ \dots$")
