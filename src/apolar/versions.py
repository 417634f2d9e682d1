"""What this installation is made of: versions, libraries of linear algebra, threads, compiled kernels."""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from threadpoolctl import threadpool_info

import apolar
from apolar._core import compiled
from apolar._core.threads import default_threads

# As they are installed, by the names of their distributions.
REQUIRED = ("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "narwhals", "array-api-compat")
OPTIONAL = (
    "matplotlib",
    "jinja2",
    "pyarrow",
    "pandas",
    "polars",
    "dask",
    "distributed",
    "torch",
    "triton",
    "cupy",
)


def show_versions() -> None:
    """Print versions, the libraries of linear algebra, the number of threads, and the kernels in use.

    A report of a problem should have these lines. Also `apolar --version --verbose` prints them.

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
    for title, entries in _sections().items():
        print(title)
        for name, text in entries:
            print(f"{name:>16}: {text}")


def _sections() -> dict[str, list[tuple[str, str]]]:
    """Return the names and texts of each section, by its title."""
    return {
        "apolar": [
            ("version", apolar.__version__),
            ("kernels", _kernels()),
            ("threads", str(default_threads())),
        ],
        "System": [
            ("Python", sys.version.replace("\n", " ")),
            ("executable", sys.executable),
            ("platform", platform.platform()),
        ],
        "Libraries": [(name, _version(name)) for name in REQUIRED],
        "Optional libraries": [(name, _version(name)) for name in OPTIONAL],
        "Libraries with threads": [
            (str(library["user_api"]), _describe_library(library)) for library in threadpool_info()
        ],
    }


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


def _describe_library(library: dict[str, Any]) -> str:
    """Return what threadpoolctl says about a library."""
    name = " ".join(
        str(library[key]) for key in ("internal_api", "version", "architecture") if library.get(key)
    )
    return f"{name}, {library['num_threads']} threads, {library['filepath']}"
