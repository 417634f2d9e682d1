"""HTML pages from templates, with everything that is shown escaped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any


def need_jinja2() -> None:
    """Raise an error that says what to install, if jinja2 is not there."""
    try:
        import jinja2  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise ImportError('Pages need jinja2: pip install "apolar[report]".') from error


def rendered(package: str, filters: Mapping[str, Callable[[Any], str]], **content: Any) -> str:
    """Return the template `page.html` of a package, filled in.

    Parameters
    ----------
    package : str
    filters : mapping of str to callable
        What the template may apply to a value.
    **content : object
        What it shows.

    Returns
    -------
    html : str
    """
    need_jinja2()
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(filters)
    source = resources.files(package).joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(source).render(**content)
