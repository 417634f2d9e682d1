"""Forms and decompositions as text, in LaTeX and for SymPy."""

import numpy as np
import pytest
import sympy

import apolar
from apolar import SymmetricTensor


def test_a_decomposition_is_a_sum_of_powers():
    decomposition = apolar.Waring(np.array([1.0, -2.0]), np.array([[1.0, 0.0], [1.0, 1.0]]), 4)
    assert decomposition._repr_latex_() == r"$x^{4} - 2 \, \left(x + y\right)^{4}$"
    weights = np.array([2.5e-9, 1e20, 1j, 1 - 2j])
    several = apolar.Waring(weights, np.eye(4) + 0j, 3).to_latex(precision=4)
    assert several.replace(r" \, ", " ") == (
        r"2.5 \cdot 10^{-9} x_{1}^{3} + 1 \cdot 10^{20} x_{2}^{3} + i x_{3}^{3} + (1 - 2i) x_{4}^{3}"
    )
    linear = apolar.Waring(np.array([3.0]), np.array([[1.0, 2.0]]), 1)
    assert linear._repr_latex_() == r"$6 \, \left(0.5 \, x + y\right)$"


def test_what_is_long_ends_in_dots():
    rng = np.random.default_rng(0)
    decomposition = apolar.Waring(rng.random(20), rng.standard_normal((20, 15)), 3)
    for text, n_dots in ((decomposition._repr_latex_(), 9), (decomposition.to_tensor()._repr_latex_(), 1)):
        assert text.count(r"\dots") == n_dots
        assert text.endswith(r"+ \dots$")
        assert "x_{1" in text


def test_latex_and_sympy_of_a_form():
    form = SymmetricTensor.from_polynomial("x1^2/3 - 2*x1*x2 + x4*x3")
    assert form.to_latex() == r"\frac{1}{3} \, x_{1}^{2} - 2 \, x_{1} x_{2} + x_{3} x_{4}"
    x1, x2, x3, x4 = sympy.symbols("x1:5")
    assert form.to_sympy() == x1**2 / 3 - 2 * x1 * x2 + x3 * x4
    assert SymmetricTensor.from_polynomial(form.to_sympy()).exact_coefficients == form.exact_coefficients
    floats = SymmetricTensor(2, 2, np.array([0.25, 0.0, 0.123456789]))
    assert floats.to_latex(["a", "b"]) == r"0.25 \, a^{2} + 0.123457 \, b^{2}"
    assert SymmetricTensor.from_polynomial(floats.to_sympy()) == floats
    complex_form = SymmetricTensor.from_polynomial("2i*x^2 + x*y")
    assert SymmetricTensor.from_polynomial(complex_form.to_sympy()) == complex_form
    assert SymmetricTensor.zeros(2, 2).to_sympy() == 0
    assert SymmetricTensor.zeros(2, 2).to_latex() == "0"


def test_without_sympy_the_error_names_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sympy", None)
    with pytest.raises(ImportError, match="pip install sympy"):
        SymmetricTensor.from_polynomial("x^2").to_sympy()
