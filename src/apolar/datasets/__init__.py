"""The paper's examples."""

from apolar.datasets.examples import example_mixture, make_example

__all__ = ["example_mixture", "make_example"]
