"""The paper's examples, and real data."""

from apolar.datasets.bundled import (
    Dataset,
    example_mixture,
    load_diabetes,
    load_iris,
    load_mnist01,
    load_olive,
    make_example,
)

__all__ = [
    "Dataset",
    "example_mixture",
    "load_diabetes",
    "load_iris",
    "load_mnist01",
    "load_olive",
    "make_example",
]
