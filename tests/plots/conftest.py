"""Figures that pyplot keeps are closed after each test."""

import sys

import pytest


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
