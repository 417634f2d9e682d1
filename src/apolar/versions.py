"""What this installation is made of: versions, libraries of linear algebra, threads, compiled kernels."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import sklearn

import apolar
from apolar._core import compiled
from apolar._core.threads import default_threads

# By the names of their distributions: those that scikit-learn does not list.
LIBRARIES = (
    "array-api-compat",
    "jinja2",
    "pyarrow",
    "polars",
    "dask",
    "distributed",
    "torch",
    "triton",
    "cupy",
)


def show_versions() -> None:
    """Print versions, the libraries of linear algebra, the number of threads, and the kernels in use.

    Those of Python, NumPy and linear algebra are what `sklearn.show_versions` prints. A report of a problem
    should have these lines. Also `apolar --version --verbose` prints them.

    Examples
    --------
    >>> import apolar
    >>> apolar.show_versions()  # doctest: +SKIP
    apolar
         version: 0.1.0
         kernels: avx512 (the best that this processor can run, of avx512, avx2, baseline)
         threads: 2
    ...
    """
    print("apolar")
    own = {"version": apolar.__version__, "kernels": _kernels(), "threads": default_threads()}
    for name, text in (own | {name: _version(name) for name in LIBRARIES}).items():
        print(f"{name:>16}: {text}")
    sklearn.show_versions()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _kernels() -> str:
    """Return the kernels in use, and why they are."""
    in_use, wanted = compiled.kernels_in_use(), os.environ.get(compiled.VARIABLE, "").strip()
    try:
        names = import_module("apolar._kernels").targets()
    except ImportError as error:
        return f"{in_use} (the extension was not built, or cannot be loaded: {error})"
    if wanted:
        return f"{in_use} ({compiled.VARIABLE}={wanted}; this processor can run {', '.join(names)})"
    return f"{in_use} (the best that this processor can run, of {', '.join(names)})"
