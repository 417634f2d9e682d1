"""Where the reproduction of the paper is: its tables, its figures, and the images of MNIST."""

import importlib
import sys
from pathlib import Path
from typing import Any

# In a clone, next to `src`.
CLONE = Path(__file__).parents[3] / "reproduction"
REMEDY = (
    "This needs the package apolar-reproduction, which is not part of apolar: "
    'pip install "git+https://github.com/apolar/apolar#subdirectory=reproduction", or work in a clone.'
)


def import_reproduction(module: str) -> Any:
    """Return a module of `apolar_reproduction`: as installed, or as it is in a clone.

    Raises
    ------
    ImportError
        With the command that installs it, where it is in neither place.
    """
    if CLONE.is_dir() and str(CLONE) not in sys.path:
        sys.path.append(str(CLONE))
    try:
        return importlib.import_module(f"apolar_reproduction.{module}")
    except ModuleNotFoundError as error:
        if error.name != "apolar_reproduction":
            raise
        raise ImportError(REMEDY) from error
